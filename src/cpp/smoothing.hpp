// A bank of exponential smoothers and autoregressions. Every series is seen in a few views: logarithms or levels, with
// or without a season. In half of the views a fixed grid of filters runs over the last values, and is weighted by how
// well it forecast them; in the others an autoregression is solved in closed form. Views are weighted by how well they
// forecast from earlier origins. Nothing is fitted by search, so one pass gives the forecasts of many origins, each
// from what was known there.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "autoregression.hpp"
#include "parallel.hpp"

namespace softboost {
namespace SB_ISA {
namespace smoothing {

// The grid. A filter is a damped trend: level l, trend b,
//   x = l + phi b,  e = z - x,  l = x + alpha e,  b = phi b + alpha beta e.
// The first group of settings is simple smoothing. The last group is simple smoothing as well, plus half the slope of
// the straight line through all values (Theta).
constexpr int kAlphas = 10, kTrends = 7, kFilters = kAlphas * (kTrends + 1), kNaive = kAlphas - 1;
constexpr double kAlpha[kAlphas] = {0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0};
constexpr double kBeta[kTrends] = {0, 0.05, 0.1, 0.3, 0.1, 0.3, 0.1};
constexpr double kPhi[kTrends] = {1, 0.9, 0.8, 0.8, 0.95, 0.92, 1};
constexpr double kDrift = 0.5;
constexpr int kSteps[] = {1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48};  // steps whose errors weigh the filters
constexpr int64_t kWindow = 60;                                   // values that the filters see
constexpr double kLeastKnown = 8;                                 // weights are never blunter than for so many values
constexpr int kCycles = 3;                                        // last cycles of the recent season
constexpr double kViewPower = 4;                                  // of the relative error that weighs a view
constexpr double kLogPrior = 2;                                   // of logarithms against levels
constexpr int64_t kLags = 6, kMostLags = 26;                      // of an autoregression without and with a season
constexpr Ridge kSeasonalRidge{3, 0.5}, kPlainRidge{20, 0.8};     // with and without a season
constexpr double kFarthest = 1.5;                                 // of the largest change seen over as many steps
constexpr double kUsualRise = 0.9, kMostRises = 2;                // quantile of past rises, and how many may follow
constexpr double kLeastUnit = 1e-3;
constexpr int64_t kLeastWidth = 200;  // values before an origin that are looked at, or more where seasons are long
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Grid {
  alignas(64) double alpha[kFilters], gain[kFilters], phi[kFilters], drift[kFilters], log_prior[kFilters];
  std::vector<double> reach;  // (h + 1, kFilters): phi + ... + phi^j
  int64_t h;

  explicit Grid(int64_t horizon) : reach(static_cast<size_t>((horizon + 1) * kFilters), 0.0), h(horizon) {
    for (int k = 0; k < kFilters; ++k) {
      const int trend = k / kAlphas;
      const bool theta = trend == kTrends;
      alpha[k] = kAlpha[k % kAlphas];
      gain[k] = theta ? 0 : alpha[k] * kBeta[trend];
      phi[k] = theta ? 1 : kPhi[trend];
      drift[k] = theta ? kDrift : 0;
      log_prior[k] = k == kNaive ? std::log(kFilters - 1.0) : 0;  // the naive counts as much as all others together
      double power = 1;
      for (int64_t j = 1; j <= h; ++j) {
        power *= phi[k];
        reach[j * kFilters + k] = reach[(j - 1) * kFilters + k] + power;
      }
    }
  }
};

// The season of one length, known at every origin: distances to a centred mean, averaged by phase over all cycles and
// over the last three, half and half, shrunk by what an F statistic says of them.
class Season {
 public:
  int64_t length = 1;
  double clarity = 0, shrink = 0;  // F, 1 - 1 / F
  std::vector<double> lasting, recent;

  void start(int64_t m) {
    length = m;
    n_ = 0;
    squares_ = clarity = shrink = 0;
    sum_.assign(m, 0.0);
    count_.assign(m, 0.0);
    last_.assign(m * kCycles, 0.0);
    lasting.assign(m, 0.0);
    recent.assign(m, 0.0);
  }

  double at(int64_t i) const { return length > 1 ? 0.5 * (lasting[i % length] + recent[i % length]) : 0.0; }

