"""What ``mercer compare`` chooses on many real sets, against plain baselines, DTW and MiniRocket: docs/many_sets.md.

    MERCER_DATA=... python benchmarks/many_sets.py --out many_sets.json          # all sets, an hour or two on two cores
    MERCER_DATA=... python benchmarks/many_sets.py GunPoint promoters

On every set, the kernel and the plain baseline with the best score in the inner cross-validation of each training fold
are compared on the test folds. Nearest neighbors by dynamic time warping and MiniRocket (of aeon, if it is installed)
stand beside. Finished folds are kept in the user's cache folder, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _numbers import add_json, write_json
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

import mercer as mc
from mercer import datasets
from mercer._comparison.evaluation import Contender, Task, evaluate_fold
from mercer._comparison.recipes import ContenderFactory, contenders
from mercer._comparison.results import Result, chosen_inside, difference, joined
from mercer._comparison.runner import FoldCache, default_folder

FOLDS, SEED, LIMIT = 5, 0, 150
SERIES = ("Coffee", "ECG200", "GunPoint", "Wafer", "Yoga")
MORE_SERIES = """
    ArrowHead Beef BirdChicken Chinatown DodgerLoopGame FaceFour GesturePebbleZ1 Ham ItalyPowerDemand Lightning7
    MoteStrain PickupGestureWiimoteZ Plane ShakeGestureWiimoteZ SmoothSubspace SyntheticControl ToeSegmentation2
    TwoLeadECG
