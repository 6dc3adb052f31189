// Feed-forward networks: their fit and their outputs.
#include "bindings.hpp"

namespace softboost {

namespace {

template <typename T>
NetworkInputs<T> view(const In2<T>& x, const In1<T>& mean, const In1<T>& scale, double farthest) {
  return {x.data(), mean.data(), scale.data(), static_cast<T>(farthest)};
}

template <typename T>
void register_network(nb::module_& m) {
  m.def(
      "fit_networks",
      [](In2<T> x, In2<T> y, In1<T> weight, In1<T> mean, In1<T> scale, double farthest, int64_t n_hidden,
         int64_t n_layers, In2<T> start, In3<int32_t> order, double learning_rate, int n_threads) {
        const NetworkShape shape{size(x.shape(1)), n_hidden, n_layers, size(y.shape(1))};
        const NetworkInputs<T> inputs = view(x, mean, scale, farthest);
        std::vector<T> parameters(start.data(), start.data() + start.size());
        run_interruptibly([&](Interrupt* interrupt) {
          kernels<T>().fit_networks(shape, inputs, y.data(), weight.data(), size(order.shape(0)), order.data(),
                                    size(order.shape(1)), size(order.shape(2)), learning_rate, n_threads, interrupt,
                                    parameters.data());
        });
        return array(std::move(parameters), {start.shape(0), start.shape(1)});
      },
      "x"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert(), "mean"_a.noconvert(), "scale"_a.noconvert(),
      "farthest"_a, "n_hidden"_a, "n_layers"_a, "start"_a.noconvert(), "order"_a.noconvert(), "learning_rate"_a,
      "n_threads"_a);
  m.def(
      "network_outputs",
      [](In2<T> x, In1<T> mean, In1<T> scale, double farthest, int64_t n_hidden, int64_t n_layers, int64_t n_outputs,
         In2<T> parameters, int n_threads) {
        const NetworkShape shape{size(x.shape(1)), n_hidden, n_layers, n_outputs};
        const NetworkInputs<T> inputs = view(x, mean, scale, farthest);
        std::vector<T> out(x.shape(0) * static_cast<size_t>(n_outputs));
        {
          nb::gil_scoped_release release;
          kernels<T>().network_outputs(shape, inputs, size(x.shape(0)), parameters.data(), size(parameters.shape(0)),
                                       n_threads, out.data());
        }
        return array(std::move(out), {x.shape(0), static_cast<size_t>(n_outputs)});
      },
      "x"_a.noconvert(), "mean"_a.noconvert(), "scale"_a.noconvert(), "farthest"_a, "n_hidden"_a, "n_layers"_a,
      "n_outputs"_a, "parameters"_a.noconvert(), "n_threads"_a);
}

}  // namespace

void bind_network(nb::module_& m) {
  register_network<float>(m);
  register_network<double>(m);
}

}  // namespace softboost
