"""Fixed parts, Dirichlet priors, tied covariances and the history of fits of HMMs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mercer as mc

pytestmark = pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}")

RNG = np.random.default_rng(0)
STRINGS = ["".join(RNG.choice(list("ab"), size=n)) for n in (30, 20, 25)]
MIX = np.array([[1.0, 0.8], [0.0, 0.6]])
SERIES = [RNG.normal(size=(40, 2)) @ MIX + 4.0 * (np.arange(40)[:, None] // 10 % 2) for _ in range(3)]


def hmm(**given):
    return mc.HMM(2, **{"alphabet": "ab", "n_iter": 15, "tol": 0, "n_init": 2} | given)


@pytest.mark.parametrize("prior", ["pooled", None])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"fixed": {"transition": [[0.9, 0.1], [0.3, 0.7]]}},
        {"fixed": {"initial": [0.5, np.nan]}, "smoothing": 1.0},
        {"smoothing": {"transition": [[5.0, 0.0], [1.0, 2.0]]}},
        {"emission": mc.Gaussian("tied"), "alphabet": None},
    ],
    ids=["plain", "transition", "initial", "smoothing", "tied"],
)
def test_the_objective_never_decreases(given, prior):
    X = SERIES if "emission" in given else STRINGS
    model = hmm(prior=prior, **given).fit(X)
    assert model.history_.shape == (model.n_iter_,) == (15,)
    assert np.all(np.diff(model.history_) >= -1e-9 * np.abs(model.history_[1:]))
    if not given and prior is None:  # without a prior the objective is the log probability
        before = hmm(prior=None, n_iter=14).fit(X)
        assert_allclose(model.history_[-1], before.score_samples(X).sum(), rtol=1e-12)
    models, info = hmm(prior=prior, **given).fit_each(X, return_info=True)
    assert np.isfinite(info.objective).all()
    assert models.shape == (3,)


@pytest.mark.parametrize("prior", ["pooled", None])
def test_fixed_parts_stay(prior):
    transition = [[0.9, 0.1], [0.3, 0.7]]
    emission = mc.Categoricals([[0.8, 0.2], [0.4, 0.6]], "ab")
    for models in (
        hmm(prior=prior, fixed={"transition": transition}).fit(STRINGS).model_,
        hmm(prior=prior, fixed={"transition": transition}).fit_each(STRINGS),
    ):
        assert_allclose(models.transition, np.broadcast_to(transition, models.transition.shape), rtol=1e-15)
    known = clone(hmm(prior=prior, fixed={"emission": emission, "initial": [1.0, 0.0]})).fit(STRINGS).model_
    assert_array_equal(known.emission[0].probability, emission.probability)
    assert_array_equal(known.initial, [[1.0, 0.0]])
    whole = {"emission": emission, "initial": [1.0, 0.0], "transition": transition}
    assert_allclose(
        hmm(fixed=whole, n_iter=3).fit(STRINGS).score_samples(STRINGS),
        mc.HMMs([[1.0, 0.0]], [transition], emission.reshape(1, 2)).log_prob(STRINGS)[0],
    )


def test_entries_that_are_nan_are_learned():
    fixed = np.array([[0.5, np.nan, np.nan], [np.nan, 0.0, np.nan], [0.2, 0.3, 0.5]])
    model = mc.HMM(3, alphabet="ab", prior=None, n_iter=10, tol=0, n_init=1, fixed={"transition": fixed}).fit(STRINGS)
    found = model.model_.transition[0]
    seen = ~np.isnan(fixed)
    assert_allclose(found[seen], fixed[seen], rtol=1e-12)
    assert_allclose(found.sum(axis=1), 1.0)
    # The M-step shares the rest in proportion to the expected transitions.
    counts = model.model_.posterior(STRINGS).transitions.sum(axis=0)
    again = mc.HMM(3, alphabet="ab", prior=None, n_iter=1, tol=0, init=model.model_, fixed={"transition": fixed})
    after = again.fit(STRINGS).model_.transition[0]
    assert_allclose(after[0, 1:], 0.5 * counts[0, 1:] / counts[0, 1:].sum(), rtol=1e-9)
    assert_allclose(after[1, [0, 2]], counts[1, [0, 2]] / counts[1, [0, 2]].sum(), rtol=1e-9)


def test_smoothing_adds_counts():
    init = mc.HMMs([[0.6, 0.4]], [[[0.7, 0.3], [0.2, 0.8]]], mc.Categoricals([[[0.8, 0.2], [0.3, 0.7]]], "ab"))
    found = init.posterior(STRINGS)
    first = np.sum([found[i][0] for i in range(3)], axis=0)
    extra = {"initial": 2.0, "transition": [[1.0, 0.0], [0.5, 3.0]]}
    model = hmm(prior=None, init=init, n_iter=1, smoothing=extra).fit(STRINGS).model_
    assert_allclose(model.initial[0], (first + 2.0) / (first + 2.0).sum(), rtol=1e-12)
    counts = found.transitions.sum(axis=0) + extra["transition"]
    assert_allclose(model.transition[0], counts / counts.sum(axis=1, keepdims=True), rtol=1e-12)
    left_right = mc.HMM(3, alphabet="ab", topology="left-right", smoothing=1.0, n_iter=5).fit(STRINGS).model_
    assert_array_equal(np.tril(left_right.transition[0], -1), 0.0)


def test_smoothing_is_the_prior_of_hmmlearn():
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    init = mc.HMMs([[0.6, 0.4]], [[[0.7, 0.3], [0.2, 0.8]]], mc.Categoricals([[[0.8, 0.2], [0.3, 0.7]]], "ab"))
    theirs = hmmlearn.CategoricalHMM(2, startprob_prior=3.0, transmat_prior=2.5, n_iter=4, tol=0, init_params="")
    theirs.startprob_, theirs.transmat_ = init.initial[0], init.transition[0]
    theirs.emissionprob_ = init.emission[0].probability
    codes = [[["ab".index(c)] for c in x] for x in STRINGS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(np.concatenate(codes), [len(x) for x in codes])
    smoothing = {"initial": 2.0, "transition": 1.5}
    ours = hmm(prior=None, init=init, n_iter=4, smoothing=smoothing).fit(STRINGS).model_
    assert_allclose(ours.initial[0], theirs.startprob_, atol=1e-10)
    assert_allclose(ours.transition[0], theirs.transmat_, atol=1e-10)
    assert_allclose(ours.emission[0].probability, theirs.emissionprob_, atol=1e-10)


class TestTied:
    def test_the_covariance_is_shared(self):
        model = mc.HMM(2, mc.Gaussian("tied", floor=0.0), prior=None, n_iter=10, tol=0).fit(SERIES).model_
        assert_array_equal(model.emission.covariance[0, 0], model.emission.covariance[0, 1])
        assert model.n_parameters[0] == 1 + 2 + 4 + 3
        # The next step gives the weighted scatter about the means of the states.
        states, x = model.posterior(SERIES).states, np.concatenate(SERIES)
        after = mc.HMM(2, mc.Gaussian("tied", floor=0.0), prior=None, init=model, n_iter=1, tol=0).fit(SERIES).model_
        means = (states.T @ x) / states.sum(axis=0)[:, None]
        away = x[:, None] - means
        truth = np.einsum("tk,tki,tkj->ij", states, away, away) / len(x)
        assert_allclose(after.emission.covariance[0, 0], truth, rtol=1e-9)
        assert_allclose(after.emission.mean[0], means, rtol=1e-9)

    def test_a_mixture_is_that_of_scikit_learn(self):
        from sklearn.mixture import GaussianMixture

        x = np.concatenate(SERIES)
        theirs = GaussianMixture(2, covariance_type="tied", reg_covar=0.0, tol=1e-9, max_iter=500).fit(x)
        component = mc.Gaussian("tied", floor=0.0)
        ours = mc.Mixture(component, 2, prior=None, tol=1e-9, n_iter=500).fit(x).model_
        assert_allclose(ours.components.covariance[0, 0], theirs.covariances_, rtol=1e-3)
        assert_allclose(np.sort(ours.weights[0]), np.sort(theirs.weights_), rtol=1e-3)

    def test_alone_it_is_full(self):
        full, tied = (mc.Gaussian(kind).fit(SERIES).model_ for kind in ("full", "tied"))
        assert_array_equal(full.covariance, tied.covariance)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fixed": {"means": 1}}, "fixed must be a dict with keys among initial, transition, emission"),
        ({"fixed": {"initial": [0.5]}}, r"fixed\['initial'\] must have shape \(2,\); got shape \(1,\)"),
        ({"fixed": {"initial": [0.5, 0.6]}}, r"fixed\['initial'\] must have rows that sum to one"),
        ({"fixed": {"initial": [1.5, np.nan]}}, "must be probabilities, or NaN"),
        ({"fixed": {"initial": "a"}}, "must be an array of numbers; got 'a'"),
        ({"fixed": {"transition": np.full((2, 2), 0.5)}, "topology": "left-right"}, "topology does not allow"),
        ({"fixed": {"emission": mc.Categoricals([0.5, 0.5], "ab")}}, r"one member per state, shape \(2,\)"),
        ({"fixed": {"emission": mc.Poissons([[1.0], [2.0]])}}, r"fixed\['emission'\] does not suit Categorical"),
        ({"fixed": {"initial": [1.0, 0.0]}, "n_states": lambda n: 2}, "fixed needs one number of states"),
        ({"smoothing": -1.0}, "smoothing must be a number, 0 or more, or a dict"),
        ({"smoothing": {"initial": [1.0, 2.0, 3.0]}}, r"smoothing\['initial'\] must be a number or an array of shape"),
        ({"smoothing": {"initial": np.nan}}, r"smoothing\['initial'\] must be numbers, 0 or more; got nan"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        hmm().set_params(**given).fit(STRINGS)
