"""The loader of species distributions: where animals and plants were seen, and what the climate and soil is there."""

from __future__ import annotations

import csv
import io

import numpy as np
from sklearn.utils import Bunch

from mercer.data.sequences import Sequences
from mercer.datasets._bunch import bunch
from mercer.datasets._fetch import data_path, open_binary

_REGIONS = {
    "AWT": ("the Australian Wet Tropics", "20 birds and 20 plants", ()),
    "CAN": ("Ontario, Canada", "20 birds", ("ontveg",)),
    "NSW": (
        "New South Wales, Australia",
        "54 species in 8 groups: bats (ba), diurnal birds (db), nocturnal birds (nb), open-forest trees (ot) and "
        "understorey plants (ou), rainforest trees (rt) and understorey plants (ru), small reptiles (sr)",
        ("vegsys",),
    ),
    "NZ": ("New Zealand", "52 plants", ("age", "toxicats")),
    "SA": ("South America", "30 plants of the family Bignoniaceae", ()),
    "SWI": ("Switzerland", "30 trees", ("calc",)),
}
"""Name, species, and which of the features are categories."""

_CHOICES = ("drop", "keep")
_FEATURES_FROM = 6
"""The columns before are siteid, spid, x, y, occ, group."""


def fetch_disdat(region: str, *, categories: str = "drop") -> Bunch:
    """Load species distributions of one of six regions: a set of points for every species, in a space of features.

    A point is a presence: what climate, soil and terrain are where the species was seen. The species have no names
    but numbers. Absences are not known; the background has 10,000 random sites of the region, to compare with.

    ====== ========================== ======= ========= ========
    region where                      species presences features
    ====== ========================== ======= ========= ========
    AWT    the Australian Wet Tropics 40      3,806     13
    CAN    Ontario, Canada            20      5,063     10 (11)
    NSW    New South Wales, Australia 54      3,323     12 (13)
    NZ     New Zealand                52      3,088     11 (13)
    SA     South America              30      2,220     11
    SWI    Switzerland                30      35,105    12 (13)
    ====== ========================== ======= ========= ========

    Parameters
    ----------
    region : str
        One of the table.
    categories : {"drop", "keep"}, default="drop"
        Whether features whose numbers only stand for categories, such as types of vegetation, are left out. With them
        there are as many features as the table has in brackets.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences`, the presences of every species, in their own units; the ids are the species.
        ``target`` : array of shape (n_species,), the biological group, an index into ``target_names``.
        ``target_names`` : list of the groups; AWT has two, NSW eight, the others one.
        ``feature_names`` : list of the columns of the points.
        ``background`` : array of shape (10000, n_features), the features of random sites.
        ``DESCR`` : what the set is and where it comes from.

    Notes
    -----
    The files ``<region>train_po.csv`` and ``<region>train_bg.csv`` come from ``$MERCER_DATA/disdat`` and are checked
    by their SHA-256. They cannot be downloaded, since they were written from the R package disdat
    (github.com/rspatial/disdat), which has them in R's own format. Species of one group were partly recorded at the
    same sites, so that they look alike for this reason too.

    References
    ----------
    J. Elith et al., Presence-only and presence-absence data for comparing species distribution modeling methods,
    Biodiversity Informatics 15, 2020.

    Examples
    --------
    >>> from mercer.datasets import fetch_disdat
    >>> species = fetch_disdat("AWT")  # doctest: +SKIP
    >>> species.data, species.target_names  # doctest: +SKIP
    (Sequences(40 sequences of 13-dimensional vectors (float64), lengths 9 to 265), ['bird', 'plant'])
    """
    if region not in _REGIONS:
        raise ValueError(f"region={region!r} is not possible: give one of {', '.join(map(repr, _REGIONS))}")
    if categories not in _CHOICES:
        raise ValueError(f"categories={categories!r} is not possible: give one of {', '.join(map(repr, _CHOICES))}")
    where, which, coded = _REGIONS[region]
    header, presences = _rows(f"{region}train_po.csv")
    _, background = _rows(f"{region}train_bg.csv")
    dropped = coded if categories == "drop" else ()
    columns = [i for i, name in enumerate(header) if i >= _FEATURES_FROM and name not in dropped]
    species, first, of_species = np.unique(presences[:, 1], return_index=True, return_inverse=True)
    points = presences[:, columns].astype(np.float64)
    sets = [points[of_species == i] for i in range(len(species))]
    found = bunch(Sequences(sets, ids=species.tolist()), presences[first, 5], _DISDAT.format(where=where, which=which))
    found.feature_names = [header[i] for i in columns]
    found.background = background[:, columns].astype(np.float64)
    return found


def _rows(file: str) -> tuple[list[str], np.ndarray[tuple[int, int], np.dtype[np.str_]]]:
    """Return the names of the columns, and the table as text."""
    with open_binary(data_path("disdat", file)) as stream:
        header, *rows = csv.reader(io.TextIOWrapper(stream, encoding="utf-8", newline=""))
    return header, np.array(rows)


_DISDAT = """\
Species distributions of {where} (disdat)

{which}; where they were seen, with features of climate, soil and terrain, and 10000 random sites of the region.
From the R package disdat (GPL-3 or later, github.com/rspatial/disdat); cite J. Elith et al., Presence-only and
presence-absence data for comparing species distribution modeling methods, Biodiversity Informatics 15, 2020,
doi 10.17161/bi.v15i2.13384. The package's test data, presences and absences of planned surveys, are not loaded.
"""
