// Vectors of W numbers: the compiler's own vector types, so that + - * / and comparisons are single
// instructions.
//
// A function of lanes is written once, over Vec<T, W>; with W = 1 it is a scalar loop. Comparisons
// give integer vectors of all ones or zeros, and `mask ? a : b` selects. Write `sum += a * b` and
// nothing cleverer: the compiler contracts it to one multiply-add at every place alike, so the bits
// of a lane depend on no other lane.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace mercer {

#if defined(__AVX512F__)
constexpr int WIDTH = 8, REGISTERS = 32;
#elif defined(__AVX2__)
constexpr int WIDTH = 4, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int WIDTH = 2, REGISTERS = 32;
#else
constexpr int WIDTH = 2, REGISTERS = 16;
#endif
// At the lowest level of x86-64, sizes are never template parameters: its library is small and only
// has to be right.
#if defined(__AVX2__) || defined(__aarch64__)
constexpr bool UNROLLED = true;
#else
constexpr bool UNROLLED = false;
#endif

#define MERCER_INLINE inline __attribute__((always_inline))
#define MERCER_LAMBDA __attribute__((always_inline))

template <class T, int W>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * W)));
};
template <class T, int W>
using Vec = typename VectorOf<T, W>::type;
using Doubles = Vec<double, WIDTH>;
using Words = Vec<int64_t, WIDTH>;

template <class V>
constexpr int lanes_of = sizeof(V) / sizeof(V{}[0]);
template <class V>
using WordsLike = Vec<int64_t, lanes_of<V>>;
template <class V>
using Element = __typeof__(V{}[0] + V{}[0]);

template <class V, class T>
MERCER_INLINE V load(const T* from) {
  V v;
  memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
MERCER_INLINE void store(T* to, V v) {
  memcpy(to, &v, sizeof v);
}
// The first `count` numbers, the rest zero: the end of an array is worked in whole vectors too.
template <class V, class T>
MERCER_INLINE V load_some(const T* from, int64_t count) {
  if (count >= lanes_of<V>) return load<V>(from);
  V v{};
  memcpy(&v, from, size_t(count) * sizeof(T));
  return v;
}
template <class V, class T>
MERCER_INLINE void store_some(T* to, V v, int64_t count) {
  if (count >= lanes_of<V>) return store(to, v);
  memcpy(to, &v, size_t(count) * sizeof(T));
}
template <class V>
MERCER_INLINE V spread(double x) {
  return Element<V>(x) - V{};  // a subtraction from zero would turn -0 into 0
}
// x as it is, in a register: a product that is rounded before it is added, instead of contracted; a
// number that is loaded once, instead of by each of several multiply-adds, as g++ does.
template <class V>
MERCER_INLINE V rounded(V x) {
  if constexpr (lanes_of<V> == 1) {
    Element<V> one = x[0];
#if defined(__aarch64__)
    asm("" : "+w"(one));
#else
    asm("" : "+v"(one));
#endif
    return spread<V>(one);
  }
#if defined(__aarch64__)
  asm("" : "+w"(x));
#else
  asm("" : "+v"(x));
#endif
  return x;
}
template <class V>
MERCER_INLINE V minimum(V x, V y) {  // y if one is NaN
  return x < y ? x : y;
}
template <class V>
MERCER_INLINE V maximum(V x, V y) {  // y if one is NaN
  return x > y ? x : y;
}
template <class V>
MERCER_INLINE WordsLike<V> bits_of(V x) {
  WordsLike<V> w;
  memcpy(&w, &x, sizeof w);
  return w;
}
template <class V, class I>
MERCER_INLINE V from_bits(I x) {
  V v;
  memcpy(&v, &x, sizeof v);
  return v;
}
template <class I>
MERCER_INLINE bool any(I mask) {  // compilers do not find the instructions for it
#if defined(__AVX512DQ__)
  typedef long long Longs __attribute__((vector_size(64)));
  typedef int Ints __attribute__((vector_size(64)));
  if constexpr (sizeof(I) == 64 && sizeof(Element<I>) == 8)
    return __builtin_ia32_cvtq2mask512((Longs)mask) != 0;
  if constexpr (sizeof(I) == 64 && sizeof(Element<I>) == 4)
    return __builtin_ia32_cvtd2mask512((Ints)mask) != 0;
#elif defined(__AVX2__)
  typedef double Longs __attribute__((vector_size(32)));
  typedef float Ints __attribute__((vector_size(32)));
  if constexpr (sizeof(I) == 32 && sizeof(Element<I>) == 8)
    return __builtin_ia32_movmskpd256((Longs)mask) != 0;
  if constexpr (sizeof(I) == 32 && sizeof(Element<I>) == 4)
    return __builtin_ia32_movmskps256((Ints)mask) != 0;
#endif
  int64_t found = 0;
  for (int lane = 0; lane < lanes_of<I>; ++lane) found |= mask[lane];
  return found != 0;
}

// Sums across lanes in a fixed order: halves onto halves, as a butterfly.
template <class V>
MERCER_INLINE double sum_of_lanes(V x) {
  double part[lanes_of<V>];
  store(part, x);
  for (int half = lanes_of<V> / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) part[lane] += part[lane + half];
  return part[0];
}

template <class V>
MERCER_INLINE double smallest_lane(V x) {
  double least = x[0];
  for (int lane = 1; lane < lanes_of<V>; ++lane) least = x[lane] < least ? x[lane] : least;
  return least;
}

// ---- exponentials and logarithms, each written once

constexpr double MAGIC =
    6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, which is in the lowest bits
constexpr double LOG_2 = 0.69314718055994530942, LOG_2PI = 1.8378770664093454836;
// log 2 in two parts; the first has few bits, so that its products with integers are exact
constexpr double LOG_2_HIGH = 0.6931471803691238, LOG_2_LOW = 1.9082149292705877e-10;

// x times 2 to the power of the integer to which MAGIC was added; x and the result are normal
// numbers.
template <class V>
MERCER_INLINE V scaled(V x, V moved) {
  return from_bits<V>(bits_of(x) + (bits_of(moved) << 52));
}

// exp for -700 < x < 700: a power of two times a Taylor polynomial for |x| <= log(2) / 2, by
// Estrin's scheme.
template <class V>
MERCER_INLINE V exponential(V x) {
  V moved = x * (1 / LOG_2) + MAGIC, whole = moved - MAGIC;
  V r = x - whole * LOG_2_HIGH;
  r = r - whole * LOG_2_LOW;
  V r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
  V a = (1.0 + r) + r2 * (1.0 / 2 + r * (1.0 / 6));
  V b = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
  V c = (1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800));
  V d = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
  return scaled((a + r4 * b) + r8 * (c + r4 * d), moved);
}

