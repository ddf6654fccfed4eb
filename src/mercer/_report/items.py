"""One sample, drawn: letters of a string, lines of a series, words of a document."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._report.drawing import N_COLORS, text
from mercer.data.sequences import Sequences
from mercer.data.wrapped import inside

LETTERS, STEPS, CHANNELS, WORDS = 240, 300, 4, 12
"""What is drawn of a sample at most."""


def draw(X: Any, i: int, shares: Floats | None = None) -> str:
    """Return sample ``i`` as HTML.

    Parameters
    ----------
    X : Sequences, sparse matrix, array, DataFrame or list
        The samples.
    i : int
        Number of the sample.
    shares : array of shape (T,) or (T, d), optional
        What each position contributes to the decision, which colors the positions.
    """
    X = inside(X)
    if isinstance(X, Sequences):
        return _string(X[i], shares) if X.is_symbols else _series(np.asarray(X[i]), X.channels, shares)
    if sparse.issparse(X):
        return _words(X, i)
    one = X.iloc[i] if hasattr(X, "iloc") else X[i]
    if isinstance(one, str):
        return _string(one, shares)
    values = np.asarray(one)
    if values.dtype.kind in "fiub" and values.ndim in (1, 2) and values.size:
        return _series(values.reshape(len(values), -1).astype(float), None, shares)
    shown = repr(one)
    return f"<code>{text(shown[:LETTERS])}{' ...' if len(shown) > LETTERS else ''}</code>"


def _string(symbols: Any, shares: Floats | None) -> str:
    apart = "" if isinstance(symbols, str) else " "
    shown = [str(symbol) for symbol in symbols[:LETTERS]]
    if shares is None or not np.any(shares):
        body = text(apart.join(shown))
    else:
        levels = _levels(shares)
        body = apart.join(
            f'<span class="{"p" if level > 0 else "n"}{abs(level)}">{text(symbol)}</span>' if level else text(symbol)
            for symbol, level in zip(shown, levels, strict=False)
        )
    rest = len(symbols) - LETTERS
    return f'<code class="letters">{body}</code>' + (f" <small>and {rest} more</small>" if rest > 0 else "")


def _levels(shares: Floats) -> Floats:
    """Return the shares of positions, ``(T,)`` or ``(T, d)``, in seven levels, -3 to 3, relative to the largest."""
    steps = np.asarray(shares, dtype=float).reshape(len(shares), -1).sum(axis=1)
    return np.rint(3 * steps / (np.abs(steps).max() or 1.0)).astype(int)


def _series(values: Floats, channels: Any, shares: Floats | None) -> str:
    T, d = values.shape
    kept = np.unique(np.linspace(0, T - 1, min(T, STEPS)).astype(int))
    width, height = 360, 90
    shown = values[kept][:, :CHANNELS]
    low, high = (np.nanmin(shown), np.nanmax(shown)) if np.isfinite(shown).any() else (0.0, 1.0)
    x = width * kept / max(T - 1, 1)
    parts = []
    if shares is not None and np.any(shares):
        levels = _levels(shares)
        step = width / T
        parts = [
            f'<rect class="{"p" if level > 0 else "n"}{abs(level)}" x="{t * step:.1f}" y="0" width="{step + 0.2:.1f}" '
            f'height="{height}"/>'
            for t, level in enumerate(levels)
            if level
        ]
    for channel, column in enumerate(shown.T):
        y = height - 4 - (height - 8) * (column - low) / ((high - low) or 1.0)
        for run in np.split(np.arange(len(kept)), np.flatnonzero(~np.isfinite(y))):
            some = run[np.isfinite(y[run])]
            if len(some) > 1:
                at = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[some], y[some], strict=True))
                parts.append(f'<polyline class="l{channel % N_COLORS}" points="{at}"/>')
            elif len(some):
                parts.append(
                    f'<circle class="c{channel % N_COLORS}" cx="{x[some[0]]:.1f}" cy="{y[some[0]]:.1f}" r="2"/>'
                )
    names = "" if channels is None else ", ".join(channels[:CHANNELS])
    more = f"{CHANNELS} of {d} channels" if d > CHANNELS else ""
    note = "; ".join(part for part in (f"{T} steps", names, more) if part)
    title = f"series of {T} steps, values {low:.3g} to {high:.3g}"
    return (
        f'<svg class="item" viewBox="0 0 {width} {height}" role="img" aria-label="{text(title)}">{"".join(parts)}</svg>'
        f"<small>{text(note)}</small>"
    )


def _words(X: Any, i: int) -> str:
    row = sparse.csr_array(X)[[i]]
    order = np.argsort(-row.data, kind="stable")[:WORDS]
    shown = ", ".join(f"{row.indices[j]} ({row.data[j]:g})" for j in order)
    rest = len(row.data) - len(order)
    return f"<small>columns (counts): {text(shown)}{f' and {rest} more' if rest > 0 else ''}</small>"
