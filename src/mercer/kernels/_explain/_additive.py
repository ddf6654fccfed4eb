"""Exact explanations: shares of positions that sum to the decision."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.data.channels import inside
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.kernels._data import n_objects, unwrapped
from mercer.kernels._explain import _compounds, _counts, _scores, _windows  # noqa: F401  (they register kernels)
from mercer.kernels._explain._decision import Decision, Term
from mercer.kernels._explain._explanation import Explanation
from mercer.kernels._explain._pulled import through
from mercer.kernels._explain._shares import Shares, Weights, shares_of


def additive(decision: Decision, X: Any) -> Explanation:
    """Explain decisions by exact shares; raise `NotAdditive` where a kernel has none.

    Parameters
    ----------
    decision : Decision
        The decision of a fitted pipeline, with the outputs that are explained.
    X : data
        Input of the pipeline.
    """
    total, positions = None, None
    for term in decision.terms:
        found, data = _of_term(term, X)
        total = found if total is None else total.plus(found)
        positions = data if positions is None else positions
    assert total is not None
    found = total.with_bias(decision.constants(X))
    return explanation(decision, X, positions, found)


def _of_term(term: Term, X: Any) -> tuple[Shares, Any]:
    """Return the shares of one term for the positions of the input, and the input as positions."""
    inputs = term.inputs(X)
    data = unwrapped(inputs[-1])
    source = term.source(data)
    weights = Weights(term.weights, None if term.over == "features" else term.objects)
    found = shares_of(term.kernel, data, source, weights)
    if isinstance(view := _first_view(source), Sequences):
        found = through(term.steps, X, found) if term.steps else found
        first = _series(inside(unwrapped(X)), view)
        return found, first
    return found, columns_of(term, view)


class Columns(NamedTuple):
    """Rows of a matrix, whose columns are the positions, the names of the columns, and what they are."""

    rows: Any
    names: tuple[str, ...]
    kind: str = "columns"


def columns_of(term: Term, rows: Any) -> Columns:
    """Return rows with the names of their columns: leaves of the tree of the kernel, words, or plain columns."""
    leaves = _leaves_of(term.kernel)
    return Columns(rows, _column_names(term, rows)) if leaves is None else Columns(rows, leaves, "leaves")


def _leaves_of(kernel: Any) -> tuple[str, ...] | None:
    """Return the names of the leaves of the tree that a kernel is of, or None."""
    while hasattr(kernel, "_parts"):
        kernel = kernel._parts()[0]
    leaves = getattr(getattr(kernel, "model_", None), "leaves", None)
    return None if leaves is None else tuple(map(str, leaves))


def _series(X: Any, view: Sequences) -> Sequences:
    """Return the input as sequences; symbols in the alphabet of the kernel."""
    return X if isinstance(X, Sequences) else view if view.alphabet is not None else Sequences(X)


def _column_names(term: Term, rows: Any) -> tuple[str, ...]:
    """Return the names of the columns of the input of a kernel: words, or what the last transformer says."""
    width = rows.n_columns if isinstance(rows, CSRRows) else int(np.shape(rows)[1])
    names: Any = getattr(term.kernel, "feature_names_in_", None)
    if names is None and term.steps and hasattr(term.steps[-1], "get_feature_names_out"):
        names = term.steps[-1].get_feature_names_out()
    return (
        tuple(str(name) for name in names)
        if names is not None and len(names) == width
        else tuple(f"x{j}" for j in range(width))
    )


def _first_view(source: Any) -> Any:
    """Return the data whose positions have shares."""
    while hasattr(source, "parts"):
        source = source.parts[0]
    return source


def explanation(decision: Decision, X: Any, positions: Any, shares: Shares) -> Explanation:
    """Return shares as an explanation."""
    several = not decision.single
    kind, names, channels = described(positions)
    values, offsets = shares.values, shares.offsets
    if isinstance(positions, Columns) and not isinstance(positions.rows, CSRRows):
        # The channels of a row are its positions.
        found = [row if several else row[:, 0] for row in values]
    else:
        flat = values if channels is not None else values[:, 0, :]
        flat = flat if several else flat[..., 0]
        found = [flat[a:b] for a, b in pairwise(offsets.tolist())]
    near = None
    if shares.near is not None:
        part, size = np.moveaxis(shares.near, -1, 0)
        near = _shaped(part / np.where(size > 0, size, 1.0), several)
    return Explanation(
        [np.array(c) for c in found], _shaped(decision.values(X), several), _shaped(shares.bias, several), names,
        sample_names(X), decision.outputs, "additive", True, channels, decision.classes, near, 1, kind,
    )  # fmt: skip


def _shaped(values: Floats, several: bool) -> Floats:
    return np.array(values if several else values[:, 0])


def sample_names(X: Any) -> tuple[str, ...]:
    """Return the ids of samples, or their numbers."""
    X = inside(X)
    if isinstance(X, Sequences) and X.ids is not None:
        return X.ids
    labels = X.index if hasattr(X, "iloc") and hasattr(X, "index") else range(n_objects(X))
    return tuple(str(label) for label in labels)


def described(positions: Any) -> tuple[str, list[tuple[str, ...]], tuple[str, ...] | None]:
    """Return what positions are, their names in every sample, and the names of channels."""
    if isinstance(positions, Sequences) and positions.alphabet is not None:
        return "symbols", [_symbols(word) for word in positions], None
    if isinstance(positions, Sequences):
        channels = positions.channels or tuple(f"x{i}" for i in range(positions.dimension or 1))
        return "series", [tuple(map(str, range(n))) for n in positions.lengths.tolist()], channels
    rows, named, kind = positions
    if isinstance(rows, CSRRows):
        places = [rows.indices[a:b].tolist() for a, b in pairwise(rows.indptr.tolist())]
        return kind, [tuple(named[j] for j in row) for row in places], None
    return kind, [named] * n_objects(rows), None


def _symbols(word: Any) -> tuple[str, ...]:
    return tuple("?" if symbol is None else str(symbol) for symbol in word)
