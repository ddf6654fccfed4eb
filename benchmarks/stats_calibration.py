"""Level and power of the tests in mercer.stats: rejection rates at .05, the tables of docs/stats.md.

    python benchmarks/stats_calibration.py              # 1,000 draws under the null hypothesis, 200 under alternatives
    python benchmarks/stats_calibration.py --draws 100
    python benchmarks/stats_calibration.py --widths     # power over four differences of vectors in other units
    python benchmarks/stats_calibration.py --confounds  # level where both sides follow a confound closely, and power
    python benchmarks/stats_calibration.py --units      # power where columns have different units
    python benchmarks/stats_calibration.py --confounds --quick --json level.json

With 1,000 draws, a test of level .05 has a rate between .036 and .064 with probability .95. hyppo runs next to the
tests of vectors where it is installed. ``--quick`` has 40 draws, and of confounds the smallest samples only; ``--jobs``
is the number of processes. ``--json`` writes the arguments and a mapping of tables, rows and columns to rates.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

import mercer as mc

CHAIN = mc.MarkovChains([[0.25] * 4], [np.full((4, 4), 0.2) + 0.2 * np.eye(4)], alphabet="ACGT")
OTHER = mc.MarkovChains([[0.25] * 4], [np.full((4, 4), 0.15) + 0.4 * np.eye(4)], alphabet="ACGT")
KERNELS: dict[str, Any] = {
    "RBF, vectors": mc.RBF(gamma=0.5),
    "Spectrum(3), strings": mc.Spectrum(3),
    "Fisher(MarkovChain), strings": mc.Fisher(mc.MarkovChain(alphabet="ACGT")),
}
SMALL = {"n_permutations": 199}
Draw = Callable[[np.random.Generator, int, bool], Any]


def vectors(rng: np.random.Generator, n: int, other: bool = False) -> np.ndarray:
    return rng.normal(size=(n, 2)) + 0.6 * other


def strings(rng: np.random.Generator, n: int, other: bool = False) -> mc.Sequences:
    return mc.Sequences.from_codes((OTHER if other else CHAIN).sample(40, n, random_state=rng)[0], "ACGT")


def data(name: str) -> Draw:
    return vectors if "vectors" in name else strings


def two_sample(name: str, rng: np.random.Generator, other: bool) -> float:
    draw = data(name)
    return mc.stats.two_sample_test(
        draw(rng, 20, False), draw(rng, 20, other), KERNELS[name], random_state=rng, **SMALL
    ).p_value


def grouped(name: str, rng: np.random.Generator, other: bool) -> float:
    """Ten subjects in each sample, with two objects each that are nearly copies."""
    draw = data(name)
    X, Y = ([x for x in draw(rng, 10, flag) for _ in range(2)] for flag in (False, other))
    groups = np.repeat(np.arange(20), 2)
    if draw is vectors:
        X, Y = np.array(X), np.array(Y)
    return mc.stats.two_sample_test(X, Y, KERNELS[name], groups=groups, random_state=rng, **SMALL).p_value


def independence(name: str, rng: np.random.Generator, other: bool) -> float:
    draw = data(name)
    labels = np.repeat([0, 1], 15)
    parts = [draw(rng, 15, False), draw(rng, 15, other)]
    X = np.concatenate(parts) if draw is vectors else mc.Sequences.concat(parts)
    return mc.stats.independence_test(X, labels, KERNELS[name], random_state=rng, **SMALL).p_value


def goodness(name: str, rng: np.random.Generator, other: bool) -> float:
    model = mc.Gaussians(mean=[[0.0, 0.0]], covariance=[1.0]) if data(name) is vectors else CHAIN
    X = data(name)(rng, 20, other)
    return mc.stats.goodness_of_fit(
        model, X, method="kernel", kernel=KERNELS[name], n_simulations=199, random_state=rng
    ).p_value


def score(name: str, rng: np.random.Generator, other: bool) -> float:
    model: Any = CHAIN
    if data(name) is vectors:
        model = mc.Gaussians(mean=[[0.0, 0.0]], covariance=[1.0])
    elif "Fisher" in name:  # the same process as a hidden Markov model with a state for each symbol
        model = mc.HMMs(CHAIN.initial, CHAIN.transition, mc.Categoricals(np.eye(4)[None], alphabet="ACGT"))
    X = data(name)(rng, 20, other)
    return mc.stats.goodness_of_fit(model, X, n_simulations=199, random_state=rng).p_value


def composition(name: str, rng: np.random.Generator, other: bool) -> float:
    """Compare every coordinate, or the count of every symbol, by a t-test with Bonferroni's rule."""
    draw = data(name)
    X, Y = draw(rng, 20, False), draw(rng, 20, other)
    if draw is strings:
        X, Y = X.counts(), Y.counts()
    p = stats.ttest_ind(X, Y).pvalue
    return float(min(np.nanmin(p) * X.shape[1], 1.0))


