"""The engine fills every cell once, the same for any number of threads and any tile, within a few tiles of memory."""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mercer as mc
from mercer import _parallel
from mercer.gram import engine as _engine
from mercer.gram.engine import blocks, fill, runs, tile_shape


class Points:
    """An operand of points on a line, with the hints that a test gives it."""

    def __init__(self, values, tile_hint=256, order=None):
        self.values = values
        self.tile_hint = tile_hint
        self.order = order

    def __len__(self):
        return self.values.shape[0]

    def __getitem__(self, key):
        return Points(self.values[key], self.tile_hint, None)


def difference(a, b):
    return a.values[:, None] - b.values[None, :]


def distance(a, b):
    return abs(difference(a, b))


def path(a, b):
    """Two leading axes, as for a path of lengths."""
    one = distance(a, b)
    return np.stack([np.stack([k * one + c for c in range(3)]) for k in (1.0, 2.0)])


@st.composite
def operands(draw, symmetric):
    sides = []
    for _ in range(1 if symmetric else 2):
        n = draw(st.integers(1, 40))
        order = draw(st.none() | st.permutations(range(n)))
        hint = draw(st.integers(1, 45))
        start = draw(st.integers(-5, 5))
        values = (np.arange(n) + start) ** 2.0
        sides.append(Points(values, hint, None if order is None else np.array(order)))
    return sides


class TestEveryCell:
    @given(n=st.integers(1, 60), m=st.integers(1, 60), size=st.tuples(st.integers(1, 70), st.integers(1, 70)))
    def test_tiles_of_a_rectangle_cover_it_exactly(self, n, m, size):
        seen = np.zeros((n, m), dtype=int)
        for block in blocks(n, m, size, symmetric=False):
            seen[block.rows, block.columns] += 1
        assert (seen == 1).all()

    @given(n=st.integers(1, 60), size=st.integers(1, 70))
    def test_tiles_of_a_symmetric_matrix_cover_its_upper_half_exactly(self, n, size):
        seen = np.zeros((n, n), dtype=int)
        for block in blocks(n, n, (size, size), symmetric=True):
            seen[block.rows, block.columns] += 1
            if not block.diagonal:
                seen[block.columns, block.rows] += 1
        assert (seen == 1).all()

    @settings(deadline=None)
    @given(sides=operands(symmetric=False))
    def test_a_rectangle_is_filled_in_the_callers_order(self, sides):
        a, b = sides
        np.testing.assert_array_equal(fill(difference, a, b), a.values[:, None] - b.values)

    @settings(deadline=None)
    @given(sides=operands(symmetric=True))
    def test_a_symmetric_matrix_is_filled_in_the_callers_order(self, sides):
        (a,) = sides
        expected = np.abs(a.values[:, None] - a.values)
        np.testing.assert_array_equal(fill(distance, a), expected)

    @settings(deadline=None)
    @given(sides=operands(symmetric=True))
    def test_leading_axes_are_kept(self, sides):
        (a,) = sides
        expected = path(Points(a.values), Points(a.values))
        np.testing.assert_array_equal(fill(path, a), expected)
        np.testing.assert_array_equal(fill(path, a, a), expected)

    def test_the_lower_half_is_a_mirror_image_to_the_bit(self):
        a = Points(np.arange(100.0), tile_hint=30)
        K = fill(lambda p, q: difference(p, q) ** 2 + np.random.default_rng(0).random((len(p), len(q))), a)
        assert (K.T == K).all()

    def test_the_diagonal_is_the_given_one(self):
        order = np.random.default_rng(0).permutation(50)
        a = Points(np.arange(50.0), tile_hint=16, order=order)
        exact = np.arange(50.0) + 0.5
        K = fill(distance, a, diagonal=exact)
        assert (np.diag(K) == exact).all()
        assert (fill(path, a, diagonal=exact)[:, :, np.arange(50), np.arange(50)] == exact).all()

    def test_nothing_gives_an_empty_matrix(self):
        a, nothing = Points(np.arange(3.0)), Points(np.zeros(0))
        assert fill(distance, nothing).shape == (0, 0)
        assert fill(distance, a, nothing).shape == (3, 0)

    def test_float32_stays(self):
        assert fill(distance, Points(np.arange(5, dtype=np.float32))).dtype == np.float32

    def test_few_diagonal_cells_are_evaluated_for_nothing(self):
        """A diagonal tile is evaluated whole; small matrices are cut so that this costs at most about a quarter."""
        for n in (64, 100, 300, 2000):
            size = tile_shape(Points(np.zeros(n), 512), Points(np.zeros(n), 512), True)
            cells = sum(
                (b.rows.stop - b.rows.start) * (b.columns.stop - b.columns.start) for b in blocks(n, n, size, True)
            )
            assert cells <= 1.3 * n * (n + 1) / 2


