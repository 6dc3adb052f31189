// Feed-forward networks of rectified units, which are fitted to several outputs at once.
//
// Samples are stored last in a batch, so that all products and loops run over samples. A network is one vector of
// parameters: for each layer the weights (n_out, n_in), then the bias (n_out,). The last layer is linear.
#pragma once

#include <algorithm>
#include <cmath>
#include <thread>

#include "matrix.hpp"
#include "parallel.hpp"

namespace softboost {
namespace SB_ISA {

constexpr double kMomentum = 0.9, kSecondMomentum = 0.999, kAdamFloor = 1e-8;  // of Adam

// One network and the activations of a batch. The batch is a multiple of the vector length.
template <typename T>
class Network {
 public:
  Network(const NetworkShape& shape, int64_t batch) : shape_(shape), batch_(batch) {
    for (int64_t l = 0; l <= shape.n_layers; ++l) {
      const int64_t n_in = l == 0 ? shape.n_inputs : shape.n_hidden;
      const int64_t n_out = l == shape.n_layers ? shape.n_outputs : shape.n_hidden;
      layers_.push_back({n_in, n_out, n_parameters_});
      n_parameters_ += n_out * (n_in + 1);
      values_.emplace_back(static_cast<size_t>(n_in * batch));
    }
    values_.emplace_back(static_cast<size_t>(shape.n_outputs * batch));
    const int64_t widest = std::max({shape.n_inputs, shape.n_hidden, shape.n_outputs});
    slope_.resize(static_cast<size_t>(widest * batch));
    next_slope_.resize(slope_.size());
  }

  int64_t n_parameters() const { return n_parameters_; }

  // (n_outputs, batch) after `forward`, and the gradient of the loss with respect to it before `backward`
  const T* output() const { return values_.back().data(); }
  T* slope() { return slope_.data(); }

  // takes in row `row` of x (n_rows, n_inputs) as sample i: standardised and clipped, zero where missing
  void read(const NetworkInputs<T>& inputs, int64_t row, int64_t i) {
    const T *from = inputs.x + row * shape_.n_inputs, limit = inputs.farthest;
    T* to = values_[0].data() + i;
    for (int64_t j = 0; j < shape_.n_inputs; ++j) {
      const T z = (from[j] - inputs.mean[j]) / inputs.scale[j];
      to[j * batch_] = std::isnan(z) ? T(0) : std::clamp(z, -limit, limit);
    }
  }

  void forward(const T* parameters) {
    for (size_t l = 0; l < layers_.size(); ++l) {
      const Layer& layer = layers_[l];
      const T *weights = parameters + layer.start, *bias = weights + layer.n_out * layer.n_in;
      std::vector<T>& out = values_[l + 1];
      multiply(weights, layer.n_in, layer.n_out, layer.n_in, values_[l].data(), batch_, batch_, bias, out.data(),
               batch_);
      if (l + 1 < layers_.size()) {
        T* value = out.data();
        const int64_t n = layer.n_out * batch_;
        SB_SIMD
        for (int64_t i = 0; i < n; ++i) value[i] = value[i] > T(0) ? value[i] : T(0);
      }
    }
  }

  // gradient (n_parameters,) of the loss whose slope at the output was set
  void backward(const T* parameters, T* gradient) {
    for (size_t l = layers_.size(); l-- > 0;) {
      const Layer& layer = layers_[l];
      T *of_weights = gradient + layer.start, *of_bias = of_weights + layer.n_out * layer.n_in;
      const T* in = values_[l].data();
      multiply_transposed(slope_.data(), batch_, layer.n_out, in, batch_, layer.n_in, batch_, of_weights, layer.n_in);
      for (int64_t o = 0; o < layer.n_out; ++o) of_bias[o] = sum(slope_.data() + o * batch_);
      if (l == 0) return;
      multiply<T, true>(parameters + layer.start, layer.n_in, layer.n_in, layer.n_out, slope_.data(), batch_, batch_,
                        nullptr, next_slope_.data(), batch_);
      slope_.swap(next_slope_);
      T* slope = slope_.data();
      const int64_t n = layer.n_in * batch_;
      SB_SIMD
      for (int64_t i = 0; i < n; ++i) slope[i] = in[i] > T(0) ? slope[i] : T(0);
    }
  }

 private:
  struct Layer {
    int64_t n_in, n_out, start;
  };
  NetworkShape shape_;
  int64_t batch_, n_parameters_ = 0;
  std::vector<Layer> layers_;
  std::vector<std::vector<T>> values_;  // inputs of every layer (n_in, batch), then the output
  std::vector<T> slope_, next_slope_;

