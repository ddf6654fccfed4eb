"""Confounds of the command line: columns of numbers, and text, which becomes a column of 0 and 1 for each category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.data.text import Records

Categories = dict[str, list[str]]
"""Categories of the training data, by the column."""


def categories_of(records: Records) -> Categories:
    """Return the categories of all columns of text."""
    columns = records.covariates.items()
    return {name: np.unique(column).tolist() for name, column in columns if column.dtype.kind != "f"}


def table_of(records: Records, names: Sequence[str]) -> Any:
    """Return confounds as they are, one row per sample, for a test; None without confounds."""
    columns = [records.covariates[name].astype(object) for name in names]
    return np.column_stack(columns) if columns else None


def numbers_of(records: Records, names: Sequence[str], categories: Categories) -> Any:
    """Return confounds as numbers, one row per sample, for a kernel; None without confounds."""
    columns: list[Any] = []
    for name in names:
        column = records.covariates[name]
        if name not in categories and column.dtype.kind == "f":
            columns.append(column)
            continue
        known = categories.get(name, [])
        for i in np.flatnonzero(~np.isin(column.astype(str), known)):
            sample = records.ids[i] if records.ids else i
            what = f"categories {', '.join(map(repr, known))}" if known else "numbers"
            raise ValueError(
                f"sample {sample!r} has the confound {str(column[i])!r} in the column {name!r}, which had the {what} "
                "in the training data; leave it out."
            )
        columns += [column.astype(str) == category for category in known]
    return np.column_stack(columns).astype(float) if columns else None


def code_of(names: Sequence[str], categories: Categories) -> str:
    """Return code that makes the same numbers from ``read``, for a user of Python."""
    columns = []
    for name in names:
        column = f"read.covariates[{name!r}]"
        known = categories.get(name)
        columns.append(f"*({column} == category for category in {known!r})" if known else column)
    return f"mc.Confounded(read.X, list(zip({', '.join(columns)})))"
