// Ridge regression on basis functions: Gram matrix, Cholesky factor, leave-one-out error.
#pragma once

#include <limits>

#include "parallel.hpp"

namespace softboost {
namespace SB_ISA {

// gram (n_basis, n_basis), lower triangle, += basis basis^T; cross (n_outputs, n_basis) += target basis^T.
// Rows of basis and target are `stride` long, a multiple of the vector length, and zero past the last sample.
template <typename T>
void accumulate_gram(const T* basis, const T* target, int64_t n_basis, int64_t n_outputs, int64_t stride, int64_t n,
                     double* gram, double* cross) {
  using V = typename Lanes<T>::vec;
  constexpr int64_t kLanes = Lanes<T>::count;
  constexpr int64_t kTile = SB_VECTOR_BYTES == 64 ? 4 : 2;  // rows of the tile, which fits the registers
  constexpr int64_t kWide = SB_VECTOR_BYTES == 64 ? 4 : 3;  // columns of the tile
  const int64_t padded = round_up(n, kLanes);
  // past the last basis function a tile repeats it, and the results are not used
  auto row_of = [&](int64_t p) { return basis + std::min(p, n_basis - 1) * stride; };
  for (int64_t p0 = 0; p0 < n_basis; p0 += kTile) {
    const T* rows[kTile];
    for (int64_t a = 0; a < kTile; ++a) rows[a] = row_of(p0 + a);
    const int64_t last = std::min(p0 + kTile, n_basis);
    for (int64_t q0 = 0; q0 < last; q0 += kWide) {
      const T* columns[kWide];
      for (int64_t b = 0; b < kWide; ++b) columns[b] = row_of(q0 + b);
      V sum[kTile * kWide] = {};
      for (int64_t i = 0; i < padded; i += kLanes) {
        V row[kTile], column[kWide];
        SB_UNROLL
        for (int64_t a = 0; a < kTile; ++a) row[a] = load(rows[a] + i);
        SB_UNROLL
        for (int64_t b = 0; b < kWide; ++b) column[b] = load(columns[b] + i);
        SB_UNROLL
        for (int64_t e = 0; e < kTile * kWide; ++e) sum[e] += row[e / kWide] * column[e % kWide];
      }
      SB_UNROLL
      for (int64_t a = 0; a < kTile; ++a) {
        T total[kWide];
        lane_sums<T, kWide>(sum + a * kWide, total);
        if (p0 + a >= n_basis) continue;
        for (int64_t b = 0; b < std::min(kWide, p0 + a - q0 + 1); ++b)
          gram[(p0 + a) * n_basis + q0 + b] += static_cast<double>(total[b]);
      }
    }
    for (int64_t o = 0; o < n_outputs; ++o) {
      V sum[kTile] = {};
      for (int64_t i = 0; i < padded; i += kLanes) {
        const V right = load(target + o * stride + i);
        SB_UNROLL
        for (int64_t a = 0; a < kTile; ++a) sum[a] += load(rows[a] + i) * right;
      }
      T total[kTile];
      lane_sums<T, kTile>(sum, total);
      for (int64_t p = p0; p < last; ++p) cross[o * n_basis + p] += static_cast<double>(total[p - p0]);
    }
  }
}

// Cholesky factor of gram + ridge I. A pivot that is lost to rounding (duplicated or empty basis functions and too
// small a ridge) gets an inverse of zero, which sets the coefficient to zero.
struct Cholesky {
  int64_t size = 0, stride = 0, n_right = 0;
  std::vector<double>
      factor;  // U of U'U, row-major, rows `stride` apart so that updates are whole vectors; then U'^-1 c
  std::vector<double> inverse_diagonal;
  std::vector<double> inverse;  // inverse of U', lower triangle, rows `stride` apart; see invert()

