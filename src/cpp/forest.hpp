// Extremely randomised trees: every split is the best of one random threshold per column, and leaves are pure.
#pragma once

#include <algorithm>
#include <vector>

#include "parallel.hpp"

namespace softboost {
namespace SB_ISA {

// splitmix64: a random number for each state. The state of a node depends only on its tree and its path, so the order
// of the work and the number of threads do not matter.
inline uint64_t mixed(uint64_t state) {
  uint64_t z = state + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

inline double uniform_of(uint64_t state) { return static_cast<double>(mixed(state) >> 11) * 0x1.0p-53; }

// Grows one tree on rows (n_samples, stride) and a target (n_outputs, n_samples); weight may be null. Rows are
// contiguous and padded with zeros: the sums of a node are computed for all columns at a time, because most nodes have
// few rows.
template <typename T>
class RandomTreeGrower {
 public:
  RandomTreeGrower(const T* rows, const T* target, const T* weight, int64_t stride, int64_t n_samples,
                   int64_t n_outputs)
      : x_(rows), target_(target), weight_(weight), stride_(stride), n_(n_samples), n_outputs_(n_outputs),
        order_(static_cast<size_t>(n_samples)), right_(order_), mean_(static_cast<size_t>(n_outputs)),
        low_(static_cast<size_t>(stride)), high_(low_), threshold_(low_), left_(static_cast<size_t>(stride)),
        sum_(left_), gain_(left_) {}

  void grow(uint64_t seed, double scale, HardTreeArrays& out) {
    for (int64_t i = 0; i < n_; ++i) order_[i] = static_cast<int32_t>(i);
    std::vector<Node> open{{0, n_, add_node(out), seed}};
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      const int64_t middle = split(node, out);
      if (middle == node.begin) {
        for (int64_t o = 0; o < n_outputs_; ++o) out.values[node.place * n_outputs_ + o] = scale * mean_[o];
        continue;
      }
      const int32_t left = add_node(out), right = add_node(out);
      out.left[node.place] = left;
      out.right[node.place] = right;
      open.push_back({middle, node.end, right, mixed(2 * node.state + 1)});
      open.push_back({node.begin, middle, left, mixed(2 * node.state)});
    }
  }

 private:
  struct Node {
    int64_t begin, end;  // of its rows in order_
    int64_t place;
    uint64_t state;
  };

  int32_t add_node(HardTreeArrays& out) const {
    const auto place = static_cast<int32_t>(out.feature.size());
    out.feature.push_back(0);
    out.threshold.push_back(0.0);
    out.left.push_back(place);
    out.right.push_back(place);
    out.values.insert(out.values.end(), static_cast<size_t>(n_outputs_), 0.0);
    return place;
  }

  double weight_of(int32_t i) const { return weight_ ? static_cast<double>(weight_[i]) : 1.0; }

  // Splits a node and returns the first row of its right child; node.begin if the node is a leaf.
  int64_t split(const Node& node, HardTreeArrays& out) {
    const double total = set_means(node);
    if (is_pure(node)) return node.begin;
    draw_thresholds(node);
    set_gains(node, total);
    int64_t best = -1;
    double best_gain = 0;
    for (int64_t j = 0; j < stride_; ++j)
      if (gain_[j] > best_gain * (1 + 1e-9)) {  // the last bit of a sum must not decide between equal splits
        best_gain = gain_[j];
        best = j;
      }
    if (best < 0) return node.begin;
    out.feature[node.place] = static_cast<int32_t>(best);
    out.threshold[node.place] = static_cast<double>(threshold_[best]);
    return partition(node, best);
  }

  // Moves the rows of the left child before those of the right one, both in their order, and returns the first of the
  // latter.
  int64_t partition(const Node& node, int64_t column) {
    int64_t n_left = node.begin, n_right = 0;
    for (int64_t r = node.begin; r < node.end; ++r) {
      const int32_t i = order_[r];
      const bool goes_left = x_[i * stride_ + column] <= threshold_[column];
      order_[n_left] = i;
      right_[n_right] = i;
      n_left += goes_left;
      n_right += !goes_left;
    }
    std::copy_n(right_.begin(), n_right, order_.begin() + n_left);
    return n_left;
  }

  // Sets mean_ and returns the weight of the node.
  double set_means(const Node& node) {
    double total = 0;
    for (int64_t r = node.begin; r < node.end; ++r) total += weight_of(order_[r]);
    for (int64_t o = 0; o < n_outputs_; ++o) {
      const T* t = target_ + o * n_;
      double sum = 0;  // of distances from the first row, so that the mean of equal targets is exact
      const double first = static_cast<double>(t[order_[node.begin]]);
      for (int64_t r = node.begin; r < node.end; ++r)
        sum += weight_of(order_[r]) * (static_cast<double>(t[order_[r]]) - first);
      mean_[o] = first + sum / total;
    }
    return total;
  }

  bool is_pure(const Node& node) const {
    for (int64_t o = 0; o < n_outputs_; ++o)
      for (int64_t r = node.begin + 1; r < node.end; ++r)
        if (target_[o * n_ + order_[r]] != target_[o * n_ + order_[node.begin]]) return false;
    return true;
  }

  // One threshold for each column, between its smallest and its largest value in the node.
  void draw_thresholds(const Node& node) {
    T *SB_RESTRICT low = low_.data(), *SB_RESTRICT high = high_.data(), *SB_RESTRICT threshold = threshold_.data();
    const T* first = x_ + order_[node.begin] * stride_;
    std::copy_n(first, stride_, low);
    std::copy_n(first, stride_, high);
    for (int64_t r = node.begin + 1; r < node.end; ++r) {
      const T* SB_RESTRICT x = x_ + order_[r] * stride_;
      SB_SIMD
      for (int64_t j = 0; j < stride_; ++j) {
        low[j] = x[j] < low[j] ? x[j] : low[j];
        high[j] = x[j] > high[j] ? x[j] : high[j];
      }
    }
    for (int64_t j = 0; j < stride_; ++j) {
      const T drawn = low[j] + static_cast<T>(uniform_of(node.state + static_cast<uint64_t>(j))) * (high[j] - low[j]);
      threshold[j] = drawn < high[j] ? drawn : low[j];  // not the largest value, by rounding
    }
  }

  // Reduction of the sum of squares by the split of each column; zero if a side is empty.
  void set_gains(const Node& node, double total) {
    double *SB_RESTRICT left = left_.data(), *SB_RESTRICT sum = sum_.data(), *SB_RESTRICT gain = gain_.data();
    const T* SB_RESTRICT threshold = threshold_.data();
    std::fill(gain_.begin(), gain_.end(), 0.0);
    for (int64_t o = 0; o < n_outputs_; ++o) {
      const T* t = target_ + o * n_;
      std::fill(left_.begin(), left_.end(), 0.0);
      std::fill(sum_.begin(), sum_.end(), 0.0);
      for (int64_t r = node.begin; r < node.end; ++r) {
        const int32_t i = order_[r];
        const T* SB_RESTRICT x = x_ + i * stride_;
        const double w = weight_of(i), away = w * (static_cast<double>(t[i]) - mean_[o]);
        SB_SIMD
        for (int64_t j = 0; j < stride_; ++j) {
          left[j] += x[j] <= threshold[j] ? w : 0.0;
          sum[j] += x[j] <= threshold[j] ? away : 0.0;
        }
      }
      SB_SIMD
      for (int64_t j = 0; j < stride_; ++j) gain[j] += sum[j] * sum[j];
    }
    for (int64_t j = 0; j < stride_; ++j)
      gain[j] = low_[j] < high_[j] ? gain[j] * (1 / left[j] + 1 / (total - left[j])) : 0.0;
  }

  const T *x_, *target_, *weight_;
  int64_t stride_, n_, n_outputs_;
  std::vector<int32_t> order_;  // rows, those of a node together
  std::vector<int32_t> right_;  // rows of the right child
  std::vector<double> mean_;
  std::vector<T> low_, high_, threshold_;
  std::vector<double> left_, sum_, gain_;
};

// The mean of n_trees trees, as trees whose outputs are summed.
template <typename T>
void grow_forest(const T* columns, const T* target, const T* weight, int64_t n_columns, int64_t n_samples,
                 int64_t n_outputs, int64_t n_trees, int n_threads, Interrupt* interrupt, HardTreeArrays& out) {
  std::vector<HardTreeArrays> trees(static_cast<size_t>(n_trees));
  const int64_t stride = round_up(n_columns, 8);
  std::vector<T> rows(static_cast<size_t>(stride * n_samples), T(0));
  for (int64_t j = 0; j < n_columns; ++j)
    for (int64_t i = 0; i < n_samples; ++i) rows[i * stride + j] = columns[j * n_samples + i];
  parallel_for(
      n_trees, n_threads,
      [&](int64_t k) {
        RandomTreeGrower<T>(rows.data(), target, weight, stride, n_samples, n_outputs)
            .grow(mixed(static_cast<uint64_t>(k)), 1.0 / static_cast<double>(n_trees), trees[k]);
      },
      interrupt);
  for (const HardTreeArrays& tree : trees) {
    const auto root = static_cast<int32_t>(out.feature.size());
    out.roots.push_back(root);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(out.feature, tree.feature);
    append(out.threshold, tree.threshold);
    append(out.values, tree.values);
    for (int32_t child : tree.left) out.left.push_back(root + child);
    for (int32_t child : tree.right) out.right.push_back(root + child);
  }
}

// out (n_outputs, n_samples): sum of the outputs of hard trees at z (n_components, n_samples)
template <typename T>
void hard_tree_output(const HardTreeView& tree, const T* z, int64_t n_components, int64_t n_samples, int n_threads,
                      T* out) {
  parallel_for(block_count(n_samples), n_threads, [&](int64_t b) {
    const int64_t begin = b * kBlockRows, n = std::min(kBlockRows, n_samples - begin);
    std::vector<double> row(static_cast<size_t>(n * n_components)), sum(static_cast<size_t>(n * tree.n_outputs), 0.0);
    for (int64_t j = 0; j < n_components; ++j)
      for (int64_t i = 0; i < n; ++i) {
        const T v = z[j * n_samples + begin + i];
        row[i * n_components + j] = tree.single ? static_cast<double>(static_cast<float>(v)) : static_cast<double>(v);
      }
    for (int64_t t = 0; t < tree.n_trees; ++t)
      for (int64_t i = 0; i < n; ++i) {
        const double* x = row.data() + i * n_components;
        int32_t node = tree.roots[t];
        while (tree.left[node] != node)
          node = x[tree.feature[node]] <= tree.threshold[node] ? tree.left[node] : tree.right[node];
        for (int64_t o = 0; o < tree.n_outputs; ++o)
          sum[i * tree.n_outputs + o] += tree.values[node * tree.n_outputs + o];
      }
    for (int64_t o = 0; o < tree.n_outputs; ++o)
      for (int64_t i = 0; i < n; ++i) out[o * n_samples + begin + i] = static_cast<T>(sum[i * tree.n_outputs + o]);
  });
}

}  // namespace SB_ISA
}  // namespace softboost
