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

// s' = A s + b + noise Q, x = C s + d + noise R, first state N(mu, S). A is block diagonal: blocks
// of `first` and of n - first coordinates.
struct System {
  int64_t n, d, first;
  Lanes *transition, *state_offset, *emission, *observation_offset, *process, *noise, *mean,
      *covariance;

  System(Cursor& memory, int64_t n_, int64_t d_, int64_t first_)
      : n(n_),
        d(d_),
        first(first_),
        transition(memory.take(first * first + (n - first) * (n - first))),
        state_offset(memory.take(n)),
        emission(memory.take(d * n)),
        observation_offset(memory.take(d)),
        process(memory.take(n * n)),
        noise(memory.take(d * d)),
        mean(memory.take(n)),
        covariance(memory.take(n * n)) {}

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
      add_symmetric(to.from(row, row), q.from(row, row), m.from(row, row), own.transposed(), rows,
                    rows);
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
  Lanes *predicted, *filtered;  // P, F
  Lanes *lower, *inverse;       // Cholesky factor of V, its inverse diagonal
  Lanes* z;                     // d n: V^-1/2 C P
  Lanes* gain;                  // d n: V^-1 C P
  Scaled* density;              // |V|^-1/2
  Lanes *kt, *loop, *moved;     // d n: K', L, M = A F

  StepRecord(Cursor memory, int64_t n, int64_t d)
      : predicted(memory.take(n * n)),
        filtered(memory.take(n * n)),
        lower(memory.take(d * d)),
        inverse(memory.take(d)),
        z(memory.take(d * n)),
        gain(memory.take(d * n)),
        density(reinterpret_cast<Scaled*>(memory.take(2))),
        kt(memory.take(d * n)),
        loop(memory.take(n * n)),
        moved(memory.take(n * n)) {}
  static int64_t size(int64_t n, int64_t d) { return 4 * n * n + d * d + d + 3 * d * n + 2; }
};

// A log density in the making: log root - (squares + (count - missing) log 2 pi) / 2.
struct Density {
  int64_t d;
  Scaled* root;
  Lanes *missing, *squares;  // coordinates that were not observed

  Density(Cursor& memory, int64_t d_)
      : d(d_),
        root(reinterpret_cast<Scaled*>(memory.take(2))),
        missing(memory.take(1)),
        squares(memory.take(1)) {}
  void begin() {
    *root = {all(1.0), all(0.0)};
    fill(missing, 0.0, 1), fill(squares, 0.0, 1);
  }
  // Take down steps with one record and the whitened surprises of their observations.
  void take(const StepRecord& record, const Lanes* surprises, int64_t steps) {
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
  int64_t n, d;
  Lanes *cp, *v, *rest, *t1, *t2, *t3;

  Update(Cursor& memory, int64_t n_, int64_t d_)
      : n(n_),
        d(d_),
        cp(memory.take(d * n)),
        v(memory.take(d * d)),
        rest(memory.take(n * n)),
        t1(memory.take(n * n)),
        t2(memory.take(n * n + d * n + d * d)),
        t3(memory.take(n * n)) {}

  // Condition the predicted covariance of a record on an observation.
  void condition(const StepRecord& r, Lanes* emission, Lanes* noise) const {
    const Matrix c{emission, n, 1}, p{r.predicted, n, 1}, f{r.filtered, n, 1}, z{r.z, n, 1};
    const Matrix left{cp, n, 1}, spread{v, d, 1}, lower{r.lower, d, 1};
    add_product(left, ZEROS, c, p, {d, n, n});
    add_symmetric(spread, {noise, d, 1}, left, c.transposed(), d, n);
    cholesky(lower, r.inverse, spread, d);
    Scaled density{all(1.0), all(0.0)};
    for (int64_t i = 0; i < d; ++i) multiply(density, split(r.inverse[i]));
    *r.density = density;
    solve_lower(z, left, lower, r.inverse, d, n);
    subtract_symmetric(f, p, z.transposed(), z, n, d);
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
    add_symmetric(sum, ZEROS, half, without.transposed(), n, n);
    add_product(other, ZEROS, noise, g, {d, d, n});
    add_symmetric(sum, sum, g.transposed(), other, n, d);
    for (int64_t k = 0; k < n * n; ++k) r.filtered[k] = choose(lost, t3[k], r.filtered[k]);
  }

  // Condition a predicted mean on an observation less its offset, which becomes its surprise.
  void condition_mean(Lanes* filtered, Lanes* mean, Lanes* observed, const StepRecord& r,
                      Lanes* emission, Density& density) const {
    const Matrix e{observed, d, 1}, m{mean, n, 1};
    subtract_product(e, e, m, {emission, 1, n}, {1, n, d});
    solve_lower(e.transposed(), e.transposed(), {r.lower, d, 1}, r.inverse, d, 1);
    density.take(r, observed, 1);
    add_product({filtered, n, 1}, m, e, {r.z, n, 1}, {1, d, n});
  }
};

}  // namespace mercer
