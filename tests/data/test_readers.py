"""Readers: what is in a file comes out of it, and what is wrong with it is said with its line."""

from __future__ import annotations

import gzip
import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer.data.alignment import read_alignment
from mercer.data.alphabet import Alphabet
from mercer.data.fasta import read_fasta
from mercer.data.svmlight import read_svmlight
from mercer.data.table import read_table
from mercer.data.timeseries import read_ts, read_ucr

READERS = [read_fasta, read_ts, read_ucr, read_svmlight, read_table]
SMALL = {
    read_fasta: ">s1 first\nACGT\n>s2 second\nGGA\n",
    read_ts: "@classLabel true a b\n@data\n1,2:a\n3:b\n",
    read_ucr: "1\t0.5\t0.7\n2\t0.2\t0.3\n",
    read_svmlight: "1 1:0.5 2:0.7\n2 1:0.2\n",
    read_table: "id,t0,t1,label\na,1,2,u\nb,3,,v\n",
}


def lines(*content: str) -> io.StringIO:
    return io.StringIO("\n".join(content))


def same(a, b) -> bool:
    if not hasattr(a.X, "values"):
        return np.array_equal(a.X.toarray(), b.X.toarray()) and np.array_equal(a.y, b.y)
    values = np.array_equal(a.X.values, b.X.values, equal_nan=not a.X.is_symbols)
    labels = (a.y is None) == (b.y is None) and (a.y is None or np.array_equal(a.y, b.y))
    return values and labels and np.array_equal(a.X.offsets, b.X.offsets) and a.X.ids == b.X.ids


@pytest.mark.parametrize("read", READERS)
class TestEveryReader:
    def test_all_ways_to_pass_a_file(self, read, tmp_path):
        raw = SMALL[read].encode()
        expected = read(io.StringIO(SMALL[read]))
        plain, packed, renamed = tmp_path / "x.txt", tmp_path / "x.gz", tmp_path / "packed.txt"
        plain.write_bytes(raw)
        packed.write_bytes(gzip.compress(raw))
        renamed.write_bytes(gzip.compress(raw))
        for path in (plain, str(plain), packed, renamed):
            assert same(read(path), expected)
        with plain.open() as text, packed.open("rb") as binary, gzip.open(packed, "rt") as unpacked:
            for stream in (text, binary, unpacked, io.BytesIO(raw)):
                assert same(read(stream), expected)

    @pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["Windows", "old Mac"])
    def test_line_ends_and_byte_order_marks(self, read, end):
        changed = b"\xef\xbb\xbf" + SMALL[read].replace("\n", end).encode()
        assert same(read(io.BytesIO(changed)), read(io.StringIO(SMALL[read])))

    def test_it_unpacks_as_a_pair(self, read):
        records = read(io.StringIO(SMALL[read]))
        X, y = records
        assert X is records.X
        assert y is records.y

    @pytest.mark.parametrize(
        ("raw", "sentence"),
        [
            (b"", r"is empty; pass a .* file with at least one (sequence|row)"),
            (b" \r\n\n", r"is empty; pass a .* file with at least one (sequence|row)"),
            (b">a\0\x01\x02", "is a binary file; pass"),
            (">a\nAC".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
            (gzip.compress(b">a\nAC" * 100)[:-12], "is not a valid gzip file .*; download or copy it again"),
        ],
        ids=["empty", "blank", "binary", "utf-16", "cut gzip"],
    )
    def test_no_text(self, read, raw, sentence, tmp_path):
        path = tmp_path / "bad.txt"
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=f"bad.txt {sentence}"):
            read(path)

    def test_no_file(self, read, tmp_path):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none.txt")
        with pytest.raises(TypeError, match=r"a path or a file open for reading; got 3|a path, a folder.* of type int"):
            read(3)


