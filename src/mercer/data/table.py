"""`read_table`: series, strings and documents from tables of people's own data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._notices import warns_once
from mercer._parameters import NONE, boolean, check, one_of
from mercer._wording import counted, option, passing, wording
from mercer.data._container import build_flat, naming
from mercer.data._forms import Flat
from mercer.data._long import Series, long_series
from mercer.data._samples import Samples, covariate_of, first_error, labels_of, read_as_missing, rows_of_ids
from mercer.data._wide import list_series, text_series, wide_series
from mercer.data.columns import Table, table_of
from mercer.data.recordings import FILE, FOLDER, TEXT, collection, is_collection, joined
from mercer.data.roles import Choice, Roles, looks_like, roles_of
from mercer.data.sequences import Sequences
from mercer.data.text import Records, described


@warns_once
def read_table(
    source: Any,
    *,
    id: str | Iterable[str] | bool | None = None,
    time: Choice = None,
    values: str | Iterable[str] | None = None,
    label: Choice = None,
    target: Choice = None,
    group: Choice = None,
    covariates: str | Iterable[str] | None = None,
    ignore: str | Iterable[str] | None = None,
    labels: Any = None,
    form: str | None = None,
    kind: str | None = None,
    resample: Any = None,
    time_channel: bool = False,
    alphabet: Any = None,
    unknown: str = "raise",
    invalid: str = "raise",
    separator: str | None = None,
    decimal: str = ".",
) -> Records:
    r"""Read series, strings or documents from tables: CSV, TSV and Parquet files, folders, pandas, polars and Arrow.

    A table is **long**, with one row per time step and a column that tells the series, or **wide**, with one row per
    sample; a folder has one file per recording or document. Columns are found by their names ("id", "time", "label",
    "target", "group" and common synonyms); the attribute ``description`` of the result says in one line what the data
    were taken for.

    Parameters
    ----------
    source : path, open file, DataFrame, Table or mapping
        A CSV, TSV or other text table (plain or gzipped) with a header line, a Parquet or Feather file, a DataFrame of
        pandas or polars, an Arrow table, or a mapping from names to columns. The two levels of a MultiIndex are the
        series and the time, and cells may hold series, as in the tables of sktime. Or several files, one per recording:
        a folder, a pattern such as ``"runs/*.csv"`` or a list of paths. Then the id is the column "file", the name of
        the file, and sub-folders, one per class, are the column "folder", the label. A file ``labels.csv`` in the
        folder is read as `labels`. Files ``.txt`` that do not contain numbers are documents.
    id : str, list of str or False, optional
        Column that names the series, or several columns that do it together. As for the other roles, the default None
        guesses the column from the names, and False means that there is none.
    time : str or False, optional
        Column of time stamps, numbers or ISO dates, of a long table. Rows are sorted by it, and absent steps of a
        regular grid become missing values. By default, it is found by its name, or as the only column of dates that
        vary within the series. With False, rows are in their order.
    values : str or list of str, optional
        Columns of values: the channels of a long table, the time steps of a wide one, or the one column that holds
        strings or lists. Patterns (``"t*"``) and ranges of columns (``"t0:t59"`` or ``"t0-t59"``) are allowed, here and
        in `covariates` and `ignore`. By default, all columns of numbers without another role, but not a second column
        named like a label, an id or a time, nor one of a long table that is constant in every series, nor one of a
        wide table that is not numbered as the time steps are ("age" next to "t0", "t1", ...).
    label : str or False, optional
        Column of classes.
    target : str or False, optional
        Column of numbers to predict.
    group : str or False, optional
        Column of groups of related samples, such as subjects, for scikit-learn's GroupKFold.
    covariates : str or list of str, optional
        Columns with one number or one text per sample, such as confounds or weights. They are not values of the series.
    ignore : str or list of str, optional
        Columns that are not read.
    labels : path, DataFrame, Table or mapping, optional
        A second table with one row per sample: the id and the label or target, and possibly the group. `label`,
        `target` and `group` then name its columns, `covariates` those of either table. A mapping goes from ids to
        labels.
    form : {"long", "wide"}, optional
        By default, a table is long if ids occur in several rows.
    kind : {"series", "symbols", "words", "counts"}, optional
        What the values are: numbers, symbols (of a string, one per character; of a long table, one per row), sequences
        of words, or counts of words. By default, columns of numbers are series, text with blanks is counted, and other
        text is symbols.
    resample : float, str or None, default=None
        Interpolate series linearly on a grid of this step: a number in the unit of the time stamps, "auto" for the
        median time between two rows, or for dates a duration such as "10s", "5min", "1h" or "1d".
    time_channel : bool, default=False
        Append the time since the start of the series as the last channel; absent steps are not filled then.
    alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols, optional
        Alphabet of symbols, or the words that are counted; by default inferred from the data. To read new documents,
        pass the ``channels`` of the training data.
    unknown : {"raise", "missing"}
        What to do with a symbol that is not in the alphabet.
    invalid : {"raise", "mask"}
        Whether to raise at the first sample or line that cannot be read, or to leave them out and report them in
        ``problems``.
    separator : str, optional
        Separator of the fields of a text file; by default a tab, a comma, a semicolon or white space, as in the first
        line.
    decimal : str, default="."
        Decimal mark of a text file.

    Returns
    -------
    Records
        Unpacks as ``X, y = read_table(source)``. ``X`` are `Sequences`, or a CSR matrix of word counts, ``y`` the
        labels or targets, or None; groups, ids, channels, the description, the problems and the step of the time grid
        are attributes.

    Notes
    -----
    Empty fields, ``NaN``, ``NA``, ``?`` and nulls are missing values and become NaN. Irregular time stamps are taken as
    equal steps, with a warning, unless `resample` or `time_channel` is given. A label may be written in every row of a
    series or only in some, but must be the same.

    See Also
    --------
    read_fasta : Read strings of DNA, RNA and proteins.
    read_ts : Read time series of the aeon and UEA archives.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> text = (
    ...     "subject,time,x,y,label\na,0,1.5,0,up\na,1,1.7,0,up\na,3,1.9,1,up\n"
    ...     "b,0,0.2,1,down\nb,1,0.1,1,down\n"
    ... )
    >>> read = mc.read_table(io.StringIO(text))
    >>> read.X
    Sequences(2 sequences of 2-dimensional vectors (float64), lengths 2 to 4)
    >>> read.y.tolist(), read.ids, read.channels
    (['up', 'down'], ('a', 'b'), ('x', 'y'))
    >>> read.X[0][:, 0]
    array([1.5, 1.7, nan, 1.9])
    >>> wide = "id,t0,t1,t2,label\na,1,2,3,up\nb,3,2,,down\n"
    >>> X, y = mc.read_table(io.StringIO(wide))
    >>> X.lengths, y.tolist()
    (array([3, 2]), ['up', 'down'])
    """
    check(one_of("long", "wide") | NONE, form=form)
    check(one_of("series", "symbols", "words", "counts") | NONE, kind=kind)
    check(one_of("raise", "missing"), unknown=unknown)
    check(one_of("raise", "mask"), invalid=invalid)
    check(boolean(), time_channel=time_channel)
    if is_collection(source):
        table, labels = collection(source, kind, separator, decimal, invalid, labels)
        form = form or ("wide" if TEXT in table.columns else "long")
        id = FILE if id is None else id
        label = _by_folder(table, label, target) if labels is None else label
    else:
        table = table_of(source, separator, decimal, invalid)
        if not table.header:
            raise ValueError(
                f"{table.name} has no header line: its first line has only numbers. Add one, or read a table of the "
                "UCR archive, with the label first, with mc.read_ucr."
            )
    given: dict[str, Any] = {"id": id, "time": time, "values": values, "ignore": ignore}
    if labels is None:
        roles = roles_of(table, **given, label=label, target=target, group=group, covariates=covariates)
    else:
        here = group if isinstance(group, str) and group in table.columns else None if group is None else False
        beside = [covariates] if isinstance(covariates, str) else list(covariates or ())
        own = [name for name in beside if str(name).strip() in table.columns]
        roles = roles_of(table, **given, label=False, target=False, group=here, covariates=own)
        there = tuple(name for name in beside if name not in own)
        roles = joined(table, roles, labels, label, target, None if here else group, there)
    form = form or _form(table, roles)
    samples, series = _samples(table, roles, form, kind, resample, time_channel, alphabet, invalid)
    unused = set(samples.unused)
    roles = replace(roles, values=tuple(name for name in roles.values if name not in unused))
    y, groups, what = labels_of(samples, roles)
    columns = {name: covariate_of(samples, name, wording().covariate(name)) for name in roles.covariates}
    first_error(samples, invalid)
    kept = np.ones(len(samples), dtype=bool)
    if isinstance(series.flat, Flat):
        series.flat.problems |= samples.problems
        X = Sequences._make(*build_flat(series.flat, alphabet, unknown, samples.names, invalid))
        X = X if X.is_symbols else X.with_channels(series.channels or None)
        kept, left = X.kept, X.problems
    else:
        kept[list(samples.problems)] = False
        X = series.flat[np.flatnonzero(kept)]
        left = {
            samples.names[i] if samples.names else i: f"{naming(samples.names, i)} {problem.text}"
            for i, problem in sorted(samples.problems.items())
        }
    if not kept.any():
        raise ValueError(f"{table.name}: no sample can be read; {next(iter(left.values()))}")
    y, groups = (None if values is None else values[kept] for values in (y, groups))
    problems = {**table.problems, **left}
    said = _description(table, roles, form, X, samples, series, y, what, len(problems))
    return Records(
        X,
        y,
        groups=groups,
        covariates={name: column[kept] for name, column in columns.items()},
        columns=roles.columns(),
        ids=None if samples.names is None else tuple(np.array(samples.names, dtype=object)[kept].tolist()),
        channels=series.channels,
        **described(said, _correction(), X, groups),
        problems=problems,
        step=series.step,
    )


def _by_folder(table: Table, label: Choice, target: Choice) -> Choice:
    """Return the column of labels of a collection: the sub-folder, if there are some and nothing else is given."""
    if FOLDER not in table.columns or label is not None or target not in (None, False):
        return label
    names = [name for name in table.columns if name != FOLDER]
    found = [*looks_like("label", names), *looks_like("target", names)]
    if found:
        raise ValueError(
            f"{table.name}: the sub-folders and the column {found[0]!r} could both be the label; "
            f"{passing('label', FOLDER)} or {option('label', found[0])}."
        )
    return FOLDER


def _samples(
    table: Table,
    roles: Roles,
    form: str,
    kind: str | None,
    resample: Any,
    time_channel: bool,
    alphabet: Any,
    invalid: str,
) -> tuple[Samples, Series]:
    """Return the samples of a table and their content."""
    if form == "long":
        if not roles.id:
            cure = (
                f"{passing('id')} with the column that names the series, one file per series, as in 'runs/*.csv', or "
                f"{option('form', 'wide')} if every row is a series."
            )
            raise ValueError(
                f"{table.name}: a long table needs a column that tells which series a row belongs to; {cure}"
            )
        if kind in ("words", "counts"):
            raise ValueError(
                f"{option('kind', kind)} needs documents, one per row; the table is long. "
                f"{passing('form', 'wide', start=True)}."
            )
        return long_series(table, roles, kind, resample, time_channel, invalid)
    if resample is not None or time_channel:
        raise ValueError(
            f"resample and time_channel need a long table with a column of time stamps; {passing('time')}."
        )
    samples = rows_of_ids(table, roles.id, invalid, distinct=True)
    columns = [table.columns[name] for name in roles.values]
    if any(column.kind == "list" for column in columns):
        return samples, list_series(samples, roles.values)
    if kind == "series" or (kind is None and not any(column.is_text for column in columns)):
        return samples, wide_series(samples, roles.values, guessed="values" in roles.guessed)
    if len(roles.values) > 1:
        raise ValueError(f"Strings come from one column; got {option('values', list(roles.values))}. Pass one of them.")
    return samples, text_series(samples, table.columns[roles.values[0]].text.tolist(), kind, alphabet)


def _form(table: Table, roles: Roles) -> str:
    """Return whether the table is long or wide."""
    if any(table.columns[name].kind == "list" for name in roles.values):
        return "wide"
    if not roles.id:
        return "wide" if roles.time is None else "long"
    rows = list(zip(*(table.columns[name].text for name in roles.id), strict=True))
    if len(set(rows)) == len(rows):
        return "long" if roles.time is not None and "time" not in roles.guessed else "wide"
    # A few duplicate ids are a mistake in a wide table; ids of time steps repeat nearly everywhere.
    return "long" if roles.time is not None or 2 * len(set(rows)) <= len(rows) else "wide"


def _description(
    table: Table, roles: Roles, form: str, X: Any, samples: Samples, series: Series, y: Any, what: str, left: int
) -> str:
    """Say in one line what the data were taken for."""
    if not isinstance(X, Sequences):
        content = f"{X.shape[0]} documents of {counted(X.shape[1], 'different word')}"
    elif X.is_symbols:
        content = counted(len(X), "string")
    else:
        shown = ", ".join(series.channels[:6]) + (", ..." if len(series.channels) > 6 else "")
        content = f"{len(X)} series of {counted(len(series.channels), 'channel')} ({shown})"
    found = []
    for role, column in (
        ("id", "+".join(roles.id)),
        ("time", roles.time if form == "long" else None),
        ("group", roles.group),
        ("covariates", ", ".join(roles.covariates)),
    ):
        if column:
            found.append(option(role, column))
    if y is not None:
        size = "numbers" if what == "target" else counted(len(np.unique(y)), "class")
        found.append(f"{option(what, roles.label or roles.target)} ({size})")
    else:
        empty = [x for role in ("label", "target") for x in looks_like(role, table.columns)]
        empty = [x for x in empty if x not in roles.values and table.columns[x].kind == "empty"]
        why = read_as_missing(table.columns[empty[0]], samples.order) if empty else ""
        found.append(
            f"no label: the column {empty[0]!r} is missing in all rows{why}"
            if empty
            else wording().phrase("no label", "no label")
        )
    used = {*roles.id, roles.group, roles.label, roles.target, *roles.values, *roles.covariates}
    used |= {roles.time} if form == "long" else set()
    rest = [name for name in table.columns if name not in used]
    if rest:
        found.append("ignored: " + ", ".join(map(repr, rest[:6])) + (", ..." if len(rest) > 6 else ""))
    if left:
        found.append(f"{left} left out{wording().phrase('problems', ' (see problems)')}")
    text = "; ".join([", ".join(clause for clause in found if clause), *samples.said])
    return f"{table.name}, {form} form: {content}; {text}."


def _correction() -> str:
    roles = ", ".join(option(role) for role in ("time", "values", "label", "target", "group"))
    none = wording().phrase("none", " (a column, or False for none)")
    return f"To correct it, {passing('id')}, {roles}{none}, {option('ignore')} or {option('form')}."
