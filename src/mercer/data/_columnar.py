"""Columnar input: Arrow and Awkward arrays, read through their offsets without a loop over items.

Both libraries store nested lists as offsets into one flat buffer. `_Column` holds one mask of nulls and one array of
list lengths per level, and the leaf, which holds numbers or text. `_assemble` turns it into values and offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data._forms import Flat, Kind, Problem, as_floats, as_integers, code_points
from mercer.data.ragged import offsets_of


@dataclass
class _Column:
    """Nested lists: ``nulls[j]`` marks the null entries of level j; ``lengths[j]`` holds the list lengths."""

    nulls: list[NDArray[np.bool_]] = field(default_factory=list)
    lengths: list[NDArray[np.int64]] = field(default_factory=list)
    leaf: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    text: NDArray[np.int64] | None = None
    """For text, the byte lengths of the strings; ``leaf`` then holds their UTF-8 bytes."""

    def level(self, null: NDArray[np.bool_], lengths: Any) -> None:
        """Add a level of lists; ``lengths`` covers the non-null entries only."""
        self.nulls.append(null)
        self.lengths.append(_spread(null, np.asarray(lengths, dtype=np.int64)))

    def finish(self, null: NDArray[np.bool_], leaf: NDArray[Any], text: NDArray[np.int64] | None = None) -> _Column:
        """Add the leaf; ``leaf`` and ``text`` cover the non-null entries only."""
        self.nulls.append(null)
        self.text = None if text is None else _spread(null, text)
        self.leaf = leaf if text is not None else _spread(null, leaf)
        return self


def _spread(null: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
    """Insert zeros at the positions of the dropped nulls."""
    if not null.any():
        return values
    out = np.zeros(len(null), dtype=values.dtype)
    out[~null] = values
    return out


def from_arrow_stream(data: Any) -> Flat:
    """Read an object that exports an Arrow stream."""
    import pyarrow as pa

    return from_arrow(pa.chunked_array(data))


def from_arrow(data: Any) -> Flat:
    """Read a pyarrow Array or ChunkedArray of strings, or of lists of numbers, strings or points."""
    import pyarrow as pa
    import pyarrow.types as types

    if not isinstance(data, pa.Array | pa.ChunkedArray):
        raise TypeError(
            f"X must be a pyarrow Array or ChunkedArray; got a {type(data).__name__}. Pass one of its columns."
        )
    if isinstance(data, pa.ChunkedArray):
        if types.is_string(data.type) or types.is_binary(
            data.type
        ):  # 32-bit offsets can overflow when chunks are joined
            data = data.cast(pa.large_string() if types.is_string(data.type) else pa.large_binary())
        data = pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], type=data.type)
    try:
        column = _arrow_column(data)
    except pa.ArrowNotImplementedError as e:  # older versions do not support view types
        raise TypeError(
            f"This version of pyarrow cannot read the type {data.type}; cast it to lists or strings first."
        ) from e
    return _assemble(column)


def from_polars(data: Any) -> Flat:
    """Read a Series of polars, by way of Arrow's old types: strings of the new ones need a recent pyarrow."""
    import polars

    level = getattr(polars, "CompatLevel", None)
    return from_arrow(data.to_arrow() if level is None else data.to_arrow(compat_level=level.oldest()))


def _arrow_column(x: Any) -> _Column:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    column = _Column()
    while True:
        if isinstance(x, pa.ExtensionArray):
            x = x.storage
        if types.is_dictionary(x.type):
            x = x.dictionary_decode()
        if str(x.type) in ("string_view", "binary_view"):  # polars; drop_null does not support them
            x = x.cast(pa.large_string() if str(x.type) == "string_view" else pa.large_binary())
        null = x.is_null().to_numpy(zero_copy_only=False)
        if x.null_count:
            x = x.drop_null()
        t, name = x.type, str(x.type)
        if types.is_null(t):
            return column.finish(null, np.empty(0))
        if types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t) or "list_view" in name:
            column.level(null, pc.list_value_length(x).to_numpy(zero_copy_only=False))
            x = x.flatten()
            continue
        if "string" in name or "binary" in name:
            x = x.cast(pa.large_string() if "string" in name else pa.large_binary())
            return column.finish(null, *_arrow_bytes(x))
        if types.is_integer(t) or types.is_floating(t) or types.is_boolean(t):
            return column.finish(null, x.to_numpy(zero_copy_only=False))
        raise TypeError(f"X must contain strings, integers or real numbers; got the Arrow type {t}.")