class TestFasta:
    def test_lines_of_a_record_are_joined_without_blanks_and_comments(self):
        X, y = read_fasta(lines("; made by hand", ">a one", "ACgt", "", " AC GT ", ";no", ">b\ttwo", "N"))
        assert list(X) == ["ACGTACGT", "N"]
        assert X.ids == ("a", "b")
        assert y is None

    def test_descriptions_are_the_header_lines(self):
        assert read_fasta(lines("> a  one|x ", "A", ">b", "C")).descriptions == ("a  one|x", "b")

    @given(
        st.lists(
            st.tuples(st.text("ACGTacgtNRY", min_size=1, max_size=30), st.integers(1, 7), st.sampled_from(["", "\n"])),
            min_size=1,
            max_size=8,
        ),
        st.sampled_from(["\n", "\r\n"]),
        st.booleans(),
    )
    def test_what_is_written_is_read(self, records, end, ended):
        written = []
        for i, (sequence, width, blank) in enumerate(records):
            written += [f">s{i} text > more", *re.findall(f".{{1,{width}}}", sequence)]
            written += [blank] if blank else []
        text = end.join(written).replace("\n\n", "\n") + end * ended
        X, _ = read_fasta(io.StringIO(text), alphabet="dna")
        assert list(X) == [sequence.upper() for sequence, _, _ in records]
        assert X.ids == tuple(f"s{i}" for i in range(len(records)))

    @pytest.mark.parametrize(
        ("text", "alphabet"),
        [
            ("ACGTNacgtn", "dna"),
            ("ACGT" * 5 + "R", "dna"),
            ("ACGT" * 5 + "-", "dna"),
            ("ACGU", "rna"),
            ("ACGTR", "protein"),  # one letter in five is no DNA, and all are amino acids
            ("MKVLAXW*", "protein"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "protein"),  # every letter is an amino acid or a code
            ("ACGTU" + "M" * 5, "protein"),
        ],
    )
    def test_which_alphabet_is_found(self, text, alphabet):
        found = read_fasta(lines(">a", text), unknown="missing").X.alphabet
        assert found == Alphabet.of(alphabet)

    def test_symbols_that_are_no_letters_need_an_alphabet(self):
        text = (">a", "ACGTACGTAC", ">b", "ACGT", "AC1T")
        for unknown in ("raise", "missing"):
            with pytest.raises(ValueError, match=r"line 5: '1' .* pass drop='1' .*, or alphabet="):
                read_fasta(lines(*text), unknown=unknown)
        assert read_fasta(lines(*text), drop="1").X.alphabet == Alphabet.of("dna")
        assert list(read_fasta(lines(">a", "0110"), alphabet="01").X) == ["0110"]
        with pytest.raises(ValueError, match=r"line 2: '-' .* pass drop='-'"):
            read_fasta(lines(">a", "--."))

    def test_dna_and_rna_in_one_file(self):
        text = (">a", "ACGT", "acgt", ">b", "ACGU")
        with pytest.raises(ValueError, match=r"line 5: .* T \(DNA\) and U \(RNA\), here U; replace"):
            read_fasta(lines(*text))
        assert read_fasta(lines(*text), alphabet="protein").X.alphabet == Alphabet.of("protein")
        assert read_fasta(lines(">a", "ACGTU"), alphabet="ACGTU").X.alphabet == Alphabet("ACGTU")

    @pytest.mark.parametrize("label", [["x", "y"], ("x",), {"x": 1}, None, np.zeros(2)])
    def test_a_label_is_one_thing(self, label):
        with pytest.raises(
            ValueError, match=r"line 3: the header 'b' gets .* from labels=, .* single string or number"
        ):
            read_fasta(lines(">a", "A", ">b", "C"), labels=lambda header: 0 if header == "a" else label)

    def test_what_cannot_be_dropped(self):
        with pytest.raises(TypeError, match=r"drop must be a string of characters .*; got None"):
            read_fasta(lines(">a", "A"), drop=None)
        with pytest.raises(ValueError, match=r"ASCII characters only; got '-é'. Remove 'é'"):
            read_fasta(lines(">a", "A"), drop="-é")

    def test_a_stop_at_the_end_is_no_residue(self):
        text = (">a", "MKV*", ">b", "MK", "V", "*", ">c", "MKV")
        assert list(read_fasta(lines(*text)).X) == ["MKV"] * 3
        assert list(read_fasta(lines(*text), alphabet="MKV*").X) == ["MKV*", "MKV*", "MKV"]

    def test_gaps_can_be_dropped_or_not_observed(self):
        text = (">a", "AC-G.", ">b", "..AC")
        assert list(read_fasta(lines(*text), drop="-.").X) == ["ACG", "AC"]
        assert list(read_fasta(lines(*text), unknown="missing").X) == ["ACNGN", "NNAC"]

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            (r"class=(\w+)", ["x", "y"]),
            (1, ["P1", "P2"]),
            (-1, ["class=x", "class=y"]),
            (len, [21, 22]),
            ({"sp|P1|A_HUMAN": 1.5, "sp|P2|B_MOUSES": 2.5}, [1.5, 2.5]),
        ],
        ids=["pattern", "field", "last field", "function", "mapping"],
    )
    def test_labels(self, labels, expected):
        X, y = read_fasta(lines(">sp|P1|A_HUMAN class=x", "AC", ">sp|P2|B_MOUSES class=y", "GT"), labels=labels)
        assert len(X) == 2
        assert y.tolist() == expected

    @pytest.mark.parametrize(
        ("labels", "error", "sentence"),
        [
            (r"class=(\d)", ValueError, "line 3: the header 'b' does not match labels="),
            (1, ValueError, "line 3: the header 'b' has 1 .*, so labels=1 is out of range; .* counted from 0"),
            ({"a": 0}, ValueError, "line 3: the header 'b' has the id 'b', which is not in the mapping labels=; add"),
            ("class", ValueError, "labels .* one group; 'class' has 0 groups. Put parentheses around the label"),
            ("(a)(b)", ValueError, "has 2 groups"),
            ("(a", ValueError, r"must be a regular expression; got '\(a'"),
            (1.5, TypeError, "labels must be a regular expression with one group, .* got 1.5"),
            (True, TypeError, "labels must be a regular expression .* got True"),
        ],
    )
    def test_labels_that_cannot_be(self, labels, error, sentence):
        with pytest.raises(error, match=sentence):
            read_fasta(lines(">a class=1", "AC", ">b", "GT"), labels=labels)
        with pytest.raises(error, match=sentence.replace("labels", "groups")):
            read_fasta(lines(">a class=1", "AC", ">b", "GT"), groups=labels)

    def test_groups(self):
        text = ">s1|gene7|exon", "AC", ">s2|gene7|intron", "GT", ">s3|gene9|exon", "GG"
        found = read_fasta(lines(*text), labels=2, groups=1)
        assert found.y.tolist() == ["exon", "intron", "exon"]
        assert found.groups.tolist() == ["gene7", "gene7", "gene9"]
        assert read_fasta(lines(*text)).groups is None
        X, y = read_fasta(lines(*text), groups=r"gene(\d)")
        assert y is None
        assert len(X) == 3

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (("; fine", "ACGT", ">a", "A"), "line 2: 'ACGT' .* first header; begin every sequence with"),
            (("hello world",), "line 1: 'hello world' .* first header; begin every sequence with"),
            (("; comments alone",), "the file has no header line; begin every sequence with >name"),
            ((">a", "AC", ">b", "", ">c", "G"), "line 3: sequence 'b' has no symbols; remove it"),
            ((">a", "AC", ">b"), "line 3: sequence 'b' has no symbols"),
            ((">a", "MKV", ">b", "*"), "line 3: sequence 'b' has no symbols"),
            ((">a", "AC", "> ", "G"), "line 3: the header has no name; write one after >"),
            ((">a", "A", ">b", "C", ">a x", "G"), "line 5: the id 'a' .* line 1; make the ids distinct"),
            ((">a", "ACGT>b", "GGTT"), "line 2: '>' .*; begin every header on a new line"),
            ((">a > b", "AC", "", "G", " >c", "T"), "line 5: '>' .*; begin every header on a new line"),
            ((">a", "ACé"), "line 2: the byte 0xc3 at position 2 of the sequence is not ASCII; remove it"),
        ],
    )
    def test_what_does_not_parse(self, text, sentence):
        with pytest.raises(ValueError, match=sentence):
            read_fasta(lines(*text))

    def test_an_alignment_is_named_with_its_reader(self):
        text = "# STOCKHOLM 1.0\n\nseq1 ACD-EF\nseq2 ACDAEF\n//\n"
        for invalid in ("raise", "mask"):
            with pytest.raises(ValueError, match=r"Stockholm format; use mc\.data\.read_alignment"):
                read_fasta(io.StringIO(text), invalid=invalid)
        assert len(read_alignment(io.StringIO(text)).X) == 2

    def test_an_unknown_symbol_has_line_id_position_alphabet_and_cure(self):
        text = (">a", "MKV*", ">b", "ACGT", "", "; x", "AC", "GX")
        sentence = r"line 8: sequence 'b' has the symbol 'X' at position 7, .* alphabet ACGT \(dna\); pass unknown="
        with pytest.raises(ValueError, match=sentence):
            read_fasta(lines(*(">a", "AC*", *text[2:])), alphabet="dna")
        with pytest.raises(ValueError, match=r"line 2: sequence 'a' has the symbol '-' .*; pass drop='-' to remove it"):
            read_fasta(lines(">a", "AC-G"))

    def test_ids_that_occur_twice_can_be_numbered(self):
        text = (">a", "A", ">a", "C", ">a.2", "G", ">a", "T")
        assert read_fasta(lines(*text), duplicates="number").X.ids == ("a", "a.3", "a.2", "a.4")

    def test_each_record_names_its_own_symbol(self):
        text = lines(">a", "AC!?T", ">b", "ACGT", ">c", "GG+T")
        problems = read_fasta(text, invalid="mask", alphabet="dna").problems
        assert "symbol '!' at position 2" in problems["a"]
        assert "symbol '+' at position 2" in problems["c"]
        letters = read_fasta(lines(">a", "AC!?T", ">b", "ACGT", ">c", "GG+T"), invalid="mask").problems
        assert "'+' in a sequence is not a letter" in letters["c"]

    @pytest.mark.parametrize("wrong", [{"duplicates": "drop"}, {"unknown": "ignore"}])
    def test_unknown_choice(self, wrong):
        with pytest.raises(ValueError, match="must be 'raise' or"):
            read_fasta(lines(">a", "A"), **wrong)


