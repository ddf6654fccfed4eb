import copy
import pickle

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import GenericKernelMixin, Kernel, NormalizedKernelMixin
from sklearn.model_selection import cross_val_score
from sklearn.utils import check_array

import mercer as mc
from mercer._checks import is_number
from mercer.data import Sequences, objects
from mercer.data.objects import Datum


class SameLength(NormalizedKernelMixin, GenericKernelMixin, Kernel):
    """A kernel on lengths, for scikit-learn's Gaussian processes."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        a = Sequences(X).lengths
        b = a if Y is None else Sequences(Y).lengths
        K = np.exp(-0.5 * (a[:, None] - b) ** 2)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def is_stationary(self):
        return False


MANY = [
    Sequences(["a" * (i % 5 + 1) for i in range(20)], alphabet="abc", ids=map(str, range(20))),
    Sequences([np.full((i % 5 + 1, 2), 1.0) for i in range(20)]),
]


@pytest.mark.parametrize("X", MANY)
def test_round_trip(X):
    wrapped = objects(X)
    assert (wrapped.shape, wrapped.dtype) == ((20,), object)
    for back, want in [(Sequences(wrapped), X), (Sequences(wrapped[3:6]), X[3:6]), (Sequences(list(wrapped)), X)]:
        np.testing.assert_array_equal(back.values, want.values)
        np.testing.assert_array_equal(back.offsets, want.offsets)
        assert back.alphabet == want.alphabet
        assert back.ids == want.ids
    assert objects(wrapped)[0] is wrapped[0]


@pytest.mark.parametrize("X", MANY)
def test_passes_scikit_learn(X):
    wrapped = objects(X)
    checked = check_array(wrapped, ensure_2d=False, dtype=None)
    assert checked.shape == (20,)
    assert all(a is b for a, b in zip(checked, wrapped, strict=True))
    y = X.lengths.astype(float)
    gp = GaussianProcessRegressor(SameLength(), alpha=1e-6).fit(wrapped, y)
    np.testing.assert_allclose(gp.predict(wrapped), y, atol=1e-3)
    assert cross_val_score(gp, wrapped, y, cv=4).min() > 0.99
    classifier = GaussianProcessClassifier(SameLength(), optimizer=None)
    assert cross_val_score(classifier, wrapped, y > 3, cv=4).min() > 0.99


def test_other_data():
    assert list(Sequences(objects(["ab", "b"]))) == ["ab", "b"]
    assert list(Sequences(objects(("ab", "b")), alphabet="abc").alphabet.symbols) == ["a", "b", "c"]
    a = np.zeros((3, 2, 2))
    wrapped = objects(a)
    a[:] = 1
    assert wrapped.shape == (3,)
    assert not wrapped[0].value.any()
    assert not wrapped[0].value.flags.writeable
    assert Sequences(wrapped).dimension == 2
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    assert list(Sequences(objects(pd.Series(["x", "y"], index=[5, 6])))) == ["x", "y"]
    for bad in ("abc", 3):
        with pytest.raises(TypeError, match="must be a list of samples; got an object of type"):
            objects(bad)


def test_equal_and_hashed_by_content():
    X = Sequences(["ab", "b", "ab"])
    a, b, c = objects(X)
    assert a == c
    assert hash(a) == hash(c)
    assert a != b
    assert a != "ab"
    assert len({a, b, c}) == 2
    assert a.digest() == X.digests()[0]
    assert Datum(np.zeros(2)) == Datum(np.zeros(2)) != Datum(np.zeros((1, 2)))
    assert Datum(np.zeros(2)) != Datum(np.zeros(2, np.float32))
    assert Datum((1, 2)) == Datum((1, 2)) != Datum((1, 3))
    assert Datum("1") != Datum(1)


def test_opaque_and_picklable():
    x = Datum(np.zeros(2))
    y = pickle.loads(pickle.dumps(x))
    assert x == y
    assert not y.value.flags.writeable
    assert copy.deepcopy(x) is x
    assert not hasattr(x, "__dict__")
    assert not hasattr(x, "__len__")
    with pytest.raises(AttributeError, match="Datum objects are immutable"):
        x.value = 1
    assert repr(x) == "Datum(float64 array of shape (2,))"
    assert len(repr(Datum("a" * 1000))) < 80
    wrapped = objects(Sequences(["ab"], ids=["s"]))
    assert Sequences(pickle.loads(pickle.dumps(wrapped))).ids == ("s",)


def test_numbers_of_objects_are_refused():
    """scikit-learn's pairs of classes turn data into numbers: one sentence, with the cure."""
    X = objects(Sequences(["ab", "b", "aab", "ba", "bb", "a"]))
    with pytest.raises(
        TypeError, match=r"An entry of mc\.objects .* precomputed Gram matrix, .* multi_class='one_vs_rest'"
    ):
        GaussianProcessClassifier(mc.Spectrum(k=1).as_gp(), multi_class="one_vs_one").fit(X, [0, 0, 1, 1, 2, 2])
    assert not is_number(X[0])
