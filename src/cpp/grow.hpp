// Greedy growth of a hard tree of fixed depth on binned columns, which gives the initial gates of a soft tree.
#pragma once

#include "bins.hpp"

namespace softboost {
namespace SB_ISA {

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

constexpr int64_t kScanned = 8;         // thresholds that are scanned together
constexpr int64_t kMaxDifferences = 4;  // nodes of a level whose sums are stored, so that a child is a difference

// Level-wise growth by squared-error gain. target is (n_outputs, n_samples); weight may be null.
// Gains within a relative difference of 1e-9 count as equal, and the first column and bin win. Otherwise the last bit
// of a sum would decide, and reordering the rows would change the tree.
//
// Splits are searched in running sums over the bins. With one output and without weights, which is the usual case, the
// sums of the root are computed for two targets at a time, and with many rows those of the larger child of each split
// are the difference of its parent and its sibling.
template <typename T>
class TreeGrower {
 public:
  TreeGrower(const BinnedColumns<T>& data, const T* weight, int64_t n_outputs, int max_depth, int n_threads,
             Interrupt* interrupt)
      : data_(data), weight_(weight), n_outputs_(n_outputs), n_threads_(n_threads), interrupt_(interrupt),
        plain_(n_outputs == 1 && weight == nullptr), node_of_row_(static_cast<size_t>(data.n_samples)),
        best_(static_cast<size_t>(data.n_columns * leaf_count_of(max_depth))) {
    if (!plain_) return;
    for (int64_t j = 0; j < data.n_columns; ++j) stride_ = std::max(stride_, round_up(data.count[j], kScanned));
    root_weight_.assign(static_cast<size_t>(data.n_columns * stride_), 0.0);
    root_sum_.resize(2 * root_weight_.size());
    for (int64_t j = 0; j < data.n_columns; ++j) {
      double* running = root_weight_.data() + j * stride_;
      for (int64_t i = 0; i < data.n_samples; ++i) running[data.bins[j * data.n_samples + i]] += 1.0;
      double total = 0;
      for (int64_t b = 0; b < data.count[j]; ++b) {
        total += running[b];
        if (running[b] > 0 || !data.order) running[b] = total;  // as in sum_sorted
      }
    }
  }

  // Targets 0 and 1 of the next calls of grow; the second may be null.
  void begin(const T* first, const T* second) {
    targets_[0] = first;
    targets_[1] = second;
    if (!plain_) return;
    const int64_t n = data_.n_samples;
    pairs_.resize(static_cast<size_t>(2 * n));
    for (int64_t i = 0; i < n; ++i) {
      pairs_[2 * i] = static_cast<double>(first[i]);
      pairs_[2 * i + 1] = second ? static_cast<double>(second[i]) : 0.0;
    }
    for_columns([&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        if (!data_.order) {
          sum_root(j);
        } else if (j + 1 < end) {
          second ? sum_sorted<2, true>(j) : sum_sorted<2, false>(j);
          ++j;
        } else {
          second ? sum_sorted<1, true>(j) : sum_sorted<1, false>(j);
        }
      }
    });
  }

  const SplitTree& grow(int which, int depth, double min_leaf_weight) {
    const T* target = targets_[which];
    const int64_t n_nodes = leaf_count_of(depth) - 1;
    tree_.column.assign(static_cast<size_t>(n_nodes), -1);
    tree_.bin.assign(static_cast<size_t>(n_nodes), 0);
    tree_.gain.assign(static_cast<size_t>(n_nodes), 0.0);
    std::fill(node_of_row_.begin(), node_of_row_.end(), int16_t{0});
    double total = 0;
    for (int64_t o = 0; o < n_outputs_; ++o)
      for (int64_t i = 0; i < data_.n_samples; ++i) {
        const double r = static_cast<double>(target[o * data_.n_samples + i]);
        total += (weight_ ? static_cast<double>(weight_[i]) : 1.0) * r * r;
      }
    const double smallest_gain = 1e-10 * total;
    int64_t first_node = 0;
    for (int level = 0; level < depth; ++level) {
      const int64_t width = leaf_count_of(level);
      prepare_level(which, width, level + 1 < depth);
      for_columns([&](int64_t begin, int64_t end) {
        Scratch own,
            &scratch = end - begin == data_.n_columns ? scratch_ : own;  // one block uses the same memory again
        scratch.prepare(width, n_outputs_, data_.order ? data_.n_samples : 0);
        for (int64_t j = begin; j < end; ++j) {
          if (sums_ == Sums::halves && (j - begin) % 2 == 0) walk_halves(j, std::min(j + 1, end - 1), scratch);
          scratch.half = (j - begin) % 2;
          search_column(j, width, target, min_leaf_weight, smallest_gain, scratch);
        }
      });
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
      if (level + 1 < depth) send_rows(first_node);
      first_node += width;
    }
    return tree_;
  }