class TestTs:
    HEADER = ("# about", "@problemName Toy", "@timeStamps false", "@univariate false", "@classLabel true a b", "@data")

    def test_channels_missing_values_and_ragged_lengths(self):
        X, y = read_ts(lines(*self.HEADER, "1,2,?:4,5,6:a", "", "# note", "7, NaN :,1e1: b "))
        np.testing.assert_array_equal(X[0], [[1, 4], [2, 5], [np.nan, 6]])
        np.testing.assert_array_equal(X[1], [[7, np.nan], [np.nan, 10]])
        assert y.tolist() == ["a", "b"]

    def test_kinds_of_label(self):
        assert read_ts(lines("@classLabel true 2 1", "@data", "1,2:1", "3:2")).y.tolist() == [1, 2]
        assert read_ts(lines("@classLabel true 01 1", "@data", "1,2:1", "3:01")).y.tolist() == ["1", "01"]
        assert read_ts(lines("@classLabel false", "@data", "1,2:3,4", "5:6")).y is None
        assert read_ts(lines("@classLabel false", "@data", "1,2:3,4", "5:6")).X.dimension == 2
        target = read_ts(lines("@targetLabel true", "@data", "1,2:0.5", "3:-1e2")).y
        assert target.dtype == np.float64
        assert target.tolist() == [0.5, -100.0]

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (("@classLabel true a", "1,2:a"), "line 2: '1,2:a' .*; begin the data with a line @data"),
            (("@classLabel true a",), "has no line @data; pass a .ts file, or read UCR tables with read_ucr"),
            (("@data", "1:a"), "line 1: the header .* labels; write @classLabel"),
            (("@classLabel true", "@data", "1:a"), "line 1: @classLabel true must be followed by the classes"),
            (("@classLabel yes", "@data", "1:a"), "line 1: @classlabel must be followed by true or false"),
            (("@classLabel true a", "@data"), "line 2: no series follows @data"),
            (
                ("@timeStamps true", "@classLabel true a", "@data", "(0,1):a"),
                "line 1: time stamps .*; write only the values",
            ),
            ((*HEADER, "(0,1),(1,2):a"), "line 7: time stamps .*; write only the values"),
            ((*HEADER, "1,2:3,4:c"), "line 7: 'c', .* not a label; write one of a, b"),
            ((*HEADER, "1,2,3"), "line 7: '1,2,3', .* not a label; write one of a, b"),
            (
                (*HEADER, "1,2:3,4:a", "1,2:b"),
                "line 8: the series has 1 channel.*, but .* have 2; they must agree",
            ),
            ((*HEADER, "1,2:3:a"), "line 7: channel 1 has 2 values, but channel 2 has 1; pad with"),
            ((*HEADER, "1,x:3,4:a"), "line 7: value 2, 'x', is not a number; write ."),
            ((*HEADER, "1,inf:3,4:a"), "line 7: value 2 is inf; write ."),
            ((*HEADER, "::a"), "line 7: the series has no values; remove it"),
            ((*HEADER, "?,NaN:,:a"), "line 7: the series has no values; remove it"),
            ((*HEADER, "1_000,2:1,2:a"), "line 7: value 1, '1_000', is not a number"),
            (("@targetLabel true", "@data", "1,2:fast"), "line 3: value 1, 'fast', is not a number"),
        ],
    )
    def test_what_does_not_parse(self, text, sentence):
        with pytest.raises(ValueError, match=sentence):
            read_ts(lines(*text))

    @pytest.mark.usefixtures("real")
    def test_a_real_file(self, real_folder):
        X, y = read_ts(real_folder / "JapaneseVowels" / "JapaneseVowels_TRAIN.ts.gz")
        assert (len(X), X.dimension, X.lengths.min(), X.lengths.max()) == (270, 12, 7, 26)
        assert np.bincount(y).tolist() == [0] + [30] * 9
        np.testing.assert_allclose(X[0][:2, :2], [[1.860936, -0.207383], [1.891651, -0.193249]])


