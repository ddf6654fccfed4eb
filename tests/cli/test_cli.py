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
        name, chosen = "ProbabilityProduct, Markov chain of my own, deconfounded", "derivatives, gamma=0.3333, C=100"
        row = {"method": name, "chosen": chosen, "is_kernel": True, "score": -1.5, "score_low": -12.25}
        row |= {"score_high": 0.5, "difference": -2.5, "low": -12.5, "high": 0.25, "recommended": True}
        row |= {"fit_seconds": 123.456, "predict_seconds": 0.123456, "task": "a_table_with_quite_a_long_name.parquet"}
        summary = SimpleNamespace(tasks={"x": 0, "y": 0}, rows=[row, row | {"task": "y"}], verdicts={}, folds=5)
        printed = io.StringIO()
        Console(file=printed, width=100).print(_Report(summary, None)._table())
        assert max(map(len, printed.getvalue().splitlines())) <= 100
        assert "-1.500 [-12.250, 0.500] *  -2.500 [-12.500, +0.250]  123.46 s  123.46 ms" in printed.getvalue()
        assert "…" not in printed.getvalue()
        words = " ".join(printed.getvalue().split())
        assert all(word in words for word in [*name.split(), *chosen.split()])


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
