// Pairs of linear dynamical systems (PPK-4.5), or of regime paths (PPK-5.1).
//
// The difference of independent series of two systems is a series of a third one, whose state is
// that of both; the kernel of a pair is the density of this difference at zero. Its covariances do
// not depend on data and converge; from then on only its mean goes on. Lanes are pairs. Limited by
// the multiply-adds of the products, for small states by loads and calls.
#pragma once
#include "kalman_step.hpp"

namespace mercer {

struct SystemPairArguments {
  Systems left;                    // [N=I]
  Systems right;                   // [N=J n=m]
  View<const int64_t, 2> paths_a;  // [A L]? the system of each step of a path; null: one system
  View<const int64_t, 2> paths_b;  // [B L]?
  View<const int64_t, 1> rows;     // [P] the system, or the path, of the left side of each pair
  View<const int64_t, 1> columns;  // [P]
  View<const int64_t, 1> lengths;  // [H] strictly increasing
  double noise;                    // factor of all covariances
  double extra;                    // is added to the variances of observations
  View<double, 2> log_density;     // [H P]
};

// One step of a group of pairs: its systems, record and scratch memory.
struct PairStep {
  Cursor& memory;
  int64_t n, d, first;
  System system{memory, n, d, first};
  Update update{memory, n, d};
  StepRecord record{{memory.take(StepRecord::size(n, d))}, n, d};
  Density density{memory, d};
  Lanes *mean = memory.take(n), *filtered = memory.take(n), *covariance = memory.take(n * n);
  Lanes* observed = memory.take(d);

  // Condition the mean on a difference of zero.
  void condition_mean() {
    const Matrix e{observed, d, 1}, m{mean, n, 1};
    subtract_product(e, {system.observation_offset, d, 1}, m, {system.emission, 1, n}, {1, n, d});
    solve_lower(e.transposed(), e.transposed(), {record.lower, d, 1}, record.inverse, d, 1);
    density.add_steps(record, observed, 1);
    add_product({filtered, n, 1}, m, e, {record.z, n, 1}, {1, d, n});
  }
};

// Two covariances as the blocks of one; the rest is zero already.
inline void put_blocks(Lanes* to, int lane, const double* left, int64_t n, const double* right,
                       int64_t m, double factor) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) lane_of(to[i * (n + m) + j], lane) = left[i * n + j] * factor;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < m; ++j)
      lane_of(to[(n + i) * (n + m) + n + j], lane) = right[i * m + j] * factor;
}

inline void put_pair(const SystemPairArguments& a, const System& to, int64_t i, int64_t j,
                     int lane) {
  const int64_t n = to.first, m = to.n - n, d = to.d;
  put_lane(to.transition, lane, a.left.transition.at(i), n * n);
  put_lane(to.transition + n * n, lane, a.right.transition.at(j), m * m);
  put_lane(to.state_offset, lane, a.left.state_offset.at(i), n);
  put_lane(to.state_offset + n, lane, a.right.state_offset.at(j), m);
  put_blocks(to.process, lane, a.left.process_covariance.at(i), n, a.right.process_covariance.at(j),
             m, a.noise);
  for (int64_t p = 0; p < d; ++p) {
    lane_of(to.observation_offset[p], lane) =
        a.right.observation_offset(j, p) - a.left.observation_offset(i, p);
    put_lane(to.emission + p * to.n, lane, a.left.emission.at(i, p), n);
    for (int64_t q = 0; q < m; ++q)
      lane_of(to.emission[p * to.n + n + q], lane) = -a.right.emission(j, p, q);
    for (int64_t q = 0; q < d; ++q) {
      const double both =
          a.left.observation_covariance(i, p, q) + a.right.observation_covariance(j, p, q);
      lane_of(to.noise[p * d + q], lane) = both * a.noise + (p == q ? a.extra : 0.0);
    }
  }
}

// The systems of step t of a group of pairs, and their first states.
inline void put_pairs(const SystemPairArguments& a, PairStep& step, int64_t begin, int64_t t) {
  const int64_t n = step.system.first, m = step.system.n - n, last = a.rows.shape[0] - 1;
  const bool paths = a.paths_a.given();
  for (int lane = 0; lane < LANES; ++lane) {
    const int64_t p = begin + lane < last ? begin + lane : last;
    const int64_t i = paths ? a.paths_a(a.rows(p), t) : a.rows(p);
    const int64_t j = paths ? a.paths_b(a.columns(p), t) : a.columns(p);
    put_pair(a, step.system, i, j, lane);
    if (t > 0) continue;
    put_lane(step.mean, lane, a.left.initial_mean.at(i), n);
    put_lane(step.mean + n, lane, a.right.initial_mean.at(j), m);
    put_blocks(step.record.predicted, lane, a.left.initial_covariance.at(i), n,
               a.right.initial_covariance.at(j), m, a.noise);
  }
}

inline int64_t system_pairs(const SystemPairArguments& a) {
  const int64_t n = a.left.emission.shape[2], m = a.right.emission.shape[2],
                d = a.left.emission.shape[1];
  const int64_t size = n + m, pairs = a.rows.shape[0], longest = a.lengths(a.lengths.shape[0] - 1);
  Cursor counted{nullptr};
  PairStep{counted, size, d, n};
  Scratch scratch;
  Lanes* base;
  if (!scratch.lay_out([&] { scratch.give(counted.used, base); })) return OUT_OF_MEMORY;
  Cursor memory{base};
  PairStep step{memory, size, d, n};
  const System& system = step.system;
  const StepRecord& record = step.record;
  const bool paths = a.paths_a.given();
  fill(system.process, 0.0, size * size);
  for (int64_t begin = 0; begin < pairs; begin += LANES) {
    fill(record.predicted, 0.0, size * size);
    put_pairs(a, step, begin, 0);
    step.density.begin();
    bool steady = false;
    for (int64_t t = 0, h = 0; t < longest; ++t) {
      if (t > 0) {
        if (paths) put_pairs(a, step, begin, t);
        system.predict_mean(step.mean, step.filtered);
      }
      if (t > 0 && !steady) {
        system.move(record.moved, record.filtered);
        system.predict(step.covariance, record.moved);
        // the systems of paths change, so that equal covariances would mean nothing
        steady = !paths && !any(~keep_converged(step.covariance, record.predicted, size));
        copy(record.predicted, step.covariance, size * size);
      }
      if (!steady) step.update.condition(record, system.emission, system.noise);
      step.condition_mean();
      if (t + 1 != a.lengths(h)) continue;
      for (int lane = 0; lane < LANES && begin + lane < pairs; ++lane)
        a.log_density(h, begin + lane) = step.density.log(lane, (t + 1) * d);
      ++h;
    }
  }
  return DONE;
}

}  // namespace mercer
