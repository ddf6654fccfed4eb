import copy
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import cross_val_score
from sklearn.utils import _safe_indexing

from mercer.data import Alphabet, Sequences, objects
from mercer.models.markov_estimator import MarkovChain

STRINGS = ["ACGT", "", "GGN", "ttaR"]


def same(a, b):
    """Whether two Sequences hold the same, to the bit."""
    assert a.alphabet == b.alphabet
    assert a.values.dtype == b.values.dtype
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    return True


def symbol_forms():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    want = ["ab", "", "cab"]
    return {
        "list": want,
        "tuple": tuple(want),
        "generator": (s for s in want),
        "object array": np.array(want, dtype=object),
        "U array": np.array(want),
        "S array": np.array(want).astype("S"),
        "bytes": [s.encode() for s in want],
        "str and bytes": ["ab", b"", "cab"],
        "Series": pd.Series(want, index=[7, 8, 9]),
        "string Series": pd.Series(want, dtype="string"),
        "lists of letters": [list(s) for s in want],
        "letter arrays": [np.array(list(s), dtype="U1") for s in want],
        "S letter arrays": [np.array(list(s), dtype="S1") for s in want],
        "mixed text": ["ab", [], np.array(["c", "a", "b"])],
        "str subclass": [np.str_(s) for s in want],
        "objects": objects(want),
        "Sequences": Sequences(want),
    }


@pytest.mark.parametrize("form", list(symbol_forms()))
def test_text_forms(form):
    X = Sequences(symbol_forms()[form])
    assert X.is_symbols
    assert X.dimension is None
    assert X.values.dtype == np.int32
    assert X.alphabet == Alphabet("abc")
    assert list(X) == ["ab", "", "cab"]
    np.testing.assert_array_equal(X.offsets, [0, 2, 2, 5])
    np.testing.assert_array_equal(X.lengths, [2, 0, 3])
    assert (len(X), X.shape, X.ndim, X.ids) == (3, (3,), 1, None)


@pytest.mark.parametrize(
    "data",
    [
        np.array([[4, 2, 4], [2, 2, 9]]),
        np.array([[4, 2, 4], [2, 2, 9]], dtype=np.uint8),
        [[4, 2, 4], [2, 2, 9]],
        [np.array([4, 2, 4]), np.array([2, 2, 9], dtype=np.int8)],
        np.array([[4, 2, 4], [2, 2, 9]], dtype=object),
    ],
)
def test_integer_forms(data):
    X = Sequences(data)
    assert X.alphabet == Alphabet([2, 4, 9])
    np.testing.assert_array_equal(X.values, [1, 0, 1, 0, 0, 2])
    np.testing.assert_array_equal(X[1], [2, 2, 9])
    assert X[1].dtype == np.int64


def test_booleans_and_tokens():
    assert Sequences(np.array([[True, False]])).alphabet == Alphabet([0, 1])
    X = Sequences([["up", "down"], ["up"], []])
    assert X.alphabet == Alphabet(["down", "up"])
    np.testing.assert_array_equal(X[0], ["up", "down"])
    assert X[0].dtype.kind == "U"
    assert Sequences([["a", "b"], ["a"]], alphabet=["a", "b", "long"]).values.tolist() == [0, 1, 0]
    assert Sequences(np.array([["x", "yy"], ["x", "x"]])).alphabet == Alphabet(["x", "yy"])


def test_none_is_a_missing_symbol():
    X = Sequences([[3, None, 1], [1, 1, 3]])
    np.testing.assert_array_equal(X.values, [1, 2, 0, 0, 0, 1])
    assert X[0].tolist() == [3, None, 1]
    assert X[1].dtype == np.int64
    assert same(Sequences(list(X)), X)
    Y = Sequences([["up", None], ["down"]])
    assert Y.values.tolist() == [1, 2, 0]
    assert same(Sequences(list(Y)), Y)
    np.testing.assert_array_equal(Sequences([[0.5, None], [1, 2]])[0], [[0.5], [np.nan]])
    np.testing.assert_array_equal(Sequences([[0.5], [1, None]])[1], [[1], [np.nan]])


