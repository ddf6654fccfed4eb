"""Accuracy of kernels on real sequences: the table of docs/real_data.md.

    MERCER_DATA=... python benchmarks/accuracy_sequences.py            # all sets, about an hour on two cores
    MERCER_DATA=... python benchmarks/accuracy_sequences.py gunpoint   # one of them

Every parameter is chosen inside the training part of every outer fold, by a grid search there. The table
also has plain baselines, and for sequences of different lengths a baseline that uses only the length.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _accuracy import Method, Task, length_only, main, moments_svm, on_symbols, on_vectors, stacked, ten_folds
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import mercer as mc
from mercer import datasets


def nearest() -> Method:
    """Baseline: the nearest series."""
    return make_pipeline(FunctionTransformer(stacked), KNeighborsClassifier(1)), {}


def series(name: str, *, balanced: int | None = None) -> Task:
    """Join training and test part of a set of the UCR archive, in ten folds, as in mehta2010."""
    found = datasets.fetch_ucr(name)
    X, y = found.data, np.asarray(found.target)
    if balanced:
        rng = np.random.default_rng(0)
        rows = [rng.permutation(np.flatnonzero(y == label))[: balanced // 2] for label in np.unique(y)]
        keep = np.sort(np.concatenate(rows))
        X, y = X[keep], y[keep]
    folds = ten_folds(y)
    hmm = mc.HMM(n_states=4, random_state=0)
    methods = {"nearest neighbor": nearest(), "mean + sd, SVM": moments_svm()}
    for derivatives in (False, True):
        with_ = ", with derivatives" if derivatives else ""
        methods[f"ProbabilityProduct(HMM){with_}"] = on_vectors(
            mc.ProbabilityProduct(hmm, rho=0.5, length=10),
            derivatives,
            rho=[0.5, 1.0],
            length=[2, 10, 30],
            model__prior_strength=[2.0, 10.0, 50.0],
        )
        methods[f"MeanMap(HMM){with_}"] = on_vectors(
            mc.MeanMap(hmm, gamma=0.5, length=10),
            derivatives,
            length=[2, 10, 30],
            gamma=[0.1, 1.0],
            model__prior_strength=[2.0, 10.0, 50.0],
        )
        methods[f"Fisher(HMM){with_}"] = on_vectors(
            mc.Fisher(hmm, information="diagonal", per="step"), derivatives, model__n_states=[4, 8]
        )
    return Task(X, y, folds, methods)


def gunpoint() -> Task:
    """Gun-Point: mehta2010 reports errors of .165 (mean map) and .230 (probability product)."""
    return series("GunPoint")


def ecg() -> Task:
    """ECG200: mehta2010 reports .240."""
    return series("ECG200")


def coffee() -> Task:
    """Coffee: mehta2010 reports .214."""
    return series("Coffee")


def wafer() -> Task:
    """Wafer, 1,524 balanced series: mehta2010 reports .077."""
    task = series("Wafer", balanced=1524)
    task.methods = {name: m for name, m in task.methods.items() if "HMM" not in name or "derivatives" in name}
    task.inner = 3
    return task


def vowels() -> Task:
    """Speakers by a vowel, of 7 to 29 frames: the official split."""
    found = datasets.fetch_japanese_vowels()
    train = np.asarray(found.split) == "train"
    hmm = mc.HMM(n_states=3, random_state=0)
    methods = {
        "length only": length_only(),
        "mean + sd, SVM": moments_svm(),
        "ProbabilityProduct(HMM)": on_vectors(
            mc.ProbabilityProduct(hmm, rho=0.5, length=10),
            rho=[0.5, 1.0],
            length=[3, 10],
            model__prior_strength=[5.0, 20.0, 50.0],
        ),
        "ProbabilityProduct(HMM, prior=None)": on_vectors(
            mc.ProbabilityProduct(mc.HMM(n_states=3, prior=None, random_state=0), rho=1.0, length=10),
            length=[3, 10],
        ),
        "MeanMap(HMM)": on_vectors(
            mc.MeanMap(hmm, gamma=0.1, length=10),
            length=[3, 10],
            gamma=[0.02, 0.1],
            model__prior_strength=[5.0, 20.0, 50.0],
        ),
        "Fisher(HMM)": on_vectors(mc.Fisher(hmm, information="diagonal", per="step"), model__n_states=[3, 6]),
    }
    folds = [(np.flatnonzero(train), np.flatnonzero(~train))]
    return Task(found.data, np.asarray(found.target), folds, methods)


def digits() -> Task:
    """Spoken digits of 6 to 92 frames, in five folds."""
    found = datasets.fetch_fsdd()
    y = np.asarray(found.target)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y))
    methods = {
        "length only": length_only(),
        "mean + sd, SVM": moments_svm(),
        "Fisher(HMM)": on_vectors(
            mc.Fisher(mc.HMM(n_states=10, random_state=0), information="diagonal", per="step"),
            model__n_states=[10, 20],
        ),
    }
    return Task(found.data, y, folds, methods, inner=3)


def splice(cut: int = 0) -> Task:
    """Exon or intron: 500 halves of splice windows each, by gene; optionally without the symbols at the site."""
    found = datasets.fetch_hs3d()
    y, groups = np.asarray(found.target), np.asarray(found.groups)
    rng = np.random.default_rng(0)
    keep = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == label))[:500] for label in np.unique(y)]))
    X, y, groups = found.data[keep], y[keep], groups[keep]
    if cut:  # at both ends, since the site is at one of them
        X = mc.Sequences([x[cut:-cut] for x in X], alphabet="dna")
    folds = list(GroupKFold(10).split(np.zeros(len(y)), y, groups))
    wide = [1, 10, 100, 1000]
    methods = {
        "Spectrum": on_symbols(mc.Spectrum(3), k=[2, 3, 4], C=wide),
        "Spectrum(1) + Spectrum(2) + Spectrum(3)": on_symbols(mc.Spectrum(1) + mc.Spectrum(2) + mc.Spectrum(3), C=wide),
        "Fisher(MarkovChain)": on_symbols(
            mc.Fisher(mc.MarkovChain(order=2), information="diagonal", per="step"), model__order=[1, 2, 3]
        ),
        "Fisher(HMM)": on_symbols(
            mc.Fisher(mc.HMM(n_states=8, random_state=0), information="diagonal", per="step"),
            model__n_states=[8, 16],
        ),
        "ProbabilityProduct(MarkovChain)": on_symbols(
            mc.ProbabilityProduct(mc.MarkovChain(order=1), rho=0.5, length=10),
            length=[2, 5, 20],
            model__prior_strength=[1.0, 5.0, 20.0],
        ),
        "ProbabilityProduct(HMM)": on_symbols(
            mc.ProbabilityProduct(mc.HMM(n_states=4, random_state=0), rho=0.5, length=10),
            length=[3, 10],
            model__prior_strength=[5.0, 20.0],
        ),
        "LikelihoodRatio(MarkovChain)": (mc.LikelihoodRatio(mc.MarkovChain(order=2)), {"model__order": [1, 2, 3]}),
    }
    return Task(X, y, folds, methods, groups=groups)


def splice_cut() -> Task:
    """Remove six symbols at both ends, so that the splice site does not reveal the class."""
    return splice(cut=6)


TASKS: dict[str, Callable[[], Task]] = {
    "vowels": vowels,
    "gunpoint": gunpoint,
    "ecg": ecg,
    "coffee": coffee,
    "wafer": wafer,
    "splice": splice,
    "splice-cut": splice_cut,
    "digits": digits,
}
TITLES = {
    "vowels": "Japanese vowels",
    "gunpoint": "Gun-Point",
    "ecg": "ECG200",
    "coffee": "Coffee",
    "wafer": "Wafer",
    "splice": "whole halves",
    "splice-cut": "without the site",
    "digits": "spoken digits",
}
"""Names of the sets on pages, where they differ."""
MEHTA2010 = {"gunpoint": 0.165, "ecg": 0.240, "coffee": 0.214, "wafer": 0.077}
"""The best errors that mehta2010 reports for kernels on hidden Markov models."""


if __name__ == "__main__":
    main(TASKS, TITLES, MEHTA2010)
