// Greedy growth of a hard tree of fixed depth on binned columns, which gives the initial gates of a soft tree.
#pragma once

#include "parallel.hpp"
#include "types.hpp"

namespace softboost {
namespace SB_ISA {

constexpr int64_t kQuantileRows = 8192;  // with more rows, quantiles are those of a sample of this size

// The values of a column, or a sample of them, in ascending order; a row of weight 2 counts as two rows.
template <typename T>
struct SortedValues {
  std::vector<T> value;
  std::vector<double> cumulated;  // weight up to and including each value; empty without weights
  std::vector<int64_t> order;

  void take(const T* values, const T* weight, int64_t n) {
    value.resize(static_cast<size_t>(n));
    cumulated.clear();
    if (!weight) {
      std::copy_n(values, n, value.begin());
      std::sort(value.begin(), value.end());
      return;
    }
    order.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return values[a] < values[b]; });
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      value[i] = values[order[i]];
      cumulated.push_back(total += static_cast<double>(weight[order[i]]));
    }
  }

  // kQuantileRows rows, evenly spaced
  void take_sample(const T* values, const T* weight, int64_t n) {
    value.resize(static_cast<size_t>(kQuantileRows));
    cumulated.clear();
    double total = 0, until = weight ? static_cast<double>(weight[0]) : 0;
    if (weight)
      for (int64_t i = 0; i < n; ++i) total += static_cast<double>(weight[i]);
    for (int64_t i = 0, row = 0; i < kQuantileRows; ++i) {
      if (weight) {
        const double place = std::floor(static_cast<double>(i) * total / kQuantileRows);
        while (until <= place && row + 1 < n) until += static_cast<double>(weight[++row]);
      } else {
        row = i * n / kQuantileRows;
      }
      value[i] = values[row];
    }
    std::sort(value.begin(), value.end());
  }

  double total() const { return cumulated.empty() ? static_cast<double>(value.size()) : std::floor(cumulated.back()); }

  // the value at a place in the list of values in which each is repeated by its weight
  T at(double place) const {
    if (cumulated.empty()) return value[static_cast<size_t>(place)];
    const auto found = std::upper_bound(cumulated.begin(), cumulated.end() - 1, place);
    return value[static_cast<size_t>(found - cumulated.begin())];
  }
};

// Thresholds of one column: midpoints between neighbouring distinct values, or quantiles if there are too many values.
// Returns their number.
template <typename T>
int64_t find_thresholds(const SortedValues<T>& sorted, int64_t max_bins, bool sample, T* threshold) {
  const std::vector<T>& value = sorted.value;
  const size_t n = value.size();
  int64_t n_distinct = 1, n_cuts = 0;
  for (size_t i = 1; i < n; ++i) n_distinct += value[i] > value[i - 1];
  auto midpoint = [](T a, T b) {
    const T middle = a / 2 + b / 2;
    return middle > a && middle < b ? middle : a;
  };
  if (n_distinct <= max_bins) {
    if (sample) return -1;  // there may be few enough distinct values for one bin each
    for (size_t i = 1; i < n; ++i)
      if (value[i] > value[i - 1]) threshold[n_cuts++] = midpoint(value[i - 1], value[i]);
    return n_cuts;
  }
  for (int64_t b = 1; b < max_bins; ++b) {
    const double rank = std::floor(static_cast<double>(b) * sorted.total() / static_cast<double>(max_bins));
    const T cut = midpoint(sorted.at(rank - 1), sorted.at(rank));
    if (cut < value[n - 1] && (n_cuts == 0 || cut > threshold[n_cuts - 1])) threshold[n_cuts++] = cut;
  }
  return n_cuts;
}

