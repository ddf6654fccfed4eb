"""Landmarks: projections by their formula, the error estimate, choices, pipelines, every kind of data, R8."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.datasets import fetch_r8, make_dna
from mercer.kernels import landmarks as module
from mercer.kernels._choice import Draw, far_apart
from mercer.kernels.landmarks import Landmarks

METHODS = ["uniform", "kmeans++"]


def points(n=80, seed=0, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


def gaussian(X, Y, gamma=0.3):
    return np.exp(-gamma * np.sum((X[:, None] - Y) ** 2, axis=-1))


# -- features ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_inner_products_are_nystroems(method):
    X, new = points(), points(20, seed=1)
    found = Landmarks(mc.RBF(gamma=0.3), 12, method)
    features = found.fit_transform(X)
    Z = X[found.indices_]
    W = gaussian(Z, Z)
    np.testing.assert_allclose(
        features @ found.transform(new).T, gaussian(X, Z) @ np.linalg.solve(W, gaussian(Z, new)), atol=1e-8
    )
    np.testing.assert_allclose(found.transform(X), features, atol=1e-9)
    assert features.shape == (80, 12)
    assert found.get_feature_names_out().tolist() == [f"landmarks{i}" for i in range(12)]
    np.testing.assert_allclose(found.eigenvalues_, np.linalg.eigvalsh(gaussian(Z, Z))[::-1], rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_all_objects_as_landmarks_are_exact(method):
    X = points(30)
    found = Landmarks(mc.RBF(gamma=2.0), 100, method)
    features = found.fit_transform(X)
    np.testing.assert_allclose(features @ features.T, gaussian(X, X, 2.0), atol=1e-9)
    assert sorted(found.indices_) == list(range(30))
    assert found.error_ is None
    assert found.error_spread_ is None


def test_single_precision_cuts_its_own_rounding():
    X = points(60).astype(np.float32)
    found = Landmarks(mc.Linear(normalize=False), 30, explicit=False).fit(X)
    assert len(found.eigenvalues_) == 3


# -- the error -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_error_is_that_of_new_objects(method):
    """Unbiased: over many data sets its mean is that of new objects, within Monte Carlo error."""
    claimed, truth = [], []
    for seed in range(40):
        X, new = points(60, seed), points(100, 1000 + seed)
        with mc.config(memo_bytes=0):
            found = Landmarks(mc.RBF(gamma=0.3), 15, method, held_out=20, random_state=seed).fit(X)
            truth.append(1 - np.mean(np.sum(found.transform(new) ** 2, axis=1)))
        claimed.append(found.error_)
    difference = np.array(claimed) - truth
    spread = difference.std(ddof=1) / np.sqrt(len(difference))
    assert abs(difference.mean()) < 4 * spread
    assert spread < 0.1 * np.mean(truth)


def test_the_error_by_its_formula():
    X = points()
    found = Landmarks(mc.Linear(normalize=False) + mc.RBF(gamma=1.0), 10, held_out=70).fit(X)
    rest = np.setdiff1d(np.arange(80), found.indices_)  # all of them are held out
    own = np.sum(X**2, axis=1) + 1
    missing = own - np.sum(found.transform(X) ** 2, axis=1)
    np.testing.assert_allclose(found.error_, missing[rest].sum() / own[rest].sum(), rtol=1e-9)
    resampled = np.random.default_rng(0).choice(rest, size=(4000, 70))
    bootstrap = (missing[resampled].sum(axis=1) / own[resampled].sum(axis=1)).std()
    np.testing.assert_allclose(found.error_spread_, bootstrap, rtol=0.1)


# -- choices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_choice_depends_on_objects_and_seed_alone(method):
    X = points()
    order = np.random.default_rng(5).permutation(80)
    a, b = (Landmarks(mc.RBF(gamma=0.3), 9, method).fit(data) for data in (X, X[order]))
    assert {*a.indices_} == {*order[b.indices_]}
    assert a.error_ == pytest.approx(b.error_)
    other = Landmarks(mc.RBF(gamma=0.3), 9, method, random_state=1).fit(X)
    assert {*a.indices_} != {*other.indices_}
    for state in (None, np.random.default_rng(0), np.random.RandomState(0)):
        assert Landmarks(mc.RBF(), 9, method, random_state=state).fit_transform(X).shape == (80, 9)


@pytest.mark.slow
def test_uniform_is_uniform():
    counts = np.zeros(12)
    X = points(12)
    for seed in range(400):
        counts[Landmarks(mc.RBF(), 3, held_out=4, random_state=seed).fit(X).indices_] += 1
    # Binomial with probability 1/4: five standard deviations are 43.
    assert np.abs(counts - 100).max() < 43


def test_kmeans_plus_plus_draws_by_squared_distances():
    X = np.array([[0.0], [1.0], [3.0], [6.0]])
    kernel = mc.Linear(normalize=False).fit(X)
    pairs = np.zeros((4, 4))
    for seed in range(1000):
        draw = Draw(seed, [bytes([i]) for i in range(4)])
        a, b = far_apart(kernel, kernel.train_, np.arange(4), 2, draw)
        pairs[a, b] += 1
    squared = (X - X.T) ** 2
    expected = 1000 / 4 * squared / squared.sum(axis=1, keepdims=True)
    assert np.abs(pairs - expected).max() < 5 * np.sqrt(expected.max())


def test_equal_objects_are_chosen_once():
    X = np.repeat(points(6), 10, axis=0)
    for method in METHODS:
        for seed in range(20):  # however many are held out, one of every kind is left
            found = Landmarks(mc.RBF(gamma=0.3), 20, method, random_state=seed).fit(X)
            assert len(np.unique(X[found.indices_], axis=0)) == len(found.indices_) == 6
            assert found.error_ == pytest.approx(0, abs=1e-9)


def repeated(seed):
    """30 kinds of objects, from 1 to 60 of each."""
    return np.repeat(points(30, seed), np.linspace(1, 60, 30).astype(int), axis=0)


@pytest.mark.parametrize("method", METHODS)
def test_the_error_of_equal_objects_is_that_of_the_data(method):
    claimed, spread, truth = [], [], []
    for seed in range(60):
        X = repeated(seed)
        with mc.config(memo_bytes=0):
            found = Landmarks(mc.RBF(gamma=0.3), 8, method, held_out=60, random_state=seed).fit(X)
        claimed.append(found.error_)
        spread.append(found.error_spread_)
        truth.append(1 - np.mean(np.sum(found.transform(X) ** 2, axis=1)))
    difference = np.array(claimed) - truth
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / np.sqrt(60)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(spread))), difference.std(ddof=1), rtol=0.3)


# -- explicit features ---------------------------------------------------------------------------------------


def test_explicit_features_are_exact():
    strings, _ = make_dna(30, random_state=0)
    found = Landmarks(mc.Spectrum(k=3), 5)
    features = found.fit_transform(strings)
    assert found.explicit_
    assert features.shape == (len(strings), 64)
    assert len(found.get_feature_names_out()) == 64
    np.testing.assert_allclose(features @ features.T, mc.Spectrum(k=3)(strings), atol=1e-12)
    np.testing.assert_array_equal(found.transform(strings[:3]), features[:3])
    assert found.error_ == found.clipped_ == 0
    assert Landmarks(mc.Spectrum(k=3), 5, explicit=False).fit_transform(strings).shape == (len(strings), 5)


def test_wide_dense_features_only_on_demand(monkeypatch):
    monkeypatch.setattr(module, "EXPLICIT_COLUMNS", 2)
    assert not Landmarks(mc.Linear(normalize=False), 2).fit(points()).explicit_
    assert Landmarks(mc.Linear(normalize=False), 2, explicit=True).fit(points()).explicit_
    with pytest.raises(TypeError, match="RBF has no finite explicit features"):
        Landmarks(mc.RBF(), explicit=True).fit(points())


def test_more_landmarks_than_objects_are_lowered_with_a_sentence():
    with pytest.warns(
        UserWarning, match="n_components = 100 is more than the 30 training objects.* n_components=30 or fewer"
    ):
        found = Landmarks(mc.RBF()).fit(points(30))
    assert len(found.indices_) == 30


# -- every kind of data --------------------------------------------------------------------------------------


def kinds():
    strings, y = make_dna(40, random_state=0)
    sets = [np.random.default_rng(i).normal(i % 2, size=(5, 2)) for i in range(40)]
    X = points(40)
    return {
        "matrix": (mc.RBF(), X, y[:40]),
        "sparse": (mc.RBF(), sparse.csr_array(np.where(X > 0, X, 0)), y[:40]),
        "strings": (mc.ProbabilityProduct(mc.Categorical(alphabet="dna")), strings[:40], y[:40]),
        "sequences": (mc.EmpiricalMeanMap(gamma=1.0), mc.Sequences(sets), y[:40]),
        "batch": (mc.ProbabilityProduct(), mc.Gaussian("diagonal").fit_each(sets), y[:40]),
        "sum": (mc.RBF() + mc.Linear(), X, y[:40]),
        "training": (mc.Centered(mc.RBF()) + mc.RBF(), X, y[:40]),
        "shared model": (mc.Fisher(mc.Gaussian("diagonal")), X, y[:40]),
        "confounds": (mc.Residualized(mc.RBF()), mc.Confounded(X, X[:, :1] ** 2), y[:40]),
        "objects": (mc.ProbabilityProduct(mc.Categorical(alphabet="dna")), mc.objects(strings[:40]), y[:40]),
    }


@pytest.mark.parametrize("kind", list(kinds()))
@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_data(kind, method):
    kernel, X, y = kinds()[kind]
    found = Landmarks(kernel, 40, method, explicit=False, held_out=0)
    features = found.fit_transform(X, y)
    exact = clone(kernel).fit(X, y)(X)
    np.testing.assert_allclose(features @ features.T, exact, atol=1e-6)
    rows = X[:3]
    np.testing.assert_allclose(found.transform(rows), features[:3], atol=1e-6)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_allclose(again.transform(rows), features[:3], atol=1e-6)


def test_torch_batches():
    torch = pytest.importorskip("torch")
    z = points(20, d=2)
    p, q = (mc.Gaussians(library(z), library(np.ones((20, 2)))) for library in (np.asarray, torch.asarray))
    a, b = (Landmarks(mc.ProbabilityProduct(), 20, held_out=0).fit_transform(side) for side in (p, q))
    assert isinstance(b, np.ndarray)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-9)
    with pytest.raises(TypeError, match="arrays of different libraries"):
        Landmarks(mc.ProbabilityProduct(), 5).fit(q).transform(p)
    order = np.random.default_rng(1).permutation(20)
    for method in ("uniform", "kmeans++"):  # who is chosen depends on the numbers, not on places or on the library
        chosen = [Landmarks(mc.ProbabilityProduct(), 5, method).fit(x).indices_ for x in (p, q, q[order])]
        assert set(chosen[0]) == set(chosen[1]) == set(order[chosen[2]])


def test_objects_of_zero_norm_are_zero():
    X = np.concatenate([points(), np.zeros((2, 3))])
    features = Landmarks(mc.Linear(on_zero="zero"), 10, explicit=False).fit_transform(X)
    assert np.all(features[-2:] == 0)


# -- scikit-learn --------------------------------------------------------------------------------------------


def test_negative_eigenvalues_are_clipped_with_a_sentence():
    kernel = mc.RBF(gamma=1.0) + (-0.9) * mc.RBF(gamma=3.0)
    with pytest.warns(UserWarning, match=r"Sum is not positive semi-definite on the landmarks. Eigenvalues down to -"):
        found = Landmarks(kernel, 30).fit(points(d=1))
    assert 0 < found.clipped_ < 1
    assert np.all(found.eigenvalues_ > 0)
    assert np.isfinite(found.transform(points(d=1))).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 0}, r"n_components must be .*; got 0\. .*number of landmarks"),
        ({"n_components": 2.5}, r"n_components must be .*; got 2\.5"),
        ({"method": "random"}, r"method must be .*'uniform' or 'kmeans\+\+'; got 'random'"),
        ({"explicit": "no"}, "explicit must be True, False or 'auto'; got 'no'"),
        ({"held_out": -1}, r"held_out must be .*; got -1\. .*number of training objects"),
        ({"random_state": "x"}, r"random_state must be .*; got 'x'"),
        ({"kernel__gamma": -1.0}, "gamma"),
    ],
)
def test_messages(change, message):
    with pytest.raises(ValueError, match=message):
        Landmarks(mc.RBF()).set_params(**change).fit(points())


def test_more_messages():
    with pytest.raises(TypeError, match=r"kernel must be a kernel; got 'rbf'\. Use mc\.RBF\(\)"):
        Landmarks("rbf").fit(points())
    with pytest.raises(NotFittedError):
        Landmarks(mc.RBF()).transform(points())
    with pytest.raises(TypeError, match="sample_weight"):
        Landmarks(mc.RBF()).fit_transform(points(), sample_weight=np.ones(80))
    with pytest.raises(ValueError, match=r"got no data \(0 objects\)"):
        Landmarks(mc.RBF()).fit(points()[:0])
    with pytest.raises(ValueError, match=r"the 3 landmarks has no positive eigenvalue .* Normalize the kernel"):
        Landmarks(0.0 * mc.RBF(), 3).fit(points())
    with pytest.raises(ValueError, match=r"landmarks has no positive eigenvalue .* Normalize the kernel"):
        Landmarks(mc.Linear(normalize=False), 3, "kmeans++", explicit=False).fit(np.zeros((5, 2)))


@parametrize_with_checks(
    [
        Landmarks(mc.RBF()),
        Landmarks(mc.Linear(on_zero="zero")),
        Landmarks(mc.RBF(), 4, "kmeans++"),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


# -- real documents ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_500_landmarks_on_r8_are_within_one_percent_of_the_exact_kernel():
    train, test = fetch_r8(subset="train"), fetch_r8(subset="test")
    kernel = mc.ProbabilityProduct(mc.Multinomial(), rho=0.5)
    exact = make_pipeline(kernel, SVC(kernel="precomputed")).fit(train.data, train.target)
    linear = make_pipeline(Landmarks(kernel, 500), LinearSVC()).fit(train.data, train.target)
    reference, found = (model.score(test.data, test.target) for model in (exact, linear))
    assert reference > 0.965
    assert found > reference - 0.01
    assert linear[0].error_ < 1e-6  # the features of this kernel are exact