class TestSameNumbers:
    X = np.random.default_rng(0).normal(size=(300, 5))

    def kernels(self):
        sets = [np.random.default_rng(i).normal(size=(5 + i % 7, 2)) for i in range(150)]
        return [
            (mc.RBF(gamma=0.1), self.X),
            (mc.Linear(), self.X),
            (mc.ProbabilityProduct(mc.Gaussian(prior="pooled")), sets),
            (mc.RBF(gamma=0.1) + 0.5 * mc.Linear(), self.X),
        ]

    @pytest.fixture(autouse=True)
    def eager(self, monkeypatch):
        monkeypatch.setattr(_engine, "PARALLEL_FROM_SECONDS", 0.0)
        monkeypatch.setattr(_engine, "TILE_FROM_SECONDS", 0.0)

    def test_same_bits_for_any_number_of_threads(self):
        for kernel, data in self.kernels():
            with mc.config(n_jobs=1):
                one = kernel(data), kernel(data, data[:40])
            for n_jobs in (2, 3):
                with mc.config(n_jobs=n_jobs):
                    many = kernel(data), kernel(data, data[:40])
                for x, y in zip(one, many, strict=True):
                    assert x.tobytes() == y.tobytes()

    @pytest.mark.parametrize("hint", [pytest.param(5, marks=pytest.mark.slow), 33, 64, 1000])
    def test_any_tile_agrees_to_twelve_digits(self, hint):
        for kernel, data in self.kernels():
            expected = kernel(data)
            ready, prepared, _ = kernel.operands(data)
            sliced = Hinted(prepared, hint)
            K = fill(lambda a, b, k=ready: k._evaluation.exp(k.tile(a.operand, b.operand)), sliced)
            np.testing.assert_allclose(K, expected, rtol=1e-12, atol=1e-14)

    def test_the_diagonal_of_a_normalised_kernel_is_one(self):
        for kernel, data in self.kernels()[:3]:
            assert (np.diag(kernel(data)) == 1).all()


class Hinted:
    """A prepared operand with another tile hint."""

    order = None

    def __init__(self, operand, tile_hint):
        self.operand = operand
        self.tile_hint = tile_hint

    def __len__(self):
        return len(self.operand)

    def __getitem__(self, key):
        return Hinted(self.operand[key], self.tile_hint)


