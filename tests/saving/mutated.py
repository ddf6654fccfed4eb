"""Load and use mutated files of everything that can be saved: none may crash, hang or take all memory.

Files of batches, estimators, kernels, pipelines, classifiers, Gram matrices and stores are changed at random: bytes,
numbers and shapes of arrays, entries of the table of objects. A mutant is loaded and used once, in a process of its
own with a limit of memory. It must work, or raise one error that names the file; wrong numbers that are well formed
may fail later, in an error of the call that meets them.

Run: python -m tests.saving.mutated 3000             (with a library that was built with --sanitize, to find more)
     python -m tests.saving.mutated 1 --first 517    (mutant 517 again, in this process)
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from tests.saving.savable import use, write_all

BYTES = 6 << 30
"""Address space of the process: more than any of the files needs."""
SECONDS, MOST_SECONDS = 2.0, 120.0
"""Processor time of one use, which ends in Python; and the time after which a call does not answer at all."""
INTEGERS = (-1, 0, 1, -7, 3, 255, 10**4, 10**6, 10**9, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-300, 5e-324, 1e9, 2.0**31)
ENTRIES = (None, True, -1, 0, 10**9, 2**31 - 1, -(10**30), 0.5, 1e308, "a0", "x", "", [], {}, {"ref": 0}, [[]], "list")
TYPES = ("<i8", "<i4", "|u1", "<f8", "<f4", "|b1", "<c16", "<U3", ">i8")


# -- mutants -------------------------------------------------------------------------------------------------


def mutate(rng: np.random.Generator, source: Path, target: Path) -> None:
    """Write a changed copy of a file, or of the folder of a store."""
    if source.is_dir():
        shutil.copytree(source, target)
        chosen = sorted(path for path in target.rglob("*") if path.is_file())
        path = chosen[int(rng.integers(len(chosen)))]
        path.write_bytes(_other_bytes(rng, path.read_bytes()))
    elif rng.random() < 0.15:
        target.write_bytes(_other_bytes(rng, source.read_bytes()))
    else:
        _other_content(rng, source, target)


def _other_bytes(rng: np.random.Generator, raw: bytes) -> bytes:
    """Change, remove or insert a few bytes, or cut the rest off."""
    at, kind = int(rng.integers(len(raw) + 1)), rng.integers(4)
    if kind == 0:
        return raw[:at]
    some = rng.bytes(int(rng.integers(1, 9)))
    return raw[:at] + some + raw[at + (len(some) if kind < 3 else 0) :]


def _other_content(rng: np.random.Generator, source: Path, target: Path) -> None:
    with np.load(source) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(bytes(arrays.pop("header")).decode())
    for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
        if arrays and rng.random() < 0.7:
            name = sorted(arrays)[int(rng.integers(len(arrays)))]
            arrays[name] = _other_array(rng, arrays[name])
        else:
            _change_entry(rng, header)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with zipfile.ZipFile(target, "w") as archive:
        for name, array in {"header": text, **arrays}.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _other_array(rng: np.random.Generator, array: Any) -> Any:
    """Return an array with other numbers, mostly, or of another shape or type."""
    if rng.random() < 0.7 and array.size and array.dtype.kind in "iuf":
        changed = array.copy().reshape(-1)
        bad = rng.choice(FLOATS) if array.dtype.kind == "f" else INTEGERS[int(rng.integers(len(INTEGERS)))]
        where = rng.integers(len(changed)) if rng.random() < 0.8 else slice(None)
        with np.errstate(all="ignore"):
            changed[where] = np.asarray(bad).astype(array.dtype)
        return changed.reshape(array.shape)
    others: list[Callable[[], Any]] = [
        lambda: array[:-1], lambda: array[..., :-1], lambda: np.concatenate([array, array[-1:]]), lambda: array[:0],
        lambda: array[None], lambda: array.T, lambda: array.ravel(), lambda: array[::-1], lambda: array.ravel()[0],
        lambda: array.astype(TYPES[int(rng.integers(len(TYPES)))]),
    ]  # fmt: skip
    with suppress(IndexError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return others[int(rng.integers(len(others)))]()
    return np.empty(0)


def _change_entry(rng: np.random.Generator, header: Any) -> None:
    """Put any entry of JSON in the place of another one."""
    places = list(_places(header))
    holder, key = places[int(rng.integers(len(places)))]
    entries = [*ENTRIES, {"ref": int(rng.integers(100))}]
    holder[key] = entries[int(rng.integers(len(entries)))]


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


# -- one mutant ----------------------------------------------------------------------------------------------


class _TooLong(BaseException):
    pass


@contextmanager
def _limited() -> Iterator[None]:
    """End what takes longer than a use may; in a call that does not come back, end the process."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def _stop(*_: Any) -> None:
    raise _TooLong


