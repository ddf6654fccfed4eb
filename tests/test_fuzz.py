"""Random calls over the public API end in a value without NaN, or in one sentence; see benchmarks/fuzz.py."""

from __future__ import annotations

import pytest
from benchmarks import fuzz

CALLS = 300


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fuzz"))  # some calls write files
        return fuzz.run(CALLS, seconds=120.0)  # a busy machine that compiles is no hang


def test_every_call_ends_well(outcomes):
    bad = [f"call {at}, {o.kind}: {o.call}\n    {o.detail}" for at, o in enumerate(outcomes) if not o.good]
    assert not bad, "\n".join([*bad, fuzz.table(outcomes)])


def test_calls_reach_results_and_messages(outcomes):
    kinds = [outcome.kind for outcome in outcomes]
    assert kinds.count("value") > CALLS / 10
    assert kinds.count("sentence of mercer") > CALLS / 4


def test_every_public_class_is_covered():
    assert {"HMM", "HMMs", "Fisher", "Sequences", "mercer.gram.diagnose"} <= set(fuzz.names())
    assert {"Poissons", "HMMs", "Mixtures", "KDEs"} <= {type(batch).__name__ for batch in fuzz.batches()}
