"""What ``mercer datasets`` lists."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

from mercer import datasets
from mercer.datasets.sources import SOURCES, TERMS


def functions() -> list[dict[str, str]]:
    """Return the generators and loaders with the first sentence of their documentation."""
    rows = []
    for name in datasets.__all__:
        if name.startswith(("make_", "fetch_")):
            about = (inspect.getdoc(getattr(datasets, name)) or "").partition("\n\n")[0]
            rows.append({"function": name, "about": " ".join(about.split())})
    return rows


def folders() -> list[dict[str, str]]:
    """Return the real sets: how many files are in ``MERCER_DATA`` or were downloaded, license, citation and home."""
    rows = []
    for folder in dict.fromkeys(folder for folder, _ in SOURCES):
        own = {file: source for (name, file), source in SOURCES.items() if name == folder}
        here = sum(any((root / folder / f"{file}{end}").is_file() for root in _roots() for end in ("", ".gz"))
                   for file in own)  # fmt: skip
        first = next(iter(own.values()))
        home = first.url.rpartition("/")[0] if first.url else f"derived from {first.origin}"
        terms = TERMS[folder]._asdict()
        rows.append({"folder": folder, "here": f"{here} of {len(own)}", **terms, "home": home})
    return rows


def _roots() -> list[Path]:
    """Return the folders in which files of data sets are looked for."""
    given = os.environ.get("MERCER_DATA")
    if given:
        return [Path(given)]
    try:
        import pooch
    except ImportError:
        return []
    return [Path(pooch.os_cache("mercer"))]