  // With right sides c (n_right, n), they are eliminated together with the matrix, for solve_all().
  void compute(const double* gram, int64_t n, double ridge, Interrupt* interrupt = nullptr,
               const double* right = nullptr, int64_t n_rights = 0) {
    constexpr int64_t kLanes = Lanes<double>::count;
    size = n;
    n_right = n_rights;
    stride = round_up(n + n_right, kLanes);
    factor.resize(static_cast<size_t>(n * stride));
    inverse_diagonal.resize(static_cast<size_t>(n));
    double* u = factor.data();
    double largest = 0;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = 0; q <= p; ++q) u[q * stride + p] = gram[p * n + q];
      for (int64_t o = 0; o < n_right; ++o) u[p * stride + n + o] = right[o * n + p];
      u[p * stride + p] += ridge;
      largest = std::max(largest, u[p * stride + p]);
    }
    for (int64_t k = 0; k < n; ++k) {
      if (k % 64 == 63 && interrupted(interrupt)) return;
      double* row = u + k * stride;
      const double pivot = row[k], inverse = pivot > 1e-14 * largest ? 1.0 / std::sqrt(pivot) : 0.0;
      inverse_diagonal[k] = inverse;
      // elements left of the diagonal are never read, so whole vectors may be changed
      for (int64_t i = k / kLanes * kLanes; i < stride; i += kLanes) store(row + i, load(row + i) * inverse);
      for (int64_t r = k + 1; r < n; ++r) {
        const double f = row[r];
        double* other = u + r * stride;
        for (int64_t i = r / kLanes * kLanes; i < stride; i += kLanes)
          store(other + i, load(other + i) - f * load(row + i));
      }
    }
  }

  void solve(const double* right_side, double* solution) const {
    std::copy_n(right_side, size, solution);
    for (int64_t p = 0; p < size; ++p) {
      solution[p] *= inverse_diagonal[p];
      axpy(-solution[p], factor.data() + p * stride + p + 1, solution + p + 1, size - p - 1);
    }
    for (int64_t p = size - 1; p >= 0; --p) {
      const double later = dot(factor.data() + p * stride + p + 1, solution + p + 1, size - p - 1);
      solution[p] = (solution[p] - later) * inverse_diagonal[p];
    }
  }

  // Computes `inverse`; leverages are then a product instead of a solve for every row.
  void invert() {
    constexpr int64_t kLanes = Lanes<double>::count;
    using V = typename Lanes<double>::vec;
    inverse.resize(static_cast<size_t>(size * stride));
    for (int64_t p = 0; p < size; ++p) {
      double* row = inverse.data() + p * stride;
      const V diagonal = V{} + inverse_diagonal[p];
      for (int64_t i = 0; i <= p; i += kLanes) {
        V sum = {};  // rows are zero past their diagonal, up to a whole vector
        for (int64_t q = i; q < p; ++q) sum -= factor[q * stride + p] * load(inverse.data() + q * stride + i);
        store(row + i, sum * diagonal);
      }
      row[p] = inverse_diagonal[p];
    }
  }

  // Solutions (n_right, n) for the right sides of compute(); needs invert().
  void solve_all(double* solutions) const {
    constexpr int64_t kLanes = Lanes<double>::count;
    using V = typename Lanes<double>::vec;
    for (int64_t o = 0; o < n_right; ++o)
      for (int64_t i = 0; i < size; i += kLanes) {
        V sum = {};
        for (int64_t p = i; p < size; ++p) sum += factor[p * stride + size + o] * load(inverse.data() + p * stride + i);
        double part[kLanes];
        store(part, sum);
        std::copy_n(part, std::min(kLanes, size - i), solutions + o * size + i);
      }
  }
};

