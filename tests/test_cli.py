"""The command: what it prints, writes and says when it cannot."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer import cli
from mercer.datasets import make_dna, make_documents, make_point_sets

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from mercer.cli import _compare
from mercer.cli._app import app


def run(*arguments: str, **environment: str | None):
    return CliRunner().invoke(app, arguments, env=environment, catch_exceptions=False)


def said(result) -> str:
    """Return the one sentence on the error stream."""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Run one race; returns the result and the files it wrote."""
    folder = tmp_path_factory.mktemp("compare")
    files = folder / "race.json", folder / "race.csv"
    written = ("--json", str(files[0]), "--csv", str(files[1]))
    return run("compare", "--task", "point-sets", "--folds", "3", *written), files


class TestCompare:
    def test_it_prints_a_table_with_the_best_marked(self, outcome):
        result, _ = outcome
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        methods = [c.name for c in _compare.point_sets(0).contenders]
        rows = {m: next(line for line in lines if m in line and "±" in line) for m in methods}
        accuracies = {m: float(row.split("±")[0].split()[-1]) for m, row in rows.items()}
        best = max(accuracies.values())
        assert all(accuracies[m] == best for m in methods if "*" in rows[m])
        assert any("*" in row for row in rows.values())
        assert "chosen by cross-validation inside the training folds" in result.stdout

    def test_the_files_have_what_was_printed(self, outcome):
        result, (as_json, as_csv) = outcome
        rows = json.loads(as_json.read_text())
        with as_csv.open(newline="") as stream:
            again = list(csv.DictReader(stream))
        assert [row["method"] for row in rows] == [row["method"] for row in again]
        assert all(f"{row['accuracy']:.3f}" in result.stdout for row in rows)

    def test_kernels_beat_what_knows_nothing(self, outcome):
        rows = {row["method"]: row["accuracy"] for row in json.loads(outcome[1][0].read_text())}
        blind = max(rows["majority class"], rows["number of points"], rows["RBF SVM on means"])
        assert all(rows[m] > blind + 0.2 for m in ("ProbabilityProduct", "JensenShannon, exp", "EmpiricalMeanMap"))

    def test_the_closing_lines_run(self, outcome):
        code = outcome[0].stdout.partition("for your X and y:")[2]
        X, y = make_point_sets(12, random_state=0)
        names: dict[str, object] = {"X": X, "y": y}
        exec(code, names)
        assert names["classifier"].predict(X).shape == (12,)

    @pytest.mark.parametrize("task", list(_compare.TASKS))
    def test_every_kernel_of_every_task_has_code_that_runs(self, task):
        made = {"point-sets": make_point_sets, "dna": make_dna}.get(task, make_documents)
        X, y = made(12, random_state=0)
        for contender in _compare.TASKS[task](0).contenders:
            if contender.kernel is not None:
                names: dict[str, object] = {"X": X.toarray() if task in ("vectors", "digits") else X, "y": y}
                exec(_compare.snippet(contender), names)
                assert names["classifier"].predict(names["X"]).shape == y.shape

    def test_the_seed_decides(self):
        first, again, other = (_compare.dna(seed).X for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_unknown_task(self):
        result = run("compare", "--task", "sonnets")
        assert result.exit_code == 2
        assert said(result) == "there is no task 'sonnets': the tasks are documents, digits, vectors, point-sets, dna"

    def test_a_file_that_cannot_be_written_is_found_first(self, tmp_path):
        result = run("compare", "--json", str(tmp_path / "none" / "x.json"))
        assert result.exit_code == 2
        assert said(result).endswith("x.json cannot be written: its folder does not exist")


class TestReproduce:
    def test_without_arguments_it_lists(self):
        for arguments in (("reproduce",), ("reproduce", "agarwal2011")):
            result = run(*arguments)
            assert result.exit_code == 0
            assert "mercer reproduce agarwal2011 table1" in result.stdout
            assert "mercer reproduce agarwal2011 table2" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("shakespeare1600",), "there is nothing to reproduce for 'shakespeare1600': the sources are agarwal2011"),
            (("agarwal2011", "table9"), "agarwal2011 has no 'table9': its tables are table1, table2"),
            (
                ("agarwal2011", "table1", "--data", "none"),
                "--data none is no folder: give the one that has the folders",
            ),
        ],
    )
    def test_unknown_names(self, arguments, sentence):
        result = run("reproduce", *arguments)
        assert result.exit_code == 2
        assert said(result).startswith(sentence)

    def test_missing_data(self, tmp_path, monkeypatch):
        monkeypatch.delenv("MERCER_DATA", raising=False)
        result = run("reproduce", "agarwal2011", "table1", "--data", str(tmp_path))
        assert result.exit_code == 1
        assert "MERCER_DATA" not in os.environ
        assert "has neither webkb-train-stemmed.txt nor webkb-train-stemmed.txt.gz" in said(result)

    @pytest.mark.slow
    @pytest.mark.usefixtures("real")
    def test_quick_on_the_real_news(self, tmp_path):
        path = tmp_path / "table2.json"
        result = run("reproduce", "agarwal2011", "table2", "--quick", "--draws", "2", "--json", str(path))
        assert result.exit_code == 0, result.output
        cells = json.loads(path.read_text())
        assert [cell["task"] for cell in cells] == ["acq vs. earn"] * 7 + ["acq vs. crude"] * 7
        assert all(0 < cell["best"] < 0.2 for cell in cells)
        for label in ("ours (CV)", "ours (best)", "paper", "mean", ".069"):
            assert label in result.stdout
        assert "R8" in result.stdout.splitlines()[-1]


class TestEntry:
    def test_version(self):
        assert run("--version").stdout.strip() == mercer.__version__

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_the_extra(self, missing, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, missing, None)
        monkeypatch.delitem(sys.modules, "mercer.cli._app")
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert caught.value.code == 2
        assert capsys.readouterr().err == f"the command mercer needs {missing}: pip install 'mercer[cli]'\n"

    def test_importing_mercer_needs_no_extra(self):
        code = "import sys, mercer; print({'typer', 'rich', 'matplotlib', 'mercer.cli'} & set(sys.modules))"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "set()"

    def test_the_installed_command(self):
        command = Path(sys.executable).parent / "mercer"
        if not command.exists():
            pytest.skip("mercer is not installed here: pip install -e '.[test]'")
        found = subprocess.run([command, "--help"], capture_output=True, text=True, check=True, env={**os.environ})
        assert "compare" in found.stdout
        assert "reproduce" in found.stdout
