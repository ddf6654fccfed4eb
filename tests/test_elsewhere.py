"""The pages for those who come from elsewhere: the programs of the other libraries run where these are installed."""

from __future__ import annotations

import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "elsewhere").glob("*.md"))
BLOCK = re.compile(
    r"^(?:<!-- not run: needs (?P<needs>\w+) -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in PAGES if path.stem != "index"], ids=lambda path: path.stem)
def test_the_programs_of_the_other_library_run(path: Path):
    blocks = list(BLOCK.finditer(path.read_text(encoding="utf-8")))
    needed = {block["needs"].lower() for block in blocks if block["needs"]}
    assert needed, "the page has no program of another library"
    missing = sorted(name for name in needed if not find_spec(name))
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(block["code"], namespace)
