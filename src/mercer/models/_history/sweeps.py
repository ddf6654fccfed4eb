"""Tiles of shared histories by compiled loops: what goes into vector lanes, what comes out, and whether it is sound."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, safe_log
from mercer.compiled.lanes import LANES, aligned
from mercer.models._history.forest import Range
from mercer.models._history.lanes import FOUND, SMALLEST, block_sweep, tile_sweep
from mercer.models._history.planes import History

__all__ = ["Model", "lane_sums", "log_lane_sums", "packed", "raised"]


def raised(values: Floats, logs: Floats) -> Floats:
    """Raise evidence that is possible, so that zero means impossible; what was raised will be found lost."""
    return np.where(logs > -np.inf, np.maximum(values, SMALLEST), 0.0)


def packed(values: Floats) -> Floats:
    """Bring (N, V, S) into groups of eight data, (groups, V, S, 8); the last datum fills up."""
    groups = -(-values.shape[0] // LANES)
    out = aligned((groups, *values.shape[1:], LANES))
    index = np.minimum(np.arange(groups * LANES), values.shape[0] - 1).reshape(groups, LANES)
    for lane in range(LANES):
        out[..., lane] = values[index[:, lane]]
    return out


class Model(NamedTuple):
    """A hidden tree as the compiled loops want it: nodes in the order of the forest, contiguous arrays."""

    children: Floats
    """``(V,)`` int."""
    roots: Floats
    """``(V,)`` int, 1 for a root."""
    waits: Floats
    """``(V,)`` int, 1 where the message of another branch goes to the stack."""
    depth: int
    step: Floats
    """Transitions of every node, ``(V, S, S)``, or of all of them, ``(1, S, S)``."""
    root: Floats
    """``(S,)``."""
    range: Range

    @classmethod
    def of(cls, history: History) -> Model:
        """Put the nodes in order."""
        forest, step = history.forest, np.asarray(history.transition)
        children, roots, waits = (x.astype(np.int64) for x in (forest.children, forest.roots, forest.waits))
        step = step[None] if step.ndim == 2 else step[forest.order]
        return cls(children, roots, waits, forest.depth, _owned(step), _owned(history.root), history.range)


def lane_sums(model: Model, left: Floats, right: Floats, columns: int, *, own: bool) -> tuple[Floats, Floats]:
    """Sum over all histories: logarithms, and whether they are sound.

    Parameters
    ----------
    model : Model
        The hidden tree.
    left : ndarray of shape (I, V, S)
        Evidence, nodes in the order of the forest.
    right : ndarray of shape (groups, V, S, 8)
        The same of the other side, packed.
    columns : int
        Data of the right side, J.
    own : bool
        Whether every datum meets itself alone: then both sides hold the same data.

    Returns
    -------
    values, sound : ndarrays of shape (I, J), or (J,) of data with themselves
        Relative to the evidence's own scales; an unsound value means nothing.
    """
    states = len(model.root)
    rows = LANES if own else left.shape[0]
    side = max(1, min(4, 8 // states))  # rows at once, as many as the registers hold
    record = np.ones((FOUND - 1, rows, right.shape[0] * LANES))  # without logarithms nothing is added
    sweep = tile_sweep(states, side, not model.range.plain)
    sweep(*_arguments(model, left, right), own, left.shape[0], *_scratch(model, side), record)
    values, sound = _finished(model, record[..., :columns])
    if own:
        place = np.arange(columns)
        return values[place % LANES, place], sound[place % LANES, place]
    return values, sound


def log_lane_sums(model: Model, left: Floats, right: Floats, rows: Floats, groups: Floats) -> tuple[Floats, Floats]:
    """Sum over all histories of some rows, each with a group of eight: logarithms, and whether they are sound.

    Evidence comes as logarithms, and the evidence of both sides together is scaled at every node. So two data that
    disagree about a state by more than a number can hold are in range; only what is watched can be lost.

    Parameters
    ----------
    model : Model
        The hidden tree.
    left, right : ndarray of shape (I, V, S) and (groups, V, S, 8)
        Logarithms of the evidence.
    rows, groups : ndarray of int of shape (K,)
        What meets.

    Returns
    -------
    values, sound : ndarrays of shape (K, 8)
    """
    record = np.empty((FOUND, len(rows), LANES))
    sweep = block_sweep(len(model.root), not model.range.plain)
    rows, groups = (np.require(x, np.int64, ["C", "W"]) for x in (rows, groups))
    sweep(*_arguments(model, left, right), rows, groups, *_scratch(model, 1), record)
    return _finished(model, record)


def _arguments(model: Model, left: Floats, right: Floats) -> tuple[Any, ...]:
    states = len(model.root)
    step = _owned(np.swapaxes(model.step, 1, 2)).reshape(-1)
    evidence = _owned(left).reshape(-1), _owned(right).reshape(-1)
    stride = states * states if len(model.step) > 1 else 0
    return model.children, model.roots, model.waits, *evidence, step, stride, model.root, model.range.floor


def _scratch(model: Model, side: int) -> tuple[Floats, Floats, Floats]:
    """Allocate the stack, the places of the rows, and what is found."""
    width = side * LANES
    stack = aligned(((model.depth + 1) * len(model.root) * width,))
    return stack, np.empty(side, dtype=np.int64), aligned((FOUND * width,))


def _finished(model: Model, record: Floats) -> tuple[Floats, Floats]:
    """Take logarithms, and judge."""
    limits = model.range
    product, exponent, low = record[:3]
    steps = len(model.children) + int(model.roots.sum())
    values = np.asarray(safe_log(product)) + (exponent - 1023.0 * steps) * math.log(2.0)
    values = values + record[3] if len(record) > 3 else values
    return values, low >= (limits.least if limits.plain else limits.floor)


def _owned(x: Floats) -> Floats:
    """Make an array contiguous and writable: Numba would compile anew for one that is not."""
    return np.require(x, np.float64, ["C", "W"])
