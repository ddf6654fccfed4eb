// Number types of the recursions: plain vectors, vectors with an exponent of their own, whose range
// is unlimited, and logarithms whose sum is their maximum.
//
// A recursion is a template over Number and uses number<N>(x), from_log<N>(x), a * b, a + b and
// multiply_add(sum, a, b). A ranged number is value * 2^(512 power) with 2^-256 <= value < 2^256,
// or zero; its precision is that of float64.
#pragma once
#include "vector.hpp"

namespace mercer {

constexpr double RADIX = 0x1p512, INVERSE_RADIX = 0x1p-512, HIGH = 0x1p256, LOW = 0x1p-256;
constexpr int64_t ZERO_POWER =
    -(int64_t(1) << 60);  // power of zero: below that of exp(-1e15), and sums do not overflow
constexpr double LOG_RADIX = 512 * LOG_2;

template <class V>
struct Ranged {
  V value;
  WordsLike<V> power;
};
using RangedDoubles = Ranged<Doubles>;

// Normalize nonnegative values that are at most one factor of RADIX out of range.
template <class V>
MERCER_INLINE Ranged<V> tidy(V v, WordsLike<V> k) {
  auto high = v >= HIGH, low = v < LOW;
  if (!any(high | low)) return {v, k};  // mostly
  v = high ? v * INVERSE_RADIX : low ? v * RADIX : v;
  k = k - high + low;  // a mask is -1
  return {v, v == 0.0 ? WordsLike<V>{} + ZERO_POWER : k};
}

template <class V>
MERCER_INLINE Ranged<V> operator*(Ranged<V> a, Ranged<V> b) {
  return tidy<V>(a.value * b.value, a.power + b.power);
}

// If the powers differ by two, the smaller number is below 2^-512 of the larger. A sum of n numbers
// may exceed the range by a factor of n: the next product normalizes it.
template <class V>
MERCER_INLINE Ranged<V> operator+(Ranged<V> a, Ranged<V> b) {
  if (!any(a.power != b.power)) return {rounded(a.value) + rounded(b.value), a.power};  // mostly
  auto first = a.power >= b.power;
  V large = first ? a.value : b.value, small = first ? b.value : a.value;
  auto power = first ? a.power : b.power;
  auto distance = power - (first ? b.power : a.power);
  V factor = distance == 0 ? spread<V>(1.0) : distance == 1 ? spread<V>(INVERSE_RADIX) : V{};
  return {large + small * factor, power};
}

template <class V>
MERCER_INLINE void multiply_add(V& sum, V a, V b) {
  sum += a * b;
}
template <class V>
MERCER_INLINE void multiply_add(Ranged<V>& sum, Ranged<V> a, Ranged<V> b) {
  sum = sum + a * b;
}

// Ranged numbers from logarithms below 5e17; zero for those below -5e17.
template <class V>
MERCER_INLINE Ranged<V> from_log(V log) {
  V moved = log * (1 / LOG_RADIX) + MAGIC, whole = moved - MAGIC;
  V rest = log - whole * (512 * LOG_2_HIGH);
  rest = rest - whole * (512 * LOG_2_LOW);  // |rest| <= 178
  auto possible = log > -5e17;
  return {possible ? exponential(rest) : V{},
          possible ? bits_of(moved) - bits_of(spread<V>(MAGIC)) : WordsLike<V>{} + ZERO_POWER};
}

template <class V>
MERCER_INLINE Ranged<V> choose(WordsLike<V> mask, Ranged<V> a, Ranged<V> b) {
  return {mask ? a.value : b.value, mask ? a.power : b.power};
}
template <class V>
MERCER_INLINE void set_lane(Ranged<V>& to, Ranged<V> from, int lane) {
  to.value[lane] = from.value[lane], to.power[lane] = from.power[lane];
}

// Logarithms under maximum and sum: with them, a sum over paths is that of the best path.
template <class V>
struct Best {
  V log;
};
template <class V>
MERCER_INLINE Best<V> operator*(Best<V> a, Best<V> b) {
  return {a.log + b.log};
}
template <class V>
MERCER_INLINE Best<V> operator+(Best<V> a, Best<V> b) {
  return {maximum(b.log, a.log)};
}
template <class V>
MERCER_INLINE void multiply_add(Best<V>& best, Best<V> a, Best<V> b) {
  best = best + a * b;
}

// How a number type takes over plain numbers and logarithms, in all lanes or in one.
template <class N>
struct Numbers {
  using Vector = N;
  static MERCER_INLINE N zero() { return N{}; }
  static MERCER_INLINE N of(N x) { return x; }
  static MERCER_INLINE N number(double x) { return spread<N>(x); }
  static MERCER_INLINE void put(N& n, int lane, double x) { n[lane] = x; }
  // Entries of a row of vectors, by their place in memory.
  static MERCER_INLINE double entry(const N* row, int64_t place) {
    double x;
    memcpy(&x, reinterpret_cast<const char*>(row) + place * sizeof x, sizeof x);
    return x;
  }
  static MERCER_INLINE void write(N* row, int64_t place, double x) {
    memcpy(reinterpret_cast<char*>(row) + place * sizeof x, &x, sizeof x);
  }
  static MERCER_INLINE N repeated(const N* row, int64_t place) {
    return spread<N>(entry(row, place));
  }
  static MERCER_INLINE N from_log(N log) {  // zero below exp(-700)
    return log > -700.0 ? exponential(maximum(log, spread<N>(-700.0))) : N{};
  }
};
template <class V>
struct Numbers<Ranged<V>> {
  using Vector = V;
  static MERCER_INLINE Ranged<V> zero() { return {V{}, WordsLike<V>{} + ZERO_POWER}; }
  static MERCER_INLINE Ranged<V> of(V x) {
    auto once = tidy<V>(x, WordsLike<V>{});  // the smallest number needs two factors
    return tidy<V>(once.value, once.power);
  }
  static MERCER_INLINE Ranged<V> number(double x) { return of(spread<V>(x)); }
  static MERCER_INLINE void put(Ranged<V>& n, int lane, double x) { set_lane(n, number(x), lane); }
  static MERCER_INLINE Ranged<V> from_log(V log) { return mercer::from_log(log); }
  static void put_log(Ranged<V>& n, int lane, double log) {
    set_lane(n, mercer::from_log(spread<V>(log)), lane);
  }
  static MERCER_INLINE double entry(const Ranged<V>* row, int64_t place);
  static MERCER_INLINE void write(Ranged<V>* row, int64_t place, double x) {
    put(row[place / lanes_of<V>], int(place % lanes_of<V>), x);
  }
  static MERCER_INLINE Ranged<V> repeated(const Ranged<V>* row, int64_t place) {
    const Ranged<V>& at = row[place / lanes_of<V>];
    const int64_t lane = place % lanes_of<V>;
    return {spread<V>(at.value[lane]), WordsLike<V>{} + at.power[lane]};
  }
};
template <class V>
struct Numbers<Best<V>> {
  static MERCER_INLINE Best<V> zero() { return {spread<V>(-INFINITY)}; }
  static MERCER_INLINE double entry(const Best<V>* row, int64_t place) {
    return Numbers<V>::entry(&row->log, place);
  }
  static MERCER_INLINE void write(Best<V>* row, int64_t place, double x) {
    Numbers<V>::write(&row->log, place, x);
  }
  static MERCER_INLINE Best<V> repeated(const Best<V>* row, int64_t place) {
    return {spread<V>(entry(row, place))};
  }
};

// A number in the range of floats; zero or infinity outside of it.
template <class V>
MERCER_INLINE V plain(V x) {
  return x;
}
template <class V>
MERCER_INLINE V plain(Ranged<V> x) {
  V v = x.value;
  v = x.power < 0 ? v * INVERSE_RADIX : x.power > 0 ? v * RADIX : v;
  v = x.power < -1 ? v * INVERSE_RADIX : x.power > 1 ? v * RADIX : v;
  return x.power < -2 ? V{} : x.power > 2 ? spread<V>(INFINITY) : v;
}
template <class V>
MERCER_INLINE double Numbers<Ranged<V>>::entry(const Ranged<V>* row, int64_t place) {
  return plain(row[place / lanes_of<V>])[place % lanes_of<V>];
}

// The driver of recursions with two number types: results of plain numbers that are not sound are
// NaN; `again` computes all lanes in numbers of unlimited range.
template <class Again>
MERCER_INLINE Doubles rescued(Doubles value, Again again) {
  const auto sound = value == value;
  if (!any(~sound)) return value;
  const Doubles found = again();
  return sound ? value : found;
}

// The logarithm of the number in one lane.
template <class V>
MERCER_INLINE double log_of(V x, int lane) {
  return log(x[lane]);
}
template <class V>
MERCER_INLINE double log_of(Ranged<V> x, int lane) {
  return log(x.value[lane]) + double(x.power[lane]) * LOG_RADIX;
}

}  // namespace mercer
