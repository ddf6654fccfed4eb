"""The numbers on pages: measure them, measure quick variants again, write them into the pages.

    python benchmarks/results.py list [NAME ...]      # minutes, date and commit of every result
    python benchmarks/results.py measure NAME ...     # the whole and the quick command, from a clean tree
    python benchmarks/results.py quick [NAME ...]     # the quick commands again: what has moved
    python benchmarks/results.py fill                 # write the numbers of results/ into the pages
    python benchmarks/results.py keep NAME ...        # take the numbers on the pages as an earlier measurement

NAME may have wildcards; the environment variable MERCER_DATA names the folder of the data. ``results/NAME.json`` has
the command, its seed, the commit of the clean tree that was measured, the date, the machine, the values, the times
(which no test repeats), and the values of a quick variant of the command with their tolerances, the spread over three
seeds. `_pages` says how numbers stand on pages.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import resource
import runpy
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from _declared import PAPERS, README, RESULTS, Result
from _numbers import flat
from _pages import Cell, Key, PageError, filled, parts, read

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results"
SEEDS = (0, 1, 2)
GIVEN = parts(
    "paper, mehta2010, sd, training series, number, best published kernel, DTW, ROCKET, MultiRocket-Hydra, HIVE-COTE 2"
)
"""Parts of keys of numbers that are quoted or count data, and of spreads: no quick variant repeats them."""
LEAST = 1e-6  # tolerance of values that are the same for all seeds
BUILT = {"_build", "gallery", "generated"}


# -- files ----------------------------------------------------------------------------------------------------------


def load(name: str) -> dict[str, Any]:
    """Read a result file."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def save(name: str, found: dict[str, Any]) -> None:
    """Write a result file: one number per line."""
    text = json.dumps(found, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([^][,\s]+),\s+([^][,\s]+)\s+\]", r"[\1, \2]", text)  # a value and its tolerance
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def on_pages() -> dict[str, dict[Key, Any]]:
    """Return the numbers of all files by their keys."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        content = load(path.stem)
        numbers = {**content["values"], **content.get("times", {})}
        found[path.stem] = {parts(key): value for key, value in numbers.items()}
        if len(found[path.stem]) < len(numbers):
            raise ValueError(f"{path.name} has two numbers with the same parts of their keys.")
    return found


def pages() -> list[Path]:
    """Return README and the pages of the documentation."""
    inside = ROOT / "docs"
    found = [path for path in inside.rglob("*.md") if not BUILT & set(path.relative_to(inside).parts)]
    return [ROOT / "README.md", *sorted(found)]


def fill(path: Path, values: Mapping[str, Mapping[Key, Any]]) -> str:
    """Return a page with the numbers of the files."""
    try:
        return filled(path.read_text(encoding="utf-8"), values)
    except PageError as error:
        raise PageError(f"{path.relative_to(ROOT)}: {error}") from None


# -- git and the machine ---------------------------------------------------------------------------------------------


def git(*arguments: str) -> str:
    """Run git in the repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()


def clean_commit() -> str:
    """Return the commit of the working tree, which must be clean but for results and pages."""
    changed = git("status", "--porcelain", "--", ".", ":!results", ":!*.md")
    if changed:
        raise SystemExit(f"Commit these changes first, so that the commit of the result is true:\n{changed}")
    return git("rev-parse", "HEAD")


