"""Factorial hidden Markov models against sums over all paths, and mean field bounds against what they bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from tests.models.test_bayesnet import random_net

import mercer as mc
from mercer.models._factorial import bound, em
from mercer.models._nets import nodes


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


@given(st.integers(0, 1000), st.sampled_from([0.5, 1.0]))
def test_bounds_of_chains_are_below_the_sum(seed, rho):
    """T-13."""
    p, q = models(seed, 1, d=2), models(seed + 1, 1, chains=1, d=2)
    kernel = mc.MeanField(rho=rho, length=2, n_init=2, normalize=False)
    for left, right in ((p, q), (p, p)):
        exact = np.log(exact_product(left, right, 0, 0, rho, 2))
        found = kernel.log(left, right)[0, 0]
        assert found <= exact + 1e-9
        assert found > exact - 3


def test_one_chain_against_one_state_is_exact():
    p = models(0, 3, chains=1, n=3, d=2)
    one = mc.models.FactorialHMMs(*(np.ones((1, 1, 1)), np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 2)), [np.eye(2)]))
    found = mc.MeanField(rho=0.7, length=3, normalize=False)(p, one)
    expected = [[exact_product(p, one, i, 0, 0.7, 3)] for i in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.slow
def test_bounds_never_decrease(monkeypatch):
    p, q = models(0, 2, chains=3), models(1, 3, chains=2)
    nets = random_net(0), random_net(1, size=3)
    for module, left, right in ((bound, p, q), (nodes, *nets)):
        reached = []
        for sweeps in (1, 2, 3, 6, 12):
            monkeypatch.setattr(module, "SWEEPS", sweeps)
            reached.append(mc.MeanField(length=4, n_init=1, normalize=False).log(left, right))
        assert (np.diff(reached, axis=0) >= -1e-12).all()
    kernel = mc.MeanField(length=4, n_init=1, normalize=False)
    once = kernel.log(p, q)
    assert (kernel.set_params(n_init=3).log(p, q) >= once).all()
    np.testing.assert_allclose(kernel.diag(p), np.diag(kernel(p, p)), rtol=1e-12)


@given(st.integers(0, 500), st.sampled_from([0.5, 1.0, 2.0]), st.booleans())
def test_bounds_of_networks_are_below_the_kernel(seed, rho, zeros):
    p, q = random_net(seed, zeros=zeros), random_net(seed + 1, hidden=("w",), size=3, zeros=zeros)
    found = mc.MeanField(rho=rho, n_init=1, normalize=False).log(p, q)
    exact = mc.ProbabilityProduct(rho=rho, normalize=False).log(p, q)
    assert (found <= exact + 1e-9).all()


@pytest.mark.slow
def test_networks_without_edges_are_exact_and_large_ones_are_bounded(monkeypatch):
    rng = np.random.default_rng(0)
    names = [f"n{k}" for k in range(40)]
    free = mc.BayesNets({n: rng.dirichlet([1, 1], size=3) for n in names}, dict.fromkeys(names, 2))
    for rho in (0.5, 1.0):
        exact = mc.ProbabilityProduct(rho=rho).log(free)
        np.testing.assert_allclose(mc.MeanField(rho=rho).log(free), exact, atol=1e-8)
    many = names[:30]
    above = {many[k]: [many[k - 1], many[k - 7]] for k in range(7, 30)}
    tables = {n: rng.dirichlet(np.ones(8), size=(2, *([8] * len(above.get(n, []))))) for n in many}
    other = {many[k]: [many[(k * 11) % k], many[k // 2]] for k in range(7, 30) if (k * 11) % k != k // 2}
    turned = {n: rng.dirichlet(np.ones(8), size=(2, *([8] * len(other.get(n, []))))) for n in many}
    wide, second = (mc.BayesNets(t, dict.fromkeys(many, 8), u) for t, u in ((tables, above), (turned, other)))
    monkeypatch.setattr(nodes, "SWEEPS", 2)
    assert np.isfinite(mc.MeanField(n_init=1, normalize=False).log(wide, second)).all()


def test_kernel_is_marked_and_repaired():
    kernel = mc.MeanField(length=3)
    assert kernel.psd == "no"
    K = mc.kernels.Repaired(kernel).fit_transform(models(0, 6))
    assert mc.gram.psd.check(K)
    with pytest.raises(TypeError, match=r"FactorialHMMs or mc\.BayesNets"):
        kernel(mc.Poissons([[1.0]]))
    with pytest.raises(ValueError, match="Gaussian node 'x'"):
        kernel(random_net(0, gaussian=True))
    with pytest.raises(ValueError, match="length must be"):
        mc.MeanField(length=None)(models())


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
@pytest.mark.parametrize("inference", ["exact", "variational"])
def test_em_increases_the_objective(inference):
    truth = models(5, 1, d=2)
    X = list(truth.sample(40, 3, random_state=0)[0] + 100.0)
    for prior in (None, "pooled"):
        context, reached = None, []
        for n_iter in (1, 2, 4, 8):
            model = mc.FactorialHMM(inference=inference, prior=prior, n_iter=n_iter, tol=0, n_init=1)
            context = model.fit(X).context_ if context is None else context
            found, info = model.fit_each(X, context, return_info=True)
            reached.append(info.objective)
        assert (np.diff(reached, axis=0) >= -1e-6).all()
        assert found.shape == (3,)
    assert mc.ProbabilityProduct(model, length=3).fit_transform(X).shape == (3, 3)


@pytest.mark.slow
def test_variational_bounds_are_below_the_probability():
    for seed in range(3):
        model = models(seed, 1, chains=2, d=2)
        x = model.sample(10, 1, random_state=0)[0, 0]
        one = em.Parameters(*(getattr(model, name)[0] for name in em.Parameters._fields))
        value, sums, _ = em.variational(one, x, np.array([0, 10]), None)
        whole, exact = one.exact(x, np.array([0, 10]))
        assert value <= whole + 1e-9
        np.testing.assert_allclose(whole, model.log_prob([x])[0, 0], rtol=1e-10)
        assert sums.size == exact.size == 10
    single = models(4, 1, chains=1, n=3)
    one = em.Parameters(*(getattr(single, name)[0] for name in em.Parameters._fields))
    x = single.sample(10, 1, random_state=0)[0, 0]
    found, expected = em.variational(one, x, np.array([0, 10]), None), one.exact(x, np.array([0, 10]))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


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
    assert np.isfinite(mc.MeanField(length=2, n_init=1).log(big)).all()
    with pytest.raises(ValueError, match=r"up to 1,024 joint states; got 2,048\. Use 'variational'"):
        mc.FactorialHMM(n_chains=11, inference="exact").fit([np.zeros((3, 1))])
    for use in (lambda: big.log_prob([np.zeros((3, 1))]), lambda: mc.ProbabilityProduct(length=2)(big)):
        with pytest.raises(ValueError, match=r"2,048 joint states, more than 1,024\..*mc\.MeanField"):
            use()
    with pytest.raises(ValueError, match="differ in dimension"):
        mc.MeanField()(models(), models(d=2))
    with pytest.raises(ValueError, match="length must be"):
        models().sample(0)
    again = mc.models.FactorialHMMs.concat([models(), models(1)])
    assert again.shape == (4,)
    assert models().n_parameters == 2 * 3 + 3 + 1


def test_the_gap_is_reported_where_the_exact_value_is_known():
    p, q = models(0, 3), models(1, 2, chains=1)
    for kernel in (mc.MeanField(rho=1.0, length=2), mc.MeanField(rho=1.0, length=2, normalize=False)):
        gap = kernel.gap(p, q)
        expected = [[np.log(exact_product(p, q, i, j, 1.0, 2)) for j in range(2)] for i in range(3)]
        bound = mc.MeanField(rho=1.0, length=2, normalize=False).log(p, q)
        np.testing.assert_allclose(gap, expected - bound, atol=1e-10)
        assert (gap >= -1e-9).all()
    np.testing.assert_allclose(kernel.gap(p), kernel.gap(p, p), atol=1e-10)
    nets = random_net(0), random_net(1, size=3)
    assert (mc.MeanField(n_init=1).gap(*nets) >= -1e-9).all()
    with pytest.raises(ValueError, match="8,192 joint states"):
        mc.MeanField(length=1, n_init=1).gap(models(0, 1, chains=13))
