"""Settings: from the environment, for all threads, along with a pickled kernel into joblib's workers, nowhere else."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer import _config, _parallel
from mercer._cache import parameter_key
from mercer._config import without_caches


def python(code, **environment):
    """Run code in another process; return what it prints."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("MERCER_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=known | environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


SHOW = "import mercer._config as c; s = c.settings(); print(s.n_jobs, s.progress, s.cache_bytes, s.memo_bytes)"


class TestEnvironment:
    def test_defaults(self):
        assert python(SHOW) == f"None None {256 * 2**20} {256 * 2**20}"

    def test_every_variable(self):
        found = python(
            SHOW, MERCER_N_JOBS="2", MERCER_PROGRESS="false", MERCER_CACHE_BYTES="0", MERCER_MEMO_BYTES="1000"
        )
        assert found == "2 False 0 1000"

    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("n_jobs", "none", None),
            ("n_jobs", "-1", -1),
            ("progress", "TRUE", True),
            ("progress", "0", False),
            ("progress", " auto ", None),
            ("memo_bytes", "5", 5),
        ],
    )
    def test_values(self, name, text, value):
        assert getattr(_config._from_environment({f"MERCER_{name.upper()}": text}), name) == value

    @pytest.mark.parametrize(
        ("variable", "text"), [("N_JOBS", "two"), ("PROGRESS", "often"), ("CACHE_BYTES", "1GB"), ("MEMO_BYTES", "1.5")]
    )
    def test_nonsense_is_named(self, variable, text):
        with pytest.raises(ValueError, match=f"MERCER_{variable} must be .*got '{text}'"):
            _config._from_environment({f"MERCER_{variable}": text})

    def test_nonsense_stops_the_import_with_a_sentence(self):
        assert "MERCER_N_JOBS must be a whole number; got 'two'" in python("import mercer", MERCER_N_JOBS="two")


class TestBlock:
    def test_restores_after_an_error_too(self):
        before = mc.settings()
        with pytest.raises(ZeroDivisionError), mc.config(n_jobs=1):
            raise ZeroDivisionError
        assert mc.settings() == before

    def test_nests(self):
        with mc.config(n_jobs=3, progress=False):
            with mc.config(n_jobs=2):
                assert (mc.settings().n_jobs, mc.settings().progress) == (2, False)
            assert mc.settings().n_jobs == 3

    def test_every_thread_sees_it(self):
        seen = []
        with mc.config(memo_bytes=77):
            thread = threading.Thread(target=lambda: seen.append(mc.settings().memo_bytes))
            thread.start()
            thread.join()
            seen += Parallel(n_jobs=2, backend="threading")(delayed(lambda: mc.settings().memo_bytes)() for _ in "ab")
        assert seen == [77, 77, 77]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"n_jobs": 0}, "n_jobs must be a number of threads, -1 for all cores, or None; got 0"),
            ({"n_jobs": 1.5}, "n_jobs must be a number of threads.*got 1.5"),
            ({"n_jobs": "2"}, "n_jobs must be a number of threads.*got '2'"),
            ({"n_jobs": True}, "n_jobs must be a number of threads.*got True"),
            ({"progress": "yes"}, "progress must be True, False or None; got 'yes'"),
            ({"memo_bytes": -1}, "memo_bytes must be .* number of bytes; got -1. Use 0 to disable it"),
            ({"cache_bytes": "1GB"}, "cache_bytes must be .* number of bytes; got '1GB'"),
            ({"max_file_bytes": -1}, "max_file_bytes must be .* number of bytes; got -1"),
            ({"cache_bytes": None}, "cache_bytes must be .* number of bytes; got None"),
        ],
    )
    def test_nonsense(self, changes, message):
        before = mc.settings()
        with pytest.raises(ValueError, match=message), mc.config(**changes):
            pass
        assert mc.settings() == before

    def test_unknown_names(self):
        with pytest.raises(TypeError, match="setting 'njobs'; the settings are n_jobs, progress"):
            mc.config(njobs=2).__enter__()

    def test_numpy_integers_are_numbers(self):
        with mc.config(n_jobs=np.int64(2)) as settings:
            assert settings.n_jobs == 2


class TestForTheProcess:
    @pytest.fixture(autouse=True)
    def restored(self):
        before = _config._base
        yield
        mc.set_config(**dataclasses.asdict(before))

    def test_stays(self):
        mc.set_config(n_jobs=3)
        assert mc.settings().n_jobs == 3
        with mc.config(n_jobs=2):
            assert mc.settings().n_jobs == 2
            mc.set_config(n_jobs=4, progress=False)
            assert (mc.settings().n_jobs, mc.settings().progress) == (2, False)
        assert mc.settings().n_jobs == 4

    def test_nonsense(self):
        before = mc.settings()
        with pytest.raises(ValueError, match=r"n_jobs must be a number of threads.*got 0"):
            mc.set_config(n_jobs=0)
        with pytest.raises(TypeError, match="setting 'njobs'"):
            mc.set_config(njobs=2)
        assert mc.settings() == before

    @pytest.mark.slow
    def test_workers_see_it(self):
        mc.set_config(memo_bytes=4321)
        found = Parallel(n_jobs=2, backend="loky")(delayed(report)(Reporter(), X) for _ in range(4))
        assert {memo_bytes for _, memo_bytes, *_ in found} == {4321}


