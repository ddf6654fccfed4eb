"""Numbers on pages: they are those of the result files, and quick variants of their commands still give the same."""

from __future__ import annotations

import importlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import results
from _numbers import cells
from _pages import PageError, filled, parts, read, strays
from results import FOLDER, PAPERS, README, RESULTS, ROOT

FILES = sorted(path.stem for path in FOLDER.glob("*.json"))
QUICK_SECONDS = 120
"""CPU seconds of all quick variants together."""
NOT_MOVED_YET: set[str] = {
    "docs/stats.md: Level and power",
}
"""Pages and headings of tables with numbers that no file is behind; the list only gets shorter."""


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", results.pages(), ids=page_name)
def test_pages_have_the_numbers_of_the_files(path: Path):
    text = path.read_text(encoding="utf-8")
    assert results.fill(path, results.on_pages()) == text, "run: python benchmarks/results.py fill"


def test_every_measured_table_comes_from_a_file():
    found: dict[str, list[str]] = {}
    for path in results.pages():
        for heading, line in strays(path.read_text(encoding="utf-8")):
            found.setdefault(f"{page_name(path)}: {heading}", []).append(line)
    new = {place: lines[0] for place, lines in found.items() if place not in NOT_MOVED_YET}
    assert not new, f"no result file is behind these numbers; see 'Numbers on pages' in CONTRIBUTING.md: {new}"
    assert not NOT_MOVED_YET - set(found), "these are moved: remove them from the list"


def test_every_result_has_a_file_and_is_on_a_page():
    assert set(FILES) == set(RESULTS)
    shown = {name for path in results.pages() for cell in read(path.read_text(encoding="utf-8")) for name in cell.files}
    assert shown == set(RESULTS)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_small_and_complete(name: str):
    file, found = FOLDER / f"{name}.json", results.load(name)
    assert file.stat().st_size <= 20_000
    assert {"command", "seed", "commit", "date", "machine", "values", "times", "quick"} <= found.keys()
    result = RESULTS[name]
    assert found["command"] == result.command()
    assert (ROOT / result.script).is_file() if result.script else result.stays
    assert found["values"] or found["times"]
    if result.quick is None:
        assert not found["values"] or result.not_repeated, "values, which are no times, need a quick variant"
        assert found["quick"] is None
    else:
        quick = found["quick"]
        assert quick["command"] == result.command(result.quick)
        assert quick["seeds"] == list(results.SEEDS)
        assert quick["values"]
        assert all(tolerance > 0 for _, tolerance in quick["values"].values())


def test_quick_variants_are_quick():
    seconds = [found["quick"]["cpu_seconds"] for found in map(results.load, FILES) if found["quick"]]
    assert sum(seconds) <= QUICK_SECONDS


@pytest.mark.parametrize("name", FILES)
def test_the_commit_is_in_the_history(name: str):
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)

    try:
        history = git("rev-parse", "--is-shallow-repository").stdout.strip()
    except OSError:
        history = ""
    if history != "false":
        pytest.skip("needs git and the whole history")
    commit = results.load(name)["commit"]
    assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, f"{commit} is not in the history"


@pytest.mark.slow
@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("name", [name for name in FILES if results.load(name)["values"]])
def test_quick_values_have_not_moved(name: str):
    if RESULTS[name].quick is None:
        pytest.skip(f"no quick variant: {RESULTS[name].not_repeated}")
    lines = results.moved(name)
    assert not lines, (
        f"{'; '.join(lines)}. Measure all of it again, from a clean tree: python benchmarks/results.py measure {name} "
        f"({RESULTS[name].command()}), then: python benchmarks/results.py fill, and read the page"
    )


class TestMoved:
    RESULT = results.Result("benchmarks/none.py", "all", "some", 1)

    @pytest.fixture
    def file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(results, "FOLDER", tmp_path)
        monkeypatch.setitem(RESULTS, "one", self.RESULT)
        errors = {
            0: {"a": 0.1, "b": 0.2, "c": 0.3},
            1: {"a": 0.12, "b": 0.2, "c": 0.33},
            2: {"a": 0.11, "b": 0.2, "c": 0.3},
        }
        monkeypatch.setattr(results, "quick", lambda result, seed=0: errors[seed])
        results.save("one", {"quick": results.quick_record(self.RESULT)})

    def test_the_spread_of_three_seeds_is_the_tolerance(self, file: None):
        quick = results.load("one")["quick"]
        assert quick["values"] == {"a": [0.1, 0.025], "b": [0.2, 0.025], "c": [0.3, 0.03]}  # a, b: the median
        assert quick["command"] == "python benchmarks/none.py some"
        assert results.moved("one") == []

    def test_a_moved_value_is_named(self, file: None, monkeypatch: pytest.MonkeyPatch):
        for found, line in (
            ({"a": 0.13, "b": 0.2, "c": 0.3}, "a is 0.13, and was 0.1 with a tolerance of 0.025"),
            ({"a": float("nan"), "b": 0.2, "c": 0.3}, "a is nan"),
            ({"b": 0.2, "c": 0.3}, "a is gone"),
            ({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.3}, "d is new"),
        ):
            monkeypatch.setattr(results, "quick", lambda result, found=found: found)
            (one,) = results.moved("one")
            assert one.startswith(line)

    def test_quoted_numbers_and_spreads_are_not_compared(self, file: None, monkeypatch: pytest.MonkeyPatch):
        found = results.load("one")
        found["quick"]["values"] |= {"a, ROCKET": [0.9, 0.01], "a, sd": [0.1, 0.01]}
        results.save("one", found)
        assert results.moved("one") == []


