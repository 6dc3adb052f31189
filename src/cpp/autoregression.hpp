// An autoregression of the changes of one series over `step` values, known at every origin of one pass.
#pragma once

#include <algorithm>
#include <cmath>

#include "solve.hpp"

namespace softboost {
namespace SB_ISA {
namespace smoothing {

// Settings of an autoregression: ridge penalty of the first lag, in rows of the target, and part of the mean change
// that is continued.
struct Ridge {
  double penalty, centre;
};

// x[i] = z[i] - z[i - step] - c[i] is regressed on its own past values at some lags by ridge regression. c[i] is a part
// of the mean change so far. Far lags are penalised more. Values before the first one count as zero, so that a short
// series has as many rows as it has changes. Forecasts are recursive. A missing value counts as no change, and no row
// has it as its target.
class Autoregression {
 public:
  int64_t step = 1;
  std::vector<double> forecast;  // (h,)
  bool fitted = false;

  void start(int64_t difference, const std::vector<int64_t>& lags, Ridge ridge) {
    step = difference;
    lags_ = lags;
    ridge_ = ridge;
    n_ = first_ = count_ = 0;
    sum_ = squares_ = 0;
    low_ = high_ = 0;
    z_.clear();
    x_.clear();
    gram_.assign(lags.size() * lags.size(), 0.0);
    cross_.assign(lags.size(), 0.0);
    row_.assign(lags.size(), 0.0);
  }

  // takes in z[n_..t]; the first known value is z[first_known]
  void advance(const double* z, int64_t first_known, int64_t t) {
    if (z_.empty()) n_ = first_ = first_known;
    for (; n_ <= t; ++n_) add(z[n_]);
  }

  // forecasts of z after the values taken in; false where these are too few
  bool run(int64_t h) {
    forecast.resize(h);
    fitted = count_ >= kLeastRows;
    if (!fitted) return false;
    const auto p = static_cast<int64_t>(lags_.size());
    const double variance = squares_ / static_cast<double>(count_);
    penalised_ = gram_;
    for (int64_t k = 0; k < p; ++k)
      penalised_[k * p + k] += ridge_.penalty * variance * static_cast<double>(1 + k) + 1e-300;
    factor_.compute(penalised_.data(), p, 0.0);
    coefficients_.resize(p);
    factor_.solve(cross_.data(), coefficients_.data());
    const int64_t n = static_cast<int64_t>(z_.size()), n_x = static_cast<int64_t>(x_.size());
    const double shift = centre();
    z_.resize(n + h);
    x_.resize(n_x + h);
    const double last = z_[n - 1], most = kFarthestRange * (high_ - low_);
    for (int64_t j = 0; j < h; ++j) {
      double value = 0;
      for (int64_t k = 0; k < p; ++k)
        if (n_x + j >= lags_[k]) value += coefficients_[k] * x_[n_x + j - lags_[k]];
      x_[n_x + j] = value;
      z_[n + j] = std::clamp(z_[n + j - step] + shift + value, last - most, last + most);
      forecast[j] = z_[n + j];
    }
    z_.resize(n);
    x_.resize(n_x);
    return true;
  }

 private:
  static constexpr int64_t kLeastRows = 6;
  static constexpr double kFarthestRange = 1;
  Ridge ridge_{};
  std::vector<int64_t> lags_;
  std::vector<double> z_, x_, gram_, cross_, row_, penalised_, coefficients_;
  Cholesky factor_;
  int64_t n_ = 0, first_ = 0, count_ = 0;
  double sum_ = 0, squares_ = 0, low_ = 0, high_ = 0;

  double centre() const { return ridge_.centre * sum_ / static_cast<double>(std::max<int64_t>(count_, 1) + 2); }

  void add(double value) {
    const bool known = !std::isnan(value);
    const auto n = static_cast<int64_t>(z_.size());
    if (!known) value = n >= step ? z_[n - step] : (n ? z_[n - 1] : 0.0);
    low_ = n ? std::min(low_, value) : value;
    high_ = n ? std::max(high_, value) : value;
    z_.push_back(value);
    if (n < step) return;
    const double change = value - z_[n - step];
    if (known) {
      sum_ += change;
      count_ += 1;
    }
    const double x = change - centre();
    const auto p = static_cast<int64_t>(lags_.size()), n_x = static_cast<int64_t>(x_.size());
    if (known) {
      squares_ += x * x;
      for (int64_t k = 0; k < p; ++k) row_[k] = n_x >= lags_[k] ? x_[n_x - lags_[k]] : 0.0;
      for (int64_t k = 0; k < p; ++k) {
        cross_[k] += x * row_[k];
        for (int64_t l = 0; l <= k; ++l) gram_[k * p + l] += row_[k] * row_[l];
      }
    }
    x_.push_back(x);
  }
};

}  // namespace smoothing
}  // namespace SB_ISA
}  // namespace softboost
