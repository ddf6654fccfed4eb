"""From a FASTA file to predictions through few modules: explicit features need no sides, memo, tiles and devices."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.kernels import _operands

MOST = 18
"""Modules of mercer whose functions are called."""
STRINGS = mc.Sequences(["ACGTTGCA", "GGGTACCA", "TTTACGTG", "ACACACGT"], alphabet="dna")


def test_few_modules(tmp_path):
    path = tmp_path / "strings.fasta"
    path.write_text("".join(f">{i}\n{'ACGT' * 2}{'CAT'[i % 3] * i}\n" for i in range(2, 10)))
    y = np.arange(8) % 2

    def predictions():
        X = mc.read_fasta(path).X
        return make_pipeline(mc.Spectrum(3), SVC(kernel="precomputed")).fit(X, y).predict(X)

    predictions()  # imports what is needed
    root, entered = Path(mc.__file__).parent, set()

    def note(frame, event, argument):
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(root):
            entered.add(str(file.relative_to(root)))

    sys.setprofile(note)
    try:
        predictions()
    finally:
        sys.setprofile(None)
    assert len(entered) <= MOST, sorted(entered)
    assert not entered & {"kernels/_evaluation.py", "gram/engine.py", "gram/pair_memo.py", "_parallel.py"}


@pytest.mark.parametrize("normalize", [True, False])
def test_is_the_way_of_other_kernels(normalize, monkeypatch):
    kernels = [mc.Spectrum(2, normalize=normalize), mc.Linear(normalize=normalize)]
    for kernel, X in zip(kernels, (STRINGS, np.random.default_rng(0).normal(size=(9, 3))), strict=True):
        short, rows = kernel.fit_transform(X), kernel.transform(X[:3])
        with monkeypatch.context() as patch:
            patch.setattr(_operands.InnerProducts, "_is_small", lambda *_: False)
            np.testing.assert_allclose(short, kernel.fit_transform(X), rtol=1e-14)
            np.testing.assert_allclose(rows, kernel.transform(X[:3]), rtol=1e-14, atol=1e-15)


def test_a_changed_parameter_takes_effect_at_once():
    kernel = mc.Spectrum(2).fit(STRINGS)
    before = kernel.transform(STRINGS)
    expected = mc.Spectrum(3).fit(STRINGS).transform(STRINGS)
    np.testing.assert_array_equal(kernel.set_params(k=3).transform(STRINGS), expected)
    np.testing.assert_array_equal(kernel.set_params(k=2).transform(STRINGS), before)
