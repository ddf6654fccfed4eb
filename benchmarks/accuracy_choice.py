"""Which kernel for which data: errors and costs of all applicable kernels, the table of docs/which_kernel.md.

    MERCER_DATA=... python benchmarks/accuracy_choice.py            # all kinds, about a quarter of an hour on two cores
    MERCER_DATA=... python benchmarks/accuracy_choice.py words sets

Every parameter is chosen inside the training part of every outer fold. Seconds are for the Gram matrix of all data,
including the fits of models, with the parameters given here.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _accuracy import C, Method, Task, errors, moments_svm, on_symbols, on_vectors, smaller, summary
from _numbers import add_json, write_json
from accuracy_pairs import pairs_of_proteins, six_families
from accuracy_sequences import nearest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, normalize
from sklearn.svm import SVC

import mercer as mc
from mercer import datasets
from mercer.data.baseline_features import Positions

SEED = 0
"""Seed of the folds and of the samples that are drawn; set by ``--seed``."""
MOST: int | None = None
"""Largest number of samples of a class; set by ``--quick``."""


def five_folds(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split into five stratified folds."""
    return list(StratifiedKFold(5, shuffle=True, random_state=SEED).split(np.zeros(len(y)), y))


def some(y: np.ndarray, each: int) -> np.ndarray:
    """Choose a number of samples of every class."""
    rng = np.random.default_rng(SEED)
    each = min(each, MOST or each)
    return np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == label))[:each] for label in np.unique(y)]))


def words() -> Task:
    """Pages of four kinds as counts of words: 150 of each."""
    found = datasets.fetch_webkb(subset="train")
    keep = some(np.asarray(found.target), 150)
    X, y = found.data[keep], np.asarray(found.target)[keep]
    linear = make_pipeline(
        FunctionTransformer(normalize, kw_args={"norm": "l1"}), mc.Linear(), SVC(kernel="precomputed")
    )
    methods: dict[str, Method] = {
        "naive Bayes": (MultinomialNB(), {"alpha": [0.001, 0.01, 0.1, 1.0]}),
        "Linear, frequencies": (linear, {"svc__C": C}),
        "ProbabilityProduct(Multinomial)": on_symbols(mc.ProbabilityProduct(mc.Multinomial(), rho=0.5), rho=[0.5, 1.0]),
        "JensenShannon(Multinomial)": on_symbols(
            mc.JensenShannon(mc.Multinomial(), form="inverse", t=1.0), t=[0.1, 1.0, 10.0]
        ),
        "MeanMap(Multinomial)": on_symbols(mc.MeanMap(mc.Multinomial(), gamma=1.0), gamma=[0.1, 1.0, 10.0]),
        "Heat(Multinomial)": on_symbols(mc.Heat(mc.Multinomial(), t=1.0), t=[0.5, 2.0]),
        "Fisher(Multinomial)": on_symbols(
            mc.Fisher(mc.Multinomial(), information="diagonal", per="step"), information=["diagonal", "identity"]
        ),
    }
    return Task(X, y, five_folds(y), methods, inner=3)


def dna() -> Task:
    """Halves of splice windows: 300 exons, 300 introns, folds that keep genes together."""
    found = datasets.fetch_hs3d()
    keep = some(np.asarray(found.target), 300)
    X, y, groups = found.data[keep], np.asarray(found.target)[keep], np.asarray(found.groups)[keep]
    chain, hmm = mc.MarkovChain(order=2), mc.HMM(n_states=8, random_state=0)
    methods: dict[str, Method] = {
        "Markov chain per class": (mc.LikelihoodRatio(chain), {"model__order": [1, 2, 3]}),
        "Spectrum": on_symbols(mc.Spectrum(3), k=[2, 3, 4], C=[1, 10, 100, 1000]),
        "EmpiricalMeanMap": on_symbols(
            mc.EmpiricalMeanMap(order=2, gamma=1.0), order=[1, 2, 3], gamma=[0.5, 2.0], C=[1, 10, 100, 1000]
        ),
        "ProbabilityProduct(MarkovChain)": on_symbols(
            mc.ProbabilityProduct(mc.MarkovChain(order=1), length=5),
            length=[2, 5, 20],
            model__prior_strength=[1.0, 20.0],
        ),
        "ProbabilityProduct(HMM)": on_symbols(
            mc.ProbabilityProduct(mc.HMM(n_states=4, random_state=0)), length=[3, 10], model__prior_strength=[5.0, 20.0]
        ),
        "MeanMap(HMM)": on_symbols(
            mc.MeanMap(mc.HMM(n_states=4, random_state=0)), length=[3, 10], model__prior_strength=[5.0, 20.0]
        ),
        "Fisher(HMM)": on_symbols(mc.Fisher(hmm, information="diagonal", per="step")),
        "TOP(HMM)": on_symbols(mc.TOP(hmm)),
        "LatentMeanMap(HMM)": on_symbols(mc.LatentMeanMap(hmm), C=[1, 10, 100, 1000]),
        "PosteriorCounts(HMM)": on_symbols(mc.PosteriorCounts(hmm, k=2), k=[1, 2], C=[1, 10, 100, 1000]),
    }
    return Task(X, y, list(GroupKFold(5).split(np.zeros(len(y)), y, groups)), methods, groups=groups, inner=3)


