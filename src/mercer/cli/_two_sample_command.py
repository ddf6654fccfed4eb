"""``mercer test``: whether two groups of samples are different."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from mercer.cli import _data_options as data
from mercer.cli._model_commands import Kernel
from mercer.cli._terminal import STDOUT, Json, Quiet, Seed, check_outputs, fail, one_sentence, say, warn, write_json

Other = Annotated[
    Path | None,
    typer.Argument(metavar="[OTHER]", help="The second group; omitted if DATA has two classes."),
]
Permutations = Annotated[int, typer.Option(min=19, help="Number of permutations.")]
SHOWN = 3
"""Number of samples of each group that are named."""


@data.with_reading
def two_sample(
    source: data.Source,
    reading: data.Reading,
    other: Other = None,
    kernel: Kernel = None,
    permutations: Permutations = 999,
    json_path: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Test whether two groups of samples have the same distribution, and name the samples that differ most."""
    if reading.weight or reading.target:
        fail("--weight and --target do not apply to a test of two groups; omit them.")
    check_outputs(json_path, inputs=(source, other, reading.label_table))
    with one_sentence():
        import numpy as np

        import mercer as mc
        from mercer._notices import Notice, collected
        from mercer.cli import _fitting

        groups = _two_groups(source, other, reading)
        sides = [np.flatnonzero(np.equal(groups.second, side)) for side in (False, True)]
        order = np.concatenate(sides)
        with collected() as notices:
            name, X, made = _fitting.kernel_of_data(groups.X, kernel, seed)
            found = mc.stats.two_sample_test(
                X[sides[0]],
                X[sides[1]],
                made,
                groups=None if groups.units is None else [groups.units[i] for i in order],
                confounds=None if groups.confounds is None else groups.confounds[order],
                n_permutations=permutations,
                random_state=seed,
            )
    warn((*groups.warnings, *dict.fromkeys(one.message for one in notices if isinstance(one, Notice))))
    ids: list[list[str]] = [[groups.ids[i] for i in side] for side in sides]
    most = [[ids[side][i] for i in positions] for side, positions in enumerate(found.most_different(SHOWN))]
    content = {
        "kernel": name,
        "p_value": found.p_value,
        "effect_size": found.effect_size,
        "interval": list(found.interval),
        "permutations": found.n_permutations,
        "permuted": found.permuted,
        "groups": {label: len(ids[side]) for side, label in enumerate(groups.names)},
        "most_different": dict(zip(groups.names, most, strict=True)),
        "seed": seed,
        "version": mc.__version__,
    }
    write_json(content, json_path)
    if json_path == STDOUT:
        return
    for line in groups.about:
        say(line, quiet=quiet)
    say(f"Kernel: {name}. {found}")
    for label, samples in zip(groups.names, most, strict=True):
        say(f"Most typical of {label}: {', '.join(samples)}.", quiet=quiet)


class _Groups(NamedTuple):
    """Samples of two groups: which are in the second, the names of both, units that are permuted, and confounds."""

    X: Any
    second: list[bool]
    names: tuple[str, str]
    units: Any
    ids: list[str]
    about: list[str]
    confounds: Any = None
    warnings: tuple[str, ...] = ()


def _two_groups(source: Path, other: Path | None, reading: Any) -> _Groups:
    """Read two files, or one file with two classes."""
    import numpy as np

    from mercer.cli._readers import read
    from mercer.kernels.base import concatenated

    if other is None:
        one = read(source, reading)
        labels = _answers(one)
        classes = sorted(set(labels))
        if len(classes) != 2:
            what = f"{source} has {len(classes)} classes" if labels else f"{source} has no classes"
            raise ValueError(f"{what}, and a test compares two; pass a second file, or a --label with two classes.")
        return _Groups(
            one.X,
            [label == classes[1] for label in labels],
            (classes[0], classes[1]),
            one.records.groups,
            one.ids,
            [one.about_test],
            one.confounds,
        )
    # Units that are permuted together are read as labels: there are no other answers.
    plain = replace(reading, label=reading.group, group=None)
    both = [read(path, plain, with_answers=bool(reading.group)) for path in (source, other)]
    found = [part.records.groups for part in both if part.records.groups is not None]
    if len(found) == 1 and not reading.group:  # units of one file only are of no use, and are not announced
        both = [read(path, replace(plain, group="none"), with_answers=False) for path in (source, other)]
    if both[0].reader != both[1].reader:
        raise ValueError(f"{source} and {other} have different formats; a test compares samples of one kind.")
    sizes = [len(part.ids) for part in both]
    together = None
    if reading.group:
        together = [unit for part in both for unit in _answers(part)]
    elif len(found) == 2:
        together = [str(unit) for units in found for unit in units]
    X = concatenated((both[0].X, both[1].X))
    names = (source.stem, other.stem) if source.stem != other.stem else (str(source), str(other))
    return _Groups(
        X,
        [False] * sizes[0] + [True] * sizes[1],
        names,
        together,
        [*both[0].ids, *both[1].ids],
        [f"{name}: {part.about_test}" for name, part in zip(names, both, strict=True)],
        np.concatenate([part.confounds for part in both]) if reading.confounds else None,
        _in_both(X, sizes[0], names),
    )


def _in_both(X: Any, first: int, names: tuple[str, str]) -> tuple[str, ...]:
    """Return a warning if the same samples are in both files."""
    from mercer.data.identical import identical_groups

    same = identical_groups(X).tolist()
    count = len(set(same[:first]) & set(same[first:]))
    what = "1 sample is" if count == 1 else f"{count} different samples are"
    sentence = f"{what} in both {names[0]} and {names[1]}; remove such copies unless they were drawn independently."
    return (sentence,) if count else ()


def _answers(part: Any) -> list[str]:
    """Return the labels that were read, if there are any."""
    return [] if part.records.y is None else [str(label) for label in part.records.y]