 private:
  static int64_t leaf_count_of(int depth) { return int64_t{1} << depth; }

  // Calls work(begin, end) for ranges of columns, each in one thread.
  template <typename Work>
  void for_columns(Work work) {
    const int64_t columns_per_block = data_.n_samples > 4096 ? 1 : data_.n_columns;
    parallel_for(
        block_count(data_.n_columns, columns_per_block), n_threads_,
        [&](int64_t block) {
          work(block * columns_per_block, std::min((block + 1) * columns_per_block, data_.n_columns));
        },
        interrupt_);
  }

  // Moves the rows of the level that starts at first_node to the children of their nodes.
  void send_rows(int64_t first_node) {
    for (int64_t i = 0; i < data_.n_samples; ++i) {
      const int64_t k = node_of_row_[i], node = first_node + k, j = tree_.column[node];
      const bool goes_right = j >= 0 && data_.bins[j * data_.n_samples + i] > tree_.bin[node];
      node_of_row_[i] = static_cast<int16_t>(2 * k + (goes_right ? 1 : 0));
    }
  }

  // How the running sums of a level are computed.
  enum class Sums { root, halves, bins, places, histograms, differences };

  void prepare_level(int which, int64_t width, bool more_follow) {
    const int64_t n = data_.n_samples;
    which_ = which;
    if (plain_ && width == 1) {
      sums_ = Sums::root;
    } else if (data_.order) {
      // few rows: scan them in the order of each column; with many nodes, not all thresholds apply to every node
      const int64_t n_bins = std::min(n, kMaxBins);
      sums_ = plain_ && width == 2                              ? Sums::halves
              : plain_ && width == 4 && width * n_bins <= 2 * n ? Sums::bins
                                                                : Sums::places;
      if (sums_ == Sums::places)
        place_nodes(width);
      else
        split_rows(width);
    } else {
      sums_ = plain_ && width <= kMaxDifferences ? Sums::differences : Sums::histograms;
      if (sums_ == Sums::differences) list_small_children(width);
    }
    keeps_ = sums_ == Sums::differences && more_follow && 2 * width <= kMaxDifferences;
    if (keeps_) stored_.resize(static_cast<size_t>(data_.n_columns * width * 2 * kMaxBins));
  }

  // parts_ (n_samples, 2, width): the target in the column of the row's node, and a one for its weight. Of two nodes
  // only the first: (n_samples, 2).
  void split_rows(int64_t width) {
    if (width == 2) {
      parts_.resize(static_cast<size_t>(2 * data_.n_samples));
      for (int64_t i = 0; i < data_.n_samples; ++i) {
        const bool first = node_of_row_[i] == 0;
        parts_[2 * i] = first ? pairs_[2 * i + which_] : 0.0;
        parts_[2 * i + 1] = first ? 1.0 : 0.0;
      }
      return;
    }
    parts_.assign(static_cast<size_t>(data_.n_samples * 2 * width), 0.0);
    for (int64_t i = 0; i < data_.n_samples; ++i) {
      double* part = parts_.data() + i * 2 * width + node_of_row_[i];
      part[0] = pairs_[2 * i + which_];
      part[width] = 1.0;
    }
  }

