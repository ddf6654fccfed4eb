// The instances of all templates: which sizes are unrolled, and in which numbers a recursion runs.
//
//     recursion         unrolled; other sizes: any    numbers
//     chains            1-4 states of both sides      plain; then ranged_chains, for aligned pairs
//     forward           1-8 states in lanes; a row    plain; then ranged, run by run
//     best_paths        -                             best
//     histories         1-8 states, 2 or 4 rows       plain; then ranged, in all lanes
//     affine_pairs      strips of 2 or 4 columns      plain: float64 or float32
//     pairs             affine graphs, local or not   ranged, in lanes or of one pair
//     profiles          -                             plain; then ranged, sequence by sequence
//     profile_paths     -                             best
//     profile_products  -                             plain; then ranged, in all lanes
//     points, windows   by their term                 plain
//     csr               by their term                 plain
//     all others        -                             plain
//
// Plain results that are not sound are NaN, and are computed again: `rescued` in number.hpp, and
// mercer._rescue.rescued where Python decides. At the lowest level of x86-64 nothing is unrolled.
#pragma once
#include "best_path.hpp"
#include "chains.hpp"
#include "contexts.hpp"
#include "csr.hpp"
#include "forest.hpp"
#include "forward.hpp"
#include "gaussian_rows.hpp"
#include "gaussians.hpp"
#include "kalman_pairs.hpp"
#include "kalman_smoother.hpp"
#include "mixtures.hpp"
#include "moments.hpp"
#include "pairs.hpp"
#include "pairs_affine.hpp"
#include "profile_paths.hpp"
#include "profile_product.hpp"
#include "profiles.hpp"
#include "series_windows.hpp"
#include "windows.hpp"

namespace mercer::instances {

// Call with a number of states as a template parameter: up to MOST, or 0 for any number.
template <int MOST = UNROLLED ? 8 : 0, class Call>
int64_t with_states(int64_t n, Call call) {
  if constexpr (MOST > 0)
    if (n != MOST) return with_states<MOST - 1>(n, call);
  return call.template operator()<MOST>();
}

// Chains: unrolled loops for few states, and blocks of sums that fit the registers.
template <class Run>
int64_t chain_instance(int64_t n, int64_t m, Run run) {
  constexpr int R = REGISTERS >= 32 ? 4 : 2;
  if constexpr (UNROLLED)
    if (n == m && n <= 4)
      return with_states<4>(
          n, [&]<int S>() { return run.template operator()<S, S % 4 ? S : R, S ? S : 6>(); });
  return run.template operator()<0, R, 6>();
}
inline int64_t chains(const ChainArguments& a) {
  return chain_instance(a.left.states(), a.right.states(),
                        [&]<int S, int R, int C>() { return mercer::chains<S, R, C>(a); });
}

// Forward: runs in lanes of n states, and a run alone in a row; up to WIDTH states are one vector.
inline int64_t forward(const ForwardArguments& a) {
  using Careful = Form<RangedDoubles, 0, 1, true>;
  if (a.ratios) return forward_runs<Careful, Careful>(a);
  return with_states(a.initial.shape[1], [&]<int K>() {
    using Lanes = Form<Doubles, K, K && K <= 6 ? 2 : 1, false>;
    if (UNROLLED && a.initial.shape[1] <= WIDTH)
      return forward_runs<Lanes, Form<Doubles, UNROLLED, 1, true>>(a);
    return forward_runs<Lanes, Form<Doubles, 0, 1, true>>(a);
  });
}

inline int64_t histories(const HistoryArguments& a) {
  return with_states(a.states(), [&]<int S>() {
    constexpr int R = S == 1 || S == 2 ? 4 : 2;
    return a.watched ? all_histories<S, R, true>(a) : all_histories<S, R, false>(a);
  });
}

inline int64_t point_sums(const PointArguments& a) {
  if (a.term == SUM) return mercer::point_sums<SUM>(a);
  if (a.term == NEAREST) return mercer::point_sums<NEAREST>(a);
  return a.term == TWO_SUMS ? mercer::point_sums<TWO_SUMS>(a) : mercer::point_sums<WEIGHTED>(a);
}
inline int64_t window_sums(const WindowArguments& a) {
  return a.term == SUM ? mercer::window_sums<SUM>(a) : mercer::window_sums<NEAREST>(a);
}

}  // namespace mercer::instances