// Squared lengths of whitened rows [i, i + W vectors): leverage = |U'^-1 b|^2, four rows of the inverse at a time.
template <typename T, int W>
inline void leverages(const T* inverse, const T* basis, int64_t n_basis, int64_t stride, T* out) {
  using V = typename Lanes<T>::vec;
  constexpr int64_t kLanes = Lanes<T>::count;
  constexpr int64_t kRows = 4;
  V total[W] = {};
  for (int64_t p0 = 0; p0 < n_basis; p0 += kRows) {
    V sum[kRows][W] = {};
    const int64_t last = std::min(p0 + kRows, n_basis);
    for (int64_t q = 0; q < last; ++q) {
      V column[W];
      for (int w = 0; w < W; ++w) column[w] = load(basis + q * stride + w * kLanes);
      // the inverse is stored by columns in fours: zero above its diagonal and past its last row
      const T* four = inverse + p0 * n_basis + q * kRows;
      for (int64_t r = 0; r < kRows; ++r)
        for (int w = 0; w < W; ++w) sum[r][w] += four[r] * column[w];
    }
    for (int64_t r = 0; r < kRows; ++r)
      for (int w = 0; w < W; ++w) total[w] += sum[r][w] * sum[r][w];
  }
  for (int w = 0; w < W; ++w) store(out + w * kLanes, total[w]);
}

// Squared leave-one-out errors of one block, summed: sum_i w_i sum_o (e_io / max(1 - h_i, 0.05))^2 with
// h_i = b_i' (B'WB + ridge I)^-1 b_i the leverage of one copy of row i, so that weight 2 equals the repeated row.
// basis and target include the square root of the weights; weight is null for unit weights. Needs invert().
template <typename T>
double leave_one_out(const T* basis, const T* target, const T* weight, const Cholesky& cholesky,
                     const double* coefficients, int64_t n_basis, int64_t n_outputs, int64_t stride, int64_t n,
                     std::vector<T>& buffer) {
  using V = typename Lanes<T>::vec;
  constexpr int64_t kLanes = Lanes<T>::count;
  const int64_t padded = round_up(n_basis, 4), n_rows = round_up(n, kLanes);
  buffer.resize(static_cast<size_t>(padded * n_basis + n_basis * n_outputs + 2 * n_rows));
  T* inverse = buffer.data();
  T* gamma = inverse + padded * n_basis;
  T* keep = gamma + n_basis * n_outputs;
  T* error = keep + n_rows;
  for (int64_t p = 0; p < padded; ++p) {
    const double* row = cholesky.inverse.data() + p * cholesky.stride;
    T* to = inverse + p / 4 * 4 * n_basis + p % 4;
    const int64_t last = std::min(p / 4 * 4 + 4, n_basis);
    for (int64_t q = 0; q < last; ++q) to[q * 4] = q <= p && p < n_basis ? static_cast<T>(row[q]) : T(0);
  }
  for (int64_t j = 0; j < n_basis * n_outputs; ++j) gamma[j] = static_cast<T>(coefficients[j]);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n_rows; i += 2 * kLanes) leverages<T, 2>(inverse, basis + i, n_basis, stride, keep + i);
  for (; i < n_rows; i += kLanes) leverages<T, 1>(inverse, basis + i, n_basis, stride, keep + i);
  if (weight)
    for (int64_t j = 0; j < n; ++j) keep[j] /= weight[j];
  for (int64_t j = 0; j < n; ++j) keep[j] = T(1) / std::max(T(1) - keep[j], T(0.05));
  double total = 0;
  for (int64_t o = 0; o < n_outputs; ++o) {
    const T* g = gamma + o * n_basis;
    for (i = 0; i < n_rows; i += kLanes) {
      V residual = load(target + o * stride + i), other = {};
      int64_t p = 0;
      for (; p + 1 < n_basis; p += 2) {
        residual -= g[p] * load(basis + p * stride + i);
        other -= g[p + 1] * load(basis + (p + 1) * stride + i);
      }
      if (p < n_basis) residual -= g[p] * load(basis + p * stride + i);
      store(error + i, residual + other);
    }
    for (int64_t j = 0; j < n; ++j) error[j] *= keep[j];
    double sum = 0;
    SB_SIMD_SUM(sum)
    for (int64_t j = 0; j < n; ++j) sum += static_cast<double>(error[j]) * static_cast<double>(error[j]);
    total += sum;
  }
  return total;
}

}  // namespace SB_ISA
}  // namespace softboost
