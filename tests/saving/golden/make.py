"""Write the golden pipelines: ``python tests/saving/golden/make.py``. Never overwrite those of an old format.

The answers of the day are in the metadata of each file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import mercer as mc

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))
import cases as made  # noqa: E402

NAMES = (
    "spectrum-svc", "spectrum-svr", "fisher-calibrated", "search", "gpr-mercer", "series", "columns", "kernelpca",
    "sum", "landmarks", "words", "ridge", "ridge-confounds", "features",
)  # fmt: skip


def main() -> None:
    """Write files that do not exist yet."""
    data, cases = made.data(), made.cases()
    for name in NAMES:
        path = FOLDER / "v1" / f"{name}.mercer"
        if path.exists():
            continue
        model, inputs, target = cases[name]
        (known, new), (y, _) = made.split(data[inputs]), made.split(data[target])
        model.fit(known, y)
        methods = [method for method in ("predict", "predict_proba", "decision_function") if hasattr(model, method)]
        answers = {method: np.asarray(getattr(model, method)(new)).tolist() for method in methods}
        mc.save(model, path, metadata={"data": inputs, "answers": answers})


if __name__ == "__main__":
    main()
