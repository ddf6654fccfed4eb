"""Values of all compiled recursions, and log-likelihoods of fits, against those that are stored in ``values.npz``.

Given parameters, kernels, scores and likelihoods agree to 1e-12 with values of another implementation; fits agree
to 1e-8 in their log-likelihood. The id of a case begins with the name of a recursion:
``pytest -n 0 tests/reference -k kalman_pairs`` runs its cases. All cases use public calls.

==============================================  ======================================================================
recursion                                       cases
==============================================  ======================================================================
chains, chain_steps                             chains-: 1 to 40 states, padded, symbols, leaf kernels
chains_discounted                               chains_discounted-
chains_ranged                                   chains_ranged-: 1e-300, powers that underflow
contexts                                        contexts-: products, ambiguous symbols, an end state
forward, forward_form, _steps, _sums, _sinks    forward-, forward_sinks-: symbols and densities, gaps
forward_ranged                                  forward_ranged-: 1e-300, scores of weights
best_path                                       best_path-
gaussian_rows, moments                          gaussian_rows-, moments-, forward-densities-, forward-gaps-, fit-hmm-
gaussians                                       gaussians-, chains-gaussians-full
kalman, kalman_back, kalman_step, small_*       kalman-: filter, smoother and scores; fit-lds
kalman_pairs, kalman_paths, kalman_branches     kalman_pairs-, kalman_paths-, kalman_branches-, fit-switching
pairs_affine, pairs_local                       pairs_affine-, pairs_local-
pairs                                           pairs_affine_ranged-, pairs_affine_single-, pairs_general-, fit-pairs
pairs_matches, pairs_draws                      pairs_matches-, pairs_draws
profiles, profile_numbers                       profiles-: floats, and logarithms in profiles-tiny-
profile_paths                                   profile_paths-
profile_product, profile_cell                   profile_product-: scaled, and ranged in profile_product-ranged-
forest                                          forest-: chains, trees, mixtures
points, windows                                 points-, windows-
counts, csr                                     counts-, csr-
copies, ranged                                  those of chains_discounted, contexts, counts; of all _ranged files
==============================================  ======================================================================
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reference.cases import CASES, compare

STORED = dict(np.load(Path(__file__).with_name("values.npz")))


@pytest.mark.parametrize("name", CASES)
def test_values(name: str):
    compare(name, CASES[name].compute(), STORED)


def test_nothing_is_stored_without_a_case():
    assert {key.partition("/")[0] for key in STORED} == set(CASES)


@pytest.mark.parametrize("change", [lambda x: x * (1 + 1e-10), lambda x: x + np.inf, lambda x: x[:1], np.rint])
def test_a_difference_is_found(change):
    values = {part: change(value) for part, value in CASES["chains-padded"].compute().items()}
    with pytest.raises(AssertionError):
        compare("chains-padded", values, STORED)
