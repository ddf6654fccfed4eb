"""Loader of species distributions."""

from __future__ import annotations

import csv
import io

import numpy as np
from sklearn.utils import Bunch

from mercer._parameters import check, one_of
from mercer.data.sequences import Sequences
from mercer.datasets._bunch import bunch
from mercer.datasets._fetch import data_path, open_binary

_REGIONS = {
    "AWT": ("the Australian Wet Tropics", "20 birds and 20 plants", ()),
    "CAN": ("Ontario, Canada", "20 birds", ("ontveg",)),
    "NSW": (
        "New South Wales, Australia",
        "54 species in 8 groups: bats (ba), diurnal birds (db), nocturnal birds (nb), open-forest trees (ot) and "
        "understory plants (ou), rainforest trees (rt) and understory plants (ru), small reptiles (sr)",
        ("vegsys",),
    ),
    "NZ": ("New Zealand", "52 plants", ("age", "toxicats")),
    "SA": ("South America", "30 plants of the family Bignoniaceae", ()),
    "SWI": ("Switzerland", "30 trees", ("calc",)),
}
"""Name, species, and categorical features."""

_FEATURES_FROM = 6
"""Index of the first feature; the columns before it are siteid, spid, x, y, occ, group."""


def fetch_disdat(region: str, *, categories: str = "drop") -> Bunch:
    """Load species distributions of one of six regions: one point set per species in a space of features.

    A point is a presence: the climate, soil and terrain at a site where the species was recorded. Species are
    identified by numbers, not names. Absences are unknown; the background contains 10,000 random sites of the region
    for comparison.

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
        One of the regions in the table.
    categories : {"drop", "keep"}, default="drop"
        Whether to drop or keep categorical features, such as types of vegetation. The table shows the number of
        features with them in parentheses.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences`, the presences of every species in the original units; the ids are the species.
        ``target`` : array of shape (n_species,), the biological group, an index into ``target_names``.
        ``target_names`` : list of the groups; AWT has two, NSW eight, the others one.
        ``feature_names`` : list of the names of the features.
        ``background`` : array of shape (10000, n_features), the features of random sites.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The files ``<region>train_po.csv`` and ``<region>train_bg.csv`` are read from ``$MERCER_DATA/disdat`` and checked
    against their SHA-256. They cannot be downloaded, because they were exported from the R package disdat
    (github.com/rspatial/disdat), which stores them in R's own format. Species of one group were partly recorded at
    the same sites, which also makes them similar.

    References
    ----------
    J. Elith et al., Presence-only and presence-absence data for comparing species distribution modeling methods,
    Biodiversity Informatics 15, 2020.

    Examples
    --------
    >>> from mercer.datasets import fetch_disdat
    >>> species = fetch_disdat("AWT")  # doctest: +SKIP
    >>> species.data  # doctest: +SKIP
    Sequences(40 sequences of 13-dimensional vectors (float64), lengths 9 to 265)
    >>> species.target_names  # doctest: +SKIP
    ['bird', 'plant']
    """
    check(one_of(*_REGIONS), region=region)
    check(one_of("drop", "keep"), categories=categories)
    where, which, categorical = _REGIONS[region]
    header, presences = _rows(f"{region}train_po.csv")
    _, background = _rows(f"{region}train_bg.csv")
    dropped = categorical if categories == "drop" else ()
    columns = [i for i, name in enumerate(header) if i >= _FEATURES_FROM and name not in dropped]
    species, first, of_species = np.unique(presences[:, 1], return_index=True, return_inverse=True)
    points = presences[:, columns].astype(np.float64)
    sets = [points[of_species == i] for i in range(len(species))]
    data = Sequences(sets, ids=species.tolist())
    out = bunch(data, presences[first, 5], _DISDAT.format(where=where, which=which))
    out.feature_names = [header[i] for i in columns]
    out.background = background[:, columns].astype(np.float64)
    return out


def _rows(file: str) -> tuple[list[str], np.ndarray[tuple[int, int], np.dtype[np.str_]]]:
    """Return the column names, and the table as an array of strings."""
    with open_binary(data_path("disdat", file)) as stream:
        header, *rows = csv.reader(io.TextIOWrapper(stream, encoding="utf-8", newline=""))
    return header, np.array(rows)


_DISDAT = """\
Species distributions of {where} (disdat)

{which}; presences with features of climate, soil and terrain, and 10000 random sites of the region.
From the R package disdat (GPL-3 or later, github.com/rspatial/disdat); cite J. Elith et al., Presence-only and
presence-absence data for comparing species distribution modeling methods, Biodiversity Informatics 15, 2020,
doi 10.17161/bi.v15i2.13384. The package's test data, presences and absences of planned surveys, are not loaded.
"""
