"""The loaders give the published counts or one clear sentence; the generators what they promise."""

from __future__ import annotations

import gzip
import hashlib
import sys

import numpy as np
import pytest
from scipy import stats

from mercer.datasets import (
    _fetch,
    data_path,
    fetch_basic_motions,
    fetch_char_trajectories,
    fetch_fsdd,
    fetch_hs3d,
    fetch_intron_exon,
    fetch_japanese_vowels,
    fetch_pfam_seeds,
    fetch_promoters,
    fetch_r8,
    fetch_scop,
    fetch_splice,
    fetch_ucr,
    fetch_watch_imu,
    fetch_webkb,
    make_dna,
    make_documents,
    make_families,
    make_hmm_sequences,
    make_point_sets,
    make_traits,
)


def per_class(bunch) -> dict[str, int]:
    return dict(zip(bunch.target_names, np.bincount(bunch.target).tolist(), strict=True))


WEBKB = {"course": 930, "faculty": 1124, "project": 504, "student": 1641}
R8 = {
    "acq": 2292,
    "crude": 374,
    "earn": 3923,
    "grain": 51,
    "interest": 271,
    "money-fx": 293,
    "ship": 144,
    "trade": 326,
}


@pytest.mark.usefixtures("real")
class TestText:
    @pytest.mark.parametrize(
        ("fetch", "counts", "sizes"), [(fetch_webkb, WEBKB, (2803, 1396)), (fetch_r8, R8, (5485, 2189))]
    )
    def test_counts_are_the_published_ones(self, fetch, counts, sizes):
        whole = fetch(empty="keep")
        assert per_class(whole) == counts
        assert (np.sum(whole.split == "train"), np.sum(whole.split == "test")) == sizes
        assert whole.data.shape == (sum(sizes), len(whole.vocabulary))

    def test_empty_pages_of_webkb_are_dropped_unless_asked_for(self):
        kept, dropped = fetch_webkb(empty="keep"), fetch_webkb()
        empty = kept.data.sum(axis=1) == 0
        assert empty.sum() == 31
        assert dropped.ids.tolist() == kept.ids[~empty].tolist()
        assert dropped.target.tolist() == kept.target[~empty].tolist()
        assert (dropped.data != kept.data[~empty]).nnz == 0
        assert dropped.data.sum(axis=1).min() > 0

    def test_r8_has_no_empty_news(self):
        assert fetch_r8().data.shape == fetch_r8(empty="keep").data.shape

    @pytest.mark.slow
    def test_subsets_share_the_columns_and_join_to_all(self):
        whole, train, test = (fetch_webkb(subset=s) for s in ("all", "train", "test"))
        assert whole.vocabulary.tolist() == train.vocabulary.tolist() == test.vocabulary.tolist()
        assert whole.ids.tolist() == [*train.ids, *test.ids]
        assert (whole.data[: len(train.ids)] != train.data).nnz == 0
        assert (whole.data[len(train.ids) :] != test.data).nnz == 0
        assert set(test.split) == {"test"}

    def test_a_row_counts_the_words_of_its_line(self):
        news = fetch_r8(subset="test")
        row = 1000
        split, number = news.ids[row].split("-")
        with _fetch.open_binary(data_path("reuters_r8", f"r8-{split}-stemmed.txt")) as stream:
            label, words = stream.read().decode().splitlines()[int(number) - 1].split("\t")
        assert news.target_names[news.target[row]] == label
        expected = dict(zip(*np.unique(words.split(), return_counts=True), strict=True))
        counts = news.data[[row]].tocoo()
        assert dict(zip(news.vocabulary[counts.coords[1]], counts.data, strict=True)) == expected

    @pytest.mark.parametrize("wrong", [{"subset": "valid"}, {"empty": "ignore"}])
    def test_unknown_choice(self, wrong):
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name} must be '.*; got '{value}'"):
            fetch_webkb(**wrong)


