// The tree from which joint steps start: the best axis-aligned splits on z = Q x, softened.
#pragma once

#include "greedy.hpp"
#include "linear.hpp"

namespace softboost {
namespace SB_ISA {

// Root of the weighted mean square of values (n_rows, n_samples), averaged over the rows; one if it is zero.
template <typename T>
T root_mean_square(const T* values, const T* weight, int64_t n_rows, int64_t n_samples) {
  double total = 0, sum = 0;
  for (int64_t i = 0; i < n_samples; ++i) total += weight ? static_cast<double>(weight[i]) : 1.0;
  for (int64_t o = 0; o < n_rows; ++o)
    for (int64_t i = 0; i < n_samples; ++i) {
      const double v = static_cast<double>(values[o * n_samples + i]);
      sum += (weight ? static_cast<double>(weight[i]) : 1.0) * v * v;
    }
  const double size = std::sqrt(sum / total / static_cast<double>(n_rows));
  return size > 0 ? static_cast<T>(size) : T(1);
}

// Slope of the gates on each row of z (n_components, n_samples): 2 per standard deviation, 0 for a constant row.
template <typename T>
std::vector<T> gate_slopes(const T* z, const T* weight, int64_t n_components, int64_t n_samples) {
  std::vector<double> mean(static_cast<size_t>(n_components));
  weighted_means(z, weight, n_components, n_samples, 1, mean.data());
  std::vector<T> slope, centred(static_cast<size_t>(n_samples));
  for (int64_t a = 0; a < n_components; ++a) {
    const T* row = z + a * n_samples;
    double square = 0, total = 0;
    for (int64_t i = 0; i < n_samples; ++i) {
      const double w = weight ? static_cast<double>(weight[i]) : 1.0, d = static_cast<double>(row[i]) - mean[a];
      square += w * d * d;
      total += w;
    }
    const T spread = static_cast<T>(std::sqrt(square / total));
    slope.push_back(spread > T(0) ? T(2) / std::max(spread, std::numeric_limits<T>::min()) : T(0));
  }
  return slope;
}

// Sets the gates of `tree` to the best split of each node on a component of z = Q x; q is as in JointFitter.
template <typename T>
void greedy_gates(const T* x, const T* target, const T* weight, int64_t n_inputs, int64_t n_samples,
                  const JointSettings& settings, int n_threads, Interrupt* interrupt, const TreeView<T>& tree,
                  const T* q) {
  const int64_t m = tree.n_components, n_nodes = node_count(tree);
  std::vector<T> own;
  const T* z = x;
  if (settings.transform != TransformKind::identity) {
    own.resize(static_cast<size_t>(m * n_samples));
    z = own.data();
  }
  if (settings.transform == TransformKind::linear) {
    const std::vector<double> coefficients(q, q + m * n_inputs), none(static_cast<size_t>(m), 0.0);
    std::vector<double> out(own.size());
    linear_outputs(coefficients.data(), none.data(), m, x, n_inputs, n_samples, n_threads, out.data());
    std::transform(out.begin(), out.end(), own.begin(), [](double v) { return static_cast<T>(v); });
  } else if (settings.transform == TransformKind::diagonal) {
    for (int64_t j = 0; j < m; ++j)
      for (int64_t i = 0; i < n_samples; ++i) own[j * n_samples + i] = q[j] * x[j * n_samples + i];
  }
  std::vector<uint8_t> bins(static_cast<size_t>(m * n_samples));
  std::vector<int32_t> count(static_cast<size_t>(m)), order(n_samples <= kMaxSorted ? bins.size() : 0);
  std::vector<T> threshold(static_cast<size_t>(m * kMaxBins));
  bin_columns(z, weight, m, n_samples, kMaxBins, n_threads, interrupt, bins.data(), count.data(), threshold.data(),
              order.empty() ? nullptr : order.data());
  const BinnedColumns<T> binned{bins.data(), count.data(), threshold.data(), order.empty() ? nullptr : order.data(),
                                m,           n_samples};
  TreeGrower<T> grower(binned, weight, tree.n_outputs, tree.depth, n_threads, interrupt);
  grower.begin(target, nullptr);
  const SplitTree& grown = grower.grow(0, tree.depth, settings.min_leaf_weight);
  if (interrupted(interrupt)) return;
  const std::vector<T> slope = gate_slopes(z, weight, m, n_samples);
  std::fill_n(tree.gate_weights, n_nodes * m, T(0));
  for (int64_t node = 0; node < n_nodes; ++node) {
    const int32_t a = grown.column[node];
    tree.gate_bias[node] = static_cast<T>(kClosedGate);
    if (a < 0) continue;
    tree.gate_weights[node * m + a] = slope[a];
    tree.gate_bias[node] = -threshold[a * kMaxBins + grown.bin[node]] * slope[a];
  }
}

}  // namespace SB_ISA
}  // namespace softboost
