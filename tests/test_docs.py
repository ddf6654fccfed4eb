"""The pages: pictures with words for those who cannot see them, code that fits its box, every public name."""

from __future__ import annotations

import re
import types
from pathlib import Path

import pytest

import mercer

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = {"_build", "gallery", "generated"}
COLUMNS = 88  # of code on a page; more would be cut off or scroll
PICTURE = re.compile(r"!\[(?P<alt>[^]]*)\]\((?P<path>[^)]+)\)")


def pages() -> list[Path]:
    found = [path for path in DOCS.rglob("*.md") if not BUILT & set(path.relative_to(DOCS).parts)]
    return sorted([*found, ROOT / "README.md"])


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", pages(), ids=name)
def test_pictures_exist_and_are_described(path: Path):
    for found in PICTURE.finditer(path.read_text(encoding="utf-8")):
        assert (path.parent / found["path"]).is_file(), f"{found['path']} does not exist"
        assert len(found["alt"].split()) >= 4, f"say what {found['path']} shows: '{found['alt']}'"


def test_every_public_name_is_in_the_reference():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    listed = re.findall(r"^   ([A-Za-z][\w.]*)$", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    short = {entry.rpartition(".")[2] for entry in listed}  # a name may be listed by its other address
    for public in mercer.__all__:
        value = getattr(mercer, public)
        module = isinstance(value, types.ModuleType)
        inner = (
            [n for n in value.__all__ if not isinstance(getattr(value, n), types.ModuleType)] if module else [public]
        )
        missing = {*inner} - {*short, "__version__"}
        assert not missing, f"not on a page of docs/api: {missing} of {public}"


def test_every_formula_has_one_entry():
    text = (DOCS / "formulas.md").read_text(encoding="utf-8")
    entries = re.findall(r"^([A-Z]+-\w+(?:\.\w+)?), .*\n: ", text, re.MULTILINE)
    assert sorted(e for e in set(entries) if entries.count(e) > 1) == []
    sources = [*DOCS.rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    kinds = "|".join({entry.partition("-")[0] for entry in entries if not entry.startswith("C-")})
    cited = re.compile(rf"(?<![\w-])(?:{kinds})-\d+[a-z]?(?:\.\d+[a-z]?)?")
    unknown = {
        f"{path.relative_to(ROOT)}: {id_}"
        for path in sources
        for id_ in cited.findall(path.read_text(encoding="utf-8"))
        if id_ not in entries
    }
    assert not unknown, unknown


@pytest.mark.parametrize("path", [*pages(), ROOT / "CONTRIBUTING.md"], ids=name)
def test_code_is_no_wider_than_its_box(path: Path):
    inside, wide = False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside and len(line) > COLUMNS:
            wide.append(f"{name(path)}:{number} has {len(line)} columns; break it at {COLUMNS}")
    assert not wide, "\n".join(wide)


def test_examples_of_docstrings_are_no_wider_than_their_box():
    wide = [
        f"{name(path)}:{number} has {len(line.strip())} columns; break it at {COLUMNS}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if line.lstrip().startswith((">>> ", "... ")) and len(line.strip()) > COLUMNS
    ]
    assert not wide, "\n".join(wide)


def saved(text: str) -> list[str]:
    code = re.findall(r"^(?<!-->\n)```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"savefig\(\"([\w.]+)\"", "\n".join(code))


@pytest.mark.parametrize("path", pages(), ids=name)
def test_what_is_drawn_is_shown(path: Path):
    text = path.read_text(encoding="utf-8")
    hidden = [f for f in saved(text) if f"_static/{f})" not in text]
    assert not hidden, f"show {hidden} on the page and run: python docs/pictures.py {path.relative_to(DOCS)}"


PICTURED = [
    path
    for folder in ("kernels", "models", "tutorials")
    for path in sorted((DOCS / folder).glob("*.md"))
    if path.stem != "index" and not path.stem.startswith("from_")
]


@pytest.mark.parametrize("path", PICTURED, ids=name)
def test_every_tutorial_kernel_and_model_shows_a_picture(path: Path):
    assert PICTURE.search(path.read_text(encoding="utf-8")), "add a picture that the code of the page saves"


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "_static").iterdir()}
    assert max(sizes.values()) < 200_000
    assert sum(sizes.values()) < 3_100_000
