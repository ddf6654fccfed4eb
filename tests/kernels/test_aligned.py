"""The nearest support objects of a sample, and their alignments."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

PAIR = mc.AffinePairHMM((2, -3), alphabet="dna", open_probability=0.05, extend_probability=0.5)
X = mc.Sequences(["ACGTACGT", "ACGTTCGT", "TTTTCCCC", "TTTCCCCC", "GGAACGTA"], ids=list("abcde"), alphabet="dna")
Y = [1, 1, 0, 0, 1]
NEW = "ACGACGT"


@pytest.mark.parametrize("shrink", [lambda p: p, mc.compact])
@pytest.mark.parametrize("wrap", [lambda k: k, lambda k: mc.Tempered(k, exponent=0.3), lambda k: k + mc.Spectrum(2)])
def test_shares_sum_to_the_decision(wrap, shrink):
    pipeline = make_pipeline(wrap(mc.Marginalization(PAIR)), SVC(kernel="precomputed")).fit(X, Y)
    found = mc.aligned(shrink(pipeline), NEW, n=5)
    assert sum(each.share for each in found) + pipeline[-1].intercept_[0] == pytest.approx(found.decision)
    assert found.decision == pytest.approx(pipeline.decision_function([NEW])[0])
    K = pipeline[0].transform([NEW])[0]
    for each in found:
        assert each.kernel == pytest.approx(K[each.index])
        assert each.name == X.ids[each.index]
        assert each.matches.second == X[each.index]
    values = [each.kernel for each in found]
    assert values == sorted(values, reverse=True)


def test_of_several_outputs():
    pipeline = make_pipeline(mc.Marginalization(PAIR), SVC(kernel="precomputed")).fit(list(X), [0, 0, 1, 1, 2])
    found = mc.aligned(pipeline, X[[0]], n=1, output=0)
    assert (found.output, found[0].index, found[0].name, len(found)) == ("0", 0, "0", 1)
    assert str(found).startswith("0: adds ")
    with pytest.raises(ValueError, match="3 outputs"):
        mc.aligned(pipeline, NEW)


def test_messages():
    spectrum = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed")).fit(X, Y)
    with pytest.raises(TypeError, match=r"got Spectrum\. Use mc\.Marginalization"):
        mc.aligned(spectrum, NEW)
    pipeline = make_pipeline(mc.Marginalization(PAIR), SVC(kernel="precomputed")).fit(X, Y)
    with pytest.raises(ValueError, match="1 or more; got 0"):
        mc.aligned(pipeline, NEW, n=0)
    with pytest.raises(ValueError, match=r"one sequence.*got 2"):
        mc.aligned(pipeline, X[:2])
    features = make_pipeline(mc.Features(mc.Spectrum(2)), SVC(kernel="linear")).fit(X, Y)
    with pytest.raises(TypeError):
        mc.aligned(features, NEW)
    assert np.isfinite(mc.aligned(pipeline, NEW).decision)