  // takes in z[n_..t]
  void advance(const double* z, int64_t t) {
    if (length > 1)
      for (; n_ <= t; ++n_) add(z, n_);
  }

  void estimate() {
    if (length == 1) return;
    double n = 0, within = squares_, mean = 0, recent_mean = 0, least = count_[0];
    for (int64_t q = 0; q < length; ++q) {
      n += count_[q];
      least = std::min(least, count_[q]);
      lasting[q] = sum_[q] / std::max(count_[q], 1.0);
      within -= sum_[q] * lasting[q];
      mean += lasting[q] / length;
      const auto cycles = static_cast<int64_t>(std::min<double>(count_[q], kCycles));
      recent[q] = 0;
      for (int64_t c = 0; c < cycles; ++c) recent[q] += last_[q * kCycles + c] / cycles;
      recent_mean += recent[q] / length;
    }
    double between = 0;
    for (int64_t q = 0; q < length; ++q) {
      lasting[q] -= mean;
      recent[q] -= recent_mean;
      between += count_[q] * lasting[q] * lasting[q];
    }
    clarity = 0;
    if (least > 0 && n >= 2 * length)
      clarity = between / (length - 1) / std::max(std::max(within, 1e-12) / std::max(n - length, 1.0), 1e-10);
    shrink = clarity > 1 ? 1 - 1 / clarity : 0;
    for (int64_t q = 0; q < length; ++q) {
      lasting[q] *= shrink;
      recent[q] *= shrink;
    }
  }

 private:
  int64_t n_ = 0;
  double squares_ = 0;
  std::vector<double> sum_, count_, last_;

  void add(const double* z, int64_t t) {
    const int64_t even = length % 2 == 0, middle = t - length / 2;
    if (t + 1 < length + even || std::isnan(z[middle])) return;
    double total = 0, weight = 0;
    for (int64_t k = 0; k < length + even; ++k) {
      const double share = even && (k == 0 || k == length) ? 0.5 : 1.0, value = z[t - k];
      if (std::isnan(value)) continue;
      total += share * value;
      weight += share;
    }
    if (weight < 0.7 * length) return;
    const int64_t q = middle % length;
    const double apart = z[middle] - total / weight;
    last_[q * kCycles + static_cast<int64_t>(count_[q]) % kCycles] = apart;
    sum_[q] += apart;
    squares_ += apart * apart;
    count_[q] += 1;
  }
};

// All filters on the last values up to an origin, adjusted for season.
class Filters {
 public:
  int64_t n = 0;                 // values seen, from the first known one on
  std::vector<double> adjusted;  // (n,) NaN where missing
  std::vector<double> forecast;  // (h,) without season
  std::array<double, kFilters> weight, error;
  double slope = 0, spread = 0, n_known = 0;  // of the line; of the filters at the last step

  void run(const Grid& grid) {
    level_.resize(n * kFilters);
    trend_.resize(n * kFilters);
    slope_.assign(n, 0.0);
    smooth(grid);
    judge(grid);
    weigh(grid);
    project(grid);
  }

 private:
  std::vector<double> level_, trend_, slope_;

  void smooth(const Grid& grid) {
    std::fill_n(level_.begin(), kFilters, adjusted[0]);
    std::fill_n(trend_.begin(), kFilters, 0.0);
    double count = 1, sum_t = 0, sum = adjusted[0], sum_tt = 0, sum_tz = 0;
    for (int64_t i = 1; i < n; ++i) {
      const double *level = level_.data() + (i - 1) * kFilters, *trend = trend_.data() + (i - 1) * kFilters;
      double *next_level = level_.data() + i * kFilters, *next_trend = trend_.data() + i * kFilters;
      const double z = adjusted[i];
      if (std::isnan(z)) {
        for (int k = 0; k < kFilters; ++k) {
          next_trend[k] = grid.phi[k] * trend[k];
          next_level[k] = level[k] + next_trend[k];
        }
      } else {
        for (int k = 0; k < kFilters; ++k) {
          const double damped = grid.phi[k] * trend[k], expected = level[k] + damped, gap = z - expected;
          next_level[k] = expected + grid.alpha[k] * gap;
          next_trend[k] = damped + grid.gain[k] * gap;
        }
        const auto t = static_cast<double>(i);
        count += 1, sum_t += t, sum += z, sum_tt += t * t, sum_tz += t * z;
      }
      slope_[i] = count > 2 ? (sum_tz - sum_t * sum / count) / std::max(sum_tt - sum_t * sum_t / count, 1e-9) : 0;
    }
    n_known = count;
  }

