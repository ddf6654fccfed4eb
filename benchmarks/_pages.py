"""Numbers on Markdown pages: where they stand, what a result file says, and tables that no file is behind.

A number of a file has a key, its names separated by commas: ``human, HMM, K=1, best``. On a page it stands

- in a table between ``<!-- result: FILE; option: value -->`` and ``<!-- end -->``. The key of a cell has the names of
  its row, of its column and of the option ``at``, in any order; or
- in a sentence or any table, with a comment right behind it: ``.207<!-- FILE: human, pooled prior, chosen -->``.

Options: ``at: names`` that all keys of the table have, ``labels: n`` columns of labels (1; an empty one repeats the
label above, except in the last), ``cells: best / chosen`` several numbers in a cell (``value`` is the key without a
further name), ``bold: columns``, ``rows`` or ``all``: where the smallest is bold, ``bold largest: ...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

BLOCK = re.compile(r"^<!-- result: (?P<spec>[^\n]*?) -->\n(?P<table>(?:\|[^\n]*\n)+)\n?^<!-- end -->$", re.MULTILINE)
NUMBER = r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))"
UNIT = r" ?%| (?:minutes|min|ms|us|µs|s)\b"
INLINE = re.compile(rf"(?P<number>{NUMBER})(?P<unit>{UNIT}|)(?P<stars>\**)<!-- (?P<file>\w+): (?P<key>[^<>\n]+?) -->")
COMMENT = re.compile(r"<!-- (?P<file>\w+): [^<>\n]*? -->")
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
NO_MEASUREMENT = re.compile(r"^<!-- not measured: [^\n]+ -->\n\n?(?:\|[^\n]*\n)+", re.MULTILINE)
MEASURED = re.compile(rf"(?<![\w.])\d*\.\d+(?![\w.])|(?<![\w.])\d+(?:{UNIT})")
NO_NUMBER = re.compile(r"`[^`]*`|\]\([^)]*\)|\$[^$]*\$|\b[A-Z]+-\d+[\w.]*")
"""Code, addresses, mathematics and ids of formulas."""
SCALES = {"%": 100.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "min": 1 / 60, "minutes": 1 / 60, "s": 1.0, "": 1.0}
Key = frozenset[str]


class PageError(ValueError):
    """A place on a page that does not agree with its file."""


def parts(*names: str) -> Key:
    """Return the parts of names, without markup and links, in lower case, with numbers as Python writes them."""
    found = set()
    for one in ", ".join(names).split(", "):
        bare = re.sub(r"[*`$\\\"]|<!--.*?-->|\[(?=[^\]]*\]\()|\]\([^)]*\)", "", one).strip().lower()
        bare = re.sub(r"(?<=\d),(?=\d{3}\b)", "", bare)
        found.add(re.sub(r"(?<![\d.])\.(?=\d)", "0.", bare))
    return frozenset(found - {""})


@dataclass(frozen=True)
class Cell:
    """A number on a page: its file or files, its key, its text and the line that it stands in."""

    files: tuple[str, ...]
    key: Key
    text: str
    line: str


@dataclass(frozen=True)
class Layout:
    """The comment above a table."""

    files: tuple[str, ...]
    at: str = ""
    labels: int = 1
    cells: tuple[str, ...] = ("value",)
    bold: str = ""
    best: Callable[[Iterable[float]], float] = field(default=min)

    @classmethod
    def read(cls, spec: str) -> Layout:
        """Read ``FILE FILE; option: value; ...``."""
        files, *rest = spec.split(";")
        given: dict[str, str] = {}
        for one in rest:
            name, _, value = one.partition(":")
            given[name.strip()] = value.strip()
        found: dict[str, Any] = {"files": tuple(files.split()), "at": given.pop("at", "")}
        found["labels"] = int(given.pop("labels", "1"))
        found["cells"] = tuple(given.pop("cells", "value").split(" / "))
        found["best"] = max if "bold largest" in given else min
        found["bold"] = given.pop("bold largest", given.pop("bold", ""))
        if given or found["bold"] not in ("", "columns", "rows", "all"):
            raise PageError(f"Unknown option in '<!-- result: {spec} -->'.")
        return cls(**found)


def rows_of(table: str) -> list[list[str]]:
    """Split a table into the texts of its cells."""
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()]


def labeled(layout: Layout, rows: list[list[str]]) -> Iterator[tuple[int, int, Key]]:
    """Yield row, column and key of every cell behind the labels."""
    header, above = rows[0], [""] * layout.labels
    for i, row in enumerate(rows[2:], start=2):
        own = row[: layout.labels]
        own = [*(new or old for new, old in zip(own[:-1], above, strict=False)), own[-1]]
        above = own
        for j in range(layout.labels, len(row)):
            yield i, j, parts(layout.at, *own, header[j])


def written(value: float | str, like: str, unit: str = "") -> str:
    """Write a number with the digits of the one that stands there, three after the point if none does.

    Times have two significant digits, or all digits before the point.
    """
    if isinstance(value, str):
        return value
    scaled = value * SCALES[unit.strip()]
    if unit.strip() in SCALES and unit.strip() not in ("", "%"):
        return f"{scaled:,.0f}" if scaled >= 10 else f"{scaled:#.2g}"
    digits = len(like.partition(".")[2]) if like else 3
    text = f"{scaled:,.{digits}f}"
    return text if like.startswith("0") else re.sub(r"^(-?)0(?=\.)", r"\1", text)


def _look(files: Iterable[str], key: Key, values: Mapping[str, Mapping[Key, Any]]) -> Any:
    for file in files:
        if file not in values:
            raise PageError(f"There is no result file '{file}'.")
        if key in values[file]:
            return values[file][key]
    return None


def _cell_text(layout: Layout, key: Key, text: str, values: Mapping[str, Mapping[Key, Any]]) -> str:
    """Return the new text of a cell: words stay as they are, numbers come from the files."""
    fields = [key if name == "value" else key | parts(name) for name in layout.cells]
    found = [_look(layout.files, one, values) for one in fields]
    plain = text.replace("*", "")
    if all(value is None for value in found):
        whole = _look(layout.files, key, values)
        if whole is None and MEASURED.search(INLINE.sub("", plain)):
            raise PageError(f"'{text}' has no number in {' or '.join(layout.files)} under {sorted(key)}.")
        return text if whole is None else filled_cell(whole, plain)
    if any(value is None for value in found):
        raise PageError(f"{' or '.join(layout.files)} has some of the numbers of {sorted(key)} only.")
    old = fields_of(layout, plain)
    old += [""] * (len(found) - len(old))
    return " / ".join(filled_cell(value, one) for value, one in zip(found, old, strict=True))


def fields_of(layout: Layout, text: str) -> list[str]:
    """Return the texts of the fields of a cell."""
    return (text.split(" / ") if len(layout.cells) > 1 else [text]) if text else []


def filled_cell(value: Any, old: str) -> str:
    """Write a value in the form of the old text of a cell; what rounds to zero is ``< .01``."""
    if isinstance(value, str):
        return value
    match = re.fullmatch(rf"(?P<less>< )?(?P<number>{NUMBER})?(?P<unit>{UNIT}|)", old)
    if match is None:
        raise PageError(f"'{old}' is not a number with a unit, so no number can take its place.")
    text = written(value, match["number"] or "", match["unit"]) + match["unit"]
    return old if match["less"] and not re.search(r"[1-9]", text) else text


def filled_table(layout: Layout, table: str, values: Mapping[str, Mapping[Key, Any]]) -> str:
    """Write the numbers of the files into a table."""
    rows = rows_of(table)
    cells = list(labeled(layout, rows))
    for i, j, key in cells:
        rows[i][j] = _cell_text(layout, key, rows[i][j], values)
    lines: dict[Any, list[tuple[int, int, float]]] = {}
    for i, j, _ in cells if layout.bold else ():
        if re.fullmatch(NUMBER, rows[i][j]):
            line = {"columns": j, "rows": i, "all": 0}[layout.bold]
            lines.setdefault(line, []).append((i, j, float(rows[i][j].replace(",", ""))))
    for line in lines.values():
        best = layout.best(number for *_, number in line)
        for i, j, number in line:
            rows[i][j] = f"**{rows[i][j]}**" if number == best else rows[i][j]
    return "".join(f"| {' | '.join(row)} |\n" if k != 1 else "|" + "|".join(row) + "|\n" for k, row in enumerate(rows))


def filled(text: str, values: Mapping[str, Mapping[Key, Any]]) -> str:
    """Return a page with the numbers of the files, ``{file: {key: number}}``."""

    def block(match: re.Match[str]) -> str:
        table = filled_table(Layout.read(match["spec"]), match["table"], values)
        return match[0].replace(match["table"], table)

    def inline(match: re.Match[str]) -> str:
        value = _look([match["file"]], parts(match["key"]), values)
        if value is None:
            raise PageError(f"{match['file']} has no number under '{match['key']}'.")
        number = written(value, match["number"], match["unit"])
        old = match["number"] + (match["unit"] if isinstance(value, str) else "")  # a text has its own unit
        return number + match[0][len(old) :]

    _complain(text)
    return INLINE.sub(inline, BLOCK.sub(block, text))


def _complain(text: str) -> None:
    """Raise if a comment is not at a table, or not behind a number."""
    for comment in re.finditer(r"<!-- (?:result:[^\n]*?|end) -->", BLOCK.sub("", text)):
        raise PageError(f"'{comment[0]}' needs a table right below, and '<!-- end -->' below the table.")
    behind = {match.end() for match in INLINE.finditer(text)}
    for comment in COMMENT.finditer(text):
        if comment.end() not in behind and not comment[0].startswith("<!-- result:"):
            raise PageError(f"'{comment[0]}' must stand right behind a number.")


def read(text: str) -> Iterator[Cell]:
    """Yield the numbers that stand on a page and come from files."""
    for match in BLOCK.finditer(text):
        layout = Layout.read(match["spec"])
        rows, lines = rows_of(match["table"]), match["table"].splitlines()
        for i, j, key in labeled(layout, rows):
            found = fields_of(layout, INLINE.sub("", rows[i][j].replace("*", "")))
            for name, one in zip(layout.cells, found, strict=False):
                if one:
                    alone = name == "value" or len(found) < len(layout.cells)
                    yield Cell(layout.files, key if alone else key | parts(name), one, lines[i])
    lines = text.splitlines()
    for match in INLINE.finditer(text):
        line = lines[text.count("\n", 0, match.start())]
        yield Cell((match["file"],), parts(match["key"]), match["number"] + match["unit"], line)


def strays(text: str) -> Iterator[tuple[str, str]]:
    """Yield the heading and the text of every line of a table with numbers that look measured and have no file."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    for pattern in (FENCED, BLOCK, NO_MEASUREMENT):
        text = pattern.sub(blank, text)
    heading, above = "", ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
        bare = NO_NUMBER.sub("", INLINE.sub("", line))
        if line.startswith("|") and above.startswith("|") and MEASURED.search(bare):  # not the header
            yield heading, line
        above = line
