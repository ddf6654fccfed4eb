"""Profile hidden Markov models against enumeration of all paths, and against HMMER's generic recursions."""

from __future__ import annotations

import ctypes
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import mercer as mc
from mercer.models._profile.search import MODES

RNG = np.random.default_rng(0)


def random_profiles(sizes=(3,), letters="ab", seed=0, **options):
    """Random profiles with small probabilities of gaps."""
    rng = np.random.default_rng(seed)
    k, match, insert, transitions = len(letters), [], [], []
    for m in sizes:
        match.append(rng.dirichlet(np.ones(k), m))
        insert.append(rng.dirichlet(np.ones(k), m + 1))
        rows = np.concatenate(
            [rng.dirichlet([3, 1, 1], m + 1), rng.dirichlet([1, 1], m + 1), rng.dirichlet([1, 1], m + 1)], axis=1
        )
        rows[-1, 2], rows[-1, :2] = 0.0, rows[-1, :2] / rows[-1, :2].sum()
        rows[[0, -1], 5:] = 1.0, 0.0
        transitions.append(rows)
    background = rng.dirichlet(5 * np.ones(k))
    return mc.models.ProfileHMMs(match, insert, transitions, alphabet=letters, background=background, **options)


def enumerated(p, x):
    """Sum the probabilities of all paths, one by one, from the begin of the sequence to its end."""
    match, insert, t = p.nodes(0)
    background, m = p.background[0], len(match)
    glocal, again = p.mode.endswith("glocal"), 0.0 if p.mode.startswith("uni") else 0.5
    size = len(x) if p.length is None else p.length
    move = (2 + 2 * again) / (size + 2 + 2 * again)
    codes = p.alphabet.encode(x) if isinstance(x, str) else x
    outside = background if p.insertion == "background" else None
    used = [t[0, 0] + t[0, 1]]
    for k in range(1, m):
        used.append(used[-1] * (t[k, 0] + t[k, 1]) + (1 - used[-1]) * t[k, 5])
    fragments = sum(u * (m - k) for k, u in enumerate(used))

    def enter(k):
        if not glocal:
            return used[k - 1] / fragments
        if k == 1:
            return 1 - t[0, 2]
        return t[0, 2] * np.prod(t[1 : k - 1, 6]) * t[k - 1, 5]

    def flank(kind, i):
        here = 0.0
        if i < len(codes):
            here += (1 - move) * background[codes[i]] * flank(kind, i + 1)
        if kind == "C":
            return here + (move if i == len(codes) else 0.0)
        return here + move * sum(enter(k) * state("M", k, i) for k in range(1, m + 1))

    def state(kind, k, i):
        value, b = 1.0, t[k]
        if kind in "MI":
            if i == len(codes):
                return 0.0
            table = match[k - 1] if kind == "M" else outside if outside is not None else insert[k]
            value, i = table[codes[i]], i + 1
        after = 0.0
        if kind in "MD" and (k == m or not glocal):
            after += (1 - again) * flank("C", i) + (again * flank("J", i) if again else 0.0)
        if k < m:
            steps = {"M": b[:3], "I": [b[3], b[4], 0.0], "D": [b[5], 0.0, b[6]]}[kind]
            for weight, next_kind, node in zip(steps, "MID", (k + 1, k, k + 1), strict=True):
                if weight > 0:
                    after += weight * state(next_kind, node, i)
        return value * after

    return flank("N", 0)


