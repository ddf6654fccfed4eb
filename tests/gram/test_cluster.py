"""Matrices on clusters."""

from __future__ import annotations

import joblib
import numpy as np
import pytest

import mercer as mc
from mercer.gram import _compute


def points(n):
    return np.random.default_rng(0).normal(size=(n, 2))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make parts of one tile, so that a small matrix has many."""
    monkeypatch.setattr(_compute, "PART", 40)


@pytest.fixture
def distributed():
    return pytest.importorskip("distributed", reason="clusters need Dask: pip install 'dask[distributed]'")


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
            np.testing.assert_allclose(mc.gram.compute(kernel, X, client="joblib"), kernel(X), rtol=1e-14)
            np.testing.assert_allclose(
                mc.gram.compute(kernel, X, X[:50], client="joblib"), kernel(X, X[:50]), rtol=1e-14
            )
            stored = mc.gram.compute(kernel, X, store=tmp_path / "gram.zarr", client="joblib")
        np.testing.assert_allclose(stored[:], kernel(X), rtol=1e-14)

    @pytest.mark.slow
    def test_processes(self):
        X, kernel = points(120), mc.RBF(gamma=0.5)
        with joblib.parallel_config(backend="loky", n_jobs=2):
            np.testing.assert_allclose(mc.gram.compute(kernel, X, client="joblib"), kernel(X), rtol=1e-14)


class TestDask:
    def test_the_same_bits(self, threads, tmp_path):
        X, kernel = points(150), mc.RBF(gamma=0.5)
        with joblib.parallel_config(backend="dask"):
            np.testing.assert_allclose(mc.gram.compute(kernel, X, client="joblib"), kernel(X), rtol=1e-14)
            stored = mc.gram.compute(kernel, X, X[:40], store=tmp_path / "gram.zarr", client="joblib")
        np.testing.assert_allclose(stored[:], kernel(X, X[:40]), rtol=1e-14)

    def test_an_error_of_the_kernel(self, threads, monkeypatch):
        def wrong(*_):
            raise ArithmeticError("a bad tile")

        monkeypatch.setattr(_compute, "_part", wrong)
        with joblib.parallel_config(backend="dask"), pytest.raises(ArithmeticError, match="a bad tile"):
            mc.gram.compute(mc.RBF(gamma=0.5), points(80), client="joblib")

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


@pytest.mark.parametrize("client", [3, "", dict, "tcp://127.0.0.1:9"])
def test_not_a_client(client, tmp_path):
    for store in (None, tmp_path / "gram.zarr"):
        with pytest.raises(TypeError, match=r"client must be 'joblib'.*backend='dask'"):
            mc.gram.compute(mc.RBF(gamma=0.5), points(9), client=client, store=store)
    assert not any(tmp_path.iterdir())
