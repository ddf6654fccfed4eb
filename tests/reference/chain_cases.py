"""Coupled chains: the probability product of HMMs and Markov chains (PPK-4.2, PPK-4.2a, PPK-4.2b)."""

from __future__ import annotations

import numpy as np
from tests.reference.registry import (
    Values,
    case,
    gaussian_hmms,
    generator,
    probabilities,
    symbol_hmms,
)

import mercer as mc


def product(length: object, rho: float = 1.0) -> mc.ProbabilityProduct:
    return mc.ProbabilityProduct(rho=rho, length=length, normalize=False)


# The number of steps decides whether a call is large enough for the compiled loops.
STEPS = {1: 12_000, 2: 800, 3: 250, 4: 100, 5: 60, 7: 20, 8: 20, 16: 10, 23: 10, 30: 10, 40: 10}


@case("chains-states", *(n for n in STEPS if n > 1))
@case("chains-states", 1, tolerance=1e-11)  # sums of 12,000 logarithms
def chains_states(n: int) -> Values:
    models = symbol_hmms(9, n)
    return {"log_half": product(STEPS[n], 0.5).log(models), "log_one": product(STEPS[n]).log(models[:5], models)}


@case("chains-padded")
def chains_padded() -> Values:
    models = mc.HMMs.concat([symbol_hmms(4, 2), symbol_hmms(4, 5), symbol_hmms(3, 3)])
    return {"log": product(100).log(models)}


@case("chains-gaussians", "isotropic", "diagonal", "full")
def chains_gaussians(structure: str) -> Values:
    models, mean_map = gaussian_hmms(10, 4, 3, structure), mc.MeanMap(gamma=0.1, length=60, normalize=False)
    return {"log": product(60).log(models), "log_mean_map": mean_map.log(models)}


@case("chains-many-symbols")
def chains_many_symbols() -> Values:
    """With more symbols than the loop over them takes, leaf kernels come from a matrix product."""
    return {"log": product(20).log(symbol_hmms(10, 5, k=70))}


@case("chains_ranged-tiny-transitions")
def ranged_transitions() -> Values:
    """Transitions of 1e-300, through which all paths go."""
    models = symbol_hmms(6, 3)
    step = np.array(models.transition)
    step[::2, 0], step[::2, 1] = [1.0, 1e-300, 0.0], [0.0, 1.0, 1e-300]
    step[::2, 2] = [0.0, 0.0, 1.0]
    initial, shown = np.array(models.initial), np.array(models.emission.probability)
    initial[::2] = [1.0, 0.0, 0.0]
    shown[0::4, 2], shown[2::4, :2] = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 0.0, 0.0]
    models = mc.HMMs(initial, step, mc.Categoricals(shown, alphabet="dna"))
    return {"log": product(300).log(models), "log_short": product(3).log(models)}


@case("chains_ranged-powers", 2, 3)
def ranged_powers(rho: int) -> Values:
    """Powers of probabilities that are zero as floats: all weights are logarithms."""
    models = symbol_hmms(4, 3)
    step = np.array(models.transition)
    step[:, 0, 1], step[:, 0, 0] = 1e-250, step[:, 0, 0] + step[:, 0, 1]
    models = mc.HMMs(models.initial, step, models.emission)
    return {"log": product(25, float(rho)).log(models)}


@case("chains_discounted-states", 2, 3, 4, 8, 16)
def discounted_states(n: int) -> Values:
    models = symbol_hmms(max(12, 4400 // n**3), n)  # enough pairs for the compiled loop
    some = max(1, len(models) // 12)
    return {f"log_{d}": product(mc.Discounted(d)).log(models[:6], models)[:, ::some] for d in (0.5, 0.9, 0.99)}


@case("chains_discounted-slow")
def discounted_slow() -> Values:
    """Sums that converge slowly go on as linear systems; the mean map of Gaussians has other leaf kernels."""
    kernel = mc.MeanMap(gamma=0.01, length=mc.Discounted(0.9999), normalize=False)
    return {"log": kernel.log(gaussian_hmms(12, 8, 2))}


def markov_chains(count: int, order: int, k: int = 4, end: bool = False) -> mc.MarkovChains:
    rng = generator("markov", order, k, end)
    short = sum(k**j for j in range(order)) if end else 0
    initial = probabilities(rng, count, k**order + short) if order else None
    return mc.MarkovChains(initial, probabilities(rng, count, k**order, k + end), order, "dna" if k == 4 else None, end)


@case("contexts-product", 1, 2, 3, tolerance=2e-12)
def contexts_product(order: int) -> Values:
    """Products of up to 10,000 symbols; the stored values have the rounding errors of as many logarithms."""
    models = markov_chains(9, order)
    return {f"log_{length}": product(length, 0.5).log(models) for length in (order, 20, 10_000)}


def uncertain(*lengths: int) -> list[str]:
    rng = generator("uncertain", lengths)
    return ["".join(rng.choice(list("ACGTNRY"), length, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.05])) for length in lengths]


@case("contexts-ambiguous", 1, 2, 4)
def contexts_ambiguous(order: int) -> Values:
    X = [*uncertain(1, 2, 3, 30, 200, 1000), "A", "NNNN"]
    found = {}
    for end in (False, True):
        models = markov_chains(2, order, end=end)
        found[f"log_prob_{end}"] = models.log_prob(X)
        if order < 4:
            found[f"scores_{end}"] = models.sequence_scores(X, sparse=False)
    return found
