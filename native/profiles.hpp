// Profile hidden Markov models (Plan 7): forward log odds and expected counts of one sequence at a
// time.
//
// A row has a match, an insert and a delete state for every node k = 1, ..., M, zeros elsewhere:
//
//     M_k' = odds_k (B entry_k + M_{k-1} s0 + I_{k-1} s3 + D_{k-1} s5),    I_k' = odds'_k (M_k s1 +
//     I_k s4),    D_k' = M'_{k-1} s2 + D'_{k-1} s6,    E = sum over k of leave_k (M_k' + D_k')
//
// beside the flanks N, J and C and the begin B. Lanes are nodes; the recursion of D is a scan in
// blocks of four. Plain rows have one power of two; where they may have lost numbers, the sequence
// is computed again in numbers of unlimited range. Limited by loads, and by the scan.
#pragma once
#include "pairs_lanes.hpp"

namespace mercer {

struct ProfileModel {
  View<const double, 2> odds;         // [c w] of every code at every node, w = M + 2
  View<const double, 2> insert_odds;  // [c w]
  View<const double, 2> steps;        // [7 w] mm, mi, md, im, ii, dm, dd
  View<const double, 1> entry;        // [w]
  View<const double, 1> leave;        // [w]
  View<const int64_t, 1> codes;       // [T]
  View<const int64_t, 1> offsets;     // [S1]
  View<const double, 2> flanks;       // [S 4] stay, go on, E to J, E to C
  double limit;                       // work of a call, in cells; those on the way back are four
  View<int64_t, 1> place;             // [4] where the next call goes on, 0 first
  View<double, 1> memory;             // [K] as many numbers as profile_room says
};
struct ProfileArguments : ProfileModel {
  int64_t watch;             // whether small numbers are watched
  int64_t ranged;            // whether to compute in numbers of unlimited range at once
  View<double, 1> log_odds;  // [S]
  View<double, 3> matched;   // [S c w]? expected counts, zero before
  View<double, 3> inserted;  // [S c w]?
  View<double, 3> stepped;   // [S 7 w]?
  View<double, 2> entered;   // [S w]?
};

struct ProfileRoomArguments {
  int64_t nodes;
  int64_t length;  // of the longest sequence
  int64_t counts;
};

// Plain numbers, vectors of them, and rows with a power of two.
struct PlainProfile {
  using One = double;
  using Vector = Doubles;
  static constexpr int L = WIDTH, COST = 1;
  static constexpr double LARGE = 0x1p100, SMALL = 0x1p-100;  // rows between them are not scaled
  static constexpr double LOST = 0x1p-850;  // positive numbers below may have lost others

  static One zero() { return 0.0; }
  static One one() { return 1.0; }
  static One number(double x) { return x; }
  static MERCER_INLINE Vector all(One x) { return spread<Vector>(x); }
  static MERCER_INLINE Vector load(const One* from) { return mercer::load<Vector>(from); }
  static MERCER_INLINE void store(One* to, Vector v) { mercer::store(to, v); }
  static MERCER_INLINE One sum(Vector v) { return sum_of_lanes(v); }
  static One inverse(One x) { return 1.0 / x; }
  static One power(One x, int64_t exponent) { return ldexp(x, int(exponent)); }
  static double log(One x, int64_t exponent) { return ::log(x) + double(exponent) * LOG_2; }