def machine() -> str:
    """Describe this machine: cores and processor."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    name = model[1].strip() if model else "an unknown processor"
    article = "an" if name[0] in "AEIO" and name[:2] != "an" else "" if name.startswith("an ") else "a"
    cores = os.cpu_count()
    return f"{cores} cores of {article} {name}".replace("  ", " ") + (" with AVX-512" if "avx512f" in text else "")


# -- measuring ------------------------------------------------------------------------------------------------------


def run(result: Result, arguments: str) -> dict[str, Any]:
    """Run a command in a process of its own, and return its numbers and CPU minutes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "numbers.json"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, str(ROOT / result.script), *arguments.split(), "--json", str(file)]
        subprocess.run(command, check=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads(file.read_text(encoding="utf-8"))
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {part: dict(flat(found.get(part, {}))) for part in ("values", "times")} | {
        "cpu_minutes": round(spent / 60, 1)
    }


def quick(result: Result, seed: int = 0) -> dict[str, float]:
    """Run the quick command in this process, and return its numbers: imports would take as long again."""
    script = ROOT / result.script
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = Path(folder) / "numbers.json"
        words = [str(script), *str(result.quick).split(), "--seed", str(seed), "--json", str(file)]
        stack.enter_context(mock.patch.object(sys, "argv", words))
        stack.enter_context(mock.patch.object(sys, "path", [str(script.parent), *sys.path]))
        stack.enter_context(warnings.catch_warnings())
        for stream in (contextlib.redirect_stdout, contextlib.redirect_stderr):
            stack.enter_context(stream(io.StringIO()))
        runpy.run_path(str(script), run_name="__main__")
        found = json.loads(file.read_text(encoding="utf-8"))
    numbers = flat(found["values"])
    return {key: value for key, value in numbers if not isinstance(value, str) and not parts(key) & GIVEN}


def quick_record(result: Result) -> dict[str, Any] | None:
    """Measure the quick values, and their spread over three seeds.

    Three seeds say little about the spread of one value: it counts as at least the median of the spreads that are not
    zero.
    """
    if result.quick is None:
        return None
    begin = time.process_time()
    runs = [quick(result, seed) for seed in SEEDS]
    seconds = (time.process_time() - begin) / len(SEEDS)
    spread = {key: float(np.ptp([one[key] for one in runs])) for key in runs[0]}
    least = float(np.median([one for one in spread.values() if one > LEAST] or [LEAST]))
    values = {key: [value, float(f"{max(spread[key], least):.3g}")] for key, value in runs[0].items()}
    command = result.command(result.quick)
    return {"command": command, "seeds": list(SEEDS), "cpu_seconds": round(seconds, 1), "values": values}


def moved(name: str) -> list[str]:
    """Measure the quick values of a result again, and describe those that have moved."""
    result, recorded = RESULTS[name], load(name)["quick"]["values"]
    known = {key: value for key, value in recorded.items() if not parts(key) & GIVEN}
    found = quick(result)
    lines = [f"{key} is new" for key in found.keys() - known.keys()]
    lines += [f"{key} is gone" for key in known.keys() - found.keys()]
    for key, (value, tolerance) in known.items():
        if key in found and not abs(found[key] - value) <= tolerance:
            lines.append(f"{key} is {found[key]:.3g}, and was {value:.3g} with a tolerance of {tolerance:.2g}")
    return lines


def measure(name: str, commit: str, *, quick_only: bool = False) -> None:
    """Measure a result, whole and quick, and write its file."""
    result = RESULTS[name]
    if result.kept:
        print(f"The earlier measurement stays: {result.kept}", flush=True)
        return
    if quick_only:
        found = load(name)
    else:
        numbers = run(result, result.arguments)
        found = {"command": result.command(), "seed": result.seed, "commit": commit}
        found["date"] = date.today().isoformat()
        found |= {"machine": machine(), **numbers}
    found.pop("quick", None)
    save(name, {**found, "quick": quick_record(result)})


# -- earlier measurements, as they stand on the pages ----------------------------------------------------------------


def lines_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield text, commit and date of every line of a page that is committed."""
    blamed = git("blame", "--line-porcelain", "HEAD", "--", str(path.relative_to(ROOT)))
    commit = day = ""
    for line in blamed.splitlines():
        if re.match(r"[0-9a-f]{40} ", line):
            commit = line.split()[0]
        elif line.startswith("committer-time "):
            day = date.fromtimestamp(int(line.split()[1])).isoformat()
        elif line.startswith("\t"):
            yield bare(line), commit, day


def bare(line: str) -> str:
    return re.sub(r"<!--.*?-->|[*`\s]", "", line)


def keep(names: list[str]) -> None:
    """Write files with the numbers that stand on the pages, and the commit that changed their lines last."""
    stamps: dict[str, tuple[str, str]] = {}
    cells: list[Cell] = []
    for path in pages():
        cells += read(path.read_text(encoding="utf-8"))
        for text, commit, day in lines_of(path):
            stamps[text] = max(stamps.get(text, ("", "")), (day, commit))
    for name in names:
        own = [cell for cell in cells if name == cell.files[0]]
        result = RESULTS[name]
        values: dict[str, Any] = {}
        for cell in sorted(own, key=lambda cell: len(cell.text.partition(".")[2])):  # the most digits last
            values[", ".join(sorted(cell.key))] = cell.text
        day, commit = max((stamps[bare(cell.line)] for cell in own if bare(cell.line) in stamps), default=("", ""))
        found = {"command": result.command(), "seed": result.seed, "commit": commit, "date": day}
        kept = "typed from the page, whose numbers changed last with this commit; not measured by this script"
        before = load(name)["quick"] if (FOLDER / f"{name}.json").exists() else None
        save(name, {**found, "machine": "not recorded", "kept": kept, **_sorted(result, values), "quick": before})


def _sorted(result: Result, texts: dict[str, str]) -> dict[str, Any]:
    """Put numbers where a measurement puts them: times are what ``bench_`` scripts print, or have a unit of time."""
    timed = Path(result.script).name.startswith("bench_")
    found: dict[str, Any] = {"values": {}, "times": {}}
    for key, text in texts.items():
        is_time = timed or "seconds" in parts(key) or re.search(r"\d ?(ms|us|µs|s)\b", text)
        found["times" if is_time else "values"][key] = _number(text)
    return found


def _number(text: str) -> float | str:
    match = re.fullmatch(r"(-?[\d,]*\.?\d+) ?(%|ms|us|µs|s|)", text)
    scale = {"%": 100.0, "ms": 1e3, "us": 1e6, "µs": 1e6}
    return float(f"{float(match[1].replace(',', '')) / scale.get(match[2], 1.0):.6g}") if match else text


# -- commands -------------------------------------------------------------------------------------------------------


def chosen(patterns: list[str]) -> list[str]:
    """Return the results that the command line names, or all of them."""
    names = [name for name in RESULTS if any(fnmatchcase(name, one) for one in patterns)]
    unknown = [one for one in patterns if not any(fnmatchcase(name, one) for name in RESULTS)]
    if unknown:
        raise SystemExit(f"There is no result {unknown[0]!r}. Use some of: {', '.join(RESULTS)}.")
    return names or list(RESULTS)


def show(names: list[str]) -> None:
    """Print when and where the results were measured."""
    for name in names:
        file = FOLDER / f"{name}.json"
        about = "never measured"
        if file.exists():
            found = load(name)
            about = f"{found['date']} {found['commit'][:10]}{' (from the page)' if 'kept' in found else ''}"
        result = RESULTS[name]
        print(f"{name:34} {result.minutes:5g} min  {about:38} {result.command()}")
    print(f"about {sum(RESULTS[name].minutes for name in names):.0f} CPU minutes")


def main(arguments: list[str] | None = None) -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["list", "measure", "quick", "fill", "keep"])
    parser.add_argument("names", nargs="*", help="results; all of them by default")
    parser.add_argument("--papers", action="store_true", help="only results of the papers' pages and of README")
    parser.add_argument("--quick-only", action="store_true", help="measure: the quick values only")
    given = parser.parse_intermixed_args(arguments)
    names = [name for name in chosen(given.names) if not given.papers or name in {**PAPERS, **README}]
    if given.command == "list":
        show(names)
    elif given.command == "keep":
        keep(names)
    elif given.command == "measure":
        commit = clean_commit()
        show(names)
        for name in names:
            print(f"\n== {name}", flush=True)
            measure(name, commit, quick_only=given.quick_only)
    elif given.command == "quick":
        for name in names:
            if RESULTS[name].quick is not None:
                print("\n".join([name, *(f"  {line}" for line in moved(name))]), flush=True)
            elif RESULTS[name].not_repeated:
                print(f"{name}: not measured again: {RESULTS[name].not_repeated}", flush=True)
    else:
        values = on_pages()
        for path in pages():
            text = fill(path, values)
            if text != path.read_text(encoding="utf-8"):
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
