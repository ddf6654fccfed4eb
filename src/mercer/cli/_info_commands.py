"""``mercer doctor`` and ``mercer datasets``: this computer, and the data sets."""

from __future__ import annotations

import inspect
import os
import platform
import shutil
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from mercer._memory import free_bytes
from mercer._parallel import usable_cores
from mercer._units import human
from mercer._version import __version__
from mercer.cli._terminal import STDOUT, Json, Quiet, console, say, write_json

_PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "array-api-compat"),
    *("typer", "rich", "matplotlib", "pooch", "pandas", "polars", "pyarrow", "biopython", "torch", "cupy", "hmmlearn"),
)


def doctor(quiet: Quiet = False, json_path: Json = None) -> None:
    """Tell the versions, cores, native library, BLAS, GPU and caches that mercer finds on this computer."""
    facts = _facts()
    write_json(facts, json_path)
    if json_path == STDOUT:
        return
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name, shown)
    console().print(table)
    say("Add this to a bug report.", quiet=quiet)


def datasets(quiet: Quiet = False, json_path: Json = None) -> None:
    """List the functions of mercer.datasets, and the real sets: which files are here, license, citation and home."""
    functions, files = _functions(), _folders()
    write_json({"functions": functions, "folders": files}, json_path)
    if json_path == STDOUT:
        return
    _print_table("Functions of mercer.datasets", ("function", "what it returns"), functions)
    _print_table("Files of the real sets", ("folder", "files here", "license", "cite", "home"), files)
    root = os.environ.get("MERCER_DATA")
    where = f"MERCER_DATA is {root}." if root else "To read them elsewhere, set MERCER_DATA to a folder that has them."
    say(f"A set is downloaded on first use. {where}", quiet=quiet)


def _print_table(title: str, headings: tuple[str, ...], rows: list[dict[str, str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row.values())
    console().print(table)


def _facts() -> dict[str, Any]:
    import threadpoolctl

    from mercer._comparison.runner import default_folder
    from mercer._native.library import build

    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    native = build()
    kept = default_folder()
    libraries = [f"{p['internal_api']} {p['version']}, {p['num_threads']} threads" for p in _blas(threadpoolctl)]
    return {
        "mercer": __version__,
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "packages": versions,
        "cores": f"{usable_cores()} usable of {os.cpu_count()}",
        "native library": f"level {native.level}, {native.compiler}, {native.flags}",
        "memory": _memory(),
        "BLAS": "; ".join(libraries) or "none found",
        "GPU": _gpu(),
        "kept results": f"{len(list(kept.glob('*.jsonl'))) if kept.is_dir() else 0} comparisons in {kept}",
        "MERCER_DATA": os.environ.get("MERCER_DATA", "not set"),
        "free disk": f"{human(shutil.disk_usage(Path.home()).free)} at {Path.home()}",
    }


def _blas(threadpoolctl: Any) -> list[dict[str, Any]]:
    import numpy as np
    import scipy.linalg

    scipy.linalg.blas.ddot(np.ones(2), np.ones(2))  # loads the library
    return [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


def _memory() -> str:
    free = free_bytes()
    known = [] if free is None else [f"{human(free)} free"]
    with suppress(AttributeError, ValueError, OSError):  # not on every system
        known.insert(0, human(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return ", ".join(known) or "unknown"


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch finds none"
    return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))


def _functions() -> list[dict[str, str]]:
    """Return the generators and loaders with the first sentence of their documentation."""
    from mercer import datasets

    rows = []
    for name in datasets.__all__:
        if name.startswith(("make_", "fetch_")):
            about = (inspect.getdoc(getattr(datasets, name)) or "").partition("\n\n")[0]
            rows.append({"function": name, "about": " ".join(about.split())})
    return rows


def _folders() -> list[dict[str, str]]:
    """Return the real sets: how many files are in ``MERCER_DATA`` or were downloaded, license, citation and home."""
    from mercer.datasets.sources import SOURCES, TERMS

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
