"""The engine's way to a GPU, with operands on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mercer.gram import _on_device, runs
from mercer.gram.engine import fill


@dataclass
class Points:
    values: Any
    order: Any = None
    tile_hint: int = 4

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return Points(self.values[key])


def distance(a, b):
    return (a.values[:, None] - b.values[None, :]).abs()


PAIRS = 10**6
ORDER = np.random.default_rng(3).permutation(37)


@pytest.mark.parametrize("to_host", [True, False])
@pytest.mark.parametrize("pairs", [PAIRS, 100])
@pytest.mark.parametrize("order", [None, ORDER])
def test_a_matrix_is_the_same_in_one_tile_and_in_bands(torch, order, pairs, to_host):
    values = np.random.default_rng(0).normal(size=37)
    x = torch.from_numpy(values)
    expected = np.abs(values[:, None] - values)
    cross = fill(distance, Points(x, order), Points(x[:20]), to_host=to_host, device_pairs=pairs)
    np.testing.assert_array_equal(np.asarray(cross), expected[:, :20])
    expected[np.diag_indices(37)] = np.arange(37.0)
    diagonal = torch.arange(37.0, dtype=torch.float64)
    found = fill(distance, Points(x, order), diagonal=diagonal, to_host=to_host, device_pairs=pairs)
    np.testing.assert_array_equal(np.asarray(found), expected)
    assert isinstance(found, np.ndarray) == to_host
    assert (runs()[-1].tiles == 1) == (pairs > 37 * 37)


def test_few_pairs_are_one_tile(torch):
    x = torch.arange(5, dtype=torch.float64)
    found = fill(distance, Points(x), to_host=True, device_pairs=PAIRS)
    assert isinstance(found, np.ndarray)
    assert runs()[-1].tiles == 1


def test_a_tile_that_is_not_symmetric_is_mirrored(torch):
    x = torch.arange(5, dtype=torch.float64)
    found = fill(lambda a, b: a.values[:, None] + 2 * b.values[None, :], Points(x), device_pairs=PAIRS)
    assert torch.equal(found, found.T)


class OutOfMemoryError(RuntimeError):
    """Has the name of torch's."""


def test_smaller_tiles_if_memory_is_short_and_one_sentence_at_last(torch, monkeypatch):
    monkeypatch.setattr(_on_device, "LEAST_PAIRS", 16)
    x, most = torch.arange(50, dtype=torch.float64), 300

    def tile(a, b):
        if len(a) * len(b) > most:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB.")
        return distance(a, b)

    assert torch.equal(fill(tile, Points(x), device_pairs=PAIRS), distance(Points(x), Points(x)))
    assert runs()[-1].tiles > 1
    most = 10
    with pytest.raises(MemoryError, match=r"50 x 50 values .* does not fit .*CUDA out of memory.*fewer models"):
        fill(tile, Points(x), device_pairs=PAIRS)


def test_other_errors_pass(torch):
    def tile(a, b):
        raise ValueError("of the data")

    with pytest.raises(ValueError, match="of the data"):
        fill(tile, Points(torch.zeros(3)), device_pairs=PAIRS)