class TestKept:
    def test_why_an_earlier_measurement_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
        monkeypatch.setattr(results, "FOLDER", tmp_path)
        for given, reason in (
            ({"stays": "a GPU"}, "a GPU"),
            ({"needs": "no_such_module"}, "no_such_module is not installed"),
        ):
            monkeypatch.setitem(RESULTS, "one", results.Result("benchmarks/none.py", "", None, 1, **given))
            results.measure("one", "abc")
            assert reason in capsys.readouterr().out
            assert not list(tmp_path.iterdir())

    def test_why_values_are_not_repeated(self):
        one = results.Result("benchmarks/none.py", "all --seed 3", None, 1)
        assert one.not_repeated == ""
        assert one.seed == 3
        assert replace(one, no_quick="too long").not_repeated == "too long"
        assert replace(one, needs="aeon tslearn").not_repeated == "needs aeon and tslearn"

    def test_times_are_kept_apart(self):
        texts = {"a, error": ".12", "a, seconds": ".5", "a, fit": "12 µs", "a, shown": "1.5 s (two: 2 s)"}
        found = results._sorted(results.Result("benchmarks/none.py", "", None, 1), texts)
        assert found == {
            "values": {"a, error": 0.12},
            "times": {"a, seconds": 0.5, "a, fit": 1.2e-5, "a, shown": "1.5 s (two: 2 s)"},
        }
        timed = results._sorted(results.Result("benchmarks/bench_none.py", "", None, 1), texts)
        assert not timed["values"]


def test_cells_of_a_printed_table():
    header = "| kernel | n | seconds |"
    assert cells("| a | 10 | 1.5 s |\n", header, labels=2) == {"a, 10": {"seconds": "1.5 s"}}


VALUES = {
    "errors": {
        parts(key): value
        for key, value in {
            "human, words, K=1, best": 0.2864,
            "human, words, K=1, chosen": 0.3,
            "human, words, K=2, best": 0.2021,
            "human, words, K=2, chosen": 0.2114,
            "K=1, paper": "34 %",
            "fly, 0.1": 1.5,
            "fly, 1000": 0.25,
        }.items()
    },
    "seconds": {parts("fit"): 0.0603, parts("score"): 0.0114},
}


