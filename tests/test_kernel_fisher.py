"""Fisher: scores by finite differences, every information against g' I^+ g written out."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import mercer as mc
from contract import KernelContract, normalised
from mercer.kernels._operands import CenteredCounts


def gaussian_log_density(x, parameters):
    """Log density of points under independent Gaussians with parameters (means, log standard deviations)."""
    mean, log_sd = np.split(parameters, 2)
    return np.sum(-0.5 * ((x - mean) / np.exp(log_sd)) ** 2 - log_sd - 0.5 * np.log(2 * np.pi), axis=-1)


def scores_by_differences(x, parameters, log_density=gaussian_log_density, h=1e-5):
    """Gradient of the log density of every point, ``(T, P)``."""
    steps = h * np.eye(len(parameters))
    return np.stack(
        [(log_density(x, parameters + s) - log_density(x, parameters - s)) / (2 * h) for s in steps], axis=-1
    )


class TestMatrix(KernelContract):
    """One point a datum, a diagonal Gaussian fitted to all."""

    needs_fit = True
    features = True
    information = "identity"
    truth_tolerance = 1e-6
    degenerate = "zero norm|singular covariance.*add a floor"

    def kernel(self):
        return mc.Fisher(mc.Gaussian("diagonal", floor=0.0), information=self.information, ridge=0.01)

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(1.0, [1.0, 2.0], size=(n, 2))

    def nearly(self, epsilon):
        x = self.data(0, 1)
        return np.concatenate([x, x + epsilon * np.arange(1, 3)])

    def scores(self, X):
        points = np.concatenate(X) if isinstance(X, list) else X
        parameters = np.concatenate([points.mean(axis=0), np.log(points.std(axis=0))])
        if isinstance(X, list):
            return np.array([scores_by_differences(x, parameters).sum(axis=0) for x in X])
        return scores_by_differences(X, parameters)

    def truth(self, X):
        g = self.scores(X)
        moment = g.T @ g / len(g)
        if self.information == "identity":
            return g @ g.T
        if self.information == "diagonal":
            moment = np.diag(np.diag(moment))
        return g @ np.linalg.inv(moment + 0.01 * np.trace(moment) / len(moment) * np.eye(len(moment))) @ g.T


class TestDiagonal(TestMatrix):
    information = "diagonal"


class TestEmpirical(TestMatrix):
    information = "empirical"


class TestSets(TestMatrix):
    """Scores are summed over the points of a set."""

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(n)]

    def nearly(self, epsilon):
        return [np.array([[0.0, 1.0]]), np.array([[epsilon, 1.0]])]


class TestGivenModel(KernelContract):
    """A batch of shape (1,) is used as it is, without fit; exact information."""

    features = True

    def kernel(self):
        return mc.Fisher(mc.Categoricals([[0.5, 0.3, 0.2]], alphabet="abc"), information="exact", normalize=False)

    def other_data(self, seed, n):
        return None  # the model's alphabet is the only one

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["".join(rng.choice(list("abc"), rng.integers(1, 6))) for _ in range(n)]

    def truth(self, X):
        """FK-1: for symbols the invariant kernel is delta / p - 1, summed over all pairs."""
        p = dict(zip("abc", (0.5, 0.3, 0.2), strict=True))

        def pair(x, y):
            return sum((a == b) / p[a] - 1 for a, b in itertools.product(x, y))

        return np.array([[pair(x, y) for y in X] for x in X])


@pytest.mark.parametrize("shape", [(3, 5), (8, 5)])
@pytest.mark.parametrize("ridge", [1e-3, 0.0])
def test_empirical_information_is_the_direct_inverse(shape, ridge):
    """More parameters (10) than data (3 or 8) or fewer: the same formula; without a ridge the pseudo-inverse."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=shape), rng.normal(size=(4, 5))
    k = mc.Fisher(mc.Gaussian("diagonal"), information="empirical", ridge=ridge, normalize=False).fit(X)
    plain = mc.Fisher(k.model_, normalize=False)
    g, h = plain.features(X), plain.features(new)
    moment = g.T @ g / len(g)
    if ridge:
        inverse = np.linalg.inv(moment + ridge * np.trace(moment) / 10 * np.eye(10))
    else:
        inverse = np.linalg.pinv(moment, rcond=1e-12, hermitian=True)
    np.testing.assert_allclose(k(new), h @ inverse @ h.T, rtol=1e-6, atol=1e-8)
    values = np.linalg.eigvalsh(moment)
    np.testing.assert_allclose(k.effective_rank_, values.sum() ** 2 / np.sum(values**2), rtol=1e-9)


FAMILIES = [
    mc.Gaussians([[0.5, -1.0]], [[[1.0, 0.3], [0.3, 0.5]]]),
    mc.Gaussians([[0.5, -1.0]], [[1.5, 0.5]]),
    mc.Gaussians([[0.5, -1.0]], [0.7]),
    mc.Poissons([[1.0, 4.0]]),
    mc.Bernoullis([[0.2, 0.6]]),
]