  // Scale a row and its ends, return the exponent; `lost` is set if small numbers may be lost.
  static int64_t scale(One* row, int64_t size, One* ends, int count, bool watch, bool& lost) {
    Doubles tops{}, lows = spread<Doubles>(INFINITY);
    for (int64_t k = 0; k < size; k += WIDTH) {
      Doubles x = load(row + k);
      tops = maximum(x, tops);
      if (watch) lows = minimum(x > 0.0 ? x : spread<Doubles>(INFINITY), lows);
    }
    double top = 0.0, low = INFINITY;
    for (int lane = 0; lane < WIDTH; ++lane)
      top = fmax(top, tops[lane]), low = fmin(low, lows[lane]);
    for (int k = 0; k < count; ++k) {
      top = ends[k] > top ? ends[k] : top;
      low = ends[k] > 0.0 && ends[k] < low ? ends[k] : low;
    }
    int exponent = 0;
    if (top > LARGE || (top > 0.0 && top < SMALL)) {
      frexp(top, &exponent);
      // in two steps, since 2^-exponent itself may overflow
      const double first = ldexp(1.0, -(exponent / 2)),
                   second = ldexp(1.0, exponent / 2 - exponent);
      for (int64_t k = 0; k < size; k += WIDTH) store(row + k, load(row + k) * first * second);
      for (int k = 0; k < count; ++k) ends[k] = ends[k] * first * second;
      low = low * first * second;
    }
    lost |= watch && low < LOST;
    return exponent;
  }
};

struct RangedProfile {
  using One = Ranged<Vec<double, 1>>;
  using Vector = One;
  static constexpr int L = 1, COST = 8;

  static One zero() { return Numbers<One>::zero(); }
  static One one() { return number(1.0); }
  static One number(double x) { return Numbers<One>::number(x); }
  static MERCER_INLINE Vector all(One x) { return x; }
  static MERCER_INLINE Vector load(const One* from) { return *from; }
  static MERCER_INLINE void store(One* to, Vector v) { *to = v; }
  static MERCER_INLINE One sum(Vector v) { return v; }
  static One inverse(One x) { return tidy<Vec<double, 1>>(1.0 / x.value, -x.power); }
  static One power(One x, int64_t) { return x; }
  static double log(One x, int64_t) { return log_of(x, 0); }
  static int64_t scale(One*, int64_t, One*, int, bool, bool&) { return 0; }
};

// Logarithms of best paths: `number` takes over what is a logarithm already.
struct BestProfile {
  using One = Best<double>;
  using Vector = Best<Doubles>;
  static constexpr int L = WIDTH;

  static One zero() { return {-INFINITY}; }
  static One one() { return {0.0}; }
  static One number(double x) { return {x}; }
  static MERCER_INLINE Vector all(One x) { return {spread<Doubles>(x.log)}; }
  static MERCER_INLINE Vector load(const One* from) { return {mercer::load<Doubles>(&from->log)}; }
  static MERCER_INLINE void store(One* to, Vector v) { mercer::store(&to->log, v.log); }
  static MERCER_INLINE One sum(Vector v) {
    One best = zero();
    for (int lane = 0; lane < WIDTH; ++lane) best = best + One{v.log[lane]};
    return best;
  }
  static int64_t scale(One*, int64_t, One*, int, bool, bool&) { return 0; }
};

inline int64_t profile_width(int64_t nodes) { return (nodes + 2 + 2 * WIDTH) / WIDTH * WIDTH; }

// A profile in numbers of one type: arrays begin with node 0, and are zero after node M, in whole
// vectors.
template <class T>
struct Profile {
  using One = typename T::One;
  Scratch& scratch;
  const ProfileModel& a;
  int64_t m = a.entry.shape[0] - 2, width = profile_width(m);
  int64_t codes = a.odds.shape[0];
  One* odds = scratch.take<One>((2 * codes + 10) * width);
  One *insert_odds = odds + codes * width, *entry = insert_odds + codes * width;
  One *leave = entry + width, *steps = leave + width;  // seven rows
  // product of the steps from delete to delete states since the last block began
  One* reach = steps + 7 * width;

