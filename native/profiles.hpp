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
#include "number.hpp"
#include "view.hpp"

namespace mercer {

struct ProfileArguments {
  View<const double, 2> odds;         // c w: of every code at every node, w = M + 2
  View<const double, 2> insert_odds;  // c w
  View<const double, 2> steps;        // 7 w: mm, mi, md, im, ii, dm, dd
  View<const double, 1> entry;        // w
  View<const double, 1> leave;        // w
  View<const int64_t, 1> codes;       // T
  View<const int64_t, 1> offsets;     // S + 1
  View<const double, 2> flanks;       // S 4: stay, go on, E to J, E to C
  int64_t watch;                      // whether small numbers are watched
  int64_t ranged;                     // whether to compute in numbers of unlimited range at once
  View<double, 1> log_odds;           // S
  View<double, 3> matched;            // S c w: expected counts, zero before; or null
  View<double, 3> inserted;           // S c w
  View<double, 3> stepped;            // S 7 w
  View<double, 2> entered;            // S w
};

// Plain numbers, vectors of them, and rows with a power of two.
struct PlainProfile {
  using One = double;
  using Vector = Doubles;
  static constexpr int L = WIDTH;
  static constexpr double LARGE = 0x1p100, SMALL = 0x1p-100;  // rows between them are not scaled
  static constexpr double LOST = 0x1p-850;  // positive numbers below may have lost others

  static One zero() { return 0.0; }
  static One number(double x) { return x; }
  static MERCER_INLINE Vector all(One x) { return spread<Vector>(x); }
  static MERCER_INLINE Vector load(const One* from) { return mercer::load<Vector>(from); }
  static MERCER_INLINE void store(One* to, Vector v) { mercer::store(to, v); }
  static MERCER_INLINE One sum(Vector v) { return sum_of_lanes(v); }
  static MERCER_INLINE Vector plain(Vector v) { return v; }
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
  static constexpr int L = 1;

  static One zero() { return Numbers<One>::zero(); }
  static One number(double x) { return Numbers<One>::number(x); }
  static MERCER_INLINE Vector all(One x) { return x; }
  static MERCER_INLINE Vector load(const One* from) { return *from; }
  static MERCER_INLINE void store(One* to, Vector v) { *to = v; }
  static MERCER_INLINE One sum(Vector v) { return v; }
  static MERCER_INLINE Vec<double, 1> plain(Vector x) {  // of numbers that are at most about one
    auto k = x.power;
    return k == 0    ? x.value
           : k == 1  ? x.value * RADIX
           : k == -1 ? x.value * INVERSE_RADIX
                     : 0.0 * x.value;
  }
  static One inverse(One x) { return tidy<Vec<double, 1>>(1.0 / x.value, -x.power); }
  static One power(One x, int64_t) { return x; }
  static double log(One x, int64_t) { return ::log(x.value[0]) + double(x.power[0]) * LOG_RADIX; }
  static int64_t scale(One*, int64_t, One*, int, bool, bool&) { return 0; }
};

// A profile in numbers of one type: arrays begin with node 0, and are zero after node M, in whole
// vectors.
template <class T>
struct Profile {
  using One = typename T::One;
  int64_t m, width, codes;
  One *odds, *insert_odds, *steps[7], *entry, *leave;
  One* reach;  // product of the steps from delete to delete states since the last block began

