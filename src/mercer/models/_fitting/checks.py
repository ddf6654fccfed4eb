"""What the estimator of HMMs refuses or warns of: one sentence, the datum, the value, the cure."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer._array import Floats
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.data.segments import datum_name, point_name, segment_sum, segments
from mercer.families.estimator import Context, Estimator
from mercer.models._fitting.climb import UNVISITED, Climbed
from mercer.models._fitting.emission_steps import leaf_of
from mercer.models._fitting.topology import allowed
from mercer.models.hmm import HMMs
from mercer.models.inference import ONE_SERIES

__all__ = [
    "check_given",
    "check_kind",
    "check_observed",
    "check_pooled_size",
    "check_range",
    "check_something",
    "check_spread",
    "check_suited",
    "impossible",
    "warn_of_one_series",
    "warn_of_short",
    "warn_of_unconverged",
    "warn_of_unvisited",
]

LARGEST = 1e150

Found = list[tuple[Climbed, Callable[[int], str]]]
"""Fits, and what their models are called."""


def check_kind(X: Sequences, emission: Estimator, context: Context | None) -> None:
    """Raise where symbols meet a model of numbers, or the reverse."""
    if X.alphabet is not None and emission.takes != "symbols":
        text = isinstance(X.alphabet.symbols[0], str)
        cure = "use mc.Categorical()" if text else "pass floats, as in X.astype(float), or use mc.Categorical()"
        raise TypeError(f"{type(leaf_of(emission)).__name__} emissions are numbers, and these are symbols: {cure}")
    if not X.is_symbols and emission.takes == "symbols":
        raise TypeError(
            f"{type(leaf_of(emission)).__name__} emissions are symbols, and these are vectors: use mc.Gaussian(), or "
            "pass strings"
        )
    if context is not None and (context.alphabet is not None) != X.is_symbols:
        kinds = ("symbols", "vectors") if X.is_symbols else ("vectors", "symbols")
        raise TypeError(f"these are {kinds[0]}, and the training data were {kinds[1]}: pass data of one kind")


def warn_of_one_series(X: Any) -> None:
    """Warn where what came looks like one series of a few channels, and would be read as many short ones."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind == "f" and len(shape) == 2 and shape[1] < 10 and shape[0] > 10 * shape[1]:
        warnings.warn(
            f"these are {shape[0]} series of {shape[1]} values: {ONE_SERIES}",
            UserWarning,
            stacklevel=2,
        )


def check_range(X: Sequences) -> None:
    """Raise where a value is so large that its square, or a sum of squares, leaves the range of floats."""
    if X.values.dtype != np.float64:  # symbols, or single precision, which ends below
        return
    large = np.flatnonzero((np.abs(X.values) > LARGEST).any(axis=1))
    if len(large):
        value = np.nanmax(np.abs(X.values[large[0]]))
        raise ValueError(f"{point_name(X, large[0])} holds {value:g}, whose square is no float: rescale the data")


def check_spread(X: Sequences) -> None:
    """Raise where a coordinate varies by so little that its square leaves the range of floats."""
    if X.is_symbols or not len(X.values):
        return
    seen = ~np.isnan(X.values)
    width = np.where(seen, X.values, -np.inf).max(axis=0) - np.where(seen, X.values, np.inf).min(axis=0)
    tiny = np.flatnonzero((width > 0) & (width < 1e4 * np.sqrt(np.finfo(X.values.dtype).tiny)))
    if len(tiny):
        raise ValueError(
            f"coordinate {tiny[0]} varies by {width[tiny[0]]:.3g} in all, whose square is no float: rescale the data"
        )


def check_something(X: Any, leaf: Estimator) -> None:
    """Raise where one model of all data would have nothing to learn from."""
    x, _ = segments(X)
    if leaf.takes == "symbols":
        if np.all(x == X.alphabet.missing):
            raise ValueError("there is nothing to learn from: every symbol is missing; give data that were observed")
        return
    entries = x.data if isinstance(x, CSRRows) else x
    if leaf.takes == "counts" and not np.any(entries):
        raise ValueError("there is nothing to learn from: nothing is counted anywhere; give data that are not empty")
    if leaf.takes == "vectors":
        unseen = np.flatnonzero(np.isnan(x).all(axis=0))
        if len(unseen):
            raise ValueError(
                f"there is nothing to learn of coordinate {unseen[0]} from, which is NaN in all data: leave it out"
            )


def check_given(name: str, given: Any, n_states: Any, topology: Any) -> None:
    """Raise where a prior or a start that was given is no HMM of the right size that the topology allows."""
    several = name == "init"
    if not isinstance(given, HMMs):
        raise TypeError(f"{name} = {given!r}: give None, or HMMs of shape (1,){' or (N,)' if several else ''}")
    if given.ndim != 1 or len(given) == 0 or not (several or len(given) == 1):
        wanted = "(1,), or (N,) for N sequences" if several else "(1,), such as p[3:4]"
        raise ValueError(f"{name} has shape {given.shape}: give HMMs of shape {wanted}")
    whole = isinstance(n_states, int | np.integer)
    odd = np.flatnonzero(given.n_states != n_states) if whole else np.arange(1)
    if len(odd):
        n = int(given.n_states[odd[0]])
        shown = "a callable" if callable(n_states) else f"n_states = {n_states!r}"
        raise ValueError(f"{name} has {n} states, and {shown}: make them equal, as in n_states={n}")
    n = int(n_states)
    first, step = allowed(topology, n)
    given = given._trimmed(n)
    found = np.argwhere((np.asarray(given.transition) > 0) & ~step)
    if len(found):
        _, i, j = found[0]
        raise ValueError(f"{name} goes from state {i} to {j}, which topology does not allow")
    if np.any(np.asarray(given.initial)[:, ~first] > 0):
        raise ValueError(f"{name} may start in other states than 0, which topology = {topology!r} does not allow")