  void fill() const {
    auto copy = [&](One* to, const double* from, int64_t rows) {
      for (int64_t k = 0; k < rows * width; ++k)
        to[k] = k % width <= m ? T::number(from[k / width * (m + 2) + k % width]) : T::zero();
    };
    copy(odds, a.odds.data, codes), copy(insert_odds, a.insert_odds.data, codes);
    copy(entry, a.entry.data, 1), copy(leave, a.leave.data, 1), copy(steps, a.steps.data, 7);
    const One* step = steps + 6 * width;
    for (int64_t k = 0; k < width; ++k) reach[k] = T::zero();
    for (int64_t k = 1; k <= m; ++k)
      reach[k] = (k - 1) % 4 ? reach[k - 1] * step[k - 1] : step[k - 1];
  }
};

// What a row needs beside its 3 * width numbers: N, B, J, C, and E on the way back.
template <class T>
struct ProfileSweep {
  using One = typename T::One;
  using Vector = typename T::Vector;
  static constexpr int L = T::L;
  const Profile<T>& p;
  One flanks[4];

  ProfileSweep(const Profile<T>& profile, const double* given) : p(profile) {
    for (int k = 0; k < 4; ++k) flanks[k] = T::number(given[k]);
  }

  // The row before the first symbol; its ends follow its numbers.
  void begin(One* row) const {
    for (int64_t k = 0; k < 3 * p.width + 4; ++k) row[k] = T::zero();
    row[3 * p.width] = T::one(), row[3 * p.width + 1] = flanks[1];
  }

  // Delete states from their terms D: D_k += D_{k-1} s6, in blocks of four, whose parts without the
  // state before them do not wait for each other.
  void scan(One* deleted) const {
    const One *step = p.steps + 6 * p.width, *reach = p.reach;
    One before = T::zero();
    for (int64_t k = 1; k <= p.m; k += 4) {
      One d[4];
      d[0] = deleted[k];
      for (int i = 1; i < 4; ++i) {
        d[i] = deleted[k + i];
        multiply_add(d[i], d[i - 1], step[k + i - 1]);
      }
      for (int i = 0; i < 4; ++i) {
        multiply_add(d[i], before, reach[k + i]);
        deleted[k + i] = d[i];
      }
      before = d[3];
    }
  }

  // The row of the next symbol; returns its exponent.
  __attribute__((noinline)) int64_t advance(const One* row, One* next, int64_t code, bool watch,
                                            bool& lost) const {
    const int64_t m = p.m, w = p.width;
    const One *match = row, *insert = row + w, *erase = row + 2 * w;
    const One *odds = p.odds + code * w, *insert_odds = p.insert_odds + code * w;
    const One *s[7], *entry = p.entry, *before = row + 3 * w;
    for (int k = 0; k < 7; ++k) s[k] = p.steps + k * w;
    const Vector start = T::all(before[1]);
    One *deleted = next + 2 * w, *ends = next + 3 * w;
    for (int64_t k = 1; k <= m; k += L) {
      Vector sum = start * T::load(entry + k);
      multiply_add(sum, T::load(match + k - 1), T::load(s[0] + k - 1));
      multiply_add(sum, T::load(insert + k - 1), T::load(s[3] + k - 1));
      multiply_add(sum, T::load(erase + k - 1), T::load(s[5] + k - 1));
      T::store(next + k, sum * T::load(odds + k));
      Vector stay = T::load(match + k) * T::load(s[1] + k);
      multiply_add(stay, T::load(insert + k), T::load(s[4] + k));
      T::store(next + w + k, stay * T::load(insert_odds + k));
    }
    for (int64_t k = 0; k < w; k = k ? k + 1 : m + 1) next[k] = next[w + k] = T::zero();
    for (int64_t k = 1; k <= m; k += L)
      T::store(deleted + k, T::load(next + k - 1) * T::load(s[2] + k - 1));
    scan(deleted);
    for (int64_t k = 0; k < w; k = k ? k + 1 : m + 1) deleted[k] = T::zero();
    Vector leaving = T::all(T::zero());
    for (int64_t k = 1; k <= m; k += L)
      multiply_add(leaving, T::load(p.leave + k), T::load(next + k) + T::load(deleted + k));
    const One left = T::sum(leaving);
    ends[0] = before[0] * flanks[0];
    ends[2] = before[2] * flanks[0] + left * flanks[2];
    ends[3] = before[3] * flanks[0] + left * flanks[3];
    ends[1] = (ends[0] + ends[2]) * flanks[1];
    return T::scale(next, 3 * w, ends, 4, watch, lost);
  }

