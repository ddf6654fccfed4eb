"""The command line tool ``mercer``, which requires the extra ``cli``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from mercer.cli._app import app
        from mercer.cli._terminal import plain_warnings
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f"The command mercer requires {error.name}; run pip install '.[cli]' in a clone of mercer.", file=sys.stderr
        )
        raise SystemExit(2) from None
    plain_warnings()
    app(prog_name="mercer")