template <typename T>
void bin_column(const T* values, const T* weight, int64_t n, int64_t max_bins, uint8_t* bins, int32_t* count,
                T* threshold, SortedValues<T>& sorted) {
  int64_t n_cuts = -1;
  if (n > kQuantileRows) {
    sorted.take_sample(values, weight, n);
    n_cuts = find_thresholds(sorted, max_bins, true, threshold);
  }
  if (n_cuts < 0) {
    sorted.take(values, weight, n);
    n_cuts = find_thresholds(sorted, max_bins, false, threshold);
  }
  *count = static_cast<int32_t>(n_cuts + 1);
  for (int64_t b = n_cuts; b < kMaxBins; ++b) threshold[b] = std::numeric_limits<T>::infinity();
  // bin = number of thresholds below the value, by branch-free bisection; the last of the 256 is never below
  for (int64_t i = 0; i < n; ++i) {
    const T value = values[i];
    int64_t bin = 0;
    for (int64_t half = kMaxBins / 2; half > 0; half /= 2) bin += threshold[bin + half - 1] < value ? half : 0;
    bins[i] = static_cast<uint8_t>(bin);
  }
}

// order: the rows by bin, and within a bin in their original order
inline void sort_by_bin(const uint8_t* bins, int64_t n, int32_t* order) {
  int32_t first[kMaxBins + 1] = {};
  for (int64_t i = 0; i < n; ++i) ++first[bins[i] + 1];
  for (int64_t b = 0; b < kMaxBins; ++b) first[b + 1] += first[b];
  for (int64_t i = 0; i < n; ++i) order[first[bins[i]]++] = static_cast<int32_t>(i);
}

// `weight` (n_samples,) and `order` (n_columns, n_samples) may be null.
template <typename T>
void bin_columns(const T* columns, const T* weight, int64_t n_columns, int64_t n_samples, int64_t max_bins,
                 int n_threads, Interrupt* interrupt, uint8_t* bins, int32_t* count, T* threshold, int32_t* order) {
  parallel_for(
      n_columns, n_threads,
      [&](int64_t j) {
        SortedValues<T> sorted;
        bin_column(columns + j * n_samples, weight, n_samples, max_bins, bins + j * n_samples, count + j,
                   threshold + j * kMaxBins, sorted);
        if (order) sort_by_bin(bins + j * n_samples, n_samples, order + j * n_samples);
      },
      interrupt);
}

// A complete hard tree in heap order; a node without a split has column -1 and sends every row left.
struct SplitTree {
  std::vector<int32_t> column;
  std::vector<int32_t> bin;
  std::vector<double> gain;
};

struct Split {
  double gain = 0;
  int32_t column = -1;
  int32_t bin = 0;
};

// Level-wise growth by squared-error gain. target is (n_outputs, n_samples); weight may be null.
// Gains within a relative difference of 1e-9 count as equal, and the first column and bin win. Otherwise the last bit
// of a sum would decide, and reordering the rows would change the tree.
template <typename T>
class TreeGrower {
 public:
  TreeGrower(const BinnedColumns<T>& data, int64_t n_outputs, int max_depth, int n_threads, Interrupt* interrupt)
      : data_(data), n_outputs_(n_outputs), n_threads_(n_threads), interrupt_(interrupt),
        node_of_row_(static_cast<size_t>(data.n_samples)),
        best_(static_cast<size_t>(data.n_columns * leaf_count_of(max_depth))) {}

