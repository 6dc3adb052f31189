// Linear models from second moments: ridge and lasso paths, and least squares on the supports of a lasso path. All
// computations are in double precision and use no library, so that a fit starts no library threads.
#pragma once

#include "matrix.hpp"
#include "solve.hpp"

namespace softboost {
namespace SB_ISA {

// mean_x (n_columns,), mean_y (n_outputs,): weighted means of x (n_columns, n_samples) and y (n_outputs, n_samples)
template <typename T>
void weighted_means(const T* x, const T* weight, int64_t n_columns, int64_t n_samples, int n_threads, double* mean) {
  double total = 0;
  for (int64_t i = 0; i < n_samples; ++i) total += weight ? static_cast<double>(weight[i]) : 1.0;
  parallel_for(n_columns, n_threads, [&](int64_t j) {
    const T* row = x + j * n_samples;
    double sum = 0;
    if (weight) {
      SB_SIMD_SUM(sum)
      for (int64_t i = 0; i < n_samples; ++i) sum += static_cast<double>(weight[i]) * static_cast<double>(row[i]);
    } else {
      SB_SIMD_SUM(sum)
      for (int64_t i = 0; i < n_samples; ++i) sum += static_cast<double>(row[i]);
    }
    mean[j] = sum / total;
  });
}

// gram (n_columns, n_columns) = Xc W Xc', cross (n_outputs, n_columns) = yc W Xc', both centred at the given means.
// Rows are processed in pieces that fit the cache, in a number of chunks that depends only on the shape.
template <typename T>
void moments(const T* x, const T* y, const T* weight, int64_t n_columns, int64_t n_outputs, int64_t n_samples,
             const double* mean_x, const double* mean_y, int n_threads, Interrupt* interrupt, double* gram,
             double* cross) {
  const int64_t piece = std::clamp<int64_t>(32768 / n_columns / 16 * 16, 16, 256);
  const int64_t n_chunks = std::clamp<int64_t>(n_samples / 4096, 1, 8), size = n_columns * (n_columns + n_outputs);
  const int64_t chunk_rows = (n_samples + n_chunks - 1) / n_chunks;
  std::vector<double> partial(static_cast<size_t>(size * n_chunks));
  parallel_for(
      n_chunks, n_threads,
      [&](int64_t chunk) {
        std::vector<double> basis(static_cast<size_t>(n_columns * piece)),
            target(static_cast<size_t>(n_outputs * piece));
        double* sum = partial.data() + chunk * size;
        const int64_t end = std::min((chunk + 1) * chunk_rows, n_samples);
        for (int64_t begin = chunk * chunk_rows; begin < end; begin += piece) {
          const int64_t n = std::min(piece, end - begin);
          auto copy = [&](const T* from, int64_t rows, const double* mean, double* to) {
            for (int64_t j = 0; j < rows; ++j) {
              const T* in = from + j * n_samples + begin;
              double* out = to + j * piece;
              for (int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(in[i]) - mean[j];
              if (weight)
                for (int64_t i = 0; i < n; ++i) out[i] *= std::sqrt(static_cast<double>(weight[begin + i]));
              std::fill(out + n, out + piece, 0.0);
            }
          };
          copy(x, n_columns, mean_x, basis.data());
          copy(y, n_outputs, mean_y, target.data());
          accumulate_gram(basis.data(), target.data(), n_columns, n_outputs, piece, n, sum,
                          sum + n_columns * n_columns);
        }
      },
      interrupt);
  for (int64_t chunk = 1; chunk < n_chunks; ++chunk) axpy(1.0, partial.data() + chunk * size, partial.data(), size);
  for (int64_t p = 0; p < n_columns; ++p)
    for (int64_t q = 0; q <= p; ++q) gram[p * n_columns + q] = gram[q * n_columns + p] = partial[p * n_columns + q];
  std::copy_n(partial.data() + n_columns * n_columns, n_outputs * n_columns, cross);
}

// Decomposition Q T Q' of a symmetric matrix with T tridiagonal, by Householder reflections. Each pass over the matrix
// applies the previous reflection and multiplies with the vector of the next one.
struct Tridiagonal {
  int64_t n = 0, stride = 0;
  std::vector<double> diagonal, below;     // of T
  std::vector<double> reflectors, factor;  // row k of `reflectors` is v_k, zero up to k; H_k = I - factor_k v_k v_k'

  void compute(const double* symmetric, int64_t size, Interrupt* interrupt) {
    n = size;
    stride = round_up(n, Lanes<double>::count);  // so that all passes are over whole vectors
    std::vector<double> a(static_cast<size_t>(n * stride), 0.0), column(static_cast<size_t>(n)),
        w(static_cast<size_t>(stride), 0.0), none(static_cast<size_t>(stride), 0.0);
    for (int64_t i = 0; i < n; ++i) std::copy_n(symmetric + i * n, n, a.data() + i * stride);
    diagonal.assign(static_cast<size_t>(n), 0.0);
    below.assign(static_cast<size_t>(n), 0.0);
    reflectors.assign(static_cast<size_t>(n * stride), 0.0);
    factor.assign(static_cast<size_t>(n), 0.0);
    double largest = 0;
    for (int64_t k = 0; k < n; ++k) largest = std::max(largest, a[k * stride + k]);
    const double nothing = 1e-30 * largest;  // far below rounding; the squares of anything smaller may underflow
    const double* previous = none.data();
    for (int64_t k = 0; k < n; ++k) {
      if (k % 64 == 63 && interrupted(interrupt)) return;
      // row k of the remaining matrix after the previous reflection
      double* row = a.data() + k * stride;
      axpy(-previous[k], w.data() + k, row + k, n - k);
      axpy(-w[k], previous + k, row + k, n - k);
      diagonal[k] = row[k];
      if (k + 1 == n) break;
      double* v = reflectors.data() + k * stride;
      std::copy(row + k + 1, row + n, v + k + 1);
      const double length = std::sqrt(dot(v + k + 1, v + k + 1, n - k - 1));
      if (length > nothing) {
        const double alpha = v[k + 1] > 0 ? -length : length;
        below[k] = alpha;
        v[k + 1] -= alpha;
        factor[k] = 2.0 / dot(v + k + 1, v + k + 1, n - k - 1);
      }
      const Pass pass{a.data(), stride, (k + 1) / Lanes<double>::count * Lanes<double>::count, previous, w.data(), v};
      int64_t i = k + 1;
      for (; i + 4 <= n; i += 4) reflect_rows<4>(pass, i, column.data() + i);
      for (; i < n; ++i) reflect_rows<1>(pass, i, column.data() + i);
      for (i = k + 1; i < n; ++i) column[i] *= factor[k];
      const double half = 0.5 * factor[k] * dot(column.data() + k + 1, v + k + 1, n - k - 1);
      for (i = k + 1; i < n; ++i) w[i] = column[i] - half * v[i];
      previous = v;
    }
  }

  // x (n, batch) becomes Q' x, or Q x
  void reflect(double* x, int64_t batch, bool transposed) const {
    std::vector<double> s(static_cast<size_t>(batch));
    for (int64_t step = 0; step + 1 < n; ++step) {
      const int64_t k = transposed ? step : n - 2 - step;
      if (factor[k] == 0) continue;
      const double* v = reflectors.data() + k * stride;
      std::fill(s.begin(), s.end(), 0.0);
      for (int64_t i = k + 1; i < n; ++i) axpy(v[i], x + i * batch, s.data(), batch);
      for (int64_t i = k + 1; i < n; ++i) axpy(-factor[k] * v[i], s.data(), x + i * batch, batch);
    }
  }

 private:
  // A pass over the columns from `first`: rows a_i -= previous_i w + w_i previous, and their products with v.
  struct Pass {
    double* a;
    int64_t stride, first;
    const double *previous, *w, *v;
  };

  // Rows i to i + R - 1, which share the loads of the three vectors. Columns that are finished may change.
  template <int R>
  static void reflect_rows(const Pass& p, int64_t i, double* product) {
    using V = typename Lanes<double>::vec;
    V sum[R] = {};
    double* rows = p.a + i * p.stride;
    for (int64_t j = p.first; j < p.stride; j += Lanes<double>::count) {
      const V w = load(p.w + j), previous = load(p.previous + j), v = load(p.v + j);
      SB_UNROLL
      for (int r = 0; r < R; ++r) {
        const V rest = load(rows + r * p.stride + j) - p.previous[i + r] * w - p.w[i + r] * previous;
        store(rows + r * p.stride + j, rest);
        sum[r] += rest * v;
      }
    }
    lane_sums<double, R>(sum, product);
  }
};

// For each penalty and output: (G + penalty I) b = c, from one tridiagonal form of G. cross is (n_outputs, n_columns),
// out (n_penalties, n_outputs, n_columns), log_determinants (n_penalties,) those of G + penalty I.
inline void ridge_path(const double* gram, const double* cross, int64_t n_columns, int64_t n_outputs,
                       const double* penalties, int64_t n_penalties, Interrupt* interrupt, double* out,
                       double* log_determinants) {
  Tridiagonal t;
  t.compute(gram, n_columns, interrupt);
  if (interrupted(interrupt)) return;
  std::vector<double> turned(static_cast<size_t>(n_columns * n_outputs));
  for (int64_t o = 0; o < n_outputs; ++o)
    for (int64_t j = 0; j < n_columns; ++j) turned[j * n_outputs + o] = cross[o * n_columns + j];
  t.reflect(turned.data(), n_outputs, true);
  const int64_t batch = n_penalties * n_outputs;
  std::vector<double> x(static_cast<size_t>(n_columns * batch)), pivot(static_cast<size_t>(n_columns));
  for (int64_t l = 0; l < n_penalties; ++l) {
    for (int64_t j = 0; j < n_columns; ++j) {
      const double carried = j > 0 ? t.below[j - 1] * t.below[j - 1] / pivot[j - 1] : 0.0;
      pivot[j] = std::max(t.diagonal[j] + penalties[l] - carried, 1e-3 * penalties[l]);  // guards against rounding
    }
    log_determinants[l] = 0.0;
    for (const double p : pivot) log_determinants[l] += std::log(p);
    for (int64_t o = 0; o < n_outputs; ++o) {
      double* y = x.data() + l * n_outputs + o;
      for (int64_t j = 0; j < n_columns; ++j)
        y[j * batch] = turned[j * n_outputs + o] - (j > 0 ? t.below[j - 1] / pivot[j - 1] * y[(j - 1) * batch] : 0.0);
      for (int64_t j = n_columns - 1; j >= 0; --j)
        y[j * batch] = (y[j * batch] - (j + 1 < n_columns ? t.below[j] * y[(j + 1) * batch] : 0.0)) / pivot[j];
    }
  }
  t.reflect(x.data(), batch, false);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t j = 0; j < n_columns; ++j) out[b * n_columns + j] = x[j * batch + b];
}

// Least squares with a small ridge on the support of each stage of a path of coefficients (n_stages, n_columns).
// A stage with more than `limit` coefficients, or with the support of the previous stage, repeats the previous stage.
inline void relaxed_path(const double* gram, const double* cross, int64_t n_columns, const double* path,
                         int64_t n_stages, double limit, double ridge, double* out) {
  std::vector<int64_t> support, before;
  std::vector<double> block, right, solution;
  Cholesky cholesky;
  for (int64_t stage = 0; stage < n_stages; ++stage) {
    const double* beta = path + stage * n_columns;
    double* to = out + stage * n_columns;
    support.clear();
    for (int64_t j = 0; j < n_columns; ++j)
      if (beta[j] != 0) support.push_back(j);
    const int64_t n = static_cast<int64_t>(support.size());
    if (static_cast<double>(n) > limit || (stage > 0 && support == before)) {
      if (stage > 0) std::copy_n(to - n_columns, n_columns, to);
      continue;
    }
    before = support;
    block.resize(static_cast<size_t>(n * n));
    right.resize(static_cast<size_t>(n));
    solution.resize(static_cast<size_t>(n));
    for (int64_t p = 0; p < n; ++p) {
      right[p] = cross[support[p]];
      for (int64_t q = 0; q <= p; ++q) block[p * n + q] = gram[support[p] * n_columns + support[q]];
    }
    cholesky.compute(block.data(), n, ridge);
    cholesky.solve(right.data(), solution.data());
    for (int64_t p = 0; p < n; ++p) to[support[p]] = solution[p];
  }
}

// out (n_models, n_samples) = coefficients (n_models, n_columns) x + intercepts
template <typename T>
void linear_outputs(const double* coefficients, const double* intercepts, int64_t n_models, const T* x,
                    int64_t n_columns, int64_t n_samples, int n_threads, double* out) {
  const int64_t piece = std::clamp<int64_t>(32768 / n_columns / 16 * 16, 16, 256);
  parallel_for(block_count(n_samples, piece), n_threads, [&](int64_t block) {
    const int64_t begin = block * piece, n = std::min(piece, n_samples - begin), stride = round_up(n, 16);
    std::vector<double> rows(static_cast<size_t>(n_columns * stride)), result(static_cast<size_t>(n_models * stride));
    for (int64_t j = 0; j < n_columns; ++j)
      for (int64_t i = 0; i < n; ++i) rows[j * stride + i] = static_cast<double>(x[j * n_samples + begin + i]);
    multiply(coefficients, n_columns, n_models, n_columns, rows.data(), stride, stride, intercepts, result.data(),
             stride);
    for (int64_t k = 0; k < n_models; ++k) std::copy_n(result.data() + k * stride, n, out + k * n_samples + begin);
  });
}

// For each penalty: argmin_b  b'Gb / 2 - c'b + penalty * |b|_1.  out is (n_penalties, n_columns).
// For duplicated columns, coordinate descent puts the weight on the first one and leaves the others at zero.
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