@pytest.mark.parametrize("model", FAMILIES, ids=lambda p: f"{type(p).__name__}-{getattr(p, 'structure', '')}")
def test_sampled_information_is_near_the_exact_one(model):
    X = model.sample(12, random_state=1)[0]
    exact = mc.Fisher(model, information="exact", normalize=False)(X)
    sampled = mc.Fisher(model, information="sampled", n_samples=40_000, ridge=0.0, normalize=False)(X)
    np.testing.assert_allclose(sampled, exact, atol=0.05 * np.abs(exact).max())
    k = mc.Fisher(model, information="exact", normalize=False)
    scores, information = mc.Fisher(model, normalize=False).features(X), np.asarray(model.fisher_information())[0]
    np.testing.assert_allclose(k(X), scores @ np.linalg.pinv(information) @ scores.T, rtol=1e-8, atol=1e-10)


def test_exact_information_does_not_depend_on_the_parameters():
    """T-22: the kernel is that of the parameters (mean, variance), scores by differences, information by quadrature."""
    model = mc.Gaussians([[0.5]], [[1.7]])
    X = np.array([[-1.0], [0.0], [0.4], [3.0]])

    def log_density(x, parameters):
        mean, variance = parameters
        return (-0.5 * (x - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance))[..., 0]

    parameters = np.array([0.5, 1.7])
    grid = np.linspace(-14, 15, 4001)[:, None]
    mass = np.exp(log_density(grid, parameters)) * (grid[1, 0] - grid[0, 0])
    on_grid = scores_by_differences(grid, parameters, log_density)
    information = (on_grid * mass[:, None]).T @ on_grid
    g = scores_by_differences(X, parameters, log_density)
    expected = g @ np.linalg.inv(information) @ g.T
    np.testing.assert_allclose(mc.Fisher(model, "exact", normalize=False)(X), expected, rtol=1e-6, atol=1e-8)


def test_given_model_is_the_fitted_one():
    X = np.random.default_rng(0).normal(size=(9, 2))
    model = mc.Gaussian().fit(X).model_
    for information in ("identity", "exact", "sampled"):
        fitted = mc.Fisher(mc.Gaussian(), information=information).fit(X)
        np.testing.assert_allclose(mc.Fisher(model, information=information)(X), fitted(X), rtol=1e-10)
        np.testing.assert_allclose(mc.Fisher(model, information=information).fit_transform(X), fitted(X), rtol=1e-10)


