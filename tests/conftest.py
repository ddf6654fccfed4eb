"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail: nothing here is timed.
settings.register_profile("mercer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "few", settings.get_profile("mercer"), max_examples=10
)  # for other versions: --hypothesis-profile
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
