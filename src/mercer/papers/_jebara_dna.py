"""Figure 8 of jebara2004: exons against introns by hidden Markov models, Markov chains and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils import Bunch

import mercer as mc
from mercer.datasets import fetch_hs3d, fetch_intron_exon
from mercer.papers._along_costs import Outcome, curve, halves, joined, outcome
from mercer.papers._protocol import Floats, Ints, Labels
from mercer.papers._results import Curve, Figure

LENGTHS = (7, 8, 9, 10, 11)
"""Values of T, the length of the strings on which two models are compared."""
ORDERS = (1, 2, 3, 4, 5)
"""Values of K, the length of words: one more than the order of a Markov chain."""
STRENGTHS = (5.0, 20.0, 80.0)
"""Strengths of the pooled prior, in letters."""
LOG_COSTS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
SHORTEST, LONGEST = 30, 1000
"""Range of lengths of the fly's strings."""

Kernels = dict[str, list[Floats]]
"""Families of kernels by the name of their curve."""

FIGURES = {
    "figure8a": Figure(
        "Exons against introns: one hidden Markov model per string, compared on strings of length T (rho = 1)",
        "Differs from the paper: HS3D's whole introns and exons are not available. Human: 70 letters on either side of "
        "a splice site. Fly: other genes, with ends removed, in pairs of an exon and an intron of equal length.",
        "log C",
    ),
    "figure8b": Figure(
        "Exons against introns: counts of words of K letters, and Markov chains of order K - 1 (rho = 1)",
        "Differs from the paper: the data, as for figure8a. The paper describes Markov chains and reports spectrum "
        "kernels; both are included.",
        "log C",
    ),
}


@dataclass(frozen=True)
class Strings:
    """Strings of two classes, and the groups that must not be split."""

    data: mc.Sequences
    labels: Labels
    groups: Labels

    def __getitem__(self, at: Ints) -> Strings:
        return Strings(self.data[at], self.labels[at], self.groups[at])


def human(n: int = 500, seed: tuple[int, ...] = (0,)) -> Strings:
    """Draw n exon and n intron halves of human splice windows."""
    every, generator = _without_copies(fetch_hs3d()), np.random.default_rng(seed)
    return every[_of_each_class(every.labels, n, generator)]


def human_ends_cut(n: int = 500, seed: tuple[int, ...] = (0,), trim: int = 6) -> Strings:
    """Draw like ``human``, and remove ``trim`` letters at both ends, one of which is the splice site."""
    drawn = human(n, seed)
    cut = mc.Sequences([string[trim:-trim] for string in drawn.data], alphabet=drawn.data.alphabet)
    return replace(drawn, data=cut)


def fly(n: int = 500, seed: tuple[int, ...] = (0,), trim: int = 10) -> Strings:
    """Draw n pairs of an exon and an intron of the fly of equal length, without the ends, where introns are alike."""
    every, generator = _without_copies(fetch_intron_exon(trim=trim)), np.random.default_rng(seed)
    pairs = equal_lengths(every.data.lengths, every.labels, generator)
    return every[np.sort(pairs[generator.choice(len(pairs), n, replace=False)].ravel())]


def fly_as_it_is(n: int = 500, seed: tuple[int, ...] = (0,)) -> Strings:
    """Draw n exons and n introns of the fly with their ends and lengths, as the paper does with human ones."""
    every, generator = _without_copies(fetch_intron_exon()), np.random.default_rng(seed)
    every = every[np.flatnonzero((every.data.lengths >= SHORTEST) & (every.data.lengths <= LONGEST))]
    return every[_of_each_class(every.labels, n, generator)]


def equal_lengths(lengths: Labels, labels: Labels, generator: np.random.Generator) -> Any:
    """Return all random pairs of objects of equal length from two classes, ``(pairs, 2)``.

    Parameters
    ----------
    lengths, labels : array of shape (N,)
        Lengths and classes of the objects; lengths below ``SHORTEST`` or above ``LONGEST`` are skipped.
    generator : Generator
        Source of randomness.

    Examples
    --------
    >>> import numpy as np
    >>> lengths = np.array([40, 50, 50, 40, 90])
    >>> labels = np.array(["a", "a", "b", "b", "b"])
    >>> equal_lengths(lengths, labels, np.random.default_rng(0)).tolist()
    [[0, 3], [1, 2]]
    """
    pairs = []
    for length in np.unique(lengths[(lengths >= SHORTEST) & (lengths <= LONGEST)]):
        same = lengths == length
        sides = (generator.permutation(np.flatnonzero(same & (labels == name))) for name in np.unique(labels))
        pairs += list(zip(*sides, strict=False))  # surplus objects of the larger class are dropped
    return np.array(pairs).reshape(-1, 2)


def _without_copies(found: Bunch) -> Strings:
    """Drop duplicate strings: genes have copies, which could be on both sides of a split."""
    labels = np.array(found.target_names)[found.target]
    first: dict[str, int] = {}
    for place, string in enumerate(found.data):
        first.setdefault(string, place)
    return Strings(found.data, labels, found.groups)[np.array(list(first.values()))]