def aligned(found: Any, keep: np.ndarray, outer: int) -> Task:
    """Windows around a site: words at blurred positions, next to words anywhere and letters at positions."""
    X, y = found.data[keep], np.asarray(found.target)[keep]
    positions = make_pipeline(Positions(), LogisticRegression(max_iter=1000))
    methods: dict[str, Method] = {
        "linear, positions": (positions, {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}),
        "Spectrum": on_symbols(mc.Spectrum(3, on_zero="zero"), k=[2, 3, 4, 5, 6]),
        "Oligo": on_symbols(mc.kernels.Oligo(3), k=[2, 3, 4], sigma=[0.5, 1.0, 2.0], C=[1, 10]),
    }
    folds = StratifiedKFold(outer, shuffle=True, random_state=SEED).split(np.zeros(len(y)), y)
    return Task(X, y, list(folds), methods, inner=3)


def splice() -> Task:
    """Windows around splice sites, without copies: exon to intron, intron to exon, and neither. Half an hour."""
    found = datasets.fetch_splice()
    return aligned(found, np.sort(np.unique(list(found.data), return_index=True)[1]), 5)


def promoters() -> Task:
    """Promoters of E. coli, and other strings."""
    found = datasets.fetch_promoters()
    return aligned(found, some(np.asarray(found.target), len(found.target)), 10)


def proteins() -> Task:
    """First 60 residues of proteins of six families."""
    X, y = six_families()
    keep = some(y, len(y))
    X, y = X[keep], y[keep]
    X = mc.Sequences([x[:60] for x in X], alphabet="protein", ids=X.ids)
    hmm = mc.HMM(n_states=10, n_init=1, random_state=0)
    pairs = pairs_of_proteins()
    methods: dict[str, Method] = {
        "Spectrum": on_symbols(mc.Spectrum(2), k=[1, 2, 3]),
        "EmpiricalMeanMap": on_symbols(mc.EmpiricalMeanMap(order=2, gamma=1.0), order=[0, 1, 2], gamma=[0.5, 2.0]),
        "EmpiricalKernelMap(Marginalization(AffinePairHMM))": on_symbols(mc.EmpiricalKernelMap(pairs)),
        "Tempered(Marginalization(AffinePairHMM))": on_symbols(
            mc.Tempered(pairs, exponent=0.01), exponent=[0.005, 0.02]
        ),
        "EmpiricalKernelMap(Marginalization(HMM))": on_symbols(mc.EmpiricalKernelMap(mc.Marginalization(hmm))),
        "Fisher(HMM)": on_symbols(mc.Fisher(hmm, information="diagonal")),
        "PosteriorCounts(HMM)": on_symbols(mc.PosteriorCounts(hmm)),
    }
    return Task(X, y, five_folds(y), methods, inner=3)


def vowels() -> Task:
    """Series of 7 to 29 frames in 12 channels: 9 speakers, the official split."""
    found = datasets.fetch_japanese_vowels()
    train = np.asarray(found.split) == "train"
    hmm = mc.HMM(n_states=3, random_state=0)
    strengths = {"model__prior_strength": [5.0, 50.0]}
    methods: dict[str, Method] = {
        "mean + sd, SVM": moments_svm(),
        "ProbabilityProduct(HMM)": on_vectors(mc.ProbabilityProduct(hmm, length=10), length=[3, 10], **strengths),
        "MeanMap(HMM)": on_vectors(mc.MeanMap(hmm, gamma=0.1), gamma=[0.02, 0.1], length=[3, 10], **strengths),
        "EmpiricalMeanMap": on_vectors(
            mc.EmpiricalMeanMap(order=1, gamma=0.05), order=[0, 1, 2], gamma=[0.01, 0.05, 0.2]
        ),
        "Fisher(HMM)": on_vectors(mc.Fisher(hmm, information="diagonal", per="step")),
        "TOP(HMM)": on_vectors(mc.TOP(hmm)),
        "LatentMeanMap(HMM)": on_vectors(mc.LatentMeanMap(hmm, gamma=0.05), gamma=[0.01, 0.05]),
    }
    folds = [(np.flatnonzero(train), np.flatnonzero(~train))]
    return Task(found.data, np.asarray(found.target), folds, methods, inner=3)


def series() -> Task:
    """Series of one length: Gun-Point, with derivatives."""
    found = datasets.fetch_ucr("GunPoint")
    y = np.asarray(found.target)
    hmm = mc.HMM(n_states=4, random_state=0)
    strengths = {"model__prior_strength": [2.0, 50.0]}
    methods: dict[str, Method] = {
        "nearest neighbor": nearest(),
        "ProbabilityProduct(HMM)": on_vectors(mc.ProbabilityProduct(hmm), True, length=[2, 10, 30], **strengths),
        "MeanMap(HMM)": on_vectors(mc.MeanMap(hmm), True, length=[2, 10], gamma=[0.1, 1.0], **strengths),
        "EmpiricalMeanMap": on_vectors(
            mc.EmpiricalMeanMap(order=1, gamma=1.0),
            True,
            order=[0, 1, 4],
            gamma=[0.1, 1.0, 10.0],
        ),
        "Fisher(HMM)": on_vectors(mc.Fisher(hmm, information="diagonal", per="step"), True),
        "TOP(HMM)": on_vectors(mc.TOP(hmm), True),
        "LatentMeanMap(HMM)": on_vectors(mc.LatentMeanMap(hmm, gamma=1.0), True, gamma=[0.1, 1.0]),
    }
    return Task(found.data, y, five_folds(y), methods, inner=3)