  const SplitTree& grow(const T* target, const T* weight, int depth, double min_leaf_weight) {
    const int64_t n_nodes = leaf_count_of(depth) - 1;
    tree_.column.assign(static_cast<size_t>(n_nodes), -1);
    tree_.bin.assign(static_cast<size_t>(n_nodes), 0);
    tree_.gain.assign(static_cast<size_t>(n_nodes), 0.0);
    std::fill(node_of_row_.begin(), node_of_row_.end(), int16_t{0});
    double total = 0;
    for (int64_t o = 0; o < n_outputs_; ++o)
      for (int64_t i = 0; i < data_.n_samples; ++i) {
        const double r = static_cast<double>(target[o * data_.n_samples + i]);
        total += (weight ? static_cast<double>(weight[i]) : 1.0) * r * r;
      }
    const double smallest_gain = 1e-10 * total;
    int64_t first_node = 0;
    for (int level = 0; level < depth; ++level) {
      const int64_t width = leaf_count_of(level);
      if (data_.order) place_nodes(width);
      const int64_t columns_per_block = data_.n_samples > 4096 ? 1 : data_.n_columns;
      parallel_for(
          block_count(data_.n_columns, columns_per_block), n_threads_,
          [&](int64_t block) {
            Scratch scratch(width, n_outputs_, data_.order ? data_.n_samples : 0);
            const int64_t end = std::min((block + 1) * columns_per_block, data_.n_columns);
            for (int64_t j = block * columns_per_block; j < end; ++j)
              search_column(j, width, target, weight, min_leaf_weight, smallest_gain, scratch);
          },
          interrupt_);
      for (int64_t k = 0; k < width; ++k) {
        Split best;
        for (int64_t j = 0; j < data_.n_columns; ++j) {
          const Split& candidate = best_[static_cast<size_t>(j * width + k)];
          if (candidate.column >= 0 && candidate.gain > best.gain * (1 + 1e-9)) best = candidate;
        }
        tree_.column[first_node + k] = best.column;
        tree_.bin[first_node + k] = best.bin;
        tree_.gain[first_node + k] = best.gain;
      }
      for (int64_t i = 0; i < data_.n_samples; ++i) {
        const int64_t k = node_of_row_[i], node = first_node + k, j = tree_.column[node];
        const bool goes_right = j >= 0 && data_.bins[j * data_.n_samples + i] > tree_.bin[node];
        node_of_row_[i] = static_cast<int16_t>(2 * k + (goes_right ? 1 : 0));
      }
      first_node += width;
    }
    return tree_;
  }

 private:
  static int64_t leaf_count_of(int depth) { return int64_t{1} << depth; }

  // State of a node while rows are scanned in order: its sums, and the position and bin of its last threshold.
  struct Walk {
    double weight = 0, sum = 0;
    int32_t place = 0, bin = -1;
  };

  // Scratch memory for the search of one thread.
  struct Scratch {
    std::vector<double> histogram;  // (width, n_bins, 1 + n_outputs): weight and sums of the target
    std::vector<double> running;    // (1 + n_outputs, length): the same up to each threshold, node after node
    std::vector<double> gain;       // (length,)
    std::vector<int32_t> bin;       // (length,): the threshold
    std::vector<int32_t> last;      // (width,): end of each node's thresholds
    std::vector<Walk> nodes;        // (width,)
    int64_t length;
    Scratch(int64_t width, int64_t n_outputs, int64_t n_sorted)
        : histogram(static_cast<size_t>(n_sorted > 0 ? 0 : width * kMaxBins * (1 + n_outputs))),
          length(std::max(n_sorted, kMaxBins)) {
      running.resize(static_cast<size_t>((1 + n_outputs) * length));
      gain.resize(static_cast<size_t>(length));
      bin.resize(static_cast<size_t>(length));
      last.resize(static_cast<size_t>(width));
    }
  };

  // Best split of each of the level's `width` nodes on column j.
  void search_column(int64_t j, int64_t width, const T* target, const T* weight, double min_leaf_weight,
                     double smallest_gain, Scratch& scratch) {
    if (data_.order) {
      walk_sorted(j, width, target, weight, scratch);
    } else {
      fill_histogram(j, width, target, weight, scratch);
    }
    const int64_t n_bins = data_.count[j];
    for (int64_t k = 0; k < width; ++k) {
      const int64_t first = data_.order ? first_of_node_[k] : 0;
      const int64_t end = data_.order ? scratch.last[k] : n_bins;
      if (!data_.order) sum_up(scratch.histogram.data() + k * n_bins * (1 + n_outputs_), n_bins, scratch);
      Split best = scan(first, end - first, min_leaf_weight, smallest_gain, scratch);
      if (best.gain > 0) {
        best.column = static_cast<int32_t>(j);
        if (data_.order) best.bin = scratch.bin[first + best.bin];
      }
      best_[static_cast<size_t>(j * width + k)] = best;
    }
  }