class TestUcr:
    @pytest.mark.parametrize("separator", ["\t", ",", "  ", ", "])
    def test_separators(self, separator):
        rows = [["1", "0.5", "-1e-3", "2"], ["-1", "3", "4", "5"]]
        X, y = read_ucr(lines(*(separator.join(row) for row in rows)))
        assert y.tolist() == [1, -1]
        np.testing.assert_array_equal(X.values[:, 0], [0.5, -1e-3, 2, 3, 4, 5])

    def test_padding_is_cut_and_gaps_stay(self):
        X, _ = read_ucr(lines("1\t0.5\tNaN\t2\tNaN\tNaN", "2\t\t1\t?\t\t", "1\t7"))
        np.testing.assert_array_equal(X[0][:, 0], [0.5, np.nan, 2])
        np.testing.assert_array_equal(X[1][:, 0], [np.nan, 1])
        np.testing.assert_array_equal(X[2][:, 0], [7])

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            (["1", "-2"], [1, -2]),
            (["1.0000000e+00", "2"], [1, 2]),
            (["0.5", "1"], ["0.5", "1"]),
            (["a", "1"], ["a", "1"]),
            (["01", "1", "1"], ["01", "1", "1"]),
            (["01", "02", "01"], [1, 2, 1]),
            (["1_0", "2"], ["1_0", "2"]),
            (["9007199254740993", "2"], ["9007199254740993", "2"]),
            (["inf", "nan"], ["inf", "nan"]),
        ],
    )
    def test_labels(self, labels, expected):
        assert read_ucr(lines(*(f"{label}\t0.5" for label in labels))).y.tolist() == expected

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (("1,2,3", "label,V1,V2"), "line 2: value 1, 'V1', is not a number"),
            (("1\t2", "1\tNaN\tNaN"), "line 2: the series with label '1' has no values; remove it"),
            (("1\t2", "1\t1_0\tNaN"), "line 2: value 1, '1_0', is not a number"),
            (("1\t2", "3"), "line 2: the series with label '3' has no value"),
            (("1\t2", "\t3"), "line 2: the first column, .* is empty; add a label"),
            (("@data", "1,2:a"), "line 1: .* begins with @; read .ts files with read_ts"),
            (("1\t-inf",), "line 1: value 1 is -inf"),
            (("# nothing",), "has no line that can be read; .*only comments"),
        ],
    )
    def test_what_does_not_parse(self, text, sentence):
        with pytest.raises(ValueError, match=sentence):
            read_ucr(lines(*text))


