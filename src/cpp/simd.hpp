// Vector types, exp and sigmoid, used by all kernels.
//
// The kernels are compiled once per instruction set (see kernels.cpp), each time inside its own namespace SB_ISA, so
// that the linker cannot merge an inline function of one build with that of another.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef SB_ISA
#define SB_ISA baseline
#endif

#if defined(__AVX512F__)
#define SB_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define SB_VECTOR_BYTES 32
#else
#define SB_VECTOR_BYTES 16
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#define SB_SIMD
#define SB_SIMD_SUM(x)
#define SB_SIMD_MAX(x)
#define SB_UNROLL
#define SB_RESTRICT __restrict
#define SB_NOINLINE __declspec(noinline)
#else
#define SB_STRINGIFY(x) #x
#define SB_SIMD _Pragma("omp simd")
#define SB_SIMD_SUM(x) _Pragma(SB_STRINGIFY(omp simd reduction(+ : x)))
#define SB_SIMD_MAX(x) _Pragma(SB_STRINGIFY(omp simd reduction(max : x)))
#define SB_UNROLL _Pragma("GCC unroll 32")
#define SB_RESTRICT __restrict__
#define SB_NOINLINE __attribute__((noinline))
#endif

namespace softboost {
namespace SB_ISA {

// Lanes<T>::vec holds `count` values; on compilers without vector types it is a plain scalar.
#if defined(_MSC_VER) && !defined(__clang__)
template <typename T>
struct Lanes {
  using vec = T;
  static constexpr int64_t count = 1;
};
template <typename T>
inline T lane_sum(T v) {
  return v;
}
#else
template <typename T>
struct Lanes {
  typedef T vec __attribute__((vector_size(SB_VECTOR_BYTES)));
  static constexpr int64_t count = SB_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));
};
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SB_SHUFFLES 1
#endif
#endif
#if defined(SB_SHUFFLES)
template <int step, typename V, int... lane>
inline V lanes_swapped(V v, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(v, v, (lane ^ step)...);
}
// Sum of the lanes, by adding halves. All operations are on whole vectors: reading parts of an accumulator would make
// the compiler keep it in memory, which slows the loop before the sum by a factor of three.
template <typename T, typename V>
inline T lane_sum(V v) {
  constexpr int kCount = static_cast<int>(Lanes<T>::count);
  constexpr std::make_integer_sequence<int, kCount> lanes{};
  if constexpr (kCount > 8) v += lanes_swapped<8>(v, lanes);
  if constexpr (kCount > 4) v += lanes_swapped<4>(v, lanes);
  if constexpr (kCount > 2) v += lanes_swapped<2>(v, lanes);
  v += lanes_swapped<1>(v, lanes);
  return v[0];
}
#else
template <typename T, typename V>
inline T lane_sum(V v) {
  T lanes[Lanes<T>::count];
  std::memcpy(lanes, &v, sizeof(v));
  for (int64_t half = Lanes<T>::count / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[half + i];
  return lanes[0];
}
#endif
#endif

template <typename T>
inline typename Lanes<T>::vec load(const T* p) {
  typename Lanes<T>::vec v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

template <typename T>
inline void store(T* p, typename Lanes<T>::vec v) {
  std::memcpy(p, &v, sizeof(v));
}

// The lane sums of `count` vectors, with the same additions as lane_sum; four vectors take fewer shuffles together.
template <typename T, int64_t count, typename V>
inline void lane_sums(const V* v, T* out) {
#if defined(SB_SHUFFLES) && SB_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 8 && count == 4) {
    const V first = __builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 8, 9, 10, 11) +
                    __builtin_shufflevector(v[0], v[1], 4, 5, 6, 7, 12, 13, 14, 15);
    const V second = __builtin_shufflevector(v[2], v[3], 0, 1, 2, 3, 8, 9, 10, 11) +
                     __builtin_shufflevector(v[2], v[3], 4, 5, 6, 7, 12, 13, 14, 15);
    const V pairs = __builtin_shufflevector(first, second, 0, 1, 4, 5, 8, 9, 12, 13) +
                    __builtin_shufflevector(first, second, 2, 3, 6, 7, 10, 11, 14, 15);
    const V sums = pairs + __builtin_shufflevector(pairs, pairs, 1, 0, 3, 2, 5, 4, 7, 6);
    T all[8];
    std::memcpy(all, &sums, sizeof(sums));
    for (int64_t k = 0; k < 4; ++k) out[k] = all[2 * k];
    return;
  }
#endif
  for (int64_t k = 0; k < count; ++k) out[k] = lane_sum<T>(v[k]);
}

// exp(x) for x <= 0 with an error of at most two units in the last place. The result is at least the smallest normal
// number, never subnormal or zero. Branch-free, so that loops over it vectorise.
inline double exp_nonpositive(double x) {
  x = x < -708.0 ? -708.0 : x;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves round(x / ln 2) in the low bits
  const double shifted = x * 1.4426950408889634 + kRound;
  const double k = shifted - kRound;
  const double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  double p = 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  int64_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = static_cast<int64_t>(static_cast<uint64_t>(bits + 1023) << 52);
  double scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return p * scale;
}

inline float exp_nonpositive(float x) {
  x = x < -87.0f ? -87.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
  const float shifted = x * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = static_cast<int32_t>(static_cast<uint32_t>(bits + 127) << 23);
  float scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return p * scale;
}

// right = sigmoid(logit) and left = sigmoid(-logit), both to full relative precision: for a saturated gate the small
// side stays exact instead of being lost in 1 - p. `logit` may be the same array as `right`.
template <typename T>
inline void sigmoid_pair(const T* logit, int64_t n, T* right, T* left) {
  SB_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T t = logit[i];
    const T e = exp_nonpositive(t < T(0) ? t : -t);
    const T large = T(1) / (T(1) + e);
    const T small = e * large;
    right[i] = t < T(0) ? small : large;
    left[i] = t < T(0) ? large : small;
  }
}

template <typename T>
inline T dot(const T* SB_RESTRICT a, const T* SB_RESTRICT b, int64_t n) {
  T sum = 0;
  SB_SIMD_SUM(sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// out += scale * a
template <typename T>
inline void axpy(T scale, const T* SB_RESTRICT a, T* SB_RESTRICT out, int64_t n) {
  SB_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] += scale * a[i];
}

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace SB_ISA
}  // namespace softboost