class TestLogProb:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("insertion", ["background", "model"])
    def test_all_paths(self, mode, insertion):
        p = random_profiles((3,), mode=mode, insertion=insertion)
        strings = ["a", "b", "ab", "bba", "aabb"]
        truth = [np.log(enumerated(p, x)) for x in strings]
        np.testing.assert_allclose(p.log_prob(strings)[0], truth, rtol=1e-12)
        q = p.configure(length=7)
        np.testing.assert_allclose(q.log_prob(strings)[0], [np.log(enumerated(q, x)) for x in strings], rtol=1e-12)

    def test_profiles_of_several_sizes_at_once(self):
        p = random_profiles((1, 4, 2))
        values = p.log_prob(["ab", "abba"])
        assert values.shape == (3, 2)
        for i in range(3):
            np.testing.assert_array_equal(values[i], p[i : i + 1].log_prob(["ab", "abba"])[0])
            np.testing.assert_allclose(values[i, 0], np.log(enumerated(p[i : i + 1], "ab")), rtol=1e-12)

    @pytest.mark.parametrize("mode", ["unilocal", "uniglocal"])
    def test_it_is_a_distribution(self, mode):
        p = random_profiles((2,), mode=mode, length=0)
        total = sum(np.exp(p.log_prob(["".join(x) for x in product("ab", repeat=n)])).sum() for n in range(1, 11))
        t = p.nodes(0)[2]
        silent = t[0, 2] * t[1, 6] if mode == "uniglocal" else 0.0  # the path of delete states only
        assert 1 - silent - 0.03 < total <= 1 - silent + 1e-12

    def test_the_cure_of_an_unknown_symbol_is_read_before(self):
        p = random_profiles((4,))
        cure = mc.Sequences(["abx"], alphabet=p.alphabet, unknown="missing")
        assert np.isfinite(p.log_prob(cure)).all()
        with pytest.raises(ValueError, match=r"'x' at position 2.*mc\.Sequences\(X.*unknown='missing'\)"):
            p.log_prob(["abx"])

    def test_ambiguity_codes_and_missing_symbols_are_summed_over(self):
        p = random_profiles((3,), "ACGT", length=3)
        p = mc.models.ProfileHMMs(*p.nodes(0), alphabet="dna", background=p.background[0], length=3).reshape(1)
        many = p.log_prob(["AAG", "AGG"])[0]
        np.testing.assert_allclose(p.log_prob(["ARG"])[0, 0], np.logaddexp(*many), rtol=1e-12)
        every = p.log_prob([f"A{x}G" for x in "ACGT"])[0]
        np.testing.assert_allclose(p.log_prob(["ANG"])[0, 0], np.logaddexp.reduce(every), rtol=1e-12)

    def test_gaps_are_removed(self):
        p = mc.ProfileHMM(alphabet="dna").fit(["ACGT", "ACGA"]).model_
        np.testing.assert_array_equal(p.log_prob(["AC-G.T"]), p.log_prob(["ACGT"]))
        assert p.log_prob([""])[0, 0] == p.log_odds([""])[0, 0] == -np.inf
        assert p.log_null([""])[0, 0] == 0.0

    @pytest.mark.slow
    def test_long_sequences(self):
        p = random_profiles((5,), length=100)
        x = "".join(RNG.choice(["a", "b"], 100_000))
        value = p.log_prob([x])[0, 0]
        assert -80_000 < value < -40_000
        once = p.configure(mode="uniglocal")
        assert np.isfinite(once.log_prob([x])).all()

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["uniglocal", "unilocal"])
    def test_numbers_that_floats_lose(self, mode):
        """Whole profiles that do not fit have probabilities far below those of floats; one of two hits is better."""
        m = 700
        match = np.tile([1e-3, 1 - 1e-3], (m, 1))
        t = np.tile([0.98, 0.01, 0.01, 0.5, 0.5, 0.5, 0.5], (m + 1, 1))
        t[-1] = [0.99, 0.01, 0, 0.5, 0.5, 1, 0]
        p = mc.models.ProfileHMMs([match], [np.full((m + 1, 2), 0.5)], [t], "ab", [0.999, 0.001], mode=mode)
        x = "b" * 150 + "a" * 20 + "b" * 300
        from mercer._native import profiles
        from mercer.models._profile.inference import native_model
        from mercer.models._profile.search import search_profile

        codes, profile = p.alphabet.encode(x), search_profile(p, 0)
        data = codes, np.array([0, len(x)]), profile.flanks(len(x))[None]
        careful = profiles.log_odds(native_model(profile), *data, False, True)[0]
        found = p.log_prob([x])[0, 0] - np.log(p.background[0])[codes].sum()
        np.testing.assert_allclose(found, careful, rtol=1e-12)
        assert careful > 1500 if mode == "unilocal" else np.isfinite(careful)


