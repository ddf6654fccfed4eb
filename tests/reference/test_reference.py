"""Values of all compiled recursions, and log-likelihoods of fits, against those that are stored in ``values.npz``.

Given parameters, kernels, scores and likelihoods agree to 1e-12 with values of another implementation; fits agree
to 1e-8 in their log-likelihood. The id of a case begins with a name in the right column:
``pytest -n 0 tests/reference -k kalman_pairs`` runs its cases. All cases use public calls.

====================================  ==================================================================================
header in native/                     cases
====================================  ==================================================================================
best_path                             best_path
chains, product                       chains, chains_discounted, chains_ranged
contexts                              contexts
csr                                   csr
forest                                forest
forward, forward_form, forward_sinks  forward, forward_ranged, forward_sinks, fit-hmm
gaussian_rows                         gaussian_rows, forward-densities
gaussians                             gaussians, chains-gaussians
kalman, kalman_smoother, kalman_step  kalman, kalman_paths, kalman_branches, fit-lds, fit-switching
kalman_pairs                          kalman_pairs
moments                               moments, fit-hmm
pairs, pairs_graph, pairs_lanes       pairs_general, pairs_general_expected, fit-pairs
pairs_affine                          pairs_affine, pairs_affine_ranged, pairs_affine_single, pairs_local,
                                      pairs_matches, pairs_draws, fit-affine
points                                points
profile_paths                         profile_paths
profile_product                       profile_product
profiles                              profiles
windows                               windows
====================================  ==================================================================================

Kernels that use ``mixtures`` and ``series_windows`` are compared with loops in `tests/kernels/test_windowscores.py`.
The cases ``contraction`` are of an embedded model, which is written in Python.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.reference.cases import CASES, compare

STORED = dict(np.load(Path(__file__).with_name("values.npz")))


@pytest.mark.parametrize("name", CASES)
def test_values(name: str):
    compare(name, CASES[name].compute(), STORED)


def test_the_table_lists_what_there_is():
    """Every header of the native library, but those of shared parts, and every case."""
    table = re.findall(r"^(\w[\w, ]*?)?  +(\w.*)$", str(__doc__).partition("=\n")[2], re.MULTILINE)
    headers, cases = ({name.strip() for row in table for name in row[i].split(",")} - {""} for i in (0, 1))
    native = {path.stem for path in (Path(__file__).parents[2] / "native").glob("*.hpp")}
    shared = {"instances", "number", "small_matrix", "vector", "view"}
    assert headers - {"header in native/"} == native - shared - {"mixtures", "series_windows"}
    unlisted = [name for name in CASES if not {name.partition("-")[0], "-".join(name.split("-")[:2])} & cases]
    assert {name.partition("-")[0] for name in unlisted} == {"contraction"}
    assert not [case for case in cases - {"cases"} if not any(name.startswith(case) for name in CASES)]


def test_nothing_is_stored_without_a_case():
    assert {key.partition("/")[0] for key in STORED} == set(CASES)


@pytest.mark.parametrize("change", [lambda x: x * (1 + 1e-10), lambda x: x + np.inf, lambda x: x[:1], np.rint])
def test_a_difference_is_found(change):
    values = {part: change(value) for part, value in CASES["chains-padded"].compute().items()}
    with pytest.raises(AssertionError):
        compare("chains-padded", values, STORED)
