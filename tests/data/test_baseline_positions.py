"""The plain baseline for aligned strings: which symbol stands where."""

from __future__ import annotations

import numpy as np

import mercer as mc
from mercer._comparison.recipes import ContenderFactory, contenders
from mercer.data.baseline_features import Positions


def test_every_position_has_a_column_for_every_symbol():
    X = mc.Sequences(["ACG", "TTA"], alphabet="dna")
    features = Positions().fit(X)
    found = features.transform(X).reshape(2, 3, -1)
    np.testing.assert_array_equal(found.argmax(axis=2), [[0, 1, 2], [3, 3, 0]])
    np.testing.assert_array_equal(found.sum(axis=2), 1)
    new = features.transform(mc.Sequences(["ACGT", "A"], alphabet="dna")).reshape(2, 3, -1)
    np.testing.assert_array_equal(new.sum(axis=2), [[1, 1, 1], [1, 0, 0]])


def test_only_strings_of_one_length_have_this_baseline():
    for strings, expected in ((["ACG", "TTA"], True), (["ACG", "TT"], False)):
        names = [c.name for c in contenders(mc.Sequences(strings, alphabet="dna"), ContenderFactory())]
        assert ("linear, positions" in names) is ("Oligo" in names) is expected
    long = mc.Sequences(["ACGT" * 200, "TTGA" * 200], alphabet="dna")
    assert "Oligo" not in [c.name for c in contenders(long, ContenderFactory())]
