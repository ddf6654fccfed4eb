// Products of profile HMMs (PPK-4.2d): the sum over all pairs of paths that emit the same symbols,
// of one profile p and a block of others q, one per lane.
//
// A profile is a sequence of nodes with a match, an insert and a silent delete state; begin and end
// are nodes that emit a symbol of their own. A cell, a pair of nodes (i, j), has the weights of all
// pairs of paths up to
//
//     F_XY   a symbol that state X of node i and state Y of node j emit together, X, Y in {M, I}
//     D_Y    p at the delete state of node i, q still at the state Y of node j that emitted last
//     A_Y    the same, p having chosen the match state of i as the next that emits; B_Y: insert
//     E_X    p having chosen state X of node i, q at the delete state of node j
//
// With t the transitions of p, u of q, and psi the products of emissions, summed over symbols:
//
//     D_Y(i,j)  = t_md F_MY(i-1,j) + t_dd D_Y(i-1,j)
//     A_Y(i,j)  = t_mm F_MY(i-1,j) + t_im F_IY(i-1,j) + t_dm D_Y(i-1,j)
//     B_Y(i,j)  = t_mi F_MY(i,j) + t_ii F_IY(i,j)
//     E_M(i,j)  = u_md A_M(i,j-1) + u_dd E_M(i,j-1),    E_I(i,j) the same of B_M and E_I
//     F_MM(i,j) = psi_MM (u_mm A_M(i,j-1) + u_im A_I(i,j-1) + u_dm E_M(i,j-1)),    F_IM of B and
//     E_I F_MI(i,j) = psi_MI (u_mi A_M(i,j) + u_ii A_I(i,j)),    F_II of B: a geometric series
//
// Between two symbols p takes its silent moves and chooses its next state, then q does: each pair
// of paths is counted once. F_MM is 1 at the begins, and the product at the ends.
//
// Columns are split into strips, whose cells stay in registers, rows into groups. Plain numbers
// have an exponent for every group of a strip and lane, so that the largest that enters is about 1.
// A result is sound if no positive number is far below (mercer.models._profile.product derives the
// bounds); others are computed again in numbers of unlimited range. Limited by multiply-adds: 33
// and one or four inner products per cell, and a division.
#pragma once
#include "number.hpp"
#include "view.hpp"

namespace mercer {

struct ProfileNodes {
  View<const double, 2> nodes;   // [T w] emissions of match and insert, mm im dm md dd to it, mi ii
  View<const double, 2> powers;  // [T w] their powers in floats
  View<const int64_t, 1> offsets;  // [N1] nodes of every profile
  View<const uint8_t, 1> plain;    // [N] whether plain numbers may do
  View<const uint8_t, 1> alike;    // [N] whether all insert states of a profile emit alike
  View<const int64_t, 1> members;  // [I] the profiles of this side, of the right the smallest first

