"""Substitution matrices as joint laws of matched letters: published values, identities, and what is refused."""

import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.data import Alphabet
from mercer.models._pairs.blosum import blosum62
from mercer.models._pairs.substitution import (
    _scores_of,
    _searched,
    given_distribution,
    implied_background,
    implied_scale,
    joint_of,
    karlin_altschul,
    natural_alphabet,
)

DNA, PROTEIN = Alphabet.of("dna"), Alphabet.of("protein")
HALF_BIT, THIRD_BIT = np.log(2) / 2, np.log(2) / 3
# Robinson and Robinson 1991, the background of BLAST.
COUNTS = [7805, 5129, 4487, 5364, 1925, 4264, 6295, 7377, 2199, 5142, 9019, 5744, 2243, 3856, 5203, 7120, 5841, 1330]
COUNTS += [3216, 6441]
ROBINSON = {letter: count / sum(COUNTS) for letter, count in zip("ARNDCQEGHILKMFPSTWYV", COUNTS, strict=True)}


@pytest.fixture
def matrices():
    pytest.importorskip("Bio")
    from Bio.Align import substitution_matrices

    return substitution_matrices


class TestNamed:
    @pytest.mark.parametrize(
        ("name", "unit"),
        [
            ("BLOSUM45", THIRD_BIT),
            ("BLOSUM50", THIRD_BIT),
            ("BLOSUM62", HALF_BIT),
            ("BLOSUM80", THIRD_BIT),
            ("BLOSUM90", HALF_BIT),
            ("PAM30", HALF_BIT),
            ("PAM70", HALF_BIT),
        ],
    )
    def test_printed_unit_and_own_marginals(self, matrices, name, unit):
        found = joint_of(name, None, None, PROTEIN)
        J, p = found.joint, found.joint.sum(axis=1)
        assert found.scale == pytest.approx(unit, rel=1e-15)
        assert J.sum() == pytest.approx(1, abs=1e-14)
        assert np.array_equal(J, J.T)
        assert np.linalg.eigvalsh(J)[0] > 1e-4
        assert 0.005 < p.min() < p.max() < 0.13  # frequencies of amino acids
        # Log odds over its own marginals are the scores, up to one constant.
        array = matrices.load(name)
        S = np.array([[array[a, b] for b in PROTEIN.symbols] for a in PROTEIN.symbols])
        away = np.log(J / np.outer(p, p)) - unit * S
        np.testing.assert_allclose(away, away[0, 0], atol=1e-12)
        assert abs(away[0, 0]) < 0.1  # which is small: the matrix holds rounded log odds

    def test_blast_lambda(self, matrices):
        # BLAST prints lambda = 0.318 for BLOSUM62 without gaps, 0.3176 in Altschul et al. 1997.
        found = karlin_altschul(_scores_of("BLOSUM62", PROTEIN).values, given_distribution("b", ROBINSON, PROTEIN))
        assert found == pytest.approx(0.3176, abs=5e-5)

    def test_implied_scale_solves_its_equation(self, matrices):
        S = _scores_of("BLOSUM62", PROTEIN).values
        u = implied_scale(S)
        Y = np.linalg.inv(np.exp(u * S))
        assert Y.sum() == pytest.approx(1, abs=1e-10)
        assert (Y.sum(axis=1) > 0).all()
        assert u == pytest.approx(0.3240, abs=5e-5)  # not ln 2 / 2 = 0.3466: scores are rounded
        assert karlin_altschul(S, Y.sum(axis=1)) == pytest.approx(u, rel=1e-9)

    def test_unit_of_a_matrix_without_header(self, matrices):
        assert joint_of("GONNET1992", None, None, PROTEIN).scale == pytest.approx(np.log(10) / 10, abs=1e-3)

    def test_pam250_takes_the_letters_of_the_data(self, matrices):
        # Its implied background has negative entries.
        assert implied_background(np.exp(THIRD_BIT * _scores_of("PAM250", PROTEIN).values)) is None
        law = given_distribution("b", ROBINSON, PROTEIN)
        found = joint_of("PAM250", None, None, PROTEIN, law)
        S = _scores_of("PAM250", PROTEIN).values
        expected = np.outer(law, law) * np.exp(THIRD_BIT * S)
        np.testing.assert_allclose(found.joint, expected / expected.sum(), rtol=1e-12)
        values = np.linalg.eigvalsh(found.joint)
        assert 0 < values[0] < 1e-3 * values[-1]  # barely positive

    def test_any_case(self, matrices):
        assert np.array_equal(
            joint_of("blosum62", None, None, PROTEIN).joint, joint_of("BLOSUM62", None, None, PROTEIN).joint
        )

    def test_rna_reads_dna(self, matrices):
        rna = joint_of("NUC.4.4", None, None, Alphabet.of("rna")).joint
        np.testing.assert_array_equal(rna, joint_of("NUC.4.4", None, None, DNA).joint)

    def test_forms_agree(self, matrices):
        array = matrices.load("BLOSUM50")
        plain = np.array([[array[a, b] for b in PROTEIN.symbols] for a in PROTEIN.symbols])
        pairs = {
            (a, b): plain[i, j] for i, a in enumerate(PROTEIN.symbols) for j, b in enumerate(PROTEIN.symbols[: i + 1])
        }
        truth = joint_of("BLOSUM50", THIRD_BIT, None, PROTEIN).joint
        for form in (array, plain, plain.tolist(), pairs):
            np.testing.assert_array_equal(joint_of(form, THIRD_BIT, None, PROTEIN).joint, truth)
        assert joint_of(array, None, None, PROTEIN).scale == THIRD_BIT  # the header travels with the array

    def test_alphabets(self, matrices):
        assert natural_alphabet("BLOSUM62") == PROTEIN
        assert natural_alphabet(matrices.load("PAM30")) == PROTEIN
        assert natural_alphabet("nuc.4.4") == DNA
        assert natural_alphabet((2, -3)) is None
        assert natural_alphabet(np.eye(4)) is None
        assert natural_alphabet({("a", "b"): 1}) is None