"""


class Aeon(ClassifierMixin, BaseEstimator):
    """A classifier of aeon on series that are resampled to one length."""

    def __init__(self, kind: str = "rocket", length: int = 100) -> None:
        self.kind = kind
        self.length = length

    def fit(self, X: mc.Sequences, y: Any) -> Aeon:
        """Fit the classifier."""
        if self.kind == "dtw":
            from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

            self.model_ = KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw", distance_params={"window": 0.1})
        else:
            from aeon.classification.convolution_based import MiniRocketClassifier

            self.model_ = MiniRocketClassifier(random_state=0)
        self.model_.fit(self._cube(X), y)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: mc.Sequences) -> Any:
        """Predict labels."""
        return self.model_.predict(self._cube(X))

    def _cube(self, X: mc.Sequences) -> Any:
        even = mc.data.Resample(max(self.length, 10)).fit_transform(X)
        return np.stack([np.nan_to_num(np.asarray(x)).T for x in even])


def sets() -> dict[str, Callable[[], tuple[Any, Any, Any]]]:
    """Return the sets, fixed before any was run: each a function that gives samples, labels and groups."""

    def plain(bunch: Any, groups: str | None = None) -> tuple[Any, Any, Any]:
        X = bunch.data if sparse.issparse(bunch.data) else mc.Sequences(bunch.data)
        return X, np.asarray(bunch.target), None if groups is None else np.asarray(bunch[groups])

    found: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
        "promoters": lambda: plain(datasets.fetch_promoters()),
        "splice": lambda: plain(datasets.fetch_splice()),
        "intron_exon": lambda: plain(datasets.fetch_intron_exon(trim=10), "groups"),
        "pfam_seeds": lambda: plain(datasets.fetch_pfam_seeds()),
        "JapaneseVowels": lambda: plain(datasets.fetch_japanese_vowels()),
        "BasicMotions": lambda: plain(datasets.fetch_basic_motions()),
        "fsdd": lambda: plain(datasets.fetch_fsdd()),
        "watch_imu": lambda: plain(datasets.fetch_watch_imu(), "groups"),
        "webkb": lambda: plain(datasets.fetch_webkb()),
        "r8": lambda: plain(datasets.fetch_r8()),
    }
    found |= {name: (lambda name=name: plain(datasets.fetch_ucr(name))) for name in SERIES}
    return found | {name: (lambda name=name: archived(name)) for name in MORE_SERIES.split()}


def archived(name: str) -> tuple[Any, Any, Any]:
    """Return both parts of a set of the UCR archive from the folder ``ucr_more`` of MERCER_DATA."""
    folder = Path(os.environ.get("MERCER_DATA", ".")) / "ucr_more"
    parts = [mc.read_ucr(folder / f"{name}_{part}.tsv.gz") for part in ("TRAIN", "TEST")]
    X = mc.Sequences.concat([part.X for part in parts])
    return X, np.concatenate([np.asarray(part.y) for part in parts]), None


def task_of(X: Any, y: Any, groups: Any) -> Task:
    """Return a task of at most LIMIT samples, without classes of fewer than ten."""
    names, counts = np.unique(y, return_counts=True)
    usable = np.flatnonzero(np.isin(y, names[counts >= 10]))
    chosen = np.sort(np.random.default_rng(SEED).permutation(usable)[:LIMIT])
    small, left = np.unique(y[chosen], return_counts=True)
    chosen = chosen[np.isin(y[chosen], small[left >= FOLDS + 1])]
    X, y = X[chosen], y[chosen].astype(str)
    tried = contenders(X, ContenderFactory(), SEED)
    if isinstance(X, mc.Sequences) and not X.is_symbols and find_spec("aeon"):
        length = int(min(np.median(X.lengths), 300))
        tried += [Contender("DTW 1-NN", Aeon("dtw", length)), Contender("MiniRocket", Aeon("rocket", length))]
    return Task("", X, y, tried, None if groups is None else groups[chosen])


BESIDE = ("DTW 1-NN", "MiniRocket")


def run(name: str, make: Callable[[], tuple[Any, Any, Any]]) -> dict[str, Any]:
    """Return the row of one set."""
    start = time.perf_counter()
    task = task_of(*make())
    cache = FoldCache(default_folder(), FOLDS, SEED)
    results = []
    for contender in task.contenders:
        done = cache.folds(task, contender)
        for fold in range(FOLDS):
            if fold not in done:
                try:
                    done[fold] = evaluate_fold(task, contender, fold, FOLDS, SEED)
                except (ValueError, MemoryError) as error:
                    print(f"{name}: {contender.name} failed: {error}", flush=True)
                    break
                cache.add(task, contender, done[fold])
        if len(done) == FOLDS:
            results.append(Result(name, contender, [done[fold] for fold in range(FOLDS)]))
    inside = [result for result in results if result.contender.name not in BESIDE]
    kernels, plain = chosen_inside(inside, kernels=True), chosen_inside(inside, kernels=False)
    found = difference(joined(kernels), joined(plain), task, FOLDS, SEED)
    error = (found.high - found.low) / (2 * 1.98)
    names = [result.contender.name for result in kernels]
    by_name = {result.contender.name: result.score for result in results}
    return {
        "set": name,
        "samples": len(task.y),
        "classes": len(np.unique(task.y)),
        "kernel": joined(kernels).score,
        "chosen": max(names, key=names.count),
        "baseline": joined(plain).score,
        "difference": found.mean,
        "standard_error": error,
        "not_below": bool(found.mean >= -error),
        "beside": {name: by_name[name] for name in BESIDE if name in by_name},
        "scores": by_name,
        "seconds": time.perf_counter() - start,
    }


def line(row: dict[str, Any]) -> str:
    """Return a row of the table as Markdown."""
    beside = [f"{row['beside'][name]:.3f}" if name in row["beside"] else "" for name in BESIDE]
    cells = [
        row["set"], str(row["samples"]), str(row["classes"]), f"{row['kernel']:.3f}", row["chosen"],
        f"{row['baseline']:.3f}", f"{row['difference']:+.3f} ± {row['standard_error']:.3f}",
        "yes" if row["not_below"] else "no", *beside,
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def numbers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of the page: those of every set, and the means of the sets of series."""
    found: dict[str, Any] = {}
    for row in rows:
        beside = {name.split()[0]: row["beside"].get(name) for name in BESIDE}
        found[row["set"]] = {
            "samples": row["samples"], "classes": row["classes"], "kernel": row["kernel"],
            "chosen most often": row["chosen"], "baseline": row["baseline"],
            "difference": f"{row['difference']:+.3f} ± {row['standard_error']:.3f}".replace("0.", "."),
            "not below": "yes" if row["not_below"] else "no", **beside,
        }  # fmt: skip
    series = [found[row["set"]] for row in rows if len(row["beside"]) == len(BESIDE)]
    found["all sets"] = {"sets": len(rows), "not below": sum(row["not_below"] for row in rows)}
    if series:
        names = ("kernel", "baseline", *(name.split()[0] for name in BESIDE))
        found["mean of series"] = {name: float(np.mean([row[name] for row in series])) for name in names}
        found["mean of series"]["sets"] = len(series)
        found["above"] = {name: sum(row["kernel"] > row[name] for row in series) for name in names[2:]}
        found["below"] = {name: sum(row["kernel"] < row[name] for row in series) for name in names[2:]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="sets; all by default")
    parser.add_argument("--out", type=Path, help="write the rows, with the scores of all methods")
    add_json(parser)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = sets()
    unknown = sorted(set(given.names) - set(known))
    if unknown:
        raise SystemExit(f"Unknown set {unknown[0]!r}. Use some of {', '.join(known)}.")
    headings = ("set", "samples", "classes", "kernel", "chosen", "baseline", "difference", "not below", *BESIDE)
    print("| " + " | ".join(headings) + " |\n|---|--:|--:|--:|---|--:|--:|---|--:|--:|")
    rows = []
    for name in given.names or known:
        rows.append(run(name, known[name]))
        print(line(rows[-1]), flush=True)
        if given.out:
            given.out.write_text(json.dumps(rows, indent=1))
    write_json(given.json, numbers(rows))
    good = sum(row["not_below"] for row in rows)
    print(f"\n{good} of {len(rows)} sets: not more than one standard error below the baseline.")


if __name__ == "__main__":
    main()
