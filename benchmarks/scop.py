"""Remote homology between proteins on SCOP 1.53: the table of docs/scop.md.

    MERCER_DATA=... python benchmarks/scop.py                  # all kernels on the 54 families, minutes on two cores
    MERCER_DATA=... python benchmarks/scop.py --development    # on other superfamilies, on which settings were chosen
    MERCER_DATA=... python benchmarks/scop.py local tempered   # some of the kernels

A Gram matrix of all 4,352 proteins is computed once and kept in a folder (``--cache``). Everything that is learned,
such as chances, shifts and exponents, is learned from the training proteins of each family. One support vector machine
with C = 1 and balanced classes per family; the numbers are means over the families of the area under the ROC curve, and
of the area up to 50 false positives.

``--development`` uses no protein of the superfamilies of the 54 families: it takes every family of another
superfamily that has at least three members, and at least three in the rest of its superfamily.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _numbers import add_json, write_json
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import fetch_scop
from mercer.kernels.base import Kernel

SMALLEST = 3
"""Smallest number of members of a family, and of the rest of its superfamily, in the development tasks."""
NEGATIVES = 900
"""Number of training negatives of a development task."""


# -- tasks -------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """One family: indices of proteins, and whether they belong to the superfamily."""

    name: str
    train: np.ndarray
    is_train: np.ndarray
    test: np.ndarray
    is_test: np.ndarray


def families(scop: Any) -> Iterator[Task]:
    """Yield the tasks of Liao and Noble."""
    for name, role in zip(scop.families, scop.role.T, strict=True):
        train, test = (np.flatnonzero(np.isin(role, pair)) for pair in ((1, 2), (3, 4)))
        yield Task(name, train, role[train] == 1, test, role[test] == 3)


def development(scop: Any) -> Iterator[Task]:
    """Yield tasks of superfamilies that contain none of the 54 families."""
    rng = np.random.default_rng(0)
    superfamily = np.array(scop.target_names)[scop.target]
    fold = np.array([name.rsplit(".", 1)[0] for name in superfamily])
    known = {name.rsplit(".", 1)[0] for name in scop.families}
    free = np.array([name not in known for name in superfamily])
    for one in sorted(set(superfamily[free])):
        members = np.flatnonzero(superfamily == one)
        for name in sorted(set(scop.family[members])):
            inside = scop.family[members] == name
            if min(inside.sum(), (~inside).sum()) < SMALLEST:
                continue
            others = rng.permutation(np.flatnonzero(free & (fold != fold[members[0]])))
            parts = (members[~inside], others[:NEGATIVES]), (members[inside], others[NEGATIVES:])
            (train, is_train), (test, is_test) = (
                (np.concatenate(part), np.arange(len(part[0]) + len(part[1])) < len(part[0])) for part in parts
            )
            yield Task(name, train, is_train, test, is_test)


def roc50(scores: np.ndarray, positive: np.ndarray, most: int = 50) -> float:
    """Return the area under the ROC curve up to ``most`` false positives, as a fraction; ties count against it."""
    order = np.lexsort((positive, -scores))
    found = np.cumsum(positive[order])[~positive[order]][:most]  # true positives before each false one
    return float(found.mean() / positive.sum()) if len(found) else 1.0


# -- kernels -----------------------------------------------------------------------------------------------


class Stored(Kernel):
    """A kernel between proteins, given by their numbers, from a matrix in a file."""

    nonnegative = True
    psd = mc.kernels.Verdict("conditional", "a matrix from a file")

    def __init__(self, file: str, kind: str = "log") -> None:
        self.file = file
        self.kind = kind

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Whether the file has logarithms."""
        return self.kind

    def _accept(self, X: Any, *, reset: bool) -> np.ndarray:
        return np.asarray(X)

    def _prepare(self, source: np.ndarray) -> np.ndarray:
        return source

    def _cheap_pairs(self, source: np.ndarray) -> bool:
        return True

    def _tile(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.load(self.file, mmap_mode="r")[np.ix_(a, b)].astype(float)

    def _self(self, a: np.ndarray) -> np.ndarray:
        return np.load(self.file, mmap_mode="r")[a, a].astype(float)


class Source(NamedTuple):
    """A kernel whose matrix is kept."""

    kernel: Any
    kind: str


def pairs(**settings: Any) -> Source:
    """Return the marginalization kernel of a pair HMM."""
    return Source(mc.Marginalization(mc.AffinePairHMM(**settings), normalize=False), "log")


def windows(k: int) -> Source:
    return Source(mc.Spectrum(k, mismatches=1, normalize=False), "linear")


SECONDS: dict[str, float] = {}
"""Times of the matrices that this run has computed."""

SOURCES: dict[str, Source] = {
    "global": pairs(),
    "local": pairs(local=True),
    "soft local": pairs(local=True, matrix_scale=0.2),
    "spectrum3": windows(3),
    "spectrum5": windows(5),
}


def odds(kernel: Any) -> Any:
    return mc.kernels.LogOdds(kernel, shift=1.0)  # fixed, since the eigenvalues of every training matrix take time


PARTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Spectrum(3, mismatches=1)": ("spectrum3", mc.kernels.Normalized),
    "Spectrum(5, mismatches=1)": ("spectrum5", mc.kernels.Normalized),
    "Tempered(global, exponent=.003)": ("global", lambda kernel: mc.Tempered(kernel, exponent=0.003)),
    "LogOdds(global)": ("global", odds),
    "LogOdds(local)": ("local", odds),
    "LogOdds(soft local)": ("soft local", odds),
}
"""Name -> the matrix, and how it becomes a kernel."""

