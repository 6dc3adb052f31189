// Prediction of an ensemble from raw rows: standardisation, linear part, trees. The gates and leaves are already
// multiplied with the feature transform, so no transform is applied here.
#pragma once

#include "soft_tree.hpp"
#include "types.hpp"

namespace softboost {
namespace SB_ISA {

constexpr int64_t kPredictRows = 128;

template <typename T>
struct PredictScratch {
  int64_t stride;
  std::vector<T> x, right, left, memberships, value;
  PredictScratch(const Ensemble<T>& e, int64_t max_rows) : stride(round_up(max_rows, 16)) {
    int depth = 0;
    for (int64_t k = 0; k < e.n_trees; ++k) depth = std::max(depth, static_cast<int>(e.depth[k]));
    x.resize(static_cast<size_t>(e.n_inputs * stride));
    right.resize(static_cast<size_t>(leaf_count(depth) * stride));
    left.resize(right.size());
    memberships.resize(right.size());
    value.resize(static_cast<size_t>(stride));
  }
};

// columns of the block: standardised, clipped to their limits, missing values zero; rows is (n, n_inputs) row-major
template <typename T>
void load_rows(const Ensemble<T>& e, const T* rows, int64_t n, PredictScratch<T>& s) {
  for (int64_t j = 0; j < e.n_inputs; ++j) {
    T* out = s.x.data() + j * s.stride;
    const T offset = e.offset[j] / 2, scale = e.scale[j] * 2;  // halved, because a difference may overflow
    const T low = e.low[j], high = e.high[j];
    const T* in = rows + j;
    for (int64_t i = 0; i < n; ++i) {
      const T v = (in[i * e.n_inputs] / 2 - offset) * scale;
      out[i] = v == v ? std::min(std::max(v, low), high) : T(0);
    }
  }
}

// Gates of tree k into s.right and s.left; only those that use the column at place `changed`, unless it is negative.
template <typename T>
void fill_gates(const Ensemble<T>& e, int64_t k, int64_t n, PredictScratch<T>& s, int64_t changed = -1) {
  const int64_t n_nodes = leaf_count(e.depth[k]) - 1;
  const int32_t* columns = e.columns + e.column_start[k];
  const int64_t n_columns = e.column_start[k + 1] - e.column_start[k];
  const T* weights = e.gate_weights + e.weight_start[k];
  const T* bias = e.gate_bias + e.bias_start[k];
  for (int64_t node = 0; node < n_nodes; ++node) {
    if (changed >= 0 && weights[node * n_columns + changed] == T(0)) continue;
    T* logit = s.right.data() + node * s.stride;
    std::fill_n(logit, n, bias[node]);
    for (int64_t c = 0; c < n_columns; ++c) {
      const T w = weights[node * n_columns + c];
      if (w != T(0)) axpy(w, s.x.data() + columns[c] * s.stride, logit, n);
    }
    sigmoid_pair(logit, n, logit, s.left.data() + node * s.stride);
  }
}

// out (n_outputs, out_stride) += output of tree k, whose gates are filled
template <typename T>
void add_leaves(const Ensemble<T>& e, int64_t k, int64_t n, PredictScratch<T>& s, T* out, int64_t out_stride) {
  const int depth = e.depth[k];
  const int64_t n_leaves = leaf_count(depth);
  const int32_t* columns = e.columns + e.column_start[k];
  const int64_t n_columns = e.column_start[k + 1] - e.column_start[k];
  leaf_memberships(s.right.data(), s.left.data(), depth, s.stride, n, s.memberships.data());
  const T* values = e.leaf + e.leaf_start[k];
  const T* slopes = values + n_leaves * e.n_outputs;
  for (int64_t o = 0; o < e.n_outputs; ++o)
    for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
      T* value = s.value.data();
      std::fill_n(value, n, values[leaf * e.n_outputs + o]);
      if (e.linear[k])
        for (int64_t c = 0; c < n_columns; ++c) {
          const T w = slopes[(leaf * e.n_outputs + o) * n_columns + c];
          if (w != T(0)) axpy(w, s.x.data() + columns[c] * s.stride, value, n);
        }
      const T* reach = s.memberships.data() + leaf * s.stride;
      T* result = out + o * out_stride;
      SB_SIMD
      for (int64_t i = 0; i < n; ++i) result[i] += reach[i] * value[i];
    }
}

// out (n_outputs, out_stride) += output of tree k
template <typename T>
void add_tree(const Ensemble<T>& e, int64_t k, int64_t n, PredictScratch<T>& s, T* out, int64_t out_stride) {
  fill_gates(e, k, n, s);
  add_leaves(e, k, n, s, out, out_stride);
}

// out (n_samples, n_outputs) row-major
template <typename T>
void predict(const Ensemble<T>& e, const T* rows, int64_t n_samples, int n_threads, T* out) {
  parallel_for(block_count(n_samples, kPredictRows), n_threads, [&](int64_t block) {
    const int64_t begin = block * kPredictRows, n = std::min(kPredictRows, n_samples - begin);
    PredictScratch<T> s(e, n);
    std::vector<T> sum(static_cast<size_t>(e.n_outputs * s.stride));
    load_rows(e, rows + begin * e.n_inputs, n, s);
    for (int64_t o = 0; o < e.n_outputs; ++o) {
      T* result = sum.data() + o * s.stride;
      std::fill_n(result, n, e.intercept[o]);
      for (int64_t j = 0; j < e.n_inputs; ++j) {
        const T w = e.coefficients[o * e.n_inputs + j];
        if (w != T(0)) axpy(w, s.x.data() + j * s.stride, result, n);
      }
    }
    for (int64_t k = 0; k < e.n_trees; ++k) add_tree(e, k, n, s, sum.data(), s.stride);
    for (int64_t o = 0; o < e.n_outputs; ++o)
      for (int64_t i = 0; i < n; ++i) out[(begin + i) * e.n_outputs + o] = sum[o * s.stride + i];
  });
}

// out (n_trees, n_samples, n_outputs): contribution of each tree
template <typename T>
void predict_each(const Ensemble<T>& e, const T* rows, int64_t n_samples, int n_threads, T* out) {
  parallel_for(block_count(n_samples, kPredictRows), n_threads, [&](int64_t block) {
    const int64_t begin = block * kPredictRows, n = std::min(kPredictRows, n_samples - begin);
    PredictScratch<T> s(e, n);
    std::vector<T> sum(static_cast<size_t>(e.n_outputs * s.stride));
    load_rows(e, rows + begin * e.n_inputs, n, s);
    for (int64_t k = 0; k < e.n_trees; ++k) {
      std::fill(sum.begin(), sum.end(), T(0));
      add_tree(e, k, n, s, sum.data(), s.stride);
      for (int64_t o = 0; o < e.n_outputs; ++o)
        for (int64_t i = 0; i < n; ++i) out[(k * n_samples + begin + i) * e.n_outputs + o] = sum[o * s.stride + i];
    }
  });
}

// Effect of each input: out (n_inputs,) is the weighted mean over rows of the squared change of the sum of the trees
// when the input is set to its mean, summed over outputs. Only trees that use an input change.
template <typename T>
void column_effects(const Ensemble<T>& e, const T* rows, const T* weight, int64_t n_samples, int n_threads,
                    double* out) {
  std::vector<uint8_t> used(static_cast<size_t>(e.n_inputs), 0);
  for (int64_t c = 0; c < e.column_start[e.n_trees]; ++c) used[e.columns[c]] = 1;
  const int64_t n_blocks = block_count(n_samples, kPredictRows);
  std::vector<double> partial(static_cast<size_t>(n_blocks * e.n_inputs), 0.0);
  parallel_for(n_blocks, n_threads, [&](int64_t block) {
    const int64_t begin = block * kPredictRows, n = std::min(kPredictRows, n_samples - begin);
    PredictScratch<T> s(e, n);
    const int64_t size = e.n_outputs * s.stride;
    std::vector<T> as_is(static_cast<size_t>(size)), without(static_cast<size_t>(size)),
        change(static_cast<size_t>(e.n_inputs * size), T(0)), held(static_cast<size_t>(s.stride)), right, left;
    load_rows(e, rows + begin * e.n_inputs, n, s);
    for (int64_t k = 0; k < e.n_trees; ++k) {
      std::fill(as_is.begin(), as_is.end(), T(0));
      add_tree(e, k, n, s, as_is.data(), s.stride);
      const int64_t gates = (leaf_count(e.depth[k]) - 1) * s.stride;
      right.assign(s.right.begin(), s.right.begin() + gates);
      left.assign(s.left.begin(), s.left.begin() + gates);
      for (int64_t c = e.column_start[k]; c < e.column_start[k + 1]; ++c) {
        const int64_t j = e.columns[c];
        T* x = s.x.data() + j * s.stride;
        std::copy_n(x, n, held.data());
        std::fill_n(x, n, T(0));
        std::fill(without.begin(), without.end(), T(0));
        std::copy(right.begin(), right.end(), s.right.begin());
        std::copy(left.begin(), left.end(), s.left.begin());
        fill_gates(e, k, n, s, c - e.column_start[k]);
        add_leaves(e, k, n, s, without.data(), s.stride);
        std::copy_n(held.data(), n, x);
        for (int64_t i = 0; i < size; ++i) change[j * size + i] += as_is[i] - without[i];
      }
    }
    for (int64_t j = 0; j < e.n_inputs; ++j) {
      if (!used[j]) continue;
      double sum = 0;
      for (int64_t o = 0; o < e.n_outputs; ++o)
        for (int64_t i = 0; i < n; ++i) {
          const double c = static_cast<double>(change[j * size + o * s.stride + i]);
          sum += (weight ? static_cast<double>(weight[begin + i]) : 1.0) * c * c;
        }
      partial[block * e.n_inputs + j] = sum;
    }
  });
  double total = 0;
  for (int64_t i = 0; i < n_samples; ++i) total += weight ? static_cast<double>(weight[i]) : 1.0;
  for (int64_t j = 0; j < e.n_inputs; ++j) {
    out[j] = 0;
    for (int64_t block = 0; block < n_blocks; ++block) out[j] += partial[block * e.n_inputs + j];
    out[j] /= total;
  }
}

}  // namespace SB_ISA
}  // namespace softboost
