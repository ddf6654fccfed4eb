"""Random calls over the public API end in a value without NaN, or in one sentence; see benchmarks/fuzz.py."""

from __future__ import annotations

import inspect

import pytest
from benchmarks import fuzz
from sklearn.base import BaseEstimator

import mercer as mc

CALLS = 300
ODD = (1.0, len, [object()])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fuzz"))  # some calls write files
        return fuzz.run(CALLS, seconds=120.0)  # a busy machine that compiles is no hang


@pytest.mark.slow
def test_every_call_ends_well(outcomes):
    bad = [f"call {at}, {o.kind}: {o.call}\n    {o.detail}" for at, o in enumerate(outcomes) if not o.good]
    assert not bad, "\n".join([*bad, fuzz.table(outcomes)])


@pytest.mark.slow
def test_calls_reach_results_and_messages(outcomes):
    kinds = [outcome.kind for outcome in outcomes]
    assert kinds.count("value") > CALLS / 10
    assert kinds.count("sentence of mercer") > CALLS / 4


def test_every_public_class_is_covered():
    assert {"HMM", "HMMs", "Fisher", "Sequences", "mercer.gram.diagnose"} <= set(fuzz.names())
    assert {"Poissons", "HMMs", "Mixtures", "KDEs"} <= {type(batch).__name__ for batch in fuzz.batches()}


REQUIRED = {
    "k1": mc.RBF(), "k2": mc.RBF(), "kernel": mc.RBF(), "kernels": [mc.RBF()], "model": mc.HMM(2), "nodes": {"a": 2},
    "tree": "((a,b),c);",
}  # fmt: skip


def properties(cls):
    members = [(name, inspect.getattr_static(cls, name)) for name in dir(cls) if not name.startswith("_")]
    return [name for name, member in members if isinstance(member, property)]


@pytest.mark.parametrize(
    "cls", [cls for cls in fuzz.names().values() if inspect.isclass(cls) and issubclass(cls, BaseEstimator)]
)
def test_properties_and_tags_before_fit_name_the_odd_parameter(cls):
    parameters = inspect.signature(cls).parameters.values()
    given = {p.name: REQUIRED.get(p.name, 1.0) for p in parameters if p.default is p.empty}
    for name in [p.name for p in parameters]:
        for odd in ODD:
            estimator = cls(**given | {name: odd})
            for asked in (*properties(cls), "__sklearn_tags__"):
                try:
                    value = getattr(estimator, asked)
                    _ = value() if asked == "__sklearn_tags__" else value
                except Exception as error:
                    kind, detail = fuzz._of_error(error)
                    unfitted = isinstance(error, AttributeError) and cls.__name__ in str(error)
                    assert kind in fuzz.GOOD or unfitted, f"{cls.__name__}({name}={odd!r}).{asked}: {detail}"
