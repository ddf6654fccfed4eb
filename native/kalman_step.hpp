// One step of the Kalman filter (ALG-KF): prediction and update, of covariances and of means.
//
//     V = C P C' + R,  F = P - P C' V^-1 C P,  P <- A F A' + Q
//
// Lanes have systems of their own. A coordinate that was not observed has a zero row in C, a noise
// of variance one and no surprise: it changes neither state nor probability. Where F loses digits,
// it is computed in Joseph's form, a sum of squares. Limited by calls and loads of small products.
#pragma once
#include "small_matrix.hpp"

namespace mercer {

// Parameters of N systems: s' = A s + b + noise Q, x = C s + d + noise R, first state N(mu, S).
struct Systems {
  View<const double, 3> transition;              // [N n n]
  View<const double, 2> state_offset;            // [N n]
  View<const double, 3> emission;                // [N d n]
  View<const double, 2> observation_offset;      // [N d]
  View<const double, 3> process_covariance;      // [N n n]
  View<const double, 3> observation_covariance;  // [N d d]
  View<const double, 2> initial_mean;            // [N n]
  View<const double, 3> initial_covariance;      // [N n n]
};

// The systems of a group of lanes. A is block diagonal: blocks of `first` and of n - first
// coordinates.
struct System {
  Cursor& memory;
  int64_t n, d, first;
  Lanes* transition = memory.take(first * first + (n - first) * (n - first));
  Lanes *state_offset = memory.take(n), *emission = memory.take(d * n);
  Lanes *observation_offset = memory.take(d), *process = memory.take(n * n);
  Lanes *noise = memory.take(d * d), *mean = memory.take(n), *covariance = memory.take(n * n);

  // How system i comes to a state, observes it, and begins.
  void put_move(int lane, const Systems& from, int64_t i) const {
    put_lane(transition, lane, from.transition.at(i), n * n);
    put_lane(state_offset, lane, from.state_offset.at(i), n);
    put_lane(process, lane, from.process_covariance.at(i), n * n);
  }
  void put_emission(int lane, const Systems& from, int64_t i) const {
    put_lane(emission, lane, from.emission.at(i), d * n);
    put_lane(observation_offset, lane, from.observation_offset.at(i), d);
    put_lane(noise, lane, from.observation_covariance.at(i), d * d);
  }
  void put_start(int lane, const Systems& from, int64_t i) const {
    put_lane(mean, lane, from.initial_mean.at(i), n);
    put_lane(covariance, lane, from.initial_covariance.at(i), n * n);
  }

  struct Block {
    int64_t begin, size;
    Matrix matrix;
  };
  int blocks() const { return first < n ? 2 : 1; }
  Block block(int which) const {
    const int64_t begin = which ? first : 0, size = which ? n - first : first;
    return {begin, size, {transition + begin * begin, size, 1}};
  }
  // M = A F.
  void move(Lanes* moved, Lanes* filtered) const {
    for (int p = 0; p < blocks(); ++p) {
      const auto [at, size, own] = block(p);
      add_product({moved + at * n, n, 1}, ZEROS, own, {filtered + at * n, n, 1}, {size, size, n});
    }
  }
  // M A' + Q.
  void predict(Lanes* out, Lanes* moved) const {
    const Matrix to{out, n, 1}, m{moved, n, 1}, q{process, n, 1};
    for (int p = 0; p < blocks(); ++p) {
      const auto [row, rows, own] = block(p);
      add_symmetric(to.from(row, row), q.from(row, row), m.from(row, row), own.transposed(),
                    {rows, rows});
    }
    if (first == n) return;
    const int64_t rest = n - first;
    add_product(to.from(first, 0), q.from(first, 0), m.from(first, 0), block(0).matrix.transposed(),
                {rest, first, first});
    for (int64_t i = first; i < n; ++i)
      for (int64_t j = 0; j < first; ++j) to(j, i) = to(i, j);
  }
  void predict_mean(Lanes* out, Lanes* filtered) const {
    for (int p = 0; p < blocks(); ++p) {
      const auto [at, size, own] = block(p);
      add_product({out + at, n, 1}, {state_offset + at, n, 1}, {filtered + at, n, 1},
                  own.transposed(), {1, size, size});
    }
  }
};

// What a step has that does not depend on its observation.
struct StepRecord {
  Cursor memory;
  int64_t n, d;
  Lanes *predicted = memory.take(n * n), *filtered = memory.take(n * n);  // P, F
  Lanes* lower = memory.take(d * d);                                      // Cholesky factor of V
  Lanes* inverse = memory.take(d);                                        // its inverse diagonal
  Lanes* z = memory.take(d * n);                                          // V^-1/2 C P
  Lanes* gain = memory.take(d * n);                                       // V^-1 C P
  Scaled* density = memory.take_as<Scaled>(1);                            // |V|^-1/2
  Lanes* kt = memory.take(d * n);                                         // K'
  Lanes *loop = memory.take(n * n), *moved = memory.take(n * n);          // L, M = A F

