"""The project as a whole: no traces of one machine, one version, documented names, working commands."""

from __future__ import annotations

import doctest
import importlib.metadata
import inspect
import re
import subprocess
import tomllib
import types
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import mercer
from mercer._batch import Batch

ROOT = Path(__file__).parents[1]
SKIPPED_FOLDERS = {"build", "dist", "__pycache__", "_build", "gallery", "generated"}
# Written in pieces, so that this file passes its own test.
ABSOLUTE = re.compile(r"(?<![\w.:/~$}])/(?:" + "|".join(("work", "root", "home")) + r")(?:/|\b(?![-.\w(]))")
HOSTS = re.compile("|".join(("pypi" + r"\.org", "pythonhosted" + r"\.org", "index" + "-url", "opt" + "/pypi")))
FROM_INDEX = re.compile("pip install " + "-*[a-z]* *['\"]?mercer")  # it is installed from a clone


def project_files() -> list[Path]:
    """Return the tracked and the new, not ignored files; without git, every file that is no build output."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        out = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        found = [ROOT / name for name in out.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not _is_output(path.relative_to(ROOT))]
    return sorted(path for path in found if path.is_file())


def _is_output(path: Path) -> bool:
    hidden = any(part.startswith(".") and part not in (".ci", ".gitignore") for part in path.parts)
    return hidden or bool(SKIPPED_FOLDERS & set(path.parts))


def text_files() -> list[tuple[Path, str]]:
    found = []
    for path in project_files():
        content = path.read_bytes()
        if b"\0" not in content:  # an image or an archive
            found.append((path.relative_to(ROOT), content.decode("utf-8")))
    return found


@pytest.mark.parametrize(
    "pattern", [ABSOLUTE, HOSTS, FROM_INDEX], ids=["absolute paths", "registry hosts", "commands that find no package"]
)
def test_no_file_knows_one_machine(pattern: re.Pattern[str]):
    offences = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not offences, "\n".join(offences)


@pytest.mark.parametrize("line", ["see /ho" + "me/me/x", "'/ro" + "ot/.cache'", "cd /wo" + "rk", "=/wo" + "rk/a"])
def test_an_absolute_path_is_found(line: str):
    assert ABSOLUTE.search(line)


@pytest.mark.parametrize("line", ["a/work/b", "https://x.org/home/", "frame/work", "$HOME/x", "memory/workers"])
def test_another_path_is_not(line: str):
    assert not ABSOLUTE.search(line)


def test_the_version_is_written_once():
    places = [p for p, text in text_files() if p.suffix in (".py", ".toml") and mercer.__version__ in text]
    assert places == [Path("src/mercer/_version.py")]


def test_the_installed_version_is_this_one():
    try:
        installed = importlib.metadata.version("mercer")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("mercer runs from a folder here and is not installed: pip install -e '.[test]'")
    assert installed == mercer.__version__


def public_names() -> dict[str, object]:
    """Return the names of ``mercer.__all__`` and of the modules in it; None for one that does not exist."""
    names: dict[str, object] = {}
    for name in mercer.__all__:
        value = names[name] = getattr(mercer, name, None)
        if isinstance(value, types.ModuleType):
            names |= {f"{name}.{inner}": getattr(value, inner, None) for inner in getattr(value, "__all__", [])}
    names.pop("__version__", None)  # a string, documented where it is written
    return names


def test_no_public_name_is_given_twice():
    assert len(set(mercer.__all__)) == len(mercer.__all__)


@pytest.mark.parametrize("name", sorted(public_names()))
def test_a_public_name_is_documented_with_an_example(name: str):
    value = public_names()[name]
    assert value is not None, f"{name} is in __all__ but does not exist"
    # `__doc__` rather than inspect.getdoc: an inherited docstring describes the parent.
    text = inspect.cleandoc(value.__doc__ or "")
    assert text, f"{name} has no docstring"
    if isinstance(value, types.ModuleType):
        return  # its names have the examples
    assert re.search(r"^Examples\n-{8}$", text, re.MULTILINE), f"{name} has no Examples section"
    assert ">>> " in text, f"the Examples section of {name} has no code"


def parameters() -> set[str]:
    """Return the names of the parameters of all public estimators, batches and kernels."""
    classes = [value for value in public_names().values() if isinstance(value, type)]
    found = [cls for cls in classes if issubclass(cls, BaseEstimator | Batch)]
    kept = [p for cls in found for p in inspect.signature(cls).parameters.values()]
    return {p.name for p in kept if p.kind is p.POSITIONAL_OR_KEYWORD} - {"self"}


FIRST = ("model", "kernel", "kernels", "component", "estimator")
"""What an estimator or a kernel is made of."""
LAST = ("prior", "prior_strength", "n_iter", "tol", "n_init", "init", "random_state", "normalize", "on_zero")
"""Common parameters; those of a class come before."""
COMMON = {"n_iter": 100, "tol": 1e-4, "n_init": 3, "normalize": True, "on_zero": "raise", "random_state": 0}
"""Defaults that are the same everywhere, unless a docstring says why."""


def classes_with_parameters() -> list[type]:
    rooms = (mercer.data, mercer.families, mercer.models, mercer.kernels, mercer.embedding)
    classes = {cls for room in rooms for name in room.__all__ if isinstance(cls := getattr(room, name), type)}
    return sorted((cls for cls in classes if issubclass(cls, BaseEstimator)), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", classes_with_parameters(), ids=lambda cls: cls.__name__)
def test_common_parameters_have_one_order_and_default(cls):
    found = inspect.signature(cls).parameters
    names = list(found)
    begin = [name for name in names if name in FIRST]
    end = [name for name in LAST if name in names]
    assert names[: len(begin)] == begin
    assert names[len(names) - len(end) :] == end
    text = inspect.getdoc(cls) or ""
    for name in COMMON.keys() & names:
        own = re.search(rf"^(?:\w+, )*{name}\b.* : .*\n((?: {{4}}.*\n)+)", text, re.MULTILINE)
        assert own, f"{cls.__name__} does not document {name}"
        same = found[name].default == COMMON[name]
        assert same or re.search(r"\b(because|as|since)\b", own[1]), (
            f"{cls.__name__}: why {name}={found[name].default}?"
        )


def test_a_word_has_one_meaning_in_all_parameters():
    rows = re.findall(r"^\| (`[^|]*) \|.*\| ([^|]*) \|$", (ROOT / "docs/parameters.md").read_text(), re.MULTILINE)
    words = [word for names, _ in rows for word in re.findall(r"`(\w+)`", names)]
    assert sorted(words) == sorted(parameters())
    for names, where in rows:  # every class that is named has one of the parameters of its row
        for name in re.findall(r"`([A-Z]\w*)`", where):
            signature = inspect.signature(mercer._public(name))
            assert {*re.findall(r"`(\w+)`", names)} & {*signature.parameters}, f"{name} has none of {names}"


@pytest.mark.parametrize("command", ["pip install '.[cli]' && mercer compare", "pip install -e '.[test]' && pytest"])
def test_the_readme_has_the_two_commands(command: str):
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_lowest_versions_are_the_bounds():
    """What the gate installs is what pyproject.toml promises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [
        *project["dependencies"],
        *extras["bio"],
        *extras["cli"],
        *extras["dask"],
        *extras["data"],
        *extras["store"],
        *extras["test"],
        *extras["testing"],
    ]
    bounds = dict(r.split(">=") for r in asked if not r.startswith("mercer["))
    lines = (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert set(pins) == set(bounds)
    different = {n: (bounds[n], pins[n]) for n in pins if _short(bounds[n]) != _short(pins[n])}
    assert not different, f"bound in pyproject.toml, pin in .ci/lowest.txt: {different}"


def _short(version: str) -> str:
    return re.sub(r"(\.0)+$", "", version)


def pages() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md" and path.name != "CHANGELOG.md"]


# A fenced block of Python. It runs, unless the line above it is a comment that says why not.
BLOCK = re.compile(r"^(?P<not_run><!-- not run: [^\n]+ -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(text: str, name: str) -> None:
    """Run the Python blocks of a page, one after the other in one namespace; prompts are doctests."""
    namespace: dict[str, object] = {"__name__": "page"}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code"))
        code = block["code"]
        if block["not_run"]:
            continue
        if ">>> " in code:
            test = doctest.DocTestParser().get_doctest(code, namespace, name, name, line)
            report: list[str] = []
            doctest.DocTestRunner(verbose=False, optionflags=flags).run(test, out=report.append, clear_globs=False)
            assert not report, "".join(report)
            namespace = test.globs
        else:
            exec(compile("\n" * line + code, name, "exec", dont_inherit=True), namespace)


@pytest.mark.slow
@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # for what a page saves
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run_page(path.read_text(encoding="utf-8"), str(path))


def test_a_wrong_page_is_found():
    run_page(
        "```python\na = 1\n```\n\n```python\n>>> a\n1\n>>> b = 2\n```\n```python\nassert b == 2\n```\n",
        "page",
    )
    skipped = "<!-- not run: downloads -->\n```python\n1 / 0\n```\n"
    run_page(skipped + "```text\n1 / 0\n```\n", "page")
    for text in ("", skipped), (skipped, ""), (skipped, skipped):
        with pytest.raises(ZeroDivisionError):
            run_page(text[0] + "```python\n1 / 0\n```\n" + text[1], "page")
    with pytest.raises(AssertionError, match=r"Expected:\n *2"):
        run_page("```python\n>>> 1\n2\n```\n", "page")
