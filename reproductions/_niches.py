"""Niches of species as density estimates (mehta2010, figure 2): a map, and classification of their groups.

The paper's species of Costa Rica are not public. We use species of New South Wales and of the Australian Wet
Tropics: the regions of the benchmark of Elith et al. (2020) whose species belong to several groups.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _protocol import Array, KernelSVM, Rule, Split, evaluate, spread, stratified
from _results import Cell, Figure, Place, tell
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel

import mercer as mc

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

    names: Array
    groups: Array
    points: list[Array]
    sites: list[Array]

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


SHA256 = {
    "AWTtrain_po.csv": "fb7f1755ae5f0a9da83a82588defeaadc35af1486143d2367ddaaeb22e863597",
    "AWTtrain_bg.csv": "48c5a4abf4a26bc82eea5a7a9e594d021afb0536389a47525209f6ba2f017e71",
    "NSWtrain_po.csv": "df1071d0276694a9ab9f11bd3f003f3ae01f895e175be0d8ca0a47531fee7be3",
    "NSWtrain_bg.csv": "c4ecabd17defcbe993bf359df34b59b2276155e25436aa3c9f4f76d68874f353",
}
"""Presences of species and random sites of the R package disdat (github.com/rspatial/disdat, commit d0bbc32, GPL-3):
its .rds files, exported as CSV with 7 significant digits."""


def read_rows(file: str) -> tuple[list[str], Array]:
    """Return the column names and the table, as strings, of ``$MERCER_DATA/disdat/<file>``, plain or gzipped."""
    plain = Path(os.environ.get("MERCER_DATA", ".")) / "disdat" / file
    packed = plain.with_name(f"{file}.gz")
    if not (plain.is_file() or packed.is_file()):
        raise FileNotFoundError(
            f"There is neither {plain} nor {packed.name}: export the file from the R package disdat "
            "(github.com/rspatial/disdat), and set MERCER_DATA to the folder that contains disdat."
        )
    content = gzip.decompress(packed.read_bytes()) if packed.is_file() else plain.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256[file]:
        raise ValueError(f"{plain} is damaged or a different version: its SHA-256 must be {SHA256[file]}.")
    header, *rows = csv.reader(content.decode().splitlines())
    return header, np.array(rows)


def read_species(region: str, features: Sequence[str] | None = None) -> Species:
    """Load the species of a region, standardized by random sites; ``features=None`` uses all that are no categories."""
    header, presences = read_rows(f"{region}train_po.csv")
    background = read_rows(f"{region}train_bg.csv")[1]
    # The columns before the features are siteid, spid, x, y, occ, group.
    every = [i for i, name in enumerate(header) if i >= 6 and name != "vegsys"]
    species, first, of_species = np.unique(presences[:, 1], return_index=True, return_inverse=True)
    order = np.argsort(of_species, kind="stable")
    values, reference = (table[:, every].astype(np.float64) for table in (presences[order], background))
    sites = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)  # equal in all features
    columns = [every.index(header.index(name)) for name in features] if features else slice(None)
    values = ((values - reference.mean(axis=0)) / reference.std(axis=0))[:, columns]
    groups = np.array([GROUPS[name] for name in presences[first, 5]])
    ends = np.cumsum(np.bincount(of_species))[:-1]
    found = Species(species, groups, np.split(values, ends), np.split(sites, ends))
    return found.with_presences([np.ones(len(one), dtype=bool) for one in found.points], FEWEST)


def niche_kernel(points: Sequence[Array], *, normalize: bool = False) -> Array:
    """Return the mean map kernel of density estimates with cross-validated bandwidths (GMMK-4, EST-6)."""
    niches = mc.KDE(bandwidth="lscv").fit_each(list(points))
    return np.asarray(mc.MeanMap(gamma=GAMMA, normalize=normalize)(niches))


def niches() -> list[Place]:
    """Reproduce figure 2: the first kernel principal component against the fourth and the second, in two panels."""
    species = read_species("NSW")
    matrix = niche_kernel(species.points, normalize=True)
    places = KernelPCA(4, kernel="precomputed", eigen_solver="dense").fit_transform(matrix)
    return [
        Place(panel, str(group), str(name), float(place[0]), float(place[component]))
        for panel, component in (("1st and 4th component", 3), ("1st and 2nd component", 1))
        for name, group, place in zip(species.names, species.groups, places, strict=True)
    ]


def niche_groups(quick: bool = False, seed: int = 0) -> list[Cell]:
    """Classify the group of a species from its niche by five-fold cross-validation, with parameters chosen inside.

    Quick: only New South Wales with all features, and one round instead of three.
    """
    regions = [("NSW", "all features")] if quick else [(r, f) for r in CLIMATE for f in ("climate", "all features")]
    cells = []
    for region, features in regions:
        species = read_species(region, CLIMATE[region] if features == "climate" else None)
        for kind, choose in (("", None), (", own sites", species.own_sites), (", as few", species.as_few)):
            task = f"{region}, {features}{kind}"
            tell(task)
            rounds = [
                _round(task, choose(number) if choose else species, number)
                for number in range(seed, seed + (1 if quick else 3))
            ]
            cells += [_average(same) for same in zip(*rounds, strict=True)]
    return cells


def _round(task: str, species: Species, number: int) -> list[Cell]:
    """Cross-validate every method once."""
    groups = species.groups
    splits = [
        Split(train, test, stratified(groups, train, 5))
        for train, test in stratified(groups, np.arange(len(species)), 5, seed=number)
    ]
    return [evaluate(method, task, groups, splits) for method in _methods(species.points, groups)]


def _methods(points: Sequence[Array], groups: Array) -> Iterator[KernelSVM | Rule]:
    """Yield the mean map kernel, baselines that use the mean, spread and number of presences, or less, and none."""
    kinds = {"as it is": False, "normalized": True}
    yield KernelSVM("KDE mean map", {name: niche_kernel(points, normalize=value) for name, value in kinds.items()})
    mean, width = (np.array([getattr(one, name)(axis=0) for one in points]) for name in ("mean", "std"))
    size = np.log([[len(one)] for one in points])
    plain = {"Mean, spread, number": np.hstack([mean, width, size]), "Mean": mean, "Number": size}
    for name, vectors in plain.items():
        yield KernelSVM(name, {f"gamma={gamma:g}": rbf_kernel(vectors, gamma=gamma) for gamma in (0.1, 0.5, 2.5)})

    def largest(train: Array, test: Array) -> dict[str, Array]:
        names, counts = np.unique(groups[train], return_counts=True)
        return {"": np.full(len(test), names[np.argmax(counts)])}

    yield Rule("Majority", largest)


def _average(cells: Sequence[Cell]) -> Cell:
    """Average the errors of one method over the rounds."""
    chosen, best = (np.array([getattr(cell, name) for cell in cells]) for name in ("chosen", "best"))
    sd = float(spread(chosen))
    return replace(cells[0], chosen=float(chosen.mean()), chosen_sd=sd, best=float(best.mean()))
