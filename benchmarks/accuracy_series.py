"""Accuracy of SeriesClassifier and SeriesRegressor on sets of time series, without tuning, beside other numbers.

    MERCER_DATA=... python benchmarks/accuracy_series.py                    # all sets, some minutes on one core
    MERCER_DATA=... python benchmarks/accuracy_series.py Beef NATOPS --preset fast --seed 1
    MERCER_DATA=... python benchmarks/accuracy_series.py gaps               # values left out at random, some minutes
    python benchmarks/accuracy_series.py numbers                            # R2 on generated series, a minute

Official splits of the UCR archive (``ucr_more``, ``ucr_large``) and the UEA archive. Published numbers of the same
splits: ``ucr_published.csv``, from tsml-eval (Middlehurst, Schäfer and Bagnall, Bake off redux, Data Mining and
Knowledge Discovery 38, 2024). For the first three UEA sets: the best of five kernels (linear, RBF, global alignment,
signature, signature PDE) in an SVM (Salvi et al., The signature kernel is the solution of a Goursat PDE, 2021).
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _numbers import add_json, write_json
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.data.baseline_features import Summary
from mercer.data.standardize import interpolated
from mercer.datasets import make_traits

GROUPS = {
    "one length": "ArrowHead Beef BirdChicken Chinatown FaceFour Ham ItalyPowerDemand Lightning7 MoteStrain Plane "
    "SmoothSubspace SyntheticControl ToeSegmentation2 TwoLeadECG Wine",
    "300 series and more": "CricketZ DistalPhalanxTW FiftyWords ProximalPhalanxOutlineAgeGroup Strawberry SwedishLeaf",
    "different lengths": "AllGestureWiimoteZ GesturePebbleZ1 PickupGestureWiimoteZ ShakeGestureWiimoteZ",
    "gaps": "DodgerLoopGame",
    "several channels": "NATOPS RacketSports UWaveGestureLibrary BasicMotions JapaneseVowels",
}
CHANNELS = {"NATOPS": "0.933", "RacketSports": "0.849", "UWaveGestureLibrary": "0.875"}
"""The best of five published kernels."""
OURS = {"best": "SeriesClassifier", "fast": "fast"}
"""Names of the presets on pages."""
Numbers = dict[str, dict[str, float]]
WITH_GAPS = """
    Beef ArrowHead Chinatown ItalyPowerDemand TwoLeadECG Wine FaceFour ToeSegmentation2 Lightning7 SmoothSubspace
