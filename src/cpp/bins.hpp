// Bins of columns: thresholds between distinct values or at quantiles, and the rows of a column in the order of its
// bins.
#pragma once

#include <limits>

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

// A threshold between two values: their mean, or the smaller one if the mean is equal to one of them by rounding.
template <typename T>
T midpoint(T a, T b) {
  const T middle = a / 2 + b / 2;
  return middle > a && middle < b ? middle : a;
}

// Thresholds of one column: midpoints between neighbouring distinct values, or quantiles if there are too many values.
// Returns their number.
template <typename T>
int64_t find_thresholds(const SortedValues<T>& sorted, int64_t max_bins, bool sample, T* threshold) {
  const std::vector<T>& value = sorted.value;
  const size_t n = value.size();
  int64_t n_distinct = 1, n_cuts = 0;
  for (size_t i = 1; i < n; ++i) n_distinct += value[i] > value[i - 1];
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
  // bin = number of thresholds below the value, by branch-free bisection; those past n_cuts are never below
  int64_t first_half = 1;
  while (2 * first_half <= n_cuts) first_half *= 2;
  for (int64_t i = 0; i < n; ++i) {
    const T value = values[i];
    int64_t bin = 0;
    for (int64_t half = first_half; half > 0; half /= 2)
      bin += half & -static_cast<int64_t>(threshold[bin + half - 1] < value);
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

// bin_column and sort_by_bin for at most as many rows as bins: the bin of a value is its rank among distinct values.
template <typename T>
void rank_column(const T* values, int64_t n, uint8_t* bins, int32_t* count, T* threshold, int32_t* order) {
  std::pair<T, int32_t> sorted[kMaxBins];
  for (int64_t i = 0; i < n; ++i) sorted[i] = {values[i], static_cast<int32_t>(i)};
  std::sort(sorted, sorted + n, [](const auto& a, const auto& b) {
    return a.first < b.first || (a.first == b.first && a.second < b.second);
  });
  int64_t bin = 0;
  for (int64_t r = 0; r < n; ++r) {
    if (r > 0 && sorted[r].first > sorted[r - 1].first)
      threshold[bin++] = midpoint(sorted[r - 1].first, sorted[r].first);
    bins[sorted[r].second] = static_cast<uint8_t>(bin);
    order[r] = sorted[r].second;
  }
  *count = static_cast<int32_t>(bin + 1);
  std::fill(threshold + bin, threshold + kMaxBins, std::numeric_limits<T>::infinity());
}

// `weight` (n_samples,) and `order` (n_columns, n_samples) may be null.
template <typename T>
void bin_columns(const T* columns, const T* weight, int64_t n_columns, int64_t n_samples, int64_t max_bins,
                 int n_threads, Interrupt* interrupt, uint8_t* bins, int32_t* count, T* threshold, int32_t* order) {
  parallel_for(
      n_columns, n_threads,
      [&](int64_t j) {
        if (order && n_samples <= max_bins) {
          rank_column(columns + j * n_samples, n_samples, bins + j * n_samples, count + j, threshold + j * kMaxBins,
                      order + j * n_samples);
          return;
        }
        SortedValues<T> sorted;
        bin_column(columns + j * n_samples, weight, n_samples, max_bins, bins + j * n_samples, count + j,
                   threshold + j * kMaxBins, sorted);
        if (order) sort_by_bin(bins + j * n_samples, n_samples, order + j * n_samples);
      },
      interrupt);
}

}  // namespace SB_ISA
}  // namespace softboost
