"""Pair HMMs: alignments with affine gaps, global and local, and any states (MK-5, MK-5b, MK-5d)."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.reference.registry import Values, case, generator, probabilities, strings

import mercer as mc

LENGTHS = (1, 2, 3, 4, 7, 8, 9, 17, 33, 40, 64, 100)


def affine(k: int = 20, opened: float = 0.03, extended: float = 0.6, flank: float | None = None) -> Any:
    """Return a model of DNA or proteins whose matches favor equal letters."""
    rng = generator("affine", k)
    hidden = rng.random((k, k)) ** 4 + 3 * np.eye(k)
    hidden /= hidden.sum(axis=0)
    joint = hidden @ hidden.T / k
    alphabet = "dna" if k == 4 else "protein"
    arguments = [joint], [joint.sum(axis=0)], [opened], [extended], [0.98]
    if flank is None:
        return mc.models.AffinePairHMMs(*arguments, alphabet=alphabet)
    return mc.models.LocalPairHMMs(*arguments, [flank], [flank], alphabet=alphabet)


def log_gram(model: Any, X: Any) -> np.ndarray:
    return mc.Marginalization(model, normalize=False).log(X)


@case("pairs_affine", 4, 20)
def pairs_affine(k: int) -> Values:
    model = affine(k)
    left, right = (model.shared_history(strings(*lengths, k=k)) for lengths in (LENGTHS[:3], LENGTHS))
    return {"log": log_gram(model, strings(*LENGTHS, k=k)), "log_rows": left.pair(right), "log_alone": right.alone()}


@case("pairs_affine-gaps", "rare", "common")
@case("pairs_affine_ranged-gaps", "never", "short")
def pairs_gaps(kind: str) -> Values:
    """Without gaps, or with gaps of one letter only, numbers cannot be scaled by the probability of longer ones."""
    opened, extended = {"rare": (1e-4, 0.5), "common": (0.4, 0.9), "never": (0.0, 0.5), "short": (0.2, 0.0)}[kind]
    return {"log": log_gram(affine(4, opened, extended), strings(*LENGTHS))}


@case("pairs_affine_ranged-flanks", 0.5)
@case("pairs_local", 0.7, 0.9, 0.999)
def pairs_local(flank: float) -> Values:
    model = affine(20, flank=flank)
    left, right = (model.shared_history(strings(*lengths, k=20)) for lengths in (LENGTHS[:3], LENGTHS))
    return {"log": log_gram(model, strings(*LENGTHS, k=20)), "log_rows": left.pair(right), "log_alone": right.alone()}


@case("pairs_affine_ranged-tiny", "global", "local")
def affine_ranged(kind: str) -> Values:
    """Gaps and letters of probability 1e-300."""
    joint = np.diag([0.5, 0.5 - 2e-300, 1e-300, 1e-300])
    arguments = [joint], [[1.0 - 2e-300, 0.0, 1e-300, 1e-300]], [1e-300], [1e-200], [0.9]
    flanks = ([0.5], [1e-100]) if kind == "local" else ()
    model = (mc.models.LocalPairHMMs if flanks else mc.models.AffinePairHMMs)(*arguments, *flanks, alphabet="dna")
    X = mc.Sequences(["ACAC", "AACA", "ACGT", "GGTT", "A" * 40, "GAAG"], alphabet="dna")
    return {"log": log_gram(model, X)}


@case("pairs_affine_ranged-matches", "global", "local")
def matches(kind: str) -> Values:
    """Posterior probabilities of matches, and with them the alignment of maximum expected accuracy."""
    model = affine(4, flank=None if kind == "global" else 0.9)
    X = strings(30, 40, seed="matches")
    return match_values(model.matches(X[0], X[1]))


def match_values(found: Any) -> Values:
    cells = [(i, j) for i, j, _ in found.pairs()]
    return {"probability": found.probability, "log": np.array(found.log_kernel), "cells": np.array(cells)}


@case("pairs_affine_single", "global", "local")
def single(kind: str) -> Values:
    model = affine(4, flank=None if kind == "global" else 0.9)
    X = mc.Sequences([*strings(1, 5, 60, 1000), "ACNNRYT", ""], alphabet="dna")
    return {
        "log_prob": model.log_prob(X),
        "log_long": model.log_prob(strings(12_000)),
        "scores": model.sequence_scores(X),
        "weights": model.sequence_scores(X, parametrization="weight"),
    }


def general(n: int, tiny: float = 0.0) -> mc.models.PairHMMs:
    """Return a model of DNA with n states."""
    rng = generator("general", n)
    step = probabilities(rng, 1, n, n + 1)
    step[..., -1] *= 0.3
    if tiny:
        step[:, 0] = tiny
        step[:, 0, 0] = 1.0
    step /= step.sum(axis=-1, keepdims=True)
    emission = mc.Categoricals(probabilities(rng, 1, n, 4), alphabet="dna")
    return mc.models.PairHMMs(
        probabilities(rng, 1, n), step[..., :-1], step[..., -1], emission, 0.5 * rng.random((1, n)) + 0.05
    )


SHORT = (0, 1, 2, 5, 9, 16, 30)


@case("pairs_general-states", 1, 2, 3, 5, 18)
def pairs_general(n: int) -> Values:
    return {"log": log_gram(general(n), strings(*SHORT)), "log_prob": general(n).log_prob(strings(*SHORT))}


@case("pairs_general-ranged")
def general_ranged() -> Values:
    """Steps of probability 1e-300 go through numbers of unlimited range."""
    return {"log": log_gram(general(3, 1e-300), strings(*SHORT, 200))}


@case("pairs_general_expected", 1, 2, 4)
def expected(n: int) -> Values:
    model, X = general(n), strings(20, 30, seed="expected")
    return {"scores": model.sequence_scores(strings(*SHORT))} | dict(match_values(model.matches(X[0], X[1])))


@case("pairs_matches", 0.0, 0.5)
def most_accurate(least: float) -> Values:
    model, X = affine(4), strings(60, 50, seed="accurate")
    return {"cells": np.array([(i, j) for i, j, _ in model.matches(X[0], X[1]).pairs(least)])}


@case("pairs_draws")
def draws() -> Values:
    model = general(3)
    single_, pairs = model.sample(20, random_state=3)[0], model.sample_pairs(10, random_state=4)[0]
    parts = [single_, *pairs]
    return {f"codes_{i}": part.values for i, part in enumerate(parts)} | {
        f"offsets_{i}": part.offsets for i, part in enumerate(parts)
    }