@pytest.mark.usefixtures("real")
class TestSeries:
    @pytest.mark.parametrize(
        ("name", "length", "counts", "sizes"),
        [
            ("Coffee", 286, {"0": 29, "1": 27}, (28, 28)),
            ("ECG200", 96, {"-1": 67, "1": 133}, (100, 100)),
            ("GunPoint", 150, {"1": 100, "2": 100}, (50, 150)),
            ("Wafer", 152, {"-1": 762, "1": 6401}, (1000, 6163)),
            ("Yoga", 426, {"1": 137, "2": 163}, (300, 0)),
        ],
    )
    def test_ucr_has_the_published_counts(self, name, length, counts, sizes):
        whole = fetch_ucr(name)
        assert per_class(whole) == counts
        assert set(whole.data.lengths) == {length}
        assert (np.sum(whole.split == "train"), np.sum(whole.split == "test")) == sizes
        assert whole.DESCR.startswith(f"ucr_{name}: a data set of the UCR archive")
        assert "License: not stated. Cite: Dau et al., " in whole.DESCR
        assert "Parameters" not in whole.DESCR

    def test_parts_join_to_all(self):
        whole, train, test = (fetch_ucr("Coffee", subset=s) for s in ("all", "train", "test"))
        assert whole.data.ids == train.data.ids + test.data.ids
        assert np.array_equal(whole.data.values, np.concatenate([train.data.values, test.data.values]))
        assert np.array_equal(whole.target, np.concatenate([train.target, test.target]))
        assert test.data.ids[0] == "test-1"

    def test_the_archives_values_are_standardised(self):
        # The archive z-normalises every series, with n or with n - 1: a shifted or cut line would show here.
        for x in fetch_ucr("GunPoint", subset="train").data:
            assert abs(x.mean()) < 1e-6
            assert abs(x.std(ddof=1) - 1) < 1e-6

    @pytest.mark.parametrize(
        ("fetch", "shape", "counts"),
        [
            (fetch_japanese_vowels, (640, 12, 7, 29), [61, 65, 118, 74, 59, 54, 70, 80, 59]),
            (fetch_basic_motions, (80, 6, 100, 100), [20] * 4),
            (fetch_fsdd, (3000, 13, 6, 92), [300] * 10),
            pytest.param(fetch_watch_imu, (140, 6, 947, 2618), [20] * 7, marks=pytest.mark.slow),
            (fetch_char_trajectories, (100, 3, 109, 205), [5] * 20),
        ],
    )
    def test_several_channels(self, fetch, shape, counts):
        found = fetch()
        lengths = found.data.lengths
        assert (len(found.data), found.data.dimension, lengths.min(), lengths.max()) == shape
        assert np.bincount(found.target).tolist() == counts
        assert not np.isnan(found.data.values).any()

    @pytest.mark.slow
    def test_the_watch_has_ten_subjects_with_two_arms(self):
        watch = fetch_watch_imu()
        assert set(watch.groups) == set(range(1, 11))
        assert np.array_equal(np.bincount(watch.side), [70, 70])

    def test_long_tables_have_every_series_in_one_piece(self):
        with _fetch.open_binary(data_path("watch_imu", "watch_imu.csv")) as stream:
            series = np.loadtxt(stream, delimiter=",", skiprows=1, usecols=0)
        assert (np.diff(series) >= 0).all()
        with _fetch.open_binary(data_path("char_trajectories100", "char_traj_mv.csv")) as stream:
            name, time = np.loadtxt(stream, delimiter=",", skiprows=1, usecols=(0, 2), dtype=str).T
        same = name[1:] == name[:-1]
        assert np.array_equal(np.diff(time.astype(int)) == 1, same)

    def test_what_cannot_be(self):
        with pytest.raises(ValueError, match=r"name must be 'Coffee', 'ECG200', .*; got 'Gun'"):
            fetch_ucr("Gun")
        with pytest.raises(ValueError, match=r"subset must be 'all', 'train' or 'test'; got 'valid'"):
            fetch_ucr("Coffee", subset="valid")
        with pytest.raises(ValueError, match=r"ucr_Yoga must be one of 'all', 'train'; got 'test'"):
            fetch_ucr("Yoga", subset="test")


