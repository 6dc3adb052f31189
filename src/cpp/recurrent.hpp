// One recurrent layer on windows of steps, a plain one (tanh) or an LSTM, and its closed-form gradients.
//
// Arrays are stored with the samples last, so that all loops run over samples: inputs (n_steps, n_inputs, n_samples),
// states (n_steps, n_hidden, n_samples). An LSTM has four gates in the order input, forget, candidate, output.
#pragma once

#include "parallel.hpp"

namespace softboost {
namespace SB_ISA {

constexpr int64_t kRecurrentRows = 128;  // the steps of a block of rows stay in the cache

template <typename T>
int64_t gate_rows(const RecurrentLayer<T>& layer) {
  return (layer.is_lstm ? 4 : 1) * layer.n_hidden;
}

template <typename T>
inline void sigmoid_rows(T* values, int64_t n) {
  SB_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T t = values[i];
    const T e = exp_nonpositive(t < T(0) ? t : -t);
    const T large = T(1) / (T(1) + e);
    values[i] = t < T(0) ? e * large : large;
  }
}

template <typename T>
inline void tanh_rows(const T* values, int64_t n, T* out) {
  SB_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T t = values[i];
    const T e = exp_nonpositive(t < T(0) ? T(2) * t : T(-2) * t);
    const T size = (T(1) - e) / (T(1) + e);
    out[i] = t < T(0) ? -size : size;
  }
}

// out (count, out_stride) += weights (count, n_in) in (n_in, in_stride), for n samples; the sums stay in registers
template <int count, typename T>
inline void add_product_rows(const T* weights, int64_t n_in, const T* in, int64_t in_stride, int64_t n, T* out,
                             int64_t out_stride) {
  constexpr int64_t lanes = Lanes<T>::count;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    typename Lanes<T>::vec sum[count];
    for (int j = 0; j < count; ++j) sum[j] = load(out + j * out_stride + i);
    for (int64_t k = 0; k < n_in; ++k) {
      const auto value = load(in + k * in_stride + i);
      for (int j = 0; j < count; ++j) sum[j] += weights[j * n_in + k] * value;
    }
    for (int j = 0; j < count; ++j) store(out + j * out_stride + i, sum[j]);
  }
  for (; i < n; ++i)
    for (int j = 0; j < count; ++j) {
      T sum = out[j * out_stride + i];
      for (int64_t k = 0; k < n_in; ++k) sum += weights[j * n_in + k] * in[k * in_stride + i];
      out[j * out_stride + i] = sum;
    }
}

template <typename T>
void add_product(const T* weights, int64_t n_out, int64_t n_in, const T* in, int64_t in_stride, int64_t n, T* out,
                 int64_t out_stride) {
  int64_t o = 0;
  for (; o + 4 <= n_out; o += 4)
    add_product_rows<4>(weights + o * n_in, n_in, in, in_stride, n, out + o * out_stride, out_stride);
  for (; o < n_out; ++o)
    add_product_rows<1>(weights + o * n_in, n_in, in, in_stride, n, out + o * out_stride, out_stride);
}

template <typename T>
std::vector<T> transposed(const T* matrix, int64_t n_rows, int64_t n_columns) {
  std::vector<T> out(static_cast<size_t>(n_rows * n_columns));
  for (int64_t r = 0; r < n_rows; ++r)
    for (int64_t c = 0; c < n_columns; ++c) out[static_cast<size_t>(c * n_rows + r)] = matrix[r * n_columns + c];
  return out;
}

