"""Shared histories, sets of points, windows, documents, Gaussians and streams."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from tests.reference.forward_cases import left_right
from tests.reference.registry import (
    FITTED,
    Values,
    case,
    gaussian_emissions,
    gaussian_hmms,
    generator,
    probabilities,
    series,
    strings,
    symbol_hmms,
    thinned,
)

import mercer as mc

# -- shared histories (MK-3, MK-4, MK-6) ------------------------------------------------------------------------


def log_histories(model: object, X: object) -> Values:
    return {"log": mc.Marginalization(model, normalize=False).log(X)}


@case("forest-chain", 1, 2, 3, 4, 8, 16)
def chain(n: int) -> Values:
    return log_histories(symbol_hmms(1, n), strings(*[25] * 11, seed="chain"))


@case("forest-chain-careful")
def chain_careful() -> Values:
    """Steps and symbols of probability 1e-300: the recursion in logarithms."""
    X = mc.Sequences(["AACCGG", "ACCCGG", "AAAAAC", "GGCCAA", "CGCGCG"], alphabet="dna")
    return log_histories(left_right(3, 1e-300), X)


def tree(leaves: int, states: int, symbols: int = 2) -> mc.models.HiddenTrees:
    """Return a random binary tree: nodes are joined in pairs, and the last one is the root."""
    rng = generator("tree", leaves, states)
    nodes, above, left = leaves - 1, {}, [("leaf", k) for k in range(leaves)]
    for v in range(nodes - 1, -1, -1):
        pair = [left.pop(int(rng.integers(len(left)))) for _ in range(2)]
        above |= dict.fromkeys(pair, v)
        left.append(("node", v))
    parent = [above.get(("node", v), -1) for v in range(nodes)]
    places = [above["leaf", k] for k in range(leaves)]
    return mc.models.HiddenTrees(
        [parent], probabilities(rng, 1, states), probabilities(rng, 1, nodes, states, states), [places],
        probabilities(rng, 1, leaves, states, symbols),
    )  # fmt: skip


@case("forest-tree", 2, 3, 5)
def trees(states: int) -> Values:
    X = generator("leaves").integers(0, 2, (13, 40)).astype(float)
    X[generator("gaps").random(X.shape) < 0.1] = np.nan
    return log_histories(tree(40, states), X)


@case("forest-mixture")
def mixture() -> Values:
    model = mc.Mixtures([[0.2, 0.5, 0.3]], gaussian_emissions(1, 3, 2, "full"))
    return log_histories(model, series(*[20] * 12, seed="mixture"))


# -- points and windows (GMMK-4, EMMK-2, EST-6) -----------------------------------------------------------------


def sets(*sizes: int, d: int, seed: object = 0) -> list[np.ndarray]:
    rng = generator("sets", d, seed)
    return [rng.normal(rng.normal(size=d), 1.0, size=(size, d)) for size in sizes]


@case("points-densities", 1, 2, 5, 11)
def densities(d: int) -> Values:
    p = mc.models.KDEs(sets(1, 2, 6, 7, 40, 100, d=d), [0.1, 0.2, 0.3, 0.1, 0.5, 1.0])
    return {
        "log_mean_map": mc.MeanMap(gamma=0.5, normalize=False).log(p),
        "log_product": mc.ProbabilityProduct(rho=1.0, normalize=False).log(p),
        "log_prob": p.log_prob(sets(9, d=d, seed="new")[0]),
    }


@case("points-weighted", 2, 5)
def weighted(n: int) -> Values:
    kernel = mc.LatentMeanMap(gaussian_hmms(1, n), gamma=0.3, normalize=False)
    return {"gram": kernel(series(3, 10, 30, 60))}


@case("windows-vectors", 0, 1, 5, 20)
def windows(order: int) -> Values:
    found = {}
    for d in (1, 4):
        kernel = mc.EmpiricalMeanMap(order=order, gamma=0.3 / d / (order + 1), normalize=False)
        found[f"log_{d}"] = kernel.log(series(21, 22, 64, 100, 300, d=d))
    return found


@case("csr-windows", "protein-2")
@case("windows-strings", "dna-30", "protein-9")
def windows_strings(which: str) -> Values:
    alphabet, order = which.split("-")
    X = strings(31, 40, 100, 200, k=4 if alphabet == "dna" else 20)
    return {"log": mc.EmpiricalMeanMap(order=int(order), gamma=0.4, normalize=False).log(X)}


# -- documents and counts (PPK-3.3, DJS-2, GMMK-10a) ------------------------------------------------------------


def documents(count: int, words: int) -> np.ndarray:
    """Return counts, most of them zero; the first words are in nearly all documents."""
    rng = generator("documents", count, words)
    return rng.poisson(6.0 / np.arange(1, words + 1) ** 0.7, (count, words)).astype(float) + np.eye(1, words)


@case("csr", "float64", "float32")
def csr(dtype: str) -> Values:
    rows = sparse.csr_array(documents(30, 120).astype(dtype))
    p = mc.Multinomial().fit_each(rows)
    return {
        "product": mc.ProbabilityProduct(rho=0.5, normalize=False)(p),
        "one": mc.ProbabilityProduct(rho=1.0, normalize=False)(p[:4], p),
        "shannon": mc.JensenShannon(form="exp", t=2.0, normalize=False)(p),
        "mean_map": mc.MeanMap(gamma=1.0, normalize=False)(p),
    }


# -- Gaussians (PPK-3.1, GMMK-2) --------------------------------------------------------------------------------


@case("gaussians", "diagonal-2", "diagonal-5", "full-2", "full-3", "full-9")
def gaussians(which: str) -> Values:
    structure, d = which.split("-")
    p = gaussian_emissions(1, 240, int(d), structure).reshape(-1)
    few = mc.ProbabilityProduct(rho=0.5, normalize=False).log(p[:20])
    return {
        "log_half": thinned(p.log_product(p, 0.5)[:, ::17], 20),
        "log_one": thinned(p.log_product(p[:220], 1.0)[:, ::17], 20),
        "log_mean": thinned(p.log_mean_map(p[20:], 0.2)[:, ::17], 20),
        "log_few": few,
    }


@case("gaussians-shannon", 2, 4)
def shannon(d: int) -> Values:
    p = gaussian_emissions(1, 30, d, "full").reshape(-1)
    return {"gram": thinned(mc.JensenShannon(check_psd=False, normalize=False)(p), 15)}


# -- streams ----------------------------------------------------------------------------------------------------


@case("contraction", "landmarks", "random", tolerance=FITTED)
def contraction(features: str) -> Values:
    """Steps of a filter; the model is fitted."""
    (x,) = series(700, d=3, seed="stream")
    model = mc.EmbeddedHMM(mc.RBF(2.0), n_components=20, landmarks=340, alpha=1e-2, features=features).fit([x])
    belief, squares = None, []
    for row in x[:30]:
        belief = model.update(row, belief)
        squares.append(belief @ belief)  # the signs of singular vectors are arbitrary
    return {"squares": np.array(squares)}