  // The row of a symbol on the way back, from the next match and insert states times the odds of
  // the next symbol (zero after the last one); ends are N, B, J, C and E.
  __attribute__((noinline)) int64_t retreat(One* row, One* ends, const One* reached,
                                            const One* staying, bool last, bool watch,
                                            bool& lost) const {
    const int64_t m = p.m, w = p.width;
    const One* s[7];
    for (int k = 0; k < 7; ++k) s[k] = p.steps + k * w;
    if (last) {
      ends[0] = ends[1] = ends[2] = T::zero(), ends[3] = flanks[1];
    } else {
      Vector starting = T::all(T::zero());
      for (int64_t k = 1; k <= m; k += L)
        multiply_add(starting, T::load(p.entry + k), T::load(reached + k));
      const One start = ends[1] = T::sum(starting);
      ends[3] = ends[3] * flanks[0];
      ends[2] = ends[2] * flanks[0] + start * flanks[1];
      ends[0] = ends[0] * flanks[0] + start * flanks[1];
    }
    ends[4] = ends[3] * flanks[3] + ends[2] * flanks[2];
    const Vector end = T::all(ends[4]);
    One *match = row, *insert = row + w, *erase = row + 2 * w;
    for (int64_t k = 1; k <= m; k += L) {
      const Vector following = T::load(reached + k + 1), stay = T::load(staying + k);
      Vector out = T::load(p.leave + k) * end, erased = out,
             inserted = T::load(s[3] + k) * following;
      multiply_add(out, T::load(s[0] + k), following);
      multiply_add(out, T::load(s[1] + k), stay);
      multiply_add(inserted, T::load(s[4] + k), stay);
      multiply_add(erased, T::load(s[5] + k), following);
      T::store(match + k, out), T::store(insert + k, inserted), T::store(erase + k, erased);
    }
    One deleted = T::zero();
    for (int64_t k = m; k > 0; --k) {
      One here = erase[k];
      multiply_add(here, s[6][k], deleted);
      erase[k] = deleted = here;
    }
    for (int64_t k = 1; k <= m; k += L) {
      Vector out = T::load(match + k);
      multiply_add(out, T::load(s[2] + k), T::load(erase + k + 1));
      T::store(match + k, out);
    }
    return T::scale(row, 3 * w, ends, 5, watch, lost);
  }
};

// Counts of one sequence: add x y z factor for every node.
template <class T>
MERCER_INLINE void add_share(double* counts, const typename T::One* x, const typename T::One* y,
                             const typename T::One* z, typename T::One factor, int64_t m) {
  for (int64_t k = 1; k <= m; k += T::L) {
    auto product = T::load(x + k) * T::load(y + k);
    if (z) product = product * T::load(z + k);
    auto share = plain(product * T::all(factor));
    store_some(counts + k, load_some<decltype(share)>(counts + k, m + 1 - k) + share, m + 1 - k);
  }
}

// What of a sequence is kept from call to call.
template <class T>
struct ProfileKept {
  using One = typename T::One;
  struct Numbers {
    int64_t exponent;  // of the row, on the way back less that of the total
    int64_t lost;
    One inverse, ends[5];
  };
  Numbers* numbers;
  One *two = nullptr, *row = nullptr, *reached, *staying;
  int64_t* exponents;
  Rows<One> rows;