def test_counts_dense_and_sparse():
    from scipy import sparse

    X = np.random.default_rng(0).poisson(1.0, (8, 5)).astype(float) + np.eye(8, 5)
    k = mc.Fisher(mc.Multinomial(), information="exact").fit(X)
    p = X.sum(axis=0) / X.sum()
    g = X - X.sum(axis=1, keepdims=True) * p
    expected = normalised(g @ np.linalg.pinv(np.diag(p) - np.outer(p, p)) @ g.T)
    np.testing.assert_allclose(k(X), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(k(sparse.csr_array(X)), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(k.fit_transform(sparse.csr_array(X)), expected, rtol=1e-9, atol=1e-10)


def test_degenerate_scores_are_no_nan():
    """A coordinate without information counts nothing; a datum at the mean has zero norm."""
    X = np.column_stack([np.arange(4.0), np.zeros(4)])
    for information in ("diagonal", "empirical", "exact", "sampled"):
        for ridge in (0.0, 1e-3):
            k = mc.Fisher(mc.Gaussian("diagonal"), information=information, ridge=ridge, n_samples=100)
            assert np.isfinite(k.fit_transform(X)).all()
    flat = mc.Fisher(mc.Categoricals([[0.5, 0.5]], alphabet="ab"))
    with pytest.raises(ValueError, match=r"object 1 has zero norm under Fisher"):
        flat(["a", "ab"])
    assert np.array_equal(flat.set_params(zero="zero")(["a", "ab"]), np.diag([1.0, 0.0]))


def test_data_of_another_width_do_not_broadcast():
    given = mc.Multinomials([[0.5, 0.3, 0.2]])
    with pytest.raises(ValueError, match=r"the data have 1 coordinates, the model of Fisher has 3"):
        mc.Fisher(given)(np.array([[1.0], [2.0], [5.0]]))
    with pytest.raises(ValueError, match=r"the data have 1 coordinates, the model of Fisher has 3"):
        mc.Fisher(given)([np.ones((2, 1)), np.ones((3, 1))])
    assert mc.Fisher(given)(np.array([[1.0, 0.0, 2.0]])).shape == (1, 1)


def test_other_parameters_of_the_metric_ask_for_another_fit():
    X = np.random.default_rng(0).normal(size=(9, 2))
    k = mc.Fisher(mc.Gaussian("diagonal")).fit(X)
    before = k.transform(X)
    k.set_params(information="empirical")
    for ask in (k.transform, k, k.features):
        with pytest.raises(NotFittedError, match=r"learned its metric with \('identity',\).*call fit again"):
            ask(X)
    k.fit(X).set_params(ridge=0.5)
    with pytest.raises(NotFittedError, match="call fit again"):
        k.transform(X)
    k.set_params(information="identity").fit(X).set_params(ridge=0.1)  # which the identity does not know
    np.testing.assert_array_equal(k.transform(X), before)


@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_more_parameters_than_data_form_no_square_matrix(ridge):
    X = np.random.default_rng(0).normal(size=(5, 40))
    k = mc.Fisher(mc.Gaussian("diagonal", floor=1.0), information="empirical", ridge=ridge, normalize=False).fit(X)
    g = mc.Fisher(mc.Gaussian("diagonal", floor=1.0), normalize=False).fit(X).features(X)
    moment = g.T @ g / 5
    moment += ridge * np.trace(moment) / 80 * np.eye(80)
    expected = g @ np.linalg.pinv(moment, rcond=1e-12, hermitian=True) @ g.T
    np.testing.assert_allclose(k.transform(X), expected, rtol=1e-8, atol=1e-8)
    assert max(np.size(part) for part in k._whiten) == 5 * 80


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("model", [mc.Multinomial(), mc.Multinomials([[0.1, 0.2, 0.3, 0.4, 0.0]])])
def test_sparse_counts_stay_sparse(model, normalize):
    X = np.random.default_rng(0).poisson(0.8, (30, 5)) + np.eye(30, 5)
    S = sparse.csr_array(X)
    k, dense = (mc.Fisher(model, normalize=normalize).fit(data) for data in (S, X))
    assert isinstance(k._prepare(k.train_), CenteredCounts)
    for data in (S, X):
        np.testing.assert_allclose(k.transform(data), dense.transform(X), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(dense.transform(data), dense.transform(X), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(k.features(S), dense.features(X), atol=1e-12)
    np.testing.assert_allclose(k.diag(S), dense.diag(X), rtol=1e-10)
    assert k(S.astype(np.float32)).dtype == np.float64
    same = sparse.csr_array(np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]))
    with pytest.raises(ValueError, match="zero norm"):
        mc.Fisher(mc.Multinomial()).fit_transform(same)


def test_training_data_are_kept_as_they_were():
    X = np.random.default_rng(0).normal(size=(9, 2))
    k, query = mc.Fisher(mc.Gaussian("diagonal")).fit(X), X[:3].copy()
    before = k.transform(query)
    X[:] = 100.0
    with mc.config(memo_bytes=0):
        np.testing.assert_allclose(k.transform(query), before)


def test_bad_input():
    X = np.ones((4, 2)) * np.arange(4.0)[:, None]
    for model in (None, mc.Gaussian, "gaussian", 3):
        with pytest.raises(TypeError, match=r"Fisher needs one model for all data, an estimator such as"):
            mc.Fisher(model).fit(X)
    with pytest.raises(ValueError, match=r"shared model has shape \(3,\): give a batch of shape \(1,\)"):
        mc.Fisher(mc.Poissons(np.ones((3, 2)))).fit(X)
    hmm = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.5, 0.5]]]))
    for model in (hmm, mc.Mixtures([[1.0]], mc.Gaussians([[[0.0]]], [[1.0]]))):
        with pytest.raises(TypeError, match=r"Fisher needs `fisher_scores`, which \w+ does not have; use a family"):
            mc.Fisher(model).fit([[0, 1]])
    with pytest.raises(TypeError, match="compares data under one model, not models: pass the data themselves"):
        mc.Fisher(mc.Poisson()).fit(mc.Poissons(np.ones((3, 2))))
    with pytest.raises(ValueError, match=r"information = 'inverse': give one of 'identity'"):
        mc.Fisher(mc.Gaussian(), information="inverse").fit(X)
    for ridge in (-1.0, np.nan, "a", None):
        with pytest.raises(ValueError, match=r"ridge = .*: give a fraction of the mean information, 0 or more"):
            mc.Fisher(mc.Gaussian(), ridge=ridge).fit(X)
    for n_samples in (0, 1.5, "many"):
        with pytest.raises(ValueError, match=r"n_samples = .*: give the number of points to draw"):
            mc.Fisher(mc.Gaussian(), n_samples=n_samples).fit(X)
    with pytest.raises(NotFittedError, match="information='empirical' is estimated from the training data"):
        mc.Fisher(mc.Poissons([[1.0, 1.0]]), information="empirical")(X)
    with pytest.raises(ValueError, match=r"the data have 3 coordinates, the model of Fisher has 2"):
        mc.Fisher(mc.Gaussians([[0.0, 0.0]], [1.0]))(np.ones((2, 3)))
    assert math.isfinite(mc.Fisher(mc.Gaussian(), information="exact").fit(X).effective_rank_)
