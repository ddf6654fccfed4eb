"""Matrices on clusters: the same bits, whatever happens to workers, and one sentence where no cluster is."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import joblib
import numpy as np
import pytest

import mercer as mc
from mercer.gram import _large


def points(n):
    return np.random.default_rng(0).normal(size=(n, 2))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make parts of one tile, so that a small matrix has many."""
    monkeypatch.setattr(_large, "PARTS_ALONG", 4)


class Slow(mc.RBF):
    """A kernel whose tiles take a while, so that there is time to kill a worker."""

    def _tile(self, a, b):
        time.sleep(0.15)
        return super()._tile(a, b)


@pytest.fixture
def distributed():
    return pytest.importorskip("distributed", reason="clusters need Dask: pip install 'mercer[dask]'")


@pytest.fixture
def threads(distributed):
    """A cluster of two workers in threads of this process: it starts at once."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class TestJoblib:
    @pytest.mark.parametrize("backend", ["threading", "sequential"])
    def test_the_backend_computes_the_tiles(self, backend, tmp_path):
        X, kernel = points(120), mc.RBF(gamma=0.5)
        with joblib.parallel_config(backend=backend, n_jobs=2):
            assert np.array_equal(mc.gram.compute(kernel, X, client="joblib"), kernel(X))
            assert np.array_equal(mc.gram.compute(kernel, X, X[:50], client="joblib"), kernel(X, X[:50]))
            stored = mc.gram.compute(kernel, X, store=tmp_path / "gram.zarr", client="joblib")
        assert np.array_equal(stored.to_numpy(), kernel(X))

    @pytest.mark.slow
    def test_processes(self):
        X, kernel = points(120), mc.RBF(gamma=0.5)
        with joblib.parallel_config(backend="loky", n_jobs=2):
            assert np.array_equal(mc.gram.compute(kernel, X, client="joblib"), kernel(X))


class TestDask:
    def test_the_same_bits(self, threads, tmp_path):
        X, kernel = points(150), mc.RBF(gamma=0.5)
        assert np.array_equal(mc.gram.compute(kernel, X, client=threads), kernel(X))
        stored = mc.gram.compute(kernel, X, store=tmp_path / "gram.zarr", client=threads)
        assert np.array_equal(stored.to_numpy(), kernel(X))
        by_address = mc.gram.compute(kernel, X, X[:40], client=threads.scheduler.address)
        assert np.array_equal(by_address, kernel(X, X[:40]))

    def test_an_error_of_the_kernel(self, threads, monkeypatch):
        def wrong(*_):
            raise ArithmeticError("a bad tile")

        kernel = mc.RBF(gamma=0.5)
        parts = mc.gram.compute(kernel, points(80), client=threads)
        assert parts.shape == (80, 80)
        monkeypatch.setattr(_large.Parts, "__call__", wrong)
        with pytest.raises(ArithmeticError, match="a bad tile"):
            mc.gram.compute(kernel, points(80), client=threads)

    def test_features_and_models_by_partitions(self, threads):
        bag = pytest.importorskip("dask.bag")
        words = ["abab", "bb", "aab", "ba", "abb", "babb"] * 3
        kernel, model = mc.Spectrum(2).fit(words), mc.MarkovChain().fit(words)
        parts = bag.from_sequence(words, npartitions=3)
        features = parts.map_partitions(lambda part: [kernel.features(list(part))]).compute()
        found = np.concatenate(
            [np.asarray(block.todense() if hasattr(block, "todense") else block) for block in features]
        )
        whole = kernel.features(words)
        assert np.array_equal(found, np.asarray(whole.todense() if hasattr(whole, "todense") else whole))
        models = mc.MarkovChains.concat(parts.map_partitions(lambda part: [model.fit_each(list(part))]).compute())
        assert np.array_equal(models.transition, model.fit_each(words).transition)

    def test_workers_use_one_thread(self, threads):
        from mercer._parallel import n_threads

        assert threads.submit(n_threads).result() == 1


class TestNoCluster:
    def test_no_scheduler(self, distributed, monkeypatch):
        monkeypatch.setattr("mercer.gram._large.WAIT_SECONDS", 0.2)
        with pytest.raises(ConnectionError, match=r"no Dask scheduler at tcp://127.0.0.1:9"):
            mc.gram.compute(mc.RBF(gamma=0.5), points(9), client="tcp://127.0.0.1:9")

    def test_no_workers(self, distributed):
        with (
            distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
            pytest.raises(ConnectionError, match="no workers"),
        ):
            mc.gram.compute(mc.RBF(gamma=0.5), points(9), client=client)
        with pytest.raises(ConnectionError, match="does not answer"):
            mc.gram.compute(mc.RBF(gamma=0.5), points(9), client=client)

    @pytest.mark.parametrize("client", [3, "", dict])
    def test_not_a_client(self, client, tmp_path):
        for store in (None, tmp_path / "gram.zarr"):
            with pytest.raises(TypeError, match="client must be"):
                mc.gram.compute(mc.RBF(gamma=0.5), points(9), client=client, store=store)
        assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_a_killed_worker_costs_its_tiles_only(distributed, tmp_path):
    from distributed.protocol.pickle import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the module of a test
    X, kernel = points(150), Slow(gamma=0.5)
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))

        def kill():
            while not (tmp_path / "gram.zarr" / "K" / "c").exists():
                time.sleep(0.02)
            os.kill(victim, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        stored = mc.gram.compute(kernel, X, store=tmp_path / "gram.zarr", client=client)
        killer.join(10)
        assert not killer.is_alive()
    assert np.array_equal(stored.to_numpy(), mc.RBF(gamma=0.5)(X))