  ProfileKept(Scratch& memory, int64_t w, int64_t length, bool counts) {
    const int64_t line = 3 * w + 8;  // ends of a row follow its numbers
    numbers = memory.take<Numbers>(1);
    if (!counts) {
      two = memory.take<One>(2 * line);
      return;
    }
    row = memory.take<One>(line), memory.give(w, reached, staying);
    exponents = memory.take<int64_t>(length + 1);
    rows.take(memory, length + 1, line);
  }
};

inline int64_t profile_room(const ProfileRoomArguments& a) {
  Scratch plain, ranged;
  ProfileKept<PlainProfile>(plain, profile_width(a.nodes), a.length, a.counts);
  ProfileKept<RangedProfile>(ranged, profile_width(a.nodes), a.length, a.counts);
  return plain.numbers() > ranged.numbers() ? plain.numbers() : ranged.numbers();
}

// One sequence after the other, in steps: some rows forward, or some rows back.
template <class T>
struct ProfileRun {
  using One = typename T::One;
  using Kept = ProfileKept<T>;
  static constexpr int64_t ROWS = 64;  // of a step if there are no counts; an even number
  Scratch& scratch;
  const ProfileArguments& a;
  const Profile<T> p{scratch, a};
  int64_t w = p.width;

  int64_t length(int64_t sequence) const { return a.offsets(sequence + 1) - a.offsets(sequence); }
  int64_t steps(int64_t sequence, const Kept& kept) const {
    return kept.two ? length(sequence) / ROWS + 1 : kept.rows.steps();
  }

  void begin(int64_t sequence, const Kept& kept) const {
    const ProfileSweep<T> sweep(p, a.flanks.at(sequence));
    kept.numbers->exponent = kept.numbers->lost = 0;
    if (kept.two) return sweep.begin(kept.two);
    clear(sequence);
    kept.numbers->inverse = T::zero();
    for (One& end : kept.numbers->ends) end = T::zero();
    for (int64_t k = 0; k < 3 * w; ++k) kept.row[k] = T::zero();
    for (int64_t k = 0; k < w; ++k) kept.reached[k] = kept.staying[k] = T::zero();
  }

  // Returns the number of cells.
  double step(int64_t sequence, const Kept& kept, int64_t at) const {
    const double cells = double(p.m * T::COST);
    if (kept.two) return forward(sequence, kept, at * ROWS), cells * ROWS;
    expected(sequence, kept, at);
    return cells * double(kept.rows.block * (at < kept.rows.parts ? 1 : 4));
  }

  void forward(int64_t sequence, const Kept& kept, int64_t first) const {
    const ProfileSweep<T> sweep(p, a.flanks.at(sequence));
    One *before = kept.two, *after = before + 3 * w + 8;
    const int64_t size = length(sequence), end = first + ROWS < size ? first + ROWS : size;
    bool lost = false;
    for (int64_t t = a.offsets(sequence) + first; t < a.offsets(sequence) + end; ++t) {
      kept.numbers->exponent += sweep.advance(before, after, a.codes(t), a.watch, lost);
      exchange(before, after);
    }
    kept.numbers->lost |= lost;
    if (end == size)
      a.log_odds(sequence) = T::log(before[3 * w + 3] * sweep.flanks[1], kept.numbers->exponent);
  }

  void expected(int64_t sequence, const Kept& kept, int64_t at) const {
    const ProfileSweep<T> sweep(p, a.flanks.at(sequence));
    const int64_t size = length(sequence);
    const int64_t* codes = a.codes.data + a.offsets(sequence);
    int64_t *exponents = kept.exponents, &off = kept.numbers->exponent;
    One *row = kept.row, *ends = kept.numbers->ends, &inverse = kept.numbers->inverse;
    bool lost = false, again = false;
    auto forth = [&](int64_t i, const One* above, One* here, bool fresh) {
      if (i == 0) {
        sweep.begin(here), exponents[0] = 0;
      } else {
        bool& watched = fresh ? lost : again;
        exponents[i] =
            exponents[i - 1] + sweep.advance(above, here, codes[i - 1], fresh && a.watch, watched);
      }
      if (!fresh || i < size) return;
      const One total = here[3 * w + 3] * sweep.flanks[1];
      a.log_odds(sequence) = T::log(total, exponents[i]);
      inverse = T::inverse(total), off = -exponents[i];
    };
    auto back = [&](int64_t i, const One* here) {
      if (a.log_odds(sequence) == -INFINITY) return;
      const One factor = T::power(inverse, exponents[i] + off);
      if (i < size) count_steps(sequence, kept, here, here[3 * w + 1], factor);
      if (i == 0) return;
      off += sweep.retreat(row, ends, kept.reached, kept.staying, i == size, a.watch, lost);
      count_states(sequence, row, codes[i - 1], here, T::power(inverse, exponents[i] + off));
      for (int64_t k = 1; k <= p.m; k += T::L) {
        const int64_t of = codes[i - 1] * w + k;
        T::store(kept.reached + k, T::load(row + k) * T::load(p.odds + of));
        T::store(kept.staying + k, T::load(row + w + k) * T::load(p.insert_odds + of));
      }
    };
    kept.rows.step(at, forth, back);
    kept.numbers->lost |= lost;
  }

