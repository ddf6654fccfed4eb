"""The picture of posterior matches: its image, letters, path, and what is refused."""

import matplotlib
import numpy as np
import pytest

from mercer.models._pairs.matches import Matches

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from mercer import plot


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def some(n=3, m=2):
    W = np.zeros((n, m))
    W[0, 0], W[2, 1] = 0.9, 0.4
    return Matches("ACGT"[:n] if n <= 4 else "A" * n, "AG"[:m] if m <= 2 else "G" * m, W, -2.0)


def test_image_letters_and_path():
    ax = plot.matches(some())
    np.testing.assert_array_equal(ax.images[0].get_array(), some().probability)
    assert ax.images[0].get_clim() == (0.0, 1.0)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["A", "C", "G"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["A", "G"]
    assert ax.lines[0].get_xdata().tolist() == [0, 1]
    assert ax.lines[0].get_ydata().tolist() == [0, 2]
    assert ax.get_ylim() == (2.5, -0.5)  # the first symbol on top
    assert "1.3 matches" in ax.get_title()


def test_long_sequences_have_positions():
    ax = plot.matches(some(70, 2))
    ax.figure.canvas.draw()
    assert "A" not in [t.get_text() for t in ax.get_yticklabels()]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["A", "G"]


def test_given_axes():
    _, ax = plt.subplots()
    assert plot.matches(some(), ax=ax) is ax


def test_symbols_are_no_formulas():
    ax = plot.matches(Matches(["$x_1$"], ["$\\alpha"], np.ones((1, 1)), -1.0))
    labels = [*ax.get_yticklabels(), *ax.get_xticklabels()]
    assert [t.get_text() for t in labels] == ["$x_1$", "$\\alpha"]
    assert not any(t.get_parse_math() for t in labels)
    ax.figure.canvas.draw()


def test_no_match_has_no_path():
    ax = plot.matches(Matches("A", "C", np.zeros((1, 1)), -1.0))
    assert len(ax.lines[0].get_xdata()) == 0


def test_refused():
    with pytest.raises(TypeError, match=r"result of model\.matches\(first, second\) .* got"):
        plot.matches(np.eye(3))
    with pytest.raises(ValueError, match="must be nonempty; one is empty"):
        plot.matches(Matches("", "A", np.empty((0, 1)), -1.0))
