"""Accuracy of FisherEnsemble on 22 sets of time series, without tuning, beside published numbers.

    MERCER_DATA=... python benchmarks/accuracy_series.py                    # all sets, a few minutes on one core
    MERCER_DATA=... python benchmarks/accuracy_series.py Beef NATOPS --cap 400
    MERCER_DATA=... python benchmarks/accuracy_series.py --cost             # 100 series of 300 steps
    MERCER_DATA=... python benchmarks/accuracy_series.py --classes          # with and without models of the classes
    MERCER_DATA=... python benchmarks/accuracy_series.py --systems --cap 200  # with linear dynamical systems

The pipeline is ``make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10))`` on the official splits of the
UCR archive (``ucr_more``) and the UEA archive (``uea``). ``--cap`` limits the number of test series.

Published numbers: nearest neighbor, Euclidean and by dynamic time warping with a learned window (Dau et al., The UCR
archive, 2018); ROCKET (Dempster, Petitjean and Webb, Data Mining and Knowledge Discovery 34, 2020, and the archive's
results), rounded. For the three UEA sets: the best of five kernels (linear, RBF, global alignment, signature, signature
PDE) in an SVM (Salvi et al., The signature kernel is the solution of a Goursat PDE, 2021).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

ONE_LENGTH = {
    "ArrowHead": (0.80, 0.80, 0.81),
    "Beef": (0.67, 0.67, 0.83),
    "BirdChicken": (0.55, 0.70, 0.90),
    "Chinatown": (0.95, 0.95, 0.98),
    "FaceFour": (0.78, 0.89, 0.98),
    "Ham": (0.60, 0.60, 0.73),
    "ItalyPowerDemand": (0.96, 0.96, 0.97),
    "Lightning7": (0.58, 0.71, 0.82),
    "MoteStrain": (0.88, 0.87, 0.92),
    "Plane": (0.96, 1.00, 1.00),
    "SmoothSubspace": (0.91, 0.95, 0.98),
    "SyntheticControl": (0.88, 0.98, 1.00),
    "ToeSegmentation2": (0.81, 0.91, 0.92),
    "TwoLeadECG": (0.75, 0.87, 1.00),
    "Wine": (0.61, 0.61, 0.81),
}
"""Nearest neighbor, dynamic time warping, ROCKET."""
VARYING = {
    "GesturePebbleZ1": (None, 0.826, 0.906),
    "PickupGestureWiimoteZ": (None, 0.660, 0.830),
    "ShakeGestureWiimoteZ": (None, 0.840, 0.898),
}
GAPS = {"DodgerLoopGame": (None, 0.927, 0.873)}
SYSTEMS = (2, 4, 8)
"""State sizes of the linear dynamical systems of ``--systems``."""
CHANNELS = {"NATOPS": 0.933, "RacketSports": 0.849, "UWaveGestureLibrary": 0.875}
"""The best of five published kernels."""


def load(name: str, part: str) -> tuple[Any, Any]:
    """Read the training or the test part of a set."""
    folder = Path(os.environ["MERCER_DATA"])
    if name in CHANNELS:
        return tuple(mc.read_ts(folder / "uea" / f"{name}_{part}.ts.gz"))  # type: ignore[return-value]
    return tuple(mc.read_ucr(folder / "ucr_more" / f"{name}_{part}.tsv.gz"))  # type: ignore[return-value]


def parts(name: str, cap: int | None) -> tuple[Any, Any, Any, Any]:
    """Read a set, with at most so many test series."""
    (X, y), (X_test, y_test) = load(name, "TRAIN"), load(name, "TEST")
    if cap is not None and len(X_test) > cap:
        keep = np.sort(np.random.default_rng(0).permutation(len(X_test))[:cap])
        X_test, y_test = X_test[keep], y_test[keep]
    return X, y, X_test, y_test


def accuracy(name: str, cap: int | None, **parameters: Any) -> tuple[float, float, int]:
    """Fit and score; returns the accuracy, the seconds, and the number of training series."""
    X, y, X_test, y_test = parts(name, cap)
    begin = time.perf_counter()
    classifier = make_pipeline(mc.FisherEnsemble(**parameters), SVC(kernel="precomputed", C=10)).fit(X, y)
    found = float(classifier.score(X_test, y_test))
    return found, time.perf_counter() - begin, len(X)


def table(title: str, sets: dict[str, Any], names: list[str], cap: int | None) -> None:
    """Print one group of sets."""
    chosen = [name for name in sets if name in names or not names]
    if not chosen:
        return
    heads = ["best published kernel"] if sets is CHANNELS else ["nearest neighbor", "DTW", "ROCKET"]
    print(f"\n| {title} | training series | {' | '.join(heads)} | FisherEnsemble | seconds |")
    print("|---|--:|" + "--:|" * len(heads) + "--:|--:|", flush=True)
    rows = []
    for name in chosen:
        found, seconds, n = accuracy(name, cap)
        published = [sets[name]] if sets is CHANNELS else list(sets[name])
        rows.append([*(np.nan if value is None else value for value in published), found])
        shown = " | ".join("" if value is None else f"{value:.3f}" for value in published)
        print(f"| {name} | {n} | {shown} | {found:.3f} | {seconds:.1f} |", flush=True)
    means = " | ".join("" if np.isnan(value) else f"{value:.3f}" for value in np.mean(rows, axis=0))
    print(f"| mean of {len(rows)} | | {means} | |", flush=True)


def classes() -> None:
    """Print accuracies with and without models of the classes, for several C: the sets of 200 training series or more.

    Yoga has no test series here: three folds, with 200 training series each.
    """
    folder = Path(os.environ["MERCER_DATA"])
    vowels = [tuple(mc.read_ts(folder / f"JapaneseVowels/JapaneseVowels_{part}.ts.gz")) for part in ("TRAIN", "TEST")]
    X, y = mc.read_ucr(folder / "ucr_Yoga/Yoga_TRAIN.tsv.gz")
    folds = StratifiedKFold(3, shuffle=True, random_state=0).split(np.zeros(len(y)), y)
    sets = {
        "SyntheticControl": [(*load("SyntheticControl", "TRAIN"), *load("SyntheticControl", "TEST"))],
        "JapaneseVowels": [(*vowels[0], *vowels[1])],
        "Yoga, 3 folds": [(X[train], y[train], X[test], y[test]) for train, test in folds],
    }
    costs = (1, 10, 100)
    print(f"| set | training series | models of classes | {' | '.join(f'C = {C}' for C in costs)} | CPU seconds |")
    print("|---|--:|---|" + "--:|" * (len(costs) + 1))
    for name, splits in sets.items():
        for by_class in (False, True):
            begin, right, total = time.process_time(), np.zeros(len(costs)), 0
            for train, target, test, answer in splits:
                kernel = mc.FisherEnsemble(by_class=by_class)
                K, K_test = kernel.fit_transform(train, target), kernel.transform(test)
                estimators = [SVC(kernel="precomputed", C=C).fit(K, target) for C in costs]
                right += [np.sum(estimator.predict(K_test) == answer) for estimator in estimators]
                total += len(answer)
            shown = " | ".join(f"{value:.3f}" for value in right / total)
            print(f"| {name} | {len(target)} | {by_class} | {shown} | {time.process_time() - begin:.0f} |", flush=True)


def with_systems(names: list[str], cap: int | None) -> None:
    """Print what a block of Fisher kernels of linear dynamical systems adds to the ensemble."""
    warnings.filterwarnings("ignore", category=UserWarning)  # 30 iterations need not converge
    chosen = [name for name in (*ONE_LENGTH, *VARYING, *GAPS, *CHANNELS) if name in names or not names]
    heads = ("FisherEnsemble", "systems only", "with systems", "with systems of shapes too")
    print(f"\n| set | {' | '.join(heads)} | seconds of systems |\n|---|" + "--:|" * 5, flush=True)
    rows = []
    for name in chosen:
        X, y, X_test, y_test = parts(name, cap)
        ensemble = mc.FisherEnsemble().fit(X, y)
        blocks = 2 * (2 if len(X) >= 200 else 1) + 1
        pairs = [(ensemble.transform(X), ensemble.transform(X_test))]
        begin = time.perf_counter()
        for first in ([], [mc.Standardize(per="series")]):
            scaled = make_pipeline(*first, mc.Standardize())
            a, b = scaled.fit_transform(X), scaled.transform(X_test)
            kernels = [
                mc.Fisher(mc.LDS(n, n_init=1, n_iter=30), information="diagonal", per="step", power=0.5).fit(a, y)
                for n in SYSTEMS
            ]
            pairs.append(tuple(sum(k.transform(part) for k in kernels) / len(kernels) for part in (a, b)))
        seconds = time.perf_counter() - begin
        found = []
        for weights in ((1, 0, 0), (0, 1, 1), (blocks, 1, 0), (blocks, 1, 1)):
            K, rows_of_test = (sum(w * pair[side] for w, pair in zip(weights, pairs, strict=True)) for side in (0, 1))
            size = sum(weights)
            classifier = SVC(kernel="precomputed", C=10).fit(K / size, y)
            found.append(float(classifier.score(rows_of_test / size, y_test)))
        rows.append(found)
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in found)} | {seconds:.1f} |", flush=True)
    print(f"| mean of {len(rows)} | {' | '.join(f'{value:.3f}' for value in np.mean(rows, axis=0))} | |")
    for k in (2, 3):
        change = np.array(rows)[:, k] - np.array(rows)[:, 0]
        print(f"{heads[k]}: better on {(change > 0).sum()}, worse on {(change < 0).sum()} of {len(rows)} sets")


def cost() -> None:
    """Print the time of ``fit_transform`` of 100 series of 300 steps, when everything is compiled."""
    rng = np.random.default_rng(0)
    X, y = np.cumsum(rng.normal(size=(100, 300)), axis=1), np.arange(100) % 4
    with mc.config(n_jobs=1, cache_bytes=0, memo_bytes=0):
        for _ in range(3):  # code that is specialized for a number of states is compiled in the second run
            begin = time.perf_counter()
            mc.FisherEnsemble().fit_transform(X, y)
            seconds = time.perf_counter() - begin
    print(f"fit_transform of 100 series of 300 steps, one core: {seconds:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="sets; all of them by default")
    parser.add_argument("--cap", type=int, help="at most so many test series")
    parser.add_argument("--cost", action="store_true", help="only the time of one Gram matrix")
    parser.add_argument("--classes", action="store_true", help="only the models of classes and C, on larger sets")
    parser.add_argument("--systems", action="store_true", help="the ensemble with linear dynamical systems in it")
    given = parser.parse_args()
    if given.cost:
        cost()
    elif given.classes:
        classes()
    elif given.systems:
        with_systems(given.names, given.cap)
    else:
        table("one length", ONE_LENGTH, given.names, given.cap)
        table("different lengths", VARYING, given.names, given.cap)
        table("gaps", GAPS, given.names, given.cap)
        table("several channels", CHANNELS, given.names, given.cap)
