// Ridge regression on a basis given row by row: Gram matrix, Cholesky factor, leave-one-out error.
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
  constexpr int64_t kTile = SB_VECTOR_BYTES == 64 ? 4 : 2;  // rows of the tile; what the registers hold
  constexpr int64_t kWide = SB_VECTOR_BYTES == 64 ? 4 : 3;  // columns of the tile
  const int64_t padded = round_up(n, kLanes);
  for (int64_t p0 = 0; p0 < n_basis; p0 += kTile) {
    for (int64_t q0 = 0; q0 < p0 + kTile; q0 += kWide) {
      if (p0 + kTile <= n_basis && q0 + kWide <= n_basis) {
        V sum[kTile][kWide] = {};
        for (int64_t i = 0; i < padded; i += kLanes) {
          V row[kTile], column[kWide];
          for (int64_t a = 0; a < kTile; ++a) row[a] = load(basis + (p0 + a) * stride + i);
          for (int64_t b = 0; b < kWide; ++b) column[b] = load(basis + (q0 + b) * stride + i);
          for (int64_t a = 0; a < kTile; ++a)
            for (int64_t b = 0; b < kWide; ++b) sum[a][b] += row[a] * column[b];
        }
        for (int64_t a = 0; a < kTile; ++a)
          for (int64_t b = 0; b < kWide; ++b)
            if (q0 + b <= p0 + a) gram[(p0 + a) * n_basis + q0 + b] += static_cast<double>(lane_sum<T>(sum[a][b]));
      } else {
        for (int64_t p = p0; p < std::min(p0 + kTile, n_basis); ++p)
          for (int64_t q = q0; q < std::min(q0 + kWide, p + 1); ++q)
            gram[p * n_basis + q] += static_cast<double>(dot(basis + p * stride, basis + q * stride, padded));
      }
    }
  }
  for (int64_t o = 0; o < n_outputs; ++o)
    for (int64_t p = 0; p < n_basis; ++p)
      cross[o * n_basis + p] += static_cast<double>(dot(target + o * stride, basis + p * stride, padded));
}

// Cholesky factor of gram + ridge I. A pivot lost to rounding (duplicated or empty basis functions without enough
// ridge) gets an inverse of zero, which sets that coefficient to zero instead of blowing up.
struct Cholesky {
  int64_t size = 0;
  std::vector<double> factor, inverse_diagonal;

  void compute(const double* gram, int64_t n, double ridge, Interrupt* interrupt = nullptr) {
    size = n;
    factor.assign(static_cast<size_t>(n * n), 0.0);
    inverse_diagonal.assign(static_cast<size_t>(n), 0.0);
    double largest = 0;
    for (int64_t p = 0; p < n; ++p) largest = std::max(largest, gram[p * n + p] + ridge);
    for (int64_t p = 0; p < n; ++p) {
      if (p % 64 == 63 && interrupted(interrupt)) return;
      double* row = factor.data() + p * n;
      for (int64_t q = 0; q < p; ++q) {
        const double* other = factor.data() + q * n;
        row[q] = (gram[p * n + q] - dot(row, other, q)) * inverse_diagonal[q];
      }
      const double pivot = gram[p * n + p] + ridge - dot(row, row, p);
      if (pivot > 1e-14 * largest) {
        row[p] = std::sqrt(pivot);
        inverse_diagonal[p] = 1.0 / row[p];
      }
    }
  }

  void solve(const double* right_side, double* solution) const {
    for (int64_t p = 0; p < size; ++p)
      solution[p] = (right_side[p] - dot(factor.data() + p * size, solution, p)) * inverse_diagonal[p];
    for (int64_t p = size - 1; p >= 0; --p) {
      solution[p] *= inverse_diagonal[p];
      for (int64_t q = 0; q < p; ++q) solution[q] -= factor[p * size + q] * solution[p];
    }
  }
};

// Squared leave-one-out errors of one block, summed: sum_i w_i sum_o (e_io / max(1 - h_i, 0.05))^2 with
// h_i = b_i' (B'WB + ridge I)^-1 b_i the leverage of one copy of row i, so a weight of 2 equals the row twice.
// basis and target carry the square root of the weights; weight is null for all ones.
template <typename T>
double leave_one_out(const T* basis, const T* target, const T* weight, const Cholesky& cholesky,
                     const double* coefficients, int64_t n_basis, int64_t n_outputs, int64_t stride, int64_t n,
                     std::vector<T>& buffer) {
  using V = typename Lanes<T>::vec;
  constexpr int64_t kLanes = Lanes<T>::count;
  const size_t n_factor = static_cast<size_t>(n_basis * n_basis);
  buffer.resize(n_factor + static_cast<size_t>(n_basis * (1 + n_outputs) + n_basis * kLanes));
  T* factor = buffer.data();
  T* inverse_diagonal = factor + n_factor;
  T* gamma = inverse_diagonal + n_basis;
  T* whitened = gamma + n_basis * n_outputs;  // (n_basis, kLanes)
  for (size_t j = 0; j < n_factor; ++j) factor[j] = static_cast<T>(cholesky.factor[j]);
  for (int64_t p = 0; p < n_basis; ++p) inverse_diagonal[p] = static_cast<T>(cholesky.inverse_diagonal[p]);
  for (int64_t j = 0; j < n_basis * n_outputs; ++j) gamma[j] = static_cast<T>(coefficients[j]);
  double total = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    V leverage = {};
    for (int64_t p = 0; p < n_basis; ++p) {
      V sum = load(basis + p * stride + i);
      const T* row = factor + p * n_basis;
      for (int64_t q = 0; q < p; ++q) sum -= row[q] * load(whitened + q * kLanes);
      sum *= inverse_diagonal[p];
      store(whitened + p * kLanes, sum);
      leverage += sum * sum;
    }
    T lever[kLanes], error[kLanes];
    store(lever, leverage);
    for (int64_t o = 0; o < n_outputs; ++o) {
      V residual = load(target + o * stride + i);
      for (int64_t p = 0; p < n_basis; ++p) residual -= gamma[o * n_basis + p] * load(basis + p * stride + i);
      store(error, residual);
      for (int64_t lane = 0; lane < std::min(kLanes, n - i); ++lane) {
        const double w = weight ? static_cast<double>(weight[i + lane]) : 1.0;
        const double keep = std::max(1.0 - static_cast<double>(lever[lane]) / w, 0.05);
        const double e = static_cast<double>(error[lane]) / keep;
        total += e * e;
      }
    }
  }
  return total;
}

}  // namespace SB_ISA
}  // namespace softboost