  int64_t size(int64_t k) const { return offsets(members(k) + 1) - offsets(members(k)); }
  int64_t longest() const {
    int64_t found = 0;
    for (int64_t k = 0; k < members.shape[0]; ++k) found = size(k) > found ? size(k) : found;
    return found;
  }
};
struct ProfileProductArguments {
  ProfileNodes left;
  ProfileNodes right;  // [T=U N1=M1 N=M I=J]
  double rho;
  int64_t ranged;             // whether to compute all pairs in numbers of unlimited range
  View<int64_t, 1> place;     // [4] where the next call goes on, 0 first
  View<double, 2> log_value;  // [I J]
};

constexpr int PROFILE_STEPS = 7;
// Smallest positive weight of plain lanes and exponent of a factor between tiles; that of nothing.
constexpr double LOWEST_WEIGHT = 0x1p-400, FARTHEST = -100.0, UNREACHED = -1e300;
constexpr double LONG_PROFILE_CALL = 1e7, RANGED_CELL = 16.0;  // in cells

// How a kind of numbers is used: the size of a tile of cells, and numbers of p, in all lanes.
template <class N>
struct ProfileNumbers {
  using One = double;
  static constexpr bool PLAIN = true;
  static constexpr int STRIP = REGISTERS >= 32 ? 4 : 2, ROWS = 4;
  static MERCER_INLINE N all(One x) { return spread<N>(x); }
  static MERCER_INLINE One raised(double, double power, double) { return power; }
  static MERCER_INLINE void put(N& n, int lane, One x) { n[lane] = x; }
  static MERCER_INLINE N scaled(N x, Doubles factor) { return x * factor; }
};
template <class V>
struct ProfileNumbers<Ranged<V>> {
  using One = Ranged<V>;
  static constexpr bool PLAIN = false;
  static constexpr int STRIP = 1, ROWS = 1;
  static MERCER_INLINE One all(One x) { return x; }
  static One raised(double x, double power, double rho) {
    const bool fits = power > 0x1p-1000 && power < INFINITY;
    return fits ? Numbers<One>::number(power) : from_log(spread<V>(rho * log(x)));
  }
  static MERCER_INLINE void put(One& n, int lane, One x) { set_lane(n, x, lane); }
  static MERCER_INLINE One scaled(One x, Doubles) { return x; }
};

// Sums of products.
template <class N, class... Rest>
MERCER_INLINE N sum_of(N a, N b, N c, N d, Rest... rest) {
  N sum = a * b;
  multiply_add(sum, c, d);
  if constexpr (sizeof...(rest) > 0) multiply_add(sum, rest...);
  return sum;
}

// into psi / (1 - psi stay), the sum over all lengths of a common insertion, which may be infinite.
// Zero times infinity is NaN, so that the pair is computed again in numbers of unlimited range,
// where it is zero.
template <class N>
MERCER_INLINE N repeated(N into, N psi, N stay) {
  const Doubles again = plain(psi * stay), rest = again < 1.0 ? 1.0 - again : Doubles{};
  if constexpr (ProfileNumbers<N>::PLAIN) {
    return into * (psi / rest);
  } else {
    return choose<Doubles>(into.value == 0.0, Numbers<N>::zero(),
                           into * N{psi.value / rest, psi.power});
  }
}

// The numbers F_MM, F_IM, F_MI, F_II, D_M, D_I of the cell above become those of the cell, and A_M,
// A_I, B_M, B_I, E_M, E_I of the cell to its left.
template <class N>
MERCER_INLINE void profile_cell(const N* own, const N* other, const N (&psi)[4], N (&above)[6],
                                N (&left)[6]) {
  const auto [f_mm, f_im, f_mi, f_ii, d_m, d_i] = above;
  const auto [a_m, a_i, b_m, b_i, e_m, e_i] = left;
  const N t_mm = own[0], t_im = own[1], t_dm = own[2], t_md = own[3], t_dd = own[4];
  const N u_mm = other[0], u_im = other[1], u_dm = other[2], u_md = other[3], u_dd = other[4];
  const N t_mi = own[5], t_ii = own[6], u_mi = other[5], u_ii = other[6];
  above[0] = psi[0] * sum_of(u_mm, a_m, u_im, a_i, u_dm, e_m);
  above[1] = psi[1] * sum_of(u_mm, b_m, u_im, b_i, u_dm, e_i);
  left[4] = sum_of(u_md, a_m, u_dd, e_m), left[5] = sum_of(u_md, b_m, u_dd, e_i);
  left[0] = sum_of(t_mm, f_mm, t_im, f_im, t_dm, d_m);
  left[1] = sum_of(t_mm, f_mi, t_im, f_ii, t_dm, d_i);
  above[4] = sum_of(t_md, f_mm, t_dd, d_m), above[5] = sum_of(t_md, f_mi, t_dd, d_i);
  above[2] = psi[2] * sum_of(u_mi, left[0], u_ii, left[1]);
  left[2] = sum_of(t_mi, above[0], t_ii, above[1]);
  const N entered = t_mi * above[2];
  above[3] = repeated(sum_of(u_mi, left[2], u_ii, entered), psi[3], t_ii * u_ii);
  left[3] = entered;
  multiply_add(left[3], t_ii, above[3]);
}

template <class N>
struct ProfileProducts {
  using T = ProfileNumbers<N>;
  using One = typename T::One;
  static constexpr int STRIP = T::STRIP, ROWS = T::ROWS, GROUP = 8;
  using Cells = N[STRIP][6];
  struct Plane {  // products of emissions: at[down * row + across * column]
    const N* at;
    int64_t down, across;
  };
  const ProfileProductArguments& a;
  const int64_t width, letters;  // of a node
  int64_t block = -1, columns = 0, rows = 0;
  One* own;                     // nodes of p
  N* other;                     // of the block
  N *psi, *by_column, *by_row;  // of a tile; psi_IM, psi_MI and psi_II if all inserts emit alike
  N both, *edge;                // what the next strip needs
  Doubles (*marks)[2], lowest;  // exponent and largest number of each group of the edge
  Doubles log_value;

  explicit ProfileProducts(const ProfileProductArguments& given)
      : a(given), width(given.left.nodes.shape[1]), letters((width - PROFILE_STEPS) / 2) {}
  void take(Scratch& scratch) {
    const int64_t tall = a.left.longest() + ROWS, wide = a.right.longest() + STRIP;
    own = scratch.take<One>(tall * width), other = scratch.take<N>(wide * width);
    psi = scratch.take<N>(4 * GROUP * STRIP), by_column = scratch.take<N>(wide);
    by_row = scratch.take<N>(tall), edge = scratch.take<N>(tall * 6);
    marks = scratch.take<Doubles[2]>(tall / GROUP + 1);
  }

