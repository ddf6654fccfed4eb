"""Small calls that compile what the kernels of the recipes need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import mercer as mc
from mercer._notices import collected
from mercer.datasets import make_dna, make_families, make_hmm_sequences


def _quietly(make: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        with collected(), mc.config(progress=False):  # tiny models need not converge
            make()

    return call


def _strings() -> None:
    X, _ = make_dna(6, length=(20, 40), random_state=0)
    for n_states in (2, 3, 4, 8):
        model = mc.HMM(n_states, n_iter=2, n_init=1)
        mc.Fisher(model).fit_transform(X)
        mc.ProbabilityProduct(model, length=10).fit_transform(X)
    mc.Fisher(mc.MarkovChain(2), on_zero="zero").fit_transform(X)
    mc.ProbabilityProduct(mc.MarkovChain(1), length=10).fit_transform(X)
    mc.Spectrum(3).fit_transform(X)


def _series() -> None:
    X, _ = make_hmm_sequences(6, length=(20, 40), n_features=2, random_state=0)
    gappy = [np.where(np.arange(len(x))[:, None] % 7 == 3, np.nan, x) for x in X]
    for data in (X, gappy):
        mc.FisherEnsemble(n_iter=2).fit_transform(data)
    for n_states in (3, 4):
        model = mc.HMM(n_states, n_iter=2, n_init=1)
        mc.ProbabilityProduct(model, length=10).fit_transform(X)
        mc.MeanMap(model, length=10).fit_transform(X)
    mc.EmpiricalMeanMap().fit_transform(X)


def _alignments() -> None:
    X, _ = make_families(6, length=30, random_state=0)
    mc.Tempered(mc.Marginalization(mc.AffinePairHMM((1, -1)))).fit_transform(X)


def _dynamics() -> None:
    X, _ = make_hmm_sequences(6, length=(30, 40), n_features=2, random_state=0)
    mc.ProbabilityProduct(mc.LDS(2, n_iter=2), length=10).fit_transform(X)


PARTS: dict[str, Callable[[], None]] = {
    "strings": _quietly(_strings),
    "series": _quietly(_series),
    "alignments": _quietly(_alignments),
    "dynamics": _quietly(_dynamics),
}
"""Functions by the kind of data for which they compile."""
