"""Posterior matches against enumeration of all alignments, the best alignment against all, and how they print."""

from fractions import Fraction
from itertools import combinations, pairwise
from math import log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.data import Alphabet, Sequences
from mercer.models._pairs.matches import Matches, read_pair
from mercer.models.pairhmm_affine import AffinePairHMMs


def model(seed=0, k=2, alphabet=None, **given):
    """Return random parameters; a joint that is a mixture over hidden letters."""
    rng = np.random.default_rng(seed)
    law, emit = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), size=k)
    o, e, c = rng.uniform(0.05, 0.6, size=3)
    fields = {"open": o, "extend": e, "continuation": c} | given
    return AffinePairHMMs(
        joint=(emit.T @ np.diag(law) @ emit)[None],
        insertion=rng.dirichlet(np.ones(k))[None],
        alphabet=alphabet or "abcdefgh"[:k],
        **{name: np.array([value]) for name, value in fields.items()},
    )


def enumerated(p, s, t, number=float):
    """Sum over all sets of matched positions: kappa, and of every match its part of it."""
    J = [[number(float(x)) for x in row] for row in np.asarray(p.joint[0])]
    q = [number(float(x)) for x in np.asarray(p.insertion[0])]
    o, e, c = (number(float(x[0])) for x in (p.open, p.extend, p.continuation))
    total, W = number(0), np.full((len(s), len(t)), number(0), dtype=object)

    def inserted(x, matched):
        weight, last = number(1), -1
        for i in (*matched, len(x)):
            gap = i - last - 1
            weight *= (1 - o) if gap == 0 else o * (1 - e) * e ** (gap - 1)
            last = i
        return weight * prod(q[x[i]] for i in range(len(x)) if i not in matched)

    for n in range(min(len(s), len(t)) + 1):
        for a in combinations(range(len(s)), n):
            for b in combinations(range(len(t)), n):
                w = (1 - c) * c**n * inserted(s, a) * inserted(t, b)
                w *= prod(J[s[i]][t[j]] for i, j in zip(a, b, strict=True))
                total += w
                for i, j in zip(a, b, strict=True):
                    W[i, j] += w
    return total, W


def pair_posterior(p, s, t):
    found = p.matches(*(Sequences.from_codes([x], p.alphabet) for x in (s, t)))
    return found.probability, found.log_kernel


strings = st.lists(st.integers(0, 1), max_size=5)