  // error: absolute errors of past forecasts, each step relative to the naive's, averaged over steps
  void judge(const Grid& grid) {
    alignas(64) double sum[kFilters];
    error.fill(0.0);
    int n_steps = 0;
    for (const int s : kSteps) {
      if (s > grid.h || s >= n - 1) break;
      std::fill_n(sum, kFilters, 0.0);
      const double* reach = grid.reach.data() + s * kFilters;
      for (int64_t i = 0; i + s < n; ++i) {
        const double z = adjusted[i + s];
        if (std::isnan(z) || std::isnan(adjusted[i])) continue;
        const double *level = level_.data() + i * kFilters, *trend = trend_.data() + i * kFilters;
        const double line = s * slope_[i];
        for (int k = 0; k < kFilters; ++k)
          sum[k] += std::fabs(level[k] + reach[k] * trend[k] + grid.drift[k] * line - z);
      }
      if (!(sum[kNaive] > 1e-12)) continue;
      for (int k = 0; k < kFilters; ++k) error[k] += sum[k] / sum[kNaive];
      ++n_steps;
    }
    for (int k = 0; k < kFilters; ++k) error[k] = n_steps ? error[k] / n_steps : (k == kNaive ? 1.0 : 2.0);
  }

  void weigh(const Grid& grid) {
    const double least = *std::min_element(error.begin(), error.end()), power = 0.5 * std::max(n_known, kLeastKnown);
    double most = -1e300, total = 0;
    for (int k = 0; k < kFilters; ++k) {
      weight[k] = grid.log_prior[k] - power * std::log((error[k] + 1e-9) / (least + 1e-9));
      most = std::max(most, weight[k]);
    }
    for (double& w : weight) total += w = std::exp(w - most);
    for (double& w : weight) w /= total;
  }

  void project(const Grid& grid) {
    const double *level = level_.data() + (n - 1) * kFilters, *trend = trend_.data() + (n - 1) * kFilters;
    double flat = 0, drift = 0;
    std::array<double, kTrends> trends{};
    for (int k = 0; k < kFilters; ++k) {
      flat += weight[k] * level[k];
      drift += weight[k] * grid.drift[k];
      if (k < kAlphas * kTrends) trends[k / kAlphas] += weight[k] * trend[k];
    }
    slope = slope_[n - 1];
    forecast.resize(grid.h);
    for (int64_t j = 1; j <= grid.h; ++j) {
      double value = flat + drift * slope * j;
      for (int g = 0; g < kTrends; ++g) value += trends[g] * grid.reach[j * kFilters + g * kAlphas];
      forecast[j - 1] = value;
    }
    const double* reach = grid.reach.data() + grid.h * kFilters;
    spread = 0;
    for (int k = 0; k < kFilters; ++k) {
      const double gap = level[k] + reach[k] * trend[k] + grid.drift[k] * slope * grid.h - forecast[grid.h - 1];
      spread += weight[k] * gap * gap;
    }
    spread = std::sqrt(spread);
    bound(grid.h);
  }