class TestThreads:
    def names(self, monkeypatch, seconds, n_jobs=2):
        """Fill a matrix whose tiles take ``seconds`` by the engine's clock; return the threads that worked."""
        seen = set()
        clock = iter(np.arange(100_000) * seconds)
        monkeypatch.setattr(_engine.time, "perf_counter", lambda: next(clock))

        def tile(a, b):
            seen.add(threading.current_thread().name)
            time.sleep(0.0005)  # long enough for the other thread to take a tile
            return distance(a, b)

        with mc.config(n_jobs=n_jobs):
            fill(tile, Points(np.arange(300.0), tile_hint=16))
        return seen

    def test_small_work_is_done_by_the_caller(self, monkeypatch):
        assert self.names(monkeypatch, seconds=1e-6) == {"MainThread"}

    def test_quick_tiles_are_done_by_the_caller_however_many(self, monkeypatch):
        assert self.names(monkeypatch, seconds=1e-4) == {"MainThread"}

    def test_large_work_is_shared(self, monkeypatch):
        assert len(self.names(monkeypatch, seconds=0.1) - {"MainThread"}) == 2  # the first tile is the caller's

    def test_one_job_means_no_threads(self, monkeypatch):
        assert self.names(monkeypatch, seconds=0.1, n_jobs=1) == {"MainThread"}

    def test_other_peoples_threads_get_one(self):
        found = []
        with mc.config(n_jobs=2):
            thread = threading.Thread(target=lambda: found.append(_parallel.n_threads()))
            thread.start()
            thread.join()
            assert (found, _parallel.n_threads()) == ([1], 2)

    def test_minus_one_is_every_core(self):
        with mc.config(n_jobs=None):
            cores = _parallel.n_threads()
        with mc.config(n_jobs=-1):
            assert _parallel.n_threads() == cores
        with mc.config(n_jobs=-1000):
            assert _parallel.n_threads() == 1

    @pytest.mark.parametrize("threads", [1, 2, 4])
    def test_the_first_error_surfaces_and_stops_the_rest(self, threads):
        done = []

        def work(i):
            if i == 5:
                raise ZeroDivisionError(f"item {i}")
            time.sleep(0.001)
            done.append(i)

        with pytest.raises(ZeroDivisionError, match="item 5"):
            _parallel.thread_map(work, list(range(1000)), threads=threads, label="")
        assert len(done) < 20

    def test_a_stop_iteration_of_the_work_is_an_error_too(self):
        def work(i):
            raise StopIteration

        with pytest.raises((StopIteration, RuntimeError)):
            _parallel.thread_map(work, [1, 2, 3], threads=2, label="")

    def test_every_item_is_done_once(self):
        done = []
        _parallel.thread_map(done.append, list(range(500)), threads=4, label="")
        assert sorted(done) == list(range(500))

    def test_an_error_in_a_tile_reaches_the_caller(self, monkeypatch):
        monkeypatch.setattr(_engine, "PARALLEL_FROM_SECONDS", 0.0)
        monkeypatch.setattr(_engine, "TILE_FROM_SECONDS", 0.0)

        def tile(a, b):
            if 99.0 in a.values:
                raise FloatingPointError("tile with point 99")
            return distance(a, b)

        with mc.config(n_jobs=2), pytest.raises(FloatingPointError, match="point 99"):
            fill(tile, Points(np.arange(100.0), tile_hint=10))

    def test_blas_gets_its_threads_back_when_threads_overlap(self):
        """Limits of several threads nest in time, not in order: the last to leave restores."""
        limit = _parallel._controller()

        def counts():
            return [library["num_threads"] for library in limit.select(user_api="blas").info()]

        before = counts()
        inside, leave = threading.Event(), threading.Event()

        def other():
            with _parallel.single_blas():
                inside.set()
                leave.wait(5)

        thread = threading.Thread(target=other)
        with _parallel.single_blas():
            thread.start()
            inside.wait(5)
        assert set(counts()) <= {1}
        leave.set()
        thread.join()
        assert counts() == before


class TestMemory:
    def test_a_few_tiles_beside_the_result(self):
        n = 2000
        a = Points(np.random.default_rng(0).normal(size=n), tile_hint=256)
        with mc.config(n_jobs=1):
            tracemalloc.start()
            try:
                K = fill(distance, a)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < K.nbytes + 8 * 256 * 256 * 8

    def test_with_threads_a_few_tiles_a_thread(self, monkeypatch):
        monkeypatch.setattr(_engine, "PARALLEL_FROM_SECONDS", 0.0)
        monkeypatch.setattr(_engine, "TILE_FROM_SECONDS", 0.0)
        n = 2000
        order = np.random.default_rng(1).permutation(n)
        a = Points(np.random.default_rng(0).normal(size=n), tile_hint=128, order=order)
        with mc.config(n_jobs=2):
            tracemalloc.start()
            try:
                K = fill(distance, a)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < K.nbytes + 2 * 8 * 128 * 128 * 8


class TestProgress:
    @pytest.fixture(autouse=True)
    def bars(self, monkeypatch):
        import tqdm.auto

        bars = []

        def fake(items, **options):
            bars.append(options)
            return iter(items)

        monkeypatch.setattr(tqdm.auto, "tqdm", fake)
        return bars

    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize(
        ("progress", "terminal", "delay"), [(True, False, 1), (None, True, 1), (None, False, 30), (False, True, None)]
    )
    def test_when_a_bar_appears(self, monkeypatch, bars, threads, progress, terminal, delay):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
        done = []
        with mc.config(progress=progress):
            _parallel.thread_map(done.append, list(range(10)), threads=threads, label="RBF")
        assert sorted(done) == list(range(10))
        assert [(bar["desc"], bar["delay"]) for bar in bars] == ([] if delay is None else [("RBF", delay)])

    def test_one_bar_for_work_inside_of_work(self, bars):
        def work(_):
            _parallel.thread_map(lambda _: None, [1, 2], threads=1, label="inner")

        with mc.config(progress=True):
            _parallel.thread_map(work, [1, 2], threads=1, label="outer")
            _parallel.thread_map(work, [1], threads=1, label="a single item")
        assert [bar["desc"] for bar in bars] == ["outer", "inner"]