// The coefficients of 2^t at zero, log(2)^k / k!.
constexpr struct Exp2 {
  double c[13] = {1.0};
  constexpr Exp2() {
    for (int k = 1; k < 13; ++k) c[k] = c[k - 1] * (LOG_2 / k);
  }
} EXP2;

// 2^t for -1020 <= t <= 1000: a power of two times a Taylor polynomial for |t| <= 1/2; the next
// term is below 2e-16. Horner's scheme advances R vectors together, so that they hide its latency.
template <int R, class V>
MERCER_INLINE void exp2_of(V (&t)[R]) {
  V moved[R], sum[R];
  for (int r = 0; r < R; ++r) {
    moved[r] = t[r] + MAGIC;
    t[r] = t[r] - (moved[r] - MAGIC);
    sum[r] = spread<V>(EXP2.c[12]);
  }
  for (int k = 11; k >= 0; --k)
    for (int r = 0; r < R; ++r) sum[r] = sum[r] * t[r] + EXP2.c[k];
  for (int r = 0; r < R; ++r) t[r] = scaled(sum[r], moved[r]);
}

// Positive normal numbers as mantissas in [1, 2) and exponents.
template <class V>
MERCER_INLINE void split(V x, V& mantissa, V& exponent) {
  auto bits = bits_of(x);
  // an integer below 2^52 in the lowest bits of 2^52: few processors convert vectors of 64-bit
  // integers
  exponent = from_bits<V>((bits >> 52) | 0x4330000000000000) - (4503599627370496.0 + 1023.0);
  mantissa = from_bits<V>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
}

// log for positive normal x: mantissa in [sqrt(1/2), sqrt(2)), then 2 atanh(s) of s = (m - 1) / (m
// + 1), |s| < .172.
template <class V>
MERCER_INLINE V logarithm(V x) {
  V m, e;
  split(x, m, e);
  auto high = m > 1.4142135623730951;
  m = high ? m * 0.5 : m;
  e = high ? e + 1.0 : e;
  V s = (m - 1.0) / (m + 1.0), z = s * s, sum = spread<V>(1.0 / 21);
  for (int k = 19; k >= 3; k -= 2) sum = sum * z + 1.0 / k;
  return (e * LOG_2_LOW + 2.0 * (s * z * sum)) + (2.0 * s) + e * LOG_2_HIGH;
}

}  // namespace mercer
