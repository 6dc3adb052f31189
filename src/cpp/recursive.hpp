// Recursive least squares: the covariance of the coefficients and its update by a row. It uses one thread and no
// library, so that the results on a stream are reproducible bit for bit.
#pragma once

#include "solve.hpp"

namespace softboost {
namespace SB_ISA {

// gain (n,) = P b, then P -= gain gain' / (gap + b' gain); P (n, n) stays exactly symmetric.
// Returns b' gain; if that is negative or NaN, which only rounding can cause, P is not changed.
inline double rls_update(double* covariance, const double* basis, int64_t n, double gap, double* gain) {
  for (int64_t i = 0; i < n; ++i) gain[i] = dot(covariance + i * n, basis, n);
  const double variance = dot(basis, gain, n);
  if (!(variance >= 0.0)) return variance;
  const double length = 1.0 / std::sqrt(gap + variance);
  std::vector<double> unit(gain, gain + n);
  for (double& u : unit) u *= length;
  for (int64_t i = 0; i < n; ++i) axpy(-unit[i], unit.data(), covariance + i * n, n);
  return variance;
}

// coefficients (n,) = G^-1 c and covariance (n, n) = G^-1 of a positive definite G; Cholesky handles singular ones.
inline void solve_with_inverse(const double* gram, const double* cross, int64_t n, Interrupt* interrupt,
                               double* coefficients, double* covariance) {
  Cholesky cholesky;
  cholesky.compute(gram, n, 0.0, interrupt);
  if (interrupted(interrupt)) return;
  cholesky.solve(cross, coefficients);
  cholesky.invert();
  for (int64_t p = 0; p < n; ++p) {
    const double* row = cholesky.inverse.data() + p * cholesky.stride;
    for (int64_t i = 0; i <= p; ++i) axpy(row[i], row, covariance + i * n, i + 1);
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) covariance[j * n + i] = covariance[i * n + j];
}

}  // namespace SB_ISA
}  // namespace softboost
