"""Load and predict with mutants of saved files: ``python mutants.py FOLDER STEP``, in a process that may crash.

The folder has the files of `cases`, by name. In each mutant one array, or one number of the table, is changed; every
``STEP``-th one is tried. The name of the current mutant is in the file ``now``.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import cases as made

import mercer as mc

BYTES = 16 << 30
BAD = (2**31 - 5, -7, 10**6)
SECONDS = 2
"""Time for a prediction: a parameter of 2**31 may mean as many steps, which is slow and not a crash."""


def changed_arrays(array: Any) -> Iterator[Any]:
    """Yield arrays with other numbers or another length."""
    for bad in BAD if array.dtype.kind in "iu" and array.size else ():
        for where in (slice(1), slice(-1, None), slice(None)):
            changed = array.copy()
            with suppress(OverflowError):  # an unsigned integer
                changed.reshape(-1)[where] = bad
                yield changed
    if array.ndim:
        yield array[:-1]
        yield array[..., :-1]
        yield np.concatenate([array, array[-1:]])


def changed_tables(header: Any) -> Iterator[Any]:
    """Yield headers in which one whole number of the table is another one."""

    def walk(node: Any) -> Iterator[Any]:
        for i, entry in enumerate(node):
            if isinstance(entry, list):
                yield from walk(entry)
            elif type(entry) is int:
                for bad in (*BAD, entry + 1):
                    node[i] = bad
                    yield header
                node[i] = entry

    yield from walk(header["nodes"])


def mutants(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield headers and arrays."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(bytes(arrays.pop("header")).decode())
    for name, array in arrays.items():
        for other in changed_arrays(array):
            yield header, {**arrays, name: other}
    for other in changed_tables(header):
        yield other, arrays


def _too_long(*_: Any) -> None:
    raise TimeoutError


def main(folder: Path, step: int) -> None:
    """Try all mutants."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGALRM, _too_long)
    data, known = made.data(), made.cases()
    mutant, number = folder / "mutant.npz", 0
    for path in sorted(folder.glob("*.mercer")):
        X = made.split(data[known[path.stem][1]])[1]
        for i, (header, arrays) in enumerate(mutants(path)):
            number += 1
            if number % step:
                continue
            (folder / "now").write_text(f"{path.stem}, mutant {i}")
            np.savez(mutant, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
            try:
                model = mc.load(mutant)
            except ValueError as error:
                if str(mutant) not in str(error):
                    raise
                continue
            for method in made.METHODS:
                signal.alarm(SECONDS)
                with suppress(Exception):  # wrong numbers may fail, and must not crash
                    if hasattr(model, method):
                        getattr(model, method)(X)
                signal.alarm(0)
    print(number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
