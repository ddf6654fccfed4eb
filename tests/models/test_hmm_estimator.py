"""Baum-Welch against enumeration, finite differences and its own promises."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer.families.gaussian_estimator import fit_gaussians
from mercer.models._fitting import goals as _goals
from mercer.models._fitting import iterative
from mercer.models._fitting.checks import allowed, jebara_states
from mercer.models.hmm_estimator import HMM


def strings(count=4, length=30, seed=0, letters="ACGT"):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), int(rng.integers(length // 2, length + 1)))) for _ in range(count)]


def series(count=4, length=30, d=2, seed=0):
    """Two levels that last for a while."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        n = int(rng.integers(length // 2, length + 1))
        level = np.cumsum(rng.random(n) < 0.2) % 2
        out.append(4.0 * level[:, None] + rng.normal(size=(n, d)))
    return out


def same(p, q):
    """Bitwise equality of two batches."""
    return p.digests() == q.digests()


def slow_counts(pi, A, likelihood):
    """Expected first states, transitions and visits by enumeration of all hidden paths."""
    length, n = likelihood.shape
    first, steps, visits, total = np.zeros(n), np.zeros((n, n)), np.zeros((length, n)), 0.0
    for path in product(range(n), repeat=length):
        p = pi[path[0]] * likelihood[0, path[0]]
        for t in range(1, length):
            p *= A[path[t - 1], path[t]] * likelihood[t, path[t]]
        total += p
        first[path[0]] += p
        for t in range(length):
            visits[t, path[t]] += p
            if t:
                steps[path[t - 1], path[t]] += p
    return first / total, steps / total, visits / total


# -- one iteration, by hand --------------------------------------------------------------------------------


