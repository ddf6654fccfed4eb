"""Features in blocks: equal to those of all data at once, with bad records and bad blocks."""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer.datasets import make_dna

STRINGS, Y = make_dna(30, random_state=0)
BAD = [*STRINGS[:4], "AC!GT", *STRINGS[4:9], "", *STRINGS[9:12]]  # records 4 and 10 are invalid
POINTS = np.random.default_rng(0).normal(size=(50, 3))


def words(k=3, **options):
    return mc.Features(mc.Spectrum(k, alphabet="dna", **options)).fit(STRINGS)


def pieces(X, size):
    return (X[i : i + size] for i in range(0, X.shape[0] if sparse.issparse(X) else len(X), size))


# -- the same features ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("transformer", "X"),
    [
        (words(), STRINGS),
        (words(8), STRINGS),
        (mc.Features(mc.Fisher(mc.MarkovChain(alphabet="dna"))).fit(STRINGS), STRINGS),
        (mc.Landmarks(mc.ProbabilityProduct(mc.MarkovChain(alphabet="dna")), 5).fit(STRINGS), STRINGS),
        (mc.Landmarks(mc.RBF(), 8).fit(POINTS), POINTS),
        (mc.Landmarks(mc.RBF(), 8).fit(POINTS), sparse.csr_array(POINTS)),
    ],
)
def test_blocks_are_the_rows_of_the_whole(transformer, X, size):
    whole = transformer.transform(X)
    for given in (pieces(X, size), X):
        found = [block.features for block in transformer.stream(given, block_size=size)]
        assert len(found) == -(-len(STRINGS if X is STRINGS else POINTS) // size)
        if sparse.issparse(whole):
            assert abs(sparse.vstack(found) - whole).max() < 1e-12
        else:
            np.testing.assert_allclose(np.concatenate(found), whole, rtol=1e-10, atol=1e-12)


def test_nothing_is_kept_in_the_memo(monkeypatch):
    transformer = mc.Landmarks(mc.ProbabilityProduct(mc.MarkovChain(alphabet="dna")), 5).fit(STRINGS[:10])
    monkeypatch.setattr("mercer.kernels._evaluation.gather", None)  # it would be called
    assert len(list(transformer.stream(STRINGS[10:20]))) == 1
    with pytest.raises(TypeError, match="NoneType"):
        transformer.transform(STRINGS[10:20])


def joined(blocks):
    """Return the features, the mask and the problems of all blocks."""
    blocks = list(blocks)
    features, kept = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("features", "kept"))
    return features, kept, {at: why for block in blocks for at, why in block.problems.items()}


# -- FASTA ---------------------------------------------------------------------------------------------------


def fasta(strings, labels=None):
    return "".join(f">s{i} class={'' if labels is None else labels[i]}\n{x}\n" for i, x in enumerate(strings))


