import re

import awkward
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mercer as mc
from mercer.data import Alphabet, Sequences


def same(a, b):
    assert a.alphabet == b.alphabet
    assert a.values.dtype == b.values.dtype
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    return True


DATA = {
    "strings": ["ACG", "", "TTAC", "G"],
    "wide strings": ["aé", "", "日本", "é"],
    "integers": [[4, 2], [], [2, 2, 9], [4]],
    "floats": [[0.5, 2.0], [], [2.5], [1.0, 2.0]],
    "points": [[[0.5, 2.0]], [], [[2.5, 0.0], [1.0, 1.0]], [[3.0, 4.0]]],
    "tokens": [["up", "down"], [], ["up"], ["left"]],
}
PLAIN = {name: Sequences(data) for name, data in DATA.items()}
ARROW = {
    "strings": [pa.string(), pa.large_string(), pa.binary()],
    "wide strings": [pa.string(), pa.large_string()],
    "integers": [pa.list_(pa.int64()), pa.large_list(pa.uint8())],
    "floats": [pa.list_(pa.float64()), pa.large_list(pa.float64())],
    "points": [pa.list_(pa.list_(pa.float64())), pa.large_list(pa.list_(pa.float64(), 2))],
    "tokens": [pa.list_(pa.string()), pa.list_(pa.large_string())],
}
CASES = [(name, t) for name, types in ARROW.items() for t in types]


@pytest.mark.parametrize(("name", "t"), CASES, ids=str)
def test_arrow(name, t):
    data = [s.encode() for s in DATA[name]] if pa.types.is_binary(t) else DATA[name]
    array = pa.array(data, type=t)
    assert same(Sequences(array), PLAIN[name])
    assert same(Sequences(pa.chunked_array([array[:1], array[1:]])), PLAIN[name])


@pytest.mark.parametrize("name", list(DATA))
def test_awkward(name):
    assert same(Sequences(awkward.Array(DATA[name])), PLAIN[name])


def test_kinds():
    assert Sequences(pa.array([[0.5]], type=pa.list_(pa.float32()))).values.dtype == np.float32
    assert Sequences(pa.array(["a", "b", "a"]).dictionary_encode()).alphabet == Alphabet("ab")
    assert Sequences(pa.array([[True, False]])).alphabet == Alphabet([0, 1])
    for empty in (pa.array([], type=pa.string()), pa.array([[], []], type=pa.list_(pa.int64())), awkward.Array([])):
        assert len(Sequences(empty, alphabet=range(2) if len(empty) else "ab")) == len(empty)
    with pytest.raises(ValueError, match="pass alphabet="):
        Sequences(pa.array([[], []], type=pa.list_(pa.int64())))


NULLS = [
    (["A", None, "C"], pa.string(), "is None; drop it, or pass invalid='mask'"),
    ([[1], None, [2]], pa.list_(pa.int64()), "is None; drop it, or pass invalid='mask'"),
    (
        [[[1.0, 2.0]], [[1.0, 2.0], [1.0]], [[3.0, 4.0]]],
        pa.list_(pa.list_(pa.float64())),
        "has points of different dim",
    ),
]


@pytest.mark.parametrize(("data", "t", "match"), NULLS)
@pytest.mark.parametrize("library", ["arrow", "awkward"])
def test_nulls_and_uneven_points(data, t, match, library):
    array = pa.array(data, type=t) if library == "arrow" else awkward.Array(data)
    with pytest.raises((TypeError, ValueError), match="^sequence 1 .*" + match):
        Sequences(array)
    X = Sequences(array, invalid="mask")
    assert list(X.problems) == [1]
    assert same(X, Sequences([data[0], data[2]]))


MISSING = {
    "integers": ([[1], [1, None]], pa.list_(pa.int64())),
    "floats": ([[0.5], [None, 2.5]], pa.list_(pa.float64())),
    "float32": ([[0.5], [None, 2.5]], pa.list_(pa.float32())),
    "tokens": ([["a"], ["b", None]], pa.list_(pa.string())),
    "coordinates": ([[[1.0, 2.0]], [[1.0, None]]], pa.list_(pa.list_(pa.float64()))),
}


@pytest.mark.parametrize("name", list(MISSING))
@pytest.mark.parametrize("library", ["arrow", "awkward", "polars"])
def test_nulls_are_missing_values(name, library):
    data, t = MISSING[name]
    array = pa.array(data, type=t) if library == "arrow" else awkward.Array(data) if library == "awkward" else None
    if library == "polars":
        array = pytest.importorskip("polars").from_arrow(pa.array(data, type=t))
    X, plain = Sequences(array), Sequences([x if name == "tokens" else np.array(x, dtype=object) for x in data])
    assert X.alphabet == plain.alphabet
    np.testing.assert_array_equal(X.values, plain.values)
    np.testing.assert_array_equal(X.offsets, plain.offsets)


