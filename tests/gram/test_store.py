"""A matrix on disk is that of ``kernel(X)``, whatever happened while it was computed."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
import zarr
from scipy.sparse.linalg import cg
from sklearn.svm import SVC

import mercer as mc
from mercer.gram import _compute


def points(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


def kernel():
    return mc.RBF(gamma=0.5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gram.zarr"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make small parts, so that a small matrix has many."""
    monkeypatch.setattr(_compute, "PART", 40)


def chains(n=90):
    """HMMs of 2 and 3 states in turn: the engine sorts them."""
    rng = np.random.default_rng(0)

    def some(k):
        leaf = mc.Categoricals(rng.dirichlet(np.ones(4), (n // 2, k)))
        return mc.HMMs(rng.dirichlet(np.ones(k), n // 2), rng.dirichlet(np.ones(k), (n // 2, k)), leaf)

    return mc.HMMs.concat([some(2), some(3)])[np.random.default_rng(1).permutation(n)]


@pytest.mark.parametrize("n", [1, 40, 203])
def test_symmetric(path, n):
    K = mc.gram.compute(kernel(), points(n), store=path)
    np.testing.assert_allclose(K[:], kernel()(points(n)), rtol=1e-14)
    assert np.array_equal(K[:], K[:].T)
    assert np.array_equal(np.diag(K[:]), np.ones(n))


def test_two_sides_and_sorted_objects(path):
    X, Y = points(130), points(61, seed=1)
    np.testing.assert_allclose(mc.gram.compute(kernel(), X, Y, store=path)[:], kernel()(X, Y), rtol=1e-14)
    p, k = chains(), mc.ProbabilityProduct(length=5)
    np.testing.assert_allclose(mc.gram.compute(k, p, store=path.with_name("b"))[:], k(p), rtol=1e-13)


def test_learned_from_the_data(path):
    words = ["abab", "bb", "aab", "ba", "abb"]
    k = mc.Fisher(mc.MarkovChain(alphabet="ab")).fit(words)
    np.testing.assert_allclose(mc.gram.compute(k, words, store=path)[:], k(words), rtol=1e-14)
    with pytest.raises(ValueError, match="other parameters, training data or objects"):
        mc.gram.compute(mc.Fisher(mc.MarkovChain(alphabet="ab")).fit(words[:3]), words, store=path)


def test_float32_and_an_iterator(path):
    X = points(20).astype(np.float32)
    assert mc.gram.compute(kernel(), X, store=path).dtype == kernel()(X).dtype
    assert mc.gram.compute(kernel(), iter(points(5).tolist()), store=path.with_name("b")).shape == (5, 5)


def test_estimators_read_it(path):
    X, y = points(100), points(100)[:, 0] > 0
    K = mc.gram.compute(kernel(), X, store=path)
    expected = SVC(kernel="precomputed").fit(kernel()(X), y)
    np.testing.assert_allclose(SVC(kernel="precomputed").fit(K, y).dual_coef_, expected.dual_coef_, rtol=1e-6)
    weights = mc.gram.solve(zarr.open_array(path, mode="r"), y.astype(float), alpha=0.1)
    dense = cg(kernel()(X) + 0.1 * np.eye(100), y.astype(float), rtol=1e-12)[0]
    np.testing.assert_allclose(weights, dense, rtol=1e-6, atol=1e-8)


class Counted(mc.RBF):
    pairs = 0

    def _tile(self, a, b):
        Counted.pairs += len(a) * len(b)
        return super()._tile(a, b)


def test_missing_and_damaged_parts_are_computed_again(path):
    X, k = points(120), Counted(0.5)
    whole = mc.gram.compute(k, X, store=path)[:]
    (path / "c" / "0" / "2").unlink()
    file = path / "c" / "1" / "1"
    content = bytearray(file.read_bytes())
    content[7] ^= 1
    file.write_bytes(bytes(content))
    Counted.pairs = 0
    assert np.array_equal(mc.gram.compute(k, X, store=path)[:], whole)
    assert 0 < Counted.pairs <= 2 * 40 * 40 + 1
    Counted.pairs = 0
    assert np.array_equal(mc.gram.compute(k, X, store=path)[:], whole)
    assert Counted.pairs == 0


class Interrupted(mc.RBF):
    calls = 0

    def _tile(self, a, b):
        Interrupted.calls += 1
        if Interrupted.calls == 9:
            raise KeyboardInterrupt
        return super()._tile(a, b)


def test_an_interrupted_computation_continues(path):
    X = points(120)
    with pytest.raises(KeyboardInterrupt):
        mc.gram.compute(Interrupted(0.5), X, store=path)
    np.testing.assert_allclose(mc.gram.compute(Interrupted(0.5), X, store=path)[:], kernel()(X), rtol=1e-14)


def test_another_version_continues_with_a_warning(path, monkeypatch):
    mc.gram.compute(kernel(), points(50), store=path)
    (path / "c" / "0" / "1").unlink()
    monkeypatch.setattr(_compute, "__version__", "9.9")
    with pytest.warns(UserWarning, match=r"is continued with 9\.9 on .*agree to rounding"):
        mc.gram.compute(kernel(), points(50), store=path)


def test_other_matrices_and_folders_are_refused(path, tmp_path):
    mc.gram.compute(kernel(), points(50), store=path)
    for other, X in ((mc.RBF(gamma=0.6), points(50)), (kernel(), points(49)), (mc.Linear(), points(50))):
        with pytest.raises(ValueError, match=r"holds the matrix of RBF\(gamma=0\.5\).*Choose another path"):
            mc.gram.compute(other, X, store=path)
    (tmp_path / "note").mkdir()
    with pytest.raises(ValueError, match="exists and is not a matrix"):
        mc.gram.compute(kernel(), points(5), store=tmp_path / "note")


def test_a_small_disk_is_told_before_models_are_fitted(path, monkeypatch):
    monkeypatch.setattr(_compute.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000}))
    with pytest.raises(OSError, match=r"matrix of RBF needs 68\.0 KiB on disk, and 1000 bytes"):
        mc.gram.compute(kernel(), points(50), store=path)
    assert not path.exists()


@pytest.mark.parametrize(("n", "m"), [(30, 30), (50, 50), (81, 40), (7, 100)])
def test_room_is_that_of_the_files(path, n, m):
    """What is counted before is what the files take, in blocks."""
    mc.gram.compute(kernel(), points(n), points(m, seed=1), store=path)
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    assert sum(-(-size // _compute.BLOCK) for size in sizes) * _compute.BLOCK == _compute._written((n, m))


class FullDisk:
    """A matrix on a disk that is full after three parts."""

    def __init__(self, made):
        self.made, self.left = made, 3

    def __setitem__(self, key, values):
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.made[key] = values


def test_a_full_disk_keeps_what_is_computed(path, monkeypatch):
    real = _compute._made
    with monkeypatch.context() as patch:
        patch.setattr(_compute, "_made", lambda *given: FullDisk(real(*given)))
        with pytest.raises(OSError, match=r"disk of .*gram\.zarr is full.*make the same call again") as caught:
            mc.gram.compute(kernel(), points(120), store=path)
    assert caught.value.errno == errno.ENOSPC
    assert np.isfinite(zarr.open_array(path, mode="r")[:]).any()
    np.testing.assert_allclose(mc.gram.compute(kernel(), points(120), store=path)[:], kernel()(points(120)))


def meanwhile(monkeypatch, other):
    """Let another computation begin after the first one has found nothing at the path."""
    real = _compute._made

    def made(*given):
        monkeypatch.setattr(_compute, "_made", real)
        other()
        return real(*given)

    monkeypatch.setattr(_compute, "_made", made)


def test_two_that_begin_at_once_share_the_matrix(path, monkeypatch):
    meanwhile(monkeypatch, lambda: mc.gram.compute(kernel(), points(90), store=path))
    np.testing.assert_allclose(mc.gram.compute(kernel(), points(90), store=path)[:], kernel()(points(90)))
    assert os.listdir(path.parent) == [path.name]


def test_two_of_different_matrices_that_begin_at_once(path, monkeypatch):
    meanwhile(monkeypatch, lambda: mc.gram.compute(mc.RBF(gamma=2.0), points(90), store=path))
    with pytest.raises(ValueError, match=r"holds the matrix of RBF\(gamma=2\.0\).*Choose another path"):
        mc.gram.compute(kernel(), points(90), store=path)
    np.testing.assert_allclose(zarr.open_array(path, mode="r")[:], mc.RBF(gamma=2.0)(points(90)))
    assert os.listdir(path.parent) == [path.name]


def test_a_folder_that_does_not_exist(path):
    with pytest.raises(FileNotFoundError, match=r"The folder .*missing does not exist\. Create it first"):
        mc.gram.compute(kernel(), points(9), store=path.parent / "missing" / "gram.zarr")


@pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")
def test_parts_that_a_killed_process_left_are_removed(path):
    whole = mc.gram.compute(kernel(), points(90), store=path)[:]
    left = path / "c" / "0" / f"1.{'0' * 32}.partial"
    left.write_bytes(b"half of a part")
    (path / "c" / "0" / "1").unlink()
    with _compute.in_use(path):  # another process writes
        left.write_bytes(b"half of a part")
        (path / "c" / "0" / "1").unlink(missing_ok=True)
        assert np.array_equal(mc.gram.compute(kernel(), points(90), store=path)[:], whole)
        assert left.exists()
    (path / "c" / "0" / "1").unlink()
    assert np.array_equal(mc.gram.compute(kernel(), points(90), store=path)[:], whole)
    assert not left.exists()