  // no change may be much larger than the largest one seen over as many steps
  void bound(int64_t h) {
    int64_t end = n - 1;
    while (end > 0 && std::isnan(adjusted[end])) --end;
    const double last = adjusted[end];
    double farthest = 0;
    for (int64_t j = 1; j <= h; ++j) {
      for (int64_t i = 0; i + j < n; ++i) {
        const double change = std::fabs(adjusted[i + j] - adjusted[i]);
        if (change > farthest) farthest = change;  // false for NaN
      }
      const double most = kFarthest * farthest * (j < n ? 1.0 : static_cast<double>(j) / std::max<int64_t>(n - 1, 1));
      forecast[j - 1] = std::clamp(forecast[j - 1], last - most, last + most);
    }
  }
};

// One way to look at a series, and what it forecast from the origins so far.
struct View {
  bool log, lags;
  Season season;
  Filters filters;
  const Filters* run = nullptr;   // these filters, or those of the view without a season where there is none
  Autoregression autoregression;  // instead of filters where `lags` is true
  std::vector<double> forecast;   // (n_grid, h), of y
  double weight = 0;
};

// Fixed places of the columns of an origin; those of the season follow.
constexpr int kChanges = 12, kDistances[] = {2, 4, 6, 8, 12, 16, 24, 32}, kSeasonLags = 3, kColumns = 12 + 8 + 3 + 26;
constexpr int64_t kMostAhead = 24;

inline int64_t columns_of_season(int64_t h, int64_t longest) {
  return longest > 1 ? 2 * std::min({h, longest, kMostAhead}) + 5 : 0;
}

class SeriesBank {
 public:
  SeriesBank(const Grid& grid, const int64_t* seasons, int64_t n_seasons, int64_t stride, int64_t n_evidence)
      : grid_(grid), seasons_(seasons, seasons + n_seasons), stride_(stride), n_evidence_(n_evidence) {
    std::sort(seasons_.begin(), seasons_.end());
    longest_ = seasons_.empty() ? 1 : seasons_.back();
    for (const int64_t m : seasons_)
      if (m <= kLeastWidth) cycle_ = m;
  }

  int64_t n_views() const { return 4 * (static_cast<int64_t>(seasons_.size()) + 1); }

  // y (n,): NaN where missing. Origin o has seen all but the last `first + o stride` values.
  void run(const double* y, int64_t n, int64_t first, int64_t n_origins, double* forecast, double* unit, double* logs,
           double* views, float* columns) {
    const int64_t h = grid_.h, n_columns = kColumns + columns_of_season(h, longest_), n_grid = n_origins + n_evidence_;
    std::fill_n(forecast, n_origins * h, kNaN);
    std::fill_n(unit, n_origins, kNaN);
    std::fill_n(logs, n_origins, 0.0);
    std::fill_n(views, n_origins * n_views(), 0.0);
    if (columns) std::fill_n(columns, n_origins * n_columns, std::numeric_limits<float>::quiet_NaN());
    const int64_t width = std::max<int64_t>(kLeastWidth, 6 * longest_ + 2 * h + 40),
                  reach = width + first + n_grid * stride_;
    const int64_t before = std::max<int64_t>(0, n - reach);
    y_ = y + before, n_ = n - before;
    prepare();
    for (int64_t o = n_grid - 1; o >= 0; --o) {
      const int64_t t = n_ - 1 - first - o * stride_;
      if (t < 0 || !look(t, o, n_grid)) continue;
      if (o >= n_origins) continue;
      weigh(t, o, n_grid);
      combine(t, o, forecast + o * h);
      describe(t, o, before, forecast + o * h, unit + o, logs + o, columns ? columns + o * n_columns : nullptr);
      // levels first, then logarithms
      const auto n_half = static_cast<size_t>(n_views() / 2);
      for (size_t v = 0; v < views_.size(); ++v)
        views[o * n_views() + (views_[v].log ? n_half : 0) + v % n_half] = views_[v].weight;
    }
  }

 private:
  const Grid& grid_;
  std::vector<int64_t> seasons_;
  int64_t stride_, n_evidence_, longest_ = 1, cycle_ = 1, n_ = 0, first_known_ = 0;
  const double* y_ = nullptr;
  std::vector<View> views_;
  std::vector<double> logs_, levels_, naive_, window_, peak_, rises_;
  double scale_ = 1, least_ = 0;
  bool positive_ = false;
  double moved_ = 0, moved_n_ = 0, cycled_ = 0, cycled_n_ = 0;  // sums of absolute changes over a step and a season
  int64_t counted_ = 0;

  const std::vector<double>& seen(const View& view) const { return view.log ? logs_ : levels_; }