  // small_rows_: the rows in the smaller child of each node of the previous level
  void list_small_children(int64_t width) {
    const int64_t n = data_.n_samples;
    std::vector<int64_t> count(static_cast<size_t>(width), 0);
    for (int16_t k : node_of_row_) ++count[k];
    for (int64_t k = 0; k < width; ++k) is_small_[k] = k % 2 == 0 ? count[k] <= count[k + 1] : count[k] < count[k - 1];
    small_rows_.clear();
    small_target_.clear();
    small_node_.clear();
    for (int64_t i = 0; i < n; ++i)
      if (is_small_[node_of_row_[i]]) {
        small_rows_.push_back(static_cast<int32_t>(i));
        small_target_.push_back(pairs_[2 * i + which_]);
        small_node_.push_back(node_of_row_[i]);
      }
  }

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
    std::vector<double> best;       // (width,): largest gain of the columns so far
    int64_t length = 0;
    int64_t half = 0;  // which of the two columns in `running` is searched
    void prepare(int64_t width, int64_t n_outputs, int64_t n_sorted) {
      length = std::max(n_sorted, kMaxBins);
      histogram.resize(static_cast<size_t>(n_sorted > 0 ? 0 : width * kMaxBins * (1 + n_outputs)));
      running.resize(static_cast<size_t>(std::max((1 + n_outputs) * length, 2 * kMaxDifferences * kMaxBins)));
      gain.resize(static_cast<size_t>(length));
      bin.resize(static_cast<size_t>(length));
      last.resize(static_cast<size_t>(width));
      best.assign(static_cast<size_t>(width), 0.0);
    }
  };

  // Best split of each of the level's `width` nodes on column j, where it is better than those of the columns before.
  void search_column(int64_t j, int64_t width, const T* target, double min_leaf_weight, double smallest_gain,
                     Scratch& scratch) {
    const int64_t n_bins = data_.count[j];
    double* by_node = keeps_ ? stored_.data() + j * width * 2 * kMaxBins : scratch.running.data();
    if (sums_ == Sums::halves)
      by_node += scratch.half * 4 * kMaxBins;
    else if (sums_ == Sums::bins)
      walk_bins<4>(j, by_node);
    else if (sums_ == Sums::places)
      walk_sorted(j, width, target, scratch);
    else if (sums_ == Sums::differences)
      subtract(j, width, by_node, scratch);
    else if (sums_ == Sums::histograms)
      fill_histogram(j, width, target, scratch);
    for (int64_t k = 0; k < width; ++k) {
      const double *weight = by_node + k * 2 * kMaxBins, *sums = weight + kMaxBins;
      int64_t first = 0, n_thresholds = n_bins, stride = kMaxBins;
      if (sums_ == Sums::root) {
        weight = root_weight_.data() + j * stride_;
        sums = root_sum(j, which_);
      } else if (sums_ == Sums::places) {
        first = first_of_node_[k];
        n_thresholds = scratch.last[k] - first;
      } else if (sums_ == Sums::histograms) {
        sum_up(scratch.histogram.data() + k * n_bins * (1 + n_outputs_), n_bins, scratch);
      }
      if (sums_ == Sums::places || sums_ == Sums::histograms) {
        weight = scratch.running.data() + first;
        stride = scratch.length;
        sums = weight + stride;
      }
      const double least = std::max(smallest_gain, scratch.best[k] * (1 + 1e-9));
      const bool whole = sums_ != Sums::places && sums_ != Sums::histograms;
      Split best = whole ? scan<true>(weight, sums, stride, n_thresholds, min_leaf_weight, least, scratch.gain.data())
                         : scan<false>(weight, sums, stride, n_thresholds, min_leaf_weight, least, scratch.gain.data());
      if (best.gain > 0) {
        scratch.best[k] = best.gain;
        best.column = static_cast<int32_t>(j);
        if (sums_ == Sums::places) best.bin = scratch.bin[first + best.bin];
      }
      best_[static_cast<size_t>(j * width + k)] = best;
    }
  }

  double* root_sum(int64_t j, int which) { return root_sum_.data() + (which * data_.n_columns + j) * stride_; }

