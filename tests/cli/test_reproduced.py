"""How results of a reproduction are printed, drawn and written."""

from __future__ import annotations

import pytest
from rich.console import Console

from mercer.cli._reproduced import table_of
from mercer.papers._figures import draw
from mercer.papers._results import Cell, Curve, Figure, Place, flat

CURVES = [
    Curve("small", "linear", (0.0, 1.0), (0.2, 0.1), (0.01, 0.02), chosen=0.123, paper="18 %"),
    Curve("small", "ours", (0.0, 1.0), (0.15, 0.05), (0.01, 0.02)),
    Curve("large", "linear", (1.0, 2.0), (0.3, 0.25), (0.0, 0.0)),
]
PLACES = [
    Place("a", "birds", "wren", 0.5, -1.0),
    Place("a", "birds", "owl", 1.5, 1.0),
    Place("a", "plants", "fern", 0, 0),
]
CELLS = [
    Cell("t", "PPK", 0.1, 0.01, 0.09, "C=1", 0.2),
    Cell("t", "own", 0.3, 0.01, 0.2, "C=1", None),
]
FIGURE = Figure("Errors", "Nothing differs.", "log C", log_y=True)


def printed(results):
    console = Console(width=120, record=True)
    console.print(table_of(results))
    return console.export_text()


def test_curves_are_printed_along_their_axis():
    lines = [line.split() for line in printed(CURVES).splitlines()]
    heading = next(line for line in lines if "method" in line)
    assert [word for word in heading if word in ("0", "1", "2", "chosen", "paper")] == [
        "0",
        "1",
        "2",
        "chosen",
        "paper",
    ]
    first = next(line for line in lines if ".200" in line)
    assert [word for word in first if word.startswith(".")] == [".200", ".100", ".123"]
    assert "18" in first


def test_places_are_averaged_by_group():
    birds = next(line for line in printed(PLACES).splitlines() if "birds" in line)
    assert "2" in birds.split()
    assert "1.000" in birds
    assert "0.000" in birds


def test_curves_have_a_panel_each_and_one_style_per_method():
    figure = draw(FIGURE, CURVES)
    small, large = figure.axes
    assert [small.get_title(), large.get_title()] == ["small", "large"]
    assert [small.get_ylabel(), large.get_ylabel()] == ["test error", ""]
    assert small.get_yscale() == "log"
    colors = [[line.lines[0].get_color() for line in ax.containers] for ax in (small, large)]
    assert colors[0][0] == colors[1][0] != colors[0][1]


def legend_of(figure) -> list[str]:
    (legend,) = (ax.get_legend() for ax in figure.axes if ax.get_legend())
    return [text.get_text() for text in legend.get_texts()]


def test_the_legend_names_what_any_panel_has():
    later = Curve("large", "late", (1.0, 2.0), (0.3, 0.25), (0.0, 0.0))
    assert legend_of(draw(FIGURE, [*CURVES, later])) == ["linear", "ours", "late"]
    elsewhere = Place("b", "fungi", "morel", 1.0, 1.0)
    assert legend_of(draw(FIGURE, [*PLACES, elsewhere])) == ["birds", "fungi", "plants"]


@pytest.mark.parametrize(("n", "grid"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3))])
def test_many_panels_are_in_two_rows(n, grid):
    curves = [Curve(f"panel {i}", f"line {i}", (0.0, 1.0), (0.2, 0.1), (0.0, 0.0)) for i in range(n)]
    figure = draw(FIGURE, curves)
    assert [ax.get_title() for ax in figure.axes] == [f"panel {i}" for i in range(n)]
    assert figure.axes[0].get_gridspec().get_geometry() == grid
    assert [bool(ax.get_ylabel()) for ax in figure.axes] == [i % grid[1] == 0 for i in range(n)]
    assert legend_of(figure) == [f"line {i}" for i in range(n)]


def test_no_two_of_sixteen_lines_look_alike():
    curves = [Curve("one", f"line {i}", (0.0, 1.0), (0.2, 0.1), (0.0, 0.0)) for i in range(16)]
    (ax,) = draw(FIGURE, curves).axes
    lines = [container.lines[0] for container in ax.containers]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 16


def test_places_are_drawn_by_group():
    (ax,) = draw(FIGURE, PLACES).axes
    assert [len(points.get_offsets()) for points in ax.collections] == [2, 1]


def test_cells_are_drawn_against_the_papers():
    (ax,) = draw(FIGURE, CELLS).axes
    (points,) = ax.collections  # what the paper does not have is left out
    assert points.get_offsets().tolist() == [[0.2, 0.1]]


@pytest.mark.parametrize(("result", "rows"), [(CURVES[0], 2), (PLACES[0], 1), (CELLS[0], 1)])
def test_files_have_one_row_a_point(result, rows):
    found = flat(result)
    assert len(found) == rows
    assert all(not isinstance(value, tuple) for row in found for value in row.values())
