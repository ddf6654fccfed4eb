"""Two-sample tests: the statistic by definition, permutations by enumeration, intervals, groups, bad input."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import mercer as mc
from mercer.stats._assignments import Design
from mercer.stats._discrepancy import Discrepancy, Effect, interval
from mercer.stats._fused import deviations

RBF = mc.RBF(gamma=0.5)


def by_definition(K, first, units):
    """Mean over pairs of different units, by loops."""

    def mean(left, right):
        values = [K[i, j] for i in left for j in right if units[i] != units[j]]
        return np.mean(values)

    x, y = np.flatnonzero(first), np.flatnonzero(~first)
    return mean(x, x) + mean(y, y) - 2 * mean(x, y)


def effect_by_definition(K, first, units):
    squared = by_definition(K, first, units)
    variances = []
    for side in (first, ~first):
        i = np.flatnonzero(side)
        off = np.mean([K[a, b] for a in i for b in i if units[a] != units[b]])
        variances.append(np.mean(K[i, i]) - off)
    return squared / np.mean(variances)


@st.composite
def designs(draw):
    n = draw(st.integers(6, 12))
    first = np.arange(n) < draw(st.integers(3, n - 3))
    kind = draw(st.sampled_from(["objects", "groups", "crossed"]))
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    if kind == "objects":
        units = np.arange(n)
    elif kind == "groups":
        units = np.where(first, np.arange(n) % 2, 2 + np.arange(n) % 3)
        units = np.unique(units, return_inverse=True)[1]
    else:
        units = np.arange(n) % 3
    A = rng.normal(size=(n, 4))
    return A @ A.T, first, units


@given(designs())
def test_statistic_witness_and_effect_are_those_of_the_definition(design):
    K, first, units = design
    found = Discrepancy.of(K, Design(first, units))
    assert found.squared(first[:, None].astype(float))[0] == pytest.approx(by_definition(K, first, units), abs=1e-12)
    assert found.effect().square == pytest.approx(effect_by_definition(K, first, units), abs=1e-10)
    i = 1
    far = units != units[i]
    expected = K[i, far & first].mean() - K[i, far & ~first].mean()
    assert found.witness()[i] == pytest.approx(expected, abs=1e-12)


def test_variance_of_the_effect_is_the_jackknife():
    rng = np.random.default_rng(0)
    X, units = rng.normal(size=(14, 2)), np.repeat(np.arange(7), 2)
    first = np.arange(14) < 8
    K = RBF(X)
    values = []
    for u in range(7):
        keep = units != u
        values.append(effect_by_definition(K[np.ix_(keep, keep)], first[keep], units[keep]))
    values = np.array(values)
    found = Discrepancy.of(K, Design(first, units)).effect()
    assert found.variance == pytest.approx(3 * np.var(values[:4]) + 2 * np.var(values[4:]))
    assert found.square == pytest.approx(effect_by_definition(K, first, units))
    assert found.freedom == 2  # the smaller sample has three groups


@pytest.mark.parametrize("share", [0.2, 0.9, 1.0])
@pytest.mark.parametrize("square", [-0.1, 0.0, 0.3, 2.0])
def test_interval_is_the_set_of_effects_that_are_not_far(square, share):
    """By scanning: x is below the estimate by less than the critical value, above it by less than t deviations."""
    null = np.array([-0.2, -0.1, 0.1, 0.2])
    effect, t, under = Effect(square, 0.06, 1.0, 9), stats.t.ppf(0.975, 9), 0.025
    slope = (0.06 - under) / max(square, np.sqrt(under))
    steep = max(slope, np.sqrt(8 * under) * min(1.0, np.sqrt(under) / max(square, 1e-300)))
    x = np.linspace(0, 9, 900_001)
    low, high = interval(effect, null, share, 0.95)
    above = (x <= square) | ((x - square) ** 2 <= t**2 * (under + steep * x))
    assert high**2 == pytest.approx(x[above].max(), abs=1e-4)
    if share < 1 and square > 0:
        below = (x >= square) | ((x - square) ** 2 <= (share * square) ** 2 + t**2 * slope * x)
        assert low**2 == pytest.approx(x[below].min(), abs=1e-4)
    assert (low > 0) == (share < 1)


@pytest.mark.slow
@given(
    st.integers(0, 10_000), st.floats(0.0, 2.0), st.sampled_from([0.8, 0.9, 0.95]), st.sampled_from(["plain", "groups"])
)
def test_interval_contains_zero_exactly_if_the_test_does_not_reject(seed, shift, level, kind):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(20, 2)), rng.normal(size=(24, 2)) + shift
    groups = None if kind == "plain" else np.r_[np.arange(20) // 2, 10 + np.arange(24) // 2]
    confounds = rng.normal(size=44) if seed % 2 else None
    for kernel in (None, mc.RBF(), mc.Linear(normalize=False)):
        options = {"groups": groups, "level": level, "n_permutations": 49}
        found = mc.stats.two_sample_test(X, Y, kernel, confounds=confounds, **options)
        assert (found.interval[0] == 0) == (found.p_value > 1 - level + 1e-12)
        assert found.interval[0] <= found.interval[1]


def gaussian_effect(shift, gamma, d):
    """Effect of a shift of every coordinate of standard normal vectors under the Gaussian kernel, in closed form."""
    same = (1 + 4 * gamma) ** (-d / 2)
    return np.sqrt(2 * same * (1 - np.exp(-gamma * d * shift**2 / (1 + 4 * gamma))) / (1 - same))


def coverage(shift, runs):
    inside = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(25, 2)), rng.normal(size=(25, 2)) + shift
        low, high = mc.stats.two_sample_test(X, Y, mc.RBF(gamma=0.25), n_permutations=199).interval
        inside.append(low <= gaussian_effect(shift, 0.25, 2) <= high)
    return np.mean(inside)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.4, 0.75, 1.25, 2.5])
def test_interval_covers_the_effect(shift):
    assert 0.90 <= coverage(shift, 200) <= 0.99


def test_interval_covers_an_effect_in_a_few_runs():
    assert coverage(0.75, 30) >= 0.8


def test_exact_p_value_is_that_of_all_splits():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(4, 2)), rng.normal(size=(5, 2)) + 1.0
    K = RBF(np.concatenate([X, Y]))
    values = []
    for chosen in itertools.combinations(range(9), 4):
        first = np.isin(np.arange(9), chosen)
        values.append(by_definition(K, first, np.arange(9)))
    found = mc.stats.two_sample_test(X, Y, RBF)
    assert found.exact
    assert found.n_permutations == 126
    assert found.p_value == pytest.approx(np.mean(np.array(values) >= values[0] - 1e-14))


@pytest.mark.parametrize(
    ("groups", "permuted", "count"),
    [([0, 0, 1, 1, 2, 2, 3, 3], "groups", 6), ([0, 0, 1, 1, 0, 0, 1, 1], "objects within groups", 36)],
)
def test_groups_decide_what_is_permuted(groups, permuted, count):
    design = Design(np.arange(8) < 4, np.array(groups))
    assert design.permuted == permuted
    every = design.every()
    assert every.shape == (8, count) == (8, len({tuple(column) for column in every.T}))
    drawn = design.drawn(50, np.random.default_rng(0))
    assert {tuple(column) for column in drawn.T} <= {tuple(column) for column in every.T}
    assert (drawn.sum(axis=0) == 4).all()


def test_permutations_within_groups_ignore_differences_between_groups():
    """Every subject is measured in both conditions; subjects differ, conditions do not."""
    rng = np.random.default_rng(3)
    groups = np.tile(np.repeat(np.arange(8), 3), 2)
    level = rng.normal(scale=3, size=(8, 1))[groups[:24]]
    X, Y = (level + 0.3 * rng.normal(size=(24, 1)) for _ in range(2))
    same = mc.stats.two_sample_test(X, Y, RBF, groups=groups)
    assert same.p_value > 0.05
    shifted = mc.stats.two_sample_test(X, Y + 1.0, RBF, groups=groups)
    assert shifted.p_value < 0.01 < mc.stats.two_sample_test(X, Y + 1.0, RBF).p_value
    assert shifted.permuted == "objects within groups"
    assert "No difference" in str(same)
    assert "differ" in str(shifted)


@pytest.mark.parametrize("kernel", [RBF, mc.Fisher(mc.Gaussian("diagonal"))])
def test_null_p_values_are_uniform(kernel):
    rng = np.random.default_rng(5)
    p = [
        mc.stats.two_sample_test(*rng.normal(size=(2, 6, 2)), kernel, n_permutations=99, random_state=i).p_value
        for i in range(80)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_permutations_take_groups():
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(2, 24, 2))
    groups = np.concatenate([np.arange(24) // 3, 8 + np.arange(24) // 3])
    found = mc.stats.two_sample_test(X, Y + 2, RBF, groups=groups)
    assert found.p_value < 0.05
    paired = mc.stats.two_sample_test(X, Y + 2, RBF, groups=np.tile(np.arange(24) // 3, 2))
    assert paired.p_value < 0.05


def test_order_labels_and_models():
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=(7, 2)), rng.normal(size=(6, 2)) + 0.5
    one, other = mc.stats.two_sample_test(X, Y, RBF), mc.stats.two_sample_test(Y, X, RBF)
    assert one.statistic == pytest.approx(other.statistic)
    assert one.effect_size == pytest.approx(other.effect_size)
    labels = ["b"] * 7 + ["c"] * 6
    given_ = mc.stats.two_sample_test(RBF(np.concatenate([X, Y])), labels, "precomputed")
    assert given_.statistic == pytest.approx(one.statistic)
    models = mc.Gaussians(mean=np.concatenate([X, Y + 3])[:, None][:, 0], covariance=np.ones(13))
    found = mc.stats.two_sample_test(models[:7], models[7:], mc.ProbabilityProduct(rho=0.5))
    assert found.p_value < 0.01


def test_most_different_objects():
    X = np.array([[0.0], [0.1], [-5.0], [0.2]])
    Y = np.array([[0.0], [0.1], [0.2], [5.0]])
    found = mc.stats.two_sample_test(X, Y, mc.Linear(normalize=False))
    assert [int(i[0]) for i in found.most_different(1)] == [2, 3]


def test_identical_objects_have_an_effect_of_zero_or_infinity():
    same = mc.stats.two_sample_test(["ab"] * 4, ["ab"] * 4, mc.Spectrum(1))
    assert (same.p_value, same.effect_size, same.interval) == (1.0, 0.0, (0.0, 0.0))
    apart = mc.stats.two_sample_test(["aa"] * 5, ["bb"] * 5, mc.Spectrum(1))
    assert apart.effect_size == np.inf
    assert apart.p_value == pytest.approx(2 / 252)


@pytest.mark.parametrize("value", [0.7, 0.1])
def test_a_constant_kernel_finds_nothing(value):
    for n, m in ((20, 23), (6, 6)):
        K = np.full((n + m, n + m), value)
        assert mc.stats.two_sample_test(K, [0] * n + [1] * m, "precomputed").p_value == 1.0


def test_numbers_text_and_missing_values_are_different_groups():
    X = np.arange(8.0)[:, None]
    found = mc.stats.two_sample_test(X[:4], X[4:], RBF, groups=[1, "1", 2, "2", 3, "3", 4, "4"])
    assert found.permuted == "objects"
    with pytest.raises(ValueError, match="no entry for object 1"):
        mc.stats.two_sample_test(X[:4], X[4:], RBF, groups=["a", float("nan"), "b", "c", "d", "e", "f", "g"])


def test_columns_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    A, B = (pd.DataFrame(rng.normal([0, 3], size=(8, 2)), columns=["a", "b"]) for _ in range(2))
    assert mc.stats.two_sample_test(A, B[["b", "a"]], RBF).statistic == mc.stats.two_sample_test(A, B, RBF).statistic
    with pytest.raises(ValueError, match="same columns"):
        mc.stats.two_sample_test(A, B.rename(columns={"a": "c"}), RBF)
    with pytest.raises(ValueError, match="same number of columns; got 2 and 1"):
        mc.stats.two_sample_test(A.to_numpy(), B.to_numpy()[:, :1], RBF)


def test_groups_of_one_sample_are_left_out_of_pairs():
    X = np.random.default_rng(1).normal(size=(24, 1))
    groups = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 31]
    with pytest.warns(UserWarning, match="Only 10 of 14 groups are in both"):
        found = mc.stats.two_sample_test(X[:12], X[12:], RBF, groups=groups)
    assert np.isfinite(found.p_value)


def test_groups_of_different_sizes_are_said():
    X = np.random.default_rng(2).normal(size=(24, 1))
    groups = np.concatenate([np.arange(18) // 6, 3 + np.arange(6)])
    with pytest.warns(UserWarning, match="6.0 objects on average, and those of Y 1.0"):
        mc.stats.two_sample_test(X[:18], X[18:], RBF, groups=groups)


# -- widths from the data -----------------------------------------------------------------------------------------


def shifted(rng, n=30):
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 3)) + 1


@pytest.mark.parametrize("kernel", [None, mc.RBF(), mc.RBF() + mc.Linear(normalize=False) * 1e-9], ids=str)
def test_units_do_not_matter(kernel):
    X, Y = shifted(np.random.default_rng(0))
    found = [mc.stats.two_sample_test(s * X, s * Y, kernel, n_permutations=199) for s in (1e-3, 1, 1e3)]
    assert [one.p_value for one in found] == [1 / 200] * 3
    if not isinstance(kernel, mc.kernels.Sum):
        assert [one.effect_size for one in found] == pytest.approx([found[0].effect_size] * 3)


def power(scales, runs):
    """Of a shift of one of two columns by a standard deviation, in other units."""
    rejected = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(2, 30, 2))
        Y[:, 0] += 1
        found = mc.stats.two_sample_test(X * scales, Y * scales, n_permutations=99, random_state=seed)
        rejected.append(found.p_value <= 0.05)
    return rejected


def test_units_of_columns_do_not_matter():
    expected = power([1, 1], 20)
    assert np.mean(expected) > 0.6
    assert power([1, 1000], 20) == expected
    assert power([1e-6, 1], 20) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.linspace(-1, 1, 101), 1.6 / 2.5631031310892007),
        (np.r_[np.zeros(98), 3, 3], 3 * np.sqrt(0.02 * 0.98)),  # deciles are equal: the standard deviation
        (np.full(7, 5.0), 1.0),
        (1e9 + 1e-6 * np.arange(8.0), 1.0),  # constant but for rounding
        (1e300 * np.linspace(-1, 1, 101), 1e300 * 1.6 / 2.5631031310892007),
    ],
)
def test_deviation_of_a_column(column, expected):
    assert deviations(column[:, None])[0] == pytest.approx(expected)


def test_the_width_is_that_of_the_pooled_sample():
    X, Y = shifted(np.random.default_rng(1), 8)
    pool = np.concatenate([X, Y])
    found = mc.stats.two_sample_test(X, Y, mc.RBF())
    absolute = mc.stats.two_sample_test(X, Y, mc.Laplace())
    assert absolute.kernel.gamma_ == mc.Laplace(gamma="median").fit(pool).gamma_
    assert found.kernel.gamma_ == mc.RBF(gamma="median").fit(pool).gamma_
    K = np.exp(-found.kernel.gamma_ * ((pool[:, None] - pool) ** 2).sum(axis=-1))
    assert found.statistic == pytest.approx(by_definition(K, np.arange(16) < 8, np.arange(16)))


def fused_by_definition(pool, first, units):
    """MMD-FUSE with centered kernels, by loops."""
    n = len(pool)
    pool = pool / (np.quantile(pool, 0.9, axis=0) - np.quantile(pool, 0.1, axis=0)) * (2 * stats.norm.ppf(0.9))
    squared = ((pool[:, None] - pool) ** 2).sum(axis=-1)
    distances = np.sqrt([squared[i, j] for i in range(n) for j in range(i)])
    low, high = np.quantile(distances**2, [0.05, 0.95]) ** 0.5
    pairs = [(i, j) for i in range(n) for j in range(n) if units[i] != units[j]]
    smaller = min(len(set(units[first])), len(set(units[~first])))
    terms = []
    for power in np.linspace(0, 1, 5):
        K = np.exp(-squared / (2 * ((low / 2) ** (1 - power) * (2 * high) ** power) ** 2))
        means = [np.mean([K[i, j] for j in range(n) if units[j] != units[i]]) for i in range(n)]
        total = np.mean([K[i, j] for i, j in pairs])
        spread = np.sqrt(np.mean([(K[i, j] - means[i] - means[j] + total) ** 2 for i, j in pairs]))
        terms.append(by_definition(K, first, units) / spread)
    sharpness = np.sqrt(smaller * (smaller - 1))
    return np.log(np.mean(np.exp(sharpness * np.array(terms)))) / sharpness


def test_distances_beyond_float64_are_refused():
    x = np.random.default_rng(0).normal(size=(20, 2))
    far = x.copy()
    far[0] = 1e200  # an outlier does not change the deviation of a column
    for call in (lambda: mc.stats.two_sample_test(far, x), lambda: mc.stats.independence_test(far, x)):
        with pytest.raises(ValueError, match="objects 0 and 1 overflows float64"):
            call()


@pytest.mark.parametrize(
    ("groups", "units"),
    [
        (None, range(8)),
        ([0, 0, 1, 2, 3, 3, 4, 5], [0, 0, 1, 2, 3, 3, 4, 5]),
        ([0, 0, 1, 1, 0, 0, 1, 1], range(8)),  # within groups, pairs of one group count
    ],
    ids=["objects", "groups", "within"],
)
def test_every_permutation_computes_the_whole_fused_statistic(groups, units):
    rng = np.random.default_rng(2)
    pool = rng.normal(size=(8, 2)) + np.repeat([[0.0], [1.0]], 4, axis=0)
    first, units = np.arange(8) < 4, np.array(units)
    design = Design(first, np.arange(8) if groups is None else np.array(groups))
    values = [fused_by_definition(pool, column == 1, units) for column in design.every().T]
    observed = fused_by_definition(pool, first, units)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = mc.stats.two_sample_test(pool[:4], pool[4:], groups=groups)
    assert found.exact
    assert found.statistic == pytest.approx(observed)
    assert sorted(found.null) == pytest.approx(sorted(values))
    assert found.p_value == pytest.approx(np.mean(np.array(values) >= observed - 1e-12))
    assert "Gaussian kernels of 5 widths" in str(found)


def test_fused_kernel_explains_the_effect():
    X, Y = shifted(np.random.default_rng(3), 10)
    found = mc.stats.two_sample_test(X, Y)
    K = found.kernel(np.concatenate([X, Y]))
    again = mc.stats.two_sample_test(K, [0] * 10 + [1] * 10, "precomputed")
    assert found.effect_size == pytest.approx(again.effect_size)
    np.testing.assert_allclose(found.witness, again.witness)


@pytest.mark.slow
def test_fused_level_and_power():
    """A shift, which wide kernels see, and a fine structure within clusters, which narrow kernels see."""
    rng = np.random.default_rng(4)

    def clusters(width):
        return 10.0 * rng.integers(0, 2, size=(40, 1)) + width * rng.normal(size=(40, 1))

    rates = {"null": [], "shift": [], "fine": []}
    for seed in range(200):
        options = {"n_permutations": 99, "random_state": seed}
        normal = rng.normal(size=(2, 40, 2))
        rates["null"].append(mc.stats.two_sample_test(normal[0], normal[1], **options).p_value <= 0.05)
        rates["shift"].append(mc.stats.two_sample_test(normal[0], normal[1] + 0.6, **options).p_value <= 0.05)
        fine = clusters(1.0), clusters(3.0)
        rates["fine"].append(
            [mc.stats.two_sample_test(*fine, kernel, **options).p_value <= 0.05 for kernel in (None, mc.RBF())]
        )
    assert 0.02 <= np.mean(rates["null"]) <= 0.09
    assert np.mean(rates["shift"]) > 0.8
    fused, median = np.mean(rates["fine"], axis=0)
    assert fused > 0.7 > 0.3 > median


def test_equal_and_two_valued_vectors():
    same = mc.stats.two_sample_test(np.ones((5, 2)), np.ones((6, 2)))
    assert (same.p_value, same.effect_size) == (1.0, 0.0)
    two = mc.stats.two_sample_test([0.0] * 6, [1.0] * 6)
    assert two.n_widths == 1
    assert two.p_value == pytest.approx(2 / 924)


def test_numbers_are_a_column():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=9), rng.normal(size=8) + 1
    expected = mc.stats.two_sample_test(x[:, None], y[:, None], RBF).statistic
    for form in (np.asarray, list, pd.Series):
        assert mc.stats.two_sample_test(form(x), form(y), RBF).statistic == expected
    with pytest.raises(ValueError, match="first at row 1, column 0"):
        mc.stats.two_sample_test([1.0, float("nan"), 2.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_a_matrix_that_is_the_identity_is_said(scale):
    X, Y = shifted(np.random.default_rng(6), 10)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        mc.stats.two_sample_test(scale * X, scale * Y, mc.RBF(gamma=0.2))
        mc.stats.independence_test(scale * X, Y, mc.RBF(gamma=0.2))
    names = [one.category for one in found]
    assert names == ([] if scale == 1.0 else [mc.gram.DiagonalDominanceWarning] * 2)


def test_few_permutations_are_said():
    with pytest.warns(UserWarning, match="only 6 permutations.*0.17"):
        mc.stats.two_sample_test([[0.0], [1.0]], [[2.0], [3.0]], RBF)


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        (([[0.0]], [[1.0], [2.0]], RBF), {}, "X must have at least 2 objects; got 1"),
        (([[0.0], [1.0]], [], RBF), {}, "Y must have at least 2 objects; got 0"),
        ((["ab"] * 4, ["b"] * 4, "spectrum"), {}, "kernel must be a kernel.*'spectrum'"),
        ((["ab"] * 4, ["b"] * 4, mc.Spectrum(1)), {"groups": [1, 2]}, "groups must have one entry for each of 8"),
        ((["ab"] * 4, ["b"] * 4, mc.Spectrum(1)), {"groups": [1] * 4 + [2, 3] * 2}, "objects of X are in one group"),
        ((["ab"] * 4, ["b"] * 4, mc.Spectrum(1)), {"groups": [1, 2, 3, None] * 2}, "no entry for object 3"),
        ((["ab"] * 4, ["b"] * 4, mc.Spectrum(1)), {"n_permutations": 0}, "n_permutations must be.*got 0"),
        ((["ab"] * 4, ["b"] * 4, mc.Spectrum(1)), {"level": 95}, "level must be.*got 95"),
        ((np.eye(3), [0, 1], "precomputed"), {}, "one entry for each of 3"),
        ((np.eye(3), [0, 1, 2], "precomputed"), {}, "two different labels; got 3"),
        (("abc", ["b"] * 4, mc.Spectrum(1)), {}, "X must be a list of samples"),
        ((["ab", "ba"], ["b", "aa"]), {}, r"got strings. Pass kernel, such as mc.Spectrum\(3\)"),
        (([np.ones((3, 1)), np.ones((2, 1))],) * 2, {}, r"got series. Pass kernel, such as mc.Fisher\(mc.HMM"),
        ((mc.Poissons([[1.0], [2.0]]),) * 2, {}, r"got models \(Poissons\). Pass kernel, such as mc.Prob"),
        (([[0.0], [1.0]], [[1.0], [2.0]], lambda x: x), {}, "kernel must be a kernel.*got a function"),
        ((mc.Poissons([[1.0], [2.0]]), [[1.0], [2.0]], mc.ProbabilityProduct()), {}, "both be models of one kind"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        mc.stats.two_sample_test(*arguments, **options)
