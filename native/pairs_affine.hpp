// Pair HMMs with affine gaps (MK-5b) and local alignments (MK-5d): one string s of the left side
// with several strings t of the right.
//
//     M(i,j) = match[s_i,t_j] z(i-1,j-1),    x(i+1,j) = x(i,j) + g M(i,j),    u = M + x,
//     y(i,j+1) = d (y(i,j) + g u(i,j)) + (1-d) A(i) B,    z = u + y
//
// Numbers are tilted, divided by the probability that a gap goes on, per letter; d = 1 unless
// alignments are local. Lanes are different strings t. Columns are split
// into strips, whose x and z stay in registers for all rows; y and z at the right edge of a strip
// go to the next one. A strip has an exponent per lane, which may grow every few rows:
// MK-5e in docs/formulas.md says for which parameters no significant number is lost. A cell
// costs a product, two multiply-adds and two sums, which limit the speed; a row of a strip two
// products more. Flanks cost a multiply-add and a sum per cell: with A(i) B in y, z contains the
// alignments that begin here, and the result is the sum of all M times the flanks after them.
#pragma once
#include "view.hpp"

namespace mercer {

struct AffineArguments {
  View<const double, 2> match;           // [C D] tilted
  View<const int32_t, 1> left;           // [A] codes of all strings
  View<const int64_t, 1> left_offsets;   // [I1]
  View<const int32_t, 1> right;          // [B]
  View<const int64_t, 1> right_offsets;  // [J1]
  View<const int64_t, 1> order;          // [J] strings of the right side by length
  double gap;                            // g, tilted
  double none;                           // weight of a flank of no letters,
  double first;                          // of one letter,
  double growth;                         // and the factor of another one, >= 1; 0 if global
  int64_t rows;                          // rows between two updates of the exponents
  View<int64_t, 1> place;     // [3] block, string of the left side and strip to go on with
  View<double, 1> memory;     // [M] of the edge of a strip: 64 bytes for each of its vectors
  View<double, 2> log_value;  // [I J] NaN or infinite where numbers left their range
};

constexpr double CELLS_OF_A_CALL = 4e8;  // about a tenth of a second

MERCER_INLINE Words exponent_of(Doubles x) {  // of x >= 0; far below all others for zero
  return (bits_of(x) >> 52) - 1023;
}
MERCER_INLINE Doubles power_of_two(Words e) {  // zero if it is not a normal number
  e = e < -1023 ? Words{} - 1023 : e;
  return from_bits<Doubles>((e + 1023) << 52);
}

// Weights of flanks: of l letters of s run[l] 2^power[l]; of t none without letters and some with
// any, both times 2^some_power, because columns are divided by the growth per letter.
struct FlankWeights {
  Scratch& scratch;
  double growth;
  int64_t longest;
  double decay = 1 / growth, none = 0, some = 0;
  int64_t some_power = 0;
  bool even = false;  // whether none equals some
  double* run = scratch.take<double>(longest + 1);
  int64_t* power = scratch.take<int64_t>(longest + 1);
  double *row_in = scratch.take<double>(longest), *row_out = scratch.take<double>(longest);