  // Arrange the profiles of a block in lanes, zero after their ends.
  void arrange(int64_t first, int64_t count) {
    block = first, columns = (a.right.size(first + count - 1) + STRIP - 1) / STRIP * STRIP;
    for (int64_t k = 0; k < columns * width; ++k) other[k] = Numbers<N>::zero();
    for (int lane = 0; lane < count; ++lane) {
      const int64_t at = a.right.offsets(a.right.members(first + lane)) * width;
      const double *x = a.right.nodes.data + at, *power = a.right.powers.data + at;
      for (int64_t k = 0; k < a.right.size(first + lane) * width; ++k)
        T::put(other[k], lane, T::raised(x[k], power[k], a.rho));
    }
  }

  // Inner products of the emissions of the states x of R rows and y of C columns.
  template <int R, int C>
  MERCER_INLINE void products(N* out, int64_t down, int64_t row, int x, int64_t column, int y) {
    const int64_t w = width, size = letters;
    const N* theirs = other + column * w + y * size;
    const One* mine[R];
    for (int r = 0; r < R; ++r)
      mine[r] = own + (row + r < rows ? row + r : rows - 1) * w + x * size;
    N sum[R][C];
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) sum[r][c] = Numbers<N>::zero();
    for (int64_t k = 0; k < size; ++k)
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) multiply_add(sum[r][c], T::all(mine[r][k]), theirs[c * w + k]);
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) out[r * down + c] = sum[r][c];
  }

  // Choose the exponent of a tile and scale what comes from above; return the factor of the edge.
  Doubles align(Cells& state, Doubles& now, Doubles (&mark)[2]) {
    const Doubles exponents[] = {now, mark[0]};
    Doubles tops[] = {Doubles{}, mark[1]}, factors[2], highest = spread<Doubles>(UNREACHED);
    for (const auto& cell : state)
      for (Doubles x : cell) tops[0] = maximum(x, tops[0]);
    for (int k = 0; k < 2; ++k) {
      Doubles mantissa, height;
      split(tops[k], mantissa, height);
      highest = tops[k] > 0.0 ? maximum(exponents[k] + height, highest) : highest;
    }
    now = mark[0] = highest > UNREACHED ? highest : now;
    for (int k = 0; k < 2; ++k) {
      Doubles distance = exponents[k] - now;
      lowest = ((tops[k] > 0.0) & (distance < FARTHEST)) ? spread<Doubles>(-1.0) : lowest;
      distance = maximum(minimum(distance, spread<Doubles>(1000.0)), spread<Doubles>(-1000.0));
      factors[k] = scaled(spread<Doubles>(1.0), distance + MAGIC);
    }
    for (auto& cell : state)
      for (Doubles& x : cell) x *= factors[0];
    return factors[1];
  }

  // Cells of a group of rows of a strip.
  __attribute__((noinline)) void cells(Cells& state, const Plane (&planes)[4], int64_t first,
                                       int64_t count, int64_t column, Doubles factor) {
    N cell[STRIP][6], *at_edge = edge + first * 6;
    const One* mine = own + (first + 1) * width - PROFILE_STEPS;
    const N* theirs = other + (column + 1) * width - PROFILE_STEPS;
    const int64_t w = width;
    Doubles top{}, least = lowest;
    memcpy(cell, state, sizeof cell);
    for (int64_t r = 0; r < count; ++r, at_edge += 6, mine += w) {
      N step[PROFILE_STEPS], line[6], some[4];
      for (int k = 0; k < PROFILE_STEPS; ++k) step[k] = T::all(mine[k]);
      for (int k = 0; k < 6; ++k) line[k] = T::scaled(at_edge[k], factor);
      for (int c = 0; c < STRIP; ++c) {
        for (int k = 0; k < 4; ++k)
          some[k] = planes[k].at[planes[k].down * r + planes[k].across * c];
        profile_cell(step, theirs + c * w, some, cell[c], line);
        if constexpr (T::PLAIN)
          for (int k = 0; k < 8; ++k) {
            const N x = k < 6 ? cell[c][k] : line[k - 2];
            least = minimum(x > 0.0 ? x : spread<N>(1.0), least);
          }
      }
      for (int k = 0; k < 6; ++k) at_edge[k] = line[k];
      if constexpr (T::PLAIN)
        for (N x : line) top = maximum(x, top);
    }
    memcpy(state, cell, sizeof cell);
    marks[first / GROUP][1] = top, lowest = least;
  }

  void tile(Cells& state, Doubles& now, int64_t first, int64_t column, bool alike) {
    const int64_t count = rows - first < GROUP ? rows - first : GROUP;
    Plane planes[4] = {{}, {by_column + column, 0, 1}, {by_row + first, 1, 0}, {&both, 0, 0}};
    for (int k = 0; k < (alike ? 1 : 4); ++k) {
      N* out = psi + k * GROUP * STRIP;
      planes[k] = {out, STRIP, 1};
      for (int64_t r = 0; r < count; r += ROWS)
        products<ROWS, STRIP>(out + r * STRIP, STRIP, first + r, k % 2, column, k / 2);
    }
    Doubles factor{};
    if constexpr (T::PLAIN) factor = align(state, now, marks[first / GROUP]);
    cells(state, planes, first, count, column, factor);
  }

  // Profile i against a block, `alike` if all insert states of each profile emit alike; returns the
  // number of cells.
  double sweep(int64_t i, int64_t first, int64_t count, bool alike) {
    if (first != block) arrange(first, count);
    rows = a.left.size(i), log_value = Doubles{};
    const int64_t at = a.left.offsets(a.left.members(i)) * width;
    for (int64_t k = 0; k < rows * width; ++k)
      own[k] = T::raised(a.left.nodes.data[at + k], a.left.powers.data[at + k], a.rho);
    for (int64_t k = 0; k < rows * 6; ++k) edge[k] = Numbers<N>::zero();
    for (int64_t k = 0; k < rows; k += GROUP) marks[k / GROUP][0] = marks[k / GROUP][1] = Doubles{};
    edge[0] = Numbers<N>::number(1.0), marks[0][1] = lowest = spread<Doubles>(1.0);
    if (alike) {
      products<1, 1>(&both, 0, 0, 1, 0, 1);
      for (int64_t c = 0; c < columns; c += STRIP) products<1, STRIP>(by_column + c, 0, 0, 1, c, 0);
      for (int64_t r = 0; r < rows; r += ROWS) products<ROWS, 1>(by_row + r, 1, r, 0, 0, 1);
    }
    for (int64_t column = 0; column < columns; column += STRIP) {
      Cells state;
      for (auto& cell : state)
        for (N& x : cell) x = Numbers<N>::zero();
      Doubles now{};
      for (int64_t row = 0; row < rows; row += GROUP) tile(state, now, row, column, alike);
      for (int lane = 0; lane < count; ++lane) {
        const int64_t end = a.right.size(first + lane) - 1 - column;
        if (end >= 0 && end < STRIP)
          log_value[lane] = log_of(state[end][0], lane) + now[lane] * LOG_2;
      }
    }
    return double(rows * columns * WIDTH);
  }
};