"""
"""Sets whose steps are left out at random."""
COLUMNS = {"1NN-DTW": "DTW", "ROCKET": "ROCKET", "MR-Hydra": "MultiRocket-Hydra", "HC2": "HIVE-COTE 2"}
"""Published accuracies: their columns in the file, and on pages."""


def load(name: str, part: str) -> tuple[Any, Any]:
    """Read the training or the test part of a set."""
    folder = Path(os.environ["MERCER_DATA"])
    if name in GROUPS["several channels"].split():
        folder = folder / ("uea" if name in CHANNELS else name)
        return tuple(mc.read_ts(folder / f"{name}_{part}.ts.gz"))  # type: ignore[return-value]
    path = folder / "ucr_more" / f"{name}_{part}.tsv.gz"
    return tuple(mc.read_ucr(path if path.exists() else folder / "ucr_large" / path.name))  # type: ignore[return-value]


def accuracies(names: list[str], preset: str, seed: int) -> tuple[Numbers, Numbers]:
    """Print the accuracies of some sets, or of all of them, and their means; return them, and CPU seconds."""
    values: Numbers = {}
    times: Numbers = {}

    def names_of(group: str) -> list[str]:
        *others, last = COLUMNS.values()
        return [*others, "best published kernel" if group == "several channels" else last, OURS[preset]]

    with open(Path(os.environ["MERCER_DATA"]) / "ucr_published.csv", encoding="utf-8") as file:
        published = {row["set"]: [row[column] for column in COLUMNS] for row in csv.DictReader(file)}
    print(f"| set | training series | {' | '.join(COLUMNS)} | {preset} | CPU s |\n|---|" + "--:|" * (len(COLUMNS) + 3))
    for group, sets in GROUPS.items():
        rows = []
        for name in (name for name in sets.split() if name in names or not names):
            (X, y), (X_test, y_test) = load(name, "TRAIN"), load(name, "TEST")
            begin = time.process_time()
            found = mc.SeriesClassifier(preset, random_state=seed).fit(X, y).score(X_test, y_test)
            seconds = time.process_time() - begin
            known = published.get(name, ["", "", "", CHANNELS.get(name, "")])
            rows.append([*(float(value or "nan") for value in known), found])
            shown = " | ".join(f"{float(value):.3f}" if value else "" for value in known)
            print(f"| {name} | {len(X)} | {shown} | {found:.3f} | {seconds:.1f} |", flush=True)
            values[name] = {"training series": len(X)} | _known(names_of(group), rows[-1])
            times[name] = {"CPU seconds": seconds}
        if rows:
            average = np.mean(rows, axis=0)
            means = " | ".join("" if np.isnan(value) else f"{value:.3f}" for value in average)
            print(f"| **mean of {len(rows)}, {group}** | | {means} | |", flush=True)
            values[f"mean of {len(rows)}, {group}"] = _known(names_of(group), average)
            values[f"mean of {len(rows)}, {group}, error"] = _known(names_of(group), 1 - average)
    return values, times


def _known(columns: list[str], row: Any) -> dict[str, float]:
    return {name: float(value) for name, value in zip(columns, row, strict=True) if not np.isnan(value)}


def gaps(names: list[str], preset: str, first: int) -> Numbers:
    """Print and return accuracies with steps left out at random, beside linear interpolation: means of four draws."""
    found: Numbers = {}
    print(f"| left out | {preset} | interpolated |\n|--:|--:|--:|")
    for fraction in (0.1, 0.3):
        rows = []
        for name, seed in product(names or WITH_GAPS.split(), range(first, first + 4)):
            rng, parts = np.random.default_rng(seed), []
            for part in ("TRAIN", "TEST"):
                X, y = load(name, part)
                X, y = (X, y) if part == "TRAIN" else (X[:150], y[:150])
                gone = [rng.random(len(x)) < fraction for x in X]
                gappy = [np.where(lost[:, None] & ~lost.all(), np.nan, x) for lost, x in zip(gone, X, strict=True)]
                parts.append((mc.Sequences(gappy), y))
            model = mc.SeriesClassifier(preset)
            filled = [(X.mapped(lambda _, X=X: interpolated(X)), y) for X, y in parts]
            rows.append([model.fit(*train).score(*test) for train, test in (parts, filled)])
        average = np.mean(rows, axis=0)
        print(f"| {fraction:.0%} | " + " | ".join(f"{value:.3f}" for value in average) + " |", flush=True)
        found[f"{100 * fraction:.0f} %"] = _known([OURS[preset], f"{OURS[preset]}, interpolated"], average)
    return found


def numbers() -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield series with numbers and their five folds: those of two pages, and periods in noise with gaps."""
    people = make_traits(random_state=0)
    yield "traits", people.data, people.target, GroupKFold(5).split(people.data, groups=people.groups)
    folds = KFold(5, shuffle=True, random_state=0)
    rng = np.random.default_rng(1)
    speed = rng.uniform(0.1, 1.2, size=60)
    X = []
    for s in speed:
        angle = s * np.arange(rng.integers(60, 140)) + rng.uniform(0, 6)
        X.append(np.column_stack([np.sin(angle), np.sin(angle + 1), 0 * angle]))
    X = [x + [0.3, 0.3, 1] * rng.normal(size=x.shape) for x in X]
    yield "speeds", mc.Sequences(X), speed, folds.split(X)
    rng = np.random.default_rng(2)
    frequency = rng.uniform(0.02, 0.08, size=120)
    X = []
    for f in frequency:
        time = np.arange(rng.integers(60, 140))
        wave = np.sin(2 * np.pi * f * time + rng.uniform(0, 6)) + 0.3 * rng.normal(size=len(time))
        x = np.column_stack([wave, rng.normal(size=len(time))])
        X.append(np.where(rng.random((len(time), 1)) < 0.1, np.nan, x))
    yield "frequencies, gaps", mc.Sequences(X), 50 + 300 * frequency + 1.5 * rng.normal(size=120), folds.split(X)


def r2(preset: str, seed: int) -> Numbers:
    """Print and return R2 in five folds, beside ridge regression on summaries of the series."""
    values: Numbers = {}
    print(f"| set | series | linear model of summaries | {preset} |\n|---|--:|--:|--:|")
    for name, X, y, folds in numbers():
        summaries = make_pipeline(Summary(), StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
        models = summaries, mc.SeriesRegressor(preset, random_state=seed)
        found = np.mean([[m.fit(X[a], y[a]).score(X[b], y[b]) for m in models] for a, b in folds], axis=0)
        print(f"| {name} | {len(X)} | {found[0]:.3f} | {found[1]:.3f} |", flush=True)
        ours = OURS[preset].replace("Classifier", "Regressor")
        values[name] = {"number": len(X)} | _known(["linear model of summaries", ours], found)
    return values


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="sets, gaps, or numbers; sets and numbers by default")
    parser.add_argument("--preset", default="best", help="best or fast")
    parser.add_argument("--seed", type=int, default=0)
    add_json(parser)
    given = parser.parse_args()
    values: Numbers = {}
    times: Numbers = {}
    if given.names[:1] == ["gaps"]:
        values = gaps(given.names[1:], given.preset, 4 * given.seed)
    elif given.names != ["numbers"]:
        values, times = accuracies(given.names, given.preset, given.seed)
    if given.names in ([], ["numbers"]):
        values |= r2(given.preset, given.seed)
    write_json(given.json, values, times)