  void fill(const AffineArguments& a) {
    int exponent;
    const double any = a.first / growth;
    some = frexp(any, &exponent), none = ldexp(a.none, -exponent), some_power = exponent;
    even = fabs(a.none - any) <= 4 * 0x1p-52 * a.none;
    for (int64_t l = 0; l <= longest; ++l) {
      double log = l ? log2(a.first) + log2(growth) * double(l - 1) : log2(a.none);
      power[l] = int64_t(floor(log)) + 1, run[l] = exp2(log - double(power[l]));
    }
    for (int64_t row = 0; row < longest; ++row) {
      int64_t last = power[(row / a.rows + 1) * a.rows];
      row_in[row] = ldexp(run[row + 1], int(power[row + 1] - last));
    }
  }
  // Exponents of the weights of a group of rows, before and after matches.
  int64_t entry(int64_t group, int64_t rows) const {
    return power[(group + 1) * rows] + some_power;
  }
  int64_t leave(int64_t n, int64_t first, int64_t last) const {
    return maximum(power[n - first - 1], power[n - last]) + some_power;
  }
  // Weights of what follows each row, relative to its group.
  void fill_out(int64_t n, int64_t rows) {
    for (int64_t row = 0; row < n; ++row) {
      int64_t first = row - row % rows, last = minimum(first + rows, n);
      int64_t up = power[n - row - 1] + some_power - leave(n, first, last);
      row_out[row] = run[n - row - 1] * some * (up < -1074 ? 0.0 : ldexp(1.0, int(up)));
    }
  }
};

// A strip of columns: its first row, and what it takes from its left neighbor.
template <int S>
struct Strip {
  using V = Doubles;
  V z[S];                // of the row before the first; of the last row afterwards
  V corner;              // z of the cell above and to the left
  Words power;           // of these
  const char* match;     // [code of s][column]
  const int64_t* codes;  // of the rows: places of their match weights, in bytes
  int64_t n, rows;       // all, and those of a group
  V* edge;               // [row][y, z] of the left neighbor; overwritten by those of the strip
  Words* powers;         // of the left neighbor in every group; overwritten
  double gap;
};

struct StripFlanks {
  const FlankWeights* weights;
  double share, back;    // (1-d) B, and the correction of B after many columns
  int64_t fall;          // by how much the exponent may decrease from strip to strip
  const Doubles* tails;  // factors of matches in the columns where strings end
  Doubles* total;        // the result,
  Words* total_power;    // and its exponent
};

// Add the sum of a group to the result, which has the larger of both exponents.
MERCER_INLINE void add_to_total(const StripFlanks& f, Doubles sum, Words unit) {
  auto some = ~(sum <= 0.0);  // true for NaN, which the result must become
  Words old = *f.total_power, high = unit + exponent_of(sum);
  Words now = (some & (high > old)) ? high : old;
  Doubles grown = *f.total * power_of_two(old - now);
  *f.total = grown + sum * power_of_two(some ? unit - now : Words{});
  *f.total_power = now;
}

template <bool LOCAL, bool ENDS, int S>
__attribute__((noinline)) void strip_rows(Strip<S>& strip, const StripFlanks& f) {
  using V = Doubles;
  using I = Words;
  const int64_t* codes = strip.codes;
  const char* const match = strip.match;
  const int64_t n = strip.n, rows = strip.rows;
  const V gap = spread<V>(strip.gap), less = LOCAL ? spread<V>(f.weights->decay) : gap,
          opened = less * gap;
  V z[S], x[S], corner = strip.corner, enter{}, entered{}, *edge = strip.edge;
  I mine = strip.power;
#pragma GCC unroll 8
  for (int c = 0; c < S; ++c) z[c] = strip.z[c], x[c] = V{};
  for (int64_t first = 0; first < n; first += rows) {
    const int64_t last = minimum(first + rows, n), group = first / rows;
    const I theirs = strip.powers[group], least = LOCAL ? theirs - f.fall : theirs;
    const I height = exponent_of(z[S - 1]);
    I now = mine + (height > 0 ? height : I{});
    now = now > least ? now : least;
    if (any(now != mine)) {
      const V down = power_of_two(mine - now);
      corner *= down;
#pragma GCC unroll 8
      for (int c = 0; c < S; ++c) z[c] *= down, x[c] *= down;
    }
    const V factor = power_of_two(theirs - now);
    mine = now, strip.powers[group] = now;
    if constexpr (LOCAL) {
      const I entry = f.weights->entry(group, rows) - now, most = I{} + 1024;
      enter = power_of_two(entry > most ? most : entry) * f.share;
    }
    V sum{};
    for (int64_t i = first; i < last; ++i, edge += 2) {
      const V* weight = reinterpret_cast<const V*>(match + codes[i]);
      V y = rounded(factor * edge[0]), left = factor * edge[1], here{};
      if constexpr (LOCAL) entered = rounded(enter * f.weights->row_in[i]);  // once a row
#pragma GCC unroll 8
      for (int c = 0; c < S; ++c) {
        V above = z[c], matched = weight[c] * corner, closed = matched + x[c];
        x[c] += gap * matched;
        z[c] = closed + y;
        if constexpr (!LOCAL) {
          y += gap * closed;
        } else {  // what enters does not wait for y
          y = less * y + (opened * closed + entered);
          if constexpr (ENDS)
            here += matched * f.tails[c];
          else
            here += matched;
        }
        corner = above;
      }
      corner = left;
      edge[0] = y, edge[1] = z[S - 1];
      if constexpr (LOCAL) sum += here * f.weights->row_out[i];
    }
    if constexpr (LOCAL) add_to_total(f, sum * f.back, now + f.weights->leave(n, first, last));
  }
  for (int c = 0; c < S; ++c) strip.z[c] = z[c];
  strip.power = mine;
}

// All pairs of strings of both sides, as far as the work of one call goes.
template <int S, bool LOCAL>
struct AffineSweep {
  using V = Doubles;
  using I = Words;
  static constexpr int L = lanes_of<V>;

