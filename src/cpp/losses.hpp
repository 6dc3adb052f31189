// Loss functions of y and the raw prediction: gradients, quadratic approximations, and constants that minimise a loss.
// They are those of softboost/losses.py, which documents them.
#pragma once

#include <numeric>

#include "simd.hpp"
#include "types.hpp"

namespace softboost {
namespace SB_ISA {

// Smallest value at which the cumulative weight reaches the share q of the total; the midpoint if there is an interval.
// `values` is reordered; weight may be null.
template <typename T>
double weighted_quantile(std::vector<T>& values, const T* weight, double q) {
  const int64_t n = static_cast<int64_t>(values.size());
  if (weight == nullptr) {
    const double goal = q * static_cast<double>(n), slack = 1e-12 * static_cast<double>(n);
    const int64_t low = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(goal - slack)) - 1, 0, n - 1);
    const int64_t high = std::clamp<int64_t>(static_cast<int64_t>(std::floor(goal + slack)), 0, n - 1);
    std::nth_element(values.begin(), values.begin() + low, values.end());
    const T first = values[low];
    const T last = high > low ? *std::min_element(values.begin() + low + 1, values.end()) : first;
    return 0.5 * (static_cast<double>(first) + static_cast<double>(last));
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return values[a] < values[b]; });
  std::vector<double> cumulated;
  double total = 0;
  for (int64_t i : order) cumulated.push_back(total += static_cast<double>(weight[i]));
  const double goal = q * total, slack = 1e-12 * total;
  const auto at = [&](auto found) {
    return static_cast<double>(values[order[std::min<int64_t>(found - cumulated.begin(), n - 1)]]);
  };
  const double low = at(std::lower_bound(cumulated.begin(), cumulated.end(), goal - slack));
  return 0.5 * (low + at(std::upper_bound(cumulated.begin(), cumulated.end(), goal + slack)));
}

template <typename T>
class LossFunction {
 public:
  LossFunction(const LossSettings& settings, const T* weight, int64_t n_outputs, int64_t n_samples)
      : kind_(settings.kind), p_(static_cast<T>(settings.parameter)), weight_(weight), n_outputs_(n_outputs),
        n_(n_samples), size_(n_outputs * n_samples) {
    if (weight_ && n_outputs_ > 1)
      for (int64_t o = 0; o < n_outputs_; ++o) repeated_.insert(repeated_.end(), weight_, weight_ + n_);
  }

  // derivative with respect to the raw prediction, y and raw (n_outputs, n_samples)
  void gradient(const T* SB_RESTRICT y, const T* SB_RESTRICT raw, T* SB_RESTRICT out) const {
    if (kind_ != LossKind::absolute && kind_ != LossKind::quantile) {
      each(y, raw, [&](int64_t i, T g, T) { out[i] = g; });
      return;
    }
    T largest = 0;
    for (int64_t i = 0; i < size_; ++i) largest = std::max(largest, std::abs(y[i]));
    const T rounding = (std::is_same_v<T, double> ? T(1e-12) : T(1e-6)) * largest;
    const T above = kind_ == LossKind::absolute ? T(1) : T(1) - p_, below = kind_ == LossKind::absolute ? T(-1) : -p_;
    for (int64_t i = 0; i < size_; ++i) {
      const T away = raw[i] - y[i];
      out[i] = std::abs(away) <= rounding ? T(0) : away > T(0) ? above : below;
    }
  }

  // gradient and positive curvature of a quadratic approximation
  void quadratic(const T* SB_RESTRICT y, const T* SB_RESTRICT raw, T* SB_RESTRICT gradient,
                 T* SB_RESTRICT curvature) const {
    if (kind_ != LossKind::absolute && kind_ != LossKind::quantile) {
      each(y, raw, [&](int64_t i, T g, T c) {
        gradient[i] = g;
        curvature[i] = c;
      });
      return;
    }
    const T half = kind_ == LossKind::absolute ? T(1) : T(0.5);
    const T shift = kind_ == LossKind::absolute ? T(0) : T(0.5) - p_, least = least_distance(y, raw);
    for (int64_t i = 0; i < size_; ++i) {
      const T away = raw[i] - y[i];
      curvature[i] = half / std::max(std::abs(away), least);
      gradient[i] = shift + curvature[i] * away;
    }
  }

  double weighted_mean(const T* values) const {
    double sum = 0, total = 0;
    for (int64_t i = 0; i < n_; ++i) {
      double here = 0;
      for (int64_t o = 0; o < n_outputs_; ++o) here += static_cast<double>(values[o * n_ + i]);
      const double w = weight_ ? static_cast<double>(weight_[i]) : 1.0;
      sum += w * here / static_cast<double>(n_outputs_);
      total += w;
    }
    return sum / total;
  }

