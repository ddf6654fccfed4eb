"""Factorial hidden Markov models against sums over all paths."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import mercer as mc


def models(seed=0, size=2, chains=2, n=2, d=1):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, d, d))
    return mc.models.FactorialHMMs(
        rng.dirichlet(np.ones(n), size=(size, chains)),
        rng.dirichlet(np.ones(n), size=(size, chains, n)),
        rng.normal(size=(size, chains, n, d)),
        root @ root.swapaxes(1, 2) + 0.3 * np.eye(d),
    )


def paths(model, i, length):
    """Probabilities and means ``(length, d)`` of all joint paths."""
    chains, n = model.initial.shape[1:]
    for states in itertools.product(itertools.product(range(n), repeat=chains), repeat=length):
        p, means = 1.0, []
        for t, now in enumerate(states):
            for c in range(chains):
                p *= model.transition[i, c, states[t - 1][c], now[c]] if t else model.initial[i, c, now[c]]
            means.append(sum(model.mean[i, c, now[c]] for c in range(chains)))
        yield p, np.array(means), states


def exact_product(p, q, i, j, rho, length):
    """The sum over all pairs of paths of powers of their probabilities and products of Gaussians."""
    sides = []
    for model, k in ((p, i), (q, j)):
        weights, means, _ = zip(*paths(model, k, length), strict=True)
        means = np.array(means).swapaxes(0, 1)  # (length, paths, d)
        covariance = np.broadcast_to(model.covariance[k], (*means.shape, means.shape[-1]))
        sides.append((np.array(weights) ** rho, mc.Gaussians(means, covariance)))
    logs = sides[0][1].log_product(sides[1][1], rho=rho).sum(axis=0)
    return sides[0][0] @ np.exp(logs) @ sides[1][0]


@pytest.mark.slow
def test_probabilities_are_sums_over_all_paths():
    model, length = models(3, 2, d=2), 3
    x = model.sample(length, 2, random_state=0)[0]
    found, states = model.log_prob(x), model[:1].posterior(x)
    for row in range(2):
        for i in range(2):
            total, posterior = 0.0, np.zeros((length, 2, 2))
            for p, means, joint in paths(model, i, length):
                weight = p * np.exp(sum(multivariate_normal(m, model.covariance[i]).logpdf(v)
                                        for m, v in zip(means, x[row], strict=True)))  # fmt: skip
                total += weight
                for t, now in enumerate(joint):
                    posterior[t, [0, 1], list(now)] += weight
            np.testing.assert_allclose(found[i, row], np.log(total), rtol=1e-10)
            if i == 0:
                np.testing.assert_allclose(states[row], posterior / total, rtol=1e-8, atol=1e-12)


@pytest.mark.slow
def test_kernels_are_sums_over_all_paths():
    p, q = models(0, 2), models(1, 2, chains=1)
    for rho in (0.5, 1.0):
        kernel = mc.ProbabilityProduct(rho=rho, length=2, normalize=False)
        expected = [[exact_product(p, q, i, j, rho, 2) for j in range(2)] for i in range(2)]
        np.testing.assert_allclose(kernel(p, q), expected, rtol=1e-10)
    single = models(1, 3, chains=1, d=2)
    plain = mc.HMMs(single.initial[:, 0], single.transition[:, 0],
                    mc.Gaussians(single.mean[:, 0], np.repeat(single.covariance[:, None], 2, axis=1)))  # fmt: skip
    for kernel in (mc.ProbabilityProduct(length=5), mc.MeanMap(gamma=0.2, length=5)):
        np.testing.assert_allclose(kernel(single), kernel(plain), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_em_increases_the_objective():
    truth = models(5, 1, d=2)
    X = list(truth.sample(40, 3, random_state=0)[0] + 100.0)
    for prior in (None, "pooled"):
        context, reached = None, []
        for n_iter in (1, 2, 4, 8):
            model = mc.FactorialHMM(prior=prior, n_iter=n_iter, tol=0, n_init=1)
            context = model.fit(X).context_ if context is None else context
            found, info = model.fit_each(X, context, return_info=True)
            reached.append(info.objective)
        assert (np.diff(reached, axis=0) >= -1e-6).all()
        assert found.shape == (3,)
    assert mc.ProbabilityProduct(model, length=3).fit_transform(X).shape == (3, 3)


def log_sum_of_paths(model, i, x):
    """The logarithm of the sum over all joint paths of a sequence without missing values."""
    total = 0.0
    for p, means, _ in paths(model, i, len(x)):
        total += p * np.exp(sum(multivariate_normal(m, model.covariance[i]).logpdf(v)
                                for m, v in zip(means, x, strict=True)))  # fmt: skip
    return np.log(total)


@pytest.mark.parametrize("seed", range(6))
def test_mean_field_bounds_are_below_the_sum_over_all_paths(seed):
    model = models(seed, 1, d=2)
    x = model.sample(2, 3, random_state=seed)[0]
    posteriors, bounds = model.mean_field(x)
    exact = np.array([log_sum_of_paths(model, 0, row) for row in x])
    assert (bounds <= exact + 1e-9).all()
    assert (bounds >= exact - 3).all()
    np.testing.assert_allclose([part.sum(axis=-1) for part in posteriors], 1.0, rtol=1e-12)


def test_mean_field_of_one_chain_is_exact_with_missing_values_and_other_lengths():
    model = models(2, 2, chains=1, n=3, d=2)
    X = [x.copy() for x in model.sample(6, 1, random_state=0)[:, 0]]
    X[0][2, 0], X[0][4] = np.nan, np.nan
    X[1] = X[1][:4]
    posteriors, bounds = model.mean_field(X)
    np.testing.assert_allclose(bounds, np.diag(model.log_prob(X)), rtol=1e-10)
    for found, wanted in zip(posteriors, model.posterior(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-12)
    same, both = model[:1].mean_field(X), model[:1].log_prob(X)[0]
    np.testing.assert_allclose(same[1], both, rtol=1e-10)
    assert [part.shape for part in same[0]] == [(6, 1, 3), (4, 1, 3)]


def test_mean_field_em_of_one_chain_is_exact_em():
    x = models(7, 1, chains=1, n=3, d=2).sample(40, 2, random_state=0)[0]
    x[0, 3, 1] = x[1, 5] = np.nan
    options = {"n_chains": 1, "n_states": 3, "n_iter": 3, "tol": 0, "n_init": 1}
    exact, found = (mc.FactorialHMM(inference=kind, **options).fit(x).model_ for kind in ("exact", "mean_field"))
    for name in ("initial", "transition", "mean", "covariance"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("prior", [None, "pooled"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_mean_field_em_never_decreases_the_bound(prior):
    X = list(models(5, 1, chains=3, d=2).sample(30, 2, random_state=0)[0] + 10.0)
    X[0][4, 1] = np.nan
    options = {"n_chains": 3, "n_init": 1, "tol": 0, "inference": "mean_field"}
    context = mc.FactorialHMM(prior=prior, n_iter=1, **options).fit(X).context_
    reached = [
        mc.FactorialHMM(prior=prior, n_iter=n_iter, **options).fit_each(X, context, return_info=True)[1].objective
        for n_iter in (1, 2, 3, 5, 9)
    ]
    assert (np.diff(reached, axis=0) >= -1e-7).all()
    assert (reached[-1] > reached[0] + 1).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_of_more_than_1024_joint_states_are_fitted_and_compared():
    X = [np.random.default_rng(i).normal(size=(15, 2)) for i in range(3)]
    estimator = mc.FactorialHMM(n_chains=11, n_init=1, n_iter=3)
    models = estimator.fit_each(X)
    assert models.n_joint == 2048
    _, bounds = models.mean_field(X)
    assert np.isfinite(bounds).all()
    K = mc.kernels.MeanField(estimator, length=3, n_init=1).fit_transform(X)
    np.testing.assert_allclose(np.diag(K), 1.0)
    assert (K[~np.eye(3, dtype=bool)] < 1).all()


def test_bad_models_are_named():
    good = {name: getattr(models(), name) for name in ("initial", "transition", "mean", "covariance")}
    for name, value, match in (
        ("transition", good["transition"][:, :1], "transition must have shape"),
        ("covariance", np.zeros((2, 1, 1)), "covariance"),
        ("mean", np.full((2, 2, 2, 1), np.nan), "finite"),
        ("initial", np.ones((2, 2, 2)), "sums to 2"),
    ):
        with pytest.raises(ValueError, match=match):
            mc.models.FactorialHMMs(**(good | {name: value}))
    big = models(0, 1, chains=11)
    with pytest.raises(ValueError, match="2,048 joint states"):
        big.hmms()
    with pytest.raises(ValueError, match=r"up to 1,024 joint states; got 2,048\. Use inference='mean_field'"):
        mc.FactorialHMM(n_chains=11, inference="exact").fit([np.zeros((3, 1))])
    with pytest.raises(ValueError, match="1,000 states of all chains together; got 1,001"):
        mc.FactorialHMM(n_chains=7, n_states=143).fit([np.zeros((3, 1))])
    with pytest.raises(ValueError, match=r"2 models need one sequence each; got 3 sequences\. Use one model"):
        models().mean_field(np.zeros((3, 2, 1)))
    for use in (lambda: big.log_prob([np.zeros((3, 1))]), lambda: mc.ProbabilityProduct(length=2)(big)):
        with pytest.raises(ValueError, match=r"2,048 joint states, more than 1,024\. Use fewer"):
            use()
    with pytest.raises(ValueError, match="differ in dimension"):
        mc.ProbabilityProduct(length=2)(models(), models(d=2))
    with pytest.raises(ValueError, match="length must be"):
        models().sample(0)
    again = mc.models.FactorialHMMs.concat([models(), models(1)])
    assert again.shape == (4,)
    assert models().n_parameters == 2 * 3 + 3 + 1
