// Log densities of points under the Gaussians of their own model: the l_t of ALG-FB.
//
//     full: -(d log 2 pi + log|S|) / 2 - |y|^2 / 2 with L y = x - m, L L^T = S
//     diagonal: the sum over observed coordinates of -(log 2 pi v) / 2 - (x - m)^2 / 2v
//
// Lanes are the states of a model; every point is computed by itself. Limited by loads of the
// parameters, which are arranged in lanes where the model changes.
#pragma once
#include "view.hpp"

namespace mercer {

struct GaussianRowArguments {
  View<const double, 2> x;           // [T d] missing coordinates are NaN
  View<const int64_t, 1> owner;      // [T] the model of every point
  View<const double, 3> mean;        // [N n d]
  View<const double, 3> covariance;  // [N n c] c is d * d, d, or 1, the same for all coordinates
  View<double, 2> out;               // [T n] NaN where a coordinate is missing and d * d
};

// The Gaussians of one model in lanes: [coordinate][state].
struct GaussianLanes {
  Scratch& scratch;
  int64_t n, d, c, width = (n + WIDTH - 1) / WIDTH * WIDTH;
  bool full = c > d;
  double* mean = scratch.take<double>(d * width);
  // d: -1 / 2v; or d (d + 1) / 2: rows of L, which end in 1 / L_aa
  double* factor = scratch.take<double>((full ? d * (d + 1) / 2 : d) * width);
  // d: logarithms, and their sum
  double *terms = scratch.take<double>(d * width), *constant = scratch.take<double>(width);
  Doubles* solved = scratch.take<Doubles>(d);

  void clear() const {  // padding states
    for (double* x = mean; x < constant + width; ++x) *x = 0.0;
  }
  void load(const GaussianRowArguments& a, int64_t model) const {
    for (int64_t j = 0; j < n; ++j) {
      constant[j] = 0.0;
      for (int64_t i = 0; i < d; ++i) mean[i * width + j] = a.mean(model, j, i);
      const double* covariance = a.covariance.at(model, j);
      if (full) {
        factorize(covariance, j);
        continue;
      }
      for (int64_t i = 0; i < d; ++i) {
        const double variance = covariance[c == 1 ? 0 : i];
        factor[i * width + j] = -0.5 / variance;
        terms[i * width + j] = -(LOG_2PI + log(variance)) / 2;
        constant[j] += terms[i * width + j];
      }
    }
  }
  void factorize(const double* covariance, int64_t j) const {  // Cholesky, row by row
    double log_det = 0.0, *row = factor + j;
    for (int64_t i = 0; i < d; ++i) {
      const double* other = factor + j;
      for (int64_t b = 0; b <= i; ++b) {
        double value = covariance[i * d + b];
        for (int64_t k = 0; k < b; ++k) value -= row[k * width] * other[k * width];
        if (i == b) log_det += log(value);
        row[b * width] = i == b ? 1 / sqrt(value) : value * other[b * width];
        other += (b + 1) * width;
      }
      row += (i + 1) * width;
    }
    constant[j] = -(double(d) * LOG_2PI + log_det) / 2;
  }

  MERCER_INLINE Doubles away(const double* x, int64_t i, int64_t lane) const {
    return spread<Doubles>(x[i]) - mercer::load<Doubles>(mean + i * width + lane);
  }
  MERCER_INLINE Doubles diagonal(const double* x, int64_t lane, bool missing) const {
    Doubles sum{}, known{};
    for (int64_t i = 0; i < d; ++i) {
      if (missing && x[i] != x[i]) continue;
      const Doubles difference = away(x, i, lane), square = difference * difference;
      sum += square * mercer::load<Doubles>(factor + i * width + lane);
      if (missing) known += mercer::load<Doubles>(terms + i * width + lane);
    }
    return sum + (missing ? known : mercer::load<Doubles>(constant + lane));
  }
  MERCER_INLINE Doubles triangular(const double* x, int64_t lane) const {
    Doubles total{};
    const double* row = factor + lane;
    for (int64_t i = 0; i < d; ++i) {
      Doubles known{};
      for (int64_t k = 0; k < i; ++k) known += mercer::load<Doubles>(row + k * width) * solved[k];
      solved[i] = (away(x, i, lane) - known) * mercer::load<Doubles>(row + i * width);
      total += solved[i] * solved[i];
      row += (i + 1) * width;
    }
    return mercer::load<Doubles>(constant + lane) - 0.5 * total;
  }
};

inline int64_t gaussian_rows(const GaussianRowArguments& a) {
  const int64_t n = a.mean.shape[1], d = a.mean.shape[2];
  Scratch scratch;
  GaussianLanes{scratch, n, d, a.covariance.shape[2]};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  const GaussianLanes lanes{scratch, n, d, a.covariance.shape[2]};
  lanes.clear();
  int64_t known = -1;
  const double* last = a.out.data + a.out.size();
  for (int64_t t = 0; t < a.x.shape[0]; ++t) {
    const double* x = a.x.at(t);
    if (a.owner(t) != known) lanes.load(a, known = a.owner(t));
    bool missing = false;
    for (int64_t i = 0; i < d; ++i) missing |= x[i] != x[i];
    double* to = a.out.at(t);
    for (int64_t lane = 0; lane < n; lane += WIDTH) {
      const Doubles found = lanes.full ? lanes.triangular(x, lane)
                            : missing  ? lanes.diagonal(x, lane, true)
                                       : lanes.diagonal(x, lane, false);
      if (to + lane + WIDTH <= last)
        store(to + lane, found);  // the next point overwrites what is beyond this one
      else
        store_some(to + lane, found, n - lane);
    }
  }
  return DONE;
}

}  // namespace mercer
