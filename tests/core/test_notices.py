"""Warnings of a call come once, at its end, and threads never change the warnings of the process."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer._notices import collected, notify, warns_once
from mercer._parallel import thread_map
from mercer.datasets import make_dna
from mercer.families.estimator import fits

X, Y = make_dna(20, random_state=0)


def hmm(**parameters):
    return mc.HMM(2, **{"alphabet": "dna", "n_init": 1, "n_iter": 2, "tol": 1e-12, "random_state": 0} | parameters)


def convergence(seen):
    return [str(w.message) for w in seen if w.category is ConvergenceWarning]


def test_the_package_never_changes_the_warnings_of_the_process():
    for path in Path(mc.__file__).parent.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            code = line.strip()
            if not code.startswith((">>>", "...", "#")) and "``" not in code and "# in its own process" not in code:
                assert "catch_warnings" not in code, path
                assert "simplefilter" not in code, path
                assert "filterwarnings" not in code, path


THREADS = """
import sys, warnings, mercer as mc
from concurrent.futures import ThreadPoolExecutor
from mercer.datasets import make_dna
X, y = make_dna(20, random_state=0)
def work(seed):
    return mc.ProbabilityProduct(mc.HMM(2, alphabet="dna", n_init=1, random_state=seed)).fit_transform(X)
work(99)  # imports, which may add filters
before = list(warnings.filters), warnings._showwarnmsg_impl
sys.setswitchinterval(1e-5)
with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(16)))
assert before == (list(warnings.filters), warnings._showwarnmsg_impl)
warnings.warn("do you hear me?")
"""


@pytest.mark.slow
def test_warnings_are_heard_after_fits_in_threads():
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "do you hear me?" in done.stderr


@pytest.mark.parametrize(
    ("call", "total"),
    [
        (lambda: hmm().fit(X), 1),
        (lambda: hmm(prior=None).fit_each(X), 20),
        (lambda: hmm().fit_each(X), 21),  # the pooled model is one of them
        (lambda: mc.ProbabilityProduct(hmm()).fit_transform(X), 21),
        (lambda: mc.ProbabilityProduct(hmm())(X), 21),
        (lambda: (mc.ProbabilityProduct(hmm()) + mc.Fisher(hmm())).fit(X), 22),
        (lambda: mc.TOP(hmm()).fit(X, Y), 2),
        (lambda: mc.LikelihoodRatio(hmm()).fit(X, Y), 2),
    ],
)
def test_one_warning_per_call_tells_how_many_have_not_converged(call, total):
    fits.clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    (message,) = convergence(seen)
    named = message.split("before ")[1].split(" converged")[0].split(" and ")
    others = int(named[1].split()[0]) if len(named) > 1 else 0
    assert len(named[0].split(", ")) + others == total
    assert message.endswith("Increase n_iter or tol.")
    assert seen[0].filename == __file__


@pytest.mark.parametrize("model", [hmm(), mc.Mixture(mc.Categorical(), n_iter=2, tol=1e-12)])
def test_fits_from_the_cache_warn_as_fresh_ones(model):
    def heard(data):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.fit_each(data, context)
        return convergence(seen)

    with pytest.warns(ConvergenceWarning):
        context = model.shared_context(mc.Sequences(X, alphabet="dna"))
    fits.clear()
    fresh = heard(X)
    assert len(fresh) == 1
    assert heard(X) == fresh
    (one,) = heard(X[7:8])
    assert "before sequence 0 converged" in one
    fits.clear()
    heard(X[:5])
    (message,) = heard(X)
    assert message.split(" and ")[1] == fresh[0].split(" and ")[1]  # as many


def test_fits_that_have_converged_do_not_warn():
    model = hmm(n_iter=500, tol=1e-2, prior=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit_each(X)
        model.fit_each(X)


@pytest.mark.slow
def test_two_algorithms_share_one_warning():
    sets = [np.random.default_rng(i).normal(size=(20, 2)) for i in range(4)]
    kernel = mc.Fisher(mc.HMM(2, n_iter=2, tol=1e-12)) + mc.Fisher(mc.Mixture(n_iter=3, tol=1e-12))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        kernel.fit(sets)
    (message,) = convergence(seen)
    assert "Baum-Welch stopped after n_iter = 2" in message
    assert "EM stopped after n_iter = 3" in message


def test_every_thread_has_its_own_warnings():
    both = threading.Barrier(2, timeout=30)

    def work(name):
        with collected() as notices:
            both.wait()
            notify(name)
            both.wait()
        return [notice.message for notice in notices]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, ["one", "two"])) == [["one"], ["two"]]


def test_workers_tell_their_caller():
    @warns_once
    def work():
        thread_map(lambda item: notify(f"item {item % 2}"), list(range(8)), threads=4, label="")

    with pytest.warns(UserWarning, match="item") as seen:
        work()
    assert sorted(str(w.message) for w in seen) == ["item 0", "item 1"]


def test_a_call_that_fails_warns_too():
    @warns_once
    def work():
        notify("look here")
        raise ZeroDivisionError

    with pytest.warns(UserWarning, match="look here"), pytest.raises(ZeroDivisionError):
        work()


def test_where_warnings_are_errors_the_error_of_a_call_comes_first():
    @warns_once
    def fails():
        notify("told before")
        raise KeyError("the cause")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError, match="the cause"):
            fails()


LONELY = mc.HMMs([[1.0, 0.0]], [[[1.0, 0.0], [0.25, 0.75]]], mc.Categoricals([[[0.5, 0.5], [0.5, 0.5]]], "ab"))


@pytest.mark.parametrize(
    "given", [{"n_states": 3, "n_init": 1}, {"n_states": 2, "init": LONELY}], ids=["short", "lonely"]
)
def test_all_findings_of_a_fit_are_told_again(given):
    model = mc.HMM(prior=None, alphabet="ab", n_iter=2, tol=1e-12, **given)

    def heard(data):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.fit_each(data)
        return sorted(str(w.message) for w in seen)

    fits.clear()
    fresh = heard(["ab", "ba", "ababb"])
    assert len(fresh) >= 2
    assert any("(and 1 others)" in m or "(and 2 others)" in m for m in fresh)
    assert heard(["ab", "ba", "ababb"]) == fresh  # all from the cache
    fits.clear()
    heard(["ba"])
    assert heard(["ab", "ba", "ababb"]) == fresh  # one of them