  void fill_histogram(int64_t j, int64_t width, const T* target, const T* weight, Scratch& scratch) const {
    const int64_t n = data_.n_samples, n_bins = data_.count[j], cell = 1 + n_outputs_;
    const uint8_t* bins = data_.bins + j * n;
    double* histogram = scratch.histogram.data();
    std::fill_n(histogram, width * n_bins * cell, 0.0);
    if (n_outputs_ == 1 && weight == nullptr) {
      for (int64_t i = 0; i < n; ++i) {
        double* h = histogram + (node_of_row_[i] * n_bins + bins[i]) * 2;
        h[0] += 1.0;
        h[1] += static_cast<double>(target[i]);
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      double* h = histogram + (node_of_row_[i] * n_bins + bins[i]) * cell;
      const double w = weight ? static_cast<double>(weight[i]) : 1.0;
      h[0] += w;
      for (int64_t o = 0; o < n_outputs_; ++o) h[1 + o] += w * static_cast<double>(target[o * n + i]);
    }
  }

  // running sums over the bins of one node
  void sum_up(const double* node, int64_t n_bins, Scratch& scratch) const {
    const int64_t cell = 1 + n_outputs_;
    double* running = scratch.running.data();
    if (cell == 2) {
      double weight = 0, sum = 0;
      for (int64_t b = 0; b < n_bins; ++b) {
        running[b] = weight += node[2 * b];
        running[scratch.length + b] = sum += node[2 * b + 1];
      }
      return;
    }
    for (int64_t c = 0; c < cell; ++c) {
      double sum = 0;
      for (int64_t b = 0; b < n_bins; ++b) running[c * scratch.length + b] = sum += node[b * cell + c];
    }
  }

  // The same without histograms, for few rows: scan the rows in the order of the column and add each to its node.
  void walk_sorted(int64_t j, int64_t width, const T* target, const T* weight, Scratch& scratch) const {
    if (n_outputs_ > 1) {
      walk<false>(j, width, target, weight, scratch);
    } else if (weight) {
      walk<true>(j, width, target, weight, scratch);
    } else {
      walk_plain(j, width, target, scratch);
    }
  }

  void begin_walk(int64_t width, Scratch& scratch) const {
    scratch.nodes.assign(static_cast<size_t>(width), Walk{});
    for (int64_t k = 0; k < width; ++k) scratch.nodes[k].place = first_of_node_[k] - 1;
  }

  void end_walk(int64_t width, Scratch& scratch) const {
    for (int64_t k = 0; k < width; ++k) scratch.last[k] = scratch.nodes[k].place + 1;
  }

  // one output, no weights: most fits spend most of their time in this loop
  void walk_plain(int64_t j, int64_t width, const T* SB_RESTRICT target, Scratch& scratch) const {
    const int64_t n = data_.n_samples;
    const uint8_t* SB_RESTRICT bins = data_.bins + j * n;
    const int32_t* SB_RESTRICT order = data_.order + j * n;
    const int16_t* SB_RESTRICT node_of_row = node_of_row_.data();
    double* SB_RESTRICT weights = scratch.running.data();
    double* SB_RESTRICT sums = weights + scratch.length;
    int32_t* SB_RESTRICT thresholds = scratch.bin.data();
    begin_walk(width, scratch);
    Walk* SB_RESTRICT nodes = scratch.nodes.data();
    for (int64_t r = 0; r < n; ++r) {
      const int64_t i = order[r];
      const int32_t b = bins[i];
      Walk& node = nodes[node_of_row[i]];
      const int32_t place = node.place + (node.bin != b);  // rows of one bin share a threshold
      const double w = node.weight + 1.0, s = node.sum + static_cast<double>(target[i]);
      node.place = place;
      node.bin = b;
      node.weight = w;
      node.sum = s;
      weights[place] = w;
      sums[place] = s;
      thresholds[place] = b;
    }
    end_walk(width, scratch);
  }

  template <bool single>
  void walk(int64_t j, int64_t width, const T* target, const T* weight, Scratch& scratch) const {
    const int64_t n = data_.n_samples, n_outputs = single ? 1 : n_outputs_;
    const uint8_t* bins = data_.bins + j * n;
    const int32_t* order = data_.order + j * n;
    double* running = scratch.running.data();
    begin_walk(width, scratch);
    scratch.histogram.assign(static_cast<size_t>(width * n_outputs), 0.0);
    for (int64_t r = 0; r < n; ++r) {
      const int64_t i = order[r], k = node_of_row_[i];
      Walk& node = scratch.nodes[k];
      const int32_t b = bins[i];
      const double w = weight ? static_cast<double>(weight[i]) : 1.0;
      node.place += node.bin != b;
      node.bin = b;
      running[node.place] = node.weight += w;
      for (int64_t o = 0; o < n_outputs; ++o)
        running[(1 + o) * scratch.length + node.place] = scratch.histogram[k * n_outputs + o] +=
            w * static_cast<double>(target[o * n + i]);
      scratch.bin[node.place] = b;
    }
    end_walk(width, scratch);
  }

  // With w and s the weight and the sum of the target left of a threshold, W and S those of the node, the squared
  // error falls by (s - w S / W)^2 W / (w (W - w)), summed over outputs. `bin` of the result is relative to `first`.
  Split scan(int64_t first, int64_t n_thresholds, double min_leaf_weight, double smallest_gain,
             Scratch& scratch) const {
    const int64_t n_cuts = n_thresholds - 1;
    Split best;
    if (n_cuts < 1) return best;
    const double* SB_RESTRICT weight = scratch.running.data() + first;
    double* SB_RESTRICT gain = scratch.gain.data();
    const double total = weight[n_cuts], margin = min_leaf_weight - 1e-9;
    if (total < 2 * margin) return best;
    for (int64_t o = 0; o < n_outputs_; ++o) {
      const double* SB_RESTRICT running = weight + (1 + o) * scratch.length;
      const double mean = running[n_cuts] / total;
      if (o == 0) {
        SB_SIMD
        for (int64_t b = 0; b < n_cuts; ++b) {
          const double difference = running[b] - mean * weight[b];
          gain[b] = difference * difference;
        }
      } else {
        SB_SIMD
        for (int64_t b = 0; b < n_cuts; ++b) {
          const double difference = running[b] - mean * weight[b];
          gain[b] += difference * difference;
        }
      }
    }
    double largest = 0;
    SB_SIMD_MAX(largest)
    for (int64_t b = 0; b < n_cuts; ++b) {
      const double left = weight[b], right = total - left;
      const double value = gain[b] * total / (left * right);
      gain[b] = left >= margin && right >= margin ? value : 0.0;
      largest = gain[b] > largest ? gain[b] : largest;
    }
    if (largest <= smallest_gain) return best;
    best.gain = largest;
    while (gain[best.bin] < largest * (1 - 1e-9)) ++best.bin;
    return best;
  }

  // First position of the thresholds of each node when rows are scanned in order: the number of rows before the node.
  void place_nodes(int64_t width) {
    first_of_node_.assign(static_cast<size_t>(width + 1), 0);
    for (int16_t k : node_of_row_) ++first_of_node_[k + 1];
    for (int64_t k = 0; k < width; ++k) first_of_node_[k + 1] += first_of_node_[k];
  }

  BinnedColumns<T> data_;
  int64_t n_outputs_;
  int n_threads_;
  Interrupt* interrupt_;
  std::vector<int16_t> node_of_row_;
  std::vector<int32_t> first_of_node_;
  std::vector<Split> best_;
  SplitTree tree_;
};

}  // namespace SB_ISA
}  // namespace softboost
