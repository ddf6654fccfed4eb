"""Lists of families in documents are those of the families."""

import pytest
from tests.families import lists
from tests.families.table import ROWS


@pytest.mark.parametrize("path", [lists.INDEX, lists.API, lists.CAPABILITIES])
def test_lists_are_current(path):
    text = (lists.ROOT / path).read_text(encoding="utf-8")
    assert text == lists.written()[path], "run python -m tests.families.lists"


def test_every_family_has_a_page_and_a_row():
    for name in [*lists.singulars(), *lists.predicted()]:
        assert (lists.ROOT / "docs" / "families" / f"{lists.page_of(name)}.md").exists()
    tested = {type(row.members(lists.np.random.default_rng(0), (2,))).__name__ for row in ROWS.values()}
    every = {lists.plural(name).__name__ for name in lists.singulars()} | set(lists.predicted())
    assert every - tested == {"Gaussians"}  # which has files of its own
