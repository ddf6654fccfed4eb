"""Selection of the pairs of sequences that a pair HMM is fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, as_array
from mercer._checks import kind_of_target
from mercer._probability import drawn
from mercer.data import Alphabet, Sequences
from mercer.data.segments import digest_order
from mercer.models._pairs.elimination import expected_visits
from mercer.models._pairs.general import Parameters


def classes_of(X: Sequences, y: Any) -> Floats:
    """Return one label per sequence, none missing; integers and strings are unpacked from arrays of objects."""
    label = as_array(y, "y", "one class per sequence")
    if label.shape != (len(X),):
        raise ValueError(f"y must have one class per sequence; got shape {label.shape} for {len(X)} sequences.")
    values = label.tolist()
    for i, value in enumerate(values):
        if _is_missing(value):
            raise ValueError(
                f"{X.name(i)} has no class: y[{i}] is {value}. Add one, leave the sequence out, or omit y."
            )
    if label.dtype == object:
        label = np.array(values)
        if label.dtype == object or label.ndim != 1 or len({isinstance(value, str) for value in values}) > 1:
            raise ValueError("y mixes labels of different types. Use whole numbers or strings for all classes.")
    return label


def _is_missing(value: Any) -> bool:
    """Whether a label is None, NaN, or pandas.NA, which has no truth value."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def drawn_pairs(X: Sequences, y: Any, n_pairs: int, seed: int, otherwise: str) -> tuple[Floats, Floats]:
    """List pairs of different sequences of one class, at most ``n_pairs``, drawn without replacement.

    They do not depend on the order of the samples: members of a class are sorted by content. ``otherwise`` is the
    remedy in the error if there are no pairs.
    """
    order = digest_order(X)
    groups = [order]
    if y is not None:
        label = classes_of(X, y)
        if kind_of_target(label) not in ("continuous", "unknown"):  # regression targets are not classes
            _, member = np.unique(label, return_inverse=True)
            groups = [order[member[order] == g] for g in range(member.max() + 1)]
    sizes = np.array([len(group) for group in groups])
    ends = np.cumsum(sizes * (sizes - 1) // 2)
    total = int(ends[-1]) if len(ends) else 0
    if total == 0:
        what = "there is only one" if len(groups) == 1 else "no class has two"
        raise ValueError(
            f"EM of a pair HMM learns from pairs of sequences that share a class, and {what}. Pass more sequences, "
            f"{'omit y, ' if y is not None else ''}or {otherwise}."
        )
    chosen = np.arange(total)
    if total > n_pairs:
        chosen = np.sort(np.random.default_rng(seed).choice(total, size=n_pairs, replace=False, shuffle=False))
    group = np.searchsorted(ends, chosen, side="right")
    number = chosen - np.where(group > 0, ends[group - 1], 0)
    # Pair number r of a group is (i, j) with j < i and r = i (i - 1) / 2 + j.
    i = ((1 + np.sqrt(1.0 + 8.0 * number)) / 2).astype(np.int64)
    i -= i * (i - 1) // 2 > number
    i += (i + 1) * i // 2 <= number
    j = number - i * (i - 1) // 2
    first, second = np.empty(len(chosen), dtype=np.int64), np.empty(len(chosen), dtype=np.int64)
    for g, members in enumerate(groups):
        own = group == g
        first[own], second[own] = members[i[own]], members[j[own]]
    return first, second


# Random trajectories of a pair HMM, and the strings that they emit (MK-5).

MOST_VISITS = 2e8
"""Largest expected number of visits, which may emit a gigabyte of symbols. More is probably a mistake."""


def draw_strings(
    model: Parameters, alphabet: Alphabet, size: int, copies: int, rng: np.random.Generator
) -> tuple[Sequences, ...]:
    """Draw ``size`` trajectories, and ``copies`` independent strings from each of them."""
    n, k = len(model.silent), len(alphabet)
    mean = float(expected_visits(model.initial, model.transition).sum())
    if not mean * size * copies <= MOST_VISITS:
        raise ValueError(
            f"Strings of the model take {mean:.3g} visits on average, and {size * copies} of them more than "
            f"{MOST_VISITS:.0e}. Draw fewer, or use a larger stop (its smallest is {model.transition[:, n].min():.3g})."
        )
    begin, step = np.cumsum(model.initial), np.cumsum(model.transition, axis=1)
    letters = np.cumsum(model.letters[:, :k], axis=1)
    state = drawn(np.broadcast_to(begin, (size, n + 1)), rng.random(size))
    parts: list[list[Any]] = [[np.empty((2, 0), dtype=np.int64)] for _ in range(copies)]
    while (on := np.flatnonzero(state < n)).size:  # one visit of all trajectories at a time
        for part in parts:
            loud = on[rng.random(len(on)) >= model.silent[state[on]]]
            part.append(np.stack([loud, drawn(letters[state[loud]], rng.random(len(loud)))]))
        state[on] = drawn(step[state[on]], rng.random(len(on)))
    return tuple(_strings(np.concatenate(part, axis=1), size, alphabet) for part in parts)


def _strings(symbols: Floats, size: int, alphabet: Alphabet) -> Sequences:
    """Group symbols ``(2, T)``, rows are trajectories and codes, by string, in the order of emission."""
    owner, codes = symbols
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])
    return Sequences._make(codes[order].astype(np.int32), offsets, alphabet, None)
