"""The page "From hmmlearn": its programs run in both libraries and find the same."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc

PAGE = Path(__file__).parents[2] / "docs" / "models" / "from_hmmlearn.md"


def ours(block):
    return "\n".join(line[4:] for line in block.splitlines() if line.startswith((">>> ", "... ")))


@pytest.fixture(scope="module")
def programs():
    pytest.importorskip("hmmlearn")
    if not PAGE.exists():
        pytest.skip("the documentation is not here")
    sections = re.split(r"^## \d\. ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = []
    for section in sections:
        theirs, mine = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
        spaces = {}, {"np": np, "mc": mc}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(theirs, spaces[0])
            exec(ours(mine), spaces[1])
        found.append(spaces)
    return found


def test_the_programs_find_the_same(programs):
    assert len(programs) == 5
    (a, b), (c, d), (e, f), (g, h), (i, j) = programs
    assert_allclose(b["means"], a["means"], atol=0.05)
    same = np.mean(a["states"] == b["states"])
    assert max(same, 1 - same) == 1.0  # states may be numbered otherwise
    assert_allclose(d["total"], c["total"], rtol=0.02)
    assert np.concatenate(d["posterior"]).shape == c["posterior"].shape
    assert_allclose(f["log_prob"][0], e["log_prob"], rtol=1e-12)
    assert_array_equal(f["states"][0], e["states"])
    assert_allclose(f["total"], e["total"], rtol=1e-12)
    assert_allclose(h["stay"], g["stay"], atol=0.06)
    assert i["best"] == j["best"] == 3
    assert_allclose(j["bic"], i["bic"], rtol=0.02)