@pytest.mark.parametrize("library", ["arrow", "awkward"])
def test_null_points_are_missing(library):
    data = [[[1.0, 2.0], None], [None, [3.0, 4.0]]]
    X = Sequences(pa.array(data) if library == "arrow" else awkward.Array(data))
    np.testing.assert_array_equal(X.values, [[1, 2], [np.nan, np.nan], [np.nan, np.nan], [3, 4]])
    with pytest.raises(ValueError, match="pass alphabet="):
        Sequences(pa.array([[None]], type=pa.list_(pa.list_(pa.float64()))))


FRAMES = [pd.DataFrame, pa.table, lambda rows: pytest.importorskip("polars").DataFrame(rows)]


@pytest.mark.parametrize("make", FRAMES, ids=["pandas", "arrow", "polars"])
class TestTables:
    def test_numbers_are_one_series_per_row(self, make):
        assert same(Sequences(make({"t0": [1.0, 2.0], "t1": [3.0, 4.0]})), Sequences([[1.0, 3.0], [2.0, 4.0]]))
        assert same(Sequences(make({"0": [1, 2], "1": [3, 4]})), Sequences(np.array([[1, 3], [2, 4]])))
        X = Sequences(make({"t0": [1.0, None], "t1": [3, 4]}))
        np.testing.assert_array_equal(X[1], [[np.nan], [4]])

    @pytest.mark.parametrize("columns", [("acc_x", "acc_y"), ("t0", "t1", "age"), ("x0", "x1", "y0", "y1"), ("x",)])
    def test_columns_that_are_channels(self, make, columns):
        frame = make({name: np.arange(50.0) ** i for i, name in enumerate(columns)})
        models = (Sequences, mc.HMM(2).fit, mc.LDS(2).fit, mc.FisherEnsemble().fit, mc.Standardize().fit)
        for ask in (*models, mc.Fisher(mc.HMM(2)).fit):
            with pytest.raises(ValueError, match=rf"columns \('{columns[0]}'.*Pass \[df\] if it is one recording"):
                ask(frame)

    def test_lists_of_tables_go_by_name(self, make):
        one, other = make({"a": [1.0, 2.0], "b": [3.0, 4.0]}), make({"b": [3.0, 4.0], "a": [1.0, 2.0]})
        X = Sequences([one, other])
        assert X.channels == ("a", "b")
        assert X.digests()[0] == X.digests()[1]
        scale = mc.Standardize().fit([one])
        assert scale.transform([other]).digests() == scale.transform([one]).digests()

    def test_few_numbered_columns_warn_as_an_array_does(self, make):
        with pytest.warns(UserWarning, match=r"50 series of 2 values.* as \[x\]"):
            Sequences(make({"t0": np.arange(50.0), "t1": np.arange(50.0)}))

    @pytest.mark.parametrize(
        ("column", "what"), [("id", "an id"), ("Time", "a time"), ("class", "a label"), ("target", "a target")]
    )
    def test_a_column_that_tells_its_role(self, make, column, what):
        frame = make({column: [0, 0, 1], "x": [1.0, 2.0, 3.0]})
        match = rf"column '{column}', which looks like {what}.*mc.read_table\(df, \w+='{column}'\)"
        with pytest.raises(ValueError, match=match):
            Sequences(frame)
        with pytest.raises(ValueError, match=match):
            mc.Fisher(mc.HMM(n_states=2)).fit(frame)

    def test_text(self, make):
        with pytest.raises(ValueError, match=r"column 'a' is not numbers.*mc.read_table\(df, id=..., time=...\)"):
            Sequences(make({"a": ["x"], "b": [1]}))


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pa.array([{"a": 1}]), "is {'a': 1}, which is not a sequence"),
        (awkward.Array([{"a": 1}]), "is {'a': 1}, which is not a sequence"),
        (pa.array([1, 2]), "is 1, which is not a sequence"),
        (pa.array([[[[1.0]]]]), "has 3 axes"),
        (awkward.Array(np.array([["2020-01-01"]], dtype="datetime64[D]")), "values of type date"),
    ],
)
def test_wrong_columns(column, sentence):
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        Sequences(column)


def test_pandas_and_streams():
    series = pd.Series(pa.array(DATA["integers"]).to_pandas(), dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    assert same(Sequences(series), PLAIN["integers"])
    text = pd.Series(DATA["strings"], dtype=pd.ArrowDtype(pa.string()))
    assert same(Sequences(text), PLAIN["strings"])
    with pytest.raises(TypeError, match="sequence 1 is"):
        Sequences(pd.Series(["a", None]))

    class Column:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([DATA["strings"]]).__arrow_c_stream__(requested_schema)

    assert same(Sequences(Column()), PLAIN["strings"])