class TestSvmlight:
    def test_rows(self):
        X, y = read_svmlight(lines("# made by hand", "1 1:3 4:1.5 # note", "-1 qid:1 2:2", "1"))
        assert X.toarray().tolist() == [[3, 0, 0, 1.5], [0, 2, 0, 0], [0, 0, 0, 0]]
        assert y.tolist() == [1, -1, 1]
        assert read_svmlight(lines("0.5 0:1", "1 2:1")).X.shape == (2, 3)
        assert read_svmlight(lines("0.5 0:1", "1 2:1")).y.tolist() == [0.5, 1.0]
        assert read_svmlight(lines("1 3:1"), n_features=5).X.shape == (1, 5)
        assert read_svmlight(lines("1 qid:3 3:1", "2 qid:4 1:1")).groups.tolist() == [3, 4]

    @pytest.mark.parametrize(
        ("line", "sentence"),
        [
            ("x 1:2", "line 2: could not convert .*'x'; write a label"),
            ("1 1", "line 2: .*write a label and the entries index:value"),
            ("1 a:2", "line 2: invalid literal .*'a'"),
            ("1 1:x", "line 2: could not convert .*'x'"),
            ("1 1:inf", "line 2: a value is not finite"),
            ("1 1:2 1:3", "line 2: .* sorted and unique"),
            ("1 99999999999999999999:1", "line 2: .* too large"),
        ],
    )
    def test_bad_lines(self, line, sentence):
        with pytest.raises(ValueError, match=sentence):
            read_svmlight(lines("1 1:1", line))
        found = read_svmlight(lines("1 1:1", line), invalid="mask")
        assert found.X.shape[0] == 1
        assert [*found.problems] == ["line 2"]
        with pytest.raises(ValueError, match="has no line that can be read"):
            read_svmlight(lines(line), invalid="mask")

    def test_too_many_columns(self):
        with pytest.raises(ValueError, match="line 2: there are more features than n_features=5"):
            read_svmlight(lines("1 1:1", "1 9:1"), n_features=5)


