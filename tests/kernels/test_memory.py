"""Matrices that do not fit into memory are refused before anything is fitted."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer import _sizes
from mercer._sizes import human

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2


class TestMemory:
    @pytest.fixture(autouse=True)
    def little(self, monkeypatch):
        monkeypatch.setattr(_sizes, "free_bytes", lambda: 10 * 2**30)

    def test_before_anything_is_fitted(self, monkeypatch):
        monkeypatch.setattr(mc.Fisher, "fit", None)  # is not reached
        many = np.broadcast_to(0.0, (100_000, 2))
        with pytest.raises(
            MemoryError,
            match=r"matrix of Fisher of 100,000 samples needs 74.5 GiB of memory, and 10.0 GiB are free. .*"
            r"mc.Features\(kernel\) or mc.Landmarks.*store=",
        ):
            mc.Fisher(mc.Gaussian()).fit_transform(many)

    def test_new_samples_and_calls(self):
        kernel = mc.RBF().fit(X)
        many = np.broadcast_to(0.0, (2**30, 2))
        with pytest.raises(MemoryError, match=r"of 1,073,741,824 and 12 samples needs 96.0 GiB"):
            kernel.transform(many)
        with pytest.raises(MemoryError, match="of 1,073,741,824 samples needs"):
            mc.RBF()(many)
        with pytest.raises(MemoryError, match="and 12 samples"):
            mc.RBF()(many, X)

    def test_the_regression(self, monkeypatch):
        monkeypatch.setattr(_sizes, "SMALL", 0)
        monkeypatch.setattr(_sizes, "free_bytes", lambda: 4000)
        with pytest.raises(MemoryError, match=r"KernelRidge .* needs 4.5 KiB of memory, and 3.9 KiB are free"):
            mc.KernelRidge().fit(X @ X.T, Y)


def test_what_fits_is_computed():
    assert mc.RBF().fit_transform(X).shape == (12, 12)
    free = _sizes.free_bytes()
    assert free is None or free > 2**20


def test_a_container_has_less(monkeypatch, tmp_path):
    for name, text in (("max", "5000000"), ("current", "4000000"), ("stat", "anon 1\ninactive_file 500000\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(_sizes, "_CGROUPS", (tuple(tmp_path / name for name in ("max", "current", "stat")),))
    monkeypatch.setattr(_sizes, "_of_system", lambda: 2**40)
    assert _sizes.free_bytes() == 1_500_000
    (tmp_path / "max").write_text("max\n")
    assert _sizes.free_bytes() == 2**40
    monkeypatch.setattr(_sizes, "_of_system", lambda: None)
    assert _sizes.free_bytes() is None


@pytest.mark.parametrize(
    ("size", "text"), [(10, "10 bytes"), (2048, "2.0 KiB"), (80e9, "74.5 GiB"), (2**50, "1024.0 TiB")]
)
def test_human_units(size, text):
    assert human(size) == text
