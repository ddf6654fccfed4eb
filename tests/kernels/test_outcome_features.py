"""Explicit features p^rho of distributions over few outcomes: their inner products are the kernel."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.families import Bernoullis


def probabilities(n=6, k=5, seed=0):
    p = np.random.default_rng(seed).dirichlet(np.ones(k), n)
    p[0, 1] = 0.0
    return p / p.sum(axis=1, keepdims=True)


def test_vectors_of_powers():
    p = probabilities()
    kernel = mc.ProbabilityProduct(rho=0.3, normalize=False)
    for batch in (mc.Categoricals(p), mc.Multinomials(p), mc.Multinomials(sparse.csr_array(p))):
        found = kernel.features(batch)
        found = found.toarray() if sparse.issparse(found) else found
        np.testing.assert_allclose(found, p**0.3, rtol=1e-14)
    unit = mc.ProbabilityProduct(rho=1).features(mc.Categoricals(p))
    np.testing.assert_allclose(unit, p / np.linalg.norm(p, axis=1, keepdims=True), rtol=1e-14)


def test_sparse_distributions_have_sparse_features_of_their_dtype():
    p = sparse.csr_array(np.eye(4, 50, dtype=np.float32))
    found = mc.ProbabilityProduct().features(mc.Multinomials(p))
    assert sparse.issparse(found)
    assert found.dtype == np.float32
    assert found.nnz == 4


def test_all_answers_of_bernoullis():
    g = np.random.default_rng(1).uniform(size=(4, 3))
    g[0, 0], g[1, 1] = 0.0, 1.0
    kernel = mc.ProbabilityProduct(rho=0.7, normalize=False)
    answers = list(itertools.product((0, 1), repeat=3))
    slow = [[np.prod([a if b else 1 - a for a, b in zip(row, x, strict=True)]) ** 0.7 for x in answers] for row in g]
    np.testing.assert_allclose(kernel.features(Bernoullis(g)), slow, rtol=1e-13, atol=1e-300)
    columns = mc.Features(mc.ProbabilityProduct(mc.Bernoulli(prior="pooled"))).fit([[0, 1, 0], [1, 1, 0]])
    assert list(columns.get_feature_names_out()) == ["".join(map(str, x)) for x in answers]


@pytest.mark.parametrize("gamma", [0.0, 0.3, 400.0])
@pytest.mark.parametrize("kind", ["categorical", "dense", "sparse"])
def test_mean_maps_too(gamma, kind):
    p = probabilities()
    batch = {"categorical": mc.Categoricals, "dense": mc.Multinomials, "sparse": mc.Multinomials}[kind](
        sparse.csr_array(p) if kind == "sparse" else p
    )
    kernel = mc.MeanMap(gamma=gamma, normalize=False)
    found = kernel.features(batch)
    np.testing.assert_allclose((found @ found.T).toarray() if kind == "sparse" else found @ found.T, kernel(batch))


def test_probabilities_whose_powers_underflow():
    p = np.array([[1e-200, 1.0, 0.0], [1e-200, 0.0, 1.0]])
    q = p / p.sum(axis=1, keepdims=True)
    found = mc.ProbabilityProduct(rho=2.0).features(mc.Categoricals(q))
    np.testing.assert_allclose(found, [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], atol=1e-300)


def test_linear_models_and_landmarks_use_them():
    """An SVM on features is the SVM on the matrix, and so is one on landmarks, which are not needed."""
    from mercer.datasets import make_dna

    strings, y = make_dna(40, random_state=0)
    kernel = mc.ProbabilityProduct(mc.Categorical(alphabet="dna"))
    matrix = make_pipeline(kernel, SVC(kernel="precomputed")).fit(strings, y)
    for features in (mc.Features(kernel), mc.Landmarks(kernel, 10)):
        linear = make_pipeline(features, SVC(kernel="linear")).fit(strings, y)
        np.testing.assert_allclose(
            linear.decision_function(strings), matrix.decision_function(strings), rtol=1e-6, atol=1e-6
        )
        assert linear[0].explicit_
        assert list(linear[0].get_feature_names_out()) == list("ACGT")
    forced = mc.Landmarks(kernel, 40, explicit=False, held_out=0).fit_transform(strings)
    np.testing.assert_allclose(forced @ forced.T, kernel.fit_transform(strings), atol=1e-7)


def test_names_of_the_columns():
    p = mc.Categoricals(probabilities(k=2), alphabet=["low", "high"])
    assert list(mc.Landmarks(mc.ProbabilityProduct()).fit(p).get_feature_names_out()) == ["low", "high"]
    assert list(mc.Landmarks(mc.MeanMap()).fit(p).get_feature_names_out()) == ["low", "high", "constant"]
    random = mc.Landmarks(mc.MeanMap(n_components=1)).fit(p)
    assert list(random.get_feature_names_out()) == ["meanmap0", "meanmap1"]


@pytest.mark.parametrize(
    ("batch", "kernel", "message"),
    [
        (mc.Poissons([[1.0]]), mc.ProbabilityProduct(), "Bernoullis of at most 12 coordinates; got Poissons"),
        (Bernoullis(np.full((1, 13), 0.5)), mc.ProbabilityProduct(), "at most 12 coordinates; got Bernoullis of 13"),
        (mc.Multinomials([[0.5, 0.5]], trials=3), mc.ProbabilityProduct(), "of one trial, .*; got Multinomials of 3"),
        (mc.Poissons([[1.0]]), mc.MeanMap(), "Multinomials of one trial; got Poissons.* n_components=1000"),
    ],
)
def test_distributions_without_features(batch, kernel, message):
    with pytest.raises(TypeError, match=message):
        kernel.features(batch)


def test_features_belong_to_the_outcomes_of_fit():
    fitted = mc.ProbabilityProduct().fit(mc.Categoricals(probabilities(k=2), "ab"))
    with pytest.raises(ValueError, match="differ in alphabet"):
        fitted.features(mc.Categoricals(probabilities(k=2), "ba"))