class TestHeadersAsPeopleHaveThem:
    @pytest.mark.parametrize(
        ("header", "value"),
        [("{} class=x len=3", "x"), ("{}|class=x|y", "x"), ('{}\tclass="x y"\tz', "x y"), ("{} [class=x] more", "x")],
    )
    def test_keys(self, header, value):
        text = [line for i in range(2) for line in (f">{header.format(f's{i}')}", "ACG")]
        assert read_fasta(lines(*text), labels="class=").y.tolist() == [value] * 2
        with pytest.raises(ValueError, match=r"line 1: the header .* does not have kind=\.\.\.,"):
            read_fasta(lines(*text), labels="kind=")

    @pytest.mark.parametrize(
        ("header", "said"),
        [
            ("s{}|{}", "field 1"),
            ("s{}\t{}", "field 1"),
            ("s{} kind={} n={}", "'kind='"),
            ("s{} n={}3 class={}", "'class='"),
        ],
    )
    def test_labels_that_are_found(self, header, said):
        kinds = "a", "b", "a", "b"
        text = [line for i, kind in enumerate(kinds) for line in (">" + header.format(i, kind, i), f"ACG{'A' * i}")]
        if "class" in header:
            text = [
                line for i, kind in enumerate(kinds) for line in (f">s{i} n={i // 2} class={kind}", f"ACG{'A' * i}")
            ]
        found = read_fasta(lines(*text), labels="auto")
        assert found.y.tolist() == [*kinds]
        assert f"{said} of the headers; pass labels= to correct it" in found.description

    def test_labels_that_are_not_found(self):
        with pytest.raises(ValueError, match=r"no key or field .* repeats like a class; pass labels="):
            read_fasta(lines(">a x", "ACG", ">b y", "ACG", ">c z", "ACG"), labels="auto")
        text = [line for i in range(4) for line in (f">s{i}|u{i % 2}|v{i // 2}", "ACG")]
        with pytest.raises(ValueError, match="could be the class: labels=1 and labels=2; pass one"):
            read_fasta(lines(*text), labels="auto")


