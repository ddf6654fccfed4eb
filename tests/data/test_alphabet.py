import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer.data import Alphabet, Sequences

IUPAC = {"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC", "B": "CGT", "D": "AGT", "H": "ACT"}
IUPAC |= {"V": "ACG", "N": "ACGT"}


@pytest.mark.parametrize(("name", "k", "n_codes"), [("dna", 4, 15), ("rna", 4, 15), ("protein", 20, 24)])
def test_named(name, k, n_codes):
    a = Alphabet.of(name)
    assert (len(a), a.n_codes, a.missing) == (k, n_codes, n_codes - 1)
    assert a.membership.shape == (n_codes, k)
    assert not a.membership.flags.writeable
    np.testing.assert_array_equal(a.membership[:k], np.eye(k))
    np.testing.assert_array_equal(a.membership[-1], 1)
    assert Alphabet.of(name.upper()) is a
    assert repr(a) == f"Alphabet.of('{name}')"


@pytest.mark.parametrize(("code", "symbols"), IUPAC.items())
def test_iupac_sets(code, symbols):
    for name, t in [("dna", "T"), ("rna", "U")]:
        a = Alphabet.of(name)
        for letter in (code, code.lower()):
            (c,) = a.encode(letter)
            assert a.sets[c] == set(symbols.replace("T", t))
            assert {a.symbols[i] for i in np.flatnonzero(a.membership[c])} == a.sets[c]
            assert a.decode([c]) == code


def test_protein_codes():
    a = Alphabet.of("protein")
    assert a.sets[a.encode("B")[0]] == {"D", "N"}
    assert a.sets[a.encode("Z")[0]] == {"E", "Q"}
    assert a.sets[a.encode("J")[0]] == {"I", "L"}
    assert a.encode("X")[0] == a.missing
    np.testing.assert_array_equal(a.encode("UOuo"), a.encode("CKCK"))
    for gap in "*-.":
        with pytest.raises(ValueError, match="remove it, or pass unknown='missing'"):
            a.encode("A" + gap)


@pytest.mark.parametrize("wrapped", [[["ACGT"], ["GG"]], np.array([["ACGT"], ["GG"]], dtype=object)])
def test_strings_wrapped_in_lists_are_told(wrapped):
    with pytest.raises(
        ValueError, match=r"sequence 0 has the symbol 'ACGT' .*; pass the strings themselves, .*df\['s'\]"
    ):
        Sequences(wrapped, alphabet="dna")


def test_a_column_of_a_table_is_told():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"s": ["ACGT" * 100, "GG"]})
    with pytest.raises(ValueError, match=r"column 's' is not numbers.*such as df\['s'\]"):
        Sequences(table, alphabet="dna")
    assert len(Sequences(table["s"], alphabet="dna")) == 2


def test_a_name_that_is_none():
    with pytest.raises(ValueError, match=r"'dna', 'rna', 'protein' .* got 'nucleotide', .* 'e' twice"):
        Alphabet.of("nucleotide")


def test_unknown_symbols_come_with_a_cure():
    with pytest.raises(ValueError, match=r"'U' at position 1, .* ACGT \(dna\); pass alphabet='rna'"):
        Alphabet.of("dna").encode("AU")
    with pytest.raises(ValueError, match=r"'t' at position 0, .* ACGU \(rna\); pass alphabet='dna'"):
        Alphabet.of("rna").encode("t")
    with pytest.raises(ValueError, match="fold_case=True"):
        Alphabet("ACGT").encode("a")
    with pytest.raises(ValueError, match=r"'X' at position 2, .* alphabet AB; pass unknown='missing' .*, or alphabet="):
        Alphabet("AB").encode("ABX")
    np.testing.assert_array_equal(Alphabet("AB").encode("AXB", unknown="missing"), [0, 2, 1])
    with pytest.raises(ValueError, match=r"unknown must be .* got 'skip'"):
        Alphabet("AB").encode("A", unknown="skip")


def test_order_synonyms_and_folding():
    a = Alphabet("TGA", {"u": "T", "?": "TGA", "q": "GA"}, fold_case=True)
    np.testing.assert_array_equal(a.encode("TGAtgauU?qQ"), [0, 1, 2, 0, 1, 2, 0, 0, 4, 3, 3])
    assert a.n_codes == 5
    assert a.decode([0, 4, 3]) == "T?q"
    assert Alphabet("acA", fold_case=True).encode("aAC").tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("symbols", "datum"),
    [
        ("ab", "abba"),
        ("aé日", "日aé"),
        (["up", "down"], ["down", "up"]),
        (range(3), [2, 0, 1]),
        ([-5, 70, 3], [70, -5]),
    ],
)
def test_encode_decode(symbols, datum):
    a = Alphabet(symbols)
    codes = a.encode(datum)
    assert codes.dtype == np.int32
    assert [a.symbols[c] for c in codes] == list(datum)
    assert list(a.decode(codes)) == list(datum)
    gap = a.decode([a.missing, 0])
    np.testing.assert_array_equal(a.encode(gap), [a.missing, 0])


def test_encode_errors():
    a = Alphabet(range(3))
    for bad in (3, -1, 99):
        with pytest.raises(ValueError, match=f"symbol {bad} at position 1, which is not in the alphabet"):
            a.encode([0, bad])
    with pytest.raises(ValueError, match="symbol 4 at position 0"):
        Alphabet([1, 5]).encode([4])
    with pytest.raises(TypeError, match=r"text, but the alphabet .0, 1, 2."):
        a.encode("01")
    with pytest.raises(TypeError, match=r"integers, but the alphabet ab .*Sequences.from_codes"):
        Alphabet("ab").encode([0, 1])
    with pytest.raises(TypeError, match=r"is a str, .* has longer symbols; pass lists of symbols"):
        Alphabet(["ab", "c"]).encode("c")
    with pytest.raises(TypeError, match="real numbers, which have no alphabet"):
        a.encode([0.5])
    with pytest.raises(TypeError, match="is None"):
        a.encode(None)