  void prepare() {
    double total = 0, count = 0;
    least_ = std::numeric_limits<double>::infinity();
    first_known_ = n_;
    for (int64_t i = 0; i < n_; ++i) {
      if (std::isnan(y_[i])) continue;
      if (first_known_ == n_) first_known_ = i;
      total += std::fabs(y_[i]);
      count += 1;
      least_ = std::min(least_, y_[i]);
    }
    scale_ = total > 0 ? total / count : 1;
    positive_ = least_ > 0;
    levels_.resize(n_);
    logs_.resize(positive_ ? n_ : 0);
    peak_.resize(n_);
    double peak = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < n_; ++i) peak_[i] = peak = std::isnan(y_[i]) ? peak : std::max(peak, y_[i]);
    for (int64_t i = 0; i < n_; ++i) levels_[i] = y_[i] / scale_;
    if (positive_)
      for (int64_t i = 0; i < n_; ++i) logs_[i] = std::log(y_[i] / scale_);
    const size_t n_half = 2 * (seasons_.size() + 1);
    const std::vector<int64_t> lags = own_lags();
    views_.resize(n_half * (positive_ ? 2 : 1));
    for (size_t v = 0; v < views_.size(); ++v) {
      const size_t s = v % (seasons_.size() + 1);
      View& view = views_[v];
      view.log = positive_ && v < n_half;
      view.lags = v % n_half > seasons_.size();
      const int64_t length = s == 0 ? 1 : seasons_[s - 1];
      if (view.lags)
        view.autoregression.start(length, lags, seasons_.empty() ? kPlainRidge : kSeasonalRidge);
      else
        view.season.start(length);
    }
    moved_ = moved_n_ = cycled_ = cycled_n_ = 0;
    counted_ = 0;
  }

  // one season and a step of them, and those next to the longest season
  std::vector<int64_t> own_lags() const {
    const int64_t near = seasons_.empty() ? kLags : std::min(seasons_[0] + 1, kMostLags);
    std::vector<int64_t> lags;
    for (int64_t k = 1; k <= near; ++k) lags.push_back(k);
    for (int64_t k = longest_ - 1; k <= longest_ + 1; ++k)
      if (k > near) lags.push_back(k);
    return lags;
  }

  // runs every view at the origin t; false where nothing is known there
  bool look(int64_t t, int64_t o, int64_t n_grid) {
    const int64_t h = grid_.h;
    int64_t end = t;
    while (end >= 0 && std::isnan(y_[end])) --end;
    naive_.resize(n_grid, kNaN);
    if (end < 0) {
      naive_[o] = kNaN;
      return false;
    }
    naive_[o] = y_[end];
    for (View& view : views_) {
      const std::vector<double>& z = seen(view);
      const View& plain = view.log || !positive_ ? views_[0] : views_[2 * (seasons_.size() + 1)];
      view.forecast.resize(n_grid * h);
      double* forecast = view.forecast.data() + o * h;
      auto put = [&](int64_t j, double value) { forecast[j] = scale_ * (view.log ? std::exp(value) : value); };
      if (view.lags) {
        view.autoregression.advance(z.data(), first_known_, t);
        if (view.autoregression.run(h))
          for (int64_t j = 0; j < h; ++j) put(j, view.autoregression.forecast[j]);
        else
          std::copy_n(plain.forecast.begin() + o * h, h, forecast);
        continue;
      }
      view.season.advance(z.data(), t);
      view.season.estimate();
      if (view.season.length > 1 && view.season.shrink == 0) {
        view.run = plain.run;
        std::copy_n(plain.forecast.begin() + o * h, h, forecast);
        continue;
      }
      Filters& f = view.filters;
      view.run = &f;
      const int64_t begin = std::max(first_known_, std::min(t - kWindow + 1, end));
      int64_t b = begin;
      while (std::isnan(z[b])) ++b;
      f.n = t - b + 1;
      f.adjusted.resize(f.n);
      for (int64_t i = 0; i < f.n; ++i) f.adjusted[i] = z[b + i] - view.season.at(b + i);
      f.run(grid_);
      for (int64_t j = 0; j < h; ++j) put(j, f.forecast[j] + view.season.at(t + 1 + j));
    }
    return true;
  }

