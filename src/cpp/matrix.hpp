// Small dense matrix products with register tiles.
#pragma once

#include "simd.hpp"

namespace softboost {
namespace SB_ISA {

// Number of rows of a tile of accumulators; with two vectors per row, the tile fits the registers. The loops over a
// tile are flat and unrolled, because the compiler keeps arrays in memory in nested loops.
constexpr int kTileRows = SB_VECTOR_BYTES == 64 ? 8 : 4;

// Calls work with `value`, from 1 to `most`, as a compile-time constant, and returns it.
template <int most, typename Work>
inline int64_t with_constant(int64_t value, Work work) {
  if constexpr (most > 1)
    if (value < most) return with_constant<most - 1>(value, work);
  work(std::integral_constant<int, most>{});
  return most;
}

template <typename T, int R, int W, bool transposed>
inline void multiply_tile(const T* a, int64_t a_stride, int64_t m, const T* b, int64_t b_stride, const T* bias, T* out,
                          int64_t out_stride) {
  using V = typename Lanes<T>::vec;
  constexpr int64_t kLanes = Lanes<T>::count;
  V sum[R * W];
  SB_UNROLL
  for (int e = 0; e < R * W; ++e) sum[e] = V{} + (bias ? bias[e / W] : T(0));
  for (int64_t k = 0; k < m; ++k) {
    V column[W];
    SB_UNROLL
    for (int w = 0; w < W; ++w) column[w] = load(b + k * b_stride + w * kLanes);
    SB_UNROLL
    for (int e = 0; e < R * W; ++e)
      sum[e] += (transposed ? a[k * a_stride + e / W] : a[e / W * a_stride + k]) * column[e % W];
  }
  SB_UNROLL
  for (int e = 0; e < R * W; ++e) store(out + e / W * out_stride + e % W * kLanes, sum[e]);
}

template <typename T, int R, bool transposed>
inline void multiply_rows(const T* a, int64_t a_stride, int64_t m, const T* b, int64_t b_stride, int64_t n,
                          const T* bias, T* out, int64_t out_stride) {
  constexpr int64_t kLanes = Lanes<T>::count;
  constexpr int kWide = R == 1 ? 8 : R == 2 ? 4 : 2;  // a sum waits for the last one, so few rows need many vectors
  for (int64_t i = 0; i < n;) {
    const int64_t left = (n - i) / kLanes, pieces = (left + kWide - 1) / kWide;  // of about equal width
    i += kLanes * with_constant<kWide>((left + pieces - 1) / pieces, [&](auto width) {
           multiply_tile<T, R, decltype(width)::value, transposed>(a, a_stride, m, b + i, b_stride, bias, out + i,
                                                                   out_stride);
         });
  }
}

// Splits p rows into tiles and calls `tile` with the compile-time number of rows and the first row of each.
template <typename Tile>
inline void in_tiles(int64_t p, Tile tile) {
  for (int64_t r = 0; r < p; r += kTileRows)
    with_constant<kTileRows>(std::min<int64_t>(p - r, kTileRows), [&](auto rows) { tile(rows, r); });
}

// out (p, n) = a (p, m) b (m, n), plus bias (p,) if given. Each matrix has its own row stride; n is a multiple of the
// vector length. With `transposed`, a is stored as (m, p).
template <typename T, bool transposed = false>
void multiply(const T* a, int64_t a_stride, int64_t p, int64_t m, const T* b, int64_t b_stride, int64_t n,
              const T* bias, T* out, int64_t out_stride) {
  in_tiles(p, [&](auto rows, int64_t r) {
    multiply_rows<T, decltype(rows)::value, transposed>(transposed ? a + r : a + r * a_stride, a_stride, m, b, b_stride,
                                                        n, bias ? bias + r : nullptr, out + r * out_stride, out_stride);
  });
}

template <typename T, int R, int C>
inline void multiply_transposed_tile(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t n, T* out,
                                     int64_t out_stride) {
  using V = typename Lanes<T>::vec;
  constexpr int64_t kLanes = Lanes<T>::count;
  V sum[R * C] = {};
  for (int64_t i = 0; i < n; i += kLanes) {
    V row[R], column[C];
    SB_UNROLL
    for (int c = 0; c < C; ++c) column[c] = load(b + c * b_stride + i);
    SB_UNROLL
    for (int r = 0; r < R; ++r) row[r] = load(a + r * a_stride + i);
    SB_UNROLL
    for (int e = 0; e < R * C; ++e) sum[e] += row[e / C] * column[e % C];
  }
  SB_UNROLL
  for (int e = 0; e < R * C; ++e) out[e / C * out_stride + e % C] = lane_sum<T>(sum[e]);
}

// out (p, q) = a (p, n) b^T with b (q, n); n is a multiple of the vector length.
template <typename T>
void multiply_transposed(const T* a, int64_t a_stride, int64_t p, const T* b, int64_t b_stride, int64_t q, int64_t n,
                         T* out, int64_t out_stride) {
  in_tiles(p, [&](auto rows, int64_t r) {
    constexpr int kRows = decltype(rows)::value;
    const T* from = a + r * a_stride;
    T* to = out + r * out_stride;
    int64_t c = 0;
    for (; c + 1 < q; c += 2)
      multiply_transposed_tile<T, kRows, 2>(from, a_stride, b + c * b_stride, b_stride, n, to + c, out_stride);
    if (c < q) multiply_transposed_tile<T, kRows, 1>(from, a_stride, b + c * b_stride, b_stride, n, to + c, out_stride);
  });
}

}  // namespace SB_ISA
}  // namespace softboost