@pytest.mark.parametrize("packed", [False, True])
def test_fasta_files(tmp_path, packed):
    path = tmp_path / "reads.fasta"
    raw = fasta(STRINGS).replace("\n", "\r\n").encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    assert_array_equal(joined(words().stream(path, block_size=7))[0], words().transform(STRINGS))
    blocks = list(mc.data.fasta_blocks(path, block_size=7))
    assert [len(block.X) for block in blocks] == [7] * (len(STRINGS) // 7) + [len(STRINGS) % 7] * (len(STRINGS) % 7 > 0)
    assert [x for block in blocks for x in block.X] == list(STRINGS)


def test_fastq_files(tmp_path):
    path = tmp_path / "reads.fastq"
    path.write_text("".join(f"@s{i}\n{x}\n+\n{'@' * len(x)}\n" for i, x in enumerate(STRINGS[:10])))
    expected = [list(STRINGS[begin:end]) for begin, end in ((0, 4), (4, 8), (8, 10))]
    assert [list(block.X) for block in mc.data.fasta_blocks(path, block_size=4)] == expected


def test_labels_go_along(tmp_path):
    path = tmp_path / "reads.fasta"
    path.write_text(fasta(STRINGS, Y))
    found = words().stream(mc.data.fasta_blocks(path, labels="class=", block_size=7))
    assert_array_equal(np.concatenate([block.y for block in found]).astype(int), Y)


def test_bad_records_of_files_are_skipped(tmp_path):
    path = tmp_path / "reads.fasta"
    path.write_text(fasta([*BAD, "!"]))
    features, kept, problems = joined(words().stream(path, block_size=5, invalid="mask"))
    good = [i for i in range(15) if i not in (4, 10, 14)]
    assert_array_equal(np.flatnonzero(kept), good)
    assert len(kept) == 15
    assert list(problems) == [4, 10, 14]
    assert "line 10: sequence 's4' has the symbol '!'" in problems[4]
    assert "line 21: sequence 's10' has no symbols" in problems[10]
    assert "line 30: " in problems[14]
    assert_array_equal(features, words().transform([BAD[i] for i in good]))
    with pytest.raises(ValueError, match="line 10: sequence 's4'"):
        list(words().stream(path, block_size=5))


def test_files_that_are_not_fasta(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none.fasta' does not exist"):
        mc.data.fasta_blocks("none.fasta")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        mc.data.fasta_blocks(tmp_path)
    with pytest.raises(TypeError, match="path must be"):
        mc.data.fasta_blocks(3)
    with pytest.raises(ValueError, match="block_size must be"):
        mc.data.fasta_blocks(tmp_path / "x", block_size=0)
    for content, message in (
        (b"", "is empty"),
        (b"\0\1", "is a binary file"),
        (b"ACGT\n", "before the first header"),
        (gzip.compress(b">a\nACGT\n")[:-4], "not a valid gzip file"),
    ):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            list(mc.data.fasta_blocks(tmp_path / "x"))


# -- bad records and blocks ----------------------------------------------------------------------------------


def test_bad_records_are_skipped_and_reported():
    features, kept, problems = joined(words().stream(BAD, block_size=5, invalid="mask"))
    good = [i for i in range(14) if i not in (4, 10)]
    assert_array_equal(np.flatnonzero(kept), good)
    assert problems[4].startswith("sequence 4 has the symbol '!'")
    assert "sequence 10" in problems[10]
    assert_array_equal(features, words().transform([BAD[i] for i in good]))
    blocks = list(words().stream(pieces(BAD, 5), invalid="mask"))
    assert [len(block.features) for block in blocks] == [4, 5, 3]
    assert [list(block.problems) for block in blocks] == [[4], [], [10]]


def test_rows_with_missing_values_are_skipped():
    transformer = mc.Landmarks(mc.RBF(), 8).fit(POINTS)
    bad = POINTS.copy()
    bad[[3, 40], 1] = np.nan
    blocks = list(transformer.stream(bad, block_size=20, invalid="mask"))
    assert_array_equal(np.concatenate([block.kept for block in blocks]), ~np.isnan(bad[:, 1]))
    found = np.concatenate([block.features for block in blocks])
    np.testing.assert_allclose(found, transformer.transform(POINTS[~np.isnan(bad[:, 1])]), atol=1e-12)


def test_blocks_that_are_none():
    transformer = mc.Landmarks(mc.RBF(), 8).fit(POINTS)
    for invalid in ("raise", "mask"):
        with pytest.raises(ValueError, match="no blocks: the iterator is empty"):
            list(transformer.stream(iter([]), invalid=invalid))
        with pytest.raises(ValueError, match="Block 1 has 2 columns, but the training data have 3"):
            list(transformer.stream(iter([POINTS, POINTS[:, :2]]), invalid=invalid))
        with pytest.raises(TypeError, match="Block 0 must be a list of samples or a matrix; got 'ACGT'"):
            list(words().stream(iter(["ACGT"]), invalid=invalid))
    with pytest.raises(ValueError, match="All 3 records of block 0 are invalid: sequence 0"):
        list(words().stream(iter([["!", "?", "1"]]), invalid="mask"))
    with pytest.raises(TypeError, match=r"blocks must be an iterator of blocks, .*; got 3"):
        list(transformer.stream(3))
    with pytest.raises(ValueError, match="invalid must be 'raise' or 'mask'; got 'skip'"):
        transformer.stream(POINTS, invalid="skip")
    with pytest.raises(ValueError, match=r"block_size must be .*; got 0"):
        transformer.stream(POINTS, block_size=0)
    vectors = mc.Features(mc.Fisher(mc.Gaussian("diagonal"))).fit([POINTS[:5], POINTS[5:12]])
    with pytest.raises(ValueError, match=r"Block 0 .*got \(4, 2\)"):
        list(vectors.stream(iter([[POINTS[:4, :2]]])))


def test_all_blocks_are_sparse_or_all_are_dense():
    """A kernel may choose by the block: `Spectrum` by its share of zeros."""
    transformer = mc.Features(mc.Spectrum(6, alphabet="dna")).fit(STRINGS)
    rich = ["".join(np.random.default_rng(i).choice(list("ACGT"), 900)) for i in range(3)]
    assert not sparse.issparse(transformer.transform(rich))
    assert sparse.issparse(transformer.transform(STRINGS))
    for given in ([rich, STRINGS], [STRINGS, rich]):
        blocks = [block.features for block in transformer.stream(iter(given))]
        assert sparse.issparse(blocks[0]) == sparse.issparse(blocks[1]) == (given[0] is STRINGS)
        for block, X in zip(blocks, given, strict=True):
            difference = abs(sparse.csr_array(block) - sparse.csr_array(transformer.transform(X)))
            assert difference.max() < 1e-14


def test_empty_blocks_have_no_rows():
    blocks = list(words().stream(iter([STRINGS[:2], [], STRINGS[2:3]])))
    assert [block.features.shape for block in blocks] == [(2, 64), (0, 64), (1, 64)]
    assert sum(block.features.shape[0] for block in words(8).stream(iter([STRINGS[:2], []]))) == 2


def test_it_must_be_fitted():
    with pytest.raises(NotFittedError):
        mc.Features(mc.Spectrum(2)).stream(STRINGS)