class Reporter(mc.RBF):
    """A kernel whose matrix tells the settings of the process that computed it."""

    def transform(self, X):
        K = super().transform(X)
        settings = mc.settings()
        K[:] = settings.memo_bytes + 1e-3 * _parallel.n_threads()
        return K

    def report(self, X):
        settings = mc.settings()
        return os.getpid(), settings.memo_bytes, settings.n_jobs, _parallel.n_threads()


class Told(SVC):
    """A classifier whose score is what the kernel's rows say."""

    def score(self, X, y, sample_weight=None):
        return float(np.asarray(X).ravel()[0])


def report(kernel, X):
    return kernel.report(X)


X = np.random.default_rng(0).normal(size=(20, 2))
Y = np.arange(20) % 2


class TestWorkers:
    @pytest.mark.slow
    def test_a_kernel_brings_the_settings_and_the_engine_is_serial(self):
        with mc.config(memo_bytes=4321, n_jobs=2):
            found = Parallel(n_jobs=2, backend="loky")(delayed(report)(Reporter(), X) for _ in range(4))
        assert all(pid != os.getpid() for pid, *_ in found)
        assert {tuple(rest) for _, *rest in found} == {(4321, 2, 1)}
        # The same workers are used again after the block.
        found = Parallel(n_jobs=2, backend="loky")(delayed(report)(Reporter(), X) for _ in range(4))
        default = mc.settings()
        assert {tuple(rest) for _, *rest in found} == {(default.memo_bytes, default.n_jobs, 1)}

    @pytest.mark.slow
    def test_cross_validation(self):
        pipeline = make_pipeline(Reporter(), Told(kernel="precomputed"))
        with mc.config(memo_bytes=4321, n_jobs=2):
            scores = cross_val_score(pipeline, X, Y, cv=4, n_jobs=2, error_score="raise")
        np.testing.assert_allclose(scores, 4321.001)

    @pytest.mark.slow
    def test_a_file_in_an_unrelated_process_changes_nothing(self, tmp_path):
        path = tmp_path / "kernel.pickle"
        with mc.config(memo_bytes=4321):
            path.write_bytes(pickle.dumps(mc.RBF(gamma=0.5)))
        before = mc.settings()
        pickle.loads(path.read_bytes())
        assert mc.settings() == before
        read = f"import pickle; k = pickle.load(open({str(path)!r}, 'rb')); {SHOW}; print(k)"
        grandchild = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {read!r}], check=True)"
        assert python(grandchild) == f"None None {256 * 2**20} {256 * 2**20}\nRBF(gamma=0.5)"

    @pytest.mark.slow
    def test_defaults_leave_no_trace_in_a_pickle(self):
        """So that joblib's digests, and with them ``Pipeline(memory=...)``, agree between processes."""
        code = "import joblib, mercer as mc; print(joblib.hash(mc.RBF(gamma=0.5) + mc.Linear()))"
        assert python(code) == python(code) == joblib.hash(mc.RBF(gamma=0.5) + mc.Linear())

    def test_digests_have_no_settings(self):
        """So that caches hit inside a block, too."""

        def digests():
            kernels = mc.RBF(gamma=0.5) + mc.Linear(), mc.kernels.Normalized(mc.RBF()), mc.RBF().fit(X)
            return [(joblib.hash(k), parameter_key(k)) for k in kernels]

        outside = digests()
        with mc.config(memo_bytes=4321, n_jobs=1):
            assert digests() == outside
            pipeline = make_pipeline(mc.RBF(gamma=0.5) + mc.Linear(), SVC(kernel="precomputed"))
            inside = joblib.hash(pipeline)
        assert joblib.hash(pipeline) == inside

    def test_the_memory_of_a_pipeline_hits_inside_a_block(self, tmp_path, monkeypatch):
        computed = []
        original = mc.RBF._tile
        monkeypatch.setattr(mc.RBF, "_tile", lambda self, a, b: computed.append(1) or original(self, a, b))
        steps = [("k", mc.RBF(gamma=0.5) + mc.Linear()), ("svc", SVC(kernel="precomputed"))]
        Pipeline(steps, memory=str(tmp_path)).fit(X, Y)
        first = len(computed)
        with mc.config(progress=False, n_jobs=1, memo_bytes=0):
            Pipeline(steps, memory=str(tmp_path)).fit(X, Y)
        assert len(computed) == first > 0

    def test_copies_in_one_process_change_nothing(self):
        import copy

        with mc.config(memo_bytes=4321):
            kernel = mc.RBF(gamma=0.5)
            state = pickle.dumps(kernel)
        assert copy.deepcopy(kernel).gamma == clone(kernel).gamma == pickle.loads(state).gamma == 0.5
        assert mc.settings().memo_bytes != 4321


def test_without_caches_in_this_thread_only():
    before = mc.settings()
    with ThreadPoolExecutor(1) as pool, without_caches():
        assert (mc.settings().cache_bytes, mc.settings().memo_bytes) == (0, 0)
        assert mc.settings().n_jobs == before.n_jobs
        assert pool.submit(mc.settings).result() == before
    assert mc.settings() == before
