// Ridge regression one row at a time: the covariance of the coefficients, and what a row does to it. In one thread and
// without a library, so that a stream gives the same bits whatever the surroundings.
#pragma once

#include "solve.hpp"

namespace softboost {
namespace SB_ISA {

// gain (n,) = P b, then P -= gain gain' / (gap + b' gain), with P (n, n) symmetric and kept so to the last bit.
// Returns b' gain; where that is negative or NaN, for which only rounding can be the reason, P stays as it was.
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

// coefficients (n,) = G^-1 c and covariance (n, n) = G^-1 of a positive definite G; see Cholesky for one that is not.
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
