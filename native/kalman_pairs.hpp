// Steps of the Kalman filter without series of their own: branches of switching systems, and pairs
// of systems (PPK-4.5) or of regime paths (PPK-5.1).
//
// The difference of independent series of two systems is a series of a third one, whose state is
// that of both; the kernel of a pair is the density of this difference at zero. Its covariances do
// not depend on data and converge; from then on only its mean goes on. Lanes are pairs, or
// branches. Limited by the multiply-adds of the products, for small states by loads and calls.
#pragma once
#include "kalman_step.hpp"

namespace mercer {

// One step of many states: its system, record and scratch memory.
struct Step {
  System system;
  Update update;
  StepRecord record;
  Density density;
  Lanes *mean, *filtered, *covariance, *observed;

  Step(Cursor& memory, int64_t n, int64_t d, int64_t first)
      : system(memory, n, d, first),
        update(memory, n, d),
        record({memory.take(StepRecord::size(n, d))}, n, d),
        density(memory, d),
        mean(memory.take(n)),
        filtered(memory.take(n)),
        covariance(memory.take(n * n)),
        observed(memory.take(d)) {}
  static int64_t room(int64_t n, int64_t d) {
    Cursor counted{nullptr};
    Step(counted, n, d, n);
    return counted.used;
  }
  void condition_mean() {
    update.condition_mean(filtered, mean, observed, record, system.emission, density);
  }
};

// ---- branches: every filtered state goes on under a system of its own to an observation

struct BranchArguments {
  View<const double, 3> transition;              // N n n
  View<const double, 2> state_offset;            // N n
  View<const double, 3> emission;                // N d n
  View<const double, 2> observation_offset;      // N d
  View<const double, 3> process_covariance;      // N n n
  View<const double, 3> observation_covariance;  // N d d
  View<const double, 2> initial_mean;            // N n
  View<const double, 3> initial_covariance;      // N n n
  View<const double, 2> x;                       // T d: NaN is missing
  View<const double, 2> means;                   // P n: of states so far, or null: first states
  View<const double, 3> covariances;             // P n n
  View<const int64_t, 1> parent;                 // B: state, system and observation of a branch
  View<const int64_t, 1> system;                 // B
  View<const int64_t, 1> point;                  // B
  View<double, 1> density;                       // B: of the observation, its logarithm
  View<double, 2> new_means;                     // B n: filtered states
  View<double, 3> new_covariances;               // B n n
};

inline void put_branch(const BranchArguments& a, Step& step, int64_t p, int lane) {
  const int64_t n = step.system.n, d = step.system.d, k = a.system(p);
  const System& system = step.system;
  if (a.means.given()) {
    put_lane(step.filtered, lane, a.means.at(a.parent(p)), n);
    put_lane(step.record.filtered, lane, a.covariances.at(a.parent(p)), n * n);
    put_lane(system.transition, lane, a.transition.at(k), n * n);
    put_lane(system.state_offset, lane, a.state_offset.at(k), n);
    put_lane(system.process, lane, a.process_covariance.at(k), n * n);
  } else {
    put_lane(step.mean, lane, a.initial_mean.at(k), n);
    put_lane(step.record.predicted, lane, a.initial_covariance.at(k), n * n);
  }
  const double* x = a.x.at(a.point(p));
  for (int64_t i = 0; i < d; ++i) {
    const bool seen = x[i] == x[i];
    lane_of(*step.density.missing, lane) += !seen;
    lane_of(step.observed[i], lane) = seen ? x[i] - a.observation_offset(k, i) : 0.0;
    for (int64_t j = 0; j < n; ++j)
      lane_of(system.emission[i * n + j], lane) = seen ? a.emission(k, i, j) : 0.0;
    for (int64_t j = 0; j < d; ++j) {
      const double own = i == j ? 1.0 : 0.0, noise = a.observation_covariance(k, i, j);
      lane_of(system.noise[i * d + j], lane) = seen && x[j] == x[j] ? noise : own;
    }
  }
}

inline int64_t kalman_branches(const BranchArguments& a) {
  const int64_t n = a.emission.shape[2], d = a.emission.shape[1], count = a.system.shape[0];
  Scratch scratch(Scratch::room<Lanes>(Step::room(n, d)));
  if (scratch.failed()) return OUT_OF_MEMORY;
  Cursor memory{scratch.take<Lanes>(Step::room(n, d))};
  Step step(memory, n, d, n);
  for (int64_t begin = 0; begin < count; begin += LANES) {
    step.density.begin();
    for (int lane = 0; lane < LANES; ++lane)
      put_branch(a, step, begin + lane < count ? begin + lane : count - 1, lane);
    if (a.means.given()) {
      step.system.predict_mean(step.mean, step.filtered);
      step.system.move(step.record.moved, step.record.filtered);
      step.system.predict(step.record.predicted, step.record.moved);
    }
    step.update.condition(step.record, step.system.emission, step.system.noise);
    step.condition_mean();
    for (int lane = 0; lane < LANES && begin + lane < count; ++lane) {
      a.density(begin + lane) = step.density.log(lane, d);
      read_lane(a.new_means.at(begin + lane), step.filtered, lane, n);
      read_lane(a.new_covariances.at(begin + lane), step.record.filtered, lane, n * n);
    }
  }
  return DONE;
}

// ---- pairs

struct SystemPairArguments {
  View<const double, 3> transition_a;              // I n n
  View<const double, 2> state_offset_a;            // I n
  View<const double, 3> emission_a;                // I d n
  View<const double, 2> observation_offset_a;      // I d
  View<const double, 3> process_covariance_a;      // I n n
  View<const double, 3> observation_covariance_a;  // I d d
  View<const double, 2> initial_mean_a;            // I n
  View<const double, 3> initial_covariance_a;      // I n n
  View<const double, 3> transition_b;              // J m m
  View<const double, 2> state_offset_b;            // J m
  View<const double, 3> emission_b;                // J d m
  View<const double, 2> observation_offset_b;      // J d
  View<const double, 3> process_covariance_b;      // J m m
  View<const double, 3> observation_covariance_b;  // J d d
  View<const double, 2> initial_mean_b;            // J m
  View<const double, 3> initial_covariance_b;      // J m m
  View<const int64_t, 2> paths_a;  // A L: the system of each step of a path; or null: one system
  View<const int64_t, 2> paths_b;  // B L
  View<const int64_t, 1> rows;     // P: the system, or the path, of the left side of each pair
  View<const int64_t, 1> columns;  // P
  View<const int64_t, 1> lengths;  // H, strictly increasing
  double noise;                    // factor of all covariances
  double extra;                    // is added to the variances of observations
  View<double, 2> log_density;     // H P
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
  put_lane(to.transition, lane, a.transition_a.at(i), n * n);
  put_lane(to.transition + n * n, lane, a.transition_b.at(j), m * m);
  put_lane(to.state_offset, lane, a.state_offset_a.at(i), n);
  put_lane(to.state_offset + n, lane, a.state_offset_b.at(j), m);
  put_blocks(to.process, lane, a.process_covariance_a.at(i), n, a.process_covariance_b.at(j), m,
             a.noise);
  for (int64_t p = 0; p < d; ++p) {
    lane_of(to.observation_offset[p], lane) =
        a.observation_offset_b(j, p) - a.observation_offset_a(i, p);
    put_lane(to.emission + p * to.n, lane, a.emission_a.at(i, p), n);
    for (int64_t q = 0; q < m; ++q)
      lane_of(to.emission[p * to.n + n + q], lane) = -a.emission_b(j, p, q);
    for (int64_t q = 0; q < d; ++q) {
      const double both = a.observation_covariance_a(i, p, q) + a.observation_covariance_b(j, p, q);
      lane_of(to.noise[p * d + q], lane) = both * a.noise + (p == q ? a.extra : 0.0);
    }
  }
}

// The systems of step t of a group of pairs, and their first states.
inline void put_pairs(const SystemPairArguments& a, Step& step, int64_t begin, int64_t t) {
  const int64_t n = step.system.first, m = step.system.n - n, last = a.rows.shape[0] - 1;
  const bool paths = a.paths_a.given();
  for (int lane = 0; lane < LANES; ++lane) {
    const int64_t p = begin + lane < last ? begin + lane : last;
    const int64_t i = paths ? a.paths_a(a.rows(p), t) : a.rows(p);
    const int64_t j = paths ? a.paths_b(a.columns(p), t) : a.columns(p);
    put_pair(a, step.system, i, j, lane);
    if (t > 0) continue;
    put_lane(step.mean, lane, a.initial_mean_a.at(i), n);
    put_lane(step.mean + n, lane, a.initial_mean_b.at(j), m);
    put_blocks(step.record.predicted, lane, a.initial_covariance_a.at(i), n,
               a.initial_covariance_b.at(j), m, a.noise);
  }
}

inline int64_t system_pairs(const SystemPairArguments& a) {
  const int64_t n = a.emission_a.shape[2], m = a.emission_b.shape[2], d = a.emission_a.shape[1];
  const int64_t size = n + m, pairs = a.rows.shape[0], longest = a.lengths(a.lengths.shape[0] - 1);
  Scratch scratch(Scratch::room<Lanes>(Step::room(size, d)));
  if (scratch.failed()) return OUT_OF_MEMORY;
  Cursor memory{scratch.take<Lanes>(Step::room(size, d))};
  Step step(memory, size, d, n);
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
      copy(step.observed, system.observation_offset, d);
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
