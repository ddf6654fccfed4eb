"""File format 1: an npz archive of plain arrays with a JSON header. No pickle.

The header is the array ``header`` (UTF-8 bytes of a JSON object) with ``format`` (a number), ``kind`` ("batch" or
"gram") and entries that depend on the kind. Later versions will keep reading format 1.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write ``arrays`` and ``header`` to ``path`` atomically, so that a crash leaves no partial file."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:  # NumPy would pickle it
            raise ValueError(f"{name} contains Python objects; only arrays of numbers and strings can be saved.")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez_compressed(file, header=encoded, **arrays)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], *kinds: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Read a file written by `write`; raise if its format is unknown or its kind is not one of ``kinds``."""
    if not zipfile.is_zipfile(_existing(path)):
        raise ValueError(f"{os.fspath(path)} is not a mercer file: it is not an npz archive.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "header" not in archive:
                raise ValueError(f"{os.fspath(path)} is not a mercer file: it is an npz archive without a header.")
            header = json.loads(bytes(archive["header"]).decode())
            arrays = {name: archive[name] for name in archive.files if name != "header"}
    except (zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{os.fspath(path)} is damaged ({error}). Copy or write it again.") from error
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise ValueError(f"{os.fspath(path)} has no format number; it was not written by mercer.")
    if header["format"] > FORMAT:
        raise ValueError(
            f"{os.fspath(path)} has file format {header['format']}; this version reads up to {FORMAT}. Upgrade mercer."
        )
    if header.get("kind") not in kinds:
        raise ValueError(f"{os.fspath(path)} contains a {header.get('kind')}, not a {' or a '.join(kinds)}.")
    return header, arrays


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise FileNotFoundError(f"The file {os.fspath(path)} does not exist.")
    return Path(path)