@pytest.mark.usefixtures("real")
class TestStrings:
    def test_halves_of_splice_windows(self):
        halves = fetch_hs3d()
        assert per_class(halves) == {"exon": 5676, "intron": 5676}
        assert set(halves.data.lengths) == {70}
        strings = np.array(list(halves.data))
        donors = strings[(halves.site == "donor") & (halves.target == 1)]
        acceptors = strings[(halves.site == "acceptor") & (halves.target == 1)]
        assert (len(donors), len(acceptors)) == (2796, 2880)
        assert np.mean(np.char.startswith(donors, "GT")) > 0.99  # the ends by which introns are known
        assert np.mean(np.char.endswith(acceptors, "AG")) > 0.99
        assert len(set(halves.groups)) == 668
        assert halves.groups[0] == halves.groups[1] == "AB000381"

    @pytest.mark.parametrize(
        ("fetch", "counts", "lengths"),
        [
            (fetch_promoters, {"+": 53, "-": 53}, (57, 57)),
            (fetch_splice, {"EI": 767, "IE": 768, "N": 1655}, (60, 60)),
            (fetch_intron_exon, {"exon": 2709, "intron": 2123}, (3, 110416)),
            (
                fetch_pfam_seeds,
                {"Caudal_act": 9, "LuxC": 13, "Patched": 10, "Pkinase": 38}
                | {"RRM_1": 79, "SMC_N": 29, "fn3": 98, "globins": 49},
                (63, 1271),
            ),
        ],
    )
    def test_counts(self, fetch, counts, lengths):
        found = fetch()
        assert per_class(found) == counts
        assert (found.data.lengths.min(), found.data.lengths.max()) == lengths
        assert len(set(found.data.ids)) == len(found.data)

    def test_ends_of_introns_are_cut_off(self):
        whole, cut = fetch_intron_exon(), fetch_intron_exon(trim=8)
        left = whole.data.lengths > 16
        assert cut.data.ids == whole.data[left].ids
        assert [s[8:-8] for s in whole.data[left][:50]] == list(cut.data[:50])
        assert np.array_equal(cut.groups, whole.groups[left])
        assert len(set(whole.groups)) == 586
        with pytest.raises(ValueError, match="trim must be a whole number, 0 or more; got -1"):
            fetch_intron_exon(trim=-1)

    def test_a_protein_in_blocks_is_joined_without_gaps(self):
        families = fetch_pfam_seeds()
        globin = families.data[families.data.ids.index("globins/HBB_HUMAN")]
        assert globin.startswith(
            "VHLTPEEKSAVTALWGKVNVDEVGGEALGRLLVVYPWTQRFFESFGDLSTPDAVMGNPKVKAHGKKVLGAFSDGLAHLDNLKGTFATLSE"
        )
        assert len(globin) == 146

    def test_roles_of_proteins_in_families(self):
        """Test positives are the family, training positives the rest of its superfamily, negatives other folds."""
        scop = fetch_scop()
        assert (len(scop.data), len(scop.target_names), len(scop.families)) == (4352, 853, 54)
        assert scop.role.shape == (4352, 54)
        assert scop.data.ids[0] == "d3sdha_"
        assert scop.family[0] == "1.1.1.1"
        superfamily = np.array(scop.target_names)[scop.target]
        fold = np.array([name.rsplit(".", 1)[0] for name in superfamily])
        for family, role in zip(scop.families, scop.role.T, strict=True):
            inside = family.rsplit(".", 1)[0]
            assert set(scop.family[role == 3]) == {family}
            assert set(superfamily[role == 1]) == {inside}
            assert family not in scop.family[role == 1]
            assert inside.rsplit(".", 1)[0] not in fold[(role == 2) | (role == 4)]