class TestViterbi:
    @pytest.mark.parametrize("mode", MODES)
    def test_no_path_is_better(self, mode):
        p = random_profiles((3,), mode=mode, seed=2)
        paths, values = p.viterbi(["abba", "b", "babab"])
        assert [len(path) for path in paths] == [4, 1, 5]
        assert (values <= p.log_prob(["abba", "b", "babab"])[0]).all()
        assert all(abs(path).max() <= 3 for path in paths)

    def test_the_best_of_all_paths(self):
        """A profile without choices: the path is known."""
        match = np.eye(4)[[0, 1, 2, 3]] * 0.96 + 0.01
        t = np.tile([0.9, 0.05, 0.05, 0.5, 0.5, 0.5, 0.5], (5, 1))
        t[-1] = [0.95, 0.05, 0, 0.5, 0.5, 1, 0]
        p = mc.models.ProfileHMMs([match], [np.full((5, 4), 0.25)], [t], "dna", mode="uniglocal", length=4)
        assert p.viterbi(["GACGTA"])[0][0].tolist() == [0, 1, 2, 3, 4, 0]
        assert p.viterbi(["ACT"])[0][0].tolist() == [1, 2, 4]
        assert p.configure(mode="glocal").viterbi(["ACGTACGT"])[0][0].tolist() == [1, 2, 3, 4, 1, 2, 3, 4]


class TestBatch:
    def test_indexing_saving_and_joining(self, tmp_path):
        p = random_profiles((1, 4, 2))
        assert p.shape == (3,)
        assert p.n_nodes.tolist() == [1, 4, 2]
        assert p[1].shape == ()
        assert p[[2, 0]].n_nodes.tolist() == [2, 1]
        joined = mc.models.ProfileHMMs.concat([p[:1], p[1:]])
        assert joined.digests() == p.digests()
        mc.save(p, tmp_path / "p.mercer")
        again = mc.load(tmp_path / "p.mercer")
        assert again.digests() == p.digests()
        np.testing.assert_array_equal(again.log_prob(["ab"]), p.log_prob(["ab"]))
        p.save(tmp_path / "p.npz")
        assert (
            mc.models.ProfileHMMs.load(tmp_path / "p.npz").names == p.names == ("profile_0", "profile_1", "profile_2")
        )

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"match": [np.full((2, 2), 0.4)]}, "sums to 0.8"),
            ({"match": [np.full((3, 2), 0.5)]}, "must have 4 rows"),
            ({"match": [np.full((2, 3), 1 / 3)]}, "rows of 2 numbers"),
            ({"mode": "global"}, "mode must be one of 'local'"),
            ({"length": -1}, "length must be a whole number"),
            ({"insertion": "none"}, "insertion must be 'background' or 'model'"),
            ({"background": [1.0, 0.0]}, "positive for every symbol; got 0 for 'b'"),
            ({"annotations": [{}, {}]}, "one dictionary per profile; got 2 for 1"),
        ],
    )
    def test_what_is_wrong(self, changes, message):
        p = random_profiles((2,))
        match, insert, transitions = p.nodes(0)
        with pytest.raises(ValueError, match=message):
            mc.models.ProfileHMMs(
                **{"match": [match], "insert": [insert], "transitions": [transitions], "alphabet": "ab"} | changes
            )

    def test_foreign_letters_and_alphabets(self):
        p = mc.ProfileHMM(alphabet="dna").fit(["ACGT", "ACGA"]).model_
        with pytest.raises(ValueError, match="has the symbol 'L' at position 1"):
            p.log_prob(["ALT"])
        with pytest.raises(ValueError, match="must have the alphabet"):
            p.log_prob(mc.Sequences(["MKL"], alphabet="protein"))
        with pytest.raises(TypeError, match="needs a list of batches"):
            mc.models.ProfileHMMs.concat(p)
        with pytest.raises(ValueError, match="differ in alphabet"):
            mc.models.ProfileHMMs.concat([p, random_profiles()])


