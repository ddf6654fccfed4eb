"""The iterative solution is the dense one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

import mercer as mc

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 2))
y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=150)
K = mc.RBF(gamma=2.0)(X)


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 100.0])
@pytest.mark.parametrize("rank", [0, 20, None, 1000])
def test_equals_the_dense_solution(alpha, rank):
    dense = np.linalg.solve(K + alpha * np.eye(150), y)
    assert np.allclose(
        mc.gram.solve(K, y, alpha=alpha, rank=rank, tol=1e-11, max_iter=3000), dense, rtol=1e-6, atol=1e-8 / alpha
    )


def test_equals_kernel_ridge_and_a_gaussian_process(tmp_path):
    stored = mc.gram.compute(mc.RBF(gamma=2.0), X, store=tmp_path / "gram.zarr")
    weights = mc.gram.solve(stored, y, alpha=0.1)
    assert np.allclose(weights, KernelRidge(kernel="precomputed", alpha=0.1).fit(K, y).dual_coef_, rtol=1e-8)
    process = GaussianProcessRegressor(RBF(0.5), optimizer=None, alpha=0.1).fit(X, y)  # gamma = 1 / (2 scale^2)
    new = rng.normal(size=(5, 2))
    cross = mc.RBF(gamma=2.0)(new, X)
    mean, deviation = process.predict(new, return_std=True)
    assert np.allclose(cross @ weights, mean, rtol=1e-8)
    variance = 1 - (cross * mc.gram.solve(stored, cross.T, alpha=0.1).T).sum(axis=1)
    assert np.allclose(np.sqrt(variance), deviation, rtol=1e-7)


def test_columns_are_solved_together():
    Y = np.column_stack([y, np.zeros(150), np.ones(150)])
    both = mc.gram.solve(aslinearoperator(K), Y, alpha=0.1)
    assert np.allclose(both[:, 0], mc.gram.solve(K, y, alpha=0.1), rtol=1e-7)
    assert not both[:, 1].any()


def test_the_preconditioner_saves_products():
    class Counted:
        shape, products = K.shape, 0

        def __matmul__(self, V):
            Counted.products += 1
            return K @ V

    counts = []
    for rank in (0, 60):
        Counted.products = 0
        mc.gram.solve(Counted(), y, alpha=1e-3, rank=rank)
        counts.append(Counted.products)
    assert counts[1] < counts[0] / 3


def test_a_matrix_of_low_rank_or_zero():
    thin = np.outer(y, y)
    assert np.allclose(mc.gram.solve(thin, y, alpha=0.5), np.linalg.solve(thin + 0.5 * np.eye(150), y), rtol=1e-8)
    assert np.allclose(mc.gram.solve(np.zeros((3, 3)), [1.0, 2.0, 3.0], alpha=0.5), [2.0, 4.0, 6.0])


def test_too_few_iterations_are_told():
    with pytest.warns(ConvergenceWarning, match="Raise rank"):
        mc.gram.solve(K, y, alpha=1e-6, rank=0, max_iter=3)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"K": K[:3]}, "square"),
        ({"K": None}, "square"),
        ({"y": y[:3]}, "150 objects"),
        ({"y": np.full(150, np.nan)}, "finite"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"tol": 1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"rank": -1}, "rank must be"),
        ({"K": -np.eye(150)}, "not positive definite"),
        ({"K": np.full((150, 150), np.nan)}, "not finite"),
        ({"K": np.full((150, 150), np.inf), "rank": 0}, "not finite"),
        ({"K": 1j * K}, "real numbers"),
        ({"K": K.astype(object)}, "real numbers"),
        ({"K": K[:0, :0], "y": y[:0]}, "0 objects"),
        ({"y": 1j * y}, "real numbers"),
        ({"y": ["a"] * 150}, "real numbers"),
    ],
)
def test_bad_calls(change, match):
    asked = {"K": K, "y": y, "alpha": 0.1, **change}
    with pytest.raises(ValueError, match=match):
        mc.gram.solve(**asked)
