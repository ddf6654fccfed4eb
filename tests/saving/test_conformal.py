"""The page on saving shows conformal intervals with MAPIE; its code runs where MAPIE is installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

import mercer as mc
from mercer.datasets import make_dna

PAGE = Path(__file__).parents[2] / "docs" / "saving.md"


def test_intervals_of_the_page():
    pytest.importorskip("mapie.regression", reason="MAPIE is not installed: pip install mapie")
    text = PAGE.read_text(encoding="utf-8")
    block = re.search(r"<!-- not run: needs MAPIE -->\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    X, _ = make_dna(60, random_state=0)
    target = np.array([float(x.count("G")) for x in X])
    regressor = make_pipeline(mc.Spectrum(2), SVR(kernel="precomputed", C=100)).fit(X[:30], target[:30])
    found = {"mc": mc, "X": X, "target": target, "regressor": regressor}
    exec(block[1], found)
    assert found["prediction"].shape == (10,)
    low, high = found["intervals"][:, 0, 0], found["intervals"][:, 1, 0]
    assert ((low <= target[50:]) & (target[50:] <= high)).mean() >= 0.8
