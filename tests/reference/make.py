"""Write the values of all cases to ``values.npz``: ``python -m tests.reference.make``, in the root of the repository.

The stored values are those of another implementation. Run this again only for a case that is new, or whose values were
wrong: ``python -m tests.reference.make NAME ...`` replaces the cases of these names and keeps all others. Equal values
make equal files.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from tests.reference.cases import CASES, stored

FILE = Path(__file__).with_name("values.npz")


def main(names: list[str]) -> None:
    """Compute cases, all of them if no name is given."""
    kept = dict(np.load(FILE)) if names and FILE.exists() else {}
    values = {key: value for key, value in kept.items() if key.partition("/")[0] not in names}
    for name in names or CASES:
        values |= stored(name, CASES[name].compute())
    with zipfile.ZipFile(FILE, "w") as archive:
        for key in sorted(values):
            content = io.BytesIO()
            np.lib.format.write_array(content, values[key])
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), content.getvalue(), zipfile.ZIP_DEFLATED)  # without a date
    print(f"{len(CASES)} cases, {len(values)} arrays, {FILE.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