class TestFiles:
    def profiles(self):
        p = mc.ProfileHMM(alphabet="dna").fit(["ACG-T", "ACGGT", "AC--T"]).model_
        notes = {
            "name": "tiny", "accession": "PF0.1", "description": "A tiny profile", "composition": [0.25] * 4,
            "lines": [["RF", "yes"], ["MM", "yes"], ["CONS", "yes"], ["CS", "yes"], ["MAP", "yes"], ["DATE", "now"],
                      ["GA", "25.0 20.5;"], ["STATS", "LOCAL MSV -8.0 0.7"], ["COM", "[1] made by hand"]],
            "nodes": [["1", "a", "x", ".", "H"], ["2", "c", ".", ".", "H"], ["3", "g", "x", "m", "."],
                      ["5", "t", "x", ".", "E"]],
        }  # fmt: skip
        one = mc.models.ProfileHMMs(*[[x] for x in p.nodes(0)], alphabet="dna", annotations=[notes])
        return mc.models.ProfileHMMs.concat([one, p])

    @pytest.mark.parametrize("name", ["two.hmm", "two.hmm.gz"])
    def test_round_trip(self, tmp_path, name):
        p = self.profiles()
        mc.models.write_hmmer(p, tmp_path / name)
        q = mc.models.read_hmmer(tmp_path / name)
        for rows, others in ((p.match, q.match), (p.insert, q.insert), (p.transitions, q.transitions)):
            np.testing.assert_allclose(others.data, rows.data, atol=2e-5)
        notes = q.annotations.dictionaries()
        assert notes[0] == p.annotations.dictionaries()[0]
        assert notes[1]["name"] == "profile_1"
        mc.models.write_hmmer(q, tmp_path / "again.hmm")
        r = mc.models.read_hmmer(tmp_path / "again.hmm")
        np.testing.assert_allclose(r.match.data, q.match.data, atol=2e-5)

    def test_older_formats_have_fewer_columns(self, tmp_path):
        path = tmp_path / "old.hmm"
        mc.models.write_hmmer(self.profiles()[:1], path)
        lines = path.read_text().replace("HMMER3/f", "HMMER3/b").split("\n")
        for i, line in enumerate(lines):
            words = line.split()
            if len(words) == 10 and words[0] in "1234":
                lines[i] = " ".join([*words[:6], words[7], words[9]])  # map, reference, structure
        path.write_text("\n".join(lines))
        notes = mc.models.read_hmmer(path).annotations.dictionaries()[0]
        assert notes["nodes"][2:] == [["3", "-", "x", "-", "."], ["5", "-", "x", "-", "E"]]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda s: s.replace("HMMER3/f", "HMMER2.0", 1), "line 1: a profile must begin with HMMER3/f"),
            (lambda s: s.replace("LENG  4", "LENG  four", 1), "LENG must be a whole number, 1 or more; got 'four'"),
            (lambda s: s.replace("LENG  4\n", "", 1), "has no line LENG"),
            (lambda s: s.replace("LENG  4", "LENG  5", 1), "node 5 of 5 must follow; got '//'"),
            (lambda s: s.replace("ALPH  DNA", "ALPH  codon", 1), "ALPH must be amino, DNA or RNA; got 'codon'"),
            (lambda s: s.replace("m->i", "m->j", 1), "the transitions must be"),
            (lambda s: "\n".join(s.split("\n")[:24]), "cut short"),
            (lambda s: s.replace("      2  ", "      2 -", 1), "node 2 of 4 has '-"),
            (lambda s: s.replace("  COMPO ", "  COMPO 9.0 ", 1), "COMPO must have 4 numbers here; got 5"),
            (lambda s: "\n".join(x.replace(" 1.3", " 9.9") for x in s.split("\n")), "not to one|sum to"),
            (lambda s: "", "is empty"),
        ],
    )
    def test_damaged_files(self, tmp_path, change, message):
        path = tmp_path / "damaged.hmm"
        mc.models.write_hmmer(self.profiles(), path)
        path.write_text(change(path.read_text()))
        with pytest.raises(ValueError, match=message):
            mc.models.read_hmmer(path)

    def test_other_alphabets_and_other_things(self, tmp_path):
        with pytest.raises(ValueError, match=r"proteins, DNA and RNA; got the alphabet ab.* Use mc.save"):
            mc.models.write_hmmer(random_profiles(), tmp_path / "x.hmm")
        with pytest.raises(TypeError, match="must be ProfileHMMs"):
            mc.models.write_hmmer("globins", tmp_path / "x.hmm")
        mixed = self.profiles()[:1]
        mc.models.write_hmmer(mixed, tmp_path / "x.hmm")
        mc.models.write_hmmer(mc.ProfileHMM().fit(["MKL", "MRL"]).model_, tmp_path / "y.hmm")
        (tmp_path / "z.hmm").write_text((tmp_path / "x.hmm").read_text() + (tmp_path / "y.hmm").read_text())
        with pytest.raises(ValueError, match="two alphabets, DNA and amino"):
            mc.models.read_hmmer(tmp_path / "z.hmm")
        with pytest.raises(ValueError, match=r"several lines of text. Pass io.StringIO"):
            mc.models.read_hmmer((tmp_path / "x.hmm").read_text())
        with pytest.raises(ValueError, match="at least one profile; got none"):
            mc.models.write_hmmer(mixed[:0], tmp_path / "x.hmm")
        with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
            mc.models.write_hmmer(mixed, tmp_path / "nowhere" / "x.hmm")

    def test_annotations_that_would_damage_a_file(self, tmp_path):
        nodes = [[x] for x in self.profiles().nodes(0)]
        named = mc.models.ProfileHMMs(*nodes, alphabet="dna", annotations=[{"name": "a\nb", "description": "c\r\n//"}])
        mc.models.write_hmmer(named, tmp_path / "x.hmm")
        assert mc.models.read_hmmer(tmp_path / "x.hmm").names == ("a b",)
        short = mc.models.ProfileHMMs(*nodes, alphabet="dna", annotations=[{"name": "a", "nodes": [["1"]]}])
        with pytest.raises(ValueError, match=r"'nodes' of the profile 'a'.* 4 of them; got 1"):
            mc.models.write_hmmer(short, tmp_path / "x.hmm")
        with pytest.raises(TypeError, match=r"annotations of profile 0.*tolist"):
            mc.models.ProfileHMMs(*nodes, alphabet="dna", annotations=[{"map": np.arange(4)}])
        with pytest.raises(IndexError, match="0 to 0; got -1"):
            named.nodes(-1)


