// The best path of a sequence through a profile hidden Markov model (Viterbi): the recursion of
// profiles.hpp with maxima of logarithms, and a byte per state that says where it comes from. One
// sequence at a time, node by node; limited by the comparisons.
#pragma once
#include "profiles.hpp"

namespace mercer {

struct ProfilePathArguments : ProfileModel {
  View<double, 1> value;  // [S] log odds
  // T: k for the match state of node k, -k for its insert state, 0 for a flank
  View<int64_t, 1> path;  // [T]
};

enum ProfileKind : uint8_t { FROM_MATCH, FROM_INSERT, FROM_DELETE, FROM_BEGIN };

// Where the states of a sequence come from.
struct ProfileTrace {
  Scratch& scratch;
  int64_t length, width, size = length + 1;
  // t k: two bits for a match, one each for an insert (from insert) and a delete
  uint8_t* came = scratch.take<uint8_t>(size * width);
  int64_t* left_at = scratch.take<int64_t>(size);
  uint8_t *left_kind = scratch.take<uint8_t>(size), *again = scratch.take<uint8_t>(size);
  uint8_t *ended = scratch.take<uint8_t>(size), *joined = scratch.take<uint8_t>(size);

  void follow(int64_t* path) const {
    bool in_c = true;  // else in J
    for (int64_t t = length; t > 0;) {
      if (!(in_c ? ended[t] : again[t])) {
        --t;
        continue;
      }
      int64_t k = left_at[t];
      for (uint8_t kind = left_kind[t]; kind != FROM_BEGIN;) {
        const uint8_t mark = came[t * width + k];
        if (kind == FROM_MATCH)
          path[--t] = k--, kind = mark & 3;
        else if (kind == FROM_INSERT)
          path[--t] = -k, kind = mark & 4 ? FROM_INSERT : FROM_MATCH;
        else
          --k, kind = mark & 8 ? FROM_DELETE : FROM_MATCH;
      }
      if (!joined[t]) return;
      in_c = false;
    }
  }
};

// One symbol: the new row, the marks of its states, and the best exit. Marks are bytes, whose
// stores may change anything as far as the compiler knows: all pointers are local, the row above is
// in registers.
inline double advance_best(const ProfilePathArguments& a, const double* before, double* after,
                           double begin, int64_t code, int64_t t, const ProfileTrace& trace) {
  const int64_t w = trace.width;
  const double *odds = a.odds.at(code), *insert_odds = a.insert_odds.at(code);
  const double *entry = a.entry.data, *leave = a.leave.data;
  const double *mm = a.steps.at(0), *mi = a.steps.at(1), *md = a.steps.at(2), *im = a.steps.at(3);
  const double *ii = a.steps.at(4), *dm = a.steps.at(5), *dd = a.steps.at(6);
  const double *match = before, *insert = before + w, *erase = before + 2 * w;
  uint8_t* came = trace.came + t * w;
  double left = -INFINITY, new_match = -INFINITY, deleted = -INFINITY;
  int64_t left_at = 0;
  uint8_t left_kind = FROM_MATCH;
  for (int64_t k = 1; k < w - 1; ++k) {
    const double on = deleted + dd[k - 1], cut = new_match + md[k - 1];
    const double values[3] = {match[k - 1] + mm[k - 1], insert[k - 1] + im[k - 1],
                              erase[k - 1] + dm[k - 1]};
    double best = begin + entry[k];
    int mark = FROM_BEGIN;
    for (int kind = 0; kind < 3; ++kind) {
      mark = values[kind] > best ? kind : mark;
      best = values[kind] > best ? values[kind] : best;
    }
    const double stay = insert[k] + ii[k], opened = match[k] + mi[k];
    after[k] = new_match = best + odds[k];
    after[w + k] = (stay > opened ? stay : opened) + insert_odds[k];
    after[2 * w + k] = deleted = on > cut ? on : cut;
    came[k] = uint8_t(mark | (stay > opened) << 2 | (on > cut) << 3);
    const double top = new_match >= deleted ? new_match : deleted;
    if (leave[k] + top > left) {
      left = leave[k] + top, left_at = k;
      left_kind = new_match >= deleted ? FROM_MATCH : FROM_DELETE;
    }
  }
  trace.left_at[t] = left_at, trace.left_kind[t] = left_kind;
  return left;
}

inline int64_t profile_paths(const ProfilePathArguments& a) {
  const int64_t w = a.entry.shape[0];
  for (int64_t s = 0; s < a.value.shape[0]; ++s) {
    const int64_t first = a.offsets(s), length = a.offsets(s + 1) - first;
    const double* flanks = a.flanks.at(s);
    Scratch scratch;
    scratch.take<double>(6 * w), ProfileTrace{scratch, length, w};
    if (!scratch.allocate()) return OUT_OF_MEMORY;
    double *before = scratch.take<double>(6 * w), *after = before + 3 * w;
    const ProfileTrace trace{scratch, length, w};
    for (int64_t k = 0; k < 6 * w; ++k) before[k] = -INFINITY;
    double n = 0.0, j = -INFINITY, c = -INFINITY, begin = flanks[1];
    for (int64_t t = 1; t <= length; ++t) {
      const double left = advance_best(a, before, after, begin, a.codes(first + t - 1), t, trace);
      n += flanks[0];
      trace.again[t] = left + flanks[2] > j + flanks[0],
      trace.ended[t] = left + flanks[3] > c + flanks[0];
      j = trace.again[t] ? left + flanks[2] : j + flanks[0];
      c = trace.ended[t] ? left + flanks[3] : c + flanks[0];
      trace.joined[t] = j > n;
      begin = (j > n ? j : n) + flanks[1];
      exchange(before, after);
    }
    trace.joined[0] = 0;
    a.value(s) = c + flanks[1];
    memset(a.path.data + first, 0, size_t(length) * sizeof(int64_t));
    if (a.value(s) > -INFINITY) trace.follow(a.path.data + first);
  }
  return DONE;
}

}  // namespace mercer