def hyppo_mmd(name: str, rng: np.random.Generator, other: bool) -> float:
    from hyppo.ksample import MMD

    found = MMD(compute_kernel="rbf", gamma=0.5).test(
        vectors(rng, 20), vectors(rng, 20, other), reps=199, auto=False, random_state=int(rng.integers(2**31))
    )
    return float(found[1])


def no_kernel(name: str, rng: np.random.Generator, other: bool) -> float:
    return mc.stats.two_sample_test(vectors(rng, 20), vectors(rng, 20, other), random_state=rng, **SMALL).p_value


def confounded(name: str, rng: np.random.Generator, other: bool) -> float:
    """Forty objects each, which depend on an age in which both samples differ; the alternative has a shift, too."""
    ages = rng.normal(size=40), rng.normal(size=40) + 0.8
    X, Y = (np.column_stack([age, age**2 / 2]) + vectors(rng, 40) for age in ages)
    return mc.stats.two_sample_test(X, Y + 0.6 * other, confounds=ages, random_state=rng, **SMALL).p_value


VECTORS_ONLY = (hyppo_mmd, no_kernel, confounded)
TESTS: dict[str, Any] = {
    "two samples, permutations": two_sample,
    "two samples, no kernel": no_kernel,
    "two samples, no kernel, confound": confounded,
    "two samples, groups": grouped,
    "independence": independence,
    "goodness of fit, kernel": goodness,
    "goodness of fit, scores": score,
    "t-tests of coordinates or counts": composition,
    "hyppo's MMD": hyppo_mmd,
}


def clusters(rng: np.random.Generator, deviation: float) -> np.ndarray:
    return 10.0 * rng.integers(0, 2, size=(40, 1)) + deviation * rng.normal(size=(40, 1))


DIFFERENCES: dict[str, Any] = {
    "means, 2 columns": lambda rng: (rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 0.6),
    "means, 20 columns": lambda rng: (rng.normal(size=(40, 20)), rng.normal(size=(40, 20)) + 0.3),
    "deviations": lambda rng: (rng.normal(size=(40, 2)), 1.6 * rng.normal(size=(40, 2))),
    "deviations in two clusters": lambda rng: (clusters(rng, 1.0), clusters(rng, 3.0)),
}


def in_other_units(kernel: str, difference: str, draws: int) -> float:
    """Return the power of a two-sample test: every value is multiplied by 1,000."""
    rng, rejected = np.random.default_rng(0), []
    for _ in range(draws):
        X, Y = (1000 * side for side in DIFFERENCES[difference](rng))
        if kernel in WIDTHS:
            found = mc.stats.two_sample_test(X, Y, WIDTHS[kernel], random_state=rng, **SMALL).p_value
        else:
            found = _hyppo(X, Y, rng)
        rejected.append(found <= 0.05)
    return float(np.mean(rejected))


WIDTHS: dict[str, Any] = {
    "no kernel: 5 widths": None,
    "RBF(gamma='median')": mc.RBF(gamma="median"),
    "RBF(gamma=1)": mc.RBF(1.0),
}

CURVES: dict[str, Any] = {
    "linear": lambda c: c,
    "quadratic": np.square,
    "sine": lambda c: np.sin(3 * c),
    "step": np.sign,
}
NOISE = 0.3
"""Deviation of both sides around the curve; the confound has deviation 1."""
SIZES = (40, 100, 200, 400)
IRRELEVANT = (0, 2)
"""Numbers of columns of noise next to the confound."""


def given_a_confound(test: str, curve: str, n: int, irrelevant: int, dependence: float, draws: int) -> float:
    """Return the share of rejections; a correlation of errors, or a shift of a sample in units of them, is found."""
    rejected = []
    for seed in range(draws):
        rng = np.random.default_rng([seed, n, irrelevant, list(CURVES).index(curve)])
        c, e = rng.normal(size=(n, 1 + irrelevant)), rng.normal(size=n)
        options = {"n_permutations": 99, "random_state": seed}
        if test == "independence":
            other = dependence * e + np.sqrt(1 - dependence**2) * rng.normal(size=n)
            x, z = (CURVES[curve](c[:, 0]) + NOISE * errors for errors in (e, other))
            p = mc.stats.independence_test(x, z, confounds=c, **options).p_value
        else:
            m = n // 2
            c[m:, 0] += 0.8
            x = CURVES[curve](c[:, 0]) + NOISE * (e + dependence * (np.arange(n) >= m))
            p = mc.stats.two_sample_test(x[:m], x[m:], confounds=c, **options).p_value
        rejected.append(p <= 0.05)
    return float(np.mean(rejected))