// states (n_steps, n_hidden, n_samples) of x. For the gradients of an LSTM, `gates` (n_steps, 4 n_hidden, n_samples)
// and `cells` (n_steps, n_hidden, n_samples) are stored too, unless they are null.
template <typename T>
void recurrent_states(const RecurrentLayer<T>& layer, const T* x, int64_t n_samples, int n_threads, T* states, T* gates,
                      T* cells) {
  const int64_t hidden = layer.n_hidden, n_gates = gate_rows(layer), N = n_samples;
  parallel_for(block_count(N, kRecurrentRows), n_threads, [&](int64_t block) {
    const int64_t begin = block * kRecurrentRows, n = std::min(kRecurrentRows, N - begin);
    const int64_t stride = kRecurrentRows;
    std::vector<T> gate(static_cast<size_t>(n_gates * stride)), cell(static_cast<size_t>(hidden * stride)),
        wide(stride);
    for (int64_t t = 0; t < layer.n_steps; ++t) {
      for (int64_t g = 0; g < n_gates; ++g) std::fill_n(gate.data() + g * stride, n, layer.bias[g]);
      add_product(layer.input_weights, n_gates, layer.n_inputs, x + t * layer.n_inputs * N + begin, N, n, gate.data(),
                  stride);
      if (t > 0)
        add_product(layer.state_weights, n_gates, hidden, states + (t - 1) * hidden * N + begin, N, n, gate.data(),
                    stride);
      for (int64_t k = 0; k < hidden; ++k) {
        T* state = states + (t * hidden + k) * N + begin;
        if (!layer.is_lstm) {
          tanh_rows(gate.data() + k * stride, n, state);
          continue;
        }
        T* in = gate.data() + k * stride;
        T* forget = in + hidden * stride;
        T* candidate = forget + hidden * stride;
        T* out = candidate + hidden * stride;
        T* c = cell.data() + k * stride;
        sigmoid_rows(in, n);
        sigmoid_rows(forget, n);
        tanh_rows(candidate, n, candidate);
        sigmoid_rows(out, n);
        SB_SIMD
        for (int64_t i = 0; i < n; ++i) c[i] = forget[i] * c[i] + in[i] * candidate[i];
        tanh_rows(c, n, wide.data());
        SB_SIMD
        for (int64_t i = 0; i < n; ++i) state[i] = out[i] * wide[i];
        if (cells != nullptr) std::copy_n(c, n, cells + (t * hidden + k) * N + begin);
      }
      if (gates != nullptr)
        for (int64_t g = 0; g < n_gates; ++g)
          std::copy_n(gate.data() + g * stride, n, gates + (t * n_gates + g) * N + begin);
    }
  });
}

// One step backwards for unit k: `grad` is the gradient of its state, `grad_cell` that of its cell from the step after;
// writes the gradients of the unit's gates before their activation, rows `stride` apart from each other.
template <typename T>
void unit_gradients(const RecurrentLayer<T>& layer, int64_t t, int64_t k, int64_t begin, int64_t n, int64_t N,
                    const T* states, const T* gates, const T* cells, const T* grad, T* grad_cell, T* wide, T* out,
                    int64_t stride) {
  const int64_t hidden = layer.n_hidden;
  if (!layer.is_lstm) {
    const T* state = states + (t * hidden + k) * N + begin;
    SB_SIMD
    for (int64_t i = 0; i < n; ++i) out[i] = grad[i] * (T(1) - state[i] * state[i]);
    return;
  }
  const T* in = gates + (t * 4 * hidden + k) * N + begin;
  const T* forget = in + hidden * N;
  const T* candidate = forget + hidden * N;
  const T* open = candidate + hidden * N;
  const T* before = t > 0 ? cells + ((t - 1) * hidden + k) * N + begin : nullptr;
  T* to_in = out;
  T* to_forget = to_in + hidden * stride;
  T* to_candidate = to_forget + hidden * stride;
  T* to_out = to_candidate + hidden * stride;
  tanh_rows(cells + (t * hidden + k) * N + begin, n, wide);
  SB_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T cell = grad_cell[i] + grad[i] * open[i] * (T(1) - wide[i] * wide[i]);
    to_out[i] = grad[i] * wide[i] * open[i] * (T(1) - open[i]);
    to_in[i] = cell * candidate[i] * in[i] * (T(1) - in[i]);
    to_candidate[i] = cell * in[i] * (T(1) - candidate[i] * candidate[i]);
    to_forget[i] = cell * forget[i] * (T(1) - forget[i]);
    grad_cell[i] = cell * forget[i];
  }
  for (int64_t i = 0; i < n; ++i) to_forget[i] *= before == nullptr ? T(0) : before[i];
}

// Adds to grad (n_out, n_in): the sum over steps and samples of upstream (steps, n_out, stride) times in (steps, n_in,
// in_stride), for `count` outputs from o.
template <int count, typename T>
inline void add_weight_gradient_rows(const T* upstream, int64_t stride, const T* in, int64_t in_stride, int64_t n_steps,
                                     int64_t n_out, int64_t n_in, int64_t n, int64_t o, T* grad) {
  constexpr int64_t lanes = Lanes<T>::count;
  for (int64_t k = 0; k < n_in; ++k) {
    typename Lanes<T>::vec sum[count]{};
    T rest[count]{};
    for (int64_t t = 0; t < n_steps; ++t) {
      const T* a = upstream + (t * n_out + o) * stride;
      const T* b = in + (t * n_in + k) * in_stride;
      int64_t i = 0;
      for (; i + lanes <= n; i += lanes) {
        const auto value = load(b + i);
        for (int j = 0; j < count; ++j) sum[j] += load(a + j * stride + i) * value;
      }
      for (; i < n; ++i)
        for (int j = 0; j < count; ++j) rest[j] += a[j * stride + i] * b[i];
    }
    for (int j = 0; j < count; ++j) grad[(o + j) * n_in + k] += lane_sum<T>(sum[j]) + rest[j];
  }
}