  // views by their errors from earlier origins at the steps that are known by now, relative to the naive's
  void weigh(int64_t t, int64_t o, int64_t n_grid) {
    const int64_t h = grid_.h;
    std::vector<double> error(views_.size(), 0.0), sum(views_.size());
    int n_steps = 0;
    for (int64_t j = 1; j <= h; ++j) {
      double naive = 0;
      std::fill(sum.begin(), sum.end(), 0.0);
      for (int64_t e = o + 1; e < std::min(n_grid, o + 1 + n_evidence_); ++e) {
        const int64_t then = t - (e - o) * stride_;
        if (then < first_known_ + 2 || then + j > t || std::isnan(y_[then + j])) continue;
        naive += std::fabs(y_[then + j] - naive_[e]);
        for (size_t v = 0; v < views_.size(); ++v)
          sum[v] += std::fabs(y_[then + j] - views_[v].forecast[e * h + j - 1]);
      }
      if (!(naive > 1e-12 * scale_)) continue;
      for (size_t v = 0; v < views_.size(); ++v) error[v] += sum[v] / naive;
      ++n_steps;
    }
    double least = std::numeric_limits<double>::infinity(), total = 0;
    for (const double e : error) least = std::min(least, e);
    for (size_t v = 0; v < views_.size(); ++v) {
      const double relative = n_steps ? (least + 1e-6) / (error[v] + 1e-6) : 1.0;
      views_[v].weight = (views_[v].log ? kLogPrior : 1.0) * std::pow(relative, kViewPower);
      total += views_[v].weight;
    }
    for (View& view : views_) view.weight /= total;
  }

  void combine(int64_t t, int64_t o, double* forecast) {
    const int64_t h = grid_.h;
    double rise = 0;
    for (int64_t j = 0; j < h; ++j) {
      double low = views_[0].forecast[o * h + j], high = low;
      forecast[j] = 0;
      for (const View& view : views_) {
        const double value = view.forecast[o * h + j];
        low = std::min(low, value), high = std::max(high, value);
        forecast[j] += view.weight * value;
      }
      forecast[j] = std::clamp(forecast[j], low, high);  // what all agree on is not rounded
      if (positive_) {
        rise = usual_rise(t, j + 1, rise);
        forecast[j] = std::clamp(forecast[j], 0.3 * least_, peak_[t] * std::exp(kMostRises * rise));
      }
      if (least_ >= 0) forecast[j] = std::max(forecast[j], 0.0);
    }
  }

  // A large rise of logarithms over j steps that is not a single one, such as a change of the level; never below the
  // one over fewer steps. An exponential of a forecast far above what was seen is an error of the logarithms.
  double usual_rise(int64_t t, int64_t j, double before) {
    rises_.clear();
    for (int64_t i = std::max(first_known_, t - kWindow + 1); i + j <= t; ++i) {
      const double rise = logs_[i + j] - logs_[i];
      if (!std::isnan(rise)) rises_.push_back(rise);
    }
    if (rises_.empty()) return before * static_cast<double>(j) / std::max<int64_t>(j - 1, 1);
    const auto rank = static_cast<size_t>(std::ceil(kUsualRise * static_cast<double>(rises_.size() - 1)));
    std::nth_element(rises_.begin(), rises_.begin() + static_cast<int64_t>(rank), rises_.end());
    return std::max(before, rises_[rank]);
  }

  // The unit uses the longest season of which a window shows more than one cycle. Changes over a longer one, such as a
  // year of days, are much larger than the errors of the next steps, and appear in the middle of a series.
  void count_changes(const std::vector<double>& z, int64_t t) {
    for (; counted_ <= t; ++counted_) {
      const int64_t i = counted_;
      if (i >= 1 && !std::isnan(z[i]) && !std::isnan(z[i - 1])) moved_ += std::fabs(z[i] - z[i - 1]), moved_n_ += 1;
      if (i >= cycle_ && !std::isnan(z[i]) && !std::isnan(z[i - cycle_]))
        cycled_ += std::fabs(z[i] - z[i - cycle_]), cycled_n_ += 1;
    }
  }

