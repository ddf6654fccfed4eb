"""Random calls over the public API: each must end in a value without NaN, or in one sentence.

The sentence is an exception that mercer raises itself, or one of scikit-learn's validation. Failures are NaN, a
RuntimeWarning, an exception that Python, NumPy or another library raised on its own, and a call that does not end.
Names are found by introspection, so new ones are covered as they appear.

Run: python benchmarks/fuzz.py 10000               (the table of outcomes, and one example of each failure)
     python benchmarks/fuzz.py 1 --at 517          (call 517 again, with its traceback)
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import inspect
import linecache
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, OneClassSVM

import mercer as mc
from mercer._batch import Batch

GOOD = ("value", "sentence of mercer", "validation of scikit-learn")
BAD = ("NaN", "RuntimeWarning", "bare error", "hang")
SECONDS = 60.0
"""A call that computes longer hangs: seconds of processor time, since a busy machine makes others wait."""
SKIPPED = {"config", "set_config", "plot"}
"""Names that change the process or draw figures."""
SKIPPED_METHODS = {
    # Write files, or belong to scikit-learn.
    "save", "load", "set_params", "get_params", "get_metadata_routing", "set_output",
    # The protocol of docs/protocol.md: steps of a fit or of a kernel, which the library calls with what it has checked
    # (accepted data, contexts, sums of statistics, batches and members that fit each other). Checks there would cost
    # time in every pair or iteration; the calls around them are made here.
    "accept", "as_arrays", "check_unchanged", "context", "couple", "couple_moments", "couple_subspaces", "diagonal",
    "digests", "dual", "dual_divergence", "dual_psd", "estimator", "features_of", "fit_weighted", "from_mean",
    "log_base", "log_characteristic", "log_partition", "matched", "operands", "powered", "prepared",
    "shared_context", "shared_context_of_one", "sources", "statistics", "template", "tile", "to_header",
    "with_mean_parameters",
}  # fmt: skip


# -- what is called ------------------------------------------------------------------------------------------


@functools.cache
def names() -> dict[str, Any]:
    """Return every public class and function, by its name."""
    found = {name: getattr(mc, name) for name in mc.__all__ if name not in SKIPPED}
    for room in (mc.datasets, mc.gram, mc.gram.psd):  # the other rooms add base classes, for authors of models
        members = {name: getattr(room, name) for name in room.__all__ if not name.startswith("fetch_")}
        results = {name for name, value in members.items() if is_dataclass(value) or inspect.ismodule(value)}
        found |= {f"{room.__name__}.{name}": value for name, value in members.items() if name not in results}
    return {name: value for name, value in sorted(found.items()) if callable(value)}


def public(value: Any) -> list[str]:
    """Return the names of the methods and properties of an object that users may call."""
    hooks = ("_", "term_")
    members = [name for name in dir(type(value)) if not name.startswith(hooks) and name not in SKIPPED_METHODS]
    members = [name for name in members if not name.endswith("_request")]  # of scikit-learn
    members = [name for name in members if not inspect.ismethoddescriptor(getattr(type(value), name))]
    members += ["__call__"] * callable(value)
    return members + ["__getitem__"] * isinstance(value, Batch | mc.Sequences)


# -- arguments -----------------------------------------------------------------------------------------------


@functools.cache
def good_data() -> list[Any]:
    """Return data of every kind, each of six samples."""
    rng = np.random.default_rng(0)
    series = rng.normal(size=(6, 5, 2))
    counts = rng.poisson(3.0, size=(6, 4))
    simplex = rng.dirichlet(np.ones(3), size=6)
    strings = ["ACGTAC", "GGTA", "TTACG", "ACCA", "GATTACA", "CAT"]
    ragged = [rng.normal(size=(n, 2)) for n in (3, 4, 5, 6, 3, 4)]
    return [
        series[:, 0], series, counts, counts.astype(float), simplex, strings, ragged, mc.Sequences(strings),
        mc.Sequences(ragged), sparse.csr_matrix(counts), counts > 2, [list(s) for s in strings], np.abs(series[:, 0]),
        pd.DataFrame(series[:, 0]), pd.Series(strings),
    ]  # fmt: skip


ODD_DATA: list[Any] = [
    [], "abc", None, 3, np.array(2.0), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 3, 0)), np.zeros((2, 0, 3)),
    [[1.0, 2.0], [3.0]], [[[1.0, 2.0], [3.0]], [[1.0]]], [[3, 1, 2], [1, 2]], [np.nan, 1.0], np.full((3, 2), np.nan),
    np.array([[1e300, 1.0], [0.0, -1e300]]), np.array([[1e150], [2e150]]), np.full((3, 2), np.inf), [1j, 2.0],
    np.array(["a", None], dtype=object), [["a"], [1]], [None, None], {}, {"a": 1}, object(), b"ACGT", ["", ""],
    ["ACGT", ""], ["A", 3], np.zeros((2, 2, 2, 2)), np.array([[1, -1], [2, 3]]), pd.Series([], dtype=object),
    np.array(["2020-01-01"], dtype="datetime64[D]"), sparse.csr_matrix((2, 3)), np.ones((3, 2), dtype=np.float32),
    [[1e-320], [1.0]], np.zeros((4, 2)), range(3), iter([1, 2]), np.array([[True], [False]]), [[0], [1], [10**30]],
]  # fmt: skip
ODD: list[Any] = [
    None, True, False, 0, 1, 2, 3, -1, 10**30, -(10**30), 0.0, 0.5, 1.0, -0.5, 1e-320, 1e300, float("inf"),
    float("nan"), "", "a", "pooled", "full", (), (1, 2), [], [1], ["a"], {}, {"a": 1}, set(), object(), b"x", 1j,
    len, int, np.array([]), np.array([1.0, 2.0]), np.array("a"), np.array([["a"]]), np.float64(2.0), np.int64(2),
    np.nan,     np.zeros((2, 0)), slice(None), Ellipsis, range(3), Exception, "ACGT", "dna", mc,
]  # fmt: skip


@functools.cache
def good_parts() -> list[Any]:
    """Return small models and kernels, as parts of others."""
    return [
        mc.Gaussian("diagonal"), mc.Gaussian(), mc.Poisson(), mc.Multinomial(prior="pooled"), mc.Categorical(),
        mc.HMM(2, n_iter=3), mc.HMM(2, mc.Gaussian("diagonal"), n_iter=3), mc.MarkovChain(), mc.Mixture(n_iter=3),
        mc.KDE(), mc.PairHMM(n_iter=2), mc.HiddenTree("((a,b),c);"), mc.RBF(), mc.Linear(), mc.Spectrum(2),
        mc.ProbabilityProduct(mc.Gaussian("diagonal")), mc.Fisher(mc.Gaussian("diagonal")), mc.Derivatives(),
    ]  # fmt: skip


@functools.cache
def good_pipelines() -> list[Any]:
    """Return fitted pipelines, for `mc.compact`."""
    X, y, svc = good_data()[0], [0, 1, 0, 1, 0, 1], SVC(kernel="precomputed")
    return [
        make_pipeline(mc.RBF(), svc).fit(X, y), make_pipeline(mc.Centered(mc.Linear()), svc).fit(X, y),
        make_pipeline(mc.kernels.Normalized(mc.RBF()), OneClassSVM(kernel="precomputed")).fit(X),
        make_pipeline(mc.Landmarks(mc.RBF(), 3), Ridge()).fit(X, y), mc.KernelRidge(mc.RBF()).fit(X, y),
        make_pipeline(mc.Spectrum(2), svc).fit(good_data()[5], y), make_pipeline(mc.RBF(), svc), mc.RBF().fit(X),
        Ridge().fit(X, y),
    ]  # fmt: skip


PARTS = {"kernel", "model", "emission", "component", "base", "kernels", "transformer", "k1", "k2"}
DATA = {"x", "y", "data", "points", "sequences", "frequencies", "theta", "mu", "k", "values", "counts"}
SIZES = {"size", "length", "lengths"}


def argument(rng: np.random.Generator, name: str, odd: float) -> Any:
    """Return a value for a parameter: one of its kind, or, with probability ``odd``, anything."""
    pick = lambda pool: pool[int(rng.integers(len(pool)))]  # noqa: E731
    if rng.random() < odd:
        return pick(ODD_DATA if rng.random() < 0.4 else ODD)
    lowered = name.lower()
    if lowered in PARTS:
        part = pick(good_parts())
        return [part, pick(good_parts())] if lowered == "kernels" else part
    if lowered == "other" or lowered == "batches":
        salt = int(rng.integers(2**32))
        batch = min(batches(), key=lambda b: crc32(f"{salt} {type(b).__name__}".encode()))
        return [batch, batch] if lowered == "batches" else batch
    if lowered in DATA:
        return [0, 1, 0, 1, 0, 1] if name == "y" and rng.random() < 0.8 else pick(good_data())
    if lowered == "pipeline":
        return pick(good_pipelines())
    if lowered in SIZES or lowered.startswith("n_"):
        return int(rng.integers(1, 4))
    return pick([0.5, 1.0, 2, "pooled", None, True, "dna", 1])


def arguments(rng: np.random.Generator, function: Any, odd: float, optional: float) -> dict[str, Any]:
    """Return arguments for a function: all required ones, and some of the optional ones."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    chosen = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name == "self":
            continue
        if parameter.default is parameter.empty or rng.random() < optional:
            chosen[parameter.name] = argument(rng, parameter.name, odd)
    return chosen


