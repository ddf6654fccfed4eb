"""The commands of the command line tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from mercer._version import __version__
from mercer.cli import (
    _compare_command,
    _info_commands,
    _model_commands,
    _two_sample_command,
)

app = typer.Typer(
    help="Kernels from generative models, for scikit-learn.",
    epilog="Example: mercer compare walks.csv --id walk --label gait. "
    "Exit codes: 0 done, 1 the work failed, 2 unusable options or data, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit()


_EXAMPLES: dict[Callable[..., None], str] = {
    _compare_command.compare: "mercer compare genes.fasta --label 1 --groups 'gene=(\\w+)' --budget 10m",
    _model_commands.fit: "mercer fit walks.csv --id walk --time t --label gait --best -o gait.mercer",
    _model_commands.predict: "mercer predict gait.mercer new.csv --json -",
    _model_commands.explain: "mercer explain genes.mercer new.fasta --top 10 --plot why.png",
    _two_sample_command.two_sample: "mercer test patients.fasta controls.fasta --kernel 'Spectrum(k=3)'",
    _info_commands.doctor: "mercer doctor",
}
for _command, _example in _EXAMPLES.items():
    app.command(_example.split()[1], epilog=f"Example: {_example}")(_command)
