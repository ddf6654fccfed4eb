// A tensor times two vectors, sum_jk tensor[i][j][k] b[j] code[k]: one step of the filter of an
// embedded hidden Markov model.
//
// Lanes are neighbors k in memory. Limited by reading the tensor, which is larger than the caches
// close to a core: one pass, in order, in whole vectors. Four sums hide the latency of additions;
// lanes are added up once per result.
#pragma once
#include "view.hpp"

namespace mercer {

struct ContractionArguments {
  View<const double, 3> tensor;   // n m w: rows of whole cache lines, on cache lines, zeros after r
  View<const double, 1> code;     // r; or null: Gaussian kernels of an observation and points
  View<const double, 2> points;   // d r: coordinates of points times 2 gamma; or null
  View<const double, 1> offsets;  // r: gamma |point|^2
  View<const double, 1> total;    // n: the functional that is 1 on beliefs; or null
  double gamma;
  View<const double, 1> x;       // d: the observation
  View<const double, 1> belief;  // m
  View<double, 1> out;  // n + 2: with `total` the new belief divided by its total, then the total
                        // before and the squared norm after
};

// Gaussian kernels exp(-gamma |x - point|^2) of an observation and all points; NaN stays.
MERCER_INLINE void kernels_of_points(const ContractionArguments& a, Doubles* code) {
  const int64_t r = a.points.shape[1], d = a.points.shape[0];
  double square = 0.0;
  for (int64_t c = 0; c < d; ++c) square += a.x(c) * a.x(c);
  for (int64_t k = 0; k < r; k += WIDTH) {
    Doubles exponent = -load_some<Doubles>(a.offsets.data + k, r - k) - a.gamma * square;
    for (int64_t c = 0; c < d; ++c)
      exponent += load_some<Doubles>(a.points.at(c) + k, r - k) * a.x(c);
    const Doubles least = spread<Doubles>(-700.0);
    Doubles kernel = exponential(maximum(least, minimum(spread<Doubles>(0.0), exponent)));
    code[k / WIDTH] = exponent >= least ? kernel : exponent < least ? Doubles{} : exponent;
  }
}

inline int64_t contraction(const ContractionArguments& a) {
  constexpr int SUMS = 4;
  const int64_t n = a.tensor.shape[0], m = a.tensor.shape[1], vectors = a.tensor.shape[2] / WIDTH;
  Scratch scratch(Scratch::room<Doubles>(vectors));
  if (scratch.failed()) return OUT_OF_MEMORY;
  Doubles* code = scratch.take<Doubles>(vectors);
  memset(code, 0, size_t(vectors) * sizeof(Doubles));
  if (a.code.given())
    memcpy(code, a.code.data, size_t(a.code.shape[0]) * sizeof(double));
  else
    kernels_of_points(a, code);
  const double *row = a.tensor.data, *belief = a.belief.data;
  const int64_t grouped = vectors - vectors % SUMS;
  double *out = a.out.data, ratio = 0.0, square = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    Doubles all{};
    for (int64_t j = 0; j < m; ++j, row += vectors * WIDTH) {
      Doubles sum[SUMS] = {};
      for (int64_t v = 0; v < grouped; v += SUMS)
        for (int u = 0; u < SUMS; ++u) sum[u] += load<Doubles>(row + (v + u) * WIDTH) * code[v + u];
      for (int64_t v = grouped; v < vectors; ++v)
        sum[0] += load<Doubles>(row + v * WIDTH) * code[v];
      all += ((sum[0] + sum[1]) + (sum[2] + sum[3])) * belief[j];
    }
    out[i] = sum_of_lanes(all);
  }
  if (!a.total.given()) return DONE;
  for (int64_t i = 0; i < n; ++i) ratio += a.total(i) * out[i];
  for (int64_t i = 0; i < n; ++i) out[i] /= ratio, square += out[i] * out[i];
  out[n] = ratio, out[n + 1] = square;
  return DONE;
}

}  // namespace mercer