  // unit of the series and columns of the origin, on the scale of logarithms where there are any
  void describe(int64_t t, int64_t o, int64_t before, const double* forecast, double* unit, double* logs,
                float* columns) {
    const int64_t h = grid_.h;
    const std::vector<double>& z = positive_ ? logs_ : levels_;
    count_changes(z, t);
    // the season as the views of this scale see it together
    double share = 0;
    const View* best = nullptr;
    for (const View& view : views_)
      if (view.log == positive_ && !view.lags) {
        share += view.weight;
        if (!best || view.weight > best->weight) best = &view;
      }
    auto season = [&](int64_t i, bool newer) {
      double value = 0;
      for (const View& view : views_)
        if (view.log == positive_ && !view.lags && view.season.length > 1) {
          const int64_t q = i % view.season.length;
          const double w = share > 0 ? view.weight / share : view.season.length == longest_;
          value += w * (newer ? view.season.recent[q] - view.season.lasting[q] : view.season.at(i));
        }
      return value;
    };
    const int64_t begin = std::max<int64_t>(first_known_, t - kWindow + 1), n = t - begin + 1;
    window_.resize(n);
    for (int64_t i = 0; i < n; ++i) window_[i] = z[begin + i] - season(begin + i, false);
    auto back = [&](int64_t k) { return k < n ? window_[n - 1 - k] : kNaN; };  // k steps before the origin
    double last = kNaN, sum = 0, count = 0, changes = 0, n_changes = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(window_[i])) continue;
      last = window_[i];
      sum += last, count += 1;
      if (i && !std::isnan(window_[i - 1])) changes += std::fabs(last - window_[i - 1]), n_changes += 1;
    }
    const double per_step = n_changes ? changes / n_changes : 0;
    const double per_season =
        cycled_n_ ? cycled_ / cycled_n_ : (cycle_ > 1 ? 2 : 1) * (moved_n_ ? moved_ / moved_n_ : 0);
    *unit = std::max(0.5 * per_step + 0.5 * per_season, kLeastUnit);
    *logs = positive_;
    if (!positive_) *unit *= scale_;
    if (!columns) return;
    const double u = positive_ ? *unit : *unit / scale_;
    float* out = columns;
    auto put = [&](double value) {
      *out++ = std::isfinite(value) ? static_cast<float>(std::clamp(value, -50.0, 50.0))
                                    : std::numeric_limits<float>::quiet_NaN();
    };
    auto line = [&](int64_t from, double* fitted) {
      double c = 0, st = 0, sz = 0, stt = 0, stz = 0;
      for (int64_t i = from; i < n; ++i) {
        if (std::isnan(window_[i])) continue;
        const auto x = static_cast<double>(i - (n - 1));
        c += 1, st += x, sz += window_[i], stt += x * x, stz += x * window_[i];
      }
      const double slope = c > 1 ? (stz - st * sz / c) / std::max(stt - st * st / c, 1e-9) : 0;
      *fitted = c ? (sz - slope * st) / c : kNaN;
      return slope;
    };
    auto mean = [&](int64_t k) {
      double s = 0, c = 0;
      for (int64_t i = std::max<int64_t>(0, n - k); i < n; ++i)
        if (!std::isnan(window_[i])) s += window_[i], c += 1;
      return c ? s / c : kNaN;
    };
    auto spread = [&](int64_t k) {
      double s = 0, ss = 0, c = 0;
      for (int64_t i = std::max<int64_t>(1, n - k); i < n; ++i) {
        const double change = window_[i] - window_[i - 1];
        if (!std::isnan(change)) s += change, ss += change * change, c += 1;
      }
      return c ? std::sqrt(std::max(ss / c - s * s / c / c, 0.0)) : 0;
    };
    for (int k = 0; k < kChanges; ++k) put((back(k) - back(k + 1)) / u);
    for (const int k : kDistances) put((last - back(k)) / u);
    for (int k = 1; k <= kSeasonLags; ++k) {
      const int64_t i = t - k * longest_;
      put(longest_ > 1 && i >= 0 ? (z[t] - z[i]) / u : 0);
    }
    auto transformed = [&](double value) { return positive_ ? std::log(value / scale_) : value / scale_; };
    auto ahead = [&](int64_t j) { return transformed(forecast[j]) - season(t + 1 + j, false) - last; };
    double fitted, recent_fitted, low = last, high = last;
    const double slope = line(0, &fitted), recent = line(std::max<int64_t>(0, n - 16), &recent_fitted);
    for (const double v : window_)
      if (!std::isnan(v)) low = std::min(low, v), high = std::max(high, v);
    const Filters& f = *best->run;
    double trending = 0, theta = 0, alpha = 0, least = f.error[0], simple = f.error[0];
    for (int k = 0; k < kFilters; ++k) {
      const int trend = k / kAlphas;
      if (trend > 0) (trend == kTrends ? theta : trending) += f.weight[k];
      alpha += f.weight[k] * grid_.alpha[k];
      least = std::min(least, f.error[k]);
      if (trend == 0) simple = std::min(simple, f.error[k]);
    }
    put(ahead(0) / u);
    put(ahead(h / 2) / u);
    put(ahead(h - 1) / u);
    put(slope / u);
    put(recent / u);
    put(n > 1 ? (last - window_[0]) / (n - 1) / u : 0);
    put((fitted - last) / u);
    put((mean(4) - last) / u);
    put((mean(8) - last) / u);
    put((high - last) / u);
    put((low - last) / u);
    put(spread(8) / u);
    put(spread(16) / u);
    put(f.spread / u);
    put(std::log(u));
    put(std::log(static_cast<double>(std::min(t + 1 + before, kLeastWidth))));
    put(per_step / u);
    put(least);
    put(least / simple);
    put(trending);
    put(theta);
    put(alpha);
    // autoregressions of changes from step to step and from season to season, beside the forecast
    auto beside = [&](const View& view) {
      for (const int64_t j : {int64_t{0}, h / 2, h - 1})
        put((transformed(view.forecast[o * h + j]) - transformed(forecast[j])) / u);
    };
    double lagged = 0;
    for (const View& view : views_)
      if (view.lags) lagged += view.weight;
    put(lagged);
    beside(views_[seasons_.size() + 1]);
    if (longest_ > 1) {
      beside(views_[2 * seasons_.size() + 1]);
      const int64_t steps = std::min({h, longest_, kMostAhead});
      for (int64_t j = 0; j < steps; ++j) {
        const int64_t i = t + 1 + j * std::min(h, longest_) / steps;
        put(season(i, false) / u);
        put(season(i, true) / u);
      }
      put(best->season.shrink);
      put(std::log1p(best->season.clarity));
    }
  }
};

}  // namespace smoothing

