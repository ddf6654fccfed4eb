"""Identical samples: one group for all copies, and a sentence that says that there are some."""

import io

import numpy as np
import pytest
from scipy import sparse

import mercer as mc


def test_groups():
    X = mc.Sequences(["AC", "GG", "AC", "TT", "GG"])
    assert mc.data.identical_groups(X).tolist() == [0, 1, 0, 2, 1]
    assert mc.data.identical_groups(X, groups=list("abccb")).tolist() == [0, 1, 0, 0, 1]
    assert mc.data.identical_groups(X, groups=[1, 2, 3, 4, 5]).tolist() == [0, 1, 0, 2, 1]
    series = [np.array([1.0, np.nan]), np.array([1.0, np.nan]), np.array([1.0])]
    assert mc.data.identical_groups(series).tolist() == [0, 0, 1]
    counts = sparse.csr_array(np.array([[1, 0], [0, 1], [1, 0]]))
    assert mc.data.identical_groups(counts).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"one entry for each of 5 samples; got shape \(2,\)"):
        mc.data.identical_groups(X, groups=[1, 2])


def test_readers_say_it():
    text = ">a|x\nACGT\n>b|x\nACGT\n>c|y\nGGT\n"
    found = mc.read_fasta(io.StringIO(text), labels=1)
    assert "2 of 3 samples are identical" in found.description
    assert "groups=mc.data.identical_groups(X)" in found.description
    together = mc.read_fasta(io.StringIO(text), labels=1, groups={"a|x": 0, "b|x": 0, "c|y": 1})
    assert together.description == ""
    apart = mc.read_fasta(io.StringIO(text), labels=1, groups={"a|x": 0, "b|x": 1, "c|y": 1})
    assert "mc.data.identical_groups(X, groups)" in apart.description
    assert mc.data.identical_groups(apart.X, apart.groups).tolist() == [0, 0, 0]
    table = mc.read_table({"text": ["one two", "one two", "two"]})
    assert "2 of 3 samples are identical" in table.description