  static int64_t padded(int64_t m) { return (m + 2 + 2 * WIDTH) / WIDTH * WIDTH; }
  static size_t room(const ProfileArguments& a) {
    return Scratch::room<One>((2 * a.odds.shape[0] + 10) * padded(a.entry.shape[0] - 2));
  }
  Profile(Scratch& scratch, const ProfileArguments& a)
      : m(a.entry.shape[0] - 2), width(padded(m)), codes(a.odds.shape[0]) {
    One* next = scratch.take<One>((2 * codes + 10) * width);
    auto copied = [&](const double* from, int64_t last) {
      One* to = next;
      for (int64_t k = 0; k < width; ++k) to[k] = k <= last ? T::number(from[k]) : T::zero();
      next += width;
      return to;
    };
    odds = next;
    for (int64_t c = 0; c < codes; ++c) copied(a.odds.at(c), m);
    insert_odds = next;
    for (int64_t c = 0; c < codes; ++c) copied(a.insert_odds.at(c), m);
    for (int s = 0; s < 7; ++s) steps[s] = copied(a.steps.at(s), m);
    entry = copied(a.entry.data, m), leave = copied(a.leave.data, m);
    reach = next;
    for (int64_t k = 0; k < width; ++k) reach[k] = T::zero();
    for (int64_t k = 1; k <= m; ++k)
      reach[k] = (k - 1) % 4 ? reach[k - 1] * steps[6][k - 1] : steps[6][k - 1];
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

  void begin(One* row, One* ends) const {
    for (int64_t k = 0; k < 3 * p.width; ++k) row[k] = T::zero();
    ends[0] = T::number(1.0), ends[1] = flanks[1], ends[2] = ends[3] = T::zero();
  }

  // Delete states from their terms D: D_k += D_{k-1} s6, in blocks of four, whose parts without the
  // state before them do not wait for each other.
  void scan(One* deleted) const {
    const One *step = p.steps[6], *reach = p.reach;
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
  __attribute__((noinline)) int64_t advance(const One* row, One* next, One* ends, int64_t code,
                                            bool watch, bool& lost) const {
    const int64_t m = p.m, w = p.width;
    const One *match = row, *insert = row + w, *erase = row + 2 * w;
    const One *odds = p.odds + code * w, *insert_odds = p.insert_odds + code * w;
    const One *const *s = p.steps, *entry = p.entry;
    const Vector start = T::all(ends[1]);
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
    One* deleted = next + 2 * w;
    for (int64_t k = 1; k <= m; k += L)
      T::store(deleted + k, T::load(next + k - 1) * T::load(s[2] + k - 1));
    scan(deleted);
    for (int64_t k = m + 1; k < w; ++k) deleted[k] = T::zero();
    Vector leaving = T::all(T::zero());
    for (int64_t k = 1; k <= m; k += L)
      multiply_add(leaving, T::load(p.leave + k), T::load(next + k) + T::load(deleted + k));
    const One left = T::sum(leaving);
    ends[0] = ends[0] * flanks[0];
    ends[2] = ends[2] * flanks[0] + left * flanks[2];
    ends[3] = ends[3] * flanks[0] + left * flanks[3];
    ends[1] = (ends[0] + ends[2]) * flanks[1];
    return T::scale(next, 3 * w, ends, 4, watch, lost);
  }

  // The row of a symbol on the way back, from the next match and insert states times the odds of
  // the next symbol (zero after the last one); ends are N, B, J, C and E.
  __attribute__((noinline)) int64_t retreat(One* row, One* ends, const One* reached,
                                            const One* staying, bool last, bool watch,
                                            bool& lost) const {
    const int64_t m = p.m, w = p.width;
    const One* const* s = p.steps;
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
    auto share = T::plain(product * T::all(factor));
    store_some(counts + k, load_some<decltype(share)>(counts + k, m + 1 - k) + share, m + 1 - k);
  }
}

// Forward rows are stored for every block of about sqrt(length) symbols, and computed again within
// a block on the way back. Returns whether numbers may be lost.
template <class T>
struct ProfileRun {
  using One = typename T::One;
  const ProfileArguments& a;
  const Profile<T> p;
  int64_t rows;
  One *kept, *kept_ends, *block, *block_ends, *row, *reached, *staying, *begun;
  int64_t *exponents, *block_exponents;

  static int64_t longest_of(const ProfileArguments& a) {
    int64_t longest = 0;
    for (int64_t s = 0; s < a.log_odds.shape[0]; ++s)
      longest =
          a.offsets(s + 1) - a.offsets(s) > longest ? a.offsets(s + 1) - a.offsets(s) : longest;
    return longest;
  }
  // Rows that are kept: those of the blocks, and within one; two without counts.
  static int64_t rows_of(const ProfileArguments& a) {
    return a.matched.given() ? int64_t(sqrt(double(longest_of(a)))) + 4 : 2;
  }
  static size_t room(const ProfileArguments& a) {
    const int64_t rows = 2 * rows_of(a), w = Profile<T>::padded(a.entry.shape[0] - 2);
    return Profile<T>::room(a) + Scratch::room<One>((3 * rows + 6) * w + 4 * rows) +
           Scratch::room<int64_t>(rows);
  }
  ProfileRun(Scratch& scratch, const ProfileArguments& given)
      : a(given), p(scratch, given), rows(rows_of(given)) {
    const int64_t w = p.width;
    kept = scratch.take<One>((6 * rows + 6) * w + 8 * rows);
    for (int64_t k = 0; k < (6 * rows + 6) * w; ++k) kept[k] = T::zero();
    block = kept + 3 * rows * w, row = block + 3 * rows * w, reached = row + 3 * w,
    staying = reached + w;
    begun = staying + w, kept_ends = begun + w, block_ends = kept_ends + 4 * rows;
    exponents = scratch.take<int64_t>(2 * rows), block_exponents = exponents + rows;
  }

  bool forward(int64_t sequence) const {
    const ProfileSweep<T> sweep(p, a.flanks.at(sequence));
    One *before = kept, *after = block, *ends = kept_ends;
    bool lost = false;
    int64_t exponent = 0;
    sweep.begin(before, ends);
    for (int64_t t = a.offsets(sequence); t < a.offsets(sequence + 1); ++t) {
      exponent += sweep.advance(before, after, ends, a.codes(t), a.watch, lost);
      One* swap = before;
      before = after, after = swap;
    }
    a.log_odds(sequence) = T::log(ends[3] * sweep.flanks[1], exponent);
    return lost;
  }

  bool expected(int64_t sequence) const {
    const ProfileSweep<T> sweep(p, a.flanks.at(sequence));
    const int64_t w = p.width, m = p.m, length = a.offsets(sequence + 1) - a.offsets(sequence);
    const int64_t* codes = a.codes.data + a.offsets(sequence);
    const int64_t step = length > 1 ? int64_t(sqrt(double(length))) : 1,
                  blocks = (length + step - 1) / step;
    bool lost = false, again = false;
    sweep.begin(kept, kept_ends);
    exponents[0] = 0;
    One ends[4];
    memcpy(ends, kept_ends, sizeof ends);
    int64_t exponent = 0;
    const One* before = kept;
    for (int64_t t = 0; t < length; ++t) {  // the rows of a block, the last of which is kept
      One* after = (t + 1) % step ? block + (t % 2) * 3 * w : kept + (t + 1) / step * 3 * w;
      exponent += sweep.advance(before, after, ends, codes[t], a.watch, lost);
      before = after;
      if ((t + 1) % step == 0) {
        memcpy(kept_ends + (t + 1) / step * 4, ends, sizeof ends);
        exponents[(t + 1) / step] = exponent;
      }
    }
    const One total = ends[3] * sweep.flanks[1];
    const int64_t total_exponent = exponent;
    a.log_odds(sequence) = T::log(total, exponent);
    if (a.log_odds(sequence) == -INFINITY) return lost;
    const One inverse = T::inverse(total);
    One back[5];
    int64_t back_exponent = 0;
    for (int64_t k = 0; k < w; ++k) reached[k] = staying[k] = T::zero();
    for (int64_t b = blocks - 1; b >= 0; --b) {
      const int64_t first = b * step, count = length - first < step ? length - first : step;
      memcpy(block, kept + b * 3 * w, size_t(3 * w) * sizeof(One));
      memcpy(block_ends, kept_ends + 4 * b, sizeof ends);
      block_exponents[0] = exponents[b];
      for (int64_t j = 0; j < count; ++j) {
        memcpy(block_ends + 4 * (j + 1), block_ends + 4 * j, sizeof ends);
        block_exponents[j + 1] =
            block_exponents[j] + sweep.advance(block + j * 3 * w, block + (j + 1) * 3 * w,
                                               block_ends + 4 * (j + 1), codes[first + j], false,
                                               again);
      }
      for (int64_t j = count; j > 0; --j) {
        back_exponent +=
            sweep.retreat(row, back, reached, staying, first + j == length, a.watch, lost);
        const int64_t code = codes[first + j - 1], off = back_exponent - total_exponent;
        count_states(sequence, code, block + j * 3 * w,
                     T::power(inverse, block_exponents[j] + off));
        for (int64_t k = 1; k <= m; k += T::L) {
          T::store(reached + k, T::load(row + k) * T::load(p.odds + code * w + k));
          T::store(staying + k, T::load(row + w + k) * T::load(p.insert_odds + code * w + k));
        }
        count_steps(sequence, block + (j - 1) * 3 * w, block_ends[4 * (j - 1) + 1],
                    T::power(inverse, block_exponents[j - 1] + off));
      }
    }
    return lost;
  }

  // Symbols in their states, and steps into delete states, which take no symbol.
  void count_states(int64_t sequence, int64_t code, const One* forth, One factor) const {
    const int64_t w = p.width, m = p.m;
    add_share<T>(a.matched.at(sequence, code), forth, row, nullptr, factor, m);
    add_share<T>(a.inserted.at(sequence, code), forth + w, row + w, nullptr, factor, m);
    add_share<T>(a.stepped.at(sequence, 2), forth, p.steps[2], row + 2 * w + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 6), forth + 2 * w, p.steps[6], row + 2 * w + 1, factor, m);
  }
  // Steps to the next symbol.
  void count_steps(int64_t sequence, const One* forth, One start, One factor) const {
    const int64_t w = p.width, m = p.m;
    add_share<T>(a.entered.at(sequence), p.entry, reached, nullptr, start * factor, m);
    add_share<T>(a.stepped.at(sequence, 0), forth, p.steps[0], reached + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 3), forth + w, p.steps[3], reached + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 5), forth + 2 * w, p.steps[5], reached + 1, factor, m);
    add_share<T>(a.stepped.at(sequence, 1), forth, p.steps[1], staying, factor, m);
    add_share<T>(a.stepped.at(sequence, 4), forth + w, p.steps[4], staying, factor, m);
  }

