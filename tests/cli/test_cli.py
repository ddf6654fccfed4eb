"""The command as a whole: version, help, errors, doctor, data sets."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from tests.cli.command import run

import mercer
from mercer.cli._compare_command import _Report
from mercer.cli._terminal import print_text


class TestEntry:
    def test_version(self):
        assert run("--version").stdout.strip() == mercer.__version__

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_the_extra(self, missing):
        code = f"import sys; sys.modules[{missing!r}] = None; from mercer import cli; cli.main()"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert found.returncode == 2
        cure = "run pip install '.[cli]' in a clone of mercer"
        assert found.stderr == f"The command mercer requires {missing}; {cure}.\n"

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

    @pytest.mark.parametrize("command", ["compare", "fit", "predict", "test", "doctor"])
    def test_every_help_has_an_example(self, command):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"Example: mercer {command}" in " ".join(result.stdout.split())

    @pytest.mark.parametrize("command", ["compare", "fit", "predict", "test", "doctor"])
    def test_every_command_can_be_quiet(self, command):
        assert "--quiet" in run(command, "--help").stdout

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

    def test_warnings_of_libraries_are_sentences_each_once(self):
        code = (
            "import warnings; from mercer.cli import main, _app\n"
            "_app.app = lambda prog_name: [warnings.warn('too\\n\\nfew', FutureWarning) for _ in range(2)]\nmain()"
        )
        found = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
        assert found.stderr == "Warning: too few\n"

    def test_the_table_of_a_comparison_fits_100_columns(self):
        summary, name, chosen = self.long_summary()
        printed = io.StringIO()
        Console(file=printed, width=100).print(_Report(summary, None)._table())
        assert max(map(len, printed.getvalue().splitlines())) <= 100
        assert "-1.500 [-12.250, 0.500] *  -2.500 [-12.500, +0.250]  123.46 s  123.46 ms" in printed.getvalue()
        assert "…" not in printed.getvalue()
        words = " ".join(printed.getvalue().split())
        assert all(word in words for word in [*name.split(), *chosen.split()])

    @staticmethod
    def long_summary():
        name, chosen = "ProbabilityProduct, Markov chain of my own, deconfounded", "derivatives, gamma=0.3333, C=100"
        row = {"method": name, "chosen": chosen, "is_kernel": True, "score": -1.5, "score_low": -12.25}
        row |= {"score_high": 0.5, "difference": -2.5, "low": -12.5, "high": 0.25, "recommended": True}
        row |= {"fit_seconds": 123.456, "predict_seconds": 0.123456, "task": "a_table_with_quite_a_long_name.parquet"}
        rows = [row, row | {"task": "y"}]
        sentences = {"y": ("A kernel is better than the best baseline, and this sentence is a long one. " * 3, None)}
        summary = SimpleNamespace(tasks={"x": 0, "y": 0}, rows=rows, verdicts=sentences, folds=5, unfinished=[])
        return summary, name, chosen

    @pytest.mark.parametrize("width", [80, 100])
    def test_lines_of_a_comparison_fit_the_terminal_and_end_between_words(self, width):
        summary, name, chosen = self.long_summary()
        printed = io.StringIO()
        shown = Console(file=printed, width=width, force_terminal=True, color_system=None)
        _Report(summary, SimpleNamespace(interrupted=False)).print(shown, quiet=True)
        lines = printed.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) <= 24
        words = printed.getvalue().split()
        assert set(words) >= {*summary.verdicts["y"][0].split(), *name.split()}
        if width == 80:
            assert f"{name} ({chosen})" in " ".join(words)
            numbers = "  -1.500 [-12.250, 0.500] *  -2.500 [-12.500, +0.250]  123.46 s  123.46 ms"
            assert lines.count(numbers) == 2

    def test_sentences_are_wrapped_between_words_and_commands_are_not(self, monkeypatch):
        monkeypatch.delenv("COLUMNS", raising=False)
        text = "The table was read, and it is rather long. Next: mercer fit walks.csv --label gait -o model.mercer"
        for width, expected in [
            (200, [text]),
            (30, ["The table was read, and it is", "rather long. Next:", text.partition("Next: ")[2]]),
        ]:
            printed = io.StringIO()
            print_text(Console(file=printed, width=width, force_terminal=True), text)
            assert printed.getvalue().splitlines() == expected
        printed = io.StringIO()
        print_text(Console(file=printed, width=30), text)  # a file has no width
        assert printed.getvalue().splitlines() == [text]

    def test_the_variable_columns_is_the_width_of_a_pipe(self):
        wide, narrow = run("fit", "x", "-o", "y"), run("fit", "x", "-o", "y", COLUMNS="40")
        assert len(wide.stderr.splitlines()) == 1
        assert max(map(len, narrow.stderr.splitlines())) <= 40
        assert narrow.stderr.split() == wide.stderr.split()


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
