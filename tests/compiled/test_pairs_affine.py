"""The affine recursion in the lanes and strips of other machines, against numbers of unlimited range."""

import numpy as np
import pytest

import mercer as mc
from mercer.compiled import pairs_affine, pairs_local
from mercer.compiled.machine import MACHINE


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    hidden = rng.random((20, 20)) ** 4 + 5 * np.eye(20)
    hidden /= hidden.sum(axis=0)
    joint = hidden @ hidden.T / 20
    return mc.AffinePairHMMs([joint], [joint.sum(axis=0)], [0.03], [0.6], [0.95], alphabet="protein")


@pytest.fixture(scope="module")
def strings():
    rng = np.random.default_rng(0)
    sizes = (0, 1, 3, 4, 5, 8, 9, 33, 64, 70, 40)
    return mc.Sequences.from_codes([rng.integers(0, 20, size) for size in sizes], "protein")


@pytest.fixture(scope="module")
def operand(model, strings):
    return model.shared_history(strings)


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


def test_local_alignments_with_few_registers_have_the_same_kernel(model, strings, monkeypatch):
    """AVX2: narrow strips, and constants in memory."""
    parts = model.joint, model.insertion, model.open, model.extend, model.continuation
    local = mc.LocalPairHMMs(*parts, [0.9], [0.98], alphabet="protein").shared_history(strings)
    expected = local.pair(local)
    monkeypatch.setattr(pairs_local, "STRIP", 3)
    monkeypatch.setattr(pairs_local, "MACHINE", MACHINE._replace(registers=16))
    monkeypatch.setattr(pairs_affine, "lanes_of", lambda precision: 4 if precision == "float64" else 8)
    np.testing.assert_allclose(local.pair(local), expected, rtol=1e-12)
