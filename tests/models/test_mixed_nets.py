"""Networks of several structures in one Gram matrix, and hidden Markov models among them."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.models.test_bayesnet import random_net

import mercer as mc
from mercer.models._nets import nodes


def chains(seed=0, size=3, n=2):
    rng = np.random.default_rng(seed)
    emission = mc.Categoricals(rng.dirichlet(np.ones(2), size=(size, n)), alphabet="01")
    return mc.HMMs(rng.dirichlet(np.ones(n), size=size), rng.dirichlet(np.ones(n), size=(size, n)), emission)


def loose(seed=0, size=2, length=4, name="day"):
    """Networks without hidden nodes, whose nodes depend on the one before the last."""
    rng = np.random.default_rng(seed)
    names = [f"{name}{t}" for t in range(length)]
    above = {names[t]: [names[t - 2]] for t in range(2, length)}
    tables = {v: rng.dirichlet([1, 1], size=(size, *(2,) * len(above.get(v, [])))) for v in names}
    return mc.BayesNets(tables, dict.fromkeys(names, 2), above)


KERNELS = [mc.ProbabilityProduct(rho=0.5), mc.ProbabilityProduct(rho=1.0), mc.MeanMap(gamma=0.4)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_hidden_markov_model_against_a_network(kernel):
    """T-12: a chain-shaped network is the hidden Markov model."""
    p, q = chains(0), chains(1, 2, n=3)
    shaped = mc.BayesNets.from_hmm(q, 4, [f"day{t}" for t in range(4)])
    kernel = clone(kernel).set_params(length=4, normalize=False)
    exact = kernel(p, q)
    np.testing.assert_allclose(kernel(p, shaped), exact, rtol=1e-12)
    np.testing.assert_allclose(kernel(shaped, p), exact.T, rtol=1e-12)
    fitted = kernel.set_params(normalize=True).fit(shaped)
    np.testing.assert_allclose(fitted.transform(p), kernel(p, q), rtol=1e-12)


def test_probabilities_of_a_hidden_markov_model_and_a_network():
    p, q = chains(0), loose()
    every = np.indices((2,) * 4).reshape(4, -1).T
    text = ["".join(map(str, row)) for row in every]
    expected = np.exp(p.log_prob(text)) @ np.exp(q.log_prob(every)).T
    np.testing.assert_allclose(mc.ProbabilityProduct(rho=1.0, normalize=False)(p, q), expected, rtol=1e-12)


def test_mean_field_bounds_of_several_structures(monkeypatch):
    monkeypatch.setattr(nodes, "SWEEPS", 3)
    parts = [loose(0), mc.BayesNets.from_hmm(chains(0), 4, loose().observed)]
    kernel = mc.MeanField(n_init=1, normalize=False)
    found = kernel.log(mc.BayesNets.together(parts), parts[0])
    np.testing.assert_allclose(found, np.concatenate([kernel.log(part, parts[0]) for part in parts]), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_several_structures_in_one_gram(kernel):
    parts = [loose(0), mc.BayesNets.from_hmm(chains(0), 4, loose().observed), loose(3, 1)]
    mixed = mc.BayesNets.together([parts[0], chains(0), parts[2]])
    blocks = np.block([[kernel(a, b) for b in parts] for a in parts])
    np.testing.assert_allclose(kernel(mixed), blocks, rtol=1e-8)
    order = np.array([4, 0, 5, 2, 1])
    np.testing.assert_allclose(kernel(mixed[order]), blocks[np.ix_(order, order)], rtol=1e-8)
    np.testing.assert_allclose(kernel(mixed[order], parts[0]), blocks[order, :2], rtol=1e-8)
    np.testing.assert_allclose(kernel(parts[0], mixed[order]), blocks[:2, order], rtol=1e-8)
    np.testing.assert_allclose(kernel(mixed[:3], mixed[order]), blocks[:3, order], rtol=1e-8)
    both = type(mixed).concat([mixed[order], mixed[:2]])
    np.testing.assert_allclose(kernel(both), blocks[np.ix_([*order, 0, 1], [*order, 0, 1])], rtol=1e-8)
    assert mc.gram.psd.check(kernel(mixed))


def test_mixed_networks_pass_through_scikit_learn():
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    mixed = mc.BayesNets.together([loose(0, 8), chains(0, 8)])
    kernel = mc.ProbabilityProduct(rho=0.5)
    scores = cross_val_score(make_pipeline(kernel, SVC(kernel="precomputed")), mixed, np.arange(16) // 8, cv=2)
    assert scores.shape == (2,)
    assert len(set(mixed.digests())) == 16
    assert mixed[[3, 9]].digests() == [mixed.digests()[3], mixed.digests()[9]]
    assert repr(mixed) == "MixedNets(shape=(16,), n_structures=2)"


def test_bad_mixtures_are_named(tmp_path):
    with pytest.raises(TypeError, match="together needs a list of batches"):
        mc.BayesNets.together(loose())
    with pytest.raises(TypeError, match="got Poissons"):
        mc.BayesNets.together([loose(), mc.Poissons([[1.0]])])
    with pytest.raises(ValueError, match="same observed variables; 'day0'"):
        mc.BayesNets.together([loose(), loose(name="x")])
    with pytest.raises(TypeError, match="cannot be saved together"):
        mc.BayesNets.together([loose(), loose(1)]).save(tmp_path / "a.npz")
    other = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.5, 0.5]]], alphabet="ab"))
    with pytest.raises(ValueError, match="same states of 'day0'; got 0, 1 and a, b"):
        mc.ProbabilityProduct()(loose(), other)
    with pytest.raises(ValueError, match="2 different names"):
        mc.BayesNets.from_hmm(chains(), 2, ["a", "a"])
    with pytest.raises(TypeError, match="Cannot pair HMMs with BayesNets"):
        mc.ProbabilityProduct(length=4).fit(chains()).transform(loose())
    with pytest.raises(ValueError, match=r"mc\.BayesNets\.together"):
        mc.BayesNets.concat([random_net(0), random_net(0, hidden=("w",))])
