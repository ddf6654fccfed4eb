"""Counts of a profile from an alignment: match columns, weights of sequences, paths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer.data import Alphabet, Sequences
from mercer.data.alignment import ungapped_codes


class Counts(NamedTuple):
    """Weighted counts of one profile."""

    match: Floats
    """Letters of every match state, ``(M, k)``."""
    insert: Floats
    """Letters of every insert state, ``(M + 1, k)``."""
    transitions: Floats
    """``(M + 1, 7)``, in HMMER's order."""
    columns: Indices
    """Column of the alignment of every node, ``(M,)``."""

    def scaled(self, factor: float) -> Counts:
        """Return the counts of a smaller number of sequences."""
        return Counts(self.match * factor, self.insert * factor, self.transitions * factor, self.columns)


def matrix_of(X: Sequences, alphabet: Alphabet) -> Indices:
    """Return the codes of aligned rows, ``(N, C)``, -1 for gaps; raise if the rows differ in length."""
    lengths = X.require_some().lengths
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        raise ValueError(
            f"The sequences must be aligned: {X.name(odd[0])} has {lengths[odd[0]]} columns, but {X.name(0)} has "
            f"{lengths[0]}. Align them, or pass a profile that is fitted already, such as mc.models.read_hmmer(path)."
        )
    codes = X.values if X.alphabet == alphabet else ungapped_codes(alphabet)[X.values]
    return np.asarray(codes.reshape(len(X), int(lengths[0])))


def position_weights(codes: Indices, n_symbols: int) -> Floats:
    """Return Henikoff's position-based weights ``(N,)``, whose sum is N.

    In every column, all letters share a weight of one equally, and so do the sequences with the same letter. Sums are
    divided by the number of letters of the sequence.
    """
    known = (codes >= 0) & (codes < n_symbols)
    out = np.zeros(len(codes))
    for column, some in zip(codes.T, known.T, strict=True):
        counts = np.bincount(column[some], minlength=n_symbols)
        if some.any():
            out[some] += 1.0 / (np.count_nonzero(counts) * counts[column[some]])
    out /= np.maximum(known.sum(axis=1), 1)
    total = out.sum()
    return out * (len(codes) / total) if total > 0 else np.ones(len(codes))


def inside_of(codes: Indices, fragments: float) -> Mask:
    """Return where gaps count: not outside of the first and last letter of a fragment, ``(N, C)``.

    A fragment has letters in less than a share ``fragments`` of the columns.
    """
    letters = codes >= 0
    started = np.logical_or.accumulate(letters, axis=1)
    unfinished = np.logical_or.accumulate(letters[:, ::-1], axis=1)[:, ::-1]
    whole = letters.sum(axis=1) >= fragments * codes.shape[1]
    return np.asarray((started & unfinished) | whole[:, None])


def match_columns(codes: Indices, weights: Floats, inside: Mask, fraction: float) -> Indices:
    """Return the columns in which at least a share ``fraction`` of the sequences has a letter."""
    if not (codes >= 0).any():
        raise ValueError(
            f"The alignment has no letters: its {len(codes)} rows are empty or gaps only. Pass the aligned sequences "
            "of a family."
        )
    letters = weights @ (codes >= 0)
    total = weights @ inside
    found = np.flatnonzero((letters > 0) & (letters >= fraction * total * (1 - 1e-12)))
    if not len(found):
        raise ValueError(
            f"No column of the alignment has letters in a share of {fraction} of the sequences, so the profile would "
            "have no node. Use a smaller match_fraction."
        )
    return found


def counts_of(codes: Indices, weights: Floats, inside: Mask, columns: Indices, letters: Floats) -> Counts:
    """Count letters and transitions on the path of every row.

    Parameters
    ----------
    codes : array of shape (N, C)
        Codes, -1 for gaps.
    weights : array of shape (N,)
        Weights of the rows.
    inside : array of shape (N, C)
        Where gaps count.
    columns : array of shape (M,)
        The match columns.
    letters : array of shape (codes, k)
        The share of every symbol in a code.

    Notes
    -----
    Plan 7 has no transitions between delete and insert states. An inserted letter next to a deletion takes the place of
    the deletion, as in HMMER.
    """
    n, m = len(codes), len(columns)
    at = codes[:, columns].copy()
    node = np.searchsorted(columns, np.arange(codes.shape[1]), side="right")  # nodes up to and with this column
    between = np.setdiff1d(np.arange(codes.shape[1]), columns)
    number, runs = np.zeros((n, m + 1), dtype=int), _runs(codes, between, node)
    for row, k, found in runs:
        first, last = 0, len(found)
        if last and k > 0 and at[row, k - 1] < 0:
            at[row, k - 1], first = found[0], 1
        if last > first and k < m and at[row, k] < 0:
            at[row, k], last = found[-1], last - 1
        number[row, k] = last - first
        found[:] = found[first:last]
    match, insert = np.zeros((m, letters.shape[1])), np.zeros((m + 1, letters.shape[1]))
    for k in range(m):
        seen = at[:, k] >= 0
        match[k] = weights[seen] @ letters[at[seen, k]]
    for row, k, found in runs:
        insert[k] += weights[row] * letters[found].sum(axis=0)
    kept = inside[:, columns]
    used = np.concatenate([kept[:, :1], kept[:, 1:] & kept[:, :-1], kept[:, -1:]], axis=1)
    outer = ~inside.all(axis=1)  # fragments neither begin nor end
    used[outer, 0] = used[outer, -1] = False
    return Counts(match, insert, _transitions(at >= 0, number, weights, used), columns)


def _runs(codes: Indices, between: Indices, node: Indices) -> list[tuple[int, int, list[int]]]:
    """List the letters of every row between two match columns: row, node before them, codes."""
    found: dict[tuple[int, int], list[int]] = {}
    rows, places = np.nonzero(codes[:, between] >= 0)
    for row, column in zip(rows.tolist(), between[places].tolist(), strict=True):
        found.setdefault((row, int(node[column])), []).append(int(codes[row, column]))
    return [(row, k, run) for (row, k), run in sorted(found.items())]


def _transitions(letter: Mask, number: Indices, weights: Floats, used: Mask) -> Floats:
    n, m = letter.shape
    ends = np.ones((n, 1), dtype=bool)
    before, after = np.append(ends, letter, axis=1), np.append(letter, ends, axis=1)
    direct = number == 0
    kinds = {
        0: direct & before & after,
        1: ~direct,
        2: direct & before & ~after,
        3: ~direct,
        5: direct & ~before & after,
        6: direct & ~before & ~after,
    }
    out = np.zeros((m + 1, 7))
    for column, where in kinds.items():
        out[:, column] = weights @ (where & used)
    out[:, 4] = weights @ (np.maximum(number - 1, 0) * used)
    return out
