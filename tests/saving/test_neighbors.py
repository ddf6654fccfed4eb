"""Libraries around scikit-learn take our pipelines as they are: skops writes and reads them, skore reports on them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

rng = np.random.default_rng(0)
SERIES = [rng.normal(size=(8, 2)) + i % 2 for i in range(12)]
STRINGS = ["".join(rng.choice(list("ACGT" if i % 2 else "AACT"), 12)) for i in range(12)]
Y = np.arange(12) % 2
CASES = {
    "Spectrum": (mc.Spectrum(2), STRINGS),
    "Fisher": (mc.Fisher(mc.HMM(2, n_init=1, n_iter=5, tol=1.0)), SERIES),
    "ProbabilityProduct": (mc.ProbabilityProduct(mc.Gaussian(prior="pooled")), SERIES),
}


@pytest.mark.parametrize("name", CASES)
def test_skops_writes_and_reads(name):
    skops = pytest.importorskip("skops.io", reason="needs skops")
    kernel, X = CASES[name]
    pipeline = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, Y)
    written = skops.dumps(pipeline)
    names = skops.get_untrusted_types(data=written)
    assert all(name.startswith("mercer.") for name in names), names
    again = skops.loads(written, trusted=names)
    np.testing.assert_array_equal(again.decision_function(X), pipeline.decision_function(X))


def test_skore_reports():
    skore = pytest.importorskip("skore", reason="needs skore")
    kernel, X = CASES["Spectrum"]
    report = skore.CrossValidationReport(make_pipeline(kernel, SVC(kernel="precomputed")), X=X, y=Y, splitter=3)
    assert 0 <= float(report.metrics.accuracy().iloc[0, 0]) <= 1
