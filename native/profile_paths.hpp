// The best path of a sequence through a profile hidden Markov model (Viterbi): the recursion of
// profiles.hpp in numbers of type Best, and a way back that finds the state before by its value.
//
// Lanes are nodes, one sequence at a time. Limited by loads, and by the scan of delete states.
#pragma once
#include "profiles.hpp"

namespace mercer {

struct ProfilePathArguments : ProfileModel {
  View<double, 1> value;  // [S] log odds
  // T: k for the match state of node k, -k for its insert state, 0 for a flank
  View<int64_t, 1> path;  // [T]
};

// The way back. Rows have match, insert and delete states, and N, B, J and C behind them.
struct ProfileTrace {
  enum Kind { MATCH, INSERT, DELETE };
  const ProfileSweep<BestProfile>& sweep;
  const Best<double>* row;  // of the symbol that is left next
  int64_t node = 0;         // 0 for a flank
  int kind = 3;             // of a node; or N, J, C of the flanks by their places in a row

  double at(const Best<double>* in, int kind_, int64_t k) const {
    return in[kind_ * sweep.p.width + k].log;
  }
  double step(int which, int64_t k) const { return sweep.p.steps[which * sweep.p.width + k].log; }
  void choose(double value, double& best, int kind_) {
    if (value > best) best = value, kind = kind_;
  }

  // Where a path that is at E after a symbol left the nodes.
  void leave() {
    double best = -INFINITY;
    for (int64_t k = 1; k <= sweep.p.m; ++k)
      for (int state = MATCH; state <= DELETE; state += DELETE) {
        const double value = at(row, state, k) + sweep.p.leave[k].log;
        if (value > best) best = value, node = k, kind = state;
      }
  }
  // Leave one symbol, in a row, for the row before it; returns what the path says of it.
  int64_t back(const Best<double>* before) {
    const Best<double>*ends = row + 3 * sweep.p.width, *others = before + 3 * sweep.p.width;
    if (node == 0 && ends[kind].log > others[kind].log + sweep.flanks[0].log) leave();
    if (node == 0) return 0;
    for (; kind == DELETE; --node) {
      kind = MATCH;
      double best = at(row, MATCH, node - 1) + step(2, node - 1);
      choose(at(row, DELETE, node - 1) + step(6, node - 1), best, DELETE);
    }
    const int64_t found = node;
    if (kind == INSERT) {
      kind = MATCH;
      double best = at(before, MATCH, node) + step(1, node);
      choose(at(before, INSERT, node) + step(4, node), best, INSERT);
      return -found;
    }
    double best = others[1].log + sweep.p.entry[node--].log;
    kind = -1;
    choose(at(before, MATCH, node) + step(0, node), best, MATCH);
    choose(at(before, INSERT, node) + step(3, node), best, INSERT);
    choose(at(before, DELETE, node) + step(5, node), best, DELETE);
    if (kind < 0) node = 0, kind = others[2].log > others[0].log ? 2 : 0;
    return found;
  }
};

// place: the sequence, its step, and node and kind of the way back.
inline int64_t profile_paths(const ProfilePathArguments& a) {
  using One = Best<double>;
  Scratch scratch;
  Profile<BestProfile>{scratch, a};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  const Profile<BestProfile> profile{scratch, a};
  profile.fill();
  const int64_t w = profile.width;
  int64_t &s = a.place(0), &step = a.place(1);
  double work = 0.0;
  for (; s < a.value.shape[0]; ++s, step = 0) {
    const ProfileSweep<BestProfile> sweep(profile, a.flanks.at(s));
    const int64_t first = a.offsets(s), length = a.offsets(s + 1) - first;
    Scratch memory(a.memory);
    const ProfileKept<BestProfile> kept(memory, w, length, true);
    ProfileTrace trace{sweep, kept.row};
    if (step == 0) a.place(2) = trace.node, a.place(3) = trace.kind;
    auto forth = [&](int64_t i, const One* above, One* here, bool) {
      bool lost = false;
      if (i == 0)
        sweep.begin(here);
      else
        sweep.advance(above, here, a.codes(first + i - 1), false, lost);
    };
    auto back = [&](int64_t i, const One* here) {
      if (i == length) a.value(s) = (here[3 * w + 3] * sweep.flanks[1]).log;
      if (i < length) a.path(first + i) = a.value(s) > -INFINITY ? trace.back(here) : 0;
      memcpy(kept.row, here, size_t(3 * w + 4) * sizeof(One));
    };
    for (; step < kept.rows.steps(); ++step) {
      if (work > a.limit) return MORE;
      trace.node = a.place(2), trace.kind = int(a.place(3));
      kept.rows.step(step, forth, back);
      a.place(2) = trace.node, a.place(3) = trace.kind;
      work += double(kept.rows.block * profile.m * 2);
    }
  }
  return DONE;
}

}  // namespace mercer