inline int64_t profile_products(const ProfileProductArguments& a) {
  const int64_t rows = a.left.members.shape[0], others = a.right.members.shape[0];
  ProfileProducts<Doubles> fast(a);
  ProfileProducts<RangedDoubles> careful(a);
  Scratch scratch;
  if (!scratch.lay_out([&] { fast.take(scratch), careful.take(scratch); })) return OUT_OF_MEMORY;
  double work = 0.0;
  for (int64_t& item = a.place(0); item < (others + WIDTH - 1) / WIDTH * rows; ++item) {
    if (work > LONG_PROFILE_CALL) return MORE;
    const int64_t i = item % rows, block = item / rows * WIDTH;
    const int64_t count = others - block < WIDTH ? others - block : WIDTH;
    bool alike = a.left.alike(a.left.members(i));
    for (int lane = 0; lane < count; ++lane) alike &= a.right.alike(a.right.members(block + lane));
    Doubles value{};
    if (!a.ranged) {
      work += fast.sweep(i, block, count, alike);
      auto sound = (fast.log_value < INFINITY) & (fast.lowest >= LOWEST_WEIGHT);
      value = sound ? fast.log_value : spread<Doubles>(NAN);
    }
    for (int lane = 0; lane < count; ++lane)
      if (a.ranged || !a.left.plain(a.left.members(i)) ||
          !a.right.plain(a.right.members(block + lane)))
        value[lane] = NAN;
    value = rescued(value, [&] {
      work += RANGED_CELL * careful.sweep(i, block, count, alike);
      return careful.log_value;
    });
    for (int lane = 0; lane < count; ++lane)  // NaN is infinity times zero, after a diverging sum
      a.log_value(i, block + lane) = __builtin_isnan(value[lane]) ? INFINITY : value[lane];
  }
  return DONE;
}

}  // namespace mercer
