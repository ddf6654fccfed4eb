"""Level and power of the tests in mercer.stats: rejection rates at .05, the tables of docs/stats.md.

    python benchmarks/stats_calibration.py             # 1,000 draws under the null hypothesis, 200 under alternatives
    python benchmarks/stats_calibration.py --draws 100
    python benchmarks/stats_calibration.py --widths    # power over four differences of vectors in other units

With 1,000 draws, a test of level .05 has a rate between .036 and .064 with probability .95. hyppo runs next to the
tests of vectors where it is installed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
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


def widths(draws: int) -> None:
    """Print the power of two-sample tests in other units: every value is multiplied by 1,000."""
    kernels = {"no kernel: 5 widths": None, "RBF(gamma='median')": mc.RBF(gamma="median"), "RBF(gamma=1)": mc.RBF(1.0)}
    print(f"| kernel | {' | '.join(DIFFERENCES)} |\n|---|{'---|' * len(DIFFERENCES)}")
    for name in (*kernels, "hyppo's MMD"):
        cells = []
        for draw in DIFFERENCES.values():
            rng, rejected = np.random.default_rng(0), []
            for _ in range(draws):
                X, Y = (1000 * side for side in draw(rng))
                if name in kernels:
                    found = mc.stats.two_sample_test(X, Y, kernels[name], random_state=rng, **SMALL).p_value
                else:
                    found = _hyppo(X, Y, rng)
                rejected.append(found <= 0.05)
            cells.append(f"{np.mean(rejected):.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _hyppo(X: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> float:
    from hyppo.ksample import MMD

    # Its default: a Gaussian kernel with the median distance.
    return float(MMD().test(X, Y, reps=199, auto=False, random_state=int(rng.integers(2**31)))[1])


def rate(test: Any, name: str, draws: int, other: bool) -> float:
    rng = np.random.default_rng(12345 + other)
    return float(np.mean([test(name, rng, other) <= 0.05 for _ in range(draws)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="draws under the null hypothesis")
    parser.add_argument("--test", help="only the test whose name starts so")
    parser.add_argument("--widths", action="store_true", help="power over widths instead")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.widths:
        widths(args.draws // 5)
        return
    print(f"| test | kernel | level, {args.draws} draws | power, {args.draws // 5} draws |\n|---|---|---|---|")
    for label, test in TESTS.items():
        if args.test and not label.startswith(args.test):
            continue
        for name in KERNELS:
            if test in VECTORS_ONLY and "vectors" not in name:
                continue
            try:
                level, power = rate(test, name, args.draws, False), rate(test, name, args.draws // 5, True)
            except ImportError as error:
                print(f"| {label} | {name} | not run: {error} | |", flush=True)
                break
            print(f"| {label} | {name} | {level:.3f} | {power:.2f} |", flush=True)


if __name__ == "__main__":
    main()