def outcome(path: Path, name: str) -> str:
    """Load a mutant and use it; return how that ends. A bad end begins with "BAD"."""
    from mercer import load

    try:
        with _limited():
            made = None if path.is_dir() else load(path)
    except _TooLong:
        return "BAD: load takes too long"
    except Exception as error:
        sentence = str(path) in str(error) and "\n" not in str(error)
        return "refused" if sentence else f"BAD: {type(error).__name__} of load without the file: {error}"
    try:
        with _limited():
            use(name, made, path)
    except _TooLong:
        return "used, too long"  # a parameter of 2**31 may mean as many steps
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        if path.is_dir() and str(path) not in str(error):
            return f"BAD: {type(error).__name__} of a store without the folder: {error}"
        return f"used, {'sentence' if 'raise' in (where.line or '') else type(error).__name__}"
    return "used"


def work(folder: Path, seed: int, first: int, stop: int) -> None:
    """Try mutants, and print how each ends."""
    if "ASAN_OPTIONS" not in os.environ:  # sanitizers reserve terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGPROF, _stop)
    warnings.simplefilter("ignore")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".mercer", ".zarr"))
    for i in range(first, stop):
        source = files[i % len(files)]
        target = folder / "mutants" / f"mutant{source.suffix}"
        mutate(np.random.default_rng([seed, i]), source, target)
        print(f"{i} {source.name}", flush=True)
        found = outcome(target, source.stem)
        print(f"={found}".replace("\n", " ")[:500], flush=True)
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)


# -- all of them ---------------------------------------------------------------------------------------------


def run(folder: Path, number: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Try mutants in processes that may crash; return how often each end was, and the bad ones."""
    (folder / "mutants").mkdir(exist_ok=True)
    found: Counter[str] = Counter()
    bad: list[str] = []
    first = 0
    while first < number:
        for left in (folder / "mutants").iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        command = [sys.executable, "-m", "tests.saving.mutated", str(number), "--folder", str(folder)]
        done = subprocess.run(
            [*command, "--seed", str(seed), "--first", str(first)], capture_output=True, text=True, errors="replace"
        )
        current = ""
        for line in done.stdout.splitlines():
            if line[:1].isdigit():
                current = line
                first = int(line.split()[0]) + 1
            elif line.startswith("="):
                found[line[1:] if not line.startswith("=BAD") else "BAD"] += 1
                bad += [f"mutant {current}: {line[1:]}"] * line.startswith("=BAD")
        if done.returncode:
            found["BAD"] += 1
            bad.append(f"mutant {current}: the process ended with {done.returncode}: {done.stderr[-3000:]}")
            if not current:
                break
    return found, bad


def main() -> None:
    """Make files, and try as many mutants as asked; end with an error if one ends badly."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("number", type=int)
    parser.add_argument("--first", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.folder is not None:
        return work(options.folder, options.seed, options.first, options.number)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_all(folder)
        if options.first is not None:
            (folder / "mutants").mkdir()
            return work(folder, options.seed, options.first, options.first + options.number)
        found, bad = run(folder, options.number, options.seed)
    print("\n".join(bad))
    print(f"{sum(found.values())} mutants: {dict(found.most_common())}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