class TestPosterior:
    @pytest.mark.slow
    @settings(max_examples=60, deadline=None)
    @given(s=strings, t=strings, seed=st.integers(0, 1000))
    def test_against_all_alignments(self, s, t, seed):
        p = model(seed)
        total, W = enumerated(p, s, t)
        found, log_kernel = pair_posterior(p, np.array(s, dtype=np.int32), np.array(t, dtype=np.int32))
        assert log_kernel == pytest.approx(np.log(total), abs=1e-12)
        np.testing.assert_allclose(found, (W / total).astype(float), atol=1e-13)
        assert (found.sum(axis=0) <= 1 + 1e-12).all()
        assert (found.sum(axis=1) <= 1 + 1e-12).all()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "harsh",
        [
            {"open": 1e-12},
            {"extend": 1e-9},
            {"extend": 0.0},
            {"continuation": 1e-8},
            {"open": 1e-200, "extend": 1e-200},
        ],
    )
    def test_harsh_parameters(self, harsh):
        p = model(3, **harsh)
        rng = np.random.default_rng(0)
        for n, m in [(4, 4), (1, 5), (5, 2), (0, 3)]:
            s, t = rng.integers(0, 2, n).astype(np.int32), rng.integers(0, 2, m).astype(np.int32)
            total, W = enumerated(p, s, t, Fraction)  # exactly, since floats end at 1e-308
            if total == 0:
                continue
            found, log_kernel = pair_posterior(p, s, t)
            assert log_kernel == pytest.approx(log(total.numerator) - log(total.denominator), rel=1e-13)
            np.testing.assert_allclose(found, (W / total).astype(float), rtol=1e-9, atol=1e-150)

    @pytest.mark.slow
    def test_the_smallest_probabilities(self):
        fields = {"joint": [[[0.4, 0.1], [0.1, 0.4]]], "insertion": [[0.5, 0.5]], "alphabet": "ab"}
        p = AffinePairHMMs(**fields, open=[1e-250], extend=[0.4], continuation=[0.8])
        assert p.matches("ab" * 80, "ab" * 80 + "a").expected > 159.99
        p = AffinePairHMMs(**fields, open=[0.0], extend=[0.4], continuation=[1e-250])
        found = p.matches("ab" * 80, "ab" * 80)
        assert found.expected == pytest.approx(160)
        assert found.log_kernel == pytest.approx(160 * np.log(1e-250 * 0.4), rel=1e-12)

    @pytest.mark.slow
    def test_exponents_beyond_16_bits(self):
        p = model(0, open=1e-300, extend=1e-300)
        s, t = "ab" * 9000, "ab"
        W, log_kernel = pair_posterior(p, *read_pair(p.alphabet, s, t))
        kernel = float(p.shared_history([s]).pair(p.shared_history([t]))[0, 0])
        assert log_kernel == pytest.approx(kernel, rel=1e-12)
        assert kernel < -512 * np.log(2) * 2**14  # a gap of thousands of letters
        assert W.sum() == pytest.approx(2, abs=1e-6)

    @pytest.mark.slow
    def test_swapped(self):
        p, rng = model(1, k=4), np.random.default_rng(1)
        s, t = rng.integers(0, 4, 40).astype(np.int32), rng.integers(0, 4, 55).astype(np.int32)
        (W, a), (V, b) = pair_posterior(p, s, t), pair_posterior(p, t, s)
        assert a == pytest.approx(b, rel=1e-13)
        np.testing.assert_allclose(W, V.T, atol=1e-12)

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "m"), [(1200, 1200), (10, 3000), (3000, 1)])
    def test_long_sequences_agree_with_the_kernel(self, n, m):
        p, rng = model(2, k=4, open=0.01, extend=0.3, continuation=0.99), np.random.default_rng(n)
        s, t = rng.integers(0, 4, n).astype(np.int32), rng.integers(0, 4, m).astype(np.int32)
        W, log_kernel = pair_posterior(p, s, t)
        a, b = (p.shared_history(Sequences.from_codes([x], p.alphabet)) for x in (s, t))
        assert log_kernel == pytest.approx(float(a.pair(b)[0, 0]), rel=1e-11)
        assert np.isfinite(W).all()
        assert 0 < W.sum() <= min(n, m)
        assert W.sum(axis=1).max() <= 1 + 1e-9

    @pytest.mark.slow
    def test_a_code_is_the_sum_of_its_letters(self):
        p = model(5, k=4, alphabet=Alphabet.of("dna"))
        mixed = p.matches("ARG", "NCG")
        total, W = 0.0, np.zeros((3, 3))
        for r in "AG":
            for n in "ACGT":
                part = p.matches(f"A{r}G", f"{n}CG")
                total += np.exp(part.log_kernel)
                W += np.exp(part.log_kernel) * part.probability
        assert mixed.log_kernel == pytest.approx(np.log(total), rel=1e-13)
        np.testing.assert_allclose(mixed.probability, W / total, atol=1e-13)


