"""Properties of all families of the table: most compare closed forms with sums over its points."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from tests.families.table import RHOS, ROWS, mp, mpmath

import mercer as mc
from mercer._array import namespace, to_numpy
from mercer._batch import is_registered
from mercer.families import calculus


def rows(*needs: str, **want: Any) -> Any:
    """Parametrize by the rows that have what a property needs."""
    names = [n for n, row in ROWS.items() if all(getattr(row, need) is not None for need in needs)]
    names = [n for n in names if all(getattr(ROWS[n], k) == v for k, v in want.items())]
    return pytest.mark.parametrize("row", [ROWS[n] for n in names], ids=names)


def pair(row, shape=3):
    return row.members(np.random.default_rng(0), (shape,)), row.members(np.random.default_rng(1), (2,))


def mass(row, p):
    return np.exp(p.log_prob(row.nodes[0]))


def points(row, p, size=4):
    return p.reshape(-1)[0].sample(size, random_state=1)


def integral(row, values):
    return values @ row.nodes[1]


def smallest_ratio(gram):
    values = np.linalg.eigvalsh(gram)
    return values[0] / values[-1]


# -- densities ---------------------------------------------------------------------------------------------------------


@rows()
def test_normalized(row):
    p, _ = pair(row)
    assert_allclose(integral(row, mass(row, p)), 1, rtol=row.tolerance)


@rows(exponential=True)
def test_exponential_form(row):
    p, _ = pair(row)
    x, theta = points(row, p, 20), p.natural_parameters
    value = theta @ p.statistics(x).T + p.log_base(x) - p.log_partition(theta)[:, None]
    assert_allclose(p.log_prob(x), value, rtol=1e-10, atol=1e-10)


@rows()
def test_samples_have_the_moments(row):
    p, _ = pair(row)
    x = p.sample(4000, random_state=0)
    assert_array_equal(x, p.sample(4000, random_state=np.random.default_rng(0)))
    points_, weights = row.nodes
    for i in range(3):
        drawn = p.statistics(x[i]) if row.exponential else x[i]
        all_ = p.statistics(points_) if row.exponential else points_
        truth = (mass(row, p)[i] * weights) @ all_
        error = drawn.std(axis=0) / np.sqrt(4000)
        assert np.all(np.abs(drawn.mean(axis=0) - truth) <= 5 * error + 1e-6)


# -- the log partition, its gradient and its dual ----------------------------------------------------------------------


@rows(exponential=True)
def test_gradient_and_hessian(row):
    p, _ = pair(row)
    t, w = p.statistics(row.nodes[0]), mass(row, p) * row.nodes[1]
    mu = w @ t
    assert_allclose(p.mean_parameters, mu, rtol=10 * row.tolerance, atol=row.tolerance)
    if row.vectors:
        z = p._stacked(p.natural())
        slope = calculus.gradient(p._flat_partition, z, p._bounded)
        assert_allclose(slope, p._stacked(p.moments()), rtol=1e-12, atol=1e-13)
        free = calculus.jacobian(p._slope, z, p._bounded)
        own = p.information()
        assert_allclose(free, own if own.ndim == free.ndim else own[..., None, None], rtol=1e-9, atol=1e-10)
    spread = np.einsum("nt,ti,tj->nij", w, t, t) - mu[:, :, None] * mu[:, None, :]
    assert_allclose(p.fisher_information(), spread, rtol=100 * row.tolerance, atol=100 * row.tolerance)


@rows(exponential=True)
def test_duality(row):
    p, q = pair(row)
    again = p.with_mean_parameters(p.mean_parameters)
    for name in p._arrays:
        assert_allclose(getattr(again, name), getattr(p, name), rtol=1e-9, atol=1e-10)
    z = p._stacked(p.natural())
    if row.vectors and type(p).__name__ != "Multinomials":  # whose natural parameters are redundant
        assert_allclose(p._solved(p._stacked(p.moments())), z, rtol=1e-9, atol=1e-9)
    middle = p.with_mean_parameters((p.mean_parameters[:, None] + q.mean_parameters[None]) / 2)

    def truth(r):
        theta = r.natural_parameters
        return np.sum(theta * r.mean_parameters, axis=-1) - r.log_partition(theta)

    psi = (truth(p)[:, None] + truth(q)) / 2 - truth(middle)
    assert_allclose(p.dual_divergence(q), psi, rtol=1e-9, atol=1e-9)
    both = (p.dual(p.mean_parameters)[:, None] + q.dual(q.mean_parameters)) / 2 - p.dual(middle.mean_parameters)
    assert_allclose(both, psi, rtol=1e-9, atol=1e-9)


@rows(exponential=True)
def test_divergences(row):
    p, q = pair(row)
    x, w = row.nodes
    log_p, log_q = p.log_prob(x), q.log_prob(x)
    gap = np.where(np.exp(log_p)[:, None] > 0, log_p[:, None] - log_q[None], 0)
    assert_allclose(p.kl(q), np.sum((np.exp(log_p) * w)[:, None] * gap, axis=-1), rtol=10 * row.tolerance, atol=1e-8)
    assert_allclose(np.diagonal(p.kl(p)), 0, atol=1e-12)
    psi = p.dual_divergence(q)
    middle = p.with_mean_parameters((p.mean_parameters[:, None] + q.mean_parameters[None]) / 2)
    for i, j in np.ndindex(psi.shape):
        half = p[i : i + 1].kl(middle[i, j : j + 1]) + q[j : j + 1].kl(middle[i, j : j + 1])
        assert_allclose(psi[i, j], half[0, 0] / 2, rtol=1e-8, atol=1e-11)
    assert_allclose(q.dual_divergence(p), psi.T, rtol=1e-11, atol=1e-14)
    assert_allclose(np.diagonal(p.dual_divergence(p)), 0, atol=1e-13)


@rows("exact")
def test_divergence_against_mpmath(row):
    p, q = pair(row, 2)
    psi = p.dual_divergence(q)
    with mpmath.workdps(40):
        for i, j in ((0, 1), (1, 0)):
            assert_allclose(psi[i, j], float(_exact_divergence(row, p[i], q[j])), rtol=1e-11, atol=1e-14)


def _exact_divergence(row, p, q):
    """The dual Jensen-Shannon divergence from the log partition alone."""
    theta, phi = ([mp.mpf(float(v)) for v in side.natural_parameters] for side in (p, q))
    mu, nu = (_slope(row, side) for side in (theta, phi))
    start = p.with_mean_parameters((p.mean_parameters + q.mean_parameters) / 2)
    center, d = [mp.mpf(float(v)) for v in start.natural_parameters], len(theta)
    for _ in range(30):  # Newton
        rest = mp.matrix([(a + b) / 2 - g for a, b, g in zip(mu, nu, _slope(row, center), strict=True)])
        bend = mp.matrix(d, d)
        for i in range(d):
            h = mp.mpf(10) ** -12 * (abs(center[i]) + 1)
            up, down = (_slope(row, [c + s * h * (k == i) for k, c in enumerate(center)]) for s in (1, -1))
            for k in range(d):
                bend[i, k] = (up[k] - down[k]) / (2 * h)
        if max(abs(r) for r in rest) < mp.mpf(10) ** -25:
            break
        if row is ROWS["Categorical"] or row is ROWS["Multinomial"]:  # redundant: hold the last
            bend[d - 1, :], rest[d - 1] = mp.matrix([[0] * (d - 1) + [1]]), 0
        center = [c + s for c, s in zip(center, mp.lu_solve(bend, rest), strict=True)]
    value = 0
    for own, mean in ((theta, mu), (phi, nu)):
        value += (
            sum((a - c) * m for a, c, m in zip(own, center, mean, strict=True)) - row.exact(own) + row.exact(center)
        )
    return value / 2


def _slope(row, theta):
    h, found = mp.mpf(10) ** -15, []
    for i, t in enumerate(theta):
        step = h * (abs(t) + mp.mpf(10) ** -5)
        up, down = ([v + s * step * (k == i) for k, v in enumerate(theta)] for s in (1, -1))
        found.append((row.exact(up) - row.exact(down)) / (2 * step))
    return found


# -- products ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RHOS)
@rows()
def test_products(row, rho):
    if rho not in row.rhos:
        pytest.skip("has no product at this rho")
    p, q = pair(row)
    x, w = row.nodes
    truth = np.log(np.exp(rho * p.log_prob(x)) * w @ np.exp(rho * q.log_prob(x)).T)
    value = p.log_product(q, rho=rho)
    assert_allclose(value, truth, rtol=10 * row.tolerance, atol=10 * row.tolerance)
    own, theirs = (np.diagonal(side.log_product(side, rho=rho)) for side in (p, q))
    assert np.all(value <= (own[:, None] + theirs) / 2 + 1e-11)
    if rho == 0.5:
        assert_allclose(own, 0, atol=1e-12)
    many = row.members(np.random.default_rng(5), (20,))
    gram = many.log_product(many, rho)
    assert smallest_ratio(np.exp(gram - gram.max())) > -1e-12


@rows(exponential=True)
def test_verdicts(row):
    """DJS-5: where the family says so, all forms of JensenShannon are positive semi-definite."""
    p = row.members(np.random.default_rng(5), (20,))
    for t in (0.1, 1.0, 10.0):
        verdicts = {p.dual_psd(form, t) for form in ("exp", "inverse", "centering")}
        if verdicts == {"always"}:
            psi = p.dual_divergence(p)
            assert smallest_ratio(np.exp(-t * psi)) > -1e-12
            assert smallest_ratio(1 / (t + psi)) > -1e-12


@rows("exact", "extreme")
def test_extreme_parameters(row):
    """Bhattacharyya and the divergence of members far apart, and close ones of large parameters."""
    p = row.extreme()
    value, psi = p.log_product(p, 0.5), p.dual_divergence(p)
    assert not np.isnan(value).any()
    assert not np.isnan(psi).any()
    assert_allclose(np.diagonal(value), 0, atol=1e-7)
    theta = p.natural_parameters
    if not np.isfinite(theta).all() or type(p).__name__ == "Multinomials":
        return
    with mpmath.workdps(60):
        rows_ = [[mp.mpf(float(v)) for v in t] for t in theta]
        for i, j in itertools.combinations(range(len(p)), 2):
            middle = [(a + b) / 2 for a, b in zip(rows_[i], rows_[j], strict=True)]
            truth = row.exact(middle) - (row.exact(rows_[i]) + row.exact(rows_[j])) / 2
            assert_allclose(value[i, j], float(truth), rtol=1e-9, atol=1e-7)
    again = p.with_mean_parameters(p.mean_parameters)
    assert_allclose(again.mean_parameters, p.mean_parameters, rtol=1e-7, atol=1e-12)


@rows("boundary")
def test_on_the_boundary(row):
    """Zeros: sums over outcomes agree, KL is infinite where q excludes what p allows; never NaN."""
    p = row.boundary()
    found = mass(row, p)
    assert_allclose(integral(row, found), 1, rtol=1e-9)
    with np.errstate(divide="ignore"):
        for rho in row.rhos:
            truth = np.log(found**rho * row.nodes[1] @ (found**rho).T)
            assert_allclose(p.log_product(p, rho=rho), truth, rtol=1e-9, atol=1e-9)
    assert not np.isnan(p.kl(p)).any()
    assert np.all(np.isfinite(p.dual_divergence(p)))


# -- mean maps ---------------------------------------------------------------------------------------------------------


@rows(vectors=True)
def test_mean_maps(row):
    p, q = pair(row)
    x, w = row.nodes
    if hasattr(p, "log_characteristic"):
        frequencies_ = np.random.default_rng(0).normal(size=(5, x.shape[1])) / 20
        truth = (mass(row, p) * w) @ np.exp(1j * x @ frequencies_.T)
        modulus, angle = p.log_characteristic(frequencies_)
        assert modulus.shape == (3, 5)
        assert_allclose(np.exp(modulus + 1j * angle), truth, rtol=1e-6, atol=row.tolerance)
        assert p[0].log_characteristic(frequencies_)[0].shape == (5,)
        if not hasattr(p, "trials"):
            features = mc.MeanMap(gamma=0.5, n_components=50, normalize=False).fit(p).features(p)
            assert features.shape == (3, 100)
    if hasattr(p, "log_mean_map") and len(x) < 2000 and not hasattr(p, "trials"):
        base = np.exp(-0.7 * np.sum((x[:, None] - x[None]) ** 2, axis=-1))
        truth = np.log((mass(row, p) * w) @ base @ (mass(row, q) * w).T)
        assert_allclose(p.log_mean_map(q, gamma=0.7), truth, rtol=1e-8)


# -- fitting -----------------------------------------------------------------------------------------------------------


def samples(row):
    if row.data is not None:
        return row.data
    p = row.members(np.random.default_rng(3), (4,))
    return [p[i].sample(n, random_state=i) for i, n in enumerate((12, 20, 15, 30))]


@rows("fit")
def test_maximum_likelihood_and_map(row):
    data, fit = samples(row), clone(row.fit)
    found = fit.fit_each(data)
    pooled = fit.fit(data).model_
    assert pooled.shape == (1,)
    shrunk = clone(fit).set_params(prior=pooled, prior_strength=5.0).fit_each(data)
    again = clone(fit).set_params(prior="pooled", prior_strength=5.0).fit_each(data)
    assert_allclose(again.mean_parameters, shrunk.mean_parameters, rtol=1e-9)
    if not row.vectors:
        return
    trials = getattr(found, "trials", 1)
    for i, x in enumerate(data):
        n = x.sum() / trials if trials > 1 else len(x)
        total, mu0 = found.statistics(x).sum(axis=0), pooled.mean_parameters[0]
        assert_allclose(found.mean_parameters[i], total / n, rtol=1e-8, atol=1e-10)
        weight = 5.0 / trials
        assert_allclose(shrunk.mean_parameters[i], (weight * mu0 + total) / (weight + n), rtol=1e-8, atol=1e-10)
        own = found[i].log_prob(x).sum()
        for j in range(len(data)):
            assert found[j].log_prob(x).sum() <= own + 1e-9
    assert_allclose(fit.score_samples(data), [pooled.log_prob(x).sum() for x in data])


@rows("fit")
def test_scikit_learn(row):
    data = samples(row)
    fit = clone(row.fit).set_params(prior="pooled", prior_strength=3.0)
    assert str(clone(fit).get_params()) == str(fit.get_params())
    for kernel in (
        mc.ProbabilityProduct(fit),
        mc.JensenShannon(fit, form="inverse", t=2.0, check_psd=False),
        mc.Fisher(fit),
        mc.Sampled(fit, n_samples=200),
    ):
        K = kernel.fit(data)(data)
        assert_allclose(np.diagonal(K), 1, rtol=1e-7)
        assert_allclose(K, K.T, atol=1e-12)
    assert type(fit.fit(data).model_.estimator()) is type(fit)
    p = fit.model_
    assert pickle.loads(pickle.dumps(p)).digests() == p.digests()


@pytest.mark.filterwarnings("ignore:.*stopped after n_iter")
@rows("fit", vectors=True)
def test_components_and_emissions(row):
    if row.fit.takes != "vectors":
        pytest.skip("counts of documents")
    data = samples(row)
    model = clone(row.fit).set_params(prior="pooled", prior_strength=2.0)
    model.set_params(**{"floor": 1e-3} if "floor" in model.get_params() else {})
    one = clone(model).set_params(prior=None).fit_each([data[0][:1], data[1][[0, 0, 0]]])  # one point, and equal points
    assert np.isfinite(one.mean_parameters).all()
    mixtures = mc.Mixture(model, n_components=2, random_state=0, n_iter=5).fit_each(data)
    hmms = mc.HMM(2, model, random_state=0, n_iter=3).fit_each(data)
    for batch in (mixtures, hmms):
        K = mc.ProbabilityProduct(rho=0.5, length=3)(batch)
        assert np.all(np.isfinite(K))
        assert smallest_ratio(K) > -1e-9
    K = mc.Fisher(mc.HMM(2, model, random_state=0, n_iter=3)).fit(data)(data)
    assert np.all(np.isfinite(K))


# -- shapes, missing values, precision, libraries ----------------------------------------------------------------------


def pairings(row):
    yield from (lambda a, b, rho=rho: a.log_product(b, rho=rho) for rho in row.rhos)
    if row.exponential:
        yield lambda a, b: a.kl(b)
        yield lambda a, b: a.dual_divergence(b)


@rows()
def test_shapes(row, tmp_path):
    p, q = (row.members(np.random.default_rng(s), (2, n)) for s, n in ((0, 3), (1, 4)))
    for pairing in pairings(row):
        out = pairing(p, q)
        assert out.shape == (2, 3, 4)
        for b in range(2):
            assert_allclose(out[b], pairing(p[b], q[b]), rtol=1e-10, atol=1e-12)
        assert_allclose(pairing(p[:1], q)[1], pairing(p[0], q[1]), rtol=1e-10, atol=1e-12)
        assert pairing(p[0, :0], q[0]).shape == (0, 4)
        with pytest.raises(TypeError, match="same family"):
            pairing(p[0], mc.Gaussians([[0.0]], [1.0]))
    x = points(row, p)
    batched = np.stack([x[:3], x[1:4]])
    for method in ("log_prob", "fisher_scores")[: 1 + row.exponential]:
        assert getattr(p, method)(x).shape[:3] == (2, 3, 4)
        out = getattr(p, method)(batched)
        for b in range(2):
            assert_allclose(out[b], getattr(p[b], method)(batched[b]), rtol=1e-10, atol=1e-12)
        assert_allclose(getattr(p[0, 1], method)(x), getattr(p, method)(x)[0, 1], rtol=1e-10, atol=1e-12)
    assert p[0, 1].sample(2, random_state=0).shape == x[:2].shape
    again = type(p[0]).concat([p[0, :2], p[0, 2:]])
    assert again.digests() == p[0].digests()
    if is_registered(type(p)):
        again.save(tmp_path / "p.npz")
        assert mc.load(tmp_path / "p.npz").digests() == again.digests()
    if row.exponential:
        assert len(p.score_names()) == p[0].fisher_scores(x).shape[-1]
        assert p[0].pooled().shape == (1,)


@rows(vectors=True)
def test_missing_values(row):
    p, _ = pair(row)
    x = points(row, p, 3).astype(float)
    x[1, 0] = np.nan
    if not p.independent:
        with pytest.raises(ValueError, match=r"NaN|must be"):
            p.log_prob(x)
        return
    rest = p._map(lambda _, v: v[..., 1:], None)
    assert_allclose(p.log_prob(x)[:, 1], rest.log_prob(x[1:2, 1:])[:, 0], rtol=1e-12)
    assert_array_equal(p.log_prob(np.full_like(x, np.nan)), 0)
    if row.exponential:
        assert_array_equal(p.fisher_scores(x)[:, 1, :: p.dimension], 0)
        sets = [np.concatenate([x, points(row, p, 9)]), points(row, p, 10)]
        assert np.isfinite(clone(row.fit).set_params(prior="pooled").fit_each(sets).mean_parameters).all()


def converted(p, convert):
    return p._map(lambda _, x: convert(np.asarray(x)), None)


def answers(row, p, q, x):
    yield from (pairing(p, q) for pairing in pairings(row))
    yield p.log_prob(x)
    if row.exponential:
        yield from (p.fisher_scores(x), p.fisher_information(), p.natural_parameters, p.mean_parameters)
        yield from (p.dual(p.mean_parameters), p.log_partition(p.natural_parameters), p.pooled().mean_parameters)


@rows()
def test_float32(row):
    p, q = pair(row)
    x = points(row, p)
    a, b = (converted(r, lambda v: v.astype(np.float32)) for r in (p, q))
    narrow = x.astype(np.float32) if row.vectors else x
    for ours, truth in zip(answers(row, a, b, narrow), answers(row, p, q, x), strict=True):
        assert ours.dtype == np.float32
        assert_allclose(ours, truth, rtol=3e-3, atol=3e-3)


@rows()
def test_any_array_library(row):
    p, q = pair(row)
    x = points(row, p)
    a, b = (converted(r, array_api_strict.asarray) for r in (p, q))
    strict = array_api_strict.asarray(x) if row.vectors else x
    for ours, truth in zip(answers(row, a, b, strict), answers(row, p, q, x), strict=True):
        assert namespace(ours) is array_api_strict
        assert_allclose(to_numpy(ours), truth, rtol=1e-9, atol=1e-10)


@rows()
def test_torch(row, torch):
    p, q = pair(row)
    x = points(row, p)
    a, b = (converted(r, torch.asarray) for r in (p, q))
    narrow = torch.asarray(x) if row.vectors else x
    for ours, truth in zip(answers(row, a, b, narrow), answers(row, p, q, x), strict=True):
        assert namespace(ours) is namespace(torch.asarray([0.0]))
        assert not ours.requires_grad
        assert_allclose(to_numpy(ours), truth, rtol=1e-9, atol=1e-10)


@rows()
def test_gradients(row, torch):
    """In natural parameters, or in those of families that are not exponential: against differences."""
    p, q = (r[:2] for r in pair(row))
    names = p._free_names() or list(p._arrays)
    # directions keep their length, and matrices their symmetry
    free = [n for n in names if p._declared[n].within.name not in ("sphere", "definite", "simplex")]
    if not free:
        free = names
    own, theirs = ([torch.tensor(np.array(getattr(r, n)), requires_grad=True) for n in free] for r in (p, q))

    def made(r, values):
        fields = {n: torch.asarray(np.array(getattr(r, n))) for n in r._arrays} | dict(zip(free, values, strict=True))
        definite = [n for n in fields if p._declared[n].within.name == "definite"]
        return r._replaced(**fields | {n: symmetric(fields[n]) for n in definite})

    def symmetric(v):
        return (v + v.mT) / 2

    for pairing in pairings(row):
        assert torch.autograd.gradcheck(
            lambda *v, f=pairing: f(made(p, v[: len(free)]), made(q, v[len(free) :])),
            (*own, *theirs),
            rtol=1e-3,
            atol=1e-5,
        )


@rows("fit", vectors=True)
def test_messages(row):
    p, _ = pair(row)
    who = type(p).__name__
    with pytest.raises(ValueError, match=r"Points must have shape \(T, \d\)"):
        p.log_prob(np.zeros((2, 7)))
    bad = np.full((2, p.dimension), -1.0)
    if not p.support.has(np.asarray(-1.0)) or type(p.support).__name__ == "Rows":
        with pytest.raises(ValueError, match=f"data (of|passed to) {who}"):
            p.log_prob(bad)
    name, value = next((n, np.array(getattr(p, n))) for n in p._free_names())
    value[0] = np.nan
    with pytest.raises(ValueError, match=rf"{name} .*"):
        type(p)(**{n: value if n == name else getattr(p, n) for n in (*p._arrays, *p._shared)})
    for rho in (0, -1.0, np.nan, "half"):
        with pytest.raises(ValueError, match="rho must be a positive number"):
            p.log_product(p, rho=rho)
