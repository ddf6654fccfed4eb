"""Niches of species as density estimates (mehta2010, figure 2): a map, and classification of their groups.

The paper's species of Costa Rica are not public. We use species of New South Wales and of the Australian Wet
Tropics: the regions of the benchmark of Elith et al. (2020) whose species belong to several groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel

import mercer as mc
from mercer.datasets import fetch_disdat
from mercer.papers._protocol import Floats, Ints, KernelSVM, Labels, Lookup, Method, evaluate, spread, stratified
from mercer.papers._results import Cell, Figure, Place, Progress

FIGURE2 = Figure(
    "Kernel principal components of species' niches (New South Wales), lambda = 1",
    "Differs from the paper: its species of Costa Rica are not public; these are 53 species of New South Wales, with "
    "twelve features instead of five, and the kernel is normalized. As in the paper, groups are partly separated. Some "
    "of that is due not to ecology but to sites that species of one group share (figure2groups).",
    x_label="1st component",
    y_label="4th, and 2nd component",
)

FIGURE2_GROUPS = Figure(
    "Predicting the group of a species from its niche: error of an SVM, five-fold cross-validation",
    "The paper does not report this. 'own sites': a site that several species share is assigned to one of them at "
    "random; 'as few': the same number of presences, from any site. C and gamma are chosen within the training set.",
    x_label="",
)

CLIMATE = {
    "NSW": ("rainann", "raindq", "solrad", "tempann", "tempmin"),
    "AWT": ("bc01", "bc04", "bc12", "bc15", "bc20"),
}
"""Five climate features, as many as in the paper: temperature, rain, their seasonality, radiation."""

GROUPS = {
    "ba": "bats",
    "db": "birds",
    "nb": "birds",
    "ot": "open-forest plants",
    "ou": "open-forest plants",
    "rt": "rainforest plants",
    "ru": "rainforest plants",
    "sr": "reptiles",
    "bird": "birds",
    "plant": "plants",
}
"""Names of the groups; trees are merged with understory plants, and diurnal with nocturnal birds."""

GAMMA = 0.5  # lambda = 1
FEWEST, FEWEST_OWN = 5, 3
"""Minimum number of presences of a species, before and after shared sites are assigned to others."""


@dataclass(frozen=True)
class Species:
    """Species: names, groups, standardized presences and their sites."""

    names: Labels
    groups: Labels
    points: list[Floats]
    sites: list[Ints]

    def __len__(self) -> int:
        return len(self.points)

    def with_presences(self, kept: Sequence[Any], fewest: int) -> Species:
        """Return the species with at least ``fewest`` presences after masking them by ``kept``."""
        remaining = [i for i, mask in enumerate(kept) if np.sum(mask) >= fewest]
        points, sites = ([part[i][kept[i]] for i in remaining] for part in (self.points, self.sites))
        return Species(self.names[remaining], self.groups[remaining], points, sites)

    def own_sites(self, seed: int) -> Species:
        """Assign every site to one of the species recorded there, at random."""
        sites = np.concatenate(self.sites)
        order = np.random.default_rng(seed).permutation(len(sites))
        _, first = np.unique(sites[order], return_index=True)
        chosen = np.zeros(len(sites), dtype=bool)
        chosen[order[first]] = True
        ends = np.cumsum([len(one) for one in self.sites])[:-1]
        return self.with_presences(np.split(chosen, ends), FEWEST_OWN)

    def as_few(self, seed: int) -> Species:
        """Keep as many presences per species as `own_sites`, but drawn at random from all of its own."""
        own, generator = self.own_sites(seed), np.random.default_rng(seed)
        wanted = {name: len(points) for name, points in zip(own.names, own.points, strict=True)}
        ranks = [generator.permutation(len(points)) for points in self.points]
        kept = [rank < wanted.get(name, 0) for name, rank in zip(self.names, ranks, strict=True)]
        return self.with_presences(kept, FEWEST_OWN)


def read_species(region: str, features: Sequence[str] | None = None) -> Species:
    """Load the species of a region, standardized by random sites; ``features=None`` uses all features."""
    found = fetch_disdat(region)
    center, scale = found.background.mean(axis=0), found.background.std(axis=0)
    columns = [found.feature_names.index(name) for name in features or found.feature_names]
    values = ((found.data.values - center) / scale)[:, columns]
    sites = np.unique(found.data.values, axis=0, return_inverse=True)[1].reshape(-1)  # equal in all features
    groups = np.array([GROUPS[found.target_names[i]] for i in found.target])
    ends = found.data.offsets[1:-1]
    species = Species(np.array(found.data.ids), groups, np.split(values, ends), np.split(sites, ends))
    return species.with_presences([np.ones(len(one), dtype=bool) for one in species.points], FEWEST)


def niche_kernel(points: Sequence[Floats], *, normalize: bool = False) -> Floats:
    """Return the mean map kernel of density estimates with cross-validated bandwidths (GMMK-4, EST-6)."""
    niches = mc.KDE(bandwidth="lscv").fit_each(list(points))
    return np.asarray(mc.MeanMap(gamma=GAMMA, normalize=normalize)(niches))


def niches(progress: Progress = lambda what, steps: None) -> list[Place]:
    """Reproduce figure 2: the first kernel principal component against the fourth and the second, in two panels."""
    progress("niches", 1)
    species = read_species("NSW")
    matrix = niche_kernel(species.points, normalize=True)
    places = KernelPCA(4, kernel="precomputed", eigen_solver="dense").fit_transform(matrix)
    return [
        Place(panel, str(group), str(name), float(place[0]), float(place[component]))
        for panel, component in (("1st and 4th component", 3), ("1st and 2nd component", 1))
        for name, group, place in zip(species.names, species.groups, places, strict=True)
    ]


def niche_groups(quick: bool = False, seed: int = 0, progress: Progress = lambda what, steps: None) -> list[Cell]:
    """Classify the group of a species from its niche by five-fold cross-validation.

    Quick: only New South Wales with all features, and one round instead of three. C and further parameters are chosen
    within the training species. See `mercer.papers.mehta2010.reproduce`.
    """
    regions = [("NSW", "all features")] if quick else [(r, f) for r in CLIMATE for f in ("climate", "all features")]
    rounds = range(seed, seed + (1 if quick else 3))
    steps = len(regions) * 3 * len(rounds)
    cells = []
    for region, features in regions:
        species = read_species(region, CLIMATE[region] if features == "climate" else None)
        for kind, choose in (("", None), (", own sites", species.own_sites), (", as few", species.as_few)):
            task, found = f"{region}, {features}{kind}", []
            for number in rounds:
                progress(task, steps)
                found.append(_round(task, choose(number) if choose else species, number))
            cells += [_average(same) for same in zip(*found, strict=True)]
    return cells


@dataclass(frozen=True)
class Majority:
    """Predicts the largest group."""

    name: str = "Majority"

    @property
    def settings(self) -> list[str]:
        """A single setting without a name."""
        return [""]

    def predictions(self, labels: Labels, train: Ints, test: Ints) -> list[Labels]:
        """Return the largest group of the training species for all test species."""
        names, counts = np.unique(labels[train], return_counts=True)
        return [np.full(len(test), names[np.argmax(counts)])]


def _round(task: str, species: Species, number: int) -> list[Cell]:
    """Cross-validate every method once."""
    draws = stratified(species.groups, np.arange(len(species)), 5, seed=number)
    return [evaluate(method, task, species.groups, draws) for method in _methods(species.points)]


def _methods(points: Sequence[Floats]) -> Iterator[Method]:
    """Yield the mean map kernel, and baselines that use the mean, spread and number of presences, or less."""
    every = np.arange(len(points))

    def machine(name: str, kernels: dict[str, Floats]) -> KernelSVM:
        return KernelSVM(name, {key: Lookup(K, every, every, len(every)) for key, K in kernels.items()})

    yield machine(
        "KDE mean map",
        {word: niche_kernel(points, normalize=word == "normalized") for word in ("as it is", "normalized")},
    )
    mean, width = (np.array([getattr(one, name)(axis=0) for one in points]) for name in ("mean", "std"))
    size = np.log([[len(one)] for one in points])
    plain = {"Mean, spread, number": np.hstack([mean, width, size]), "Mean": mean, "Number": size}
    for name, vectors in plain.items():
        yield machine(name, {f"gamma={gamma:g}": rbf_kernel(vectors, gamma=gamma) for gamma in (0.1, 0.5, 2.5)})
    yield Majority()


def _average(cells: Sequence[Cell]) -> Cell:
    """Average the errors of one method over the rounds."""
    chosen, best = (np.array([getattr(cell, name) for cell in cells]) for name in ("chosen", "best"))
    return replace(cells[0], chosen=float(chosen.mean()), chosen_sd=spread(chosen), best=float(best.mean()))