class TestFiles:
    """Every way in which a file can be wrong gives one sentence with the cure."""

    FOLDER, FILE, TEXT = "letters", "abc.txt", b"acq\ta b a\n"

    @pytest.fixture(autouse=True)
    def known(self, monkeypatch, tmp_path):
        source = _fetch.Source("https://example.org/abc.txt", hashlib.sha256(self.TEXT).hexdigest())
        monkeypatch.setitem(_fetch.SOURCES, (self.FOLDER, self.FILE), source)
        monkeypatch.setenv("MERCER_DATA", str(tmp_path))
        (tmp_path / self.FOLDER).mkdir()

    @pytest.mark.parametrize("packed", [False, True])
    def test_plain_and_packed_files_read_the_same(self, tmp_path, packed):
        name = self.FILE + ".gz" * packed
        (tmp_path / self.FOLDER / name).write_bytes(gzip.compress(self.TEXT) if packed else self.TEXT)
        path = data_path(self.FOLDER, self.FILE)
        assert path.name == name
        with _fetch.open_binary(path) as stream:
            assert stream.read() == self.TEXT

    def test_missing_file(self):
        with pytest.raises(
            FileNotFoundError,
            match=r"has neither abc.txt nor abc.txt.gz. Download https://example.org/abc.txt .* unset",
        ):
            data_path(self.FOLDER, self.FILE)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("abc.txt", b"acq\ta b\n"),
            ("abc.txt.gz", gzip.compress(b"acq\ta b\n")),
            ("abc.txt.gz", gzip.compress(TEXT)[:-4]),
            ("abc.txt.gz", b"no gzip at all"),
        ],
        ids=["changed", "changed, packed", "cut short", "not packed"],
    )
    def test_damaged_file(self, tmp_path, name, content):
        (tmp_path / self.FOLDER / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"abc.txt.* is damaged or a different version .* Replace it with"):
            data_path(self.FOLDER, self.FILE)

    def test_a_file_without_a_public_home(self, monkeypatch, tmp_path):
        source = _fetch.Source(None, "0", "the letters of a primer")
        monkeypatch.setitem(_fetch.SOURCES, (self.FOLDER, "made.txt"), source)
        with pytest.raises(FileNotFoundError, match="Put the file there; it was derived from the letters of a primer"):
            data_path(self.FOLDER, "made.txt")
        (tmp_path / self.FOLDER / "made.txt").write_bytes(b"x")
        with pytest.raises(ValueError, match="Replace it with the file from the letters of a primer"):
            data_path(self.FOLDER, "made.txt")
        monkeypatch.delenv("MERCER_DATA")
        sentence = (
            "letters/made.txt cannot be downloaded, because it was derived from .* Set the environment variable MERC"
        )
        with pytest.raises(FileNotFoundError, match=sentence):
            data_path(self.FOLDER, "made.txt")

    def test_unknown_file(self):
        with pytest.raises(ValueError, match=r"letters/xyz.txt is not a known data file; it must be one of webkb/"):
            data_path(self.FOLDER, "xyz.txt")


class TestDownload:
    """The download with a stand-in for the network, since tests must not need one."""

    KEY = ("reuters_r8", "r8-test-stemmed.txt")

    @pytest.fixture(autouse=True)
    def no_folder(self, monkeypatch):
        monkeypatch.delenv("MERCER_DATA", raising=False)

    def retrieve(self, monkeypatch, result):
        pooch = pytest.importorskip("pooch")

        def stand_in(url, known_hash, fname, path):
            assert (url, known_hash) == (
                _fetch.SOURCES[self.KEY].url,
                "sha256:" + _fetch.SOURCES[self.KEY].sha256,
            )
            assert (fname, path.name) == (self.KEY[1], self.KEY[0])
            if isinstance(result, Exception):
                raise result
            return str(result)

        monkeypatch.setattr(pooch, "retrieve", stand_in)

    def test_path_of_the_download(self, monkeypatch, tmp_path):
        self.retrieve(monkeypatch, tmp_path / "file")
        assert data_path(*self.KEY) == tmp_path / "file"

    def test_no_network(self, monkeypatch):
        self.retrieve(monkeypatch, OSError("name resolution failed"))
        with pytest.raises(
            ConnectionError,
            match=r"Could not download https.* Check the network, or set the environment variable MERCER_DATA",
        ):
            data_path(*self.KEY)

    def test_changed_at_its_home(self, monkeypatch):
        self.retrieve(monkeypatch, ValueError("hash mismatch"))
        with pytest.raises(
            ValueError,
            match=r"does not have the expected SHA-256 .* Try again, or set the environment variable MERCER_DATA",
        ):
            data_path(*self.KEY)

    def test_no_pooch(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pooch", None)
        with pytest.raises(ImportError, match=r"pip install pooch, or set the environment variable MERCER_DATA"):
            data_path(*self.KEY)


def same(a, b) -> bool:
    if hasattr(a, "toarray"):
        return np.array_equal(a.toarray(), b.toarray())
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("make", [make_documents, make_point_sets, make_dna, make_families, make_hmm_sequences])
class TestEveryGenerator:
    def test_the_same_seed_gives_the_same_data(self, make):
        assert same(make(9, random_state=3)[0], make(9, random_state=3)[0])
        assert not same(make(9, random_state=3)[0], make(9, random_state=4)[0])

    @pytest.mark.parametrize("source", [np.random.default_rng, np.random.RandomState])
    def test_sources_of_randomness(self, make, source):
        assert same(make(9, random_state=source(0))[0], make(9, random_state=source(0))[0])

    def test_classes_go_round(self, make):
        X, y = make(8, n_classes=3, random_state=0)
        assert y.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
        assert (X.shape[0] if hasattr(X, "shape") else len(X)) == 8

    @pytest.mark.parametrize("name", ["n_samples", "n_classes"])
    @pytest.mark.parametrize("value", [0, -1, 2.5, True, "3"])
    def test_counts_are_checked(self, make, name, value):
        with pytest.raises(ValueError, match=f"{name} must be a whole number, 1 or more; got {value!r}"):
            make(**{name: value})


class TestDocuments:
    def test_counts_have_the_multinomials_moments(self):
        n, d, length = 4000, 12, 20
        X, y = make_documents(n, d, length=length, n_classes=2, random_state=0)
        assert X.has_canonical_format
        assert set(X.sum(axis=1)) == {length}
        for c in (0, 1):
            rows = X[y == c].toarray()
            p = rows.mean(axis=0) / length
            # The variance of n / 2 counts has a relative error of about sqrt(4 / n).
            np.testing.assert_allclose(rows.var(axis=0), length * p * (1 - p), rtol=0.2)

    def test_noise_lengthens_the_runs(self):
        n, length, noise = 500, 200, 0.75
        # With so many words two fresh draws hardly ever agree, so distinct words count fresh draws.
        X, _ = make_documents(n, 10**6, length=length, noise=noise, random_state=0)
        distinct = np.diff(X.indptr).mean()
        expected = 1 + (length - 1) * (1 - noise)
        error = np.sqrt((length - 1) * noise * (1 - noise) / n)
        assert abs(distinct - expected) < 4 * error + 0.05

    def test_full_noise_repeats_one_word(self):
        X, _ = make_documents(20, noise=1.0, length=30, random_state=0)
        assert np.array_equal(X.max(axis=1).toarray().ravel(), np.full(20, 30.0))

    @pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
    def test_noise_is_a_probability(self, value):
        with pytest.raises(ValueError, match=r"noise must be a number, at least 0 and at most 1; got"):
            make_documents(noise=value)

    @pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "1"])
    def test_concentration_is_positive(self, value):
        with pytest.raises(ValueError, match=r"concentration must be a positive number; got"):
            make_documents(concentration=value)


