"""What a Gram matrix will cost, what it is like, whether it is positive semi-definite."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer.gram import psd


def slow_alignment(K, target):
    """Centred alignment by its definition, with matrices of centering."""
    n = len(K)
    H = np.eye(n) - np.ones((n, n)) / n
    a, b = H @ K @ H, H @ target @ H
    return np.trace(a @ b) / np.sqrt(np.trace(a @ a) * np.trace(b @ b))


def healthy(n=40, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return mc.RBF(gamma=0.2)(X)


class TestDiagnose:
    def test_an_identity_is_diagonally_dominant(self):
        with pytest.warns(mc.gram.DiagonalDominanceWarning, match="diagonally dominant"):
            found = mc.gram.diagnose(np.eye(30))
        assert "diagonally dominant" in found.advice
        assert "prior='pooled'" in found.advice
        assert found.effective_rank == pytest.approx(30)
        assert (found.n, found.smallest, found.largest) == (30, 1.0, 1.0)

    def test_all_ones_look_the_same(self):
        found = mc.gram.diagnose(np.ones((30, 30)))
        assert "look alike" in found.advice
        assert found.effective_rank == pytest.approx(1)

    def test_a_healthy_matrix(self):
        found = mc.gram.diagnose(healthy())
        assert found.advice.startswith("No problem found")
        assert found.alignment is None
        assert list(found.off_diagonal) == [0.0, 0.25, 0.5, 0.75, 1.0]
        assert "40 objects" in str(found)

    def test_a_matrix_that_is_not_positive_semi_definite(self):
        K = healthy()
        K[0, 1] = K[1, 0] = 3.0
        found = mc.gram.diagnose(K)
        assert "not positive semi-definite" in found.advice
        assert "Repaired" in found.advice
        assert found.smallest < -1

    def test_quantiles_are_of_the_normalised_kernel(self):
        K = healthy()
        scale = np.random.default_rng(1).uniform(0.1, 10, size=40)
        a, b = mc.gram.diagnose(K), mc.gram.diagnose(K * scale * scale[:, None])
        assert list(a.off_diagonal.values()) == pytest.approx(list(b.off_diagonal.values()))

    def test_effective_rank_by_eigenvalues(self):
        values = np.linalg.eigvalsh(healthy())
        assert mc.gram.diagnose(healthy()).effective_rank == pytest.approx(values.sum() ** 2 / (values**2).sum())

    def test_alignment_with_labels_and_targets(self):
        K, rng = healthy(), np.random.default_rng(2)
        for y in (rng.integers(0, 3, size=40), rng.choice(["a", "b"], size=40), rng.integers(0, 2, size=40) == 1):
            same = (y[:, None] == y).astype(float)
            assert mc.gram.diagnose(K, y).alignment == pytest.approx(slow_alignment(K, same), abs=1e-12)
        y = rng.normal(size=40)
        assert mc.gram.target_alignment(K, y) == pytest.approx(slow_alignment(K, np.outer(y, y)), abs=1e-12)
        assert mc.gram.target_alignment(np.outer(y, y), y) == pytest.approx(1)
        assert mc.gram.target_alignment(K, np.zeros(40, dtype=int)) == 0

    @pytest.mark.parametrize("scale", [1e-300, 1e-221, 1e-170, 1e160, 1e300, 1.5e308])
    def test_the_scale_of_the_kernel_does_not_matter(self, scale):
        K, y = healthy(), np.arange(40) % 3
        plain, scaled = mc.gram.diagnose(K, y), mc.gram.diagnose(scale * K, y)
        assert scaled.effective_rank == pytest.approx(plain.effective_rank, rel=1e-9)
        assert scaled.alignment == pytest.approx(plain.alignment, rel=1e-9)
        assert scaled.smallest / scale == pytest.approx(plain.smallest, abs=1e-12)
        assert list(scaled.off_diagonal.values()) == pytest.approx(list(plain.off_diagonal.values()), rel=1e-9)
        assert scaled.advice == plain.advice
        target = np.random.default_rng(3).normal(size=40)
        expected = mc.gram.target_alignment(K, target)
        assert mc.gram.target_alignment(scale * K, scale / 10 * target) == pytest.approx(expected, rel=1e-9)

    def test_nonsense(self):
        for ask in (mc.gram.diagnose, mc.gram.psd.check, lambda K: mc.gram.target_alignment(K, [0, 1])):
            with pytest.raises(TypeError, match=r"got complex numbers. Pass the real part"):
                ask(np.eye(2) + 1j)
            with pytest.raises(ValueError, match=r"must be finite; got nan at \(0, 1\)"):
                ask([[1.0, np.nan], [np.nan, 1.0]])
        with pytest.raises(ValueError, match=r"must have shape \(40,\), .* got shape \(3,\)"):
            mc.gram.diagnose(healthy(), [1, 2, 3])
        with pytest.raises(ValueError, match="must be finite; got nan for object 1"):
            mc.gram.target_alignment(np.eye(2), [0.5, np.nan])
        with pytest.raises(ValueError, match="must be positive; got 0 for object 1"):
            mc.gram.diagnose(np.diag([1.0, 0.0, 1.0]))
        with pytest.raises(ValueError, match="at least two"):
            mc.gram.diagnose([[1.0]])


class TestCheck:
    def spectrum(self, values):
        n = len(values)
        Q = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
        K = (Q * values) @ Q.T
        return (K + K.T) / 2

    @pytest.mark.slow
    def test_large_matrices_as_the_small_ones(self, monkeypatch):
        """n = 2000 by Lanczos: the crowd of eigenvalues at zero, where the plain method does not converge, included."""
        X = np.random.default_rng(0).normal(size=(2000, 3))
        K = mc.RBF(gamma=0.1)(X)
        lanczos = mc.gram.psd.check(K)
        monkeypatch.setattr(psd, "DENSE_UP_TO", 5000)
        dense = mc.gram.psd.check(K)
        assert (lanczos.method, dense.method) == ("lanczos", "dense")
        assert lanczos.ok
        assert dense.ok
        assert lanczos.largest == pytest.approx(dense.largest, rel=1e-9)
        assert lanczos.smallest == pytest.approx(dense.smallest, abs=1e-11 * dense.largest)

    @pytest.mark.parametrize("smallest", [-1.0, -1e-3, -1e-6, -1e-9, -1e-11, 0.0, 1e-3, 0.5])
    def test_ends_of_the_spectrum(self, monkeypatch, smallest):
        values = np.linspace(max(smallest, 0.0), 1.0, 200)
        values[0] = smallest
        K = self.spectrum(values)
        dense = mc.gram.psd.check(K)
        monkeypatch.setattr(psd, "DENSE_UP_TO", 100)
        lanczos = mc.gram.psd.check(K)
        assert lanczos.method == "lanczos"
        assert dense.ok is lanczos.ok is (smallest > -1e-10)
        assert lanczos.smallest == pytest.approx(smallest, abs=1e-12, rel=1e-3)
        assert lanczos.largest == pytest.approx(1, rel=1e-9)

    @pytest.mark.parametrize("K", [np.eye(150), np.zeros((150, 150)), np.ones((150, 150)), -np.ones((150, 150))])
    def test_degenerate_matrices(self, monkeypatch, K):
        monkeypatch.setattr(psd, "DENSE_UP_TO", 100)
        assert mc.gram.psd.check(K).ok == (K[0, 0] >= 0)

    def test_slightly_negative_within_the_tolerance(self):
        K = self.spectrum(np.append(np.linspace(0, 1, 50), -1e-8))
        assert not mc.gram.psd.check(K)
        assert mc.gram.psd.check(K, tolerance=1e-7)

    def test_rounding_is_no_offence(self):
        X = np.random.default_rng(0).normal(size=(100, 3))
        assert mc.gram.psd.check(X @ X.T)

    @pytest.mark.parametrize(
        ("K", "message"),
        [
            (np.ones((2, 3)), r"must be a square matrix; got shape \(2, 3\)"),
            (np.ones(3), r"must be a square matrix; got shape \(3,\)"),
            (np.zeros((0, 0)), r"must be a square matrix; got shape \(0, 0\)"),
            ([[1.0, np.nan], [np.nan, 1.0]], r"must be finite; got nan at \(0, 1\)"),
            ([[1.0, 0.0], [0.0, np.inf]], r"must be finite; got inf at \(1, 1\)"),
            ([[1.0, 0.5], [0.4, 1.0]], "must be symmetric; got 0.5 .* and 0.4 .* not a cross-Gram matrix"),
        ],
    )
    def test_nonsense(self, K, message):
        with pytest.raises(ValueError, match=message):
            mc.gram.psd.check(K)

    def test_torch(self):
        torch = pytest.importorskip("torch")
        assert mc.gram.psd.check(torch.eye(3, requires_grad=True))


class Counted(mc.RBF):
    """A Gaussian that counts the pairs that are evaluated."""

    pairs = 0

    def _tile(self, a, b):
        Counted.pairs += len(a) * len(b)
        return super()._tile(a, b)


UNFITTED = {
    "Centered": mc.Centered(Counted(0.3)),
    "LogOdds": mc.kernels.LogOdds(Counted(0.3)),
    "EmpiricalKernelMap": mc.EmpiricalKernelMap(Counted(0.3)),
    "Repaired": mc.kernels.Repaired(Counted(0.3)),
    "TargetAligned": mc.kernels.TargetAligned([Counted(0.3), Counted(2.0)]),
    "Tempered": mc.Tempered(Counted(20.0)),
    "Sum": mc.Centered(Counted(0.3)) + Counted(0.1),
}


class TestEstimate:
    def test_pairs_and_bytes(self):
        X = np.zeros((100, 3))
        assert mc.gram.estimate(mc.RBF(gamma=1.0), X).pairs == 5050
        cost = mc.gram.estimate(mc.RBF(gamma=1.0), X, X[:7])
        assert (cost.pairs, cost.bytes) == (700, 5600)
        assert mc.gram.estimate(mc.RBF(gamma=1.0), X.astype(np.float32)).bytes == 40_000
        assert "5,050 pairs" in str(mc.gram.estimate(mc.RBF(gamma=1.0), X))

    def test_the_time_is_that_of_all_objects_and_of_all_tiles_on_the_threads(self, monkeypatch):
        from mercer.gram import _compute

        clock = iter(np.arange(100) * 0.1)
        monkeypatch.setattr(_compute.time, "perf_counter", lambda: next(clock))
        X = np.random.default_rng(0).normal(size=(1024, 2))
        for n_jobs in (1, 2):
            with mc.config(n_jobs=n_jobs):  # 4 x 4 tiles, of which 10 are evaluated; a sample has 2 objects
                expected = 0.1 * 1024 / 2 + 0.1 * 10 * 256**2 / 2**2 / n_jobs
                assert mc.gram.estimate(mc.RBF(gamma=0.1), X).seconds == pytest.approx(expected)

    @pytest.mark.parametrize("name", list(UNFITTED))
    def test_an_unfitted_kernel_is_timed(self, name):
        X = np.random.default_rng(0).normal(size=(300, 2))
        found = mc.gram.estimate(UNFITTED[name], X)
        assert (found.pairs, found.bytes) == (300 * 301 // 2, 8 * 300**2)
        assert not hasattr(UNFITTED[name], "train_")

    def test_unfitted_models_and_confounds(self):
        X = np.random.default_rng(0).normal(size=(30, 2))
        assert mc.gram.estimate(mc.Fisher(mc.Gaussian("diagonal")), X).pairs == 465
        kernel = mc.Residualized(mc.RBF(), normalize=True)  # zero for as few objects as confounds
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert mc.gram.estimate(kernel, mc.Confounded(X, X[:, 0])).pairs == 465
        with pytest.raises(NotFittedError):
            mc.gram.estimate(mc.Centered(mc.RBF()), X, X[:3])

    def test_units(self):
        found = mc.gram.Estimate(200_010_000, 3_200_000_000, 1234.0, 2)
        assert str(found) == "200,010,000 pairs, 3.0 GiB, about 20.6 min on 2 threads"

    def test_only_cores_that_are_free_make_it_faster(self, monkeypatch):
        """Two threads that take turns on one core are not faster than one."""
        from mercer.gram import _compute

        core, clock = threading.Lock(), [0.0]

        class OnOneCore(mc.RBF):
            def _tile(self, a, b):
                with core:
                    clock[0] += 0.1
                return super()._tile(a, b)

        monkeypatch.setattr(_compute.time, "perf_counter", lambda: clock[0])
        X = np.random.default_rng(0).normal(size=(1024, 2))
        found = []
        for n_jobs in (1, 2):
            with mc.config(n_jobs=n_jobs):
                found.append(mc.gram.estimate(OnOneCore(gamma=0.1), X))
        assert [one.threads for one in found] == [1, 2]
        assert found[0].seconds == pytest.approx(0.1 * 10 * 256**2 / 2**2)
        assert found[1].seconds == pytest.approx(found[0].seconds)

    def test_a_few_objects_are_asked(self, monkeypatch):
        from mercer.gram import _compute

        asked = []

        class Counting(mc.EmpiricalMeanMap):
            def _self(self, a):
                asked.append(len(a))
                return super()._self(a)

            def _tile(self, a, b):
                asked.append(len(a) * len(b))
                return super()._tile(a, b)

        monkeypatch.setattr(_compute, "_ENOUGH_SECONDS", 0.0)
        sets = [np.random.default_rng(i).normal(size=(40, 2)) for i in range(30)]
        with mc.config(n_jobs=1):
            assert mc.gram.estimate(Counting(), sets).seconds > 0
        assert sum(asked) == 1 + 1 + 2 * (2 + 4)  # one to warm up, then two, and their self-kernels, twice

    def test_a_moment_without_the_core_is_not_extrapolated(self, monkeypatch):
        from mercer.gram import _compute

        # after the warm-up, the first sample takes 0.1 + 0.1 s, and all others 2e-6 s
        clock = iter([0.0, 0.0, 0.0, 0.0, 0.1, 0.2, *(1.0 + 1e-6 * np.arange(60))])
        monkeypatch.setattr(_compute.time, "perf_counter", lambda: next(clock))
        assert mc.gram.estimate(mc.RBF(gamma=0.1), np.zeros((1024, 2))).seconds < 0.01

    def test_a_class_is_not_a_kernel(self):
        for call in (mc.gram.estimate, mc.gram.compute):
            with pytest.raises(TypeError, match=r"such as mc\.RBF\(\)"):
                call(mc.RBF, np.zeros((3, 2)))

    def test_both_sides_are_read_with_one_alphabet(self):
        kernel = mc.ProbabilityProduct(mc.Categorical())
        assert mc.gram.estimate(kernel, ["ab", "a"], ["cba"]).pairs == 2
        assert kernel(["ab", "a"], ["cba"]).shape == (2, 1)

    def test_sparse_rows(self):
        X = sparse.csr_array(np.random.default_rng(0).poisson(1.0, size=(50, 9)) + 1.0)
        assert mc.gram.estimate(mc.JensenShannon(mc.Multinomial()), X).pairs == 1275

    def test_compute_is_the_call(self):
        X = np.random.default_rng(0).normal(size=(5, 2))
        assert (mc.gram.compute(mc.RBF(), X, X[:2]) == mc.RBF()(X, X[:2])).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_file_holds_numbers(tmp_path, bad):
    with pytest.raises(ValueError, match=rf"must be finite; got {bad} at row 0, column 1"):
        mc.gram.save(tmp_path / "gram.npz", np.array([[1.0, bad], [0.0, 1.0]]))
    assert not (tmp_path / "gram.npz").exists()
