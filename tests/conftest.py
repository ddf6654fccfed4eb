"""Fixtures that several test files share."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# A busy machine is no reason to fail: nothing here is timed.
# Choose one with --hypothesis-profile: the default is for every day, "many" for the gate, "few" for other versions.
settings.register_profile("mercer", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20)
settings.register_profile("many", settings.get_profile("mercer"), max_examples=50)
settings.register_profile("few", settings.get_profile("mercer"), max_examples=10)
settings.load_profile("mercer")


@pytest.fixture(scope="session")
def real_folder() -> Path:
    """Return the folder of the real sets, or skip."""
    root = os.environ.get("MERCER_DATA") or Path(__file__).parents[2] / "shared" / "data"
    if not Path(root).is_dir():
        pytest.skip(f"needs the real data sets, and there is no folder {root}: set MERCER_DATA to where they are")
    return Path(root)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, real_folder: Path) -> None:
    """Let loaders find the real sets, or skip."""
    monkeypatch.setenv("MERCER_DATA", str(real_folder))


@pytest.fixture
def torch() -> Any:
    """Return torch, or skip this test alone: a module must never be skipped as a whole."""
    return pytest.importorskip("torch", reason="gradients and tensors need torch: pip install torch")


@pytest.fixture(params=["array_api_strict", "torch"])
def library(request: pytest.FixtureRequest) -> Any:
    """Return an array library other than NumPy; torch is skipped where it is not installed."""
    return pytest.importorskip(request.param)


@functools.cache
def _mentions_torch(function: Any) -> bool:
    return "torch" in inspect.getsource(function)


RULES = {
    "test_a_second_fit_forgets_the_first",
    "test_an_iterator_is_read_once",
    "test_any_number_of_threads_and_any_tile",
    "test_asking_changes_nothing",
    "test_borders",
    "test_clone_parameters_pickle_deepcopy",
    "test_each_sample_is_fitted_once",
    "test_immutable",
    "test_memo_gives_the_same_rows",
    "test_parameters_stay_as_given",
    "test_save_and_load",
    "test_scikit_learn_manners",
    "test_threads_share_a_fitted_kernel",
    "test_training_data_may_be_written_into_afterwards",
}
"""Tests of the batteries that check one rule of a base class: slow, except for the first class of every kind."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark rules of base classes as slow, and tests that need torch, so that ``pytest -m torch`` runs them alone."""
    first: dict[Any, Any] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.cls is not None and item.originalname in RULES:
            batteries = tuple(base for base in item.cls.__mro__ if base.__module__.startswith("mercer.testing"))
            kind = item.originalname, batteries, *(getattr(item.cls, name, None) for name in ("needs_fit", "features"))
            if batteries and first.setdefault(kind, item.cls) is not item.cls:
                item.add_marker("slow")
        if isinstance(item, pytest.Function):
            chosen = getattr(item, "callspec", None)
            names = {value for value in chosen.params.values() if isinstance(value, str)} if chosen else set()
            if names & {"numpy", "array_api_strict"}:
                continue
            if "torch" in names or "torch" in item.fixturenames or _mentions_torch(item.function):
                item.add_marker("torch")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail where a whole module is skipped: its tests would be missing unnoticed."""
    report = yield
    if isinstance(collector, pytest.Module) and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} is skipped as a whole: import an optional library inside the tests that need it"
        )
    return report


@pytest.fixture(autouse=True)
def _no_open_figures():
    """Close the figures that a test leaves: another test of the same process counts them."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