SUMS: list[tuple[str, ...]] = [
    ("Tempered(global, exponent=.003)", "LogOdds(soft local)"),
    ("LogOdds(global)", "LogOdds(soft local)"),
    ("LogOdds(global)", "LogOdds(soft local)", "Spectrum(5, mismatches=1)"),
]
"""Kernels with weight 1 each; their matrices are the sums of those of the parts."""

METHODS = {" + ".join(parts): parts for parts in [*((name,) for name in PARTS), *SUMS]}


def stored(name: str, X: Any, folder: Path) -> Stored:
    """Return the kernel of a matrix, which is computed if the folder does not have it."""
    file, source = folder / f"{name.replace(' ', '-')}.npy", SOURCES[name]
    if not file.exists():
        start = time.perf_counter()
        with mc.config(memo_bytes=0):
            kernel = source.kernel.fit(X)
            matrix = kernel.log(X) if source.kind == "log" else kernel(X)
        SECONDS[name] = time.perf_counter() - start
        print(f"{name}: {SECONDS[name]:.1f} s for {len(X)} x {len(X)} pairs", flush=True)
        np.save(file, matrix)
    return Stored(str(file), source.kind)


# -- evaluation --------------------------------------------------------------------------------------------


def score(task: Task, kernels: dict[str, Any], methods: dict[str, tuple[str, ...]]) -> np.ndarray:
    """Return ROC and ROC50 of one family for every method, ``(methods, 2)``; each part is computed once."""
    rows = {}
    for name, kernel in kernels.items():
        fitted = kernel.fit(task.train)
        rows[name] = fitted.transform(task.train), fitted.transform(task.test)
    found = []
    for parts in methods.values():
        train, test = (sum(rows[name][i] for name in parts) for i in (0, 1))
        estimator = SVC(kernel="precomputed", C=1.0, class_weight="balanced", cache_size=500).fit(train, task.is_train)
        scores = estimator.decision_function(test)
        found.append((roc_auc_score(task.is_test, scores), roc50(scores, task.is_test)))
    return np.array(found)


def evaluate(tasks: list[Task], kernels: dict[str, Any], methods: dict[str, tuple[str, ...]], jobs: int) -> np.ndarray:
    """Return ROC and ROC50 of every family for every method, ``(families, methods, 2)``."""
    if jobs == 1:
        return np.array([score(task, kernels, methods) for task in tasks])
    with ProcessPoolExecutor(jobs) as pool:
        return np.array(list(pool.map(score, tasks, [kernels] * len(tasks), [methods] * len(tasks))))


def draw(found: dict[str, np.ndarray], file: Path) -> None:
    """Draw how many families reach each ROC50."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
    for name, areas in found.items():
        reached = np.sort(areas[:, 1])[::-1]
        axes.step(np.append(reached, 0.0), np.arange(len(reached) + 1), where="pre", label=name)
    axes.set(xlabel="ROC50", ylabel="number of families with at least this ROC50", xlim=(0, 1), ylim=(0, None))
    figure.legend(loc="outside upper center", fontsize="small")
    figure.savefig(file, dpi=110)


def matrix_times() -> dict[str, Any]:
    """Return the times of the matrices under the first method that has each, and their sum under the whole sum."""
    first = {source: name for name, (source, _) in reversed(PARTS.items())}
    found: dict[str, Any] = {first[source]: seconds for source, seconds in SECONDS.items()}
    whole = [SECONDS.get(PARTS[name][0], np.nan) for name in SUMS[-1]]
    if np.isfinite(whole).all():
        found[" + ".join(SUMS[-1])] = f"{sum(whole):.0f} s in all"
    return {name: {"matrix of 4,352 proteins": value} for name, value in found.items()}


def main(arguments: list[str] | None = None) -> dict[str, np.ndarray]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help="parts of the names of methods; all by default")
    parser.add_argument("--development", action="store_true", help="use superfamilies outside of the 54 families")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "mercer-scop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    add_json(parser)
    parser.add_argument("--plot", type=Path, help="draw the families into this file")
    given = parser.parse_args(arguments)
    wanted = [part.lower() for part in given.methods] or [""]
    methods = {name: parts for name, parts in METHODS.items() if any(part in name.lower() for part in wanted)}
    if not methods:
        parser.error(f"no method has {' or '.join(given.methods)} in its name; the methods are {', '.join(METHODS)}")
    given.cache.mkdir(parents=True, exist_ok=True)
    scop = fetch_scop()
    tasks = list(development(scop) if given.development else families(scop))
    names = dict.fromkeys(name for parts in methods.values() for name in parts)
    kernels = {name: PARTS[name][1](stored(PARTS[name][0], scop.data, given.cache)) for name in names}
    found = evaluate(tasks, kernels, methods, given.jobs).swapaxes(0, 1)
    for name, areas in zip(methods, found, strict=True):
        print(f"{name:65s} ROC {areas[:, 0].mean():.4f}  ROC50 {areas[:, 1].mean():.4f}  ({len(tasks)} families)")
    named = dict(zip(methods, found, strict=True))
    values = {name: {"ROC": areas[:, 0].mean(), "ROC50": areas[:, 1].mean()} for name, areas in named.items()}
    write_json(given.json, {"development": values} if given.development else values, matrix_times())
    if given.plot is not None:
        draw(named, given.plot)
    return named


if __name__ == "__main__":
    main()
