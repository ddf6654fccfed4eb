"""The affine recursion in the lanes and strips of other machines, against numbers of unlimited range."""

import numpy as np
import pytest

import mercer as mc
from mercer.compiled import pairs_affine


@pytest.fixture(scope="module")
def operand():
    rng = np.random.default_rng(0)
    strings = [rng.integers(0, 20, size) for size in (0, 1, 3, 4, 5, 8, 9, 33, 64, 70, 40)]
    hidden = rng.random((20, 20)) ** 4 + 5 * np.eye(20)
    hidden /= hidden.sum(axis=0)
    joint = hidden @ hidden.T / 20
    model = mc.AffinePairHMMs([joint], [joint.sum(axis=0)], [0.03], [0.6], [0.95], alphabet="protein")
    return model.shared_history(mc.Sequences.from_codes(strings, "protein"))


@pytest.mark.parametrize(("lanes", "strip"), [(2, 4), (2, 8), (4, 4), (8, 8)], ids=["SSE", "NEON", "AVX2", "AVX-512"])
def test_every_machine_has_the_same_kernel(operand, lanes, strip, monkeypatch):
    monkeypatch.setattr(pairs_affine, "STRIP", strip)
    monkeypatch.setattr(pairs_affine, "lanes_of", lambda precision: lanes if precision == "float64" else 2 * lanes)
    everyone = np.arange(len(operand))
    rows, columns = (grid.ravel() for grid in np.meshgrid(everyone, everyone, indexing="ij"))
    expected = operand._ranged(operand, rows, columns).reshape(len(operand), len(operand))
    found = operand.pair(operand)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    some = np.array([9, 2, 7])
    np.testing.assert_array_equal(operand[some].pair(operand[some]), found[np.ix_(some, some)])  # whoever is near
