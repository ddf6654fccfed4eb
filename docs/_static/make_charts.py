"""Draw the numbers of README.md and of docs/speed.md, which are read from these pages, for wide and narrow screens.

Run: python docs/_static/make_charts.py.
"""

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures import STYLE, shrink

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OURS, OTHERS = "#0072B2", "#999999"
UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0}
NUMBER = re.compile(r"([\d.]+) ?(ms|s)?\b ?(.*)")
# Label, beginning of a row of docs/speed.md, column of its ratio (negative: of both times), the other library.
SPEED = (
    ("networks, probability product", "`ProbabilityProduct` of networks", 4, "pgmpy's factors"),
    ("strings, spectrum kernel", "strkernels 18 s (", 0, "strkernels"),
    ("Baum-Welch, 1,000 models of symbols", "2 symbols, T = 100", 5, "hmmlearn"),
    ("Baum-Welch, 1,000 Gaussian models", "Gaussian, d = 3, T = 100", 5, "hmmlearn"),
    ("Fisher scores of a hidden Markov model", "Fisher scores, diagonal", 4, "dynamax, jax.grad"),
    ("EM of linear systems", "EM, 500 series of 100", 4, "dynamax"),
    ("density estimates, mean map", "KeOps 2.3 on the CPU", 3, "KeOps"),
    ("posteriors of a hidden Markov model", "posteriors, diagonal", 4, "dynamax"),
    ("embedded hidden Markov model, fit", "`fit`, 5,000 points", -2, "kooplearn"),
    ("log-likelihoods of a hidden Markov model", "log-likelihoods, diagonal", 4, "dynamax"),
)


def quantity(text: str) -> tuple[float, str]:
    """Return the number of ".082", "3.5 s" or "11 ms" in front of a name, and the name."""
    found = NUMBER.match(text.strip())
    assert found is not None, text
    return float(found[1]) * UNITS[found[2] or ""], found[3]


def words_of(page: str) -> str:
    """Return a page without its comments, which say what file a number is from."""
    return re.sub(r"<!--.*?-->", "", (ROOT / page).read_text(encoding="utf-8"))


def results() -> list[tuple[str, list[tuple[float, str]]]]:
    """Return the rows of "In numbers": what, and the values with the names of the methods, ours first."""
    text = words_of("README.md").partition("## In numbers")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    return [(what, [(quantity(own)[0], "mercer"), *map(quantity, other.split(", "))]) for what, own, other, _ in rows]


def draw_results(ax, rows) -> None:
    """Draw a bar per method; the longest bar of every row has the same length."""
    y = 0.0
    for what, values in rows:
        y -= 0.5
        ax.annotate(what, (0, y), va="center", fontsize=9.5)
        for value, name in values:
            y -= 0.75
            color = OURS if name == "mercer" else OTHERS
            ax.barh(y, value / max(v for v, _ in values), 0.5, color=color)
            shown = f"{value:.3f}".lstrip("0") if "error" in what else f"{value:g} s"
            text = f"{shown}  {name.replace('`', '')}"
            ax.annotate(text, (value / max(v for v, _ in values), y), (5, 0), textcoords="offset points", va="center",
                        fontsize=9, color=OURS if name == "mercer" else "0.35")  # fmt: skip
        y -= 0.75
    ax.set(xlim=(0, 1.75), ylim=(y + 0.3, 0))
    ax.set_axis_off()


def draw_both(name: str, shape: tuple[int, int], size: tuple[float, float]) -> None:
    rows = results()
    heights = {"height_ratios": [11.2, 6.6]} if shape[0] == 2 else {}  # bars of one width
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", **heights)
    for ax, some in zip(axes, (rows[:3], rows[3:]), strict=True):
        draw_results(ax, some)
    if shape[0] == 1:
        axes[1].set_ylim(axes[0].get_ylim())
    save(figure, name)


def speed() -> list[tuple[str, float, str]]:
    """Return what, how many times as fast, and as what, from the tables of the page."""
    lines = words_of("docs/speed.md").splitlines()
    found: list[tuple[str, float, str]] = []
    for what, begin, column, library in SPEED:
        if column:
            row = next(line for line in lines if line.startswith(f"| {begin}"))
            cell = row.strip("| ").split("|")[abs(column) - 1]
        else:  # in a sentence
            cell = next(line.partition(begin)[2] for line in lines if begin in line)
        numbers = [float(number.replace(",", "")) for number in re.findall(r"[\d.,]*\d", cell)]
        found.append((what, numbers[0] if column >= 0 else round(numbers[1] / numbers[0], 2), library))
    return sorted(found, key=lambda one: one[1])


def draw_speed(name: str, size: tuple[float, float]) -> None:
    rows = speed()
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    ax.barh(range(len(rows)), [ratio for _, ratio, _ in rows], 0.36, color=OURS)
    for i, (what, ratio, library) in enumerate(rows):
        ax.annotate(what, (1, i + 0.42), (3, 0), textcoords="offset points", va="center", fontsize=9.5)
        shown = f"{ratio:,g} × {library}"
        ax.annotate(shown, (ratio, i), (5, 0), textcoords="offset points", va="center", fontsize=9, color="0.35")
    ax.set(xscale="log", xlim=(1, 30_000), ylim=(-0.4, len(rows) - 0.2), yticks=[])
    ax.set_xlabel("times as fast as the other library")
    save(figure, name)


def save(figure, name: str) -> None:
    figure.savefig(HERE / f"{name}.png")
    shrink(HERE / f"{name}.png", HERE / f"{name}.png")
    plt.close(figure)


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        draw_both("results", (1, 2), (8, 2.7))
        draw_both("results_narrow", (2, 1), (4, 4.6))
        draw_speed("speed", (8, 4.3))
        draw_speed("speed_narrow", (4, 4.8))
