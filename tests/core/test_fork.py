"""A process that is forked while another thread computes or holds a lock answers; it has fresh locks."""

from __future__ import annotations

import multiprocessing
import os
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import mercer as mc
from mercer import _config, _native
from mercer._cache import ByteCache
from mercer._parallel import single_blas
from mercer.families.estimator import fits
from mercer.gram import pair_memo

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def in_child(work, seconds=30):
    """Run ``work`` in a forked process; return its value, or None where it hangs."""
    context = multiprocessing.get_context("fork")
    pipe, end = context.Pipe()
    process = context.Process(target=lambda: end.send(work()))
    process.start()
    found = pipe.recv() if pipe.poll(seconds) else None
    if found is None:
        process.kill()
    process.join()
    return found


@contextmanager
def held(lock):
    """Hold a lock in another thread."""
    ready, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            ready.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    try:
        yield done.set
    finally:
        done.set()
        thread.join()


PROTEINS = ["ARNDCQEGH", "ILKMFPSTW", "ARNDC"]


def kernel():
    return mc.Marginalization(mc.AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1))


@pytest.mark.slow
def test_a_fork_during_a_gram_matrix():
    expected = kernel().fit_transform(PROTEINS)
    inside, done = threading.Event(), threading.Event()

    class Waiting(mc.Marginalization):
        def _tile(self, a, b):
            inside.set()
            done.wait()
            return super()._tile(a, b)

    model = mc.AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1)
    thread = threading.Thread(target=lambda: Waiting(model).fit_transform(PROTEINS))
    thread.start()
    try:
        assert inside.wait(30)
        found = in_child(lambda: kernel().fit_transform(PROTEINS))
    finally:
        done.set()
        thread.join()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_fork_during_a_fit(monkeypatch):
    rng = np.random.default_rng(0)
    X, model = [rng.normal(size=(30, 2)) for _ in range(5)], mc.HMM(2, mc.Gaussian(), n_iter=3)
    inside, done, call = threading.Event(), threading.Event(), _native.Prepared.__call__

    def fit():
        with mc.config(cache_bytes=0):
            return mc.HMM(2, mc.Gaussian(), n_iter=3).fit(X).model_.transition

    def waiting(self):
        if threading.current_thread() is thread:
            inside.set()
            done.wait()
        return call(self)

    expected, thread = fit(), threading.Thread(target=lambda: model.fit(X))
    monkeypatch.setattr(_native.Prepared, "__call__", waiting)
    thread.start()
    try:
        assert inside.wait(30)
        found = in_child(fit)
    finally:
        done.set()
        thread.join()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_fork_while_every_lock_is_held():
    expected = kernel().fit_transform(PROTEINS)
    known = next(known for known, _ in pair_memo.memo._entries.values())
    locks = [pair_memo.memo._lock, fits._lock, _config._lock, single_blas._lock, known.lock]

    def work():
        with mc.config(n_jobs=1):
            return kernel().fit_transform(PROTEINS)

    with held(locks[0]), held(locks[1]), held(locks[2]), held(locks[3]), held(locks[4]):
        found = in_child(work)
    np.testing.assert_array_equal(found, expected)


def test_what_was_being_changed_is_dropped():
    cache = ByteCache()
    cache.put("a", 1, size=1, budget=10)
    assert in_child(lambda: cache.get("a")) == 1
    with held(cache._lock):
        assert in_child(lambda: (len(cache), cache.get("a"))) == (0, None)
    assert cache.get("a") == 1


def test_the_child_gets_its_blas_threads_back():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    def work():
        with single_blas():
            inside = threads()
        return inside, threads()

    before = threads()
    with held(single_blas()):
        inside, after = in_child(work)
    assert set(inside) <= {1}
    assert after == before == threads()
