"""What pages and messages recommend exists: the names, and the parameters of calls in code spans and in messages.

The code blocks of pages run in tests/test_project.py; here are the spans between the lines, which do not run.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

import mercer as mc

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[a-z]*/*.md"), *ROOT.glob("*.md")])
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
CALL = re.compile(r"\bmc\.[A-Za-z_.]+\([^()]*(?:\([^()]*\)[^()]*)*\)")
ROOMS = (
    mc.gram,
    mc.gram.psd,
    mc.datasets,
    mc.plot,
    mc.models,
    mc.kernels,
    mc.families,
    mc.stats,
    mc.data,
    mc.embedding,
)
ELSEWHERE = {
    # Parameters of other libraries, environment variables, class attributes, and entries of data.
    "C", "MERCER_DATA", "MERCER_ISA", "by_length", "class", "cough", "covtype",
    "domain", "extend_gap_score", "family", "implementation", "model_beta",
    "normalize_y", "open_gap_score", "rhos", "scoring", "startprob_prior", "transmat_prior", "type", "viterbi",
    "xp", "_smooth",
}  # fmt: skip

MISTAKES = {"mc.HMM(n_components=3)", 'Gaussian(estimate="student")'}
"""Calls that a page shows because of their message, and one that left the library and is still in the changelog."""


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def all_parameters() -> set[str]:
    """Return the names of the parameters of all public functions, classes and methods."""
    public = [getattr(room, name) for room in (mc, *ROOMS) for name in getattr(room, "__all__", [])]
    found = set(mc.settings().__dataclass_fields__)
    for value in public:
        found |= set(parameters(value)) if callable(value) else set()
        if isinstance(value, type):
            found |= {name for _, method in inspect.getmembers(value, callable) for name in parameters(method)}
    return found


def wrong_calls(code: str) -> Iterator[str]:
    """Yield what a snippet passes to public names of mercer that these do not take."""
    try:
        tree = ast.parse(code.strip())
    except SyntaxError:  # no code, or an abbreviation
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not re.fullmatch(r"[\w.]+", ast.unparse(node.func)):
            continue  # a method of a result
        target: Any = mc
        for part in ast.unparse(node.func).removeprefix("mc.").split("."):
            target = getattr(target, part, None)
        known = parameters(target) if target is not None else {}
        if not known and ast.unparse(node.func).startswith("mc.") and target is None:
            yield f"{ast.unparse(node.func)} does not exist"
        if any(p.kind is p.VAR_KEYWORD for p in known.values()):
            continue
        for keyword in node.keywords if known else ():
            if keyword.arg and keyword.arg not in known:
                yield f"{keyword.arg} of {ast.unparse(node.func)}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_spans_of_a_page(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    spans = SPAN.findall(text)
    known = KNOWN | ELSEWHERE | {"estimate"}  # left the library, and is still in the changelog
    bare = [re.match(r"([A-Za-z_]\w*) ?= ?[^=]", span) for span in spans]
    unknown = [match.group() for match in bare if match and match[1] not in known]
    assert not unknown, f"no public function or class has the parameters {unknown}"
    wrong = [f"{span}: {what}" for span in spans if span not in MISTAKES for what in wrong_calls(span)]
    assert not wrong, "\n".join(wrong)


KNOWN = all_parameters()


@pytest.mark.slow
def test_calls_in_messages():
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "mc." in node.value:
                if ">>>" in node.value:  # a docstring with an example, which runs
                    continue
                calls = [what for call in CALL.findall(node.value) for what in wrong_calls(call)]
                wrong += [f"{path.relative_to(ROOT)}:{node.lineno}: {what}" for what in calls]
    assert not wrong, "\n".join(wrong)


def test_a_wrong_recommendation_is_found():
    assert list(wrong_calls("mc.HMM(3, unheard=1.0)")) == ["unheard of mc.HMM"]
    assert list(wrong_calls("Fisher(HMM(unheard=1.0))")) == ["unheard of HMM"]
    assert list(wrong_calls("mc.Unheard(3)")) == ["mc.Unheard does not exist"]
    assert not list(wrong_calls("MarkovChain(smoothing=1.0)"))
    assert not list(wrong_calls("SVC(anything=1)"))


def wrong_values(code: str) -> Iterator[str]:
    """Yield why an estimator that a span makes, such as ``Fisher(HMM(8))``, refuses its parameters."""
    try:
        tree = ast.parse(code.strip(), mode="eval")
    except SyntaxError:
        return
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"mc"}
    called = [ast.unparse(node.func).removeprefix("mc.") for node in ast.walk(tree) if isinstance(node, ast.Call)]
    abbreviated = any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(tree))
    known = {name: getattr(mc, name, None) for name in called}
    estimators = all(isinstance(cls, type) and issubclass(cls, BaseEstimator | mc.Discounted) for cls in known.values())
    if not isinstance(tree.body, ast.Call) or abbreviated or not estimators or not used <= set(called):
        return  # no estimator, or Fisher(HMM) and Fisher(model), which name classes and variables
    try:
        made = eval(compile(tree, "span", "eval"), {"mc": mc, **known})
    except TypeError:  # Centered(), without what it wraps; wrong names are found above
        return
    try:
        getattr(made, "_check_parameters", lambda: None)()
    except (TypeError, ValueError) as error:
        yield str(error)


@pytest.mark.parametrize("folder", ["families", "kernels", "models", "tutorials", "."])
def test_recommended_values_are_accepted(folder):
    wrong = []
    for path in sorted((ROOT / "docs" / folder).glob("*.md")):
        spans = SPAN.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
        found = [span for span in spans if span not in MISTAKES and not span.startswith("PosteriorCounts(k=")]
        wrong += [f"{path.name}, {span}: {what}" for span in found for what in wrong_values(span)]
    assert not wrong, "\n".join(wrong)


def test_a_wrong_value_is_found():
    assert len(list(wrong_values('Fisher(Gaussian(covariance="round"))'))) == 1
    assert len(list(wrong_values('Gaussian(covariance="round")'))) == 1
    assert len(list(wrong_values("mc.HMM(n_states=0)"))) == 1
    assert not list(wrong_values("Fisher(HMM)"))
