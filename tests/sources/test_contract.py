"""The contract: 145 items of five sources, 130 of them with a test that computes the value by itself.

The sources come before any budget of code: an item leaves only by a change of the numbers in this file.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tests.sources.items import PAPERS, ROOT, STATUSES, filled, items

import mercer as mc

FOLDER = Path(__file__).parent
COUNTS = {"jebara2004": 58, "shawetaylor2004": 33, "song2010": 14, "mehta2010": 24, "agarwal2011": 16}
NO_COMPUTATION = {"J21", "J46", "J55", "J57", "S12", "S32", "H2", "H14", "M20", "M21", "A5", "A15", "A16"}
SET_ASIDE = {"J48", "M19"}
ANOTHER_WAY = {"J22", "J25", "H3", "S14", "S16", "M16"}
ITEMS = items()
TESTED = [item for item in ITEMS if item.id not in NO_COMPUTATION | SET_ASIDE]


@cache
def functions(source: str) -> dict[str, str]:
    """Return the names of the tests of a source, in classes too, and their code."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob(f"test_{source}*.py")))
    found = [
        (node.name, ast.unparse(node))
        for path in sorted(FOLDER.glob(f"test_{source}*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    twice = [name for name, count in Counter(name for name, _ in found).items() if count > 1]
    assert not twice, twice
    assert not re.search(r"pytest\.skip|importorskip|mark\.(skip|skipif|xfail|slow)", text), (
        f"no test of {source} is skipped"
    )
    return dict(found)


def test_every_item_is_there():
    assert Counter(item.source for item in ITEMS) == COUNTS
    assert len({item.id for item in ITEMS}) == 145
    assert len(TESTED) == 130


def test_the_status_of_every_item():
    expected = {item.id: "present" for item in ITEMS}
    for status, ids in (("no computation", NO_COMPUTATION), ("set aside", SET_ASIDE), ("another way", ANOTHER_WAY)):
        assert status in STATUSES
        expected |= dict.fromkeys(ids, status)
    assert {item.id: item.status for item in ITEMS} == expected


@pytest.mark.parametrize("item", TESTED, ids=operator.attrgetter("id"))
def test_every_item_has_its_call_and_its_test(item):
    assert item.call, "name the call that computes it"
    assert item.place
    assert item.test.startswith(f"test_{item.id.lower()}_"), item.test
    code = functions(item.source)[item.test]
    assert re.search(r"\bassert\b|assert_allclose|pytest\.raises|\bagree\(", code), f"{item.test} compares nothing"
    for name in re.findall(r"\bmc((?:\.\w+)+)", item.call):
        operator.attrgetter(name[1:])(mc)
    assert (ROOT / "docs" / item.page).is_file(), item.page


def test_what_is_not_tested_has_no_test():
    assert [item.id for item in ITEMS if item.test and item not in TESTED] == []


@pytest.mark.parametrize("source", COUNTS)
def test_pages_show_the_table(source):
    text = (PAPERS / f"{source}.md").read_text(encoding="utf-8")
    assert text == filled(source, text), "run python -m tests.sources.items"
