"""Aligned rows from the best paths of sequences through a profile."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.data import Sequences
from mercer.models._profile.inference import best_paths


def aligned_rows(models: Any, X: Sequences) -> list[str]:
    """Return one row of equal length per sequence, in the format A2M."""
    if not models.alphabet.is_characters:
        raise TypeError("align needs an alphabet of letters. Use viterbi, which returns the states.")
    mode = models.mode if models.mode.startswith("uni") else f"uni{models.mode}"
    paths, _ = best_paths(models.configure(mode=mode), 0, X)
    m = int(models.n_nodes[0])
    columns, inserted = [], np.zeros(m + 1, dtype=int)
    for path, text in zip(paths, X, strict=True):
        letters, runs = ["-"] * m, [""] * (m + 1)
        for state, letter in zip(path.tolist(), str(text), strict=True):
            if state > 0:
                letters[state - 1] = letter.upper()
            elif state < 0:
                runs[-state] += letter.lower()
        columns.append((letters, runs))
        inserted = np.maximum(inserted, [len(run) for run in runs])
    rows = []
    for letters, runs in columns:
        padded = [run.ljust(size, ".") for run, size in zip(runs, inserted.tolist(), strict=True)]
        rows.append(padded[0] + "".join(a + b for a, b in zip(letters, padded[1:], strict=True)))
    return rows