  // Running sums of one or two targets over the bins of C columns from j on in the root, from rows in order. Bins
  // without rows keep zeros. A sum waits for the last one, so two columns take hardly longer than one.
  template <int C, bool two>
  void sum_sorted(int64_t j) {
    const int64_t n = data_.n_samples;
    const uint8_t* bins[C];
    const int32_t* order[C];
    double *first[C], *second[C], sum[C] = {}, other[C] = {};
    const double* SB_RESTRICT pairs = pairs_.data();
    for (int c = 0; c < C; ++c) {
      bins[c] = data_.bins + (j + c) * n;
      order[c] = data_.order + (j + c) * n;
      first[c] = root_sum(j + c, 0);
      second[c] = root_sum(j + c, 1);
      if (data_.count[j + c] < n) {
        std::fill_n(first[c], data_.count[j + c], 0.0);
        std::fill_n(second[c], data_.count[j + c], 0.0);
      }
    }
    for (int64_t r = 0; r < n; ++r)
      for (int c = 0; c < C; ++c) {
        const int64_t i = order[c][r], b = bins[c][i];
        first[c][b] = sum[c] += pairs[2 * i];
        if (two) second[c][b] = other[c] += pairs[2 * i + 1];
      }
  }

  // Running sums of both targets over the bins of column j in the root, from a histogram.
  void sum_root(int64_t j) {
    const int64_t n = data_.n_samples, n_bins = data_.count[j];
    const uint8_t* SB_RESTRICT bins = data_.bins + j * n;
    const double* SB_RESTRICT pairs = pairs_.data();
    double* SB_RESTRICT first = root_sum(j, 0);
    double* SB_RESTRICT second = root_sum(j, 1);
    double sum = 0, other = 0;
    double cells[2 * kMaxBins] = {};
    for (int64_t i = 0; i < n; ++i) {
      double* cell = cells + 2 * bins[i];
      cell[0] += pairs[2 * i];
      cell[1] += pairs[2 * i + 1];
    }
    for (int64_t b = 0; b < n_bins; ++b) {
      first[b] = sum += cells[2 * b];
      second[b] = other += cells[2 * b + 1];
    }
  }

  // Running sums of W nodes over the bins, out (W, 2, kMaxBins): weight and target. Bins without rows keep weight zero,
  // which no leaf may have.
  template <int W>
  void walk_bins(int64_t j, double* SB_RESTRICT out) const {
    const int64_t n = data_.n_samples;
    const uint8_t* SB_RESTRICT bins = data_.bins + j * n;
    const int32_t* SB_RESTRICT order = data_.order + j * n;
    const double* SB_RESTRICT parts = parts_.data();
    for (int k = 0; k < W; ++k) std::fill_n(out + k * 2 * kMaxBins, round_up(data_.count[j], kScanned), 0.0);
    double weight[W] = {}, sum[W] = {};
    for (int64_t r = 0; r < n; ++r) {
      const int64_t i = order[r];
      const double* part = parts + i * 2 * W;
      double* to = out + bins[i];
      for (int k = 0; k < W; ++k) {
        to[k * 2 * kMaxBins + kMaxBins] = sum[k] += part[k];
        to[k * 2 * kMaxBins] = weight[k] += part[W + k];
      }
    }
  }

