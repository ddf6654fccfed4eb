"""The commands of the command line tool."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from mercer._parallel import usable_cores
from mercer._sizes import free_bytes, human
from mercer._version import __version__
from mercer.cli import (
    _compare_command,
    _model_commands,
    _two_sample_command,
)
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


app = typer.Typer(
    help="Kernels from generative models, for scikit-learn.",
    epilog="Example: mercer compare walks.csv --id walk --label gait. "
    "Exit codes: 0 done, 1 the work failed, 2 unusable options or data, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit()


_EXAMPLES: dict[Callable[..., None], str] = {
    _compare_command.compare: "mercer compare genes.fasta --label 1 --groups 'gene=(\\w+)' --budget 10m",
    _model_commands.fit: "mercer fit walks.csv --id walk --time t --label gait --best -o gait.mercer",
    _model_commands.predict: "mercer predict gait.mercer new.csv --json -",
    _model_commands.explain: "mercer explain genes.mercer new.fasta --top 10 --plot why.png",
    _two_sample_command.two_sample: "mercer test patients.fasta controls.fasta --kernel 'Spectrum(k=3)'",
    doctor: "mercer doctor",
}
for _command, _example in _EXAMPLES.items():
    app.command(_example.split()[1], epilog=f"Example: {_example}")(_command)