class TestNumbers:
    @pytest.mark.parametrize(("match", "mismatch", "published"), [(1, -2, 1.33), (1, -3, 1.37), (5, -4, 0.192)])
    def test_match_and_mismatch(self, match, mismatch, published):
        found = joint_of((match, mismatch), None, None, DNA)
        assert np.exp(found.scale * match) / 4 + 3 * np.exp(found.scale * mismatch) / 4 == pytest.approx(1, abs=1e-12)
        assert found.scale == pytest.approx(published, abs=0.006)
        np.testing.assert_allclose(found.joint.sum(axis=1), 0.25, rtol=1e-12)

    @settings(max_examples=50, deadline=None)
    @given(
        k=st.integers(2, 6),
        match=st.floats(-3, 3),
        gap=st.floats(0.01, 5),
        scale=st.floats(0.01, 3),
        seed=st.integers(0, 99),
    )
    def test_match_and_mismatch_are_psd_at_any_scale(self, k, match, gap, scale, seed):
        law = np.random.default_rng(seed).dirichlet(np.ones(k)) * 0.9 + 0.1 / k
        J = joint_of((match, match - gap), scale, law, Alphabet("abcdef"[:k])).joint
        assert np.linalg.eigvalsh(J)[0] > -1e-15
        assert J.sum() == pytest.approx(1)

    @settings(max_examples=50, deadline=None)
    @given(seed=st.integers(0, 10_000), scale=st.floats(0.05, 1))
    def test_implied_background_is_the_marginal_at_any_scale(self, seed, scale):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(5, 5))
        S = np.round(-np.abs(A + A.T) + 8 * np.eye(5), 1)
        law = implied_background(np.exp(scale * S))
        found = joint_of(S, scale, None, Alphabet("abcde"), np.full(5, 0.2)) if law is not None else None
        if found is not None:
            np.testing.assert_allclose(found.joint.sum(axis=1), law, rtol=1e-9)

    def test_background(self):
        law = {"A": 0.1, "C": 0.2, "G": 0.3, "T": 0.4}
        found = joint_of((2, -3), None, law, DNA)
        q = np.array([0.1, 0.2, 0.3, 0.4])
        S = np.full((4, 4), -3.0) + 5 * np.eye(4)
        assert (np.outer(q, q) * np.exp(found.scale * S)).sum() == pytest.approx(1, abs=1e-12)  # lambda over it
        np.testing.assert_allclose(found.joint, np.outer(q, q) * np.exp(found.scale * S), rtol=1e-12)

    @pytest.mark.parametrize("unit", [1e-7, 1.0, 1e7])
    def test_scales_have_all_digits_in_any_unit(self, unit):
        assert joint_of((2 * unit, -3 * unit), None, None, DNA).scale * unit == pytest.approx(0.63373144, abs=1e-8)
        S = np.array([[3.0, -4.0, -5.0], [-4.0, 2.0, -4.0], [-5.0, -4.0, 4.0]])
        assert implied_scale(S * unit) * unit == pytest.approx(implied_scale(S), rel=1e-12)

    def test_closed_form_of_match_and_mismatch(self):
        S = np.full((4, 4), -3.0) + 5 * np.eye(4)
        assert implied_scale(S) == pytest.approx(_searched(S.tobytes(), 4), rel=1e-12)
        assert implied_scale(S + 10) is None  # positive on average

    def test_frames_are_read_by_label(self):
        pd = pytest.importorskip("pandas")
        S = np.array([[2.0, -1.0, -2.0], [-1.0, 3.0, -1.5], [-2.0, -1.5, 4.0]])
        law, order = np.array([0.2, 0.3, 0.5]), [2, 0, 1]
        letters = Alphabet("abc")
        frame = pd.DataFrame(S, index=list("abc"), columns=list("abc")).iloc[order]
        series = pd.Series(law, index=list("abc")).iloc[order]
        truth = joint_of(S, 0.4, law, letters).joint
        np.testing.assert_array_equal(joint_of(frame, 0.4, series, letters).joint, truth)
        wide = frame.reindex(index=[*"xabc"], columns=[*"xabc"], fill_value=0.0)  # others are left out, as B and Z are
        np.testing.assert_array_equal(joint_of(wide, 0.4, series, letters).joint, truth)
        assert natural_alphabet(pd.DataFrame(np.eye(4), index=list("TGCA"), columns=list("TGCA"))) == DNA
        with pytest.raises(ValueError, match=r"substitution has no score of 'a'"):
            joint_of(pd.DataFrame(S), 0.4, None, letters)
        with pytest.raises(ValueError, match=r"background must have a probability for every letter; 'c' has none"):
            joint_of(S, 0.4, pd.Series({"a": 0.2, "b": 0.3}), letters)

    def test_a_scale_that_loses_letters_warns(self):
        pairs = {("a", "a"): 10, ("b", "b"): 0, ("a", "b"): 4.9}
        with pytest.warns(UserWarning, match="at matrix_scale = 3 .* 'b' a probability of only 2e-07"):
            joint_of(pairs, 3.0, [0.5, 0.5], Alphabet("ab"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            joint_of(pairs, 0.3, [0.5, 0.5], Alphabet("ab"))
            joint_of((2, -3), 1.0, [1 - 1e-9, 1e-9], Alphabet("ab"))  # which was asked for

    def test_large_scores_do_not_overflow(self):
        J = joint_of((2000, -3000), 1.0, None, DNA).joint
        np.testing.assert_allclose(J, np.eye(4) / 4)


class TestRefused:
    def test_no_scale_helps(self, matrices):
        with pytest.raises(
            ValueError,
            match=r"JONES at matrix_scale = .*smallest eigenvalue is -.*No scale helps, because 'A' with 'T'",
        ):
            joint_of("JONES", None, None, PROTEIN)

    def test_larger_scale_helps(self, matrices):
        with pytest.raises(ValueError, match="not positive semi-definite") as refused:
            joint_of("PAM250", 0.2, None, PROTEIN)
        scale = float(str(refused.value).split("matrix_scale=")[1].split(",")[0])
        assert 0.2 < scale < 0.24
        assert joint_of("PAM250", scale, None, PROTEIN).scale == scale

    def test_a_rare_letter_does_not_hide(self):
        # J has the eigenvalue -1e-13 only, and the kernel of 'a' and 'b' normalised is 1.35.
        with pytest.raises(ValueError, match=r"its smallest eigenvalue is -0\.35"):
            joint_of({("a", "a"): 10, ("b", "b"): 0, ("a", "b"): 5.1}, 3.0, [0.5, 0.5], Alphabet("ab"))

    def test_no_natural_scale(self, matrices):
        with pytest.raises(ValueError, match=r"FENG has no natural scale.*Use matrix_scale="):
            joint_of("FENG", None, None, PROTEIN)

    def test_unknown_name(self, matrices):
        with pytest.raises(ValueError, match=r"Biopython knows .*BLOSUM62.* got 'BLOSUM63'"):
            joint_of("BLOSUM63", None, None, PROTEIN)

    def test_without_biopython(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "Bio", None)
        monkeypatch.setitem(sys.modules, "Bio.Align", None)
        with pytest.raises(ImportError, match=r"pip install biopython, use 'BLOSUM62', which needs no package"):
            joint_of("PAM250", None, None, PROTEIN)

    def test_blosum62_needs_no_package(self, monkeypatch):
        with_package = joint_of("blosum62", None, None, PROTEIN)
        monkeypatch.setitem(sys.modules, "Bio", None)
        monkeypatch.setitem(sys.modules, "Bio.Align", None)
        found = joint_of("BLOSUM62", None, None, PROTEIN)
        assert found.scale == with_package.scale == HALF_BIT
        np.testing.assert_array_equal(found.joint, with_package.joint)
        assert joint_of("BLOSUM62", None, None, Alphabet("ACDEFGHIKLMNPQRSTVWYX"), None).joint.shape == (21, 21)

    def test_blosum62_is_that_of_biopython(self, matrices):
        """So is the joint distribution, bit for bit."""
        theirs, (letters, scores) = matrices.load("BLOSUM62"), blosum62()
        assert "".join(letters) == theirs.alphabet
        np.testing.assert_array_equal(scores, np.asarray(theirs))
        ours = joint_of("BLOSUM62", None, None, PROTEIN)
        np.testing.assert_array_equal(joint_of(theirs, None, None, PROTEIN).joint, ours.joint)
        assert joint_of(theirs, None, None, PROTEIN).scale == ours.scale

    def test_blosum62_are_log_odds(self):
        """Half bits over its own marginals, which are near the frequencies of amino acids (Robinson 1991)."""
        found = joint_of("BLOSUM62", None, None, PROTEIN)
        own = found.joint.sum(axis=1)
        scores = 2 * np.log2(found.joint / np.outer(own, own))
        letters, table = blosum62()
        at = [letters.index(letter) for letter in PROTEIN.symbols]
        np.testing.assert_allclose(scores - scores.mean(), table[np.ix_(at, at)] - table[np.ix_(at, at)].mean())
        assert np.corrcoef(own, [ROBINSON[letter] for letter in PROTEIN.symbols])[0, 1] > 0.9

    def test_proteins_and_nucleotides(self, matrices):
        with pytest.raises(
            ValueError, match=r"BLOSUM62 scores amino acids, and the alphabet is ACGT \(dna\). .*'NUC.4.4'"
        ):
            joint_of("BLOSUM62", None, None, DNA)
        with pytest.raises(ValueError, match=r"NUC.4.4 has no score of 'E'.*'BLOSUM62'"):
            joint_of("NUC.4.4", None, None, PROTEIN)

    @pytest.mark.parametrize(
        ("substitution", "error", "message"),
        [
            ((1, 2), ValueError, r"match above mismatch, .* got \(1, 2\)"),
            (np.eye(3), ValueError, r"letter of ACGT \(dna\).*; got shape \(3, 3\) for 4 letters"),
            (np.triu(np.ones((4, 4))), ValueError, "must be symmetric; .*Use"),
            (
                np.full((4, 4), np.nan),
                ValueError,
                "score of 'A' and 'A' in substitution must be a finite number; got nan",
            ),
            ({("A", "A"): 1}, ValueError, r"no score of 'C'"),
            ({("A", "A"): 1, ("A", "C"): 0, ("C", "A"): 1}, ValueError, "two scores, 0 and 1"),
            ({("A", "C"): 1, ("G", "T"): 1}, ValueError, "score of 'A' and 'A' in .* must be a finite number; got nan"),
            ({("A", "A"): None}, ValueError, "score of 'A' and 'A' must be a number; got None"),
            ([[1, 2], [3]], TypeError, "must be the name"),
            ([["x"] * 4] * 4, ValueError, "substitution must be numbers"),
            (7, TypeError, r"substitution must be the name .*; got 7"),
            ((1, 2, 3), TypeError, "must be the name"),
        ],
    )
    def test_bad_scores(self, substitution, error, message):
        with pytest.raises(error, match=message):
            joint_of(substitution, None, None, DNA)

    @pytest.mark.parametrize(
        ("law", "message"),
        [
            ([0.5, 0.5], r"shape \(2,\)"),
            ([0.5, 0.5, 0, 0], "of 'G' is 0; every letter must have a positive"),
            ([0.5, 0.5, 0.5, 0.5], "got the sum 2"),
            ({"A": 1.0}, "'C' has none"),
        ],
    )
    def test_bad_background(self, law, message):
        with pytest.raises(ValueError, match=f"background .*{message}"):
            joint_of((2, -3), None, law, DNA)