def sets() -> Task:
    """Frames of spoken digits as sets of points, 40 of each digit: the order of the frames is ignored."""
    found = datasets.fetch_fsdd()
    keep = some(np.asarray(found.target), 40)
    X, y = found.data[keep], np.asarray(found.target)[keep]
    gaussian = mc.Gaussian(prior="pooled", prior_strength=5.0)
    mixture = mc.Mixture(mc.Gaussian("diagonal"), 3, random_state=0)
    strengths = {"model__prior_strength": [2.0, 10.0]}
    methods: dict[str, Method] = {
        "mean + sd, SVM": moments_svm(),
        "ProbabilityProduct(Gaussian)": on_vectors(mc.ProbabilityProduct(gaussian), rho=[0.5, 1.0], **strengths),
        "MeanMap(Gaussian)": on_vectors(mc.MeanMap(gaussian, gamma=0.1), gamma=[0.01, 0.1, 1.0], **strengths),
        "MeanMap(Mixture)": on_vectors(mc.MeanMap(mixture, gamma=0.1), gamma=[0.01, 0.1]),
        "MeanMap(KDE)": on_vectors(mc.MeanMap(mc.KDE(), gamma=0.1), gamma=[0.01, 0.1]),
        "EmpiricalMeanMap": on_vectors(mc.EmpiricalMeanMap(gamma=0.1), gamma=[0.01, 0.05, 0.2]),
        "Fisher(Mixture)": on_vectors(mc.Fisher(mixture, information="diagonal", per="step")),
        "LatentMeanMap(Mixture)": on_vectors(mc.LatentMeanMap(mixture, gamma=0.05), gamma=[0.01, 0.05]),
    }
    return Task(X, y, five_folds(y), methods, inner=3)


TASKS: dict[str, Callable[[], Task]] = {
    "words": words,
    "dna": dna,
    "splice": splice,
    "promoters": promoters,
    "proteins": proteins,
    "vowels": vowels,
    "series": series,
    "sets": sets,
}


def gram_seconds(pipeline: Any, task: Task) -> float | None:
    """Time the Gram matrix of all data, including fits; None for methods without a kernel."""
    steps = [step for _, step in getattr(pipeline, "steps", [])]
    if len(steps) < 2 or not isinstance(steps[-2], mc.kernels.Kernel):
        return None
    X, kernel = task.X, steps[-2]
    for step in steps[:-2]:
        X = step.fit_transform(X)
    kernel.fit_transform(X, task.y)  # warm up
    with mc.config(memo_bytes=0, cache_bytes=0):
        begin = time.perf_counter()
        kernel.fit_transform(X, task.y)
        return time.perf_counter() - begin


def main(names: list[str], costs_only: bool, search: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Print a table for every requested kind of data; return the errors, and the seconds."""
    warnings.filterwarnings("ignore")
    values: dict[str, Any] = {}
    times: dict[str, Any] = {}
    for name in names or list(TASKS):
        task = TASKS[name]() if search else smaller(TASKS[name](), SEED)
        print(f"\n{TASKS[name].__doc__} {len(task.y)} objects.", flush=True)
        print(f"\n| {name} | error | sd over folds | seconds of a Gram matrix |\n|---|---|---|---|", flush=True)
        for label, method in task.methods.items():
            seconds = gram_seconds(method[0], task) if search else None
            cost = "" if seconds is None else f"{seconds:.2f}"
            found = [] if costs_only else list(errors(task, method))
            error = f"{np.mean(found):.3f}" if found else ""
            spread = f"{np.std(found, ddof=1):.3f}" if len(found) > 1 else ""
            print(f"| {label} | {error} | {spread} | {cost} |", flush=True)
            if found:
                values.setdefault(name, {})[label] = summary(found)
            if seconds is not None:
                times.setdefault(name, {})[label] = {"seconds": seconds}
    return values, times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[[], *TASKS], help="kinds of data; all of them by default")
    parser.add_argument("--costs", action="store_true", help="leave out the errors")
    parser.add_argument("--seed", type=int, default=0, help="seed of the folds and of the samples that are drawn (0)")
    parser.add_argument("--quick", action="store_true", help="at most 20 samples of a class")
    parser.add_argument("--no-search", action="store_true", help="the same, and middle values of all parameters")
    add_json(parser)
    given = parser.parse_args()
    SEED, MOST = given.seed, 20 if given.quick else None
    write_json(given.json, *main(given.kinds, given.costs, not given.no_search))
