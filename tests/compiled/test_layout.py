"""Layouts of the compiled loops: members in SIMD lanes, ragged sets in whole blocks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_members_in_lanes(lanes, count):
    from mercer.compiled.layout import to_lanes

    x = np.arange(count * 6.0).reshape(count, 2, 3)
    out = to_lanes(x, (2, 1), lanes)
    assert out.shape == (-(-count // lanes), 3, 2, lanes)
    assert out.flags.c_contiguous
    for k in range(len(out) * lanes):
        assert_array_equal(out[k // lanes, ..., k % lanes], x[min(k, count - 1)].T)  # the last one fills up
    assert to_lanes(x.astype(np.float32), (1, 2), lanes).dtype == np.float32


def test_sets_in_blocks():
    from mercer.compiled.layout import blocks

    x = np.arange(14.0).reshape(7, 2)
    out, starts = blocks(x, np.array([0, 3, 3, 7]), 2, -1.0)
    assert_array_equal(starts, [0, 2, 2, 4])
    assert_array_equal(out[:2].reshape(-1, 2), [*x[:3], [-1, -1]])
    assert_array_equal(out[2:].reshape(-1, 2), x[3:])
    assert blocks(np.empty((0, 2)), np.array([0]), 4, 0.0)[0].shape == (0, 4, 2)
    assert blocks(np.empty((5, 0)), np.array([0, 5]), 4, 0.0)[0].shape == (2, 4, 0)