class TestPointSets:
    @pytest.mark.parametrize("n_components", [1, 2, 3])
    @pytest.mark.parametrize("d", [2, 4])
    def test_classes_share_the_mean_and_differ_in_covariance(self, n_components, d):
        size, elongation = 20_000, 6.0
        X, _ = make_point_sets(
            3, d, size=size, n_classes=3, n_components=n_components, elongation=elongation, random_state=0
        )
        for points in X:
            np.testing.assert_allclose(points.mean(axis=0), 0, atol=5 * np.sqrt(elongation / size))
            values = np.linalg.eigvalsh(np.cov(points.T))
            np.testing.assert_allclose(values, [1.0] * (d - 1) + [elongation], rtol=0.1)
        axes = np.array([np.linalg.eigh(np.cov(points.T))[1][:, -1] for points in X])
        np.testing.assert_allclose(np.abs(axes @ axes.T), 0.5 + 0.5 * np.eye(3), atol=0.05)  # 60 degrees

    def test_a_mixture_is_not_gaussian(self):
        gauss, mixture = (make_point_sets(1, size=5000, n_components=m, random_state=0)[0][0] for m in (1, 2))
        longest = [np.linalg.svd(x, full_matrices=False)[0][:, 0] for x in (gauss, mixture)]
        assert stats.normaltest(longest[0]).pvalue > 1e-3
        assert stats.kurtosis(longest[1]) < -0.5

    def test_sizes(self):
        X, _ = make_point_sets(300, size=(3, 6), random_state=0)
        assert {len(points) for points in X} == {3, 4, 5, 6}
        assert {len(points) for points in make_point_sets(5, size=7)[0]} == {7}

    @pytest.mark.parametrize("size", [0, (0, 3), (4, 3), (1, 2, 3), 2.5, "ab", None])
    def test_size_is_checked(self, size):
        with pytest.raises(ValueError, match=r"size must be an integer of at least 1, or a pair .* got"):
            make_point_sets(size=size)

    def test_other_parameters_are_checked(self):
        with pytest.raises(ValueError, match="n_features must be a whole number, 2 or more; got 1"):
            make_point_sets(n_features=1)
        with pytest.raises(ValueError, match=r"elongation must be a number, at least 1 .*; got 0.5"):
            make_point_sets(elongation=0.5)


