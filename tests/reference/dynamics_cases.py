"""Linear dynamical systems: filter, smoother, scores and kernels (ALG-KF, ALG-RTS, FK-10, PPK-4.5, PPK-5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.reference.registry import Values, case, generator, probabilities, series, thinned

import mercer as mc


def systems(n: int, d: int, *shape: int, seed: object = 0) -> mc.LDSs:
    """Return random stable systems."""
    rng = generator("systems", n, d, shape, seed)

    def covariance(k: int, scale: float) -> Any:
        root = rng.normal(size=(*shape, k, k))
        return scale * (root @ root.swapaxes(-1, -2) / k + 0.5 * np.eye(k))

    turn = np.linalg.qr(rng.normal(size=(*shape, n, n)))[0] * rng.uniform(0.5, 0.95, (*shape, 1, 1))
    return mc.LDSs(
        turn, rng.normal(size=(*shape, d, n)), covariance(n, 0.3), covariance(d, 0.5), rng.normal(size=(*shape, n)),
        covariance(n, 1.0), rng.normal(size=(*shape, n)), rng.normal(size=(*shape, d)),
    )  # fmt: skip


def states(found: Any, size: int, prefix: str) -> Values:
    """Return the means and covariances of some hidden states."""
    parts = [found.of(i) for i in range(size)]
    return {
        f"{prefix}_means": thinned(np.concatenate([mean for mean, _ in parts])),
        f"{prefix}_covariances": thinned(np.concatenate([spread for _, spread in parts])),
    }


def inferred(models: mc.LDSs, X: Any) -> Values:
    """Return what filter and smoother compute of every series."""
    one = models[:1]
    found: dict[str, Any] = {"log_prob": models.log_prob(X), "scores": one.sequence_scores(X)}
    return found | dict(states(one.filter(X), len(X), "filtered")) | dict(states(one.posterior(X), len(X), "smoothed"))


SIZES = {"1x1": (1, 1), "2x1": (2, 1), "1x3": (1, 3), "2x3": (2, 3), "4x3": (4, 3), "3x5": (3, 5), "6x2": (6, 2)}


@case("kalman-sizes", *SIZES)
def sizes(which: str) -> Values:
    n, d = SIZES[which]
    return inferred(systems(n, d, 2), series(1, 2, 3, 30, 31, 90, d=d))


@case("kalman-gaps", *SIZES)
def gaps(which: str) -> Values:
    n, d = SIZES[which]
    return inferred(systems(n, d, 1), series(1, 2, 40, 80, d=d, gaps=0.3))


@case("kalman_pairs-sizes", *SIZES)
def pairs(which: str) -> Values:
    n, d = SIZES[which]
    models, other = systems(n, d, 9), systems(2, d, 5, seed="other")
    found = {}
    for length in (1, 10, 300):
        for rho in (0.5, 1.0):
            kernel = mc.ProbabilityProduct(rho=rho, length=length, normalize=False)
            found[f"log_{length}_{rho}"] = kernel.log(models)
            found[f"log_{length}_{rho}_other"] = kernel.log(models, other)
    return found


@case("kalman_pairs-mean-map")
def mean_map() -> Values:
    models = systems(3, 2, 7)
    kernel = mc.MeanMap(gamma=0.2, length=25, normalize=False)
    return {
        "log": kernel.log(models),
        "path": mc.MeanMap(gamma=0.05).path(models, lengths=[1, 2, 5]),
        "log_discounted": mc.MeanMap(gamma=0.2, length=mc.Discounted(0.8), normalize=False).log(models[:3]),
    }


def switching(count: int = 1, regimes: int = 2, n: int = 2, d: int = 2) -> mc.models.SwitchingLDSs:
    """Return switching systems whose regimes stay for a while."""
    rng = generator("switching", regimes, n, d)
    step = probabilities(rng, count, regimes, regimes) + 4 * np.eye(regimes)
    return mc.models.SwitchingLDSs(
        probabilities(rng, count, regimes), step / step.sum(axis=-1, keepdims=True), systems(n, d, count, regimes)
    )


@case("kalman_branches", 2, 3)
def branches(regimes: int) -> Values:
    """Short series are summed over all paths, long ones follow the best of them."""
    models, X = switching(2, regimes), series(1, 5, 9, gaps=0.1)
    paths, logs = models[:1].viterbi(X)
    probability = np.concatenate(list(models[:1].regime_probabilities(X, n_paths=regimes**9)))
    return {
        "log_prob": models.log_prob(X, n_particles=regimes**9), "log_path": logs, "paths": np.concatenate(paths),
        "regimes": probability,
    }  # fmt: skip


@case("kalman_paths", "1x1", "2x2", "3x1")
def paths(which: str) -> Values:
    n, d = map(int, which.split("x"))
    models = switching(4, 2, n, d)
    found = {}
    for name, kernel in (
        ("log_half", mc.kernels.SwitchingProduct(rho=0.5, length=6, n_paths=64, normalize=False)),
        ("log_one", mc.kernels.SwitchingProduct(rho=1.0, length=6, n_paths=64, normalize=False)),
    ):
        found[name] = kernel.log(models)
    return found