class TestOtherLibraries:
    """Tiles of other array libraries are joined, never written into: gradients and devices survive."""

    ORDER = np.random.default_rng(3).permutation(37)

    @pytest.mark.parametrize("symmetric", [True, False])
    @pytest.mark.parametrize("order", [None, ORDER])
    def test_strict(self, symmetric, order):
        xp = array_api_strict
        values = np.random.default_rng(0).normal(size=37)
        a = Strict(xp.asarray(values), 10, order)
        diagonal = xp.asarray(np.arange(37.0))
        if symmetric:
            K = fill(Strict.distance, a, diagonal=diagonal)
            expected = np.abs(values[:, None] - values)
            np.fill_diagonal(expected, np.arange(37.0))
        else:
            b = Strict(xp.asarray(values[:20]), 7, None)
            K = fill(Strict.distance, a, b)
            expected = np.abs(values[:, None] - values[:20])
        assert isinstance(K, type(a.values))
        np.testing.assert_array_equal(np.asarray(K), expected)

    def test_torch_keeps_the_gradient_and_evaluates_half(self):
        torch = pytest.importorskip("torch")
        values = torch.linspace(0.0, 1.0, 50, dtype=torch.float64, requires_grad=True)
        cells = []

        def tile(a, b):
            cells.append(len(a) * len(b))
            return torch.exp(-((a.values[:, None] - b.values[None, :]) ** 2))

        K = fill(tile, Points(values, 16, np.arange(50)[::-1].copy()))
        assert sum(cells) < 0.75 * 50 * 50
        assert torch.equal(K, K.T)
        K.sum().backward()
        difference = values.detach()[:, None] - values.detach()
        expected = (-4 * difference * torch.exp(-(difference**2))).sum(axis=1)
        torch.testing.assert_close(values.grad, expected)

    @pytest.mark.parametrize("accelerated", [True, False])
    @pytest.mark.parametrize("symmetric", [True, False])
    def test_the_record_counts_the_tiles_that_ran(self, monkeypatch, accelerated, symmetric):
        monkeypatch.setattr(_engine, "_accelerated", lambda x: accelerated)
        a, b = (Strict(array_api_strict.asarray(np.arange(float(n))), 3, None) for n in (50, 40))
        calls = []

        def tile(p, q):
            calls.append(1)
            return Strict.distance(p, q)

        K = fill(tile, a, None if symmetric else b)
        expected = np.abs(np.arange(50.0)[:, None] - np.arange(50.0 if symmetric else 40.0))
        np.testing.assert_array_equal(np.asarray(K), expected)
        assert runs()[-1].tiles == len(calls)

    def test_a_kernel_of_torch_batches(self):
        torch = pytest.importorskip("torch")
        mean = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
        kernel = mc.ProbabilityProduct()
        K = kernel(mc.Gaussians(mean=mean, covariance=torch.ones(40, dtype=torch.float64)))
        same = kernel(mc.Gaussians(mean=mean.detach().numpy(), covariance=np.ones(40)))
        np.testing.assert_allclose(K.detach().numpy(), same, rtol=1e-12)
        K.sum().backward()
        assert torch.isfinite(mean.grad).all()
        fitted = kernel.fit_transform(mc.Gaussians(mean=mean, covariance=torch.ones(40, dtype=torch.float64)))
        assert fitted.requires_grad


class Strict(Points):
    """Points of a library that has no fancy assignment, and indexes with its own arrays only."""

    def __getitem__(self, key):
        if isinstance(key, np.ndarray):
            return Strict(array_api_strict.take(self.values, array_api_strict.asarray(key), axis=0), self.tile_hint)
        return Strict(self.values[key], self.tile_hint)

    def distance(self, other):
        return array_api_strict.abs(self.values[:, None] - other.values[None, :])
