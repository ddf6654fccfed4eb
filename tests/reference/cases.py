"""All cases, how they are stored and how they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.reference import (
    chain_cases,  # noqa: F401
    dynamics_cases,  # noqa: F401
    fit_cases,  # noqa: F401
    forward_cases,  # noqa: F401
    pair_cases,  # noqa: F401
    profile_cases,  # noqa: F401
    set_cases,  # noqa: F401
)
from tests.reference.registry import CASES, Values

__all__ = ["CASES", "compare", "stored"]


def stored(name: str, values: Values) -> dict[str, np.ndarray]:
    """Return arrays under the names that they have in the file."""
    return {f"{name}/{part}": np.asarray(value) for part, value in values.items()}


def compare(name: str, values: Values, reference: Mapping[str, Any]) -> None:
    """Compare the values of a case with the stored ones, exactly where they are integers or not finite.

    Logarithms may differ by the tolerance, absolutely or relatively; other numbers, some of which are differences of
    larger ones, by the tolerance times the largest number of their array.
    """
    tolerance = CASES[name].tolerance
    found = stored(name, values)
    expected = {key: value for key, value in reference.items() if key.partition("/")[0] == name}
    assert sorted(found) == sorted(expected), "the parts of this case have changed: run python -m tests.reference.make"
    for key, value in found.items():
        finite = np.abs(expected[key][np.isfinite(expected[key])])
        scale = 1.0 if key.partition("/")[2].startswith("log") else finite.max(initial=0.0)
        exact = value.dtype.kind != "f"
        np.testing.assert_allclose(
            value, expected[key], rtol=0 if exact else tolerance, atol=0 if exact else tolerance * scale, err_msg=key
        )
