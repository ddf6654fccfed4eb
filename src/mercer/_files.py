"""File format 1: an npz archive of plain arrays with a JSON header. No pickle.

The header is the array ``header`` (UTF-8 bytes of a JSON object) and holds ``format`` (a number),
``kind`` ("batch" or "gram") and what the kind needs. Readers of later versions keep reading format 1.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write ``arrays`` and ``header`` to ``path`` in one step, so that a crash leaves no half file."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    partial = target.with_name(target.name + ".partial")
    with open(partial, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, header=encoded, **arrays)
    partial.replace(target)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Read what `write` wrote, checking format and kind."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "header" not in archive:
                raise ValueError(f"{os.fspath(path)} is an npz archive without mercer's header")
            header = json.loads(bytes(archive["header"]).decode())
            arrays = {name: archive[name] for name in archive.files if name != "header"}
    except zipfile.BadZipFile:
        raise ValueError(f"{os.fspath(path)} is not a mercer file (it is no npz archive)") from None
    if header.get("format", FORMAT + 1) > FORMAT:
        raise ValueError(
            f"{os.fspath(path)} has file format {header.get('format')}, this version reads up to {FORMAT}: "
            "upgrade mercer"
        )
    if header.get("kind") != kind:
        raise ValueError(f"{os.fspath(path)} holds a {header.get('kind')}, not a {kind}")
    return header, arrays
