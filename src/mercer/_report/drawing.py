"""Small drawings as SVG and PNG: no library to load, and colors that follow the page's light or dark theme."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from mercer._array import Floats

N_COLORS = 8
"""Number of colors, and of markers, of classes; later classes pair them differently."""

_MARKERS = (
    '<circle r="4"/>',
    '<rect x="-3.6" y="-3.6" width="7.2" height="7.2"/>',
    '<path d="M0-4.6 4.4 3.6H-4.4z"/>',
    '<path d="M0-5 5 0 0 5-5 0z"/>',
    '<path d="M0 4.6 4.4-3.6H-4.4z"/>',
    '<path d="M-4.5-1.5h3v-3h3v3h3v3h-3v3h-3v-3h-3z"/>',
    '<path d="M-4-2-2-4 0-2 2-4 4-2 2 0 4 2 2 4 0 2-2 4-4 2-2 0z"/>',
    '<path d="M0-5 1.5-1.5 5-1.2 2.3 1.2 3.1 5 0 2.9-3.1 5-2.3 1.2-5-1.2-1.5-1.5z"/>',
)
_RAMP = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


def text(value: object) -> str:
    """Return text for HTML: what comes from data is shown, never run; control characters become spaces."""
    plain = "".join(letter if letter.isprintable() else " " for letter in str(value))
    return html.escape(plain, quote=True)


def markers() -> str:
    """Return the markers of classes, once per page."""
    symbols = "".join(f'<g id="m{i}">{shape}</g>' for i, shape in enumerate(_MARKERS))
    return f'<svg width="0" height="0" aria-hidden="true" class="markers"><defs>{symbols}</defs></svg>'


def color(i: int) -> int:
    """Return the color of class ``i``: another one each time that the markers start again."""
    return (i + i // N_COLORS) % N_COLORS


def marker(i: int) -> str:
    """Return the marker of class ``i``, for a legend."""
    drawn = f'<use href="#m{i % N_COLORS}" class="c{color(i)}"/>'
    return f'<svg class="key" viewBox="-6 -6 12 12" aria-hidden="true">{drawn}</svg>'


class Axes:
    """An SVG picture with axes, ticks and labels.

    Parameters
    ----------
    x, y : (float, float)
        Ranges.
    x_label, y_label : str
        Labels of the axes.
    title : str
        What the picture shows, for readers who cannot see it.
    size : (int, int)
        Width and height.
    x_ticks : sequence of (float, str), optional
        Positions and labels of ticks.
    """

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str,
        y_label: str,
        title: str,
        size: tuple[int, int] = (460, 320),
        x_ticks: Sequence[tuple[float, str]] | None = None,
    ) -> None:
        self.x, self.y, self.size, self.title = _padded(*x), _padded(*y), size, title
        self.left, self.top, self.right, self.bottom = 58, 12, 12, 44
        self.parts: list[str] = []
        width, height = size
        for value, label in x_ticks if x_ticks is not None else _ticks(*self.x):
            at = self.px(value)
            self.parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{self.top}" y2="{height - self.bottom}"/>')
            self._label(at, height - self.bottom + 16, label, "middle")
        for value, label in _ticks(*self.y):
            at = self.py(value)
            self.parts.append(f'<line class="grid" y1="{at}" y2="{at}" x1="{self.left}" x2="{width - self.right}"/>')
            self._label(self.left - 6, at + 4, label, "end")
        self._label((self.left + width - self.right) / 2, height - 8, x_label, "middle")
        middle = (self.top + height - self.bottom) / 2
        self.parts.append(
            f'<text transform="translate(14 {middle:g}) rotate(-90)" text-anchor="middle">{text(y_label)}</text>'
        )

    def px(self, value: float) -> float:
        """Return the horizontal position of a value."""
        low, high = self.x
        width = self.size[0] - self.left - self.right
        return round(self.left + width * (value - low) / (high - low), 1)

    def py(self, value: float) -> float:
        """Return the vertical position of a value."""
        low, high = self.y
        height = self.size[1] - self.top - self.bottom
        return round(self.size[1] - self.bottom - height * (value - low) / (high - low), 1)

    def points(self, x: Floats, y: Floats, classes: Floats, kind: str = "c") -> None:
        """Add points that show their text when they are pointed at; their numbers are those of the page's data.

        Parameters
        ----------
        x, y, classes : arrays of shape (N,)
            Positions, and class or level of each point.
        kind : {"c", "q"}
            Colors and markers of classes, or shades of levels.
        """
        for i, (a, b, c) in enumerate(zip(x, y, classes, strict=True)):
            k = int(c)
            shape, shade = (k % N_COLORS, color(k)) if kind == "c" else (0, k)
            at = f'x="{self.px(a)}" y="{self.py(b)}"'
            self.parts.append(f'<use href="#m{shape}" class="{kind}{shade}" {at} data-i="{i}"/>')

    def line(self, x: Iterable[float], y: Iterable[float], kind: str = "line", dots: bool = False) -> None:
        """Add a line through points."""
        at = [(self.px(a), self.py(b)) for a, b in zip(x, y, strict=True)]
        self.parts.append(f'<polyline class="{kind}" points="{" ".join(f"{a},{b}" for a, b in at)}"/>')
        if dots:
            self.parts += [f'<circle class="dot" cx="{a}" cy="{b}" r="3.5"/>' for a, b in at]

    def band(self, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
        """Add a band between two curves."""
        up = [f"{self.px(a)},{self.py(b)}" for a, b in zip(x, high, strict=True)]
        down = [f"{self.px(a)},{self.py(b)}" for a, b in zip(x, low, strict=True)]
        self.parts.append(f'<polygon class="band" points="{" ".join(up + down[::-1])}"/>')

    def bar(self, x: float, low: float, high: float) -> None:
        """Add a vertical interval."""
        at = self.px(x)
        self.parts.append(f'<line class="bar" x1="{at}" x2="{at}" y1="{self.py(low)}" y2="{self.py(high)}"/>')

    def mark(self, x: float, label: str) -> None:
        """Add a vertical line with a label."""
        at, height = self.px(x), self.size[1]
        self.parts.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{self.top}" y2="{height - self.bottom}"/>')
        anchor = "end" if at > self.size[0] / 2 else "start"
        self._label(at + (-5 if anchor == "end" else 5), self.top + 12, label, anchor)

    def svg(self, hover: str = "") -> str:
        """Return the picture; ``hover`` names the page's data that its points show."""
        width, height = self.size
        live = f' data-hover="{hover}" tabindex="0"' if hover else ""
        return (
            f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{text(self.title)}"{live}>'
            f"{''.join(self.parts)}</svg>"
        )

    def _label(self, x: float, y: float, label: str, anchor: str) -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text(label)}</text>')


