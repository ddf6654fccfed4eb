"""The items of the five sources: what each describes, how it is called here, and the test that computes it by itself.

``python -m tests.sources.items`` writes the tables of docs/papers from ``items.csv``.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("items.csv")
PAPERS = ROOT / "docs" / "papers"
STATUSES = {
    "present": "computed by the call",
    "another way": "not computed as the source describes it; the call reaches the same",
    "set aside": "not in mercer; the page says why",
    "no computation": "nothing to compute, or an error of the source",
}
_BLOCK = re.compile(r"(?<=<!-- items -->\n).*?(?=<!-- end of items -->)", re.DOTALL)


@dataclass(frozen=True)
class Item:
    """One definition, equation, algorithm, remark, table or figure of a source."""

    id: str
    source: str
    place: str
    item: str
    status: str
    call: str
    test: str
    page: str
    correction: str

    @property
    def row(self) -> str:
        """Return the row of the page of its source."""
        call = f"`{self.call}`" if self.call else ""
        if self.page:
            shown = call or "page"
            call = f"[{shown}](../{self.page})"
        cells = (self.id, self.place, self.item, call or self.status, self.correction)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def items() -> list[Item]:
    """Return all items in the order of the file."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return [Item(**{field.name: row[field.name] for field in fields(Item)}) for row in csv.DictReader(file)]


def table(source: str) -> str:
    """Return the Markdown table of a source."""
    rows = [item.row for item in items() if item.source == source]
    return "\n".join(["| id | place | item | in mercer | correction |", "|---|---|---|---|---|", *rows, ""])


def filled(source: str, text: str) -> str:
    """Return the page of a source with its table."""
    found, count = _BLOCK.subn(lambda _: table(source), text)
    if count != 1:
        raise ValueError(f"docs/papers/{source}.md must have one block from <!-- items --> to <!-- end of items -->.")
    return found


def main() -> None:
    """Write the tables of all pages."""
    for source in dict.fromkeys(item.source for item in items()):
        page = PAPERS / f"{source}.md"
        page.write_text(filled(source, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