def check_pooled_size(pooled: Any, n_states: Any, topology: Any) -> None:
    """Raise where pooled models were learned with another number of states or topology than those of now."""
    if not isinstance(pooled, HMMs):
        raise TypeError("the context was learned by another estimator than an HMM: call fit again")
    sizes = [int(n) for n in np.unique(pooled.n_states)]
    if isinstance(n_states, int | np.integer) and sizes != [int(n_states)]:
        known = ", ".join(map(str, sizes))
        raise ValueError(
            f"the context was learned with n_states={known}, and n_states = {n_states} now: call fit again"
        )
    for i, n in enumerate(pooled.n_states):
        one = pooled[i : i + 1]._trimmed(int(n))
        first, step = allowed(topology, int(n))
        if np.any(np.asarray(one.transition)[0][~step] > 0) or np.any(np.asarray(one.initial)[0][~first] > 0):
            raise ValueError(
                f"the context was learned with another topology, and topology = {topology!r} now: call fit again"
            )


def check_suited(name: str, given: HMMs, emission: Any, x: Floats, context: Context) -> None:
    """Raise where the emissions of what was given are of another kind than those that are fitted to ``x``."""
    point = np.nan_to_num(x[:1])
    leaf = clone(leaf_of(emission)).set_params(prior=None)
    like = leaf.fit_weighted(point, np.ones((len(point), 1)), np.array([0, len(point)]), context)
    found, who = given.emission, type(emission).__name__
    if leaf_of(emission) is not emission:
        weights = getattr(found, "weights", None)
        if weights is None:
            raise TypeError(f"{name} does not suit Mixture emissions: its states emit {type(found).__name__}")
        if weights.shape[-1] != emission.n_components:
            raise ValueError(
                f"{name} has {weights.shape[-1]} components a state, and n_components = {emission.n_components}: make "
                "them equal"
            )
        found = found.components
    try:
        like._check_alike(found)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} does not suit {who} emissions: {error}") from None


def check_observed(X: Sequences, offsets: Floats) -> None:
    """Raise where a coordinate is NaN throughout a datum."""
    unseen = np.argwhere(segment_sum((~np.isnan(X.values)).astype(int), offsets) == 0)
    if len(unseen):
        i, column = unseen[0]
        raise ValueError(
            f"{datum_name(X, i)} has no observation of coordinate {column}, which is NaN throughout: leave it out, or "
            "give prior='pooled'"
        )


def impossible(name: str, source: str) -> ValueError:
    """Say that a sequence has probability zero where its fit starts."""
    return ValueError(
        f"{name} has probability zero under {source}, from which nothing can be learned: give a model without zeros, "
        "or leave the sequence out"
    )


def warn_of_short(lengths: Floats, sizes: Floats, components: int, name: Callable[[int], str], cure: str) -> None:
    """Warn where a model without a prior has more states, or components of states, than observations."""
    short = np.flatnonzero(lengths < sizes * components)
    if len(short):
        i = int(short[0])
        others = f" (and {len(short) - 1} others)" if len(short) > 1 else ""
        each = f" of {components} components" if components > 1 else ""
        warnings.warn(
            f"{name(i)}{others} has {lengths[i]} observations for {sizes[i]} states{each}: {cure}",
            UserWarning,
            stacklevel=2,
        )


def warn_of_unconverged(found: Found, n_iter: int, who: str = "Baum-Welch") -> None:
    """Warn, once for all, of models that have not converged."""
    late = [(name, int(i)) for climbed, name in found for i in np.flatnonzero(~climbed.converged)]
    if late:
        named = ", ".join(name(i) for name, i in late[:5]) + (f" and {len(late) - 5} others" if len(late) > 5 else "")
        warnings.warn(
            f"{who} stopped after n_iter = {n_iter} iterations, before {named} converged: raise n_iter or tol",
            ConvergenceWarning,
            stacklevel=2,
        )


def warn_of_unvisited(found: Found, cure: str) -> None:
    """Warn, once for all, of states that nobody visits."""
    empty = [
        (name(i), int(np.argmax(row)))
        for climbed, name in found
        for i, row in enumerate(climbed.visits < UNVISITED)
        if row.any()
    ]
    if empty:
        others = f" (and {len(empty) - 1} other models)" if len(empty) > 1 else ""
        warnings.warn(
            f"state {empty[0][1]} of {empty[0][0]}{others} is visited by nobody, and stays where it started: {cure}",
            UserWarning,
            stacklevel=2,
        )