class TestAlignments:
    def test_stockholm_in_blocks(self, tmp_path):
        path = tmp_path / "a.sto"
        path.write_text("# STOCKHOLM 1.0\n#=GF ID x\n\na  MK-L\nb  MR.L\n#=GC RF xx.x\n\na  WW\nb  W-\n//\n")
        X = mc.data.read_alignment(path).X
        assert list(X) == ["MK-LWW", "MR-LW-"]
        assert X.ids == ("a", "b")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("# STOCKHOLM 1.0\na MK\n", "line 3: the line '//' is missing"),
            ("# STOCKHOLM 1.0\na MK\n//\n# STOCKHOLM 1.0\n", "line 4: a second alignment"),
            ("# STOCKHOLM 1.0\na M K\n//\n", "line 2: a row must be a name and letters; got 3 words"),
            ("# STOCKHOLM 1.0\na MK\na MR\n//\n", "line 3: a second row has the name 'a'"),
            ("# STOCKHOLM 1.0\n//\n", "has no rows"),
            (">a\nMK\n>b\nM\n", "sequence 'b' has 1 columns, but sequence 'a' has 2"),
            ("CLUSTAL\n", "must begin with"),
        ],
    )
    def test_damaged(self, tmp_path, text, message):
        path = tmp_path / "a.sto"
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            mc.data.read_alignment(path)


