"""The command ``mercer``. It needs the extra ``cli``; importing mercer needs none of it."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from mercer.cli._app import app
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f"the command mercer needs {error.name}: pip install 'mercer[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    app(prog_name="mercer")
