"""File format 1: an npz archive of plain arrays with a JSON header. No pickle.

The header is the array ``header`` (UTF-8 bytes of a JSON object) and holds ``format`` (a number),
``kind`` ("batch" or "gram") and what the kind needs. Readers of later versions keep reading format 1.
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
    """Write ``arrays`` and ``header`` to ``path`` in one step, so that a crash leaves no half file."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:  # NumPy would pickle it
            raise ValueError(f"{name} holds Python objects, which do not go into files: only plain arrays do")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez_compressed(file, header=encoded, **arrays)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], *kinds: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Read what `write` wrote, checking the format and that it is one of these kinds."""
    if not zipfile.is_zipfile(_existing(path)):
        raise ValueError(f"{os.fspath(path)} is not a mercer file (it is no npz archive)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "header" not in archive:
                raise ValueError(f"{os.fspath(path)} is an npz archive without mercer's header")
            header = json.loads(bytes(archive["header"]).decode())
            arrays = {name: archive[name] for name in archive.files if name != "header"}
    except (zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{os.fspath(path)} is damaged ({error}): copy or write it again") from error
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise ValueError(f"{os.fspath(path)} has no format number: it was not written by mercer")
    if header["format"] > FORMAT:
        raise ValueError(
            f"{os.fspath(path)} has file format {header['format']}, this version reads up to {FORMAT}: upgrade mercer"
        )
    if header.get("kind") not in kinds:
        raise ValueError(f"{os.fspath(path)} holds a {header.get('kind')}, not a {' or a '.join(kinds)}")
    return header, arrays


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}")
    return Path(path)
