// Pairs of Gaussians (PPK-3.1, GMMK-1): log|M| and v' M^-1 v for M = scale (S + S') + identity, v =
// m - m'.
//
// One Gaussian of the left side with B vectors of lanes of the right side, so that the elimination
// of one does not wait for its division. Full covariances are lower triangles, row by row; diagonal
// ones are variances. Limited by multiply-adds for more than about six coordinates, and by the
// division and the logarithm for fewer: the determinant is kept as mantissa and exponent, so that a
// pair takes one logarithm.
#pragma once
#include "view.hpp"

namespace mercer {

struct GaussianSide {
  View<const double, 2> entries;  // [N e] triangles, e = d (d + 1) / 2, or variances, e = d
  View<const double, 2> mean;     // [N d]
};
struct GaussianPairArguments {
  GaussianSide left;   // [N=I]
  GaussianSide right;  // [N=J]
  double scale;
  double identity;
  double weight;                // of the quadratic form in `value`
  View<const double, 1> own;    // [I]? terms that are added to `value`
  View<const double, 1> other;  // [J]?
  View<double, 2> value;        // [I J]? own + other - log|M| / 2 - weight v' M^-1 v
  View<double, 2> log_det;      // [I J]?
  View<double, 2> quadratic;    // [I J]?
};

constexpr int GAUSSIAN_VECTORS = 4;

// Determinants of B vectors of pairs: a product of pivots as mantissas and exponents, and the
// smallest pivot.
struct Determinants {
  static constexpr int B = GAUSSIAN_VECTORS;
  Doubles mantissa[B], exponent[B], least[B];

  MERCER_INLINE void begin() {
    for (int q = 0; q < B; ++q)
      mantissa[q] = spread<Doubles>(1.0), exponent[q] = Doubles{},
      least[q] = spread<Doubles>(INFINITY);
  }
  MERCER_INLINE void multiply(int q, Doubles pivot) {
    Doubles more;
    split(mantissa[q] * pivot, mantissa[q], more);
    exponent[q] += more;
    least[q] = minimum(pivot, least[q]);
  }
  MERCER_INLINE Doubles log(int q) const {  // NaN where a pivot left the range of normal numbers
    auto sound = (least[q] >= 0x1p-1000) & (exponent[q] < 1e6);
    return sound ? logarithm(mantissa[q]) + exponent[q] * LOG_2 : spread<Doubles>(NAN);
  }
};

// Elimination of full matrices: work holds triangles, v the differences, [entry][B].
MERCER_INLINE void eliminate(Doubles* work, Doubles* v, int64_t d, Determinants& det,
                             Doubles* total) {
  constexpr int B = GAUSSIAN_VECTORS;
  for (int64_t k = 0; k < d; ++k) {
    Doubles inverse[B];
    const Doubles* pivot = work + (k * (k + 1) / 2 + k) * B;
    for (int q = 0; q < B; ++q) {
      inverse[q] = 1.0 / pivot[q];
      det.multiply(q, pivot[q]);
      total[q] += v[k * B + q] * v[k * B + q] * inverse[q];
    }
    for (int64_t a = k + 1; a < d; ++a) {
      Doubles* row = work + a * (a + 1) / 2 * B;
      Doubles factor[B];
      for (int q = 0; q < B; ++q) {
        factor[q] = row[k * B + q] * inverse[q];
        v[a * B + q] -= factor[q] * v[k * B + q];
      }
      for (int64_t b = k + 1; b <= a; ++b) {
        const Doubles* column = work + (b * (b + 1) / 2 + k) * B;
        for (int q = 0; q < B; ++q) row[b * B + q] -= factor[q] * column[q];
      }
    }
  }
}

// Diagonal matrices: v^2 / s + v'^2 / s' over a common denominator, one division for four
// coordinates.
MERCER_INLINE void add_variances(const Doubles* work, const Doubles* v, int64_t d,
                                 Determinants& det, Doubles* total) {
  constexpr int B = GAUSSIAN_VECTORS, TOGETHER = 4;
  for (int64_t first = 0; first < d; first += TOGETHER) {
    const int64_t last = first + TOGETHER < d ? first + TOGETHER : d;
    for (int q = 0; q < B; ++q) {
      Doubles numerator{}, denominator = spread<Doubles>(1.0);
      for (int64_t k = first; k < last; ++k) {
        const Doubles s = work[k * B + q], difference = v[k * B + q];
        numerator = numerator * s + difference * difference * denominator;
        denominator *= s;
      }
      total[q] += numerator / denominator;
      det.multiply(q, denominator);
    }
  }
}

inline int64_t gaussian_pairs(const GaussianPairArguments& a) {
  constexpr int B = GAUSSIAN_VECTORS;
  const int64_t d = a.left.mean.shape[1], e = a.left.entries.shape[1], rows = a.left.mean.shape[0],
                columns = a.right.mean.shape[0];
  const bool full = e > d;
  Scratch scratch;
  Doubles *entries, *means, *work, *v;
  if (!scratch.lay_out([&] { scratch.give(e * B, entries, work), scratch.give(d * B, means, v); }))
    return OUT_OF_MEMORY;
  for (int64_t first = 0; first < columns; first += B * WIDTH) {
    for (int64_t lane = 0; lane < B * WIDTH; ++lane) {
      const int64_t j = minimum(first + lane, columns - 1);
      for (int64_t p = 0; p < e; ++p)
        entries[p * B + lane / WIDTH][lane % WIDTH] = a.right.entries(j, p);
      for (int64_t k = 0; k < d; ++k)
        means[k * B + lane / WIDTH][lane % WIDTH] = a.right.mean(j, k);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const double *own = a.left.entries.at(i), *mean = a.left.mean.at(i);
      for (int64_t k = 0, p = 0; k < d; ++k) {
        for (int q = 0; q < B; ++q) v[k * B + q] = mean[k] - means[k * B + q];
        for (int64_t b = full ? 0 : k; b <= k; ++b, ++p)
          for (int q = 0; q < B; ++q)
            work[p * B + q] = a.scale * (own[p] + entries[p * B + q]) + (b == k ? a.identity : 0.0);
      }
      Determinants det;
      det.begin();
      Doubles total[B] = {};
      full ? eliminate(work, v, d, det, total) : add_variances(work, v, d, det, total);
      for (int q = 0; q < B; ++q) {
        const int64_t j = first + q * WIDTH, count = columns - j;
        if (count <= 0) break;
        const Doubles log_det = det.log(q);
        if (a.value.given()) {
          Doubles value = load_some<Doubles>(a.other.data + j, count) + a.own(i) - 0.5 * log_det;
          store_some(a.value.at(i) + j, value - a.weight * total[q], count);
        } else {
          store_some(a.log_det.at(i) + j, log_det, count);
          store_some(a.quadratic.at(i) + j, total[q], count);
        }
      }
    }
  }
  return DONE;
}

}  // namespace mercer