@pytest.mark.parametrize(
    ("data", "d", "dtype"),
    [
        ([np.zeros((3, 2)), np.ones((1, 2))], 2, np.float64),
        ([np.zeros((3, 2), np.float32), np.ones((1, 2), np.float32)], 2, np.float32),
        ([np.zeros((3, 2), np.float32), np.ones((1, 2))], 2, np.float64),
        ([np.zeros((3, 2), int), np.ones((1, 2), int)], 2, np.float64),
        ([np.zeros(3), np.ones(1)], 1, np.float64),
        ([np.zeros(3, np.float16), np.ones(1, np.float16)], 1, np.float32),
        ([[0.0, 0.0, 0.0], [1]], 1, np.float64),
        ([[[0, 0], [0, 0], [0, 0]], [[1, 1]]], 2, np.float64),
        ([np.zeros((3, 1)), np.ones(1)], 1, np.float64),
    ],
)
def test_vector_forms(data, d, dtype):
    X = Sequences(data)
    assert (X.dimension, X.alphabet, X.values.dtype) == (d, None, dtype)
    np.testing.assert_array_equal(X[0], np.zeros((3, d)))
    np.testing.assert_array_equal(X[1], np.ones((1, d)))
    assert same(Sequences(list(X)), X)


def test_array_forms():
    a = np.arange(24.0).reshape(2, 4, 3)
    X = Sequences(a)
    np.testing.assert_array_equal(X[1], a[1])
    np.testing.assert_array_equal(Sequences(a.transpose(1, 0, 2)[:, :, :1])[2], a[:, 2, :1])
    assert Sequences(a.astype(int)).values.dtype == np.float64
    U = Sequences(a[:, :, 0])
    assert (len(U), U.dimension) == (2, 1)
    np.testing.assert_array_equal(U[1][:, 0], a[1, :, 0])
    with pytest.warns(UserWarning, match=r"Sequences\.from_aeon") as record:
        Sequences(np.zeros((5, 2, 9)))
    assert record[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Y = Sequences.from_aeon(a)
        assert Y.dimension == 4
        np.testing.assert_array_equal(Y[1], a[1].T)
        assert same(Sequences.from_aeon(list(a)), Y)
    assert Sequences.from_aeon([np.zeros((2, 3), int), np.zeros((2, 5), int)]).dimension == 2
    assert Sequences.from_aeon(np.zeros((4, 7), int)).dimension == 1
    with pytest.raises(TypeError, match="sequence 'b' is None"):
        Sequences.from_aeon([np.zeros((2, 3)), None], ids=["a", "b"])
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    assert Sequences(pd.DataFrame(a[:, :, 0])).dimension == 1


def test_from_hmmlearn():
    x = np.arange(10.0).reshape(5, 2)
    X = Sequences.from_hmmlearn(x, [2, 0, 3], ids=["a", "b", "c"])
    np.testing.assert_array_equal(X[2], x[2:])
    assert (X.lengths.tolist(), X.ids) == ([2, 0, 3], ("a", "b", "c"))
    S = Sequences.from_hmmlearn(np.array([[1], [0], [1]]), [1, 2], alphabet=range(3))
    assert S.alphabet == Alphabet(range(3))
    assert S[1].tolist() == [0, 1]
    assert len(Sequences.from_hmmlearn(x)) == 1
    assert Sequences.from_hmmlearn(x.astype(int), [5]).values.dtype == np.float64
    with pytest.raises(ValueError, match=r"lengths .* 5 rows of X; got a sum of 4"):
        Sequences.from_hmmlearn(x, [2, 2])
    with pytest.raises(ValueError, match="3 axes"):
        Sequences.from_hmmlearn(np.zeros((1, 2, 3)))


def test_copied_and_read_only():
    source = [np.zeros((3, 2))]
    flat = np.zeros((2, 3))
    X, Y = Sequences(source), Sequences(flat)
    source[0][:] = 1
    flat[:] = 1
    assert not X.values.any()
    assert not Y.values.any()
    for Z in (X, X[:1], X[[0, 0]], pickle.loads(pickle.dumps(X)), Sequences(STRINGS, alphabet="dna")):
        for a in (Z.values, Z.offsets, Z.kept, Z.values[:1]):
            assert not a.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        X[0][0] = 1
    with pytest.raises(AttributeError, match="Sequences objects are immutable"):
        X.values = flat
    assert copy.copy(X) is X
    assert copy.deepcopy(X) is X


def test_sequences_are_kept_and_checked():
    X = Sequences(STRINGS, alphabet="dna", ids=list("abcd"))
    Y = Sequences(X, alphabet="dna")
    assert Y.values is X.values
    assert Y.ids == tuple("abcd")
    assert Sequences(X, ids=list("wxyz")).ids == tuple("wxyz")
    assert same(pickle.loads(pickle.dumps(X)), X)
    with pytest.raises(ValueError, match=r"alphabet ACGU \(rna\); got ACGT \(dna\).*X.recode"):
        Sequences(X, alphabet="rna")
    with pytest.raises(TypeError, match="vectors, which have no alphabet"):
        Sequences(Sequences([[0.5]]), alphabet="rna")


def test_indexing():
    X = Sequences(STRINGS, alphabet="dna", ids=list("abcd"))
    assert X[3] == X[-1] == X[np.int64(3)] == X[3, ...] == "TTAR"
    for key in (slice(1, 3), slice(None, None, -1), [2, 0, 2], np.array([True, False, True, False]), [], slice(0, 0)):
        got = X[key]
        want = np.arange(4)[key].tolist()
        assert isinstance(got, Sequences)
        assert list(got) == [X[i] for i in want]
        assert got.ids == tuple("abcd"[i] for i in want)
        assert got.alphabet == X.alphabet
        assert same(X[key, ...], got)
        if not (isinstance(key, slice) and key.step):  # scikit-learn takes None for its type
            assert same(_safe_indexing(X, key), got)
    for bad in (4, -5, [9], np.ones(3, dtype=bool), None, "a", 1.5, (0, 1), True):
        with pytest.raises(IndexError):
            X[bad]
    assert same(X[1:][1:], X[2:])


def test_refuses_to_be_an_array():
    with pytest.raises(TypeError, match=r"different lengths .* use a kernel first"):
        np.asarray(Sequences(STRINGS, alphabet="dna"))


class LongIsOne(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        assert isinstance(X, Sequences)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X.lengths > 3).astype(int)


def test_cross_validation():
    X = Sequences(["ab" * (i % 4) for i in range(20)])
    y = (X.lengths > 3).astype(int)
    assert cross_val_score(LongIsOne(), X, y, cv=4).tolist() == [1.0] * 4


def test_concat():
    X = Sequences(STRINGS, alphabet="dna", ids=list("abcd"))
    Y = Sequences.concat([X[:1], X[1:]])
    assert same(X, Y)
    assert Y.ids == X.ids
    assert Sequences.concat([X, X]).ids == tuple("abcdabcd")
    assert Sequences.concat([X, Sequences(["A"], alphabet="dna")]).ids is None
    V = Sequences([np.zeros((2, 3), np.float32)])
    assert Sequences.concat([V, Sequences([np.ones((1, 3))])]).values.dtype == np.float64
    with pytest.raises(ValueError, match=r"alphabet ACGT \(dna\); got a\."):
        Sequences.concat([X, Sequences(["a"])])
    with pytest.raises(ValueError, match=r"Part 1 has 3-dimensional vectors, .* symbols from ACGT"):
        Sequences.concat([X, V])
    with pytest.raises(ValueError, match="pass at least one Sequences"):
        Sequences.concat([])
    with pytest.raises(TypeError, match="Part 1 is a list; convert it"):
        Sequences.concat([X, ["A"]])


def test_recode():
    X = Sequences(["CA", "GC"], ids=list("ab"))
    Y = X.recode("dna")
    assert (list(Y), Y.ids, Y.alphabet) == (list(X), X.ids, Alphabet.of("dna"))
    assert Sequences(["MN"], alphabet="dna").recode(Alphabet("ACGT", {"x": "AC"}))[0] == "x\ufffd"
    Z = Sequences(["AN"], alphabet="dna").recode("CGATX")
    assert Z.values.tolist() == [2, Z.alphabet.missing]
    with pytest.raises(ValueError, match="sequence 'b' has the symbol 'G' at position 0, which is not in"):
        X.recode("AC")
    with pytest.raises(TypeError, match=r"recode.* symbols; got 1-dimensional vectors"):
        Sequences([[0.5]]).recode("AC")


def test_windows():
    a = np.arange(10.0).reshape(5, 2)
    X = Sequences([a, a[:3]], ids=["p", "q"])
    W = X.windows(2)
    assert (W.dimension, W.lengths.tolist(), W.ids) == (6, [3, 1], X.ids)
    np.testing.assert_array_equal(W[0][1], a[1:4].ravel())
    np.testing.assert_array_equal(W[1][0], a[:3].ravel())
    assert same(X.windows(0), X)
    with pytest.raises(ValueError, match="sequence 'q' has length 3, but windows of order 3 need 4"):
        X.windows(3)
    with pytest.raises(ValueError, match=r"order must be .* got -1"):
        X.windows(-1)
    with pytest.raises(TypeError, match=r"Sequences\(X\)\.one_hot"):
        Sequences(["ab"]).windows(1)


def test_one_hot_and_counts():
    X = Sequences(["ACCA", "", "T"], alphabet="dna", ids=list("abc"))
    np.testing.assert_array_equal(X.counts(), [[2, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    assert X.counts().dtype == np.float64
    H = X.one_hot()
    assert (H.dimension, H.ids) == (4, X.ids)
    np.testing.assert_array_equal(H[0], np.eye(4)[[0, 1, 1, 0]])
    for bad in ("ACR", "ACN"):
        Y = Sequences(["A", bad], alphabet="dna", ids=["s", "t"])
        for method in ("one_hot", "counts"):
            with pytest.raises(ValueError, match=f"sequence 't' has the symbol '{bad[2]}' at position 2, .*{method}"):
                getattr(Y, method)()
    with pytest.raises(TypeError, match=r"counts.* symbols; got 4-dimensional vectors"):
        H.counts()


def test_empty():
    X = Sequences(["a", ""], ids=["x", "y"])
    with pytest.raises(ValueError, match=r"sequence 'y' is empty; drop it, .* X\[X.lengths > 0\]"):
        X.require_nonempty()
    Y = X[X.lengths > 0]
    assert Y.require_nonempty() is Y
    assert Sequences(["", []], alphabet="ab").lengths.tolist() == [0, 0]
    assert len(Sequences([], alphabet="ab")) == 0
    assert Sequences([np.empty((0, 3)), np.zeros((2, 3))]).dimension == 3
    assert Sequences([[], [0.5]]).lengths.tolist() == [0, 1]
    assert Sequences([np.empty((0, 3))]).dimension == 3
    assert Sequences(np.empty((0, 5))).shape == (0,)
    assert list(X[:0]) == []
    assert "0 sequences" in repr(X[:0])
    assert X[:0].digests() == []
    for nothing in ([], [[], []], np.array([])):
        with pytest.raises(ValueError, match=r"empty.* pass alphabet="):
            Sequences(nothing)
    with pytest.raises(ValueError, match=r"no symbols.* pass alphabet="):
        Sequences(["", ""])


def test_missing_values():
    X = Sequences([[np.nan, 1.0]])
    assert np.isnan(X.values[0, 0])
    with pytest.raises(ValueError, match="sequence 1 has the value -inf at position 2; use NaN"):
        Sequences([np.zeros((1, 2)), np.array([[0, 1], [2, 3], [4, -np.inf]])])


BAD = [
    (["A", "AXC"], {"alphabet": "ACGT"}, ValueError, "'X' at position 1, .* alphabet ACGT; pass unknown='missing'"),
    ([[0, 1], [0, 7]], {"alphabet": range(2)}, ValueError, r"symbol 7 at position 1, which is not in .*\{0, 1\}"),
    ([["up"], ["left"]], {"alphabet": ["up", "down"]}, ValueError, "symbol 'left' at position 0"),
    (["A", None], {}, TypeError, "is None; drop it, or pass invalid='mask'"),
    (["A", float("nan")], {}, TypeError, "is nan, .* pass strings or arrays"),
    ([[1, 2], 3], {}, TypeError, "is 3, .* pass strings or arrays"),
    ([[1, 2], np.array(3)], {}, TypeError, "is the single value 3, .* pass \\[3\\]"),
    (["A", [1, 2]], {}, TypeError, "contains numbers, but .* text; do not mix"),
    ([[0.5], "A"], {}, TypeError, "contains text, but .* numbers; do not mix"),
    ([["a"], ["a", 1]], {}, TypeError, "mixes values of type int and str"),
    ([["a"], [1, "a"]], {}, TypeError, "mixes values of type int and str"),
    (["A", b"\xff"], {}, ValueError, "has the byte 0xff at position 0, which is not ASCII; decode it"),
    ([np.zeros((2, 2)), np.zeros((2, 3))], {}, ValueError, "has dimension 3, but .* dimension 2; they must be equal"),
    ([np.zeros((2, 2)), np.zeros(3)], {}, ValueError, "has dimension 1, but .* dimension 2; they must be equal"),
    ([np.zeros((2, 2)), np.zeros((2, 2, 2))], {}, ValueError, r"has 3 axes; pass a 1-D array or a \(T, d\) array"),
    ([[[1.0, 2.0]], [[1.0], [1.0, 2.0]]], {}, ValueError, r"has points of different dimensions; pass a \(T, d\)"),
    ([[0.5], np.array([1j])], {}, TypeError, "has dtype complex128; pass strings, integers or real numbers"),
    ([["a"], np.array([["a"]])], {}, TypeError, "is a 2-D array of dtype <U1; pass a 1-D array of symbols"),
    ([["a"], Sequences(["a"])], {}, TypeError, "is a Sequences, not a single sequence; .*mc.read_fasta"),
    ([["a"], np.array([b"\xff"])], {}, ValueError, "has a byte that is not ASCII"),
    ([["a"], {"a": 1}], {}, TypeError, "is {'a': 1}, .*; pass strings or arrays"),
    ([[0.5], np.ma.array([1.0], mask=[True])], {}, TypeError, "is a masked array; fill it first"),
    ([[0.5], [np.inf]], {}, ValueError, "has the value inf at position 0; use NaN"),
]


@pytest.mark.parametrize(("data", "options", "error", "match"), BAD)
def test_offenders(data, options, error, match):
    """The second datum is wrong: it raises, named by position or id, or is left out."""
    with pytest.raises(error, match="^sequence 1 .*" + match):
        Sequences(data, **options)
    with pytest.raises(error, match="^sequence 'two' .*" + match):
        Sequences(data, ids=["one", "two"], **options)
    X = Sequences(data, ids=["one", "two"], invalid="mask", **options)
    assert X.kept.tolist() == [True, False]
    assert list(X.problems) == ["two"]
    assert X.problems["two"].startswith("sequence 'two' ")
    assert X.ids == ("one",)
    assert "1 left out (see X.problems)" in repr(X)
    assert same(X, Sequences(data[:1], **options))
    assert list(Sequences(data, invalid="mask", **options).problems) == [1]


def test_mask_names_all_and_nothing():
    X = Sequences(["AQ", "A", None, "QQ", "C"], alphabet="dna", invalid="mask")
    assert X.kept.tolist() == [False, True, False, False, True]
    assert list(X.problems) == [0, 2, 3]
    assert list(X) == ["A", "C"]
    assert X[:1].problems == {}
    Y = Sequences(["A"], invalid="mask")
    assert Y.kept.tolist() == [True]
    assert Y.problems == {}
    with pytest.raises(ValueError, match="All sequences are invalid: sequence 0 is None"):
        Sequences([None, None], invalid="mask")
    assert len(Sequences([None, "Q"], alphabet="dna", invalid="mask")) == 0
    Z = Sequences(["AQ", "QA"], alphabet="dna", unknown="missing")
    assert list(Z) == ["AN", "NA"]


def test_wrong_arguments():
    for data, match in [
        ("ACGT", "list of strings; got a single string"),
        ({"a": "A"}, r"got a dict\. Pass its values .* and its keys as ids"),
        ({"A"}, "a set, which has no order"),
        (3, "list of strings or arrays; got an object of type int"),
        (np.array(3), "single value"),
        (np.ma.array([[1.0]], mask=[[True]]), "masked array"),
        (np.zeros((2, 2), complex), "dtype complex128"),
    ]:
        with pytest.raises(TypeError, match=match):
            Sequences(data)
    with pytest.raises(ValueError, match=r"a 1-D array of numbers, .* pass a list of sequences"):
        Sequences(np.zeros(3))
    with pytest.raises(ValueError, match="4 axes"):
        Sequences(np.zeros((1, 1, 1, 1)))
    with pytest.raises(ValueError, match=r"unknown must be .* got 'drop'"):
        Sequences(["a"], unknown="drop")
    with pytest.raises(ValueError, match=r"invalid must be .* got 'drop'"):
        Sequences(["a"], invalid="drop")
    with pytest.raises(ValueError, match="3 ids for 2 sequences"):
        Sequences(["a", "b"], ids=["x", "y", "z"])
    with pytest.raises(ValueError, match="ids must be distinct; got 'x' at positions 0 and 2"):
        Sequences(["a", "b", "c"], ids=["x", "y", "x"])
    with pytest.raises(TypeError, match=r"sequence 0 contains real numbers, .* omit alphabet="):
        Sequences([[0.5]], alphabet="dna")
    with pytest.raises(TypeError, match=r"sequence 1 is a str, .* pass lists of symbols"):
        Sequences(["", "ab"], alphabet=["ab", "c"])
    assert Sequences(["a", "b"], ids=[7, 8]).ids == ("7", "8")
    with pytest.raises(TypeError, match="list of strings; got the string 'ab'"):
        Sequences(["a", "b"], ids="ab")


def test_names_and_repr():
    X = Sequences(["AC", "A"], alphabet="dna", ids=["s", "t"])
    assert X.name(1) == "sequence 't'"
    assert Sequences(["a"]).name(0) == "sequence 0"
    assert repr(X) == "Sequences(2 sequences of symbols from ACGT (dna), lengths 1 to 2)"
    assert (
        repr(Sequences(np.zeros((2, 3, 1)))) == "Sequences(2 sequences of 1-dimensional vectors (float64), lengths 3)"
    )


def test_many_strings_equal_the_slow_truth():
    rng = np.random.default_rng(0)
    letters = np.array(list("ACGTacgtNRyk"))
    lengths = rng.integers(0, 12, size=100_000)
    text = "".join(rng.choice(letters, size=lengths.sum()))
    ends = np.cumsum(lengths)
    strings = [text[b - n : b] for n, b in zip(lengths, ends, strict=True)]
    X = Sequences(strings, alphabet="dna")
    sets = {s: s.upper() for s in "ACGTacgt"} | {"N": "ACGT", "R": "AG", "y": "CT", "k": "GT"}
    truth = {s: X.alphabet.sets.index(frozenset(set_)) for s, set_ in sets.items()}
    np.testing.assert_array_equal(X.values, [truth[s] for s in text])
    np.testing.assert_array_equal(X.lengths, lengths)
    order = rng.permutation(len(X))
    Y = X[order]
    assert [Y[i] for i in range(0, 100_000, 997)] == [strings[i].upper() for i in order[::997]]


def test_import_is_cheap():
    heavy = "('awkward', 'torch', 'tqdm', 'matplotlib')"
    code = f"import sys, mercer; print([m for m in {heavy} if m in sys.modules])"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert out.stdout.strip() == "[]"


words = st.text(alphabet="abcé日", max_size=6)
series = st.integers(1, 3).flatmap(
    lambda d: st.lists(
        hnp.arrays(
            np.float64, st.tuples(st.integers(0, 4), st.just(d)), elements=st.floats(allow_infinity=False, width=32)
        ),
        min_size=1,
        max_size=5,
    )
)
batches = st.lists(words, min_size=1, max_size=7).filter(any) | series


@settings(deadline=None)
@given(batches, st.data())
def test_indexing_equals_list_indexing(items, data):
    X = Sequences(items)
    n = len(items)
    key = data.draw(
        st.slices(n)
        | st.lists(st.integers(-n, n - 1), max_size=9).map(lambda i: np.array(i, dtype=int))
        | st.lists(st.booleans(), min_size=n, max_size=n).map(lambda b: np.array(b, dtype=bool))
    )
    want = [items[i] for i in np.arange(n)[key]]
    got = list(X[key])
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    for i in range(-n, n):
        np.testing.assert_array_equal(X[i], items[i])


@settings(deadline=None)
@given(batches, st.data())
def test_round_trip_and_concat(items, data):
    X = Sequences(items)
    assert same(Sequences(list(X), alphabet=X.alphabet), X)
    cut = data.draw(st.integers(0, len(X)))
    assert same(Sequences.concat([X[:cut], X[cut:]]), X)
    assert same(pickle.loads(pickle.dumps(X)), X)


@settings(deadline=None)
@given(batches, st.data())
def test_digests(items, data):
    """Equal if and only if the content is equal, in any batch and at any place."""
    X = Sequences(items)
    d = X.digests()
    assert all(isinstance(x, bytes) and len(x) == 16 for x in d)
    for i, a in enumerate(items):
        for j, b in enumerate(items):
            alike = a == b if isinstance(a, str) else np.array_equal(a, b, equal_nan=True)
            assert (d[i] == d[j]) == alike
    index = np.array(data.draw(st.lists(st.integers(0, len(X) - 1), max_size=6)), dtype=int)
    assert X[index].digests() == [d[i] for i in index]
    assert [X[i : i + 1].digests()[0] for i in range(len(X))] == d


def test_digests_see_dtype_dimension_alphabet():
    z = np.zeros((2, 2))
    made = [Sequences([x]).digests()[0] for x in (z, z.astype(np.float32), z.reshape(4, 1), z.reshape(1, 4))]
    made += [Sequences(["ab"], alphabet=a).digests()[0] for a in ("ab", "abc")]
    made += Sequences(["cd"]).digests()
    assert len(set(made)) == len(made)
    assert Sequences([-z]).digests() == Sequences([z]).digests()


@pytest.mark.slow
def test_from_codes():
    """What a model samples, it reads."""
    p = MarkovChain(1, alphabet="dna", end=True).fit(["ACGT", "AAC", "C"]).model_
    drawn = p.sample(6, 20, random_state=0)[0]
    X = Sequences.from_codes(drawn, "dna", ids=[f"s{i}" for i in range(20)])
    assert X.alphabet == Alphabet.of("dna")
    assert X.lengths.tolist() == (drawn >= 0).sum(axis=1).tolist()
    assert list(X) == ["".join("ACGT"[c] for c in row if c >= 0) for row in drawn]
    assert np.isfinite(p.log_prob(X)).all()
    ragged = Sequences.from_codes([np.array([0, 4, 3]), [], np.array([2], dtype=np.uint8)], "dna")
    assert list(ragged) == [ragged.alphabet.decode([0, 4, 3]), "", "G"]
    assert ragged.values.dtype == np.int32
    assert len(Sequences.from_codes(np.empty((0, 3), dtype=int), "ab")) == 0
    for codes, message in (
        ([[0, 1], [0, 99]], "sequence 1 has the code 99 at position 1; codes of ACGT"),
        ([[0, -1, 1]], "sequence 0 has the code -1 at position 1; .* -1 after the end"),
        ([[0, -2, -1]], "sequence 0 has the code -2 at position 1"),
    ):
        with pytest.raises(ValueError, match=message):
            Sequences.from_codes(codes, "dna")
    with pytest.raises(TypeError, match=r"sequence 0 has shape \(2, 3\) .* pass an integer array"):
        Sequences.from_codes(np.zeros((1, 2, 3), dtype=int), "dna")
    with pytest.raises(TypeError, match="type float64"):
        Sequences.from_codes([[0.0, 1.0]], "dna")
    with pytest.raises(ValueError, match="2 ids for 1 sequences"):
        Sequences.from_codes([[0]], "dna", ids=["a", "b"])
