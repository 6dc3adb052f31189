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
#define SB_RESTRICT __restrict
#define SB_NOINLINE __declspec(noinline)
#else
#define SB_STRINGIFY(x) #x
#define SB_SIMD _Pragma("omp simd")
#define SB_SIMD_SUM(x) _Pragma(SB_STRINGIFY(omp simd reduction(+ : x)))
#define SB_SIMD_MAX(x) _Pragma(SB_STRINGIFY(omp simd reduction(max : x)))
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
// Sum of the lanes, by adding halves.
template <typename T, int bytes>
struct LaneSum {
  typedef T vec __attribute__((vector_size(bytes)));
  typedef T half __attribute__((vector_size(bytes / 2)));
  static T of(vec v) {
    half low, high;
    std::memcpy(&low, &v, sizeof(low));
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(low), sizeof(high));
    return LaneSum<T, bytes / 2>::of(low + high);
  }
};
template <>
struct LaneSum<double, 16> {
  typedef double vec __attribute__((vector_size(16)));
  static double of(vec v) { return v[0] + v[1]; }
};
template <>
struct LaneSum<float, 16> {
  typedef float vec __attribute__((vector_size(16)));
  static float of(vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
};
template <typename T, typename V>
inline T lane_sum(V v) {
  return LaneSum<T, SB_VECTOR_BYTES>::of(v);
}
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