  static int64_t size(int64_t n, int64_t d) { return StepRecord{{nullptr}, n, d}.memory.used; }
};

// A log density in the making: log root - (squares + (count - missing) log 2 pi) / 2.
struct Density {
  Cursor& memory;
  int64_t d;
  Scaled* root = memory.take_as<Scaled>(1);
  Lanes *missing = memory.take(1), *squares = memory.take(1);  // missing: coordinates not observed

  void begin() {
    *root = {all(1.0), all(0.0)};
    fill(missing, 0.0, 1), fill(squares, 0.0, 1);
  }
  // Add steps that share one record, with the whitened surprises of their observations.
  void add_steps(const StepRecord& record, const Lanes* surprises, int64_t steps) {
    Scaled number = *root, factor = *record.density;
    Lanes sum = *squares;
    for (int64_t t = 0; t < steps; ++t) {
      multiply(number, factor);
      for (int64_t i = 0; i < d; ++i, ++surprises) sum += *surprises * *surprises;
    }
    *root = number, *squares = sum;
  }
  double log(int lane, int64_t count) {
    const double seen = double(count) - lane_of(*missing, lane);
    const double half = lane_of(*squares, lane) + seen * LOG_2PI;
    return ::log(lane_of(root->mantissa, lane)) + lane_of(root->exponent, lane) * LOG_2 -
           0.5 * half;
  }
};

// The update of one step, with its scratch memory.
struct Update {
  Cursor& memory;
  int64_t n, d;
  Lanes *cp = memory.take(d * n), *v = memory.take(d * d), *rest = memory.take(n * n);
  Lanes *t1 = memory.take(n * n), *t2 = memory.take(n * n + d * n + d * d);
  Lanes* t3 = memory.take(n * n);

  // Condition the predicted covariance of a record on an observation.
  void condition(const StepRecord& r, Lanes* emission, Lanes* noise) const {
    const Matrix c{emission, n, 1}, p{r.predicted, n, 1}, f{r.filtered, n, 1}, z{r.z, n, 1};
    const Matrix left{cp, n, 1}, spread{v, d, 1}, lower{r.lower, d, 1};
    add_product(left, ZEROS, c, p, {d, n, n});
    add_symmetric(spread, {noise, d, 1}, left, c.transposed(), {d, n});
    cholesky(lower, r.inverse, spread, d);
    Scaled density{all(1.0), all(0.0)};
    for (int64_t i = 0; i < d; ++i) multiply(density, split(r.inverse[i]));
    *r.density = density;
    solve_lower(z, left, lower, r.inverse, d, n);
    subtract_symmetric(f, p, z.transposed(), z, {n, d});
    const Marks lost = canceled(r.filtered, r.predicted, n);
    if (any(lost)) joseph(r, c, {noise, d, 1}, lost);
  }

  // F as a sum of squares, (I - G C) P (I - G C)' + G R G', in lanes that have lost digits.
  void joseph(const StepRecord& r, Matrix c, Matrix noise, Marks lost) const {
    const Matrix g{r.gain, n, 1}, p{r.predicted, n, 1}, without{rest, n, 1}, half{t1, n, 1},
        other{t2, n, 1}, sum{t3, n, 1};
    solve_upper(g, {r.z, n, 1}, {r.lower, d, 1}, r.inverse, d, n);
    subtract_product(without, ZEROS, g.transposed(), c, {n, d, n});
    for (int64_t i = 0; i < n; ++i) without(i, i) += all(1.0);
    add_product(half, ZEROS, without, p, {n, n, n});
    add_symmetric(sum, ZEROS, half, without.transposed(), {n, n});
    add_product(other, ZEROS, noise, g, {d, d, n});
    add_symmetric(sum, sum, g.transposed(), other, {n, d});
    for (int64_t k = 0; k < n * n; ++k) r.filtered[k] = choose(lost, t3[k], r.filtered[k]);
  }
};

}  // namespace mercer