def _padded(low: float, high: float) -> tuple[float, float]:
    """Return a range that is a little larger, and not empty; one without negative values gets none."""
    pad = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
    return (max(low - pad, 0.0) if low >= 0 else low - pad), high + pad


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    step = 10.0 ** np.floor(np.log10((high - low) / 4))
    step *= next((m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= 6), 10)
    values = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    return [(float(value), f"{value + 0.0:.6g}") for value in values]


def heat_map(K: Floats, title: str, largest: int = 400) -> str:
    """Return a matrix as an image of at most ``largest`` pixels a side; larger ones are averaged over blocks."""
    n = len(K)
    if n > largest:
        edges = np.linspace(0, n, largest + 1).astype(int)[:-1]
        sizes = np.diff(np.append(edges, n))
        K = np.add.reduceat(np.add.reduceat(K, edges, axis=0), edges, axis=1) / np.outer(sizes, sizes)
    low, high = np.quantile(K, (0.01, 0.99)) if K.size > 100 else (K.min(), K.max())
    levels = np.clip((K - low) / ((high - low) or 1.0), 0, 1)
    data = _png(np.rint(255 * levels).astype(np.uint8))
    return f'<img class="gram" alt="{text(title)}" src="data:image/png;base64,{data}">'


def _png(image: Floats) -> str:
    """Return an image of 8-bit levels as PNG with a palette, in base64."""
    at = np.linspace(0, len(_RAMP) - 1, 256)
    palette = np.stack([np.interp(at, np.arange(len(_RAMP)), channel) for channel in np.transpose(_RAMP)], axis=1)
    height, width = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image], axis=1)  # each row starts with its filter: none

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    parts = (
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        chunk(b"PLTE", np.rint(palette).astype(np.uint8).tobytes()),
        chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
        chunk(b"IEND", b""),
    )
    return base64.b64encode(b"".join(parts)).decode()
