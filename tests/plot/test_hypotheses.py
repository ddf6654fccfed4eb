"""Plots of tests."""

from __future__ import annotations

import pytest

import mercer as mc

FOUND = mc.stats.two_sample_test(["aab", "aba", "abb"], ["bba", "bbb", "abb"], mc.Spectrum(1))


def test_null_distribution_has_all_permutations_and_the_statistic():
    ax = mc.plot.null_distribution(FOUND)
    assert sum(bar.get_height() for bar in ax.patches) == 20
    assert ax.lines[0].get_xdata()[0] == FOUND.statistic


def test_witness_has_a_row_for_each_sample():
    ax = mc.plot.witness(FOUND, names=("before", "after"))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["before", "after"]
    assert sorted(ax.lines[0].get_xdata()) == sorted(FOUND.witness[:3])


@pytest.mark.parametrize(
    ("draw", "match"),
    [
        (lambda: mc.plot.null_distribution(3), "mc.stats; got int"),
        (lambda: mc.plot.witness("x"), "two_sample_test; got str"),
        (lambda: mc.plot.witness(FOUND, names=("a",)), "2 samples"),
    ],
)
def test_bad_input_gets_one_sentence(draw, match):
    with pytest.raises((TypeError, ValueError), match=match):
        draw()
