"""Run the command in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from mercer.cli._app import app


def run(*arguments: str, **environment: str | None):
    """Run the command with these arguments; lines have no width, unless ``COLUMNS`` is among the variables."""
    return CliRunner().invoke(app, arguments, env={"COLUMNS": None} | environment, catch_exceptions=False)


def said(result) -> str:
    """Return the one sentence on the error stream."""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]
