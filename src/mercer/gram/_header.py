"""The files that describe a matrix on disk, ``zarr.json`` and the orders of the objects, and their checksums.

The attribute ``mercer`` of ``zarr.json`` is the header. Its ``checksum`` is that of the whole description, and its
``orders`` are those of the files with the orders of the objects, None where the objects are not sorted.
"""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from mercer._array import Indices
from mercer._checks import is_whole
from mercer.gram._plan import Plan

FORMAT = 1
ORDERS = ("rows.npy", "columns.npy")
_TYPES = ("float16", "float32", "float64")
_TEXTS = ("kernel", "parameters", "fitted", "data", "version", "processor")


def encoded(header: dict[str, Any], plan: Plan, dtype: np.dtype[Any]) -> bytes:
    """Return the content of ``zarr.json``."""
    text = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(plan.shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(plan.part)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN",
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {"mercer": header},
    }
    signed = {**header, "checksum": _checksum_of(text)}
    return json.dumps({**text, "attributes": {"mercer": signed}}, indent=1).encode()


def decoded(folder: Path) -> tuple[dict[str, Any], Plan, np.dtype[Any]]:
    """Read and check ``zarr.json``; return the header, the parts and the type of the values."""
    try:
        found = json.loads((folder / "zarr.json").read_bytes())
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
        raise damaged(folder, "zarr.json") from error
    header = _entry(found, "attributes", "mercer")
    if header is None:
        raise ValueError(f"{folder} has a zarr.json that mercer did not write. Choose another path.")
    if is_whole(_entry(header, "format"), FORMAT + 1):
        raise ValueError(f"{folder} has format {header['format']}; this version reads up to {FORMAT}. Upgrade mercer.")
    if not isinstance(header, dict) or not _sound(found, header):
        raise damaged(folder, "zarr.json")
    part = found["chunk_grid"]["configuration"]["chunk_shape"]
    plan = Plan(tuple(found["shape"]), tuple(header["tile"]), tuple(part), header["symmetric"])
    kept = {name: value for name, value in header.items() if name != "checksum"}
    return kept, plan, np.dtype(found["data_type"])


def _sound(found: dict[str, Any], header: dict[str, Any]) -> bool:
    """Whether a description is one that was written: its checksum, and the type and range of every entry."""
    kept = {name: value for name, value in header.items() if name != "checksum"}
    if header.get("checksum") != _checksum_of({**found, "attributes": {"mercer": kept}}):
        return False
    shape: Any = found.get("shape")
    tile: Any = header.get("tile")
    symmetric = header.get("symmetric")
    part, orders = _entry(found, "chunk_grid", "configuration", "chunk_shape"), header.get("orders")
    return (
        is_whole(header.get("format"))
        and found.get("data_type") in _TYPES
        and all(isinstance(header.get(name), str) for name in _TEXTS)
        and isinstance(symmetric, bool)
        and _is_pair(shape, 0)
        and _is_pair(tile, 1)
        and _is_pair(part, 1)
        and all(p % t == 0 for p, t in zip(part, tile, strict=True))
        and (not symmetric or (shape[0] == shape[1] and part[0] == part[1]))
        and isinstance(orders, list)
        and len(orders) == 2
        and all(order is None or isinstance(order, str) for order in orders)
    )


def _is_pair(value: Any, least: int) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(is_whole(v, least) for v in value)


def _entry(found: Any, *names: str) -> Any:
    """Return an entry of nested dicts, None if it does not exist."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def order_bytes(order: Indices | None) -> bytes | None:
    """Return the content of the file of an order; None if there is no order, hence no file."""
    if order is None:
        return None
    file = io.BytesIO()
    np.save(file, order, allow_pickle=False)
    return file.getvalue()


def read_order(folder: Path, name: str, n: int, checksum: str | None) -> Indices | None:
    """Return the order of the objects in a file; raise if it is not what was written."""
    if checksum is None:
        return None
    try:
        data = (folder / name).read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise damaged(folder, name) from error
    if checksum_of(data) != checksum:
        raise damaged(folder, name)
    try:
        order: Indices = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise damaged(folder, name) from error
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise damaged(folder, name)
    return order


def checksum_of(data: bytes) -> str:
    """Return the checksum of a file."""
    return f"{zlib.crc32(data):08x}"


def _checksum_of(text: dict[str, Any]) -> str:
    return checksum_of(json.dumps(text, sort_keys=True).encode())


def damaged(folder: Path, name: str) -> ValueError:
    """Return the error of a file without which the tiles cannot be read."""
    return ValueError(
        f"{folder} is damaged: its file {name} is not what was written. Restore this file from a copy, or remove the "
        "folder and call mc.gram.compute again."
    )