def of_units(test: str, scale: float, draws: int) -> float:
    """Return the power where one of two columns matters, and the other one is multiplied by ``scale``."""
    rejected = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        if test == "independence":
            X = rng.normal(size=(60, 2))
            z = X[:, 0] + 0.8 * rng.normal(size=60)
            found = mc.stats.independence_test(X * [1, scale], z, random_state=seed, **SMALL)
        else:
            X, Y = rng.normal(size=(2, 30, 2))
            Y[:, 0] += 1
            found = mc.stats.two_sample_test(X * [1, scale], Y * [1, scale], random_state=seed, **SMALL)
        rejected.append(found.p_value <= 0.05)
    return float(np.mean(rejected))


def _hyppo(X: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> float:
    from hyppo.ksample import MMD

    # Its default: a Gaussian kernel with the median distance.
    return float(MMD().test(X, Y, reps=199, auto=False, random_state=int(rng.integers(2**31)))[1])


def rate(test: Any, name: str, draws: int, other: bool) -> float:
    rng = np.random.default_rng(12345 + other)
    return float(np.mean([test(name, rng, other) <= 0.05 for _ in range(draws)]))


Cell = tuple[str, str, Callable[[], float]]
"""The names of a row and of a column, and how to measure the rate."""


def cells_of_tests(args: argparse.Namespace) -> list[Cell]:
    found: list[Cell] = []
    for label, test in TESTS.items():
        if args.test and not label.startswith(args.test):
            continue
        for name in KERNELS:
            if test in VECTORS_ONLY and "vectors" not in name:
                continue
            for column, draws, other in (("level", args.draws, False), ("power", args.draws // 5, True)):
                found.append((f"{label}, {name}", column, partial(rate, test, name, draws, other)))
    return found


def cells_of_widths(args: argparse.Namespace) -> list[Cell]:
    kernels = (*WIDTHS, "hyppo's MMD")
    return [(k, d, partial(in_other_units, k, d, args.draws // 5)) for k in kernels for d in DIFFERENCES]


def cells_of_confounds(args: argparse.Namespace) -> list[Cell]:
    found: list[Cell] = []
    for n in SIZES[:1] if args.quick else args.sizes or SIZES:
        for test in ("independence", "two samples"):
            for irrelevant in IRRELEVANT:
                row = f"{test}, n = {n}, {irrelevant} irrelevant columns"
                for curve in CURVES:
                    find = partial(given_a_confound, test, curve, n, irrelevant)
                    found.append((row, f"{curve}: level", partial(find, 0.0, args.draws)))
                    if n <= 200 and not irrelevant:
                        effect = 0.5 if test == "independence" else 1.0
                        found.append((row, f"{curve}: power", partial(find, effect, args.draws // 5)))
    return found


def cells_of_units(args: argparse.Namespace) -> list[Cell]:
    tests = "two samples", "independence"
    return [(t, f"[1, {s}]", partial(of_units, t, s, args.draws // 5)) for t in tests for s in (1, 10, 1000)]


def measured(cell: Cell) -> tuple[str, str, float | None]:
    """Return the rate of a cell, rounded; None where hyppo is not installed."""
    warnings.simplefilter("ignore")
    try:
        value = round(cell[2](), 4)
    except ImportError:
        value = None
    print(f"{cell[0]} | {cell[1]} | {value}", flush=True)
    return cell[0], cell[1], value


def table(cells: list[tuple[str, str, float | None]]) -> dict[str, dict[str, float | None]]:
    """Return rates by rows and columns."""
    rows: dict[str, dict[str, float | None]] = {}
    for row, column, value in cells:
        rows.setdefault(row, {})[column] = value
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="draws under the null hypothesis")
    parser.add_argument("--test", help="only the test whose name starts so")
    parser.add_argument("--widths", action="store_true", help="power over widths instead")
    parser.add_argument("--confounds", action="store_true", help="level and power with confounds instead")
    parser.add_argument("--units", action="store_true", help="power where columns have different units instead")
    parser.add_argument("--sizes", type=int, nargs="+", help=f"numbers of objects with confounds; by default {SIZES}")
    parser.add_argument("--quick", action="store_true", help="40 draws, and with confounds the smallest samples only")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", help="write the rates into this file")
    args = parser.parse_args()
    args.draws = 40 if args.quick else args.draws
    chosen = {
        name: cells
        for name, cells in (
            ("widths", cells_of_widths),
            ("confounds", cells_of_confounds),
            ("units", cells_of_units),
        )
        if getattr(args, name)
    } or {"tests": cells_of_tests}
    tables = {}
    for name, cells in chosen.items():
        found = table(Parallel(args.jobs)(delayed(measured)(cell) for cell in cells(args)))
        tables[name] = found
        columns = list(dict.fromkeys(column for row in found.values() for column in row))
        print(f"\n| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
        for row, rates in found.items():
            shown = ("" if rates.get(c) is None else f"{rates[c]:.3f}" for c in columns)
            print(f"| {row} | {' | '.join(shown)} |")
    if args.json:
        given = {"draws": args.draws, "quick": args.quick, "sizes": args.sizes or list(SIZES), "test": args.test}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"arguments": given, "version": mc.__version__, "rates": tables}, file, indent=1)


if __name__ == "__main__":
    main()