@functools.cache
def batches() -> list[Any]:
    """Return batches of every family and model: fitted to the first data that they take."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in names().items():
            if "." in name or not inspect.isclass(value) or not hasattr(value, "fit_each"):
                continue
            for data in good_data():
                try:
                    found.append(value().fit_each(data))
                    break
                except Exception:  # of another kind of data
                    continue
    return found


# -- one call ------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """How a call ended."""

    kind: str
    call: str
    detail: str = ""

    @property
    def good(self) -> bool:
        """Whether a user would be content."""
        return self.kind in GOOD


class _Hang(BaseException):
    pass


class _Call:
    """One random call: a constructor, and perhaps a method of what it makes."""

    def __init__(self, seed: int, at: int) -> None:
        n_names = len(names())
        self.name = list(names())[at % n_names]  # every name in turn: a new one leaves the calls of the others alone
        self.rng = np.random.default_rng([seed, crc32(self.name.encode()), at // n_names])
        self.text = ""
        self.given: list[Any] = []

    def run(self) -> Any:
        rng, name = self.rng, self.name
        target = names()[name]
        if inspect.isclass(target) and issubclass(target, Batch) and rng.random() < 0.8:
            made = [batch for batch in batches() if type(batch) is target]
            if made:
                self.text = f"{name} (fitted)"
                return self.member(made[0])
        odd = float(rng.choice([0.0, 0.1, 0.4]))
        value = self.call(name, target, odd, optional=0.15)
        if isinstance(value, mc.kernels.Compacted):
            return self.member(value)
        if not inspect.isclass(target) or rng.random() < 0.1:
            return value
        if hasattr(value, "fit") and rng.random() < 0.8:
            how = [n for n in ("fit", "fit_each", "fit_transform") if hasattr(value, n)]
            how += ["__call__"] * callable(value)
            done = self.call(how[int(rng.integers(len(how)))], value, 0.3, optional=0.5, method=True)
            if done is not value or rng.random() < 0.4:
                return done
        return self.member(value)

    def call(self, name: str, target: Any, odd: float, optional: float, method: bool = False) -> Any:
        function = getattr(target, name) if method else target
        given = arguments(self.rng, function, odd, optional)
        self.given += given.values()
        self.text += f".{name}" if method else name
        self.text += f"({', '.join(f'{key}={_short(value)}' for key, value in given.items())})"
        return function(**given)

    def member(self, value: Any) -> Any:
        choices = public(value)
        if not choices:
            return value
        name = choices[int(self.rng.integers(len(choices)))]
        if name == "__getitem__":
            key = argument(self.rng, "key", 0.7)
            self.given.append(key)
            self.text += f"[{_short(key)}]"
            return value[key]
        try:
            member = getattr(value, name)
        except AttributeError as error:
            if type(value).__name__ in str(error) or isinstance(error, NotFittedError):
                self.text += f".{name}"
                return None  # not there, and it says so: hasattr is False
            raise
        if not callable(member):
            self.text += f".{name}"
            return member
        return self.call(name, value, 0.35, optional=0.4, method=True)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) < 90 else text[:87] + "..."


def one(seed: int, at: int, seconds: float = SECONDS) -> Outcome:
    """Make call ``at`` and say how it ended; one that hangs is made again."""
    outcome = _once(seed, at, seconds)
    return _once(seed, at, seconds) if outcome.kind == "hang" else outcome


def _once(seed: int, at: int, seconds: float) -> Outcome:
    call = _Call(seed, at)

    def alarm(*_: Any) -> None:
        raise _Hang

    batches()
    before = signal.signal(signal.SIGPROF, alarm)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                kind, detail = _of_value(call.run(), call)
            except _Hang:
                kind, detail = "hang", f"more than {seconds:g} s"
            except Exception as error:
                kind, detail = _of_error(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    noise = [w for w in heard if issubclass(w.category, RuntimeWarning)]
    if kind in GOOD and noise:
        kind, detail = "RuntimeWarning", f"{noise[0].message} ({_place(noise[0].filename)}:{noise[0].lineno})"
    return Outcome(kind, call.text, detail)


def _of_value(value: Any, call: _Call) -> tuple[str, str]:
    if "make_profiles" not in call.text and _has_nan(value) and not any(_has_nan(given) for given in call.given):
        return "NaN", _short(value)
    return "value", ""


def _has_nan(value: Any, depth: int = 0) -> bool:
    if isinstance(value, Batch):
        return any(_has_nan(getattr(value, name), depth + 1) for name in (*value._arrays, *value._parts))
    if isinstance(value, list | tuple | dict) and depth < 3:
        inner = value.values() if isinstance(value, dict) else value
        return any(_has_nan(v, depth + 1) for v in inner)
    if isinstance(value, mc.Sequences):
        value = value.values
    if isinstance(value, pd.DataFrame | pd.Series):
        value = value.to_numpy()
    if sparse.issparse(value):
        value = value.data
    if isinstance(value, float | complex | np.ndarray | np.generic):
        array = np.asarray(value)
        return array.dtype.kind in "fc" and bool(np.isnan(array).any())
    return False


def _of_error(error: Exception) -> tuple[str, str]:
    """Tell a sentence that somebody meant from an error of a line that did not mean to raise."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    meant = linecache.getline(last.filename, last.lineno or 0).strip().startswith("raise")
    text = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    if meant and "/mercer/" in last.filename:
        return "sentence of mercer", text
    if any("/sklearn/utils/" in frame.filename for frame in frames):
        return "validation of scikit-learn", text
    inside = next((f for f in reversed(frames) if "/mercer/" in f.filename), last)
    return "bare error", f"{text} ({_place(inside.filename)}:{inside.lineno})"