class TestMatches:
    @settings(max_examples=60, deadline=None)
    @given(seed=st.integers(0, 10_000), n=st.integers(0, 4), m=st.integers(0, 5), least=st.sampled_from([0.0, 0.3]))
    def test_pairs_are_the_best_alignment(self, seed, n, m, least):
        W = np.random.default_rng(seed).uniform(size=(n, m))
        pairs = Matches("a" * n, "b" * m, W, 0.0).pairs(least)
        best = max(
            sum(W[i, j] for i, j in zip(a, b, strict=True) if W[i, j] >= least)
            for size in range(min(n, m) + 1)
            for a in combinations(range(n), size)
            for b in combinations(range(m), size)
        )
        assert sum(p for _, _, p in pairs) == pytest.approx(best)
        assert all(W[i, j] == p >= least for i, j, p in pairs)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))

    def test_prints_an_alignment(self):
        W = np.zeros((5, 4))
        W[0, 0], W[1, 1], W[4, 2] = 0.95, 0.6, 0.2
        shown = Matches("ACGTT", "ACTG", W, -3.0)
        assert str(shown) == "ACGTT-\n|:  .\nAC--TG"
        assert repr(shown) == "Matches(5 x 4 symbols, expected=1.75, log_kernel=-3)"
        assert shown.expected == pytest.approx(1.75)

    def test_every_symbol_is_printed_once(self):
        p = model(7, k=4, alphabet=Alphabet.of("dna"), open=0.1, continuation=0.95)
        rng = np.random.default_rng(0)
        s, t = ("".join(rng.choice(list("ACGT"), size=size)) for size in (130, 155))
        blocks = str(p.matches(s, t)).split("\n\n")
        assert len(blocks) >= 3
        lines = [block.split("\n") for block in blocks]
        assert all(len(three) == 3 and max(map(len, three)) <= 60 for three in lines)
        assert "".join(three[0] for three in lines).replace("-", "") == s
        assert "".join(three[2] for three in lines).replace("-", "") == t

    def test_longer_symbols(self):
        W = np.array([[0.0, 1.0]])
        assert str(Matches(["up"], ["down", "up"], W, 0.0)) == "-    up\n     |\ndown up"

    def test_nothing(self):
        assert str(Matches("", "", np.empty((0, 0)), 0.0)) == "\n\n"
        p = model(0)
        empty = p.matches("", "ab")
        assert empty.pairs() == []
        assert empty.expected == 0
        assert str(empty) == "--\n\nab"

    def test_what_is_not_read_has_a_cure(self):
        p = model(7, k=4, alphabet=Alphabet.of("dna"))
        with pytest.raises(
            ValueError,
            match=r"the second sequence has the symbol '-' .* mc.Sequences\(X, alphabet=..., unknown='missing'\)",
        ):
            p.matches("ACGT", "AC-GT")
        read = Sequences(["AC-GT"], alphabet="dna", unknown="missing")
        assert p.matches("ACGT", read).second == "ACNGT"
        with pytest.raises(
            ValueError, match=r"the first sequence has the symbol 'ACGT' .*; pass the strings themselves"
        ):
            p.matches(["ACGT"], "ACGT")

    def test_immutable(self):
        shown = model(0).matches("ab", "b")
        with pytest.raises(ValueError, match="read-only"):
            shown.probability[0, 0] = 1
        with pytest.raises(AttributeError):
            shown.first = "b"

    def test_only_equal_to_itself(self):
        one, other = (model(0).matches("ab", "b") for _ in range(2))
        assert one == one
        assert one != other
        assert len({one, other}) == 2

    def test_one_sequence_in_any_form(self):
        p = model(0)
        X = Sequences(["ab", "ba"], alphabet="ab")
        for form in ("ab", X[0:1], ["a", "b"]):
            assert p.matches(form, "ba").first == "ab"
        with pytest.raises(ValueError, match=r"first must be one sequence, .* got 2"):
            read_pair(p.alphabet, X, "a")

    def test_refused(self):
        with pytest.raises(ValueError, match=r"shape \(2, 1\); got \(1, 1\)"):
            Matches("ab", "a", np.ones((1, 1)), 0.0)
        with pytest.raises(ValueError, match=r"probability must be from 0 to 1; got nan at \[0, 0\]"):
            Matches("a", "a", [[np.nan]], 0.0)
        with pytest.raises(ValueError, match=r"probability must be .*; got 1.5 at \[0, 1\]"):
            Matches("a", "ab", [[0.0, 1.5]], 0.0)
        with pytest.raises(ValueError, match=r"log_kernel must be .* got nan"):
            Matches("a", "a", [[1.0]], np.nan)
        with pytest.raises(ValueError, match=r"least must be .* got 'most'"):
            model(0).matches("a", "a").pairs("most")
        with pytest.raises(ValueError, match=r"least must be .* got 2"):
            model(0).matches("a", "a").pairs(2)
        with pytest.raises(ValueError, match="two sequences have joint probability zero"):
            model(0, open=0.0).matches("ab", "a")
        two = AffinePairHMMs.concat([model(0), model(1)])
        with pytest.raises(ValueError, match=r"shape \(1,\); got \(2,\)"):
            two.matches("a", "b")
        with pytest.raises(ValueError, match="'z'"):
            model(0).matches("az", "b")
