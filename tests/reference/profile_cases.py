"""Profile HMMs: log odds, expected counts, best paths and products (Plan 7, PPK-4.2d)."""

from __future__ import annotations

import numpy as np
from tests.reference.registry import Values, case, generator, probabilities, strings

import mercer as mc

MODES = ("local", "glocal", "unilocal", "uniglocal")


def profiles(*nodes: int, mode: str = "local", same: bool = True, tiny: float = 0.0) -> mc.models.ProfileHMMs:
    """Return random profiles of DNA; ``same`` inserts letters of one distribution, ``tiny`` makes gaps so rare."""
    rng = generator("profiles", nodes, same)
    match, insert, steps = [], [], []
    for m in nodes:
        shown = rng.dirichlet(np.full(4, 0.4), m) + 1e-3
        match.append(shown / shown.sum(axis=1, keepdims=True))
        inserted = probabilities(rng, m + 1, 4)
        insert.append(np.repeat(inserted[:1], m + 1, axis=0) if same else inserted)
        step = np.tile([0.96, 0.02, 0.02, 0.6, 0.4, 0.7, 0.3], (m + 1, 1))
        if tiny:
            step[:, :3] = [1.0 - 2 * tiny, tiny, tiny]
        step[0, 5:], step[-1, :3], step[-1, 5:] = [1.0, 0.0], [step[-1, 0] + step[-1, 2], step[-1, 1], 0.0], [1.0, 0.0]
        steps.append(step)
    return mc.models.ProfileHMMs(
        match, insert, steps, alphabet="dna", mode=mode, insertion="background" if same else "model"
    )


def product(rho: float = 1.0) -> mc.ProbabilityProduct:
    return mc.ProbabilityProduct(rho=rho, length=None, normalize=False)


X = strings(1, 2, 5, 30, 31, 80, seed="profiles")


@case("profiles", *MODES)
def modes(mode: str) -> Values:
    models = profiles(1, 7, 30, mode=mode)
    return {
        "log_odds": models.log_odds(X), "log_prob": models.log_prob(X), "scores": models[1:2].sequence_scores(X),
        "scores_of_one_node": models[:1].sequence_scores(X),
    }  # fmt: skip


@case("profiles-tiny", 1e-60, 1e-300)
def tiny(gap: float) -> Values:
    """Gaps so rare that floats lose them: the recursion in logarithms."""
    models = profiles(6, mode="uniglocal", tiny=gap)
    return {"log_odds": models.log_odds(X), "scores": models.sequence_scores(X)}


@case("profile_paths", *MODES)
def paths(mode: str) -> Values:
    models = profiles(12, mode=mode)
    states, odds = models.viterbi(X)
    return {"paths": np.concatenate([np.asarray(path, dtype=np.float64).ravel() for path in states]), "log_odds": odds}


@case("profile_product", "same", "own")
def products(inserts: str) -> Values:
    """Products with one distribution of inserted letters, and with one for each node."""
    models = profiles(1, 2, 3, 8, 9, 17, 40, same=inserts == "same")
    return {"log_one": product().log(models), "log_half": product(0.5).log(models[:3], models)}


@case("profile_product-ranged", 1e-60, 1e-300)
def product_ranged(gap: float) -> Values:
    return {
        "log": product().log(profiles(3, 5, 8, tiny=gap)),
        "log_half": product(0.5).log(profiles(3, 5, 8, tiny=gap)),
    }
