"""File format 1: an npz archive of plain arrays with a JSON header. No pickle.

The header is the array ``header`` (UTF-8 bytes of a JSON object) with ``format`` (a number), ``kind`` ("batch",
"gram" or "pipeline") and entries that depend on the kind. Later versions will keep reading format 1.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from mercer._atomic import replacing
from mercer._config import settings
from mercer._sizes import human

FORMAT = 1
HEADER_BYTES = 2**24
"""Largest size of a header: Python takes up to 30 times as much memory to read it."""


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write ``arrays`` and ``header`` to ``path`` atomically, so that a crash leaves no partial file."""
    check_path(path)
    target = Path(path)
    check_target(target, os.fspath(path))
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    if len(encoded) > HEADER_BYTES:
        raise ValueError(
            f"The file would need a header of {human(len(encoded))}, and at most {human(HEADER_BYTES)} are read. "
            "Use arrays in place of many small objects."
        )
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:  # NumPy would pickle it
            raise ValueError(f"{name} contains Python objects; only arrays of numbers and strings can be saved.")
    with replacing(target) as file:
        np.savez_compressed(file, header=encoded, **arrays)


def read(path: str | os.PathLike[str], *kinds: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Read a file written by `write`; raise if its format is unknown or its kind is not one of ``kinds``."""
    check_path(path)
    name = os.fspath(path)
    with open(_existing(path), "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{name} is not a mercer file: it is not an npz archive, or it is cut short.")
        try:
            with zipfile.ZipFile(file) as archive:
                arrays = _arrays(archive, name, Path(path).stat().st_size)
            header = json.loads(bytes(arrays.pop("header")).decode())
        except _NotOurs as error:
            raise ValueError(str(error)) from error
        except Exception as error:  # a damaged archive can raise nearly anything, from zipfile, zlib, NumPy and json
            raise damaged(name, error) from error
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise ValueError(f"{name} has no format number; it was not written by mercer.")
    if header["format"] > FORMAT:
        raise ValueError(
            f"{name} has file format {header['format']}; this version reads up to {FORMAT}. Upgrade mercer."
        )
    if header.get("kind") not in kinds:
        raise ValueError(f"{name} contains a {header.get('kind')}, not a {' or a '.join(kinds)}.")
    return header, arrays


def check_target(target: Path, name: str) -> None:
    """Raise if a file cannot be written there, before the work is done."""
    if not target.name:
        raise ValueError(f"path must name a file; got {name!r}.")
    if target.is_dir():
        raise IsADirectoryError(f"{name} is a folder. Add the name of a file to it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The folder {target.parent} does not exist. Create it first.")


def damaged(name: str, error: Exception) -> ValueError:
    """Return the error of a file that cannot be read, with the reason."""
    reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
    return ValueError(f"{name} is damaged ({reason}). Copy or write it again.")


class _NotOurs(Exception):
    """A sound archive that `write` has not written, or that is too large."""


def _arrays(archive: zipfile.ZipFile, name: str, packed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Read all arrays, after a check of the sizes in the directory and in the headers of the arrays."""
    members = archive.infolist()
    limit, size = unpacked_limit(packed), sum(info.file_size for info in members)  # zipfile never unpacks more
    if size > limit:
        raise _NotOurs(too_large(name, limit))
    if "header.npy" not in archive.namelist():
        raise _NotOurs(f"{name} is not a mercer file: it is an npz archive without a header.")
    if archive.getinfo("header.npy").file_size > HEADER_BYTES + 4096:
        raise _NotOurs(f"{name} has a header of more than {human(HEADER_BYTES)}; mercer does not write such files.")
    for info in members:
        with archive.open(info) as member:
            _check_array(member, info, name)
    arrays = {}
    for info in members:
        with archive.open(info) as member:
            arrays[info.filename.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays


def _check_array(member: Any, info: zipfile.ZipInfo, name: str) -> None:
    """Raise unless an array is as large as its header says; NumPy would allocate what the header says."""
    version = np.lib.format.read_magic(member)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise _NotOurs(f"{name} is not a mercer file: {info.filename} has npy version {version[0]}.{version[1]}.")
    shape, _, dtype = readers[version](member)
    if dtype.hasobject:
        raise _NotOurs(f"{name} contains Python objects (a pickle), which can run code; mercer does not load them.")
    stored = info.file_size - member.tell()
    if dtype.itemsize == 0 or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != stored:
        raise ValueError(f"{info.filename} has {stored} bytes, not shape {shape} of {dtype}")


def unpacked_limit(packed: int) -> int:
    """Return the largest size to which a file of ``packed`` bytes may be unpacked."""
    return max(settings().max_file_bytes, 20 * packed)


def too_large(name: str, limit: int) -> str:
    """Return the message about a file that unpacks to more than ``limit`` bytes."""
    return (
        f"{name} unpacks to more than {human(limit)} and to more than 20 times its size. If you trust it, "
        "raise the limit: with mc.config(max_file_bytes=...)."
    )


def check_path(path: Any) -> None:
    """Raise unless ``path`` can name a file."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a string or a path; got {path!r}.")
    if "\0" in str(path):
        raise ValueError(f"path must not contain a null character; got {str(path)!r}.")


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        what = "is a folder; pass a file" if Path(path).is_dir() else "does not exist"
        raise FileNotFoundError(f"The file {os.fspath(path)} {what}.")
    return Path(path)
