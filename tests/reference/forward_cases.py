"""Forward and backward recursions of HMMs, best paths, densities and moments (ALG-FB, FK-4, FK-8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.reference.registry import (
    Values,
    case,
    gaussian_emissions,
    gaussian_hmms,
    generator,
    series,
    strings,
    symbol_hmms,
    thinned,
)

import mercer as mc

RAGGED = (1, 2, 3, 31, 32, 33, 40, 64, 65, 100)


def inferred(models: mc.HMMs, X: Any) -> Values:
    """Return what the forward and backward passes compute of every sequence."""
    found = models[:1].posterior(X)
    return {
        "log_prob": models.log_prob(X),
        "log_prob_of_posterior": found.log_prob,
        "states": thinned(np.concatenate(list(found))),
        "transitions": found.transitions,
        "scores": models[:1].sequence_scores(X)[0],
    }


@case("forward-symbols", 1, 2, 3, 4, 5, 8, 16, 20, 21, 33)
def forward_symbols(n: int) -> Values:
    return inferred(symbol_hmms(2, n), strings(*RAGGED[: 10 if n < 20 else 5]))


@case("forward-many-codes")
def forward_many_codes() -> Values:
    """With many symbols, their likelihoods are looked up one by one."""
    return inferred(symbol_hmms(1, 3, k=20, seed="codes"), mc.Sequences([[int(c)] * 3 + [7, 19] for c in range(20)]))


@case("forward-densities", "isotropic", "diagonal", "full")
def forward_densities(structure: str) -> Values:
    return inferred(gaussian_hmms(2, 3, 2, structure), series(*RAGGED))


@case("forward-gaps", "isotropic", "diagonal", "full")
def forward_gaps(structure: str) -> Values:
    return inferred(gaussian_hmms(1, 4, 3, structure), series(1, 30, 60, d=3, gaps=0.3))


@case("forward_sinks-pairs-of-symbols", 2, 5, 24)
def sinks_pairs(n: int) -> Values:
    kernel = mc.PosteriorCounts(symbol_hmms(1, n), k=2, normalize=False)
    found = kernel.features(strings(1, 2, 40, 200))
    return {"features": thinned((found.toarray() if hasattr(found, "toarray") else found).T)}


def left_right(n: int, tiny: float) -> mc.HMMs:
    """Return a chain that can only go on, with a probability of ``tiny``."""
    step = (1 - tiny) * np.eye(n) + tiny * np.eye(n, k=1)
    step[-1, -1] = 1.0
    shown = np.full((n, 4), 1e-300)
    shown[np.arange(n), np.arange(n) % 4] = 1.0 - 3e-300
    return mc.HMMs(np.eye(n)[:1], step[None], mc.Categoricals(shown[None], alphabet="dna"))


@case("forward_ranged-tiny-steps", 3, 6)
def ranged_steps(n: int) -> Values:
    models, X = left_right(n, 1e-300), mc.Sequences(["AACCGGTT" * 3, "ACGT", "T", "TTTT"], alphabet="dna")
    found = dict(inferred(models, X))
    found["pairs"] = mc.PosteriorCounts(models, k=2, normalize=False).features(X)
    return found


@case("forward_ranged-weights")
def ranged_weights() -> Values:
    """Scores of weights at parameters that are zero or nearly zero."""
    models = symbol_hmms(1, 3)
    step = np.array(models.transition)
    step[:, 0] = [1.0, 0.0, 0.0]
    step[:, 1] = [1e-200, 0.5, 0.5]
    models = mc.HMMs(models.initial, step, models.emission)
    return {"scores": models.sequence_scores(strings(1, 5, 30), parametrization="weight")}


@case("best_path", "symbols", "vectors", "impossible", "long")
def best_path(kind: str) -> Values:
    if kind == "vectors":
        models, X = gaussian_hmms(1, 5), series(1, 50, 200, gaps=0.1)
    elif kind == "impossible":
        models, X = left_right(3, 1e-300), mc.Sequences(["ACG", "GCA"], alphabet="dna")
    else:
        models, X = symbol_hmms(1, 4), strings(*((1, 2, 80) if kind == "symbols" else (12_000,)))
    paths, logs = models.viterbi(X)
    return {"paths": np.concatenate(paths).astype(np.int8), "log_prob": logs}


@case("gaussian_rows", "isotropic", "diagonal", "full")
def gaussian_rows(structure: str) -> Values:
    """Densities by themselves: one state, sequences of one point, several numbers of coordinates."""
    found = {}
    for d, n in ((1, 3), (2, 9), (5, 1)):
        models = gaussian_hmms(2, n, d, structure, seed="rows")
        X = series(*[1] * 12, d=d, gaps=0.2, seed="rows")
        found[f"log_prob_{d}"] = models.log_prob(X)
    return found


@case("moments", "isotropic", "diagonal", "full")
def moments(structure: str) -> Values:
    """Scores of Gaussian emissions are weighted moments."""
    found = {}
    for d, gaps in ((1, 0.0), (3, 0.0), (3, 0.25)):
        models, X = gaussian_hmms(1, 4, d, structure, seed="moments"), series(1, 15, 16, 17, 200, d=d, gaps=gaps)
        found[f"scores_{d}_{gaps}"] = models.sequence_scores(X)
    mixtures = mc.Mixtures([[0.3, 0.7]], gaussian_emissions(1, 2, 3, structure))
    found["scores_of_points"] = mixtures.fisher_scores(generator("points").normal(size=(40, 3)))
    return found
