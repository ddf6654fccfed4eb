"""Lists of all families, made of the families themselves: ``python -m tests.families.lists`` writes them.

They are the table and the contents of docs/families/index.md, docs/api/families.md, and lines of
tests/capabilities.txt; tests/core/golden/make.py takes the batches of its files from here.
A new family needs an entry in `mercer.families.__all__`, a row in tests/families/table.py and a page.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np

import mercer as mc
from mercer import families
from mercer.families import ExponentialFamily, Family, FamilyEstimator

ROOT = Path(__file__).parents[2]
INDEX, API, CAPABILITIES = "docs/families/index.md", "docs/api/families.md", "tests/capabilities.txt"
COMMON = ("Gaussian", "Categorical", "Multinomial", "Bernoulli", "Poisson", "Exponential", "Gamma")
PAGES = {"GaussianMean": "gaussian_known", "GaussianCovariance": "gaussian_known", "Lomaxes": "exponential"}
"""Pages of two families; the others are named after the file of the family."""
BASES = (Family, ExponentialFamily, families.Coordinatewise, FamilyEstimator)


def singulars() -> list[str]:
    """Return the names of the estimators, the most common first."""
    found = [n for n in families.__all__ if _is(n, FamilyEstimator) and getattr(families, n).__module__ != _BASE]
    return [*COMMON, *sorted(set(found) - set(COMMON))]


_BASE = FamilyEstimator.__module__


def plural(name: str) -> Any:
    """Return the class of the batches of an estimator."""
    return families.Gaussians if name == "Gaussian" else getattr(families, name).family


def predicted() -> list[str]:
    """Return the names of the batches without an estimator: predictive distributions."""
    known = {plural(name).__name__ for name in singulars()}
    return [n for n in families.__all__ if _is(n, Family) and getattr(families, n) not in BASES and n not in known]


def _is(name: str, base: type) -> bool:
    value = getattr(families, name)
    return isinstance(value, type) and issubclass(value, base)


def page_of(name: str) -> str:
    """Return the name of the page of an estimator, or of a batch without one."""
    return PAGES.get(name, getattr(families, name).__module__.rpartition(".")[2].removesuffix("_estimator"))


def table() -> str:
    """Return the rows of the table of families."""
    rows = []
    for name in [*singulars(), *predicted()]:
        cls = plural(name) if name in singulars() else getattr(families, name)
        sample = re.search(r"every sample \(([^)]*)\)", inspect.getdoc(getattr(families, name)) or "")
        what = sample[1] if sample else "predicted from a sample"
        title = re.sub(r"(?<!^)(?=[A-Z])", " ", name) if name in singulars() else name
        signature = ", ".join(inspect.signature(cls).parameters)
        dual = "yes" if hasattr(cls, "dual_divergence") else "no"
        if dual == "yes" and not cls._declares("legendre") and not cls._declares("from_moments"):
            dual = "by Newton's method"
        rows.append(
            f"| [{title}]({page_of(name)}.md) | {what} | `{cls.__name__}({signature})` | {_product(cls)} | "
            f"{_mean_map(cls)} | {dual} |"
        )
    return "\n".join(rows)


def _product(cls: Any) -> str:
    if not hasattr(cls, "log_product"):
        return "`Sampled`"
    finite = issubclass(cls, ExponentialFamily) and cls._declares("finite")
    return "where it is finite" if finite or cls is families.Wisharts else "any rho"


def _mean_map(cls: Any) -> str:
    if hasattr(cls, "log_mean_map"):
        return "yes"
    return "random features" if hasattr(cls, "log_characteristic") else "no"


def public(name: str) -> str:
    """Return a name as the reference lists it."""
    return name if name in mc.__all__ else f"families.{name}"


def api_list(names: list[str]) -> str:
    """Return the entries of a list of the reference."""
    return "\n".join(f"   {public(name)}" for name in names)


def capability(cls: Any) -> str:
    """Return the line of a class: what it has, and its parameters."""
    words = {n for n in dir(cls) if n in KEPT} | {f"{n}=" for n in inspect.signature(cls).parameters}
    return f"name: {cls.__name__} {' '.join(sorted(words))}"


KEPT = {
    "accept", "fit", "fit_each", "fit_weighted", "get_params", "score", "score_samples",
    "concat", "couple", "dual_divergence", "dual_psd", "estimator", "fisher_information", "fisher_scores", "kl", "load",
    "log_characteristic", "log_mean_map", "log_prob", "log_product", "pooled", "reshape", "sample", "save",
    "score_names", "to", "with_mean_parameters",
}  # fmt: skip


def capabilities() -> list[str]:
    """Return the lines of the families that are not among the most common ones, whose lines are written by hand."""
    names = [n for n in singulars() if n not in COMMON]
    classes = [getattr(families, n) for n in names] + [plural(n) for n in names]
    return sorted(map(capability, classes + [getattr(families, n) for n in predicted()]))


ARRAYS = {
    "positive": [[0.5, 1.5], [2.0, 0.25], [1.0, 3.0]],
    "nonnegative": [[0.0, 1.5], [2.0, 0.25], [1.0, 3.0]],
    "probability": [[0.5, 1.0], [0.25, 0.125], [0.75, 0.5]],
    "real": [[-0.5, 1.5], [0.0, 0.25], [1.0, -3.0]],
    "sphere": [[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]],
    "definite": [np.eye(2), [[2.0, 0.5], [0.5, 1.0]], 0.25 * np.eye(2)],
}
"""Values of parameters by the name of their set, of three members."""


def batches() -> dict[str, Any]:
    """Return one batch of every family that is not among the most common ones, for the golden files."""
    known = {plural(name).__name__ for name in COMMON}
    found = {}
    for name in sorted({plural(n).__name__ for n in singulars()} - known | set(predicted())):
        cls = getattr(families, name)
        fields = {}
        for n, parameter in cls._declared.items():
            values = np.array(ARRAYS[parameter.within.name], dtype=float)
            fields[n] = (values[0] if parameter.known else values) if parameter.axes else values[:, 0]
        found[name.lower()] = cls(**fields, **dict.fromkeys(cls._constants, 3))
    return found


def replaced(text: str, begin: str, end: str, new: str) -> str:
    """Return a text with what is between two of its lines replaced."""
    head, _, rest = text.partition(begin)
    assert end in rest, f"{begin!r} is not followed by {end!r}"
    return f"{head}{begin}{new}\n{end}{rest.partition(end)[2]}"


def written() -> dict[str, str]:
    """Return the files with their lists as they should be."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in (INDEX, API, CAPABILITIES)}
    rule = "|---|---|---|---|---|---|\n"
    texts[INDEX] = replaced(texts[INDEX], rule, "\n*By Newton's method*", table())
    pages = list(dict.fromkeys(page_of(name) for name in [*singulars(), *predicted()]))
    texts[INDEX] = replaced(texts[INDEX], ":hidden:\n\n", "```", "\n".join([*pages, "your_own"]))
    lists = texts[API].split("   :toctree: generated\n\n")
    plurals = [plural(n).__name__ for n in singulars()] + predicted()
    new = [api_list(singulars()), api_list(plurals)]
    parts = [f"{entries}\n```{part.partition('```')[2]}" for entries, part in zip(new, lists[1:3], strict=True)]
    texts[API] = "   :toctree: generated\n\n".join([lists[0], *parts, *lists[3:]])
    lines = texts[CAPABILITIES].splitlines()
    names = {line.split()[1] for line in capabilities()}
    kept = [line for line in lines if not (line.startswith("name: ") and line.split()[1] in names)]
    begin = next(i for i, line in enumerate(kept) if line.startswith("name: "))
    end = max(i for i, line in enumerate(kept) if line.startswith("name: ")) + 1
    texts[CAPABILITIES] = "\n".join([*kept[:begin], *kept[begin:end], *capabilities(), *kept[end:], ""])
    return texts


if __name__ == "__main__":
    for path, text in written().items():
        (ROOT / path).write_text(text, encoding="utf-8")