class TestPages:
    def test_a_table(self):
        text = (
            "<!-- result: errors; at: human; cells: best / chosen; bold: columns -->\n"
            "| error | *words* | paper |\n|---|--:|---|\n| `K=1` | | |\n| K=2 | .1 / .1 | worse |\n<!-- end -->\n"
        )
        # `paper` has no "human": a table with `at` finds only what has it
        out = filled(text, VALUES)
        assert "| `K=1` | .286 / .300 |  |\n| K=2 | .2 / .2 | worse |\n<!-- end -->\n" in out
        assert filled(out, VALUES) == out

    def test_labels_digits_words_and_bold(self):
        head = "<!-- result: errors; bold: rows -->\n"
        table = "| x | .1 | 1,000 |\n|---|--:|--:|\n| fly | 9.99 | .99 |\n"
        out = filled(f"{head}{table}<!-- end -->", VALUES)
        assert "| fly | 1.50 | **.25** |" in out
        assert filled(out, VALUES) == out
        head = "<!-- result: errors; labels: 2; at: words -->\n"
        table = "| | | best |\n|---|---|--:|\n| human | K=1 | |\n|  | K=2 | |\n"
        assert "| human | K=1 | .286 |\n|  | K=2 | .202 |\n" in filled(f"{head}{table}<!-- end -->", VALUES)

    def test_a_sentence(self):
        text = (
            "Errors of **.2**<!-- errors: human, words, K=2, best --> (paper: 3 %<!-- errors: K=1, paper -->), in "
            "9 ms<!-- seconds: score -->, 0.5 s<!-- seconds: fit -->, 0.2<!-- errors: human, words, K=1, chosen -->."
        )
        out = filled(text, VALUES)
        assert out.startswith("Errors of **.2**<!--")
        assert "34 %<!--" in out
        assert "11 ms<!--" in out
        assert "0.060 s<!--" in out
        assert "0.3<!--" in out

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "<!-- result: errors -->\n| | fly |\n|---|---|\n| 2,000 | .5 |\n<!-- end -->",
                "'.5' has no number in errors",
            ),
            ("<!-- result: none -->\n| | fly |\n|---|---|\n| 1,000 | .5 |\n<!-- end -->", "no result file 'none'"),
            (
                "<!-- result: errors; bald: rows -->\n| | fly |\n|---|---|\n| 1,000 | .5 |\n<!-- end -->",
                "Unknown option",
            ),
            ("<!-- result: errors -->\n\nNo table.", "needs a table right below"),
            (".5<!-- errors: fly, 3 -->", "errors has no number under 'fly, 3'"),
            ("five<!-- errors: fly, 0.1 -->", "must stand right behind a number"),
        ],
    )
    def test_what_cannot_be_filled_is_said(self, text: str, message: str):
        with pytest.raises(PageError, match=message):
            filled(text, VALUES)

    def test_links_belong_to_no_name(self):
        assert parts("[traits](a/b.md), [2]", "`K=1`") == frozenset({"traits", "[2]", "k=1"})
        out = filled("<!-- result: seconds -->\n| | fit |\n|---|--:|\n| [all](x.md) | 1 ms |\n<!-- end -->", {
            "seconds": {parts("all, fit"): 0.0207}
        })  # fmt: skip
        assert "| [all](x.md) | 21 ms |" in out

    def test_what_rounds_to_zero(self):
        text = "<!-- result: seconds -->\n| | fit |\n|---|--:|\n| all | < .01 |\n<!-- end -->"
        for value, cell in ((0.004, "< .01"), (0.02, ".02")):
            assert f"| all | {cell} |" in filled(text, {"seconds": {parts("all, fit"): value}})

    def test_a_cell_without_fields_is_one_text(self):
        text = "<!-- result: seconds -->\n| | fit |\n|---|--:|\n| all | 1 / 2 s |\n<!-- end -->"
        assert [cell.text for cell in read(text)] == ["1 / 2 s"]
        assert "| all | 3 / 4 s |" in filled(text, {"seconds": {parts("all, fit"): "3 / 4 s"}})

    def test_numbers_are_read_back(self):
        text = (
            "<!-- result: errors; cells: best / chosen -->\n| | human, words | paper |\n|---|--:|---|\n"
            "| K=1 | **.286** / .300 | 34 % |\n<!-- end -->\n0.060 s<!-- seconds: fit -->"
        )
        found = {cell.key: cell.text for cell in read(text)}
        assert found == {
            parts("human, words, K=1, best"): ".286",
            parts("human, words, K=1, chosen"): ".300",
            parts("K=1, paper"): "34 %",
            parts("fit"): "0.060 s",
        }

    def test_tables_without_a_file_are_found(self):
        rows = "| a | b |\n|---|---|\n| x | {} |\n"
        for cell in (".12", "0.5", "12 %", "3 s", "11 ms"):
            assert [where for where, _ in strays(f"# A\n## B\n\n{rows.format(cell)}")] == ["B"]
        for cell in ("12", "`x=.5`", "$.5$", "section", ".5<!-- errors: fly -->", "[2.1](a.2.md)", "12.27b"):
            wanted = cell.startswith("[")
            assert bool(list(strays(f"# A\n\n{rows.format(cell)}"))) == wanted
        assert not list(
            strays(f"# A\n\n```\n{rows.format('.5')}```\n<!-- not measured: defaults -->\n{rows.format('.5')}")
        )


def test_a_dirty_tree_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(results, "git", lambda *words: " M src/mercer/a.py" if words[0] == "status" else "abc")
    with pytest.raises(SystemExit, match="Commit these changes first"):
        results.clean_commit()


def test_machines_are_described_in_words():
    assert " cores of a" in results.machine()


def test_an_unknown_result_lists_all():
    with pytest.raises(SystemExit, match=r"no result 'nothing'.*jebara2004_figure7"):
        results.main(["list", "nothing"])


def test_names_have_wildcards(capsys: pytest.CaptureFixture[str]):
    results.main(["list", "jebara*"])
    out = capsys.readouterr().out
    assert "jebara2004_figure8a" in out
    assert "mehta2010" not in out
    results.main(["list", "--papers"])
    assert all(name in capsys.readouterr().out for name in ("mehta2010_table1", *README)) or PAPERS


def test_charts_read_their_numbers_from_the_pages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_static"))
    charts = importlib.import_module("make_charts")
    assert len(charts.speed()) == len(charts.SPEED)
    assert all(ratio > 1 for _, ratio, _ in charts.speed())
    assert [name for what, values in charts.results() for _, name in values if "series" in what] == [
        "mercer", "HIVE-COTE 2", "MultiRocket-Hydra", "ROCKET", "DTW",
    ]  # fmt: skip