 public:
  Scratch& scratch;
  const AffineArguments& a;
  int64_t longest, columns;  // rows and columns, in whole strips
  int64_t used = a.match.shape[0], n_codes = a.match.shape[1] + 1, strips = 0, whole = 0;
  FlankWeights flanks{scratch, a.growth, LOCAL ? longest : 0};
  // match weights; zero after the end of a string
  double* table = scratch.take<double>(used * n_codes);
  int32_t* letters = scratch.take<int32_t>(columns * L);
  V *profile = scratch.take<V>(columns * used), *tails = scratch.take<V>(columns);
  int64_t* codes = scratch.take<int64_t>(a.left.shape[0]);  // places of their weights in a strip
  V* edge = reinterpret_cast<V*>((reinterpret_cast<uintptr_t>(a.memory.data) + 63) / 64 * 64);
  I* powers = reinterpret_cast<I*>(edge + 2 * longest);
  V& total = *reinterpret_cast<V*>(powers + longest / a.rows);
  I& total_power = *reinterpret_cast<I*>(&total + 1);

  void fill() {
    if (LOCAL) flanks.fill(a);
    for (int64_t at = 0; at < a.left.shape[0]; ++at)
      codes[at] = a.left(at) * int64_t(S * sizeof(V));
    for (int64_t code = 0; code < used; ++code) {
      double* row = table + code * n_codes;
      for (int64_t b = 0; b + 1 < n_codes; ++b)
        row[b] = LOCAL ? a.match(code, b) * flanks.decay : a.match(code, b);
      row[n_codes - 1] = 0.0;
    }
  }

  int64_t run() {
    const int64_t lefts = a.left_offsets.shape[0] - 1, rights = a.order.shape[0];
    int64_t &block = a.place(0), &i = a.place(1), &k = a.place(2);
    double cells = 0.0;
    for (; block < rights; block += L, i = 0) {
      arrange(block);
      for (; i < lefts; ++i, k = 0) {
        const int64_t n = a.left_offsets(i + 1) - a.left_offsets(i);
        if (LOCAL) flanks.fill_out(n, a.rows);
        if (k == 0) begin(n, block);
        for (; k < strips; ++k) {
          if (cells > CELLS_OF_A_CALL) return MORE;
          sweep(i, n, k, block);
          cells += double(n * S * L);
        }
        for (int64_t lane = 0; LOCAL && lane < L && block + lane < rights; ++lane) {
          const double more = double(length(block + lane)) * log2(a.growth);
          a.log_value(i, a.order(block + lane)) =
              log(total[lane]) + (double(total_power[lane]) + more) * LOG_2;
        }
      }
    }
    return DONE;
  }

 private:
  int64_t length(int64_t member) const {
    return a.right_offsets(a.order(member) + 1) - a.right_offsets(a.order(member));
  }

  // Match weights of a block of strings as [strip][code of s][column][lane], zero after the end.
  void arrange(int64_t block) {
    const int64_t members = minimum(a.order.shape[0] - block, int64_t(L));
    int64_t most = 0;
    for (int64_t lane = 0; lane < members; ++lane) most = maximum(length(block + lane), most);
    strips = (most + S - 1) / S, whole = strips;
    const int64_t size = strips * S * L;
    for (int64_t at = 0; at < size; ++at) letters[at] = int32_t(n_codes - 1);
    for (int64_t lane = 0; lane < members; ++lane) {
      const int32_t* from = a.right.data + a.right_offsets(a.order(block + lane));
      for (int64_t j = 0; j < length(block + lane); ++j) letters[j * L + lane] = from[j];
    }
    double* out = reinterpret_cast<double*>(profile);
    for (int64_t k = 0; k < strips; ++k)
      for (int64_t code = 0; code < used; ++code, out += S * L)
        for (int64_t at = 0; at < S * L; ++at)
          out[at] = table[code * n_codes + letters[k * S * L + at]];
    if (!LOCAL || flanks.even) return;
    for (int64_t j = 0; j < strips * S; ++j) tails[j] = spread<V>(1.0);
    for (int64_t lane = 0; lane < members; ++lane) {
      const int64_t m = length(block + lane);
      if (m == 0) continue;
      tails[m - 1][lane] = flanks.none / flanks.some;
      whole = minimum((m - 1) / S, whole);
    }
  }