class TestFastq:
    TEXT = "@r1 class=x", "ACGT", "+", "@@II", "", "@r2 class=y", "GGN", "+r2", ">II"

    def test_records(self):
        found = read_fasta(lines(*self.TEXT), labels="class=")
        assert list(found.X) == ["ACGT", "GGN"]
        assert found.X.ids == ("r1", "r2")
        assert found.y.tolist() == ["x", "y"]

    def test_broken(self):
        with pytest.raises(ValueError, match="line 9: 2 qualities for 3 symbols"):
            read_fasta(lines(*self.TEXT[:-1], "II"))
        assert [*read_fasta(lines(*self.TEXT[:-1], "II"), invalid="mask").problems] == ["line 6"]
        with pytest.raises(ValueError, match=r"line 6: .* no line \+ after its sequence"):
            read_fasta(lines(*self.TEXT[:-2]))
        with pytest.raises(ValueError, match="line 5: a FASTQ record begins with @"):
            read_fasta(lines(*self.TEXT[:4], "r2", "GG", "+", "II"))


class TestBiopython:
    def test_records(self):
        bio = pytest.importorskip("Bio.SeqRecord")
        seq = pytest.importorskip("Bio.Seq")
        rows = [("a", "a class=x", "ACGT"), ("b", "class=y", "GGT"), ("c", "<unknown description>", "GGA")]
        records = [bio.SeqRecord(seq.Seq(s), id=name, description=text) for name, text, s in rows]
        found = read_fasta(iter(records[:2]), labels="class=")
        assert list(found.X) == ["ACGT", "GGT"]
        assert found.y.tolist() == ["x", "y"]
        assert read_fasta(records).descriptions == ("a class=x", "b class=y", "c")
        with pytest.raises(ValueError, match="record 2: the header 'c' does not have class="):
            read_fasta(records, labels="class=")

    def test_no_records(self):
        with pytest.raises(TypeError, match=r"with a str at position 0. Pass strings to mc.Sequences"):
            read_fasta(["ACGT"])
        with pytest.raises(TypeError, match="a path or a file open for reading"):
            read_fasta(np.array("a"))
        with pytest.raises(ValueError, match="There are no records"):
            read_fasta([])