def test_bad_alphabets():
    with pytest.raises(ValueError, match="at least one symbol"):
        Alphabet([])
    with pytest.raises(ValueError, match="'a' occurs twice"):
        Alphabet("aba")
    with pytest.raises(TypeError, match="all strings or all integers"):
        Alphabet(["a", 1])
    with pytest.raises(TypeError, match=r"strings or integers; got 1\.5"):
        Alphabet([1.5])
    with pytest.raises(ValueError, match="'a' is also an ambiguity code"):
        Alphabet("ab", {"a": "b"})
    with pytest.raises(ValueError, match=r"code 'n' stands for \['z'\]"):
        Alphabet("ab", {"n": "z"})
    with pytest.raises(ValueError, match="code 'n' stands for"):
        Alphabet("ab", {"n": ""})
    with pytest.raises(ValueError, match="reserved for missing characters"):
        Alphabet("a\ufffd")
    with pytest.raises(ValueError, match="int64; number the symbols from 0"):
        Alphabet([2**70])
    with pytest.raises(TypeError, match=r"alphabet must be 'dna', .*; got 3"):
        Alphabet.of(3)


def test_immutable_hashable_equal():
    a, b = Alphabet("ab", {"x": "ab", "y": "a"}), Alphabet(["a", "b"], {"y": ["a"], "x": ["b", "a"]})
    assert a == b
    assert hash(a) == hash(b)
    assert a != Alphabet("ba", {"x": "ab", "y": "a"})
    assert a != Alphabet("ab")
    assert a != "ab"
    assert Alphabet("ab") != Alphabet("ab", fold_case=True)
    assert copy.deepcopy(a) is a
    assert copy.copy(a) is a
    assert pickle.loads(pickle.dumps(a)) == a
    assert a.digest() == b.digest() != Alphabet("ab").digest()
    with pytest.raises(AttributeError, match="Alphabet objects are immutable"):
        a.symbols = ()
    with pytest.raises(AttributeError, match="Alphabet objects are immutable"):
        del a.symbols


@pytest.mark.parametrize("a", [Alphabet.of("protein"), Alphabet([3, 1], {9: [1, 3]}), Alphabet(["x", "yy"])])
def test_header(a):
    assert Alphabet.from_header(json.loads(json.dumps(a.to_header()))) == a


def test_find():
    assert Alphabet.find(["ba", "", "c"]) == Alphabet("abc")
    assert Alphabet.find(np.array([[3, 1], [1, 7]])) == Alphabet([1, 3, 7])
    assert Alphabet.find([["b", "aa"], ["b", None]]) == Alphabet(["aa", "b"])
    assert Alphabet.find(["é日"]) == Alphabet("é日")
    assert Alphabet.find(Sequences(["GAN"], alphabet="dna")) == Alphabet("AG")
    with pytest.raises(ValueError, match="no symbol"):
        Alphabet.find(["", ""])
    with pytest.raises(TypeError, match="real numbers"):
        Alphabet.find([[0.5]])
    with pytest.raises(TypeError, match="sequence 1 is None"):
        Alphabet.find(["a", None])


def test_union():
    assert Alphabet("ca").union(Alphabet("b")) == Alphabet("abc")
    dna = Alphabet.of("dna")
    assert dna.union(dna) is dna
    assert Alphabet("CA").union(dna) == dna == dna.union(Alphabet("CA"))
    for other in (Alphabet([1]), Alphabet("N"), Alphabet("ACGT", {"R": "CT"})):
        with pytest.raises(ValueError, match=r"alphabets ACGT \(dna\) and .* the same alphabet"):
            dna.union(other)


def test_repr():
    assert repr(Alphabet("ab")) == "Alphabet('ab')"
    assert repr(Alphabet("ab", {"x": "ab"}, True)) == "Alphabet('ab', ambiguous=['x'], fold_case=True)"
    assert "... 1000 symbols" in repr(Alphabet(range(1000)))


@given(st.text(max_size=40), st.text(max_size=5))
def test_table_equals_dict(text, extra):
    """The table on code points gives what a dictionary per symbol gives."""
    found = sorted(set(text) - {"\ufffd"}) or ["a"]
    a = Alphabet(found)
    truth = {s: i for i, s in enumerate(found)}
    want = [truth.get(s, len(found)) for s in text + extra]
    np.testing.assert_array_equal(a.encode(text + extra, unknown="missing"), want)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.lists(st.integers(-9, 9)))
def test_integers_equal_dict(symbols, more):
    a = Alphabet(sorted(set(symbols)))
    truth = {s: i for i, s in enumerate(a.symbols)}
    data = np.array(symbols + more, dtype=np.int64)
    want = [truth.get(s, len(a)) for s in data.tolist()]
    np.testing.assert_array_equal(a.encode(data, unknown="missing"), want)


def test_ambiguity_is_the_middle_of_membership():
    for a in (Alphabet.of("dna"), Alphabet.of("protein"), Alphabet("ab"), Alphabet([3, 1], {7: [3]})):
        np.testing.assert_array_equal(a.ambiguity, a.membership[len(a) : -1])
        assert not a.ambiguity.flags.writeable
        expected = [[s in set_ for s in a.symbols] for set_ in a.sets]
        np.testing.assert_array_equal(a.membership, np.array(expected, dtype=float))
        codes = np.arange(a.n_codes)[::-1].reshape(1, -1)
        np.testing.assert_array_equal(a.indicators(codes), a.membership[codes])