template <typename T>
void add_weight_gradient(const T* upstream, int64_t stride, const T* in, int64_t in_stride, int64_t n_steps,
                         int64_t n_out, int64_t n_in, int64_t n, T* grad) {
  int64_t o = 0;
  for (; o + 4 <= n_out; o += 4)
    add_weight_gradient_rows<4>(upstream, stride, in, in_stride, n_steps, n_out, n_in, n, o, grad);
  for (; o < n_out; ++o) add_weight_gradient_rows<1>(upstream, stride, in, in_stride, n_steps, n_out, n_in, n, o, grad);
}

// Gradients of sum(grad_states * states) with respect to both weights, the bias and, unless it is null, x.
template <typename T>
void recurrent_gradients(const RecurrentLayer<T>& layer, const T* x, const T* states, const T* gates, const T* cells,
                         const T* grad_states, int64_t n_samples, int n_threads, T* grad_input_weights,
                         T* grad_state_weights, T* grad_bias, T* grad_x) {
  const int64_t hidden = layer.n_hidden, n_gates = gate_rows(layer), N = n_samples, n_inputs = layer.n_inputs;
  const int64_t sizes[3] = {n_gates * n_inputs, n_gates * hidden, n_gates};
  const int64_t per_block = sizes[0] + sizes[1] + sizes[2], n_blocks = block_count(N, kRecurrentRows);
  const std::vector<T> to_state = transposed(layer.state_weights, n_gates, hidden);
  const std::vector<T> to_input = transposed(layer.input_weights, n_gates, n_inputs);
  std::vector<T> partial(static_cast<size_t>(per_block * n_blocks));
  parallel_for(n_blocks, n_threads, [&](int64_t block) {
    const int64_t begin = block * kRecurrentRows, n = std::min(kRecurrentRows, N - begin), stride = kRecurrentRows;
    std::vector<T> upstream(static_cast<size_t>(layer.n_steps * n_gates * stride));
    std::vector<T> grad(static_cast<size_t>(hidden * stride)), grad_cell(grad.size()), wide(stride);
    for (int64_t t = layer.n_steps - 1; t >= 0; --t) {
      T* here = upstream.data() + t * n_gates * stride;
      for (int64_t k = 0; k < hidden; ++k)
        std::copy_n(grad_states + (t * hidden + k) * N + begin, n, grad.data() + k * stride);
      if (t + 1 < layer.n_steps)
        add_product(to_state.data(), hidden, n_gates, here + n_gates * stride, stride, n, grad.data(), stride);
      for (int64_t k = 0; k < hidden; ++k)
        unit_gradients(layer, t, k, begin, n, N, states, gates, cells, grad.data() + k * stride,
                       grad_cell.data() + k * stride, wide.data(), here + k * stride, stride);
      if (grad_x != nullptr) {
        for (int64_t c = 0; c < n_inputs; ++c) std::fill_n(grad_x + (t * n_inputs + c) * N + begin, n, T(0));
        add_product(to_input.data(), n_inputs, n_gates, here, stride, n, grad_x + t * n_inputs * N + begin, N);
      }
    }
    T* sums = partial.data() + block * per_block;
    add_weight_gradient(upstream.data(), stride, x + begin, N, layer.n_steps, n_gates, n_inputs, n, sums);
    add_weight_gradient(upstream.data() + n_gates * stride, stride, states + begin, N, layer.n_steps - 1, n_gates,
                        hidden, n, sums + sizes[0]);
    for (int64_t t = 0; t < layer.n_steps; ++t)
      for (int64_t g = 0; g < n_gates; ++g) {
        const T* row = upstream.data() + (t * n_gates + g) * stride;
        T total = 0;
        SB_SIMD_SUM(total)
        for (int64_t i = 0; i < n; ++i) total += row[i];
        sums[sizes[0] + sizes[1] + g] += total;
      }
  });
  T* outputs[3] = {grad_input_weights, grad_state_weights, grad_bias};
  int64_t offset = 0;
  for (int part = 0; part < 3; offset += sizes[part++])
    for (int64_t j = 0; j < sizes[part]; ++j) {
      T sum = 0;
      for (int64_t block = 0; block < n_blocks; ++block) sum += partial[block * per_block + offset + j];
      outputs[part][j] = sum;
    }
}

}  // namespace SB_ISA
}  // namespace softboost
