"""Random numbers do not crash the native library; `python -m tests.native.fuzz 10000` makes more calls."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native import fuzz

from mercer import _native


@pytest.fixture(scope="module")
def calls():
    return fuzz.recorded(1, [], draws=3)


@pytest.mark.slow
def test_calls_of_many_functions_are_recorded_and_repeated(calls):
    assert {"chains", "forward", "affine_pairs", "gaussian_rows"} <= set(calls)
    made = fuzz.run(100, calls)
    assert sum(made.values()) == 100
    assert set(made) == set(calls)


@pytest.mark.slow
def test_numbers_are_changed_but_no_index_and_no_result(calls):
    arguments, rng = calls["chains"][0], np.random.default_rng(0)
    different = set()
    for _ in range(30):
        found = fuzz.changed(rng, "chains", arguments)
        same = {
            key for key, value in found.items() if np.asarray(value).tolist() == np.asarray(arguments[key]).tolist()
        }
        different |= set(found) - same
    fields = {field.name: field for field in _native.signatures()["chains"]}
    assert "left.transition" in different
    assert not any(fields[name].written or fields[name].code == "q" for name in different)
    assert "lengths" not in different
