// Weighted moments of points about given centers, for every sample and state (EST-2).
//
//     mass = sum of w,    first = sum of w (x - c),    second = sum of w (x - c)(x - c)^T
//
// Lanes are points of one sample, in blocks that begin with it, so that its sums depend on no other
// sample. Missing coordinates (NaN) have weight zero. Limited by loads and stores of the sums.
#pragma once
#include "view.hpp"

namespace mercer {

struct MomentArguments {
  View<const double, 2> x;         // [T d]
  View<const double, 2> weights;   // [T n]
  View<const int64_t, 1> offsets;  // [S1] sample s has the points from offsets[s] on
  View<const double, 3> center;    // [C n d] C is S, or 1 for all samples
  View<double, 3> mass;            // [S n d]?
  View<double, 3> first;           // [S n d]? with mass
  View<double, 3> second;          // [S n d]? of every coordinate
  View<double, 4> full;            // [S n d d]? of complete points
};

constexpr int PAIR = 2, POINTS = PAIR * WIDTH;  // vectors and points of a block

// Vectors of one number per point.
struct Points {
  Doubles part[PAIR];
  double sum() const { return sum_of_lanes(part[0] + part[1]); }
};

struct MomentBlock {
  int64_t d, n;
  Points *x, *seen, *weights;  // d, d, n
  bool gaps = false;           // whether the block before had missing coordinates

  // Points and weights become columns; points after the end get weight zero.
  void load(const MomentArguments& a, int64_t begin, int64_t end) {
    const int64_t count = end - begin < POINTS ? end - begin : POINTS;
    bool missing = false;
    auto put = [](Points* to, int64_t t, double value) {
      memcpy(reinterpret_cast<char*>(to) + size_t(t) * sizeof value, &value, sizeof value);
    };
    for (int64_t t = 0; t < POINTS; ++t) {
      const double *point = a.x.at(begin + t), *weight = a.weights.at(begin + t);
      for (int64_t i = 0; i < d; ++i) {
        const double value = t < count ? point[i] : 0.0;
        missing |= value != value;
        put(x + i, t, value);
      }
      for (int64_t j = 0; j < n; ++j) put(weights + j, t, t < count ? weight[j] : 0.0);
    }
    if (missing || gaps)
      for (int64_t i = 0; i < d; ++i)
        for (int p = 0; p < PAIR; ++p) {
          const Doubles value = x[i].part[p];
          seen[i].part[p] = value == value ? spread<Doubles>(1.0) : Doubles{};
          x[i].part[p] = value == value ? value : Doubles{};
        }
    gaps = missing;
  }
  // Add w, w (x - c) and w (x - c)^2, of state j.
  MERCER_INLINE void add(Points* to, const double* center, int64_t j) const {
    for (int64_t i = 0; i < d; ++i, to += 3)
      for (int p = 0; p < PAIR; ++p) {
        const Doubles weight = weights[j].part[p] * seen[i].part[p];
        const Doubles away = x[i].part[p] - center[i], product = weight * away;
        to[0].part[p] += weight, to[1].part[p] += weight * away, to[2].part[p] += product * away;
      }
  }
  // Add w (x_i - c_i)(x_b - c_b) for b <= i.
  MERCER_INLINE void add_full(Points* to, const double* center, int64_t j) const {
    for (int64_t i = 0; i < d; ++i)
      for (int p = 0; p < PAIR; ++p) {
        const Doubles left = weights[j].part[p] * seen[i].part[p] * (x[i].part[p] - center[i]);
        Points* row = to + i * (i + 1) / 2;
        for (int64_t b = 0; b <= i; ++b) row[b].part[p] += left * (x[b].part[p] - center[b]);
      }
  }
};

inline int64_t moments(const MomentArguments& a) {
  const int64_t d = a.x.shape[1], n = a.weights.shape[1], samples = a.offsets.shape[0] - 1;
  const bool full = a.full.given(), each = a.mass.given() || a.second.given();
  const int64_t few = each ? 3 * d : 0, pairs = full ? d * (d + 1) / 2 : 0, size = few + pairs;
  Scratch scratch;
  Points *x, *seen, *weights, *sums;
  if (!scratch.lay_out([&] {
        scratch.give(d, x, seen), scratch.give(n, weights), scratch.give(n * size, sums);
      }))
    return OUT_OF_MEMORY;
  MomentBlock block{d, n, x, seen, weights};
  for (int64_t i = 0; i < d; ++i)
    for (int p = 0; p < PAIR; ++p) block.seen[i].part[p] = spread<Doubles>(1.0);
  for (int64_t s = 0; s < samples; ++s) {
    const double* center = a.center.at(a.center.shape[0] == 1 ? 0 : s);
    for (int64_t k = 0; k < n * size; ++k) sums[k] = Points{};
    for (int64_t t = a.offsets(s); t < a.offsets(s + 1); t += POINTS) {
      block.load(a, t, a.offsets(s + 1));
      for (int64_t j = 0; j < n; ++j) {
        Points* to = sums + j * size;
        if (each) block.add(to, center + j * d, j);
        if (full) block.add_full(to + few, center + j * d, j);
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      const Points* own = sums + j * size;
      for (int64_t i = 0; i < d; ++i) {
        if (a.mass.given()) a.mass(s, j, i) = own[3 * i].sum();
        if (a.mass.given()) a.first(s, j, i) = own[3 * i + 1].sum();
        if (a.second.given()) a.second(s, j, i) = own[3 * i + 2].sum();
        for (int64_t b = 0; full && b <= i; ++b)
          a.full(s, j, i, b) = a.full(s, j, b, i) = own[few + i * (i + 1) / 2 + b].sum();
      }
    }
  }
  return DONE;
}

}  // namespace mercer
