"""The command as a whole: version, help, errors, `mercer reproduce`, doctor, data sets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import run, said

import mercer
from mercer.datasets import sources


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
            (
                ("shakespeare1600",),
                r"one of jebara2004, mehta.*; got 'shakespeare1600'",
            ),
            (("agarwal2011", "table9"), r"agarwal2011 must be one of table1, table2.*; got 'table9'"),
            (
                ("agarwal2011", "table1", "--data", "none"),
                "--data must be the folder .*; none is not a folder",
            ),
        ],
    )
    def test_unknown_names(self, arguments, sentence):
        result = run("reproduce", *arguments)
        assert result.exit_code == 2
        assert re.search(sentence, said(result))

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
    def test_without_the_extra(self, missing):
        code = f"import sys; sys.modules[{missing!r}] = None; from mercer import cli; cli.main()"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert found.returncode == 2
        assert found.stderr == f"The command mercer requires {missing}; run pip install 'mercer[cli]'.\n"

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

    @pytest.mark.parametrize("command", ["compare", "fit", "predict", "gram", "datasets", "doctor", "reproduce"])
    def test_every_help_has_an_example(self, command):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"Example: mercer {command}" in " ".join(result.stdout.split())

    @pytest.mark.parametrize("command", ["compare", "fit", "predict", "gram", "datasets", "doctor", "reproduce"])
    def test_every_command_can_be_quiet(self, command):
        assert "--quiet" in run(command, "--help").stdout

    def test_quiet(self, tmp_path):
        advice = "A set is downloaded on first use."
        assert advice in run("datasets", MERCER_DATA=str(tmp_path)).stdout
        quiet = run("datasets", "--quiet", MERCER_DATA=str(tmp_path)).stdout
        assert advice not in quiet
        assert "fetch_splice" in quiet

    def test_exit_codes_are_documented(self):
        assert "Exit codes: 0 done, 1 the work failed, 2 unusable options" in " ".join(run("--help").stdout.split())

    def test_python_m(self):
        found = subprocess.run(
            [sys.executable, "-m", "mercer", "--version"], capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == mercer.__version__

    def test_help_and_errors_import_no_scientific_package(self):
        code = (
            "import sys\nsys.argv = ['mercer', 'compare', '--budget', 'x']\nfrom mercer import cli\n"
            "try:\n    cli.main()\nexcept SystemExit as end:\n    assert end.code == 2\n"
            "print({'sklearn', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules))"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "set()"
        assert found.stderr == "--budget must be a time such as 90s, 10m or 2h; got 'x'.\n"


class TestMachine:
    @pytest.mark.slow
    def test_doctor(self):
        result = run("doctor", "--json", "-")
        facts = json.loads(result.stdout)
        assert facts["mercer"] == mercer.__version__
        assert facts["packages"]["numpy"]
        assert re.fullmatch(r"\d+ usable of \d+", facts["cores"])
        assert re.match(r"level \w+, .+ -march=", facts["native library"])
        assert "openblas" in facts["BLAS"].lower() or "mkl" in facts["BLAS"].lower() or facts["BLAS"]
        assert "native library" in run("doctor").stdout

    def test_datasets(self, tmp_path):
        folder, file = next(iter(sources.SOURCES))
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{file}.gz").touch()
        listed = json.loads(run("datasets", "--json", "-", MERCER_DATA=str(tmp_path)).stdout)
        here = {row["folder"]: row["here"] for row in listed["folders"]}
        assert here[folder].startswith("1 of ")
        assert {row["function"] for row in listed["functions"]} >= {"make_dna", "fetch_splice"}
        assert "fetch_splice" in run("datasets", MERCER_DATA=str(tmp_path)).stdout