  T sum(const T* values) const {
    T total = 0;
    SB_SIMD_SUM(total)
    for (int64_t i = 0; i < batch_; ++i) total += values[i];
    return total;
  }
};

// Slope of the mean absolute error over the outputs (n_outputs, batch) of the rows of a batch; their targets.
template <typename T>
void absolute_error_slope(const T* output, const T* y, const T* weight, const int32_t* rows, int64_t batch,
                          int64_t n_outputs, T* slope) {
  const T share = T(1) / static_cast<T>(batch * n_outputs);
  for (int64_t i = 0; i < batch; ++i) {
    const T *target = y + rows[i] * n_outputs, size = share * weight[rows[i]];
    for (int64_t o = 0; o < n_outputs; ++o) {
      const T gap = output[o * batch + i] - target[o];
      slope[o * batch + i] = gap > T(0) ? size : gap < T(0) ? -size : T(0);
    }
  }
}

template <typename T>
void adam_step(const T* gradient, int64_t n, int64_t step, double rate, T* mean, T* square, T* parameters) {
  const T old = static_cast<T>(kMomentum), old_square = static_cast<T>(kSecondMomentum),
          floor = static_cast<T>(kAdamFloor);
  const T length = static_cast<T>(rate / (1 - std::pow(kMomentum, static_cast<double>(step))));
  const T unit = static_cast<T>(1 / (1 - std::pow(kSecondMomentum, static_cast<double>(step))));
  SB_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T g = gradient[i];
    mean[i] = old * mean[i] + (T(1) - old) * g;
    square[i] = old_square * square[i] + (T(1) - old_square) * g * g;
    parameters[i] -= length * mean[i] / (std::sqrt(unit * square[i]) + floor);
  }
}

// Fits networks by Adam to the weighted absolute error of y (n_rows, n_outputs). `parameters` (n_networks,
// n_parameters) holds the starts and then the results. Step s of network k uses the rows order[k][s] (batch,); its
// length falls from `learning_rate` to zero along a cosine. Threads share the networks.
template <typename T>
void fit_networks(const NetworkShape& shape, const NetworkInputs<T>& inputs, const T* y, const T* weight,
                  int64_t n_networks, const int32_t* order, int64_t n_steps, int64_t batch, double learning_rate,
                  int n_threads, Interrupt* interrupt, T* parameters) {
  const std::thread::id caller = std::this_thread::get_id();
  parallel_for(
      n_networks, n_threads,
      [&](int64_t k) {
        Network<T> network(shape, batch);
        const int64_t n = network.n_parameters();
        const bool polls = std::this_thread::get_id() == caller;
        std::vector<T> gradient(static_cast<size_t>(n)), mean(gradient.size()), square(gradient.size());
        T* own = parameters + k * n;
        for (int64_t s = 0; s < n_steps; ++s) {
          if (interrupt && (polls ? interrupted(interrupt) : interrupt->raised.load())) return;
          const int32_t* rows = order + (k * n_steps + s) * batch;
          for (int64_t i = 0; i < batch; ++i) network.read(inputs, rows[i], i);
          network.forward(own);
          absolute_error_slope(network.output(), y, weight, rows, batch, shape.n_outputs, network.slope());
          network.backward(own, gradient.data());
          const double phase = 3.14159265358979323846 * static_cast<double>(s) / static_cast<double>(n_steps);
          adam_step(gradient.data(), n, s + 1, learning_rate * 0.5 * (1 + std::cos(phase)), mean.data(), square.data(),
                    own);
        }
      },
      interrupt);
}

// Mean output of the networks for every row: out (n_rows, n_outputs). Rows are padded to whole blocks, so that the
// output of a row does not depend on the others.
template <typename T>
void network_outputs(const NetworkShape& shape, const NetworkInputs<T>& inputs, int64_t n_rows, const T* parameters,
                     int64_t n_networks, int n_threads, T* out) {
  constexpr int64_t kRows = 128;
  parallel_for(block_count(n_rows, kRows), n_threads, [&](int64_t block) {
    Network<T> network(shape, kRows);
    const int64_t begin = block * kRows, n = std::min(kRows, n_rows - begin);
    for (int64_t i = 0; i < kRows; ++i) network.read(inputs, begin + std::min(i, n - 1), i);
    T* mine = out + begin * shape.n_outputs;
    std::fill_n(mine, n * shape.n_outputs, T(0));
    for (int64_t k = 0; k < n_networks; ++k) {
      network.forward(parameters + k * network.n_parameters());
      for (int64_t i = 0; i < n; ++i)
        for (int64_t o = 0; o < shape.n_outputs; ++o)
          mine[i * shape.n_outputs + o] += network.output()[o * kRows + i] / static_cast<T>(n_networks);
    }
  });
}

}  // namespace SB_ISA
}  // namespace softboost
