"""Networks of Jebara, Kondor and Howard (2004) by enumeration, dense algebra and finite sums (4.4, 6, 6.1)."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.stats import multivariate_normal

import mercer as mc


def test_j35_linear_gaussian_dag():
    """Learn p(x) = prod_i N(x_i; b_i0 + sum_j b_ij x_j, S_i), drop the hidden node, and integrate p^rho q^rho."""
    rng, rho, sides = np.random.default_rng(0), 0.7, []
    X = [rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3)) for _ in range(2)]
    for x in X:  # 0 -> 1, 0 -> 2
        B, S = np.zeros((3, 3)), np.diag([x[:, 0].var(), 0.0, 0.0])
        for child in (1, 2):
            B[child, 0] = np.polyfit(x[:, 0], x[:, child], 1)[0]
            S[child, child] = (x[:, child] - np.polyval(np.polyfit(x[:, 0], x[:, child], 1), x[:, 0])).var()
        spread = np.linalg.inv(np.eye(3) - B)
        sides.append((x.mean(axis=0)[1:], (spread @ S @ spread.T)[1:, 1:]))  # node 0 is integrated out
    (m, s), (n, t) = sides
    power = [multivariate_normal(mean, cov / rho) for mean, cov in sides]  # p^rho is proportional to it
    pairs = zip(sides, power, strict=True)
    scale = sum(rho * multivariate_normal(*side).logpdf(side[0]) - p.logpdf(side[0]) for side, p in pairs)
    truth = np.exp(scale + multivariate_normal(n, (s + t) / rho).logpdf(m))
    fitted = mc.Gaussian(parents={0: [], 1: [0], 2: [0]}, floor=0.0).fit_each(X)
    found = mc.ProbabilityProduct(rho=rho, normalize=False)(fitted.marginal([1, 2]))
    np.testing.assert_allclose(found[0, 1], truth, rtol=1e-9)


def test_j43_mean_field_bound():
    """B(Q) = exp(rho E_Q[log p + log q] + H(Q)) <= k~, cycling through Q_n = exp(rho E[log p q | x_n]) / Z_n."""
    rng, rho = np.random.default_rng(0), 0.5
    draw = [(rng.dirichlet([2, 2]), rng.dirichlet([2, 2], size=2)) for _ in range(2)]  # h -> x
    logs = [rho * (np.log(h)[:, None] + np.log(x)) for h, x in draw]
    psi = logs[0][:, None, :] + logs[1][None]  # (h, h', x)
    exact = np.exp(psi).sum()
    best = 0.0
    for start in range(20):
        q = [np.random.default_rng(start).dirichlet([1, 1]) for _ in range(3)]
        for _, n in itertools.product(range(300), range(3)):
            others = [q[m] if m != n else np.ones(2) for m in range(3)]
            own = np.einsum("abc,a,b,c->abc", psi, *others).sum(axis=tuple(m for m in range(3) if m != n))
            q[n] = np.exp(own - own.max()) / np.exp(own - own.max()).sum()
        bound = np.einsum("abc,a,b,c->", psi, *q) - sum(float(p @ np.log(p)) for p in q)
        best = max(best, np.exp(bound))
    nets = mc.BayesNets(
        {"h": [h for h, _ in draw], "x": [x for _, x in draw]}, {"h": 2, "x": 2}, {"x": ["h"]}, hidden=["h"]
    )
    found = mc.kernels.MeanField(rho=rho, normalize=False, n_init=10)(nets)[0, 1]
    np.testing.assert_allclose(found, best, rtol=1e-5)
    assert found <= exact
    np.testing.assert_allclose(mc.ProbabilityProduct(rho=rho, normalize=False)(nets)[0, 1], exact, rtol=1e-9)


def test_j45_factorial_hmms_that_cannot_be_summed_over():
    """Structured mean field fits them: its bound never exceeds the sum over all paths, and EM increases it."""
    rng, length = np.random.default_rng(0), 3
    parts = rng.dirichlet([1, 1], size=(1, 2)), rng.dirichlet([1, 1], size=(1, 2, 2)), rng.normal(size=(1, 2, 2, 1))
    model, x = mc.models.FactorialHMMs(*parts, [[[0.5]]]), rng.normal(size=(length, 1))
    initial, step, effect = (part[0] for part in parts)
    total = 0.0
    for path in itertools.product(itertools.product((0, 1), repeat=2), repeat=length):
        p = np.prod([initial[c, path[0][c]] for c in (0, 1)])
        p *= np.prod([step[c, path[t - 1][c], path[t][c]] for t in range(1, length) for c in (0, 1)])
        means = [effect[0, now[0], 0] + effect[1, now[1], 0] for now in path]
        total += p * np.exp(-np.sum((x[:, 0] - means) ** 2) / (2 * 0.5)) / np.sqrt(2 * np.pi * 0.5) ** length
    bound = model.mean_field([x])[1][0]
    assert np.log(total) - 1 < bound <= np.log(total)
    series, reached = [rng.normal(size=(8, 2)) for _ in range(2)], []
    for n_iter in (1, 2, 4):
        large = mc.FactorialHMM(n_chains=11, prior=None, n_init=1, n_iter=n_iter, tol=0)
        models, info = large.fit_each(series, return_info=True)
        reached.append(info.objective)
    assert models.n_joint > 1024
    assert (np.diff(reached, axis=0) > 0).all()
    K = mc.kernels.MeanField(length=3, n_init=1)(models)
    np.testing.assert_allclose(np.diag(K), 1.0)
    assert 0 < K[0, 1] < 1


def test_j34_undirected_graphs():
    """A loop of factors: the sum over all configurations of p^rho q^rho, each divided by its sum Z."""
    rng, rho, nodes = np.random.default_rng(0), 0.6, dict.fromkeys("abc", 2)
    tables = {pair: rng.gamma(1.0, size=(2, 2, 2)) for pair in (("a", "b"), ("b", "c"), ("c", "a"))}
    p = np.stack([np.einsum("ab,bc,ca->abc", *(table[i] for table in tables.values())) for i in (0, 1)])
    p /= p.sum(axis=(1, 2, 3), keepdims=True)
    nets = mc.models.MarkovNetworks(tables, nodes)
    truth = np.einsum("iabc,jabc->ij", p**rho, p**rho)
    np.testing.assert_allclose(mc.ProbabilityProduct(rho=rho, normalize=False)(nets), truth, rtol=1e-9)
    np.testing.assert_allclose(np.exp(nets.log_prob([[1, 0, 1]]))[:, 0], p[:, 1, 0, 1], rtol=1e-9)