  // The same for two nodes of columns j and k, which may be equal: sums of the first node, and differences for the
  // second. A sum waits for the last one, so two columns take hardly longer than one.
  void walk_halves(int64_t j, int64_t k, Scratch& scratch) {
    const int64_t n = data_.n_samples;
    const double* SB_RESTRICT parts = parts_.data();
    const int64_t both[2] = {j, k};
    double* to[2] = {scratch.running.data(), scratch.running.data() + 4 * kMaxBins};
    for (int c = 0; c < 2; ++c) {
      std::fill_n(to[c], round_up(data_.count[both[c]], kScanned), 0.0);
      std::fill_n(to[c] + kMaxBins, round_up(data_.count[both[c]], kScanned), 0.0);
    }
    const uint8_t *SB_RESTRICT bins = data_.bins + j * n, *SB_RESTRICT other_bins = data_.bins + k * n;
    const int32_t *SB_RESTRICT order = data_.order + j * n, *SB_RESTRICT other_order = data_.order + k * n;
    double *SB_RESTRICT first = to[0], *SB_RESTRICT second = to[1];
    double sum = 0, weight = 0, other_sum = 0, other_weight = 0;
    for (int64_t r = 0; r < n; ++r) {
      const int64_t i = order[r], o = other_order[r];
      const int64_t b = bins[i], d = other_bins[o];
      first[b] = weight += parts[2 * i + 1];
      first[kMaxBins + b] = sum += parts[2 * i];
      second[d] = other_weight += parts[2 * o + 1];
      second[kMaxBins + d] = other_sum += parts[2 * o];
    }
    for (int c = 0; c < 2; ++c) {
      const double *whole = root_weight_.data() + both[c] * stride_, *sums = root_sum(both[c], which_);
      double* SB_RESTRICT out = to[c];
      const int64_t n_bins = round_up(data_.count[both[c]], kScanned);
      SB_SIMD
      for (int64_t b = 0; b < n_bins; ++b) {
        out[2 * kMaxBins + b] = whole[b] - out[b];
        out[3 * kMaxBins + b] = sums[b] - out[kMaxBins + b];
      }
    }
  }

  // The same for any number of rows: sums of the smaller child of each parent, and the difference for its sibling.
  void subtract(int64_t j, int64_t width, double* out, Scratch& scratch) {
    const int64_t n_bins = data_.count[j], n_small = static_cast<int64_t>(small_rows_.size());
    const uint8_t* SB_RESTRICT bins = data_.bins + j * data_.n_samples;
    const int32_t* SB_RESTRICT rows = small_rows_.data();
    double* SB_RESTRICT histogram = scratch.histogram.data();
    std::fill_n(histogram, width * n_bins * 2, 0.0);
    for (int64_t r = 0; r < n_small; ++r) {
      double* h = histogram + (small_node_[r] * n_bins + bins[rows[r]]) * 2;
      h[0] += 1.0;
      h[1] += small_target_[r];
    }
    for (int64_t parent = 0; parent < width / 2; ++parent) {
      const int64_t small = 2 * parent + (is_small_[2 * parent] ? 0 : 1), large = 4 * parent + 1 - small;
      const double *weight = root_weight_.data() + j * stride_, *sums = root_sum(j, which_);
      if (width > 2) {
        weight = stored_.data() + (j * (width / 2) + parent) * 2 * kMaxBins;
        sums = weight + kMaxBins;
      }
      const double* cells = histogram + small * n_bins * 2;
      double *to = out + small * 2 * kMaxBins, *sibling = out + large * 2 * kMaxBins;
      double w = 0, s = 0;
      for (int64_t b = 0; b < n_bins; ++b) {
        to[b] = w += cells[2 * b];
        to[kMaxBins + b] = s += cells[2 * b + 1];
      }
      SB_SIMD
      for (int64_t b = 0; b < n_bins; ++b) {
        sibling[b] = weight[b] - to[b];
        sibling[kMaxBins + b] = sums[b] - to[kMaxBins + b];
      }
      for (int64_t b = n_bins; b < round_up(n_bins, kScanned); ++b) to[b] = sibling[b] = 0.0;
    }
  }