 private:
  // Calls use(i, gradient, curvature) for losses without a kink.
  template <typename Use>
  void each(const T* y, const T* raw, Use use) const {
    constexpr T kLimit = std::is_same_v<T, double> ? T(250) : T(80);
    const auto clipped = [&](int64_t i) { return std::clamp(raw[i], -kLimit, kLimit); };
    switch (kind_) {
      case LossKind::huber:
        for (int64_t i = 0; i < size_; ++i) {
          const T away = raw[i] - y[i];
          use(i, std::clamp(away, -p_, p_), p_ / std::max(std::abs(away), p_));
        }
        break;
      case LossKind::log_cosh:
        for (int64_t i = 0; i < size_; ++i) {
          const T t = (raw[i] - y[i]) / p_, h = std::tanh(t);
          use(i, p_ * h, std::abs(t) > T(1e-6) ? h / t : T(1));
        }
        break;
      case LossKind::poisson:
        for (int64_t i = 0; i < size_; ++i) {
          const T e = std::exp(clipped(i));
          use(i, e - y[i], std::max(e, T(0.5) * y[i]));
        }
        break;
      case LossKind::gamma:
        for (int64_t i = 0; i < size_; ++i) {
          const T e = y[i] * std::exp(-clipped(i));
          use(i, T(1) - e, std::max(e, T(0.5)));
        }
        break;
      case LossKind::tweedie:
        for (int64_t i = 0; i < size_; ++i) {
          const T first = y[i] * std::exp((T(1) - p_) * clipped(i)), second = std::exp((T(2) - p_) * clipped(i));
          use(i, second - first, (T(2) - p_) * second + (p_ - T(1)) * first);
        }
        break;
      default:
        for (int64_t i = 0; i < size_; ++i) use(i, raw[i] - y[i], T(1));
    }
  }

  // positive minimum of |y - raw|; see _distance in softboost/losses.py
  T least_distance(const T* y, const T* raw) const {
    distance_.resize(static_cast<size_t>(size_));
    for (int64_t i = 0; i < size_; ++i) distance_[i] = std::abs(y[i] - raw[i]);
    const double least = 1e-3 * weighted_mean(distance_.data());
    const T* weight = n_outputs_ > 1 && weight_ ? repeated_.data() : weight_;
    const double middle = weighted_quantile(distance_, weight, 0.5), near = weighted_quantile(distance_, weight, 0.05);
    return static_cast<T>(std::max({std::min(near, 0.1 * middle), least, 1e-30}));
  }

  LossKind kind_;
  T p_;
  const T* weight_;
  int64_t n_outputs_, n_, size_;
  std::vector<T> repeated_;
  mutable std::vector<T> distance_;
};

// The constant that minimises the loss of y (n_samples,); for losses that do not depend on the level of y.
inline double loss_intercept(const LossSettings& loss, const double* y, const double* weight, int64_t n) {
  double total = 0, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double w = weight ? weight[i] : 1.0;
    total += w;
    sum += w * y[i];
  }
  if (loss.kind == LossKind::absolute || loss.kind == LossKind::quantile) {
    std::vector<double> values(y, y + n);
    return weighted_quantile(values, weight, loss.kind == LossKind::absolute ? 0.5 : loss.parameter);
  }
  // Newton steps within an interval that contains the root of the increasing gradient, else bisection
  double low = *std::min_element(y, y + n), high = *std::max_element(y, y + n), c = sum / total;
  const double p = loss.parameter;
  std::vector<double> gradients(static_cast<size_t>(n)), slopes(static_cast<size_t>(n));
  for (int step = 0; step < 100; ++step) {
    if (loss.kind == LossKind::huber) {
      SB_SIMD
      for (int64_t i = 0; i < n; ++i) {
        const double away = c - y[i], least = away < -p ? -p : away;
        gradients[i] = least > p ? p : least;
        slopes[i] = std::abs(away) < p ? 1.0 : 0.0;
      }
    } else {
      SB_SIMD
      for (int64_t i = 0; i < n; ++i) {
        const double t = (c - y[i]) / p, e = exp_nonpositive(-2.0 * std::abs(t)), h = (1.0 - e) / (1.0 + e);  // tanh|t|
        gradients[i] = t < 0 ? -p * h : p * h;
        slopes[i] = 1.0 - h * h;
      }
    }
    double gradient = 0, slope = 0;
    SB_SIMD_SUM(gradient)
    for (int64_t i = 0; i < n; ++i) gradient += (weight ? weight[i] : 1.0) * gradients[i];
    SB_SIMD_SUM(slope)
    for (int64_t i = 0; i < n; ++i) slope += (weight ? weight[i] : 1.0) * slopes[i];
    if (gradient == 0) break;
    (gradient > 0 ? high : low) = c;
    const double enough = 4e-15 * (1 + std::abs(c));
    double next = slope > 0 ? c - gradient / slope : low;
    // at the root a step of Newton is rounding and may leave the interval, whose other end is still far away
    if (slope > 0 && std::abs(next - c) <= enough) break;
    if (!(next > low && next < high)) next = low / 2 + high / 2;
    const double change = std::abs(next - c);
    c = next;
    if (change <= enough) break;
  }
  return c;
}

}  // namespace SB_ISA
}  // namespace softboost