class TestA3M:
    """Insertions are in lower case, and rows without them have no gap for them."""

    ROWS = ">a\nAC-G\nT\n>b second\nACaaG.G\nT\n>c\nA--gGT\n"

    @pytest.mark.parametrize("start", ["", "#A3M#\n"])
    def test_the_match_columns_are_read(self, start):
        found = read_alignment(io.StringIO(start + self.ROWS))
        assert list(found.X) == ["AC-GT", "ACGGT", "A--GT"]
        assert found.ids == ("a", "b", "c")
        assert found.description == (
            "the file: the match columns of an A3M file; lower-case letters, which are insertions, are left out."
        )

    def test_aligned_rows_keep_their_lower_case(self):
        found = read_alignment(io.StringIO(">a\nACg-t\n>b\nAC.gt\n"))
        assert list(found.X) == ["ACG-T", "AC-GT"]
        assert found.description == ""

    @pytest.mark.parametrize("rows", [">a\nACGT\n>b\nAC\n", ">a\nacgt\n>b\nac\n", ">a\nACGTa\n>b\nAC\n"])
    def test_other_lengths_are_an_error(self, rows):
        with pytest.raises(
            ValueError, match=r"not an alignment: sequence 'b' has 2 columns.*Align the sequences first"
        ):
            read_alignment(io.StringIO(rows))


class TestMasks:
    @pytest.mark.parametrize(
        ("bad", "key", "sentence"),
        [
            ((">b", ""), "b", "line 3: sequence 'b' has no symbols"),
            (("> ", "AC"), "line 3", "line 3: the header has no name"),
            ((">a class=z", "AC"), "a", "line 3: the id 'a' already occurs in line 1"),
            ((">b class=x", "AC1"), "b", "line 4: '1' in a sequence is not a letter"),
            ((">b class=x", "ACé"), "b", "line 4: the byte 0xc3"),
            ((">b class=x", "AC>"), "b", "line 4: '>' occurs within a sequence"),
            ((">b", "AC"), "b", "line 3: the header 'b' does not have class="),
        ],
    )
    @pytest.mark.parametrize("alphabet", [None, "dna"])
    def test_fasta(self, bad, key, sentence, alphabet):
        text = lines(">a class=x", "ACGT", *bad, ">c class=y", "GGTACG")
        found = read_fasta(text, labels="class=", invalid="mask", alphabet=alphabet)
        assert list(found.X) == ["ACGT", "GGTACG"]
        assert found.X.ids == found.ids == ("a", "c")
        assert found.y.tolist() == ["x", "y"]
        assert found.descriptions == ("a class=x", "c class=y")
        assert [*found.problems] == [key]
        if alphabet is None or "'1'" not in sentence:
            assert sentence in found.problems[key]

    def test_an_unknown_symbol(self):
        found = read_fasta(lines(">a", "AC", ">b", "AZ", ">c", "A-"), alphabet="dna", invalid="mask")
        assert found.X.ids == ("a",)
        assert "line 4: sequence 'b' has the symbol 'Z'" in found.problems["b"]

    def test_nothing_is_left(self):
        for alphabet in (None, "dna"):
            with pytest.raises(ValueError, match=r"All records are invalid: .*line 1"):
                read_fasta(lines(">a", "", ">b", ""), invalid="mask", alphabet=alphabet)
        with pytest.raises(ValueError, match="All records are invalid: the file, line 1"):
            read_fasta(lines("> ", "AC"), invalid="mask", labels="auto")
        with pytest.raises(ValueError, match="has no line that can be read"):
            read_ucr(lines("1\tx"), invalid="mask")

    def test_series(self):
        found = read_ts(lines("@classLabel true a b", "@data", "1,2:a", "x:b", "3:c", "4:b"), invalid="mask")
        assert found.y.tolist() == ["a", "b"]
        assert [*found.problems] == ["line 4", "line 5"]
        found = read_ucr(lines("1\t2\t3", "2\tx", "\t3", "2\t4"), invalid="mask")
        assert found.y.tolist() == [1, 2]
        assert [*found.problems] == ["line 2", "line 3"]

    @pytest.mark.parametrize("read", READERS)
    def test_only_two_choices(self, read):
        with pytest.raises(ValueError, match="invalid must be 'raise' or 'mask'"):
            read(io.StringIO(SMALL[read]), invalid="drop")