  // The column before the first one.
  void begin(int64_t n, int64_t block) {
    const int64_t groups = (n + a.rows - 1) / a.rows;
    const double gap = a.gap;
    for (int64_t row = 0; row < n; ++row) {
      const double y = LOCAL ? flanks.row_in[row] * flanks.some : gap * gap;
      edge[2 * row] = spread<V>(y);
      edge[2 * row + 1] = spread<V>(LOCAL ? flanks.row_in[row] * flanks.none : gap);
    }
    for (int64_t group = 0; group < groups; ++group)
      powers[group] = I{} + (LOCAL ? flanks.entry(group, a.rows) : 0);
    if (!LOCAL) return;
    total = V{};
    total_power = I{} + (flanks.power[n] + flanks.some_power);
    for (int64_t lane = 0; lane < L && block + lane < a.order.shape[0];
         ++lane)  // no match: one flank
      total[lane] = flanks.run[n] * (length(block + lane) > 0 ? flanks.some : flanks.none);
  }

  void sweep(int64_t i, int64_t n, int64_t k, int64_t block) {
    Strip<S> strip;
    StripFlanks f{};
    double head = a.gap, corner = k == 0 ? 1.0 : head;
    if constexpr (LOCAL) {
      const double decay = flanks.decay, drift = pow(flanks.growth * decay, double(S * k));
      const double step = S * log2(flanks.growth);
      f.weights = &flanks, f.share = flanks.some * drift * (1 - decay), f.back = 1 / drift;
      f.fall = k ? int64_t(floor(step * double(k)) - floor(step * double(k - 1))) : 0;
      f.tails = tails + k * S, f.total = &total, f.total_power = &total_power;
      head = flanks.run[0] * (flanks.some * drift);
      corner = k == 0 ? flanks.run[0] * flanks.none : head;
    }
    for (int c = 0; c < S; ++c) strip.z[c] = spread<V>(head);
    strip.corner = spread<V>(corner);
    strip.power = I{} + (LOCAL ? flanks.power[0] + flanks.some_power : 0);
    strip.match = reinterpret_cast<char*>(profile + k * used * S),
    strip.codes = codes + a.left_offsets(i);
    strip.n = n, strip.rows = a.rows, strip.edge = edge, strip.powers = powers;
    strip.gap = a.gap;
    if (LOCAL && k >= whole)
      strip_rows<LOCAL, LOCAL>(strip, f);
    else
      strip_rows<LOCAL, false>(strip, f);
    for (int64_t lane = 0; !LOCAL && lane < L && block + lane < a.order.shape[0]; ++lane) {
      const int64_t last = length(block + lane) - 1;
      if (n > 0 && last >= 0 && last / S == k)
        a.log_value(i, a.order(block + lane)) =
            log(strip.z[last % S][lane]) + double(strip.power[lane]) * LOG_2;
    }
  }
};

template <int S, bool LOCAL>
int64_t affine_sweep(const AffineArguments& a) {
  int64_t longest = 0, columns = 0;
  for (int64_t i = 0; i + 1 < a.left_offsets.shape[0]; ++i)
    longest = maximum(a.left_offsets(i + 1) - a.left_offsets(i), longest);
  for (int64_t j = 0; j < a.order.shape[0]; ++j)
    columns = maximum(a.right_offsets(j + 1) - a.right_offsets(j), columns);
  longest = (longest + a.rows - 1) / a.rows * a.rows, columns = (columns + S - 1) / S * S;
  Scratch scratch;
  AffineSweep<S, LOCAL>{scratch, a, longest, columns};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  AffineSweep<S, LOCAL> sweep{scratch, a, longest, columns};
  sweep.fill();
  return sweep.run();
}

// The width of a strip follows the number of registers: two for each column, and about six more;
// flanks take some, too.
inline int64_t affine_pairs(const AffineArguments& a) {
  constexpr int WIDE = REGISTERS >= 32 ? 8 : 5, NARROW = REGISTERS >= 32 ? 8 : 4;
  return a.growth > 0 ? affine_sweep<NARROW, true>(a) : affine_sweep<WIDE, false>(a);
}

}  // namespace mercer