class TestDNA:
    def test_letters_and_lengths(self):
        X, _ = make_dna(200, length=(5, 9), random_state=0)
        assert {len(string) for string in X} == {5, 6, 7, 8, 9}
        assert set("".join(X)) == set("ACGT")

    def test_pairs_of_letters_follow_one_chain_per_class(self):
        # Transitions of two strings of one class agree within their error, those of two classes do not.
        def transitions(string):
            codes = np.searchsorted(list("ACGT"), list(string))
            counts = np.zeros((4, 4))
            np.add.at(counts, (codes[:-1], codes[1:]), 1)
            return counts

        X, y = make_dna(4, length=20_000, random_state=0)
        a, b, c, d = (transitions(string) for string in X)
        assert y.tolist() == [0, 1, 0, 1]

        def p_value(first, second):  # Bonferroni over the four letters
            tables = (np.stack(rows) for rows in zip(first, second, strict=True))
            return 4 * min(stats.chi2_contingency(table).pvalue for table in tables)

        assert p_value(a, c) > 1e-3
        assert p_value(b, d) > 1e-3
        assert p_value(a, b) < 1e-12

    def test_length_is_checked(self):
        with pytest.raises(ValueError, match=r"length must be an integer .* got \(9, 5\)"):
            make_dna(length=(9, 5))


class TestFamilies:
    def test_members_share_what_the_ancestor_left_them(self):
        X, y = make_families(400, length=500, n_classes=2, mutation=0.3, deletion=0.0, insertion=0, random_state=0)
        letters = np.array([list(string) for string in X])
        same = (letters[:200, None] == letters[200:]).mean(axis=2)
        relatives = y[:200, None] == y[200:]
        # A letter agrees if both kept it, or by chance of 1 in 20.
        np.testing.assert_allclose(same[relatives].mean(), 0.49 + 0.51 / 20, atol=0.01)
        np.testing.assert_allclose(same[~relatives].mean(), 1 / 20, atol=0.01)

    def test_letters_are_lost_and_inserted(self):
        X, _ = make_families(300, length=100, n_classes=1, deletion=0.1, insertion=20, alphabet="dna", random_state=0)
        assert set("".join(X)) == set("ACGT")
        np.testing.assert_allclose(np.mean([len(string) for string in X]), 100, atol=1.5)  # 90 are left, 10 come in
        assert np.std([len(string) for string in X]) > 5

    @pytest.mark.parametrize("wrong", [{"mutation": 1.0}, {"deletion": -0.1}, {"insertion": -1}, {"length": 0}])
    def test_bad_values(self, wrong):
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name} must be .* got {value}"):
            make_families(**wrong)