inline int64_t smoothing_columns(int64_t h, int64_t longest_season) {
  return smoothing::kColumns + smoothing::columns_of_season(h, longest_season);
}

// For each series, y[indptr[i]..indptr[i + 1]) with NaN where missing, forecasts of h steps from n_origins origins, the
// o-th of which has not seen the last first[i] + o stride values. Views are weighed by n_evidence earlier origins.
//   forecast (n_series, n_origins, h)   of y; NaN where nothing is known
//   unit     (n_series, n_origins)      size of a change, of log y where `logs` is 1, else of y
//   logs     (n_series, n_origins)
//   views    (n_series, n_origins, 4 (n_seasons + 1))  weights of the views: levels, then logarithms; for each of them
//            smoothers without a season and with every one, then autoregressions of changes over a step and a season
//   columns  (n_series, n_origins, smoothing_columns(...)), what a correction may look at, or null
inline void smoothing_bank(const double* y, const int64_t* indptr, int64_t n_series, const int64_t* seasons,
                           int64_t n_seasons, int64_t h, const int64_t* first, int64_t n_origins, int64_t stride,
                           int64_t n_evidence, int n_threads, Interrupt* interrupt, double* forecast, double* unit,
                           double* logs, double* views, float* columns) {
  constexpr int64_t kSeriesPerBlock = 16;
  const smoothing::Grid grid(h);
  int64_t longest = 1;
  for (int64_t s = 0; s < n_seasons; ++s) longest = std::max(longest, seasons[s]);
  const int64_t n_columns = smoothing_columns(h, longest);
  parallel_for(
      block_count(n_series, kSeriesPerBlock), n_threads,
      [&](int64_t block) {
        smoothing::SeriesBank bank(grid, seasons, n_seasons, stride, n_evidence);
        for (int64_t i = block * kSeriesPerBlock; i < std::min(n_series, (block + 1) * kSeriesPerBlock); ++i) {
          const int64_t at = i * n_origins;
          bank.run(y + indptr[i], indptr[i + 1] - indptr[i], first[i], n_origins, forecast + at * h, unit + at,
                   logs + at, views + at * bank.n_views(), columns ? columns + at * n_columns : nullptr);
        }
      },
      interrupt);
}

}  // namespace SB_ISA
}  // namespace softboost
