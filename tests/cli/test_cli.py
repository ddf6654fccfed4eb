"""The command as a whole: version, help, errors, doctor, data sets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import run

import mercer


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
