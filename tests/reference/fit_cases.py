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
    gaussian_emissions,
    gaussian_hmms,
    generator,
    series,
    strings,
    symbol_hmms,
)
from tests.reference.set_cases import documents, sets, tree

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


@case("fit-hmm-pooled", "symbols", "vectors", tolerance=FITTED)
def hmm_pooled(kind: str) -> Values:
    """From the default starts and with the default prior."""
    X = strings(30, 31, 50, 90, seed="fit") if kind == "symbols" else series(30, 31, 50, seed="fit")
    return fitted(mc.HMM(3, n_iter=15, tol=0.0, random_state=1), X)


@case("fit-hmm-gaussians", "isotropic", "diagonal", "full", tolerance=FITTED)
def hmm_gaussians(structure: str) -> Values:
    start = gaussian_hmms(1, 3, 2, structure, seed="start")
    estimator = mc.HMM(3, mc.Gaussian(structure), init=start, prior=None, n_iter=20, tol=0.0)
    return fitted(estimator, series(40, 41, 60, 90, seed="fit", gaps=0.05 if structure == "diagonal" else 0.0))


@case("fit-mixture", "isotropic", "diagonal", "full", tolerance=FITTED)
def mixture(structure: str) -> Values:
    start = mc.Mixtures([[0.5, 0.3, 0.2]], gaussian_emissions(1, 3, 2, structure, seed="start"))
    model = mc.Mixture(mc.Gaussian(structure), 3, init=start, prior=None, n_iter=25, tol=0.0)
    X = sets(60, 80, d=2, seed="fit")
    return {"log_each": np.concatenate([p.log_prob(x) for p, x in zip(model.fit_each(X), X, strict=True)])}


@case("fit-markov", 1, 2, tolerance=FITTED)
def markov(order: int) -> Values:
    return fitted(mc.MarkovChain(order), strings(30, 31, 50, seed="fit"))


@case("fit-lds", "whole", "gaps", tolerance=FITTED)
def lds(kind: str) -> Values:
    estimator = mc.LDS(2, "full", init=systems(2, 2, 1, seed="start"), prior=None, n_iter=20, tol=0.0)
    return fitted(estimator, series(40, 41, 60, 90, seed="fit", gaps=0.1 if kind == "gaps" else 0.0))


@case("fit-lds-pooled", tolerance=FITTED)
def lds_pooled() -> Values:
    return fitted(mc.LDS(2, n_iter=10, tol=0.0, random_state=1), series(30, 31, 50, seed="fit"))


@case("fit-switching", tolerance=FITTED)
def switching_lds() -> Values:
    X = series(8, 9, 10, seed="fit")
    model = mc.SwitchingLDS(2, 2, init=switching(), n_iter=3, tol=0.0, prior=None).fit(X).model_
    return {"log_one": model.log_prob(X, method="exact")}


@case("fit-factorial", tolerance=FITTED)
def factorial() -> Values:
    return fitted(mc.FactorialHMM(2, 2, n_iter=8, tol=0.0, n_init=1, random_state=1), series(40, 50, d=1, seed="fit"))


@case("fit-pairs", tolerance=FITTED)
def pairs() -> Values:
    X = strings(10, 12, 14, 9, seed="fit")
    model = mc.PairHMM(2, init=general(2), n_iter=10, tol=0.0).fit(X).model_
    return {"log_prob": model.log_prob(X), "log": mc.Marginalization(model, normalize=False).log(X)}


@case("fit-affine", "global", "local", tolerance=FITTED)
def affine_pairs(kind: str) -> Values:
    X, start = strings(20, 22, 24, 19, seed="fit"), affine(4)
    local = {"local": True, "flank_open": 0.9, "flank_extend": 0.9} if kind == "local" else {}
    estimator = mc.AffinePairHMM(
        joint=start.joint[0], open_probability=0.05, extend_probability=0.5, alphabet="dna", n_iter=8, tol=0.0, **local
    )
    model = estimator.fit(X).model_
    return {"log_prob": model.log_prob(X), "log": mc.Marginalization(model, normalize=False).log(X)}


@case("fit-profile", tolerance=FITTED)
def profile() -> Values:
    rng = generator("alignment")
    rows = ["".join(np.where(rng.random(20) < 0.7, list("ACGT" * 5), rng.choice(list("ACGT-"), 20))) for _ in range(12)]
    model = mc.ProfileHMM(alphabet="dna").fit(rows).model_
    return {"log_prob": model.log_prob(strings(15, 40, seed="fit"))}


@case("fit-tree", tolerance=FITTED)
def hidden_tree() -> Values:
    X = generator("profiles").integers(0, 2, (40, 6)).astype(float)
    model = mc.HiddenTree("(((a:1,b:1):1,c:2):1,((d:1,e:1):1,f:2):1);", n_iter=15, tol=0.0).fit(X).model_
    return {"log_prob": model.log_prob(X), "log_given": tree(6, 3).log_prob(X)}


@case("fit-density", tolerance=FITTED)
def density() -> Values:
    X = sets(30, 60, d=2, seed="fit")
    return {"log_prob": mc.KDE("lscv").fit_each(X).log_prob(X[0])}


@case("fit-documents", tolerance=FITTED)
def count_vectors() -> Values:
    rows = documents(9, 20)
    return {"log": np.diagonal(mc.families.CountVector().fit_each(rows).log_prob(rows))}