  void fill_histogram(int64_t j, int64_t width, const T* target, Scratch& scratch) const {
    const int64_t n = data_.n_samples, n_bins = data_.count[j], cell = 1 + n_outputs_;
    const uint8_t* bins = data_.bins + j * n;
    double* histogram = scratch.histogram.data();
    std::fill_n(histogram, width * n_bins * cell, 0.0);
    if (plain_) {
      for (int64_t i = 0; i < n; ++i) {
        double* h = histogram + (node_of_row_[i] * n_bins + bins[i]) * 2;
        h[0] += 1.0;
        h[1] += static_cast<double>(target[i]);
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      double* h = histogram + (node_of_row_[i] * n_bins + bins[i]) * cell;
      const double w = weight_ ? static_cast<double>(weight_[i]) : 1.0;
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
  void walk_sorted(int64_t j, int64_t width, const T* target, Scratch& scratch) const {
    if (n_outputs_ > 1) {
      walk<false>(j, width, target, scratch);
    } else if (weight_) {
      walk<true>(j, width, target, scratch);
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
  void walk(int64_t j, int64_t width, const T* target, Scratch& scratch) const {
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
      const double w = weight_ ? static_cast<double>(weight_[i]) : 1.0;
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
  // error falls by (s - w S / W)^2 W / (w (W - w)), summed over outputs. The sums of outputs are `stride` apart. The
  // gain is zero unless it exceeds `least`. With `whole`, weights are zero past the last threshold, which no leaf may
  // have, so that whole vectors can be scanned.
  template <bool whole>
  Split scan(const double* SB_RESTRICT weight, const double* SB_RESTRICT sums, int64_t stride, int64_t n_thresholds,
             double min_leaf_weight, double least, double* SB_RESTRICT gain) const {
    const int64_t n_cuts = n_thresholds - 1;
    Split best;
    if (n_cuts < 1) return best;
    const double total = weight[n_cuts], margin = min_leaf_weight - 1e-9;
    if (total < 2 * margin) return best;
    const int64_t n_scanned = whole ? (n_cuts + kScanned - 1) / kScanned * kScanned : n_cuts;
    double largest = 0;
    if (n_outputs_ == 1) {
      const double mean = sums[n_cuts] / total;
      // Most columns have no gain above `least`, and products show it without the slow division. The factor leaves room
      // for rounding.
      const double limit = least * (1 - 1e-12);
      double excess = -1;
      SB_SIMD_MAX(excess)
      for (int64_t b = 0; b < n_scanned; ++b) {
        const double left = weight[b], right = total - left, difference = sums[b] - mean * left;
        const double over = difference * difference * total - limit * (left * right);
        const double allowed = left >= margin && right >= margin ? over : -1.0;
        excess = allowed > excess ? allowed : excess;
      }
      if (excess < 0) return best;
      SB_SIMD_MAX(largest)
      for (int64_t b = 0; b < n_scanned; ++b) {
        const double left = weight[b], right = total - left, difference = sums[b] - mean * left;
        const double value = difference * difference * total / (left * right);
        gain[b] = left >= margin && right >= margin ? value : 0.0;
        largest = gain[b] > largest ? gain[b] : largest;
      }
    } else {
      std::fill_n(gain, n_cuts, 0.0);
      for (int64_t o = 0; o < n_outputs_; ++o) {
        const double* SB_RESTRICT running = sums + o * stride;
        const double mean = running[n_cuts] / total;
        SB_SIMD
        for (int64_t b = 0; b < n_cuts; ++b) {
          const double difference = running[b] - mean * weight[b];
          gain[b] += difference * difference;
        }
      }
      SB_SIMD_MAX(largest)
      for (int64_t b = 0; b < n_cuts; ++b) {
        const double left = weight[b], right = total - left;
        const double value = gain[b] * total / (left * right);
        gain[b] = left >= margin && right >= margin ? value : 0.0;
        largest = gain[b] > largest ? gain[b] : largest;
      }
    }
    if (largest <= least) return best;
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
  const T* weight_;
  int64_t n_outputs_;
  int n_threads_;
  Interrupt* interrupt_;
  bool plain_;          // one output and no weights
  bool keeps_ = false;  // whether the sums of this level are stored for the next one
  int which_ = 0;
  Sums sums_ = Sums::root;
  const T* targets_[2] = {};
  int64_t stride_ = 0;                          // largest number of bins of a column
  std::vector<double> root_weight_, root_sum_;  // (n_columns, stride) and (2, n_columns, stride), running sums
  std::vector<double> stored_;                  // (n_columns, width, 2, 256): those of the level above
  std::vector<double> pairs_, parts_, small_target_;
  std::vector<int32_t> small_rows_;
  std::vector<int16_t> small_node_, node_of_row_;
  bool is_small_[kMaxDifferences] = {};
  std::vector<int32_t> first_of_node_;
  std::vector<Split> best_;
  Scratch scratch_;
  SplitTree tree_;
};

}  // namespace SB_ISA
}  // namespace softboost