class TestHMMSequences:
    def test_letters_lengths_and_vectors(self):
        X, _ = make_hmm_sequences(200, length=(5, 9), n_states=4, random_state=0)
        assert {len(string) for string in X} == {5, 6, 7, 8, 9}
        assert set("".join(X)) == set("abcd")
        X, _ = make_hmm_sequences(5, length=7, n_features=3, random_state=0)
        assert {x.shape for x in X} == {(7, 3)}

    def test_classes_have_equal_counts_and_differ_in_their_steps(self):
        n, length, certainty = 60, 4000, 0.6
        X, y = make_hmm_sequences(n, length=length, n_classes=3, certainty=certainty, noise=0.0, random_state=0)
        letters = np.array([[ord(letter) - ord("a") for letter in string] for string in X])
        ahead = (letters[:, 1:] - letters[:, :-1]) % 3
        for c in range(3):
            share = np.bincount(letters[y == c].ravel()) / letters[y == c].size
            np.testing.assert_allclose(share, 1 / 3, atol=0.02)  # the chain's memory makes the error about 0.004
            steps = np.bincount(ahead[y == c].ravel()) / ahead[y == c].size
            expected = np.where(np.arange(3) == c, certainty, (1 - certainty) / 2)
            np.testing.assert_allclose(steps, expected, atol=0.008)  # error 0.0017

    def test_noise_draws_letters_at_random(self):
        X, _ = make_hmm_sequences(20, length=2000, n_classes=1, certainty=1.0, noise=0.3, random_state=0)
        own = np.mean([max(np.bincount(np.frombuffer(x.encode(), np.uint8))) / 2000 for x in X])
        assert abs(own - (0.7 + 0.1)) < 0.01  # class 0 stays in its state

    @pytest.mark.parametrize("d", [1, 2, 5])
    def test_means_of_neighbouring_states_are_one_apart(self, d):
        X, _ = make_hmm_sequences(30, length=50, n_features=d, noise=0.0, random_state=0)
        points = np.unique(np.concatenate(X).round(9), axis=0)
        assert len(points) == 3
        gaps = np.linalg.norm(points[:, None] - points, axis=-1)[np.triu_indices(3, 1)]
        np.testing.assert_allclose(sorted(gaps), [1, 1, 2] if d == 1 else [1, 1, 1], atol=1e-8)

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            ({"n_states": 1}, "n_states must be a whole number, 2 or more; got 1"),
            ({"n_states": 27}, "n_states must be at most 26 for strings; got 27"),
            ({"n_features": 0}, "n_features must be a whole number, 1 or more; got 0"),
            ({"noise": 1.5}, "at most 1; got 1.5.* For strings"),
            ({"noise": np.inf, "n_features": 1}, "noise must be a number, 0 or more; got inf"),
            ({"certainty": 1.2}, "certainty must be a number, at least 0 and at most 1; got 1.2"),
            ({"n_classes": 4}, "n_classes must be at most n_states=3; got 4"),
            ({"length": (9, 5)}, r"length must be an integer .* got \(9, 5\)"),
        ],
    )
    def test_parameters_are_checked(self, wrong, sentence):
        with pytest.raises(ValueError, match=sentence):
            make_hmm_sequences(**wrong)


class TestTraits:
    def test_age_drives_the_trait_and_the_level_and_dynamics_tell_the_signal(self):
        people = make_traits(200, 3, confounding=1.0, random_state=0)
        age = people.confounds[:, 0]
        level = np.array([x[:, 1].mean() for x in people.data])
        change = np.array([np.mean(np.diff(x[:, 0] > 0) != 0) for x in people.data])
        assert np.corrcoef(level, age)[0, 1] > 0.95
        assert np.corrcoef(people.target, age)[0, 1] > 0.5  # 1 / sqrt(1 + 1 + 0.25) = 0.67, error 0.03
        assert np.corrcoef(change, people.signal)[0, 1] < -0.7
        assert abs(np.corrcoef(people.signal, age)[0, 1]) < 0.15  # 0, error 0.04
        noise = people.target - people.signal - age
        np.testing.assert_allclose(np.var(noise), 0.25, rtol=0.2)
        np.testing.assert_allclose(noise.mean(), 50, atol=0.1)  # error 0.02; far from 0, so that an intercept matters

    def test_families_share_the_signal(self):
        for heritability in (0.0, 1.0):
            people = make_traits(300, 2, heritability=heritability, length=2, random_state=0)
            first, second = people.signal.reshape(300, 2).T
            assert abs(np.corrcoef(first, second)[0, 1] - heritability) < 0.2  # error 0.06
        assert people.data.ids[:3] == ("family-0-0", "family-0-1", "family-1-0")
        assert people.groups[:3].tolist() == [0, 0, 1]

    def test_without_confounding_age_does_nothing(self):
        a, b = (make_traits(20, confounding=value, random_state=0) for value in (0.0, 2.0))
        assert np.array_equal(a.confounds, b.confounds)
        np.testing.assert_allclose(b.target - a.target, 2 * a.confounds[:, 0])
        assert np.array_equal(a.data.values[:, 0], b.data.values[:, 0])

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            ({"n_families": 0}, "n_families must be a whole number, 1 or more; got 0"),
            ({"heritability": 1.1}, "heritability must be a number, at least 0 and at most 1; got 1.1"),
            ({"confounding": -1}, "confounding must be a number, 0 or more; got -1"),
            ({"noise": np.nan}, "noise must be a number, 0 or more; got nan"),
        ],
    )
    def test_parameters_are_checked(self, wrong, sentence):
        with pytest.raises(ValueError, match=sentence):
            make_traits(**wrong)
