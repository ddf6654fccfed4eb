"""Tables passed as data: numbered time steps are one series per row; anything else is for `read_table`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data._names import telling
from mercer.data._wide import numbered_columns
from mercer.data.columns import Columns, columns_of
from mercer.data.roles import looks_long


def is_frame(data: Any) -> bool:
    """Whether an object is a table with named columns of pandas, polars or Arrow."""
    library = type(data).__module__.partition(".")[0]
    if library == "pyarrow":
        return hasattr(data, "column_names")
    return hasattr(data, "columns") and (
        hasattr(data, "iloc") or (library == "polars" and hasattr(data, "get_columns"))
    )


def _telling(table: Columns) -> dict[str, str]:
    """Return the roles that the columns tell; a column that counts within the blocks of another is a time, no id."""
    roles = telling(table.columns)
    answers = {roles.get("label"), roles.get("target")}
    found = looks_long(table, [name for name in table.columns if name not in answers])
    if found is None or roles.get("id") not in found:
        return roles
    return roles | {"id": found[0], "time": roles.get("time", found[1])}


def rows_of_frame(data: Any) -> NDArray[Any]:
    """Return the numbers of a table whose columns are time steps, one row per series; raise if they may be others."""
    if 0 in np.shape(data) if hasattr(data, "shape") else data.num_rows == 0:
        return np.empty(tuple(data.shape))
    plain = hasattr(data, "iloc") and data.index.nlevels == 1  # an index of one level is no column of numbers
    table = columns_of(data.reset_index(drop=True) if plain else data)
    roles = _telling(table)
    how = ", ".join(f"{role}={name!r}" for role, name in roles.items()) or "id=..., time=..."
    if roles:
        role, name = next(iter(roles.items()))
        what = "an id" if role == "id" else f"a {role}"
        raise ValueError(
            f"X is a table with the column {name!r}, which looks like {what}, so its rows are not series. Read it with "
            f"mc.read_table(df, {how}), or pass an array if every row is a series."
        )
    for name, column in table.columns.items():
        if column.raw.dtype.kind not in "iufb" and (column.kind != "number" or column.bad.any()):
            raise ValueError(
                f"X is a table, and its column {name!r} is not numbers, so its rows are not series. Read it with "
                f"mc.read_table(df, {how}), or pass a column of sequences itself, such as df[{name!r}]."
            )
    found = looks_long(table, table.columns)
    if found is not None:
        raise ValueError(
            f"X is a table whose columns {found[0]!r} and {found[1]!r} count like an id and a time, so its rows are "
            f"not series. Read it with mc.read_table(df, id={found[0]!r}, time={found[1]!r}), or pass an array if "
            "every row is a series."
        )
    if [len(times) for times in numbered_columns(table.columns).values()] != [len(table.columns)]:
        shown = ", ".join(map(repr, list(table.columns)[:6])) + (", ..." if len(table.columns) > 6 else "")
        raise ValueError(
            f"X is a table whose columns ({shown}) are not the numbered time steps of one channel. Pass [df] if it is "
            "one recording with a channel per column, mc.read_table(df).X if it has other columns next to time steps, "
            "or df.to_numpy() if every row is a series."
        )
    arrays = [c.raw if c.raw.dtype.kind in "iufb" else c.numbers for c in table.columns.values()]
    return np.stack(arrays, axis=1)