def _arrow_bytes(x: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes and byte lengths of a large string array, which may be a slice."""
    if len(x) == 0:
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    _, starts, data = x.buffers()
    offsets = np.frombuffer(starts, dtype=np.int64)[x.offset : x.offset + len(x) + 1]
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    return raw[offsets[0] : offsets[-1]], np.diff(offsets)


def from_awkward(data: Any) -> Flat:
    """Read an Awkward array of strings, or of lists of numbers, strings or points."""
    import awkward as ak

    layout = ak.to_layout(data)
    column = _Column()
    while True:
        null = np.zeros(len(layout), dtype=bool)
        while layout.is_option or layout.is_indexed:
            if layout.is_option:
                null = np.asarray(layout.mask_as_bool(valid_when=False), dtype=bool)
            layout = layout.project()
        if layout.is_numpy and layout.purelist_depth > 1:
            layout = layout.to_RegularArray()
        if layout.is_unknown:
            return _assemble(column.finish(null, np.empty(0)))
        if layout.is_numpy:
            leaf = np.asarray(layout.data)
            if leaf.dtype.kind not in "biuf":
                raise TypeError(f"X must contain strings, integers or real numbers; got dtype {leaf.dtype}.")
            return _assemble(column.finish(null, leaf))
        if not layout.is_list:
            kind = type(layout).__name__
            raise TypeError(f"X must contain strings or lists of numbers; got an Awkward {kind}.")
        text = layout.parameter("__array__") in ("string", "bytestring")
        layout = layout.to_ListOffsetArray64(True)
        offsets = np.asarray(layout.offsets.data)
        content = layout.content[offsets[0] : offsets[-1]]
        if text:
            raw = np.asarray(ak.to_numpy(ak.without_parameters(content)), dtype=np.uint8)
            return _assemble(column.finish(null, raw, np.diff(offsets)))
        column.level(null, np.diff(offsets))
        layout = content


def _assemble(column: _Column) -> Flat:
    """Convert levels to values and offsets; nulls inside are missing, null sequences and uneven points are problems."""
    depth = len(column.lengths)
    if depth == 0 and column.text is None:
        if len(column.leaf) == 0:
            return Flat("empty", np.empty(0), np.zeros(1, np.int64))
        raise ValueError("X is a flat array of numbers, which is a single sequence; pass lists of numbers.")
    if depth > 2 or (depth == 2 and column.text is not None):
        raise ValueError("X is nested too deeply; pass lists of symbols or lists of points.")
    problems = {
        int(i): Problem(TypeError, "is null; drop it, or fill it first.") for i in np.flatnonzero(column.nulls[0])
    }
    if column.text is not None:
        return _assemble_text(column, column.text, problems)
    lengths, leaf, null = column.lengths[0], column.leaf, column.nulls[-1]
    if depth == 1 and leaf.dtype.kind in "biu":
        if not null.any():
            kind: Kind = "integers" if len(leaf) else "empty"
            return Flat(kind, as_integers(leaf) if len(leaf) else np.empty(0), offsets_of(lengths), problems)
        tokens = as_integers(leaf).astype(object)
        tokens[null] = None
        return Flat("tokens", tokens, offsets_of(lengths), problems)
    leaf = as_floats(leaf)
    leaf[null] = np.nan
    if depth == 2:
        lengths, leaf = _points(lengths, column.lengths[1], column.nulls[1], leaf, problems)
    if len(leaf) == 0:
        return Flat("empty", np.empty(0), offsets_of(np.zeros_like(lengths)), problems)
    return Flat("vectors", leaf.reshape(len(leaf), -1), offsets_of(lengths), problems)


def _points(
    lengths: NDArray[np.int64],
    dims: NDArray[np.int64],
    null: NDArray[np.bool_],
    leaf: NDArray[Any],
    problems: dict[int, Problem],
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return lengths and points, all of one dimension; null points are missing, invalid sequences become empty."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    good = ~np.isin(owners, list(problems)) & ~null
    d = int(dims[good][0]) if good.any() else 0
    starts = offsets_of(lengths)
    uneven = np.flatnonzero(good & (dims != d))
    for i, first in zip(*np.unique(owners[uneven], return_index=True), strict=True):
        row = uneven[first]
        text = f"has a point of dimension {dims[row]} at position {row - starts[i]}, not {d}"
        problems[int(i)] = Problem(ValueError, f"{text}; all points must have the same dimension.")
    good = ~np.isin(owners, list(problems))
    lengths = lengths.copy()
    lengths[list(problems)] = 0
    if not d:
        return lengths, leaf[:0]
    points = np.full((len(dims), d), np.nan, dtype=leaf.dtype)
    points[good & ~null] = leaf[np.repeat(good & ~null, dims)].reshape(-1, d)
    return lengths, points[good]


def _assemble_text(column: _Column, text: NDArray[np.int64], problems: dict[int, Problem]) -> Flat:
    """Read strings, or lists of strings."""
    starts = offsets_of(text)
    raw = column.leaf.tobytes()
    if column.lengths:
        tokens = np.empty(len(text), dtype=object)
        tokens[:] = [raw[a:b].decode() for a, b in pairwise(starts.tolist())]
        tokens[column.nulls[-1]] = None
        return Flat("tokens", tokens, offsets_of(column.lengths[0]), problems)
    if raw.isascii():
        return Flat("characters", column.leaf.copy(), starts, problems)
    begins = offsets_of((column.leaf & 0xC0) != 0x80)  # bytes that start a character
    return Flat("characters", code_points(raw.decode()), begins[starts], problems)