class TestFit:
    def test_counts_by_hand(self):
        rows = ["AC-GT", "A--GT", "ACTG-", "-C-GT"]
        e = mc.ProfileHMM("dna", prior=None, weighting=None, bits=None, fragment_fraction=0).fit(rows)
        assert e.columns_.tolist() == [0, 1, 3, 4]
        match, insert, t = e.model_.nodes(0)
        np.testing.assert_allclose(match, np.eye(4)[[0, 1, 2, 3]])
        np.testing.assert_allclose(t[0, :3], [0.75, 0, 0.25])  # B to node 1
        np.testing.assert_allclose(t[1], [2 / 3, 0, 1 / 3, 1, 0, 1, 0])
        np.testing.assert_allclose(t[2, :5], [2 / 3, 1 / 3, 0, 1, 0])
        np.testing.assert_allclose(insert[2], np.eye(4)[3])
        np.testing.assert_allclose(t[3, :3], [0.75, 0, 0.25])

    def test_an_insertion_next_to_a_deletion_takes_its_place(self):
        rows = ["AC-GT", "A-CGT", "ACTGT", "AC-GT", "AC-GT"]
        e = mc.ProfileHMM("dna", prior=None, weighting=None, bits=None).fit(rows)
        _, insert, t = e.model_.nodes(0)
        np.testing.assert_allclose(t[1, :3], [1, 0, 0])
        np.testing.assert_allclose(t[2, :3], [0.8, 0.2, 0])
        np.testing.assert_allclose(insert[2], np.eye(4)[3])

    def test_the_ends_of_fragments_are_not_deletions(self):
        rows = ["ACGTACGT", "ACGTACGT", "---TA---"]
        t = mc.ProfileHMM("dna", prior=None, weighting=None, bits=None).fit(rows).model_.nodes(0)[2]
        assert (t[:, 2] == 0).all()
        whole = mc.ProfileHMM("dna", prior=None, weighting=None, bits=None, fragment_fraction=0)
        assert (whole.fit(rows).model_.nodes(0)[2][:, 2] > 0).any()

    def test_weights_by_hand(self):
        e = mc.ProfileHMM("dna").fit(["AAA", "AAA", "CCA"])
        by_hand = np.array([2 / 4 + 1 / 3, 2 / 4 + 1 / 3, 2 / 2 + 1 / 3])
        np.testing.assert_allclose(e.weights_, 3 * by_hand / by_hand.sum())

    def test_information(self):
        rows = mc.datasets.make_dna(40, length=300, random_state=0)[0]
        rows = [x[:300] for x in rows]
        e = mc.ProfileHMM("dna", bits=0.1, prior_strength=1.0).fit(rows)
        p = e.model_.match.data
        bits = (p * np.log2(p / 0.25)).sum(axis=1).mean()
        wanted = max(0.1, (45 + np.log2(300 * 301 / 2)) / 300)
        assert abs(bits - wanted) < 1e-6 or e.effective_number_ == 40

    @pytest.mark.parametrize("prior", ["background", "laplace", "substitution"])
    def test_priors_have_full_support(self, prior):
        p = mc.ProfileHMM(prior=prior).fit(["MKLW", "MRLW", "M-LX"]).model_
        assert (p.match.data > 0).all()
        assert np.isfinite(p.log_prob(["MKXLW", "AAAA"])).all()

    def test_what_cannot_be_fitted(self):
        with pytest.raises(ValueError, match="sequence 1 has 3 columns, but sequence 0 has 4"):
            mc.ProfileHMM("dna").fit(["ACGT", "ACG"])
        with pytest.raises(ValueError, match="Use a smaller match_fraction"):
            mc.ProfileHMM("dna", fragment_fraction=0).fit(["A---", "-C--", "--G-", "---T"])
        with pytest.raises(ValueError, match="has the symbol 'E' at position 1"):
            mc.ProfileHMM("dna").fit(["AEGT"])
        with pytest.raises(TypeError, match=r"ProfileHMMs\.concat"):
            mc.ProfileHMM("dna").fit_each(["ACGT"])
        with pytest.raises(ValueError, match="no letters: its 2 rows are empty or gaps only"):
            mc.ProfileHMM("dna").fit(["---", "..."])
        with pytest.raises(ValueError, match=r"background must have .*shape \(4,\); got shape \(2,\)"):
            mc.ProfileHMM("dna", background=[0.5, 0.5]).fit(["ACGT"])
        with pytest.raises(ValueError, match=r"background sums to 4.*Divide counts"):
            mc.ProfileHMM("dna", background=[1.0] * 4).fit(["ACGT"])
        with pytest.raises(ValueError, match="bits must be a positive number"):
            mc.ProfileHMM("dna", bits=-1).fit(["ACGT"])


# -- HMMER -------------------------------------------------------------------------------------------------