def test_one_step_of_symbols_equals_enumeration_with_ambiguity_codes():
    rng = np.random.default_rng(0)
    init = mc.HMMs(
        rng.dirichlet(np.ones(2), 1),
        rng.dirichlet(np.ones(2), (1, 2)),
        mc.Categoricals(rng.dirichlet(np.ones(4), (1, 2)), alphabet="dna"),
    )
    found = HMM(2, prior=None, init=init, n_iter=1).fit_each(["ARCNGT"])
    B = np.asarray(init.emission.probability)[0]
    letters = ["A", "AG", "C", "ACGT", "G", "T"]
    likelihood = np.array([[sum(B[i]["ACGT".index(s)] for s in set_) for i in range(2)] for set_ in letters])
    first, steps, visits = slow_counts(np.asarray(init.initial)[0], np.asarray(init.transition)[0], likelihood)
    counts = np.zeros((2, 4))
    for t, set_ in enumerate(letters):
        if set_ == "ACGT":
            continue  # not observed: counts for nothing
        for i in range(2):
            for s in set_:
                counts[i, "ACGT".index(s)] += visits[t, i] * B[i]["ACGT".index(s)] / likelihood[t, i]
    np.testing.assert_allclose(found.initial[0], first, rtol=1e-12)
    np.testing.assert_allclose(found.transition[0], steps / steps.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(found.emission.probability[0], counts / counts.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_one_step_of_gaussians_equals_enumeration_with_and_without_a_prior(strength):
    x = np.array([[0.1], [0.4], [2.0], [1.7]])
    prior = mc.HMMs([[0.6, 0.4]], [[[0.7, 0.3], [0.2, 0.8]]], mc.Gaussians([[[0.0], [2.0]]], [[[0.5], [0.8]]]))
    found = HMM(2, mc.Gaussian("diagonal", floor=0.0), prior=prior, prior_strength=strength, n_iter=1).fit_each([x])
    mean, variance = np.array([0.0, 2.0]), np.array([0.5, 0.8])
    likelihood = np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    pi, A = np.asarray(prior.initial)[0], np.asarray(prior.transition)[0]
    first, steps, visits = slow_counts(pi, A, likelihood)
    first, steps, mass = first + strength * pi, steps + strength * A, visits.sum(axis=0) + strength
    m1 = (visits.T @ x[:, 0] + strength * mean) / mass
    m2 = (visits.T @ x[:, 0] ** 2 + strength * (variance + mean**2)) / mass
    np.testing.assert_allclose(found.initial[0], first / first.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.transition[0], steps / steps.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(found.emission.mean[0, :, 0], m1, rtol=1e-12)
    np.testing.assert_allclose(found.emission.covariance[0, :, 0], m2 - m1**2, rtol=1e-12)


def test_a_mixture_of_one_component_is_its_component():
    data = series(3)
    gaussian = mc.Gaussian("diagonal")
    plain = HMM(2, gaussian, random_state=3).fit_each(data)
    mixed = HMM(2, mc.Mixture(gaussian, n_components=1), random_state=3).fit_each(data)
    np.testing.assert_allclose(mixed.transition, plain.transition, rtol=1e-9)
    np.testing.assert_allclose(mixed.emission.components.mean[:, :, 0], plain.emission.mean, rtol=1e-9)


@pytest.mark.parametrize("strength", [None, 0.0, 3.0, 1e12])
@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_the_compiled_fit_of_gaussians_is_that_of_the_family(structure, strength):
    rng = np.random.default_rng(0)
    d, offsets = 3, np.array([0, 12, 12, 40])
    x, weights = 1e4 + rng.normal(size=(40, d)), rng.random((40, 2))
    weights[:12, 1] = 0.0  # nobody visits
    if structure == "diagonal":
        x[rng.random(x.shape) < 0.2] = np.nan
    spread = {"full": np.eye(d), "diagonal": np.ones(d), "isotropic": np.float64(1.0)}[structure]
    start, prior = (
        mc.Gaussians(1e4 + rng.normal(size=(*shape, d)), 2.0 * np.broadcast_to(spread, (*shape, *spread.shape)))
        for shape in ((3, 2), (1, 2))
    )
    family = mc.Gaussian(structure, floor=0.2)
    context = family.context(mc.Sequences([np.nan_to_num(x, nan=1e4)]))
    found = fit_gaussians(
        x, weights, offsets, context.floor, start, None if strength is None else prior, strength or 0.0
    )
    for j in range(2):
        if strength is not None:
            family.set_params(prior=prior[:, j], prior_strength=strength)
        truth = family.fit_weighted(x, weights[:, j : j + 1], offsets, context, start=start[:, j : j + 1])
        np.testing.assert_allclose(found.mean[:, j], truth.mean[:, 0], rtol=1e-12)
        np.testing.assert_allclose(found.covariance[:, j], truth.covariance[:, 0], rtol=1e-8, atol=1e-9)


# -- the objective -----------------------------------------------------------------------------------------


def emissions():
    gap = series(3, seed=1)
    for x in gap:
        x[::5, 0] = np.nan
        x[2::7, 1] = np.nan
    counts = [np.round(np.abs(x)) for x in series(3, seed=2)]
    ones = [(x > 2).astype(float) for x in series(3, seed=3)]
    ambiguous = ["".join("RYNA"[i % 4] if i % 3 == 0 else s for i, s in enumerate(x)) for x in strings(3, seed=4)]
    return {
        "symbols": (mc.Categorical("dna"), strings(3, seed=5)),
        "ambiguous": (mc.Categorical("dna"), ambiguous),
        "smoothed": (mc.Categorical("dna", prior=mc.Categoricals([[0.25] * 4], "dna"), prior_strength=2.0), ambiguous),
        "full": (mc.Gaussian("full", floor=0.05), series(3)),
        "diagonal": (mc.Gaussian("diagonal", floor=0.3), series(3)),
        "isotropic": (mc.Gaussian("isotropic", floor=0.1), series(3)),
        "missing": (mc.Gaussian("diagonal", floor=0.1), gap),
        "shrunk": (mc.Gaussian("diagonal", prior="pooled", prior_strength=2.0), gap),
        "poisson": (mc.Poisson(), counts),
        "bernoulli": (mc.Bernoulli(), ones),
        "multinomial": (mc.Multinomial(trials=4), counts),
        "mixture of bernoullis": (mc.Mixture(mc.Bernoulli(), n_components=2), ones),
        "mixture of symbols": (mc.Mixture(mc.Categorical("dna"), n_components=2), ambiguous),
        "mixture of multinomials": (mc.Mixture(mc.Multinomial(), n_components=2), counts),
        "mixture": (mc.Mixture(mc.Gaussian("full", floor=0.1), n_components=2), series(3)),
        "mixture of poissons": (mc.Mixture(mc.Poisson(), n_components=2), counts),
    }


@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.parametrize("name", sorted(emissions()))
def test_the_objective_never_decreases(name, prior, monkeypatch):
    emission, data = emissions()[name]
    estimator = HMM(3, emission, prior=prior, prior_strength=2.0, n_iter=25, n_init=1, tol=0.0)
    history = []
    maximize = _goals.HMMGoal.maximize

    def watched(self, models, data, found, memory):
        history.append(found.log_prob + self.log_prior(models))
        return maximize(self, models, data, found, memory)

    with warnings.catch_warnings(), mc.config(cache_bytes=0):
        warnings.simplefilter("ignore", UserWarning)
        X = estimator.accept(data)
        context = clone(estimator).set_params(n_iter=8).context(X)
        monkeypatch.setattr(_goals.HMMGoal, "maximize", watched)
        estimator.fit_each(data, context)
    objective = np.array(history)
    assert objective.shape == (25, 3)
    assert np.all(np.diff(objective, axis=0) >= -1e-10 * np.abs(objective[:-1]))
    assert np.all(objective[-1] > objective[0] + 1e-4)


def test_the_map_is_a_stationary_point_of_an_objective_written_down_independently():
    """Finite differences of log p(x) + s sum p0 log p + s E_prior[log N], at the end of a long fit."""
    x, s = series(1, 40, d=1, seed=6)[0], 4.0
    prior = mc.HMMs([[0.6, 0.4]], [[[0.7, 0.3], [0.2, 0.8]]], mc.Gaussians([[[0.5], [3.0]]], [[[1.0], [2.0]]]))
    estimator = HMM(2, mc.Gaussian("diagonal", floor=0.0), prior=prior, prior_strength=s, n_iter=2000, tol=1e-15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = estimator.fit_each([x])

    def objective(z):
        a, b, c, m, log_v = z[0], z[1], z[2], z[3:5], z[5:7]
        pi, A = np.array([a, 1 - a]), np.array([[b, 1 - b], [c, 1 - c]])
        variance = np.exp(log_v)
        model = mc.HMMs(pi[None], A[None], mc.Gaussians(m[None, :, None], variance[None, :, None]))
        m0, v0 = np.array([0.5, 3.0]), np.array([1.0, 2.0])
        gaussian = -0.5 * (np.log(variance) + (v0 + (m0 - m) ** 2) / variance)
        tables = np.sum([[0.6, 0.4]] * np.log(pi)) + np.sum([[0.7, 0.3], [0.2, 0.8]] * np.log(A))
        return model.log_prob([x])[0, 0] + s * (tables + gaussian.sum())

    at = np.array(
        [
            found.initial[0, 0],
            *found.transition[0, :, 0],
            *found.emission.mean[0, :, 0],
            *np.log(found.emission.covariance[0, :, 0]),
        ]
    )
    gradient = [(objective(at + h) - objective(at - h)) / 2e-5 for h in 1e-5 * np.eye(7)]
    np.testing.assert_allclose(gradient, 0.0, atol=1e-4)
    assert all(objective(at) > objective(at + sign * 0.05 * h) for h in np.eye(7) for sign in (-1, 1))


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_baum_welch_of_gaussians_finds_what_hmmlearn_finds(structure):
    hmm = pytest.importorskip("hmmlearn.hmm")
    data, rng = series(3, 80, seed=2), np.random.default_rng(3)
    covariance = {
        "full": np.tile(np.eye(2), (1, 2, 1, 1)),
        "diagonal": np.ones((1, 2, 2)),
        "isotropic": np.ones((1, 2)),
    }
    init = mc.HMMs(
        [[0.4, 0.6]], rng.dirichlet(np.ones(2), (1, 2)), mc.Gaussians([[[0.0, 1.0], [2.0, 3.0]]], covariance[structure])
    )
    emission = mc.Gaussian(structure, floor=0.0)
    ours = HMM(2, emission, prior=None, init=init, n_iter=40, tol=0.0).fit_each(data).log_prob(data).diagonal()
    kind = {"full": "full", "diagonal": "diag", "isotropic": "spherical"}[structure]
    for x, value in zip(data, ours, strict=True):
        # Their own prior, which pulls at covariances, is taken out.
        theirs = hmm.GaussianHMM(2, kind, n_iter=40, tol=-np.inf, init_params="", min_covar=0.0, covars_prior=0.0)
        theirs.startprob_, theirs.transmat_ = np.array(init.initial[0]), np.array(init.transition[0])
        theirs.means_, theirs.covars_ = np.array(init.emission.mean[0]), np.array(covariance[structure][0])
        assert abs(theirs.fit(x).score(x) - value) < 1e-6


# -- a fit depends on its datum alone ----------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.parametrize("kind", ["symbols", "missing", "full", "mixture"])
def test_the_same_bits_in_any_order_subset_chunk_and_number_of_threads(kind, prior, monkeypatch):
    emission, data = emissions()[kind]
    data = data + [x[:9] for x in data]
    estimator = HMM(2, emission, prior=prior, n_init=2, n_iter=40)
    X = estimator.accept(data)
    with warnings.catch_warnings(), mc.config(cache_bytes=0, n_jobs=1):
        warnings.simplefilter("ignore", UserWarning)
        context = estimator.context(X)
        together = estimator.fit_each(X, context)
        assert same(estimator.fit_each(X[[4]], context), together[4:5])
        assert same(estimator.fit_each(X[::-1], context), together[::-1])
        monkeypatch.setattr(iterative, "CHUNK", 2)
        assert same(estimator.fit_each(X, context), together)
        with mc.config(n_jobs=3):
            assert same(estimator.fit_each(X, context), together)
            assert same(estimator.context(X).pooled, context.pooled) if prior else True


def test_seeds_and_generators(monkeypatch):
    data = series(2, seed=10)
    a, b = (HMM(3, prior=None, random_state=seed, n_init=1, n_iter=1).fit_each(data) for seed in (0, 1))
    assert not same(a, b)
    drawn = [HMM(3, prior=None, random_state=np.random.default_rng(5), n_init=1).fit_each(data) for _ in range(2)]
    assert same(*drawn)
    monkeypatch.setattr(iterative, "CHUNK", 1)
    assert same(HMM(3, prior=None, random_state=np.random.default_rng(5), n_init=1).fit_each(data), drawn[0])
    estimators = [HMM(3, prior=None, n_init=1, n_iter=1, random_state=None) for _ in range(2)]
    assert not same(*(estimator.fit_each(data) for estimator in estimators))  # fresh, and not from the cache of fits


def test_more_starts_are_never_worse():
    data = strings(4, 60, seed=11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        one, many = (
            HMM(3, prior=None, n_init=n, tol=1e-8, n_iter=300).fit_each(data).log_prob(data).diagonal() for n in (1, 6)
        )
    assert np.all(many >= one - 1e-3)
    assert np.any(many > one + 1e-3)


# -- topology and sizes ------------------------------------------------------------------------------------


MASK = np.array([[True, True, False], [False, True, True], [True, False, True]])


@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.parametrize("data", [strings(4), series(4)], ids=["symbols", "vectors"])
@pytest.mark.parametrize("topology", ["left-right", ("left-right", 1), ("left-right", None), "banded", MASK], ids=str)
def test_what_a_topology_forbids_stays_exactly_zero(topology, data, prior):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = HMM(3, topology=topology, prior=prior).fit_each(data)
    first, step = allowed(topology, 3)
    assert np.all(np.asarray(found.transition)[:, ~step] == 0)
    assert np.all(np.asarray(found.initial)[:, ~first] == 0)
    np.testing.assert_allclose(np.asarray(found.transition).sum(axis=-1), 1.0)


def test_topologies_by_name():
    assert allowed("left-right", 4)[1].astype(int).tolist() == [[1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert allowed(("left-right", None), 5)[1].tolist() == np.triu(np.ones((5, 5), dtype=bool)).tolist()
    assert allowed(("left-right", 1), 3)[1].astype(int).tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
    assert allowed("left-right", 3)[0].tolist() == [True, False, False]
    assert allowed("banded", 4)[1].astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert allowed(("banded", 2), 4)[1].astype(int)[0].tolist() == [1, 1, 1, 0]
    assert allowed("banded", 4)[0].all()
    assert allowed("ergodic", 2)[1].all()


@given(st.integers(1, 10_000), st.integers(1, 30))
@settings(max_examples=50, deadline=None)
def test_jebaras_heuristic_is_the_smallest_model_with_enough_parameters(length, symbols):
    n = jebara_states(length, symbols)
    assert n >= 2

    def parameters(m):
        return m * m + m * symbols - symbols - 1  # PPK-7 solves m^2 + m O = T z + O + 1

    if n > 2:
        assert parameters(n - 1) <= 0.1 * length * (1 + 1e-12)
    assert parameters(n) > 0.1 * length * (1 - 1e-12)


def test_sizes_by_length():
    assert [jebara_states(t, 4) for t in (100, 1000, 10_000)] == [3, 9, 30]
    data = strings(3, 40, seed=13) + strings(3, 300, seed=14)
    lengths = [len(x) for x in data]
    for n_states in ("jebara", lambda length: 2 if length < 100 else 4):
        wanted = [jebara_states(t, 4) if n_states == "jebara" else n_states(t) for t in lengths]
        for prior in (None, "pooled"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                estimator = HMM(n_states, alphabet="dna", prior=prior, n_iter=3, n_init=1)
                found = estimator.fit_each(data)
                shared = clone(estimator).fit(data)
            assert found.n_states.tolist() == wanted
            assert np.isfinite(found.log_prob(data)).all()
            assert shared.model_.n_states.tolist() == [wanted[int(np.argsort(lengths)[2])]]
    # A new sequence gets the nearest size that was learned: 7 states are asked for, 2 and 4 are known.
    with pytest.warns(ConvergenceWarning, match="before the model of all data converged"):
        context = estimator.context(estimator.accept(data))
    assert context.pooled.n_states.tolist() == [2, 4]
    longer = clone(estimator).set_params(n_states=_seven)
    assert longer.fit_each(["ACGT" * 5], context).n_states.tolist() == [4]


def _seven(length):
    return 7


# -- one model of all data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, "pooled"])
def test_fit_learns_one_model_of_all_data(prior):
    data = series(6, seed=15)
    estimator = HMM(2, prior=prior).fit(data)
    assert estimator.model_.shape == (1,)
    assert 1 < estimator.n_iter_ < estimator.n_iter
    assert estimator.converged_ is True
    np.testing.assert_allclose(np.sort(np.asarray(estimator.model_.emission.mean)[0, :, 0]), [0, 4], atol=0.4)
    np.testing.assert_allclose(estimator.score_samples(data), estimator.model_.log_prob(data)[0])
    assert estimator.score(data) == pytest.approx(estimator.model_.log_prob(data).mean())
    # Concatenating would be another model: sequences begin anew.
    assert estimator.score(data) != pytest.approx(estimator.score([np.concatenate(data)]) / 6)
    if prior == "pooled":
        assert same(estimator.context_.pooled, estimator.model_)
        assert estimator.fit_each(data[:2]).shape == (2,)


def test_bic_counts_what_the_topology_leaves_free():
    data = series(5, seed=17)
    for topology, steps in (("ergodic", 3 * 2 + 2), ("left-right", 3 + 0), (("left-right", 1), 2), ("banded", 4 + 2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fitted = HMM(3, topology=topology).fit(data)
        free = steps + 3 * 4
        truth = -2 * fitted.score_samples(data).sum() + free * np.log(sum(map(len, data)))
        assert fitted.bic(data) == pytest.approx(truth)


# -- what is said ------------------------------------------------------------------------------------------


def test_a_state_that_nobody_visits_stays_valid_and_is_named():
    emission = mc.Categoricals([[[0.5, 0.5], [0.5, 0.5]]], "ab")
    init = mc.HMMs([[1.0, 0.0]], [[[1.0, 0.0], [0.25, 0.75]]], emission)
    X = mc.Sequences(["ab", "abb", "aab"], ids=["x", "y", "z"])
    with pytest.warns(UserWarning, match=r"State 1 of sequence 'x' \(and 2 others\) is never visited"):
        found = HMM(2, prior=None, init=init).fit_each(X)
    np.testing.assert_array_equal(found.transition[:, 1], [[0.25, 0.75]] * 3)
    np.testing.assert_array_equal(found.emission.probability[:, 1], [[0.5, 0.5]] * 3)
    np.testing.assert_allclose(found.emission.probability[:, 0, 0], [1 / 2, 1 / 3, 2 / 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HMM(2, prior=init, prior_strength=5.0).fit_each(X)  # a prior knows what an unvisited state is like


def test_warnings_come_once_for_all_data():
    data = strings(8, 40, seed=18)
    with pytest.warns(ConvergenceWarning, match="before sequence 0, .* and 3 others converged") as seen:
        HMM(3, alphabet="dna", prior=None, n_iter=3, tol=1e-12, n_init=1).fit_each(data)
    assert sum(w.category is ConvergenceWarning for w in seen) == 1
    steps = HMM(3, prior=None, topology=("left-right", 1))  # in two steps, nothing reaches the last state
    short = r"sequence 1 \(and 1 others\) has 2 observations for 3 states; use prior"
    steps = HMM(3, prior=None, topology=("left-right", 1))  # in two steps, nothing reaches the last state
    with pytest.warns(UserWarning, match=short), pytest.warns(UserWarning, match="is never visited"):
        steps.fit_each([series(1)[0], np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[1.0, 1.0]])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HMM(3).fit_each([*series(3), np.array([[0.0, 1.0]])])


def test_a_variance_that_vanishes_gets_one_clear_sentence():
    emission = mc.Gaussian("diagonal", floor=0.0)
    with pytest.raises(ValueError, match=r"sequence 1 cannot be fitted: .* singular covariance.* Add a floor"):
        HMM(2, emission, prior=None).fit_each([series(1)[0], np.ones((6, 2))])
    with pytest.raises(ValueError, match="model of all data cannot be fitted"):
        HMM(2, emission).fit([np.ones((6, 2))])


def test_degenerate_data_give_valid_models():
    for data in (["AAAA", "A", "AC"], [np.zeros((6, 2)), np.ones((1, 2))], np.arange(12.0).reshape(3, 4)):
        for prior in (None, "pooled"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found = HMM(3, prior=prior).fit_each(data)
            for table in (found.initial, found.transition):
                np.testing.assert_allclose(np.asarray(table).sum(axis=-1), 1.0)
            assert np.isfinite(found.log_prob(data).diagonal()).all()


def test_empty_and_unobserved_sequences_get_the_prior():
    X = [*series(3), np.zeros((0, 2)), np.full((3, 2), np.nan)]
    estimator = HMM(2)
    context = estimator.context(estimator.accept(X))
    found = estimator.fit_each(X, context)
    for i in (3, 4):
        np.testing.assert_allclose(found.emission.mean[i], context.pooled.emission.mean[0], rtol=1e-10)
        np.testing.assert_allclose(found.transition[i], context.pooled.transition[0], rtol=1e-8)
    assert HMM(2, alphabet="dna").fit_each(["ACGT", "", "NNN"]).shape == (3,)


def test_emissions_follow_the_data():
    assert isinstance(HMM(2).fit_each(strings(3)).emission, mc.Categoricals)
    assert isinstance(HMM(2).fit_each(np.random.default_rng(0).integers(0, 3, (3, 10))).emission, mc.Categoricals)
    assert HMM(2).fit_each(series(3)).emission.structure == "diagonal"
    assert HMM(2).fit_each(np.random.default_rng(0).normal(size=(3, 10))).emission.dimension == 1
    lower = HMM(2, mc.Bernoulli(threshold=0.0)).fit_each(series(3)).emission
    assert isinstance(lower, mc.families.Bernoullis)
    assert HMM(2, alphabet="dna", unknown="missing").fit_each(["AC-GT", "AAC"]).shape == (2,)
    assert HMM(2, mc.Categorical("dna", unknown="missing")).fit_each(["AC-GT", "AAC"]).shape == (2,)


GOOD = mc.HMMs([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], mc.Categoricals([[[0.5, 0.5], [0.4, 0.6]]], "ab"))
NUMBERS = mc.HMMs([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], mc.Gaussians([[[0.0], [1.0]]], [[1.0, 1.0]]))
NEVER = mc.HMMs([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], mc.Categoricals([[[1.0, 0.0], [1.0, 0.0]]], "ab"))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (HMM(0), r"n_states must be .*; got 0"),
        (HMM("many"), r"n_states must be .*; got 'many'"),
        (HMM(lambda length: 0.5), r"n_states\(2\) must be .*; got 0.5"),
        (HMM(emission="gaussian"), r"emission must be .*; got 'gaussian'"),
        (HMM(emission=HMM()), "emission must be .* family or a mixture"),
        (HMM(emission=mc.Gaussian()), r"Gaussian requires vectors; got symbols from .*Use mc.Categorical"),
        (HMM(topology="ring"), "topology must be 'ergodic'.* got 'ring'"),
        (HMM(topology=("banded", None)), r"topology must be .* got \('banded', None\)"),
        (HMM(topology=("left-right", 0)), r"topology must be .* got \('left-right', 0\)"),
        (HMM(2, topology=np.ones((3, 3), dtype=bool)), r"mask of shape \(2, 2\) for 2 states; got shape \(3, 3\)"),
        (HMM(2, topology=np.eye(2)), r"must be a boolean mask .* got an array of dtype float64 and shape \(2, 2\)"),
        (HMM(2, topology=np.array([[True, True], [False, False]])), "no transition from state 1. Allow at least one"),
        (HMM(prior="pool"), "got 'pool'. Pass one member"),
        (HMM(prior_strength=-1.0), r"prior_strength must be .*; got -1\.0"),
        (HMM(n_iter=0), r"n_iter must be .*; got 0"),
        (HMM(random_state=-1), r"random_state must be .*; got -1"),
        (HMM(2, init="k-means"), "init must be None or HMMs .* got 'k-means'"),
        (HMM(3, init=GOOD), "init has 2 states, but n_states is 3. Make them equal"),
        (HMM("jebara", prior=GOOD), "prior has 2 states, but n_states is 'jebara'"),
        (HMM(2, init=GOOD[[0, 0, 0]]), "init must have one model, .* got 3 models for 2 sequences"),
        (HMM(2, init=GOOD[:0]), r"init must be HMMs of shape \(1,\), or \(N,\) .* got shape \(0,\)"),
        (HMM(2, prior=GOOD[[0, 0]]), r"prior must be .* shape \(1,\); got .*2"),
        (HMM(_seven, init=GOOD), "init has 2 states, but n_states is a callable. Make them equal, as in n_states=2"),
        (HMM(emission=mc.MarkovChain()), "emission must be .* family or a mixture"),
        (HMM(topology=None), "topology must be 'ergodic'.* got None"),
        (HMM(tol=-1.0), r"tol must be .*; got -1\.0"),
        (HMM(tol=np.nan), r"tol must be .*; got nan"),
        (HMM(tol="small"), r"tol must be .*; got 'small'"),
        (HMM(2, init=GOOD, topology="left-right"), "transition from state 1 to 0, which the topology does not allow"),
        (HMM(2, init=NUMBERS), "init does not suit Categorical emissions"),
        (HMM(2, prior=NUMBERS), "prior does not suit Categorical emissions"),
        (HMM(2, mc.Mixture(mc.Categorical("ab")), prior=GOOD), "prior does not suit Mixture emissions"),
        (HMM(2, init=NEVER), "sequence 0 has probability zero under init"),
        (HMM(2, prior=NEVER), "sequence 0 has probability zero under the prior"),
        (HMM(unknown="skip"), "must be 'raise' or 'missing'"),
    ],
)
def test_bad_parameters_get_one_clear_sentence(estimator, message):
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit_each(["ab", "ba"])


@pytest.mark.parametrize(
    ("estimator", "data", "message"),
    [
        (HMM(), [], "X is empty; pass at least one sequence"),
        (HMM(), sparse.csr_array(np.eye(3)), "not a sparse matrix. Pass X.toarray()"),
        (HMM(alphabet="dna"), ["ACG", "AXG"], "'X'"),
        (HMM(mc.Categorical()), series(2), r"n_states must be .*; got Categorical"),
        (HMM(2, mc.Categorical()), series(2), "Categorical requires symbols; got .*Use mc.Gaussian"),
        (HMM("jebara"), series(2), "n_states='jebara' needs sequences of symbols; got vectors"),
        (HMM(prior=None), ["AC", ""], "sequence 1 is empty. Leave it out, or use prior='pooled'"),
        (HMM(), ["", ""], "no symbol"),
        (HMM(), [np.zeros((0, 2))], "nothing to fit"),
        (HMM(prior=None), [*series(1), np.full((4, 2), np.nan)], "sequence 1 has no observation of coordinate 0"),
        (HMM(prior=None, alphabet="dna"), ["ACGT", "NNN"], "sequence 1 contains only missing symbols"),
        (
            HMM(2, mc.Gaussian("full")),
            [np.array([[0.0, np.nan], [1.0, np.nan]])],
            "nothing to learn about coordinate 1: it is NaN in all samples",
        ),
        (HMM(), [np.zeros((3, 2)), np.zeros((3, 1))], "sequence 1"),
        (
            HMM(),
            [[0.0, 1.0], [0.0, -1e200]],
            r"sequence 1 \(point 1\) contains 1e\+200; its square overflows float64\. Rescale",
        ),
        (HMM(), ["AC", np.zeros(3)], "sequence 1"),
    ],
)
def test_bad_data_get_one_clear_sentence(estimator, data, message):
    for fit in (estimator.fit_each, clone(estimator).fit):
        if fit != estimator.fit_each and ("prior" in message or "coordinate" in message or "missing" in message):
            continue  # one model of all data has enough
        with pytest.raises((ValueError, TypeError), match=message):
            fit(data)


def test_data_of_another_kind_than_the_training_data():
    estimator = HMM(2).fit(["AB", "BA"])
    with pytest.raises(TypeError, match="real numbers, which have no alphabet; pass symbols"):
        estimator.fit_each(series(2))
    with pytest.raises(ValueError, match="alphabet"):
        estimator.fit_each(mc.Sequences(["XY"]))
    with pytest.raises(TypeError, match="The fitted model requires vectors; got symbols from AB"):
        HMM(2).fit(series(2)).fit_each(["AB"])
    with pytest.raises(ValueError, match="must have 2 coordinates, as the training data had; got 3"):
        HMM(2).fit(series(2)).fit_each(series(2, d=3))
    with pytest.raises(TypeError, match=r"component must be a family; got HMM\(\). Use mc.Gaussian"):
        mc.Mixture(HMM()).fit(["AB", "BA"])


# -- in the ecosystem --------------------------------------------------------------------------------------


# -- nothing is impossible under a pooled prior ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("emission", "train", "new"),
    [
        (mc.Bernoulli(), [0.0, 0, 0, 0], [1.0, 1, 0]),
        (mc.Poisson(), [0.0, 0, 0, 0], [5.0, 1, 0]),
        (mc.Mixture(mc.Bernoulli()), [1.0, 1, 1, 1], [0.0, 1]),
        (mc.Mixture(mc.Poisson()), [0.0, 0, 0, 0], [2.0, 0]),
        (mc.Mixture(mc.Categorical("ab")), "aaaa", "abb"),
        (mc.Categorical("ab"), "aaaa", "abb"),
        (mc.Multinomial(), [[3.0, 0.0]] * 4, [[0.0, 2.0]]),
        (mc.Mixture(mc.Multinomial()), [[3.0, 0.0]] * 4, [[0.0, 2.0]]),
    ],
)
def test_what_training_lacks_is_not_impossible_under_a_pooled_model(emission, train, new):
    def data(x):
        return [x] if isinstance(x, str) else [np.reshape(x, (len(x), -1))]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator = HMM(2, emission).fit(data(train) * 3)
    assert np.isfinite(estimator.score_samples(data(new))).all()
    found = estimator.fit_each(data(new))
    assert np.isfinite(found.log_prob(data(new))).all()


def test_the_even_observation_by_hand():
    """One state: every pooled estimate is that of the data and of one observation more."""
    ones = [np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        coins = HMM(1, mc.Bernoulli()).fit(ones).model_.emission.probability
        rates = HMM(1, mc.Poisson()).fit(ones).model_.emission.rate
        words = HMM(1, mc.Multinomial()).fit(ones).model_.emission.probability
    np.testing.assert_allclose(coins[0, 0], [3.5 / 4, 1.5 / 4])
    np.testing.assert_allclose(rates[0, 0], [(3 + 1) / 4, (1 + 2 / 4) / 4])
    np.testing.assert_allclose(words[0, 0], [3.5 / 5, 1.5 / 5])


# -- the end of EM ------------------------------------------------------------------------------------------


def test_a_probability_that_rounds_to_one_does_not_end_em():
    x = [np.array([[1.0], [1], [1], [1], [0], [0], [0]])] * 4
    prior = mc.HMMs([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], mc.families.Bernoullis([[[1 - 1.1e-16], [0.3]]]))
    estimator = HMM(2, mc.Bernoulli(), prior=prior, prior_strength=0.3).fit(x)
    assert estimator.converged_
    more = clone(estimator).set_params(init=estimator.model_, n_iter=30, tol=0.0).fit(x).model_
    # It ended at -9.988 once, with an infinite log prior, and 30 more steps went to -9.373.
    np.testing.assert_allclose(estimator.model_.log_prob(x).sum(), more.log_prob(x).sum(), atol=0.01)
    np.testing.assert_allclose(more.log_prob(x).sum(), -9.373188616, atol=1e-6)


def test_a_tolerance_of_zero_makes_all_iterations():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        estimator = HMM(1, prior=None, n_iter=7, tol=0.0, n_init=1).fit(series(2))
    assert estimator.n_iter_ == 7
    assert estimator.converged_ is False


def test_what_is_told_of_every_fit():
    data = strings(4, 40, seed=20)
    with pytest.warns(ConvergenceWarning):
        models, info = HMM(2, alphabet="dna", n_iter=3, tol=1e-9).fit_each(data, return_info=True)
    assert info.n_iter.tolist() == [3] * 4
    assert not info.converged.any()
    models, info = HMM(2, alphabet="dna").fit_each(data, return_info=True)
    assert same(models, HMM(2, alphabet="dna").fit_each(data))
    assert info.converged.all()
    assert np.all(info.n_iter < 100)
    assert info.objective.shape == (4,)
    # Of models of different sizes, in the order of the data.
    longest = [*data, "ACGT" * 30]
    _, mixed = HMM(_sized, alphabet="dna").fit_each(longest, return_info=True)
    alone = HMM(_sized, alphabet="dna")
    context = alone.context(alone.accept(longest))
    _, last = alone.fit_each(longest[-1:], context, return_info=True)
    np.testing.assert_allclose(mixed.objective[-1], last.objective[0])


def _sized(length):
    return 2 if length < 60 else 3


# -- parameters that changed after fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({}, {"topology": "left-right"}, "context was learned with another topology .* Call fit again"),
        ({}, {"n_states": 3}, "context was learned with n_states=2, but n_states is now 3. Call fit again"),
        ({"prior": None}, {"prior": "pooled"}, "learned without a pooled model, .* Call fit again"),
        ({}, {"emission": mc.Mixture()}, "prior does not suit Mixture emissions"),
        ({"emission": mc.Gaussian(prior="pooled")}, {"prior": None}, "prior has changed. Call fit again"),
    ],
)
def test_a_context_that_was_learned_with_other_parameters(before, after, message):
    data = series(3)
    estimator = HMM(2, **before).fit(data).set_params(**after)
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit_each(data)
    estimator.fit(data)
    assert estimator.fit_each(data).shape == (3,)


def test_contexts_of_other_estimators_are_refused():
    data = series(3)
    with pytest.raises(TypeError, match=r"must be learned by an HMM; got .*Call fit again"):
        HMM(2).fit_each(data, mc.Mixture().fit(data).context_)
    with pytest.raises(TypeError, match=r"must be learned by a Mixture; got .*Call fit again"):
        mc.Mixture().fit_each(data, HMM(2).fit(data).context_)
    with pytest.raises(ValueError, match=r"learned with n_components=2, .* now 3\. Call fit again"):
        mc.Mixture(n_components=2).fit(data).set_params(n_components=3).fit_each(data)
    with pytest.raises(ValueError, match="without a pooled model"):
        mc.Gaussian().fit(data).set_params(prior="pooled").fit_each(data)


def test_functions_are_not_remembered_by_their_names():
    namespace = {}
    data = strings(3)
    for size in (2, 3):
        exec(f"def size(length): return {size}", namespace)
        namespace["size"].__module__ = __name__
        globals()["size"] = namespace["size"]
        assert HMM(namespace["size"], alphabet="dna").fit_each(data).n_states.tolist() == [size] * 3
    del globals()["size"]


# -- a start for every sequence ------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, "pooled"])
def test_every_sequence_may_have_its_own_start(prior):
    data = series(3, seed=21)
    rng = np.random.default_rng(22)
    init = mc.HMMs(
        rng.dirichlet(np.ones(2), 3),
        rng.dirichlet(np.ones(2), (3, 2)),
        mc.Gaussians(rng.normal(size=(3, 2, 2)), np.ones((3, 2, 2))),
    )
    estimator = HMM(2, prior=prior, init=init, n_iter=2, tol=0.0)
    context = estimator.context(estimator.accept(data))
    found = estimator.fit_each(data, context)
    for i in range(3):
        alone = clone(estimator).set_params(init=init[i : i + 1]).fit_each(data[i : i + 1], context)
        assert same(found[i : i + 1], alone)
    # Nothing of it is remembered: the same data in another order meet other starts.
    swapped = estimator.fit_each(data[::-1], context)
    assert not same(swapped[2:], found[:1])
    with pytest.raises(ValueError, match=r"init must have shape \(1,\), .* got shape \(3,\)"):
        estimator.fit(data)


# -- sentences -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.parametrize(
    ("estimator", "data", "message"),
    [
        (HMM(2, alphabet="dna"), ["NNN", "N"], "nothing to learn from: all symbols are missing"),
        (HMM(2), [[np.nan, np.nan], [np.nan]], "nothing to learn about coordinate 0: it is NaN in all samples"),
        (HMM(2, mc.Multinomial()), [np.zeros((3, 2))], "nothing to learn from: all counts are zero"),
        (HMM(2), [[1e-160, 2e-160], [3e-160]], "coordinate 0 have a range of 2e-160; .* Rescale the data"),
        (mc.Mixture(mc.Categorical("dna")), ["NNN", "N"], "nothing to learn from: all symbols are missing"),
    ],
)
def test_cures_are_not_what_was_done_already(estimator, data, message, prior):
    estimator = clone(estimator).set_params(prior=prior)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message) as caught:
            estimator.fit(data)
    assert "pooled" not in str(caught.value)


@pytest.mark.slow
def test_a_model_of_all_data_with_more_states_than_observations_warns():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        HMM(30, n_init=1).fit(["abcabc"])
    messages = [str(w.message) for w in seen]
    assert any("the model of all data has 6 observations for 30 states; use fewer states" in m for m in messages)
    assert not any("pooled" in m for m in messages)
    with pytest.warns(UserWarning, match=r"sequence 0 has 5 observations for 2 states of 3 components"):
        HMM(2, mc.Mixture(n_components=3), prior=None, n_init=1).fit_each([np.arange(5.0)])


def test_a_gaussian_without_floor_that_collapses_gets_one_clear_sentence():
    """A point far away, alone, takes a state of its own, whose variance falls without end."""
    x = np.concatenate([np.random.default_rng(0).normal(size=40), [50.0]])
    init = mc.HMMs([[0.9, 0.1]], [[[0.9, 0.1], [0.5, 0.5]]], mc.Gaussians([[[0.0], [50.0]]], [[[1.0], [1e-3]]]))
    estimator = HMM(2, mc.Gaussian("diagonal", floor=0.0), prior=None, init=init, n_iter=500, tol=0.0)
    with pytest.raises(ValueError, match=r"sequence 0 cannot be fitted: .*(collapsed|singular)"):
        estimator.fit_each([x])
    near = mc.HMMs(init.initial, init.transition, mc.Gaussians([[[0.0], [50.0]]], [[[1.0], [1e-101]]]))
    estimator = HMM(2, mc.Gaussian("diagonal", floor=0.0), prior=None, init=near)
    with pytest.raises(ValueError, match=r"collapsed to 1e-101, .* Use a floor"):
        estimator.fit_each([x])


def test_one_name_for_a_sequence_everywhere():
    X = mc.Sequences(["ab", "ba", "bb"], ids=["one", "two", "three"])
    with pytest.raises(ValueError, match="sequence 'two' has probability zero under the prior"):
        HMM(2, prior=NEVER).fit_each(X[1:])
    data = strings(3, 40, seed=23)
    estimator = HMM(3, alphabet="dna", prior=None, n_iter=3, tol=1e-12, n_init=1)
    with pytest.warns(ConvergenceWarning):
        estimator.fit_each(data[:2])
    with pytest.warns(ConvergenceWarning, match="before sequence 0, sequence 1, sequence 2 converged"):
        estimator.fit_each(data)  # the first two are remembered, and the third keeps its place
