"""What the estimator of HMMs refuses or warns of: one sentence, the datum, the value, the cure."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer._array import Floats
from mercer.data import Sequences
from mercer.families._estimator import Context, Estimator
from mercer.families._segments import datum_name, point_name, segment_sum
from mercer.models._fitting.baum_welch import UNVISITED, Climbed
from mercer.models._fitting.emission_steps import leaf_of
from mercer.models._fitting.topology import allowed
from mercer.models.hmm import HMMs
from mercer.models.mixture import Mixture

__all__ = [
    "check_given",
    "check_kind",
    "check_observed",
    "check_range",
    "check_suited",
    "check_whole",
    "impossible",
    "warn_of_short",
    "warn_of_unconverged",
    "warn_of_unvisited",
]

LARGEST = 1e150


def check_whole(name: str, value: Any) -> None:
    """Raise unless ``value`` is a whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} = {value!r}: give a whole number, 1 or more")


def check_kind(X: Sequences, emission: Estimator, context: Context | None) -> None:
    """Raise where symbols meet a model of numbers, or the reverse."""
    if X.is_symbols and emission.takes != "symbols":
        raise TypeError(
            f"{type(leaf_of(emission)).__name__} emissions are numbers, and these are symbols: pass floats, as in "
            "X.astype(float), or use mc.Categorical()"
        )
    if not X.is_symbols and emission.takes == "symbols":
        raise TypeError(
            f"{type(leaf_of(emission)).__name__} emissions are symbols, and these are vectors: use mc.Gaussian(), or "
            "pass strings"
        )
    if context is not None and (context.alphabet is not None) != X.is_symbols:
        kinds = ("symbols", "vectors") if X.is_symbols else ("vectors", "symbols")
        raise TypeError(f"these are {kinds[0]}, and the training data were {kinds[1]}: pass data of one kind")


def check_range(X: Sequences) -> None:
    """Raise where a value is so large that its square, or a sum of squares, leaves the range of floats."""
    if X.values.dtype != np.float64:  # symbols, or single precision, which ends below
        return
    large = np.flatnonzero((np.abs(X.values) > LARGEST).any(axis=1))
    if len(large):
        value = np.nanmax(np.abs(X.values[large[0]]))
        raise ValueError(f"{point_name(X, large[0])} holds {value:g}, whose square is no float: rescale the data")


def check_given(name: str, given: Any, n_states: Any, topology: Any) -> None:
    """Raise where a prior or a start that was given is no HMM of the right size that the topology allows."""
    if not isinstance(given, HMMs):
        raise TypeError(f"{name} = {given!r}: give None, or HMMs of shape (1,)")
    if given.shape != (1,):
        raise ValueError(f"{name} has shape {given.shape}: give HMMs of shape (1,), such as p[3:4]")
    n = int(given.n_states[0])
    if not isinstance(n_states, int | np.integer) or n != n_states:
        raise ValueError(f"{name} has {n} states, and n_states = {n_states!r}: make them equal")
    first, step = allowed(topology, n)
    given = given.trimmed(n)
    found = np.argwhere((np.asarray(given.transition)[0] > 0) & ~step)
    if len(found):
        raise ValueError(f"{name} goes from state {found[0][0]} to {found[0][1]}, which topology does not allow")
    if np.any(np.asarray(given.initial)[0][~first] > 0):
        raise ValueError(f"{name} may start in other states than 0, which topology = {topology!r} does not allow")


def check_suited(name: str, given: HMMs, emission: Estimator, x: Floats, context: Context) -> None:
    """Raise where the emissions of what was given are of another kind than those that are fitted to ``x``."""
    point = np.nan_to_num(x[:1])
    leaf = clone(leaf_of(emission)).set_params(prior=None)
    like = leaf.fit_weighted(point, np.ones((len(point), 1)), np.array([0, len(point)]), context)
    found, who = given.emission, type(emission).__name__
    if isinstance(emission, Mixture):
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


def warn_of_short(lengths: Floats, sizes: Floats, names: list[str]) -> None:
    """Warn where a model without a prior has more states than observations."""
    short = np.flatnonzero(lengths < sizes)
    if len(short):
        i = int(short[0])
        others = f" (and {len(short) - 1} others)" if len(short) > 1 else ""
        warnings.warn(
            f"{names[i]}{others} has {lengths[i]} observations for {sizes[i]} states: give prior='pooled', or fewer "
            "states",
            UserWarning,
            stacklevel=2,
        )


def warn_of_unconverged(found: list[tuple[Climbed, list[str]]], n_iter: int) -> None:
    """Warn, once for all, of models that have not converged."""
    late = [names[i] for climbed, names in found for i in np.flatnonzero(~climbed.converged)]
    if late:
        named = ", ".join(late[:5]) + (f" and {len(late) - 5} others" if len(late) > 5 else "")
        warnings.warn(
            f"Baum-Welch stopped after n_iter = {n_iter} iterations, before {named} converged: raise n_iter or tol",
            ConvergenceWarning,
            stacklevel=2,
        )


def warn_of_unvisited(found: list[tuple[Climbed, list[str]]]) -> None:
    """Warn, once for all, of states that nobody visits."""
    empty = [
        (names[i], int(np.argmax(row)))
        for climbed, names in found
        for i, row in enumerate(climbed.visits < UNVISITED)
        if row.any()
    ]
    if empty:
        others = f" (and {len(empty) - 1} other models)" if len(empty) > 1 else ""
        warnings.warn(
            f"state {empty[0][1]} of {empty[0][0]}{others} is visited by nobody, and stays where it started: use fewer "
            "states, or prior='pooled'",
            UserWarning,
            stacklevel=2,
        )
