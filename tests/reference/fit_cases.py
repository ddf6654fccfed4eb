"""Log-likelihoods after a fixed number of iterations from a given start, or of a given seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.reference.dynamics_cases import switching, systems
from tests.reference.pair_cases import affine, general
from tests.reference.registry import (
    FITTED,
    Values,
    case,
    gaussian_hmms,
    series,
    strings,
    symbol_hmms,
)

import mercer as mc


def fitted(estimator: Any, X: Any) -> Values:
    """Return the log-likelihoods of one model for all samples, and of one model for each."""
    one, each = estimator.fit(X).model_, estimator.fit_each(X)
    return {"log_one": one.log_prob(X), "log_each": np.diagonal(each.log_prob(X)) if len(each) == len(X) else 0.0}


@case("fit-hmm-symbols", 1, 3, 8, tolerance=FITTED)
def hmm_symbols(n: int) -> Values:
    X = strings(30, 31, 50, 90, seed="fit")
    start = symbol_hmms(1, n, seed="start")
    return fitted(mc.HMM(n, init=start, prior=None, n_iter=30, tol=0.0), X)


@case("fit-hmm-gaussians", "isotropic", "diagonal", "full", tolerance=FITTED)
def hmm_gaussians(structure: str) -> Values:
    start = gaussian_hmms(1, 3, 2, structure, seed="start")
    estimator = mc.HMM(3, mc.Gaussian(structure), init=start, prior=None, n_iter=20, tol=0.0)
    return fitted(estimator, series(40, 41, 60, 90, seed="fit", gaps=0.05 if structure == "diagonal" else 0.0))


@case("fit-lds", "whole", "gaps", tolerance=FITTED)
def lds(kind: str) -> Values:
    estimator = mc.LDS(2, "full", init=systems(2, 2, 1, seed="start"), prior=None, n_iter=20, tol=0.0)
    return fitted(estimator, series(40, 41, 60, 90, seed="fit", gaps=0.1 if kind == "gaps" else 0.0))


@case("fit-switching", tolerance=FITTED)
def switching_lds() -> Values:
    X = series(8, 9, 10, seed="fit")
    model = mc.SwitchingLDS(2, 2, init=switching(), n_paths=1024, n_iter=3, tol=0.0, prior=None).fit(X).model_
    return {"log_one": model.log_prob(X)}


@case("fit-pairs", tolerance=FITTED)
def pairs() -> Values:
    X = strings(10, 12, 14, 9, seed="fit")
    model = mc.PairHMM(2, init=general(2), n_iter=10, tol=0.0).fit(X).model_
    return {"log_prob": model.log_prob(X), "log": mc.Marginalization(model, normalize=False).log(X)}


@case("fit-affine", "global", "local", tolerance=FITTED)
def affine_pairs(kind: str) -> Values:
    X, start = strings(20, 22, 24, 19, seed="fit"), affine(4)
    fields = start.joint, start.insertion, [0.05], [0.5]
    init = (
        mc.models.AffinePairHMMs(*fields, [16 / 17], alphabet="dna")
        if kind == "global"
        else mc.models.LocalPairHMMs(*fields, [8 / 9], [0.9], [0.9], alphabet="dna")
    )
    estimator = mc.AffinePairHMM(init=init, n_iter=8, tol=0.0)
    model = estimator.fit(X).model_
    return {"log_prob": model.log_prob(X), "log": mc.Marginalization(model, normalize=False).log(X)}