def _of_each_class(labels: Labels, n: int, generator: np.random.Generator) -> Ints:
    drawn = [generator.choice(np.flatnonzero(labels == name), n, replace=False) for name in np.unique(labels)]
    return np.sort(np.concatenate(drawn))


def stationary(models: mc.HMMs) -> mc.HMMs:
    """Replace initial distributions with stationary ones: a single string does not determine its start."""
    return mc.HMMs(models.stationary(), models.transition, models.emission, models.n_states)


def hmm_kernels(strings: Strings, train: Ints) -> Kernels:
    """Return the kernels of figure 8a: one model per string, fitted by itself or with a pooled prior.

    The prior is learned from the strings ``train``. Another family, with T chosen, keeps the initial distributions of
    EM instead of the stationary ones.
    """
    kernel, found = mc.ProbabilityProduct(rho=1.0), []
    single = mc.HMM("jebara", prior=None, n_iter=400, n_init=1).fit_each(strings.data)
    grams = zip(LENGTHS, kernel.path(stationary(single), lengths=LENGTHS), strict=True)
    for strength in STRENGTHS:
        model = mc.HMM("jebara", prior_strength=strength, n_iter=400, n_init=1)
        shrunk = model.fit_each(strings.data, model.context(strings.data[train]))
        found += list(kernel.path(stationary(shrunk), lengths=LENGTHS))
    return {f"T={length}": [gram] for length, gram in grams} | {
        "EM's start": list(kernel.path(single, lengths=LENGTHS)),
        "pooled prior": found,
    }


def chain_kernels(strings: Strings, train: Ints) -> Kernels:
    """Return the kernels that the paper describes for figure 8b: Markov chains of order K - 1, with T chosen."""
    kernel, lengths, pooled = mc.ProbabilityProduct(rho=1.0), LENGTHS[::2], []
    single = {k: mc.MarkovChain(k - 1, initial="anywhere", prior=None).fit_each(strings.data) for k in ORDERS}
    for k, strength in product(ORDERS[1:4], STRENGTHS):
        model = mc.MarkovChain(k - 1, initial="anywhere", prior_strength=strength)
        shrunk = model.fit_each(strings.data, model.context(strings.data[train]))
        pooled += list(kernel.path(shrunk, lengths=lengths))
    found = {f"K={k}": list(kernel.path(chains, lengths=lengths)) for k, chains in single.items()}
    return found | {"pooled prior": pooled}


def word_kernels(strings: Strings, train: Ints) -> Kernels:
    """Return the kernels that the paper reports in figure 8b: counts of words of length K; nothing is learned."""
    return {f"K={k}": [mc.Spectrum(k=k)(strings.data)] for k in ORDERS}


def length_kernel(strings: Strings) -> Floats:
    """Return a Gaussian kernel of log-lengths, as a baseline."""
    gram: Floats = mc.RBF(gamma=1.0)(mc.Lengths().transform(strings.data))
    return gram


PAPER = {
    "T=9": "10-11 %",
    "K=1": "34 %",
    "K=2": "18 %",
    "K=3": "7-8 %",
    "K=4": "above K=3",
    "K=5": "above K=3",
}
"""Errors that the paper reports for its curves at the best C."""


def figure8(
    part: str, *, draws: int, n: int, seed: int, variants: bool, progress: Callable[[str, int], None]
) -> list[Curve]:
    """Run figure8a or figure8b with n strings per class; see `mercer.papers.jebara2004.reproduce`."""
    sets = {"human": human, "fly": fly}
    if variants:
        sets |= {"human, ends cut": human_ends_cut, "fly, as it is": fly_as_it_is}
    makers = {"": hmm_kernels} if part == "figure8a" else {"Markov chains": chain_kernels, "words": word_kernels}
    steps = len(sets) * len(makers) * draws
    found: dict[tuple[str, str], list[Outcome]] = {}
    for (name, load), (kind, maker), number in product(sets.items(), makers.items(), range(draws)):
        panel = f"{name}, {kind}".removesuffix(", ")
        progress(f"{panel}: draw {number + 1}", steps)
        strings = load(n, (seed, number))
        for method, one in _outcomes(strings, maker).items():
            found.setdefault((panel, method), []).append(one)
    return [curve(*line, LOG_COSTS, outcomes, PAPER.get(line[1], "")) for line, outcomes in found.items()]


def _outcomes(strings: Strings, maker: Callable[[Strings, Ints], Kernels]) -> dict[str, Outcome]:
    """Return the outcomes of all curves of a panel in one draw."""
    split = halves(strings.labels, strings.groups)
    found = {
        name: outcome(family, strings.labels, split, LOG_COSTS) for name, family in maker(strings, split.train).items()
    }
    own = [name for name in found if "=" in name]  # T=7, ... or K=1, ...
    lines = {name: found[name] for name in own} | {f"{own[0][0]} chosen": joined([found[name] for name in own])}
    length = {"length only": outcome([length_kernel(strings)], strings.labels, split, LOG_COSTS)}
    return lines | {name: one for name, one in found.items() if name not in own} | length
