"""Joint states of factorial hidden Markov models: missing values, scores, EM and given priors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.test_factorial_hmm import models

import mercer as mc
from mercer.models import factorial_hmm_estimator as em


def holes(X, seed=0, share=0.3):
    """Series with missing entries, and one missing step."""
    rng, out = np.random.default_rng(seed), []
    for x in X:
        x = np.where(rng.random(x.shape) < share, np.nan, x)
        x[len(x) // 2] = np.nan
        out.append(x)
    return out


SERIES = [np.random.default_rng(s).normal(size=(length, 2)) for s, length in enumerate((7, 1, 12, 4))]


@given(st.integers(0, 200))
def test_scores_are_derivatives(seed):
    model = models(seed, 1, d=2)
    X = holes(SERIES[:2], seed)
    scores, names = model.sequence_scores(X)[0], model.score_names()
    start = {name: np.array(getattr(model, name)) for name in model._arrays}

    def moved(part, at, step):
        new = {name: value.copy() for name, value in start.items()}
        if part in ("initial", "transition"):
            row = new[part][(0, *at[:-1])]
            row = np.log(row) + step * (np.arange(len(row)) == at[-1])
            new[part][(0, *at[:-1])] = np.exp(row) / np.exp(row).sum()
        else:
            new[part][(0, *at)] += step
            if part == "covariance" and at[0] != at[1]:
                new[part][(0, *at[::-1])] += step
        return mc.models.FactorialHMMs(*(new[name] for name in ("initial", "transition", "mean", "covariance")))

    rng = np.random.default_rng(seed)
    for column in rng.choice(len(names), size=6, replace=False):
        part, inside = names[column].split("[", 1)
        at = tuple(int(v) for v in inside[:-1].split(", "))
        slope = (moved(part, at, 1e-5).log_prob(X) - moved(part, at, -1e-5).log_prob(X))[0] / 2e-5
        scale = np.sqrt(0.5) if part == "covariance" and at[0] != at[1] else 1.0
        np.testing.assert_allclose(scores[:, column], scale * slope, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_em_with_missing_values_reaches_a_stationary_point():
    X = holes(list(models(5, 1, d=2).sample(30, 3, random_state=0)[0]), share=0.2)
    reached = []
    for n_iter in (1, 2, 4, 40):
        model = mc.FactorialHMM(prior=None, n_iter=n_iter, tol=0, n_init=1, floor=0.0)
        model.fit(X)
        one = em.Parameters(*(np.asarray(getattr(model.model_, name))[0] for name in em.Parameters._fields))
        x, offsets = np.concatenate(X), np.array([0, 30, 60, 90])
        reached.append(one.expect(x, offsets)[0])
    assert (np.diff(reached) >= -1e-6).all()
    many = mc.FactorialHMM(prior=None, n_iter=300, tol=0, n_init=1, floor=0.0).fit(X).model_
    first = mc.FactorialHMM(prior=None, n_iter=1, tol=0, n_init=1, floor=0.0).fit(X).model_
    slopes = [np.abs(m.sequence_scores(X)[0].sum(axis=0)).max() for m in (first, many)]
    assert slopes[1] < 0.02 * slopes[0]


def test_missing_values_are_marginalized():
    model = models(1, 1, d=2)
    x = SERIES[0].copy()
    x[:, 1] = np.nan
    part = mc.models.FactorialHMMs(model.initial, model.transition, model.mean[..., :1], model.covariance[..., :1, :1])
    np.testing.assert_allclose(model.log_prob([x]), part.log_prob([x[:, :1]]), rtol=1e-12)
    for found, expected in zip(model.posterior([x]), part.posterior([x[:, :1]]), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_given_prior_holds_the_fit():
    given = models(2, 1, d=2)
    strong = mc.FactorialHMM(prior=given, prior_strength=1e9, floor=0.0, n_iter=3, tol=0).fit_each(SERIES)
    for name in ("initial", "transition", "covariance"):
        np.testing.assert_allclose(getattr(strong, name), np.repeat(getattr(given, name), 4, axis=0), atol=1e-6)
    joint = [m.hmms().emission for m in (strong, given)]  # a constant can move between the effects of the chains
    np.testing.assert_allclose(joint[0].mean, np.repeat(joint[1].mean, 4, axis=0), atol=1e-6)
    with pytest.raises(ValueError, match="prior has 2 chains of 2 states; expected 3 of 2"):
        mc.FactorialHMM(3, prior=given).fit(SERIES)
    with pytest.raises(ValueError, match="prior has 2 coordinates; the data have 1"):
        mc.FactorialHMM(prior=given).fit([x[:, :1] for x in SERIES])
    with pytest.raises(TypeError, match=r"Use mc\.HMM"):
        mc.FactorialHMM().fit(["ab"])
    with pytest.raises(ValueError, match="coordinate 0"):
        mc.FactorialHMM().fit([np.full((3, 1), np.nan)])