def _place(path: str) -> str:
    return "/".join(Path(path).parts[-2:])


# -- many calls ----------------------------------------------------------------------------------------------


def run(n: int, seed: int = 0, seconds: float = SECONDS) -> list[Outcome]:
    """Make ``n`` calls."""
    return [one(seed, at, seconds) for at in range(n)]


def table(outcomes: list[Outcome]) -> str:
    """Return the number of calls for each outcome."""
    counts = Counter(outcome.kind for outcome in outcomes)
    lines = [f"{kind:30} {counts[kind]:7,}" for kind in (*GOOD, *BAD)]
    return "\n".join([*lines, f"{'calls':30} {len(outcomes):7,}"])


def main() -> None:
    os.chdir(tempfile.mkdtemp())  # some calls write files
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at", type=int, default=0, help="number of the first call")
    options = parser.parse_args()
    if options.calls == 1:
        call = _Call(options.seed, options.at)
        try:
            print(call.run())
        finally:
            print(call.text)
        return
    outcomes, failures = [], Counter()  # type: ignore[var-annotated]
    first: dict[Any, tuple[int, Outcome]] = {}
    for at in range(options.at, options.at + options.calls):
        faulthandler.dump_traceback_later(10 * SECONDS, exit=True)  # native code that does not end, a lock
        outcome = one(options.seed, at)
        outcomes.append(outcome)
        if not outcome.good:
            key = (outcome.kind, outcome.detail.rpartition("(")[2], outcome.detail.split(":")[0])
            failures[key] += 1
            first.setdefault(key, (at, outcome))
    faulthandler.cancel_dump_traceback_later()
    for key, count in failures.most_common():
        at, outcome = first[key]
        print(f"{count:4} x {outcome.kind}, first at {at}: {outcome.call}\n       {outcome.detail}")
    print(table(outcomes))
    sys.exit(any(not outcome.good for outcome in outcomes))


if __name__ == "__main__":
    main()
