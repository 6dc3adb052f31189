// One recurrent layer: its states and gradients.
#include "bindings.hpp"

namespace softboost {

namespace {

template <typename T>
RecurrentLayer<T> view(bool is_lstm, const In3<T>& x, const In2<T>& input_weights, const In2<T>& state_weights,
                       const In1<T>& bias) {
  return {is_lstm,
          size(x.shape(0)),
          size(x.shape(1)),
          size(state_weights.shape(1)),
          input_weights.data(),
          state_weights.data(),
          bias.data()};
}

template <typename T>
void register_recurrent(nb::module_& m) {
  m.def(
      "recurrent_states",
      [](bool is_lstm, In3<T> x, In2<T> input_weights, In2<T> state_weights, In1<T> bias, bool store, int n_threads) {
        const size_t steps = x.shape(0), n = x.shape(2), hidden = state_weights.shape(1), n_gates = bias.size();
        const bool stored = store && is_lstm;
        std::vector<T> states(steps * hidden * n), gates(stored ? steps * n_gates * n : 0),
            cells(stored ? states.size() : 0);
        const auto layer = view<T>(is_lstm, x, input_weights, state_weights, bias);
        {
          nb::gil_scoped_release release;
          kernels<T>().recurrent_states(layer, x.data(), size(n), n_threads, states.data(),
                                        stored ? gates.data() : nullptr, stored ? cells.data() : nullptr);
        }
        return nb::make_tuple(array(std::move(states), {steps, hidden, n}),
                              array(std::move(gates), {stored ? steps : 0, n_gates, n}),
                              array(std::move(cells), {stored ? steps : 0, hidden, n}));
      },
      "is_lstm"_a, "x"_a.noconvert(), "input_weights"_a.noconvert(), "state_weights"_a.noconvert(),
      "bias"_a.noconvert(), "store"_a, "n_threads"_a);
  m.def(
      "recurrent_gradients",
      [](bool is_lstm, In3<T> x, In2<T> input_weights, In2<T> state_weights, In1<T> bias, In3<T> states, In3<T> gates,
         In3<T> cells, In3<T> grad_states, bool of_x, int n_threads) {
        const size_t steps = x.shape(0), inputs = x.shape(1), n = x.shape(2);
        const size_t hidden = state_weights.shape(1), n_gates = bias.size();
        std::vector<T> gi(n_gates * inputs), gs(n_gates * hidden), gb(n_gates), gx(of_x ? steps * inputs * n : 0);
        const auto layer = view<T>(is_lstm, x, input_weights, state_weights, bias);
        {
          nb::gil_scoped_release release;
          kernels<T>().recurrent_gradients(layer, x.data(), states.data(), gates.data(), cells.data(),
                                           grad_states.data(), size(n), n_threads, gi.data(), gs.data(), gb.data(),
                                           of_x ? gx.data() : nullptr);
        }
        return nb::make_tuple(array(std::move(gi), {n_gates, inputs}), array(std::move(gs), {n_gates, hidden}),
                              array(std::move(gb), {n_gates}), array(std::move(gx), {of_x ? steps : 0, inputs, n}));
      },
      "is_lstm"_a, "x"_a.noconvert(), "input_weights"_a.noconvert(), "state_weights"_a.noconvert(),
      "bias"_a.noconvert(), "states"_a.noconvert(), "gates"_a.noconvert(), "cells"_a.noconvert(),
      "grad_states"_a.noconvert(), "of_x"_a, "n_threads"_a);
}

}  // namespace

void bind_recurrent(nb::module_& m) {
  register_recurrent<float>(m);
  register_recurrent<double>(m);
}

}  // namespace softboost
