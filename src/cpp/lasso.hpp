// The lasso path by coordinate descent on the Gram matrix, with warm starts and an active set.
#pragma once

#include <vector>

#include "simd.hpp"

namespace softboost {
namespace SB_ISA {

// For each penalty: argmin_b  b'Gb / 2 - c'b + penalty * |b|_1.  out is (n_penalties, n_columns).
// Duplicated columns are no trouble: coordinate descent puts the weight on the first and leaves the others.
inline void lasso_path(const double* gram, const double* cross, int64_t n_columns, const double* penalties,
                       int64_t n_penalties, double tolerance, int64_t max_sweeps, double* out) {
  std::vector<double> beta(static_cast<size_t>(n_columns), 0.0), gradient(cross, cross + n_columns);
  double scale = 0;
  for (int64_t j = 0; j < n_columns; ++j) scale = std::max(scale, std::abs(cross[j]));
  std::vector<int64_t> active;
  auto update = [&](int64_t j, double penalty) {
    const double curvature = gram[j * n_columns + j];
    if (curvature <= 0) return 0.0;
    const double rho = gradient[j] + curvature * beta[j];
    const double shrunk = std::abs(rho) - penalty;
    const double next = shrunk > 0 ? std::copysign(shrunk, rho) / curvature : 0.0;
    const double change = next - beta[j];
    if (change == 0) return 0.0;
    beta[j] = next;
    axpy(-change, gram + j * n_columns, gradient.data(), n_columns);
    return std::abs(change) * curvature;
  };
  for (int64_t l = 0; l < n_penalties; ++l) {
    const double penalty = penalties[l], enough = tolerance * scale;
    for (int64_t sweep = 0; sweep < max_sweeps; ++sweep) {
      double largest = 0;
      for (int64_t j = 0; j < n_columns; ++j) largest = std::max(largest, update(j, penalty));
      if (largest <= enough) break;
      active.clear();
      for (int64_t j = 0; j < n_columns; ++j)
        if (beta[j] != 0) active.push_back(j);
      for (; sweep < max_sweeps; ++sweep) {
        largest = 0;
        for (int64_t j : active) largest = std::max(largest, update(j, penalty));
        if (largest <= enough) break;
      }
    }
    std::copy(beta.begin(), beta.end(), out + l * n_columns);
  }
}

}  // namespace SB_ISA
}  // namespace softboost