  bool run(int64_t sequence) const {
    return a.matched.given() ? expected(sequence) : forward(sequence);
  }
  void clear(int64_t sequence) const {
    if (!a.matched.given()) return;
    const size_t size = size_t(a.entry.shape[0]) * sizeof(double);
    memset(a.matched.at(sequence), 0, size * size_t(p.codes)),
        memset(a.inserted.at(sequence), 0, size * size_t(p.codes));
    memset(a.stepped.at(sequence), 0, 7 * size), memset(a.entered.at(sequence), 0, size);
  }
};

template <class T>
int64_t profile_runs(const ProfileArguments& a, bool again) {
  Scratch scratch(ProfileRun<T>::room(a));
  if (scratch.failed()) return OUT_OF_MEMORY;
  const ProfileRun<T> runs(scratch, a);
  int64_t left = 0;
  for (int64_t s = 0; s < a.log_odds.shape[0]; ++s) {
    if (again && !__builtin_isnan(a.log_odds(s))) continue;
    runs.clear(s);
    if (runs.run(s)) a.log_odds(s) = NAN, ++left;
  }
  return left;
}

inline int64_t profiles(const ProfileArguments& a) {
  if (a.ranged) return profile_runs<RangedProfile>(a, false);
  const int64_t left = profile_runs<PlainProfile>(a, false);
  return left > 0 ? profile_runs<RangedProfile>(a, true) : left;
}

}  // namespace mercer
