"""Checks and warnings of the HMM and mixture estimators; messages state the sequence, the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Mask, as_array
from mercer._notices import About, Finding, repeat
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.data.segments import point_name, segments
from mercer.families.estimator import Context, Estimator
from mercer.models._fitting.em import UNVISITED, Found
from mercer.models._fitting.emission_steps import leaf_of
from mercer.models.hmm import HMMs

LARGEST = 1e150


def check_kind(X: Sequences, emission: Estimator, context: Context | None) -> None:
    """Raise if the sequences are symbols and the emissions are numbers, or the reverse."""
    if emission.takes == "symbols":
        X.require("symbols", leaf_of(emission), "Use mc.Gaussian(), or pass strings.")
    else:
        X.require("vectors", leaf_of(emission), "Use mc.Categorical().")
    if context is not None:
        X.require("vectors" if context.alphabet is None else "symbols", "The fitted model")


def check_range(X: Sequences) -> None:
    """Raise if a value is so large that its square, or a sum of squares, overflows."""
    if X.values.dtype != np.float64:  # symbols, or float32, whose largest value is below
        return
    large = np.flatnonzero((np.abs(X.values) > LARGEST).any(axis=1))
    if len(large):
        value = np.nanmax(np.abs(X.values[large[0]]))
        raise ValueError(
            f"{point_name(X, large[0])} contains {value:g}; its square overflows float64. Rescale the data."
        )


def check_spread(X: Sequences) -> None:
    """Raise if the range of a coordinate is so small that its square underflows."""
    if X.is_symbols or not len(X.values):
        return
    seen = ~np.isnan(X.values)
    width = np.where(seen, X.values, -np.inf).max(axis=0) - np.where(seen, X.values, np.inf).min(axis=0)
    tiny = np.flatnonzero((width > 0) & (width < 1e4 * np.sqrt(np.finfo(X.values.dtype).tiny)))
    if len(tiny):
        raise ValueError(
            f"The values of coordinate {tiny[0]} have a range of {width[tiny[0]]:.3g}; its square underflows. Rescale "
            "the data."
        )


def check_something(X: Any, leaf: Estimator) -> None:
    """Raise if a single model of all samples would have nothing to learn from."""
    x, _ = segments(X)
    if leaf.takes == "symbols":
        if np.all(x == X.alphabet.missing):
            raise ValueError("There is nothing to learn from: all symbols are missing. Pass observed symbols.")
        return
    entries = x.data if isinstance(x, CSRRows) else x
    if leaf.takes == "counts" and not np.any(entries):
        raise ValueError("There is nothing to learn from: all counts are zero. Pass at least one positive count.")
    if leaf.takes == "vectors":
        unseen = np.flatnonzero(np.isnan(x).all(axis=0))
        if len(unseen):
            raise ValueError(
                f"There is nothing to learn about coordinate {unseen[0]}: it is NaN in all samples. Leave it out."
            )


def check_given(name: str, given: Any, n_states: Any, topology: Any) -> None:
    """Raise if a given prior or start is not an HMM of the right size, or violates the topology."""
    several = name == "init"
    if not isinstance(given, HMMs):
        raise TypeError(f"{name} must be None or HMMs of shape (1,){' or (N,)' if several else ''}; got {given!r}.")
    if given.ndim != 1 or len(given) == 0 or not (several or len(given) == 1):
        wanted = "(1,), or (N,) for N sequences" if several else "(1,), such as p[3:4]"
        raise ValueError(f"{name} must be HMMs of shape {wanted}; got shape {given.shape}.")
    whole = isinstance(n_states, int | np.integer)
    odd = np.flatnonzero(given.n_states != n_states) if whole else np.arange(1)
    if len(odd):
        n = int(given.n_states[odd[0]])
        shown = "a callable" if callable(n_states) else repr(n_states)
        raise ValueError(f"{name} has {n} states, but n_states is {shown}. Make them equal, as in n_states={n}.")
    n = int(n_states)
    first, step = allowed(topology, n)
    given = given._trimmed(n)
    found = np.argwhere((np.asarray(given.transition) > 0) & ~step)
    if len(found):
        _, i, j = found[0]
        raise ValueError(f"{name} has a transition from state {i} to {j}, which the topology does not allow.")
    if np.any(np.asarray(given.initial)[:, ~first] > 0):
        raise ValueError(f"{name} must start in state 0 with topology={topology!r}; got other initial states.")


def check_pooled_size(pooled: Any, n_states: Any, topology: Any) -> None:
    """Raise if the pooled models were learned with another number of states or another topology."""
    if not isinstance(pooled, HMMs):
        raise TypeError(f"The context must be learned by an HMM; got pooled {type(pooled).__name__}. Call fit again.")
    sizes = [int(n) for n in np.unique(pooled.n_states)]
    if isinstance(n_states, int | np.integer) and sizes != [int(n_states)]:
        known = ", ".join(map(str, sizes))
        raise ValueError(
            f"The context was learned with n_states={known}, but n_states is now {n_states}. Call fit again."
        )
    for i, n in enumerate(pooled.n_states):
        one = pooled[i : i + 1]._trimmed(int(n))
        first, step = allowed(topology, int(n))
        if np.any(np.asarray(one.transition)[0][~step] > 0) or np.any(np.asarray(one.initial)[0][~first] > 0):
            raise ValueError(
                f"The context was learned with another topology than topology={topology!r}. Call fit again."
            )


def check_suited(name: str, found: Any, emission: Any, x: Floats, context: Context) -> None:
    """Raise if the emissions of a given prior or start differ in kind from those fitted to ``x``."""
    point = np.nan_to_num(x[:1])
    leaf = clone(leaf_of(emission)).set_params(prior=None)
    like = leaf.fit_weighted(point, np.ones((len(point), 1)), np.array([0, len(point)]), context)
    who = type(emission).__name__
    if leaf_of(emission) is not emission:
        weights = getattr(found, "weights", None)
        if weights is None:
            raise TypeError(f"{name} does not suit Mixture emissions: its emissions are {type(found).__name__}.")
        if weights.shape[-1] != emission.n_components:
            raise ValueError(
                f"{name} has {weights.shape[-1]} components per state, but n_components is {emission.n_components}. "
                "Make them equal."
            )
        found = found.components
    try:
        like._check_alike(found)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} does not suit {who} emissions: {error}") from None


def impossible(name: str, source: str) -> ValueError:
    """Return the error of a sequence that has probability zero under the model that its fit starts from."""
    return ValueError(
        f"{name} has probability zero under {source}, so EM cannot start. Use a model without zeros, or leave the "
        "sequence out."
    )


def warn_of_short(lengths: Floats, sizes: Floats, components: int, name: Callable[[int], str], cure: str) -> None:
    """Warn if a model without a prior has more states, or components of states, than observations."""
    each = f" of {components} components" if components > 1 else ""
    repeat(
        About(
            Finding(f"short; {cure}", f"{{first}} has {lengths[i]} observations for {sizes[i]} states{each}; {cure}."),
            name(int(i)),
        )
        for i in np.flatnonzero(lengths < sizes * components)
    )


def warn_of_unvisited(found: Found, cure: str) -> None:
    """Warn, once for all models, of states that no sequence visits."""
    repeat(
        About(
            Finding(
                f"unvisited; {cure}",
                f"State {np.argmax(row)} of {{first}} is never visited and keeps its starting values; {cure}.",
            ),
            name(i),
        )
        for fit, name in found
        for i, row in enumerate(fit.visits < UNVISITED)
        if row.any()
    )


# Topologies (allowed transitions) of HMMs, and a heuristic for the number of states.

LEFT_RIGHT_STEP = 2
"""Largest step of "left-right": the fit of unbounded steps is worse on series, since starts skip most states."""
NAMES = ("ergodic", "left-right", "banded")


def check_topology(topology: Any) -> None:
    """Raise if ``topology`` is not a name, a pair of a name and a width, or a boolean mask."""
    name, width = topology if isinstance(topology, tuple) and len(topology) == 2 else (topology, 1)
    named = isinstance(name, str) and name in NAMES and not (name == "ergodic" and isinstance(topology, tuple))
    whole = isinstance(width, int | np.integer) and not isinstance(width, bool) and width >= 1
    if named and (whole or (name == "left-right" and width is None)):
        return
    if topology is None or isinstance(topology, str | tuple):
        raise ValueError(
            f"topology must be 'ergodic', 'left-right', 'banded', a pair such as ('left-right', 1) with the largest "
            f"step (None for any step), or a boolean mask of shape (n, n); got {topology!r}."
        )
    mask = as_array(topology, "topology", "a boolean mask of shape (n, n)")
    if mask.dtype != bool or mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        raise ValueError(
            f"topology must be a boolean mask of shape (n, n), True where a transition is allowed; got an array of "
            f"dtype {mask.dtype} and shape {mask.shape}."
        )
    stuck = np.flatnonzero(~mask.any(axis=1))
    if len(stuck):
        raise ValueError(
            f"topology allows no transition from state {stuck[0]}. Allow at least one, such as that to itself."
        )


def allowed(topology: Any, n: int) -> tuple[Mask, Mask]:
    """Return the allowed initial states ``(n,)`` and transitions ``(n, n)``.

    - "ergodic": all.
    - "left-right": from i to i <= j <= i + 2, starting in state 0; ("left-right", w): to i <= j <= i + w;
      ("left-right", None): to j >= i.
    - "banded": |i - j| <= 1; ("banded", w): |i - j| <= w. A path may start in any state.
    - a mask: the transitions of the mask. A path may start in any state.
    """
    name, width = topology if isinstance(topology, tuple) else (topology, LEFT_RIGHT_STEP)
    anywhere = np.ones(n, dtype=bool)
    step = np.arange(n) - np.arange(n)[:, None]
    if isinstance(name, str) and name == "left-right":
        return np.arange(n) == 0, (step >= 0) & (step <= (n if width is None else width))
    if isinstance(name, str) and name == "banded":
        return anywhere, np.abs(step) <= (width if isinstance(topology, tuple) else 1)
    if isinstance(name, str):
        return anywhere, np.ones((n, n), dtype=bool)
    mask = np.asarray(topology)
    if mask.shape != (n, n):
        raise ValueError(f"topology must be a mask of shape {(n, n)} for {n} states; got shape {mask.shape}.")
    return anywhere, mask.copy()


def jebara_states(length: int, symbols: int, ratio: float = 0.1) -> int:
    """Return the number of states, at least 2, for about ``ratio * length`` free parameters (PPK-7).

    Examples
    --------
    >>> [jebara_states(length, 4) for length in (100, 1000, 10_000)]
    [3, 9, 30]
    """
    root = np.sqrt(symbols**2 + 4 * (length * ratio + symbols + 1))
    return max(2, int(np.floor(root / 2 - symbols / 2)) + 1)