class Generic:
    """HMMER's generic Forward and Viterbi, from the library that pyhmmer brings."""

    def __init__(self):
        pyhmmer = pytest.importorskip("pyhmmer")
        folder = Path(pyhmmer.__file__).parents[1] / "pyhmmer.libs"
        try:
            self.hmmer = ctypes.CDLL(str(folder / "liblibhmmer.so"))
            self.easel = ctypes.CDLL(str(folder / "liblibeasel.so"))
        except OSError:
            pytest.skip("pyhmmer has no shared library here")
        for name in ("p7_bg_Create", "p7_profile_Create", "p7_gmx_Create"):
            getattr(self.hmmer, name).restype = ctypes.c_void_p

    def bits(self, path, n_nodes, strings, mode):
        """Forward and Viterbi scores of strings in bits, without the correction of biased composition."""
        pointer, byref, number = ctypes.c_void_p, ctypes.byref, ctypes.c_float
        file, alphabet, hmm, call = pointer(), pointer(), pointer(), self.hmmer
        assert call.p7_hmmfile_OpenNoDB(str(path).encode(), None, byref(file), None) == 0
        assert call.p7_hmmfile_Read(file, byref(alphabet), byref(hmm)) == 0
        background = pointer(call.p7_bg_Create(alphabet))
        profile = pointer(call.p7_profile_Create(n_nodes, alphabet))
        out = []
        for x in strings:
            codes, (forward, best, null) = pointer(), (number(), number(), number())
            assert self.easel.esl_abc_CreateDsq(alphabet, x.encode(), byref(codes)) == 0
            call.p7_ProfileConfig(hmm, background, profile, len(x), 1 + MODES.index(mode))
            call.p7_bg_SetLength(background, len(x))
            table = pointer(call.p7_gmx_Create(n_nodes, len(x)))
            call.p7_GForward(codes, len(x), profile, table, byref(forward))
            call.p7_GViterbi(codes, len(x), profile, table, byref(best))
            call.p7_bg_NullOne(background, codes, len(x), byref(null))
            out.append([(forward.value - null.value) / np.log(2), (best.value - null.value) / np.log(2)])
        return np.array(out).T


@pytest.mark.parametrize("mode", MODES)
def test_the_scores_of_hmmer(mode, tmp_path):
    """HMMER adds logarithms with a table and in float32, so that it is exact to about .01 bits."""
    rng = np.random.default_rng(0)
    family = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 60))] * 12
    mutants = [
        "".join(c if rng.random() < 0.7 else "ACDEFGHIKLMNPQRSTVWY-"[rng.integers(21)] for c in x) for x in family
    ]
    p = mc.ProfileHMM(mode=mode).fit(mutants).model_
    mc.models.write_hmmer(p, tmp_path / "p.hmm")
    q = mc.models.read_hmmer(tmp_path / "p.hmm").configure(mode=mode)
    strings = [x.replace("-", "") for x in mutants[:3]]
    strings += ["".join(rng.permutation(list(strings[0]))), strings[0] + "WWWW" + strings[1], strings[2][10:30] + "K"]
    forward, best = Generic().bits(tmp_path / "p.hmm", int(q.n_nodes[0]), strings, mode)
    np.testing.assert_allclose(q.log_odds(strings)[0] / np.log(2), forward, atol=0.01)
    ours = (q.viterbi(strings)[1] - q.log_null(strings)[0]) / np.log(2)
    np.testing.assert_allclose(ours, best, atol=0.01)


def test_the_profile_of_hmmbuild():
    """The same counts and Laplace's prior: the same profile, except for the rounding of float32."""
    pyhmmer = pytest.importorskip("pyhmmer")
    rows = ["MK-LWAC", "MRYLWA-", "MKYLW-C", "M--LWAC", "-KFLWAD"]
    alphabet = pyhmmer.easel.Alphabet.amino()
    names = [f"s{i}" for i in range(len(rows))]
    texts = [pyhmmer.easel.TextSequence(name=n, sequence=x) for n, x in zip(names, rows, strict=True)]
    try:
        aligned = pyhmmer.easel.TextMSA(name="x", sequences=texts).digitize(alphabet)
    except TypeError:  # before 0.12, names are bytes
        texts = [pyhmmer.easel.TextSequence(name=n.encode(), sequence=x) for n, x in zip(names, rows, strict=True)]
        aligned = pyhmmer.easel.TextMSA(name=b"x", sequences=texts).digitize(alphabet)
    builder = pyhmmer.plan7.Builder(
        alphabet, prior_scheme="laplace", weighting="none", effective_number=float(len(rows)), architecture="fast"
    )
    hmm, _, _ = builder.build_msa(aligned, pyhmmer.plan7.Background(alphabet))
    match, insert, t = mc.ProfileHMM(prior="laplace", weighting=None, bits=None).fit(rows).model_.nodes(0)
    np.testing.assert_allclose(match, np.asarray(hmm.match_emissions)[1:], atol=1e-6)
    np.testing.assert_allclose(insert, np.asarray(hmm.insert_emissions), atol=1e-6)
    np.testing.assert_allclose(t, np.asarray(hmm.transition_probabilities), atol=1e-6)
