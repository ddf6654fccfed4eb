"""What ``--json`` of a script writes: numbers under the names of their row and column, and times apart from them."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def add_json(parser: ArgumentParser) -> None:
    """Add the option ``--json FILE``."""
    parser.add_argument("--json", type=Path, help="write the numbers to this file")


def write_json(path: Path | None, values: Mapping[str, Any], times: Mapping[str, Any] | None = None) -> None:
    """Write numbers, dictionaries nested by name; ``times`` has seconds and ratios of them, which no test repeats."""
    if path is not None:
        found = {"values": values, "times": times or {}}
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def flat(nested: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield numbers and texts with their names joined by commas: ``("human, K=1, best", 0.286)``."""
    for name, value in nested.items():
        key = f"{prefix}, {name}".removeprefix(", ")
        if isinstance(value, Mapping):
            yield from flat(value, key)
        elif value is not None and value != "":
            yield key, value if isinstance(value, str) else float(f"{value:.6g}")


def cells(row: str, header: str, labels: int = 1) -> dict[str, dict[str, str]]:
    """Return the cells of a row of a Markdown table, as they are, under its labels and its headings."""
    texts, headings = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in (row, header))
    return {", ".join(texts[:labels]): dict(zip(headings[labels:], texts[labels:], strict=True))}