  // Symbols in their states, and steps into delete states, which take no symbol.
  void count_states(int64_t sequence, const One* row, int64_t code, const One* forth,
                    One factor) const {
    const int64_t m = p.m;
    add_share<T>(a.matched.at(sequence, code), forth, row, nullptr, factor, m);
    add_share<T>(a.inserted.at(sequence, code), forth + w, row + w, nullptr, factor, m);
    add_share<T>(a.stepped.at(sequence, 2), forth, p.steps + 2 * w, row + 2 * w + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 6), forth + 2 * w, p.steps + 6 * w, row + 2 * w + 1, factor,
                 m);
  }
  // Steps to the next symbol.
  void count_steps(int64_t sequence, const Kept& kept, const One* forth, One start,
                   One factor) const {
    const int64_t m = p.m;
    const One *reached = kept.reached, *staying = kept.staying;
    add_share<T>(a.entered.at(sequence), p.entry, reached, nullptr, start * factor, m);
    add_share<T>(a.stepped.at(sequence, 0), forth, p.steps, reached + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 3), forth + w, p.steps + 3 * w, reached + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 5), forth + 2 * w, p.steps + 5 * w, reached + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 1), forth, p.steps + w, staying, factor, m);
    add_share<T>(a.stepped.at(sequence, 4), forth + w, p.steps + 4 * w, staying, factor, m);
  }

  void clear(int64_t sequence) const {
    const size_t size = size_t(a.entry.shape[0]) * sizeof(double);
    memset(a.matched.at(sequence), 0, size * size_t(p.codes));
    memset(a.inserted.at(sequence), 0, size * size_t(p.codes));
    memset(a.stepped.at(sequence), 0, 7 * size), memset(a.entered.at(sequence), 0, size);
  }
};

// place: whether plain numbers are done, the sequence, its step, whether numbers may be lost.
template <class T>
int64_t profile_runs(const ProfileArguments& a, bool again) {
  Scratch scratch;
  ProfileRun<T>{scratch, a};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  const ProfileRun<T> runs{scratch, a};
  runs.p.fill();
  int64_t &s = a.place(1), &step = a.place(2);
  double work = 0.0;
  for (; s < a.log_odds.shape[0]; ++s, step = 0) {
    if (again && step == 0 && !__builtin_isnan(a.log_odds(s))) continue;
    Scratch memory(a.memory);
    const ProfileKept<T> kept(memory, runs.w, runs.length(s), a.matched.given());
    if (step == 0) runs.begin(s, kept);
    for (; step < runs.steps(s, kept); ++step) {
      if (work > a.limit) return MORE;
      work += runs.step(s, kept, step);
    }
    if (kept.numbers->lost) a.log_odds(s) = NAN, a.place(3) = 1;
  }
  return DONE;
}

inline int64_t profiles(const ProfileArguments& a) {
  if (a.ranged) return profile_runs<RangedProfile>(a, false);
  int64_t &second = a.place(0), &lost = a.place(3);
  if (!second) {
    const int64_t status = profile_runs<PlainProfile>(a, false);
    if (status != DONE || !lost) return status;
    second = 1, a.place(1) = a.place(2) = 0;
  }
  return profile_runs<RangedProfile>(a, true);
}

}  // namespace mercer
