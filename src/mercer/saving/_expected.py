"""What a fitted pipeline expects as input, in words that a reader of new data can use."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.data import Sequences

STEPS = 200
"""Number of objects that are looked at."""


def expected_input(pipeline: Any) -> dict[str, Any]:
    """Return a description of the input, as plain values."""
    found: dict[str, Any] = {"kind": "table" if hasattr(pipeline, "n_features_in_") else "unknown"}
    sequences = _first_sequences(pipeline)
    if sequences is not None:
        found["kind"] = "symbols" if sequences.is_symbols else "vectors"
        if sequences.alphabet is not None:
            found["alphabet"] = sequences.alphabet.to_header()
        else:
            found["dimension"] = sequences.dimension
            if sequences.channels is not None:
                found["channels"] = list(sequences.channels)
    width = getattr(pipeline, "n_features_in_", None)
    if isinstance(width, int | np.integer):
        found["n_features"] = int(width)
    for name, attribute in (("feature_names", "feature_names_in_"), ("classes", "classes_")):
        values = getattr(pipeline, attribute, None)
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.size <= 10_000:
            found[name] = [v if isinstance(v, str | int | float | bool) else str(v) for v in values.tolist()]
    return found


def _first_sequences(pipeline: Any) -> Sequences | None:
    """Return the first sequences that the fitted parts of a pipeline keep, breadth first."""
    waiting, seen = [pipeline], set()
    for _ in range(STEPS):
        if not waiting:
            break
        part = waiting.pop(0)
        if isinstance(part, Sequences):
            return part
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list | tuple) and len(part) <= 20:
            waiting.extend(part)
        elif hasattr(part, "get_params") or hasattr(part, "parts"):
            waiting.extend(value for name, value in vars(part).items() if name != "estimator")
    return None
