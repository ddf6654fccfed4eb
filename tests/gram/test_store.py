"""A matrix on disk is that of ``kernel(X)`` to the last bit, whatever happened while it was computed."""

from __future__ import annotations

import copy
import errno
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator, cg
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import mercer as mc
from mercer import _memory
from mercer._native import library
from mercer.gram import _large
from mercer.gram._stored import StoredGram


def points(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


def kernel():
    return mc.RBF(gamma=0.5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gram.zarr"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make parts of a few tiles, so that a small matrix has many."""
    monkeypatch.setattr(_large, "PARTS_ALONG", 4)


def chains(n=30):
    """HMMs of 2 and 3 states in turn: the engine sorts them."""
    rng = np.random.default_rng(0)

    def some(k):
        leaf = mc.Categoricals(rng.dirichlet(np.ones(4), (n // 2, k)))
        return mc.HMMs(rng.dirichlet(np.ones(k), n // 2), rng.dirichlet(np.ones(k), (n // 2, k)), leaf)

    return mc.HMMs.concat([some(2), some(3)])[np.random.default_rng(1).permutation(n)]


def without(path, *places):
    """Remove parts of a matrix, given by their places among the parts."""
    for i, j in places:
        (path / "K" / "c" / str(i) / str(j)).unlink()


def changed(path, **entries):
    """Change the header of a matrix."""
    file = path / "K" / "zarr.json"
    text = json.loads(file.read_text())
    text["attributes"]["mercer"].update(entries)
    file.write_text(json.dumps(text))


class TestValues:
    @pytest.mark.parametrize("n", [1, 5, 60, 203])
    def test_symmetric(self, path, n):
        K = mc.gram.compute(kernel(), points(n), store=path)
        assert np.array_equal(K.to_numpy(), kernel()(points(n)))
        assert np.array_equal(K.diag(), np.ones(n))

    def test_two_sides(self, path):
        X, Y = points(130), points(61, seed=1)
        K = mc.gram.compute(kernel(), X, Y, store=path)
        truth = kernel()(X, Y)
        assert K.shape == (130, 61)
        assert np.array_equal(np.asarray(K), truth)
        assert np.array_equal(K.diag(), np.diag(truth))
        v, w = np.arange(61.0), np.arange(130.0)
        assert np.allclose(K @ v, truth @ v, rtol=1e-13)
        assert np.allclose(w @ K, w @ truth, rtol=1e-13)
        assert np.allclose(K.rmatvec(w), truth.T @ w, rtol=1e-13)

    def test_sorted_objects(self, path):
        p, k = chains(), mc.ProbabilityProduct(length=5)
        K = mc.gram.compute(k, p, store=path)
        truth = k(p)
        assert not np.array_equal(zarr.open(path, mode="r")["rows"][:], np.arange(30))
        assert np.array_equal(K.to_numpy(), truth)
        assert np.array_equal(K[[3, 0, 7]], truth[[3, 0, 7]])
        assert np.allclose(K @ np.eye(30)[:, :4], truth[:, :4], rtol=1e-14)
        assert np.allclose(np.arange(30) @ K, np.arange(30) @ truth, rtol=1e-13)
        assert np.array_equal(mc.gram.compute(k, p, chains(8), store=path.with_name("b")).to_numpy(), k(p, chains(8)))

    def test_learned_from_the_data(self, path):
        words = ["abab", "bb", "aab", "ba", "abb"]
        k = mc.Fisher(mc.MarkovChain(alphabet="ab")).fit(words)
        assert np.array_equal(np.asarray(mc.gram.compute(k, words, store=path)), k(words))
        with pytest.raises(ValueError, match="other training data"):
            mc.gram.compute(mc.Fisher(mc.MarkovChain(alphabet="ab")).fit(words[:3]), words, store=path)

    def test_float32(self, path):
        X = points(20).astype(np.float32)
        K = mc.gram.compute(kernel(), X, store=path)
        assert K.dtype == kernel()(X).dtype
        assert np.array_equal(K.to_numpy(), kernel()(X))

    def test_an_iterator(self, path):
        assert len(mc.gram.compute(kernel(), iter(points(5).tolist()), store=path)) == 5

    def test_zarr_reads_it(self, path):
        mc.gram.compute(kernel(), points(100), store=path)
        array = zarr.open(path, mode="r")["K"]
        assert array.attrs["mercer"]["kernel"] == "RBF(gamma=0.5)"
        above = np.triu_indices(100)
        assert np.array_equal(array[:][above], kernel()(points(100))[above])


class TestReading:
    @pytest.fixture
    def K(self, path):
        return mc.gram.compute(kernel(), points(100), store=path)

    truth = kernel()(points(100))
    mask = np.arange(100) % 3 == 0

    @pytest.mark.parametrize(
        "key",
        [
            5, -1, np.int64(3), slice(10, 40), slice(None, None, -7), [4, 99, 4], [], mask, (3, 4), (3, slice(2, 5)),
            (slice(90, None), [0, 1]), (slice(None), -2), np.ix_([7, 3, 80], [99, 0]), np.ix_(mask, mask),
        ],
        ids=str,
    )  # fmt: skip
    def test_indices_as_of_numpy(self, K, key):
        found, wanted = K[key], self.truth[key]
        assert found.shape == wanted.shape
        assert np.array_equal(found, wanted)

    @pytest.mark.parametrize(
        "key", [100, -101, [0, 100], 0.5, ([0, 1], [0, 1]), np.ones(5, bool), (1, 2, 3), "a"], ids=str
    )
    def test_bad_indices(self, K, key):
        with pytest.raises(IndexError):
            K[key]

    def test_rows(self, K):
        blocks = list(K.rows(30))
        assert [len(block) for block in blocks] == [30, 30, 30, 10]
        assert np.array_equal(np.concatenate(blocks), self.truth)

    @pytest.mark.parametrize("size", [-1, 0, 2.5, None, True])
    def test_bad_sizes_of_rows(self, K, size):
        with pytest.raises(ValueError, match="1 or more; got"):
            K.rows(size)

    def test_products(self, K):
        V = points(100)
        assert np.allclose(K @ V, self.truth @ V, rtol=1e-13)
        assert np.allclose(V.T @ K, V.T @ self.truth, rtol=1e-13)
        assert np.allclose(K.matmat(V)[:, 0], K.matvec(V[:, 0]), rtol=1e-13)
        assert np.allclose(aslinearoperator(K).matvec(V[:, 1]), self.truth @ V[:, 1], rtol=1e-13)
        with pytest.raises(ValueError, match="100 rows"):
            K @ np.ones(99)
        with pytest.raises(TypeError, match="list of <U1"):
            K @ ["a", "b"]

    def test_sparse_products(self, K):
        V = csr_array(np.eye(100)[:, :3])
        assert np.array_equal(K @ V, self.truth[:, :3])
        assert np.array_equal(V.T @ K, self.truth[:3])

    def test_scipy_solves(self, K):
        solution, failed = cg(K, np.ones(100), rtol=1e-3, maxiter=2000)
        assert not failed
        assert np.linalg.norm(self.truth @ solution - 1) < 0.02

    def test_machines_of_scikit_learn(self, K):
        y = (points(100)[:, 0] > 0).astype(int)
        svm = SVC(kernel="precomputed")
        assert np.array_equal(svm.fit(K, y).predict(K[:10]), svm.fit(self.truth, y).predict(self.truth[:10]))
        assert np.array_equal(cross_val_score(svm, K, y), cross_val_score(svm, self.truth, y))

    def test_copies_read_the_same_folder(self, K, path, monkeypatch):
        monkeypatch.chdir(path.parent)
        copies = [copy.deepcopy(K), pickle.loads(pickle.dumps(mc.gram.open(path.name)))]
        monkeypatch.chdir("/")
        for other in copies:
            assert np.array_equal(other.to_numpy(), self.truth)
        shutil.rmtree(path)
        with pytest.raises(FileNotFoundError, match=r"gram\.zarr"):
            copy.copy(K)

    def test_it_says_what_it_is(self, K, path):
        assert repr(K) == f"<100 x 100 Gram matrix of RBF(gamma=0.5) in {path}>"
        header = zarr.open(path, mode="r")["K"].attrs["mercer"]
        assert header["version"] == mc.__version__
        assert header["processor"].endswith(library.build().level)

    def test_a_copy_is_needed(self, K):
        with pytest.raises(ValueError, match="copy"):
            np.asarray(K, copy=False)

    def test_more_than_memory(self, K, monkeypatch):
        monkeypatch.setattr(_memory, "SMALL", 0)
        monkeypatch.setattr(_memory, "free_bytes", lambda: 1000)
        with pytest.raises(MemoryError, match="K @ v"):
            K.to_numpy()
        assert K @ np.ones(100) is not None


class TestRefused:
    @pytest.fixture(autouse=True)
    def made(self, path):
        mc.gram.compute(kernel(), points(40), store=path)

    @pytest.mark.parametrize(
        ("other", "data", "match"),
        [
            (mc.RBF(gamma=0.6), points(40), "not of RBF"),
            (mc.Linear(), points(40), "Choose another path"),
            (kernel(), points(41), "40 objects"),
            (kernel(), points(40)[::-1], "not these data"),
        ],
        ids=["gamma", "kernel", "size", "order"],
    )
    def test_other_kernels_and_data(self, path, other, data, match):
        before = sorted(file.stat().st_mtime_ns for file in path.rglob("*"))
        with pytest.raises(ValueError, match=match):
            mc.gram.compute(other, data, store=path)
        assert before == sorted(file.stat().st_mtime_ns for file in path.rglob("*"))

    def test_the_other_side(self, path):
        with pytest.raises(ValueError, match="not these data"):
            mc.gram.compute(kernel(), points(40), points(40, seed=1), store=path)

    def test_the_same_again_computes_nothing(self, path, monkeypatch):
        monkeypatch.setattr(mc.RBF, "_tile", None)
        assert mc.gram.compute(kernel(), points(40), store=path).shape == (40, 40)

    def test_another_processor_is_told(self, path):
        changed(path, processor="one of another kind")
        without(path, (0, 0))
        with pytest.warns(UserWarning, match="of another kind"):
            mc.gram.compute(kernel(), points(40), store=path)
        assert zarr.open(path, mode="r")["K"].attrs["mercer"]["mixed"]

    def test_another_format(self, path):
        changed(path, format=3)
        with pytest.raises(ValueError, match="has format 3; this version reads format 2"):
            mc.gram.open(path)

    @pytest.mark.parametrize("name", ["K/zarr.json", "rows/zarr.json", "rows/c/0"])
    @pytest.mark.parametrize("damage", ["", "{}", "[]", "\xff", "gone"])
    def test_a_damaged_description(self, path, name, damage):
        if damage == "gone":
            (path / name).unlink()
        else:
            (path / name).write_text(damage, encoding="latin-1")
        for read in (lambda: mc.gram.open(path), lambda: mc.gram.compute(kernel(), points(40), store=path)):
            with pytest.raises(ValueError, match=r"gram.zarr is damaged: its description .* remove the folder"):
                read()

    def test_something_else(self, path, tmp_path):
        with pytest.raises(ValueError, match="Choose another path"):
            mc.gram.compute(kernel(), points(3), store=tmp_path)
        (tmp_path / "file").write_text("text")
        with pytest.raises(ValueError, match="Choose another path"):
            mc.gram.compute(kernel(), points(3), store=tmp_path / "file")
        with pytest.raises(FileNotFoundError, match="Create it first"):
            mc.gram.compute(kernel(), points(3), store=tmp_path / "no" / "gram.zarr")
        with pytest.raises(FileNotFoundError, match="no Gram matrix"):
            mc.gram.open(tmp_path / "no")
        with pytest.raises(TypeError, match="path"):
            mc.gram.compute(kernel(), points(3), store=3)
        with pytest.raises(ValueError, match="null character"):
            mc.gram.compute(kernel(), points(3), store="a\0b")


class TestFailures:
    X = points(150)
    truth = kernel()(X)

    def finish(self, path):
        return np.array_equal(mc.gram.compute(kernel(), self.X, store=path).to_numpy(), self.truth)

    def test_a_full_disk(self, path, monkeypatch):
        write = zarr.Array.__setitem__

        def full(array, key, values):
            if array.nchunks_initialized == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(array, key, values)

        monkeypatch.setattr(zarr.Array, "__setitem__", full)
        match = r"\(No space left on device\): 2 of 10 tiles are kept, and the others need 144.0 KiB"
        with mc.config(n_jobs=1), pytest.raises(OSError, match=match) as caught:
            mc.gram.compute(kernel(), self.X, store=path)
        assert "\n" not in str(caught.value)
        monkeypatch.undo()
        with pytest.raises(ValueError, match="2 of 10 tiles"):
            mc.gram.open(path)
        assert self.finish(path)

    def test_a_disk_that_is_too_small(self, path, monkeypatch):
        class Usage:
            free = 1000

        monkeypatch.setattr(_large.shutil, "disk_usage", lambda _: Usage)
        monkeypatch.setattr(mc.HMM, "fit_each", None)
        with pytest.raises(OSError, match=r"needs 88.5 KiB on disk, and 1000 bytes are free"):
            mc.gram.compute(kernel(), self.X, store=path)
        assert not path.exists()

    def test_a_read_only_folder(self, path, monkeypatch):
        def refused(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(Path, "mkdir", refused)
        with pytest.raises(PermissionError, match=r"cannot be written \(Permission denied\)"):
            mc.gram.compute(kernel(), self.X, store=path)

    @pytest.mark.parametrize("damage", ["flipped", "short", "gone"])
    def test_a_damaged_tile(self, path, damage):
        mc.gram.compute(kernel(), self.X, store=path)
        K = mc.gram.open(path)
        tile = path / "K" / "c" / "0" / "1"
        data = bytearray(tile.read_bytes())
        data[100] ^= 1
        if damage == "gone":
            tile.unlink()
        else:
            tile.write_bytes(data if damage == "flipped" else data[:-8])
        with pytest.raises(ValueError, match=r"Tile 0/1 of .* is damaged"):
            K.to_numpy()
        assert np.array_equal(K[-1], self.truth[-1])  # other tiles
        others = {file: file.stat().st_mtime_ns for file in (path / "K").rglob("*") if file != tile and file.is_file()}
        assert self.finish(path)
        assert all(file.stat().st_mtime_ns == at for file, at in others.items())

    def test_control_c(self, path, monkeypatch):
        write = StoredGram._write

        def interrupted(stored, block, values):
            if block.rows.start == block.columns.start > 0:
                raise KeyboardInterrupt
            write(stored, block, values)

        monkeypatch.setattr(StoredGram, "_write", interrupted)
        with mc.config(n_jobs=2), pytest.raises(KeyboardInterrupt, match=r"of 10 tiles are kept in .* continue"):
            mc.gram.compute(kernel(), self.X, store=path)
        monkeypatch.undo()
        assert self.finish(path)

    def test_an_error_of_the_kernel(self, path, monkeypatch):
        with pytest.raises(ValueError, match="zero norm"):
            mc.gram.compute(mc.Linear(), np.zeros((5, 2)), store=path)
        assert mc.gram.compute(mc.Linear(), np.ones((5, 2)), store=path).shape == (5, 5)

    def test_a_resumed_matrix_is_read_once(self, path, monkeypatch):
        mc.gram.compute(kernel(), self.X, store=path)
        without(path, (0, 1))
        places, read = [], StoredGram._read
        monkeypatch.setattr(StoredGram, "_read", lambda self, block: (places.append(str(block)), read(self, block))[1])
        mc.gram.compute(kernel(), self.X, store=path)
        assert len(places) == len(set(places)) == 10

    def test_parts_have_a_fixed_size(self, path, monkeypatch):
        monkeypatch.setattr(_large, "tile_shape", lambda *_: (4, 4))
        assert mc.gram.compute(kernel(), self.X, store=path)._part == (36, 36)  # a quarter, in whole tiles
        monkeypatch.setattr(_large, "PART_TILES", 2)
        assert mc.gram.compute(kernel(), self.X, store=path.with_name("b"))._part == (8, 8)

    def test_more_objects_than_memory(self):
        X = np.zeros((200_000, 1))
        with pytest.raises(MemoryError, match=r"200,000 samples needs 298.0 GiB .* store="):
            mc.gram.compute(kernel(), X)


def slowly(kernel, X, path):
    """Compute a matrix of 10 tiles, each of which takes a few milliseconds."""
    write = StoredGram._write
    StoredGram._write = lambda *given: (time.sleep(0.003), write(*given))
    with mc.config(n_jobs=1):
        mc.gram.compute(kernel, X, store=path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
class TestKilled:
    X = points(200)

    def killed(self, folder, times, seed):
        """Kill processes that compute the matrix, at random moments, and let others continue."""
        context, rng, path = multiprocessing.get_context("fork"), np.random.default_rng(seed), folder / "whole.zarr"

        def files():
            return {file.relative_to(path): file.read_bytes() for file in path.glob("K/c/*/*") if file.name.isdigit()}

        truth, kills = mc.gram.compute(kernel(), self.X, store=path).to_numpy(), 0
        assert np.array_equal(truth, kernel()(self.X))
        whole = files()
        while kills < times:
            path = folder / f"{kills}.zarr"
            for _ in range(3):
                process = context.Process(target=slowly, args=(kernel(), self.X, path))
                process.start()
                time.sleep(rng.uniform(0, 0.05))
                process.kill()
                process.join()
                kills += process.exitcode != 0
            mc.gram.compute(kernel(), self.X, store=path)
            assert files() == whole

    @pytest.mark.parametrize("left", ["zarr.json", "rows/zarr.json", "K/zarr.json"])
    def test_a_description_that_was_not_finished(self, tmp_path, left):
        file = tmp_path / "new.zarr" / f"{left}.abc.partial"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"{")
        found = mc.gram.compute(kernel(), self.X, store=tmp_path / "new.zarr")
        assert np.array_equal(found.to_numpy(), kernel()(self.X))

    def test_a_few_times(self, tmp_path):
        self.killed(tmp_path, 3, seed=0)

    @pytest.mark.slow
    def test_fifty_times(self, tmp_path):
        self.killed(tmp_path, 50, seed=1)


@pytest.mark.slow
def test_another_process_continues(tmp_path):
    """What a store is compared with is the same in every process."""
    program = """
import sys, numpy as np, mercer as mc
words = ["abab", "bb", "aab", "ba", "abb", "babb"]
X = np.random.default_rng(0).normal(size=(6, 2))
kernels = [
    (mc.ProbabilityProduct(mc.HMM(2, n_init=1), length=5), words),
    (mc.Fisher(mc.MarkovChain()).fit(words), words),
    (mc.RBF(gamma=1.0) + mc.Linear(), X),
    (mc.Centered(mc.RBF(gamma=1.0)).fit(X), X),
]
for i, (kernel, data) in enumerate(kernels):
    K = mc.gram.compute(kernel, data, store=f"{sys.argv[1]}/{i}.zarr")
    assert np.array_equal(K.to_numpy(), kernel(data)), kernel
"""
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], env={**os.environ, "PYTHONHASHSEED": seed}, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for i in range(4):
            without(tmp_path / f"{i}.zarr", (0, 0))  # it is missing in the second process


def test_without_zarr(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"pip install 'mercer\[store\]'"):
        mc.gram.compute(kernel(), points(3), store=path)
    assert not path.exists()
