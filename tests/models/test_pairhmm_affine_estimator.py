"""Affine pair HMMs: probabilities and scores of single sequences, draws, EM on pairs, and the estimator."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer.data import Alphabet, Sequences
from mercer.models import pairhmm_affine
from mercer.models._pairs import affine as affine_parts
from mercer.models._pairs.affine import AffineParameters, log_probabilities, score_names, scores
from mercer.models._pairs.drawn import drawn_pairs
from mercer.models.pairhmm_affine import AffinePairHMMs
from mercer.models.pairhmm_affine_estimator import AffinePairHMM

HALF_BIT = np.log(2) / 2
START = AffinePairHMMs([np.eye(4) / 4], [np.ones(4) / 4], [0.1], [0.1], [0.9], alphabet="dna")


def model(seed=0, k=2, alphabet=None, **given):
    rng = np.random.default_rng(seed)
    law, emit = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), size=k)
    o, e, c = rng.uniform(0.1, 0.6, size=3)
    fields = {"open": o, "extend": e, "continuation": c} | given
    return AffinePairHMMs(
        joint=(emit.T @ np.diag(law) @ emit)[None],
        insertion=rng.dirichlet(np.ones(k))[None],
        alphabet=alphabet or "abcdefgh"[:k],
        **{name: np.array([value]) for name, value in fields.items()},
    )


def laws_of(p):
    """Return c, o, e and the laws of letters as one vector of parameters."""
    events = [float(x[0]) for x in (p.continuation, p.open, p.extend)]
    return np.concatenate([events, np.asarray(p.joint[0]).sum(axis=1), np.asarray(p.insertion[0])])


def log_prob_of(theta, codes):
    """Log probability of one string: a plain recursion, in the parameters as free weights."""
    k = (len(theta) - 3) // 2
    (c, o, e), p, q = theta[:3], theta[3 : 3 + k], theta[3 + k :]
    at, inside = 1.0, 0.0
    for a in codes:
        at, inside = c * p[a] * ((1 - o) * at + (1 - e) * inside), q[a] * (o * at + e * inside)
    return np.log((1 - c) * ((1 - o) * at + (1 - e) * inside))


class TestSingleSequences:
    @pytest.mark.parametrize("seed", range(3))
    def test_rows_of_the_kernel_sum_to_it(self, seed):
        p = model(seed, open=0.1, extend=0.2, continuation=0.3)
        partners = ["".join(s) for n in range(11) for s in product("ab", repeat=n)]
        X = ["", "a", "ba", "aab"]
        K = p.shared_history(X).pair(p.shared_history(partners))
        np.testing.assert_allclose(np.exp(K).sum(axis=1), np.exp(p.log_prob(X))[0], rtol=2e-3)
        assert (np.exp(K).sum(axis=1) < np.exp(p.log_prob(X))[0]).all()  # longer partners are missing

    def test_against_a_plain_recursion(self):
        p, rng = model(1, k=4), np.random.default_rng(0)
        codes = [rng.integers(0, 4, size=n) for n in (0, 1, 2, 17, 60)]
        found = log_probabilities(p, Sequences.from_codes(codes, p.alphabet))
        np.testing.assert_allclose(found[0], [log_prob_of(laws_of(p), x) for x in codes], rtol=1e-12)

    def test_total_mass(self):
        # A sequence of missing symbols has the probability of its length.
        p = model(2, k=3)
        X = Sequences.from_codes([np.full(n, p.alphabet.missing) for n in range(300)], p.alphabet)
        assert np.exp(log_probabilities(p, X)).sum() == pytest.approx(1, abs=1e-12)

    def test_a_code_is_the_sum_of_its_letters(self):
        p = model(3, k=4, alphabet=Alphabet.of("dna"))
        several = np.exp(p.log_prob([f"A{r}{n}" for r in "AG" for n in "ACGT"])).sum()
        assert np.exp(p.log_prob(["ARN"]))[0, 0] == pytest.approx(several, rel=1e-13)

    def test_long_and_impossible(self):
        p = model(4, open=0.01, continuation=0.99)
        assert np.isfinite(p.log_prob(["ab" * 50_000])).all()
        never = AffinePairHMMs([[[1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]], [0.1], [0.1], [0.5], alphabet="ab")
        assert p.log_prob(["b"])[0, 0] > -np.inf
        assert never.log_prob(["aab", "b", "a"])[0, :2].tolist() == [-np.inf, -np.inf]


class TestScores:
    @pytest.mark.parametrize("parametrization", ["logit", "weight"])
    def test_finite_differences(self, parametrization):
        p, rng = model(5, k=3), np.random.default_rng(1)
        theta, h = laws_of(p), 1e-6
        codes = [rng.integers(0, 3, size=n) for n in (0, 1, 5, 12)]

        def moved(j, by):
            """Move one parameter: its logit, or its weight; what it competes with is normalised."""
            new = theta.copy()
            for block in (slice(3, 6), slice(6, 9)):
                if j >= 3 and block.start <= j < block.stop:
                    weights = new[block]
                    weights[j - block.start] = (
                        weights[j - block.start] * np.exp(by)
                        if parametrization == "logit"
                        else weights[j - block.start] + by
                    )
                    new[block] = weights / weights.sum()
            if j < 3:  # of the two weights p and 1 - p, the first one moves
                new[j] = expit(logit(theta[j]) + by) if parametrization == "logit" else (theta[j] + by) / (1 + by)
            return new

        truth = [
            [(log_prob_of(moved(j, h), x) - log_prob_of(moved(j, -h), x)) / (2 * h) for j in range(9)] for x in codes
        ]
        found = scores(p, Sequences.from_codes(codes, p.alphabet), parametrization)[0]
        np.testing.assert_allclose(found, truth, atol=2e-8, rtol=2e-8)

    @pytest.mark.parametrize("parametrization", ["logit", "weight"])
    def test_zero_mean_under_the_model(self, parametrization):
        # Missing symbols stand for all sequences of a length: their score is the mean of those.
        p = model(6, k=3)
        X = Sequences.from_codes([np.full(n, p.alphabet.missing) for n in range(400)], p.alphabet)
        mean = np.exp(log_probabilities(p, X)) @ scores(p, X, parametrization)[0]
        np.testing.assert_allclose(mean, 0, atol=1e-10)

    def test_a_code_is_the_mean_of_its_letters(self):
        p = model(7, k=4, alphabet=Alphabet.of("dna"))
        X = [f"A{r}{n}C" for r in "AG" for n in "ACGT"]
        weights = np.exp(p.log_prob(X)[0])
        np.testing.assert_allclose(
            p.sequence_scores(["ARNC"])[0, 0], weights @ p.sequence_scores(X)[0] / weights.sum(), atol=1e-12
        )

    def test_zero_parameters_in_weights(self):
        p = model(8, open=0.0)
        found = p.sequence_scores(["ab"], "weight")
        nearly = model(8, open=1e-9).sequence_scores(["ab"], "weight")
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, nearly, rtol=1e-6, atol=1e-6)

    def test_names(self):
        p = model(0, k=2)
        assert score_names(p) == [
            "continuation", "open", "extend", "match[a]", "match[b]", "insertion[a]", "insertion[b]",
        ]  # fmt: skip
        assert len(score_names(p)) == p.sequence_scores(["ab"]).shape[-1]

    def test_refused(self):
        p = AffinePairHMMs([[[1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]], [0.1], [0.1], [0.5], alphabet="ab")
        X = Sequences(["aa", "ab"], alphabet="ab", ids=["x", "y"])
        with pytest.raises(ValueError, match=r"y.* has probability zero under the model, so it has no score"):
            p.sequence_scores(X)
        with pytest.raises(ValueError, match="parametrization"):
            p.sequence_scores(["a"], "log")


class TestDraws:
    def test_frequencies(self):
        p, size = model(9), 40_000
        drawn = p.sample(size, 0)[0]
        assert len(drawn) == size
        X = ["".join(s) for n in range(4) for s in product("ab", repeat=n)]
        found = np.array([sum(s == x for s in drawn) for x in X]) / size
        truth = np.exp(p.log_prob(X)[0])
        assert (np.abs(found - truth) < 4.5 * np.sqrt(truth * (1 - truth) / size)).all()

    def test_pairs(self):
        p, size = model(10), 40_000
        first, second = p.sample_pairs(size, 1)[0]
        X = ["", "a", "b", "ab", "aa"]
        K = np.exp(p.shared_history(X).pair(p.shared_history(X)))
        drawn = list(zip(first, second, strict=True))
        found = np.array([[drawn.count((s, t)) for t in X] for s in X]) / size
        assert (np.abs(found - K) < 4.5 * np.sqrt(K * (1 - K) / size)).all()

    def test_seeds_and_sizes(self):
        both = AffinePairHMMs.concat([model(0), model(1, open=0.0)])
        one, two = both.sample(5, 3), both.sample(5, 3)
        assert [list(x) for x in one] == [list(x) for x in two]
        assert [len(x) for x in both.sample(0)] == [0, 0]
        with pytest.raises(ValueError, match=r"size must be .* got -1"):
            both.sample(-1)

    def test_many_are_drawn_in_parts(self, monkeypatch):
        monkeypatch.setattr(pairhmm_affine, "LETTERS_AT_ONCE", 50.0)
        p = model(9)
        drawn = p.sample(5000, 0)[0]
        inserted = p.open[0] / (1 - p.extend[0])
        matches = p.continuation[0] / (1 - p.continuation[0])
        error = drawn.lengths.std() / np.sqrt(5000)
        assert abs(drawn.lengths.mean() - (matches + (matches + 1) * inserted)) < 4.5 * error
        assert (drawn.values.dtype, len(drawn)) == (np.dtype(np.int32), 5000)

    @pytest.mark.parametrize("endless", [{"continuation": 1 - 1e-15}, {"extend": 1 - 1e-15}])
    def test_endless(self, endless):
        p = model(0, **endless)
        with pytest.raises(ValueError, match=r"letters on average .*use a smaller continuation or extend"):
            p.sample(3)


def family(n, seed=0, **given):
    """Draw pairs; each is a class of its own."""
    fields = {"open": 0.05, "extend": 0.6, "continuation": 0.97} | given
    p = AffinePairHMM((2, -3), alphabet="dna", open_probability=0.1, extend_probability=0.1).fit(["ACGT"]).model_
    p = AffinePairHMMs(p.joint, p.insertion, **{name: [value] for name, value in fields.items()}, alphabet="dna")
    first, second = p.sample_pairs(n, seed)[0]
    return Sequences.concat([first, second]), np.tile(np.arange(n), 2), p


def total(p, X, y):
    """Sum of the log kernels of all pairs of a class."""
    K = p.shared_history(X).pair(p.shared_history(X))
    return float(K[np.triu(y[:, None] == y, 1)].sum())


class TestEM:
    @pytest.mark.slow
    def test_recovers_the_gaps(self):
        X, y, truth = family(600)
        start = AffinePairHMM((2, -3), alphabet="dna", gap_open=9, gap_extend=4, n_iter=60, tol=1e-7, learn="gaps",
                              n_pairs=600, prior_strength=0.0)  # fmt: skip
        found = start.fit(X, y).model_
        # Matches and the ends after them; places where a run may begin; inserted letters.
        chances = {"continuation": len(X.values) / 2, "open": len(X.values), "extend": len(X.values) * 0.05 / 0.4}
        for name, count in chances.items():
            value, right = float(getattr(found, name)[0]), float(getattr(truth, name)[0])
            hidden = 1.0 if name == "continuation" else 2.0  # gaps are not seen, which costs some certainty
            assert abs(value - right) < 4 * hidden * np.sqrt(right * (1 - right) / count), name
        np.testing.assert_array_equal(found.insertion, AffinePairHMM((2, -3), alphabet="dna").fit(X).model_.insertion)

    def test_objective_is_the_sum_of_log_kernels_and_never_falls(self):
        X, y, _ = family(40, seed=1)
        start = AffinePairHMM((1, -1), alphabet="dna", n_iter=15, tol=0.0, prior_strength=0.0)
        fitted = start.fit(X, y)
        assert fitted.objective_.shape == (15,)
        assert (fitted.n_iter_, fitted.converged_) == (15, False)
        assert (np.diff(fitted.objective_) > -1e-9 * np.abs(fitted.objective_[0])).all()
        assert fitted.objective_[-1] > fitted.objective_[0] + 10
        before = clone(start).set_params(n_iter=0).fit(X).model_
        assert fitted.objective_[0] == pytest.approx(total(before, X, y), rel=1e-12)
        two = clone(start).set_params(n_iter=1).fit(X, y).model_
        assert fitted.objective_[1] == pytest.approx(total(two, X, y), rel=1e-12)

    def test_a_prior_keeps_the_objective_rising_and_nothing_impossible(self):
        X = ["ACAC", "ACAC", "ACAAC"]
        fitted = AffinePairHMM((2, -3), alphabet="dna", n_iter=30, tol=0.0, prior_strength=2.0).fit(X)
        assert (np.diff(fitted.objective_) > -1e-10).all()
        p = fitted.model_
        assert (np.asarray(p.joint) > 0).all()
        assert (np.asarray(p.insertion) > 0).all()
        assert np.isfinite(p.log_prob(["GGTT"])).all()

    def test_stays_positive_semi_definite(self):
        # Every a is matched with a b: the expected pairs of letters have a negative eigenvalue.
        X, y = Sequences(["aabbabba", "bbaabaab"], alphabet="ab"), [0, 0]
        init = AffinePairHMMs([[[0.3, 0.2], [0.2, 0.3]]], [[0.5, 0.5]], [1e-4], [0.1], [8 / 9], alphabet="ab")
        fitted = AffinePairHMM(init=init, n_iter=12, tol=0.0, prior_strength=0.0).fit(X, y)
        assert (np.diff(fitted.objective_) > -1e-12).all()
        assert fitted.objective_[-1] > fitted.objective_[0]
        J = np.asarray(fitted.model_.joint[0])
        assert np.linalg.eigvalsh(J)[0] >= -1e-14
        assert J[0, 1] > 0.24  # at the border: independent letters

    def test_step_toward_the_expected_pairs(self):
        rng = np.random.default_rng(0)
        for _ in range(20):
            emit = rng.dirichlet(np.ones(4), size=4)
            old = emit.T @ np.diag(rng.dirichlet(np.ones(4))) @ emit
            counts = rng.uniform(size=(4, 4))
            counts = (counts + counts.T) / (2 * counts.sum())
            new = affine_parts._toward(old, counts)
            assert np.linalg.eigvalsh(new)[0] > -1e-14
            assert (counts * np.log(new)).sum() >= (counts * np.log(old)).sum()
            assert new.sum() == pytest.approx(1)
            step = np.unique(np.round((new - old) / (counts - old), 6))
            assert len(step) == 1  # on the line
        assert affine_parts._toward(old, old) is old

    def test_counts_are_gradients(self):
        # E[n] = parameter times d log kappa / d parameter, the parameters taken as free weights.
        p, X = model(11, k=3), Sequences(["abca", "bac", "cab"], alphabet="abc")
        affine, pairs = AffineParameters.of(p), (np.array([0, 1]), np.array([1, 2]))
        _, found = affine_parts._expect(affine, X, pairs)

        def log_kappa(joint, insertion):
            changed = affine._replace(joint=joint, insertion=insertion)
            return affine_parts._expect(changed, X, pairs)[0]

        h = 1e-6
        for a in range(3):
            for b in range(3):
                up, down = affine.joint.copy(), affine.joint.copy()
                up[a, b] *= 1 + h
                down[a, b] *= 1 - h
                slope = (log_kappa(up, affine.insertion) - log_kappa(down, affine.insertion)) / (2 * h)
                assert found.matched[a, b] == pytest.approx(slope, abs=1e-8)
            up, down = affine.insertion.copy(), affine.insertion.copy()
            up[a] *= 1 + h
            down[a] *= 1 - h
            slope = (log_kappa(affine.joint, up) - log_kappa(affine.joint, down)) / (2 * h)
            assert found.letters[a] == pytest.approx(slope, abs=1e-8)
        symbols = sum(len(X[i]) + len(X[j]) for i, j in zip(*pairs, strict=True))
        assert 2 * found.matched.sum() + found.letters.sum() == pytest.approx(symbols)
        assert found.yes[1:].sum() == pytest.approx(found.letters.sum())

    def test_ambiguity_codes_count_for_their_letters(self):
        X = Sequences(["ARNA", "AGCA"], alphabet="dna")
        p = model(12, k=4, alphabet=Alphabet.of("dna"))
        pair = (np.array([0]), np.array([1]))
        _, found = affine_parts._expect(AffineParameters.of(p), X, pair)
        weight, matched = 0.0, 0.0
        for r, n in product("AG", "ACGT"):
            reading = Sequences([f"A{r}{n}A", "AGCA"], alphabet="dna")
            log_kernel, part = affine_parts._expect(AffineParameters.of(p), reading, pair)
            weight += np.exp(log_kernel)
            matched = matched + np.exp(log_kernel) * part.matched
        np.testing.assert_allclose(found.matched, matched / weight, atol=1e-13)

    def test_the_same_bits_for_any_order_and_threads(self):
        X, y, _ = family(30, seed=2)
        est = AffinePairHMM((2, -3), n_iter=3, tol=0.0, n_pairs=40)
        one = est.fit(X, y % 3).model_
        order = np.random.default_rng(0).permutation(len(X))
        mixed = clone(est).fit(X[order], (y % 3)[order]).model_
        np.testing.assert_array_equal(one.joint, mixed.joint)
        with mc.config(n_jobs=2):
            two = clone(est).fit(X, y % 3).model_
        np.testing.assert_array_equal(one.joint, two.joint)
        other = clone(est).set_params(random_state=1).fit(X, y % 3).model_
        assert not np.array_equal(one.joint, other.joint)

    def test_drawn_pairs(self):
        X = Sequences([f"{'A' * n}C" for n in range(9)], alphabet="dna")
        y = np.array([0, 1, 0, 1, 0, 2, 0, 1, 0])
        first, second = drawn_pairs(X, y, 1000, 0, "")
        assert sorted(map(sorted, zip(first.tolist(), second.tolist(), strict=True))) == sorted(
            [i, j] for i in range(9) for j in range(i + 1, 9) if y[i] == y[j]
        )
        some = list(zip(*drawn_pairs(X, y, 7, 0, ""), strict=True))
        assert len({frozenset(pair) for pair in some}) == 7
        assert all(y[i] == y[j] and i != j for i, j in some)
        assert len(drawn_pairs(X, None, 1000, 0, "")[0]) == 36
        assert len(drawn_pairs(X, y + 0.5, 1000, 0, "")[0]) == 36  # numbers are no classes
        for same in (y.astype(object), [f"c{label}" for label in y], np.array([f"c{label}" for label in y], object)):
            np.testing.assert_array_equal(drawn_pairs(X, same, 1000, 0, ""), (first, second))

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            ([0, None], r"sequence 1 has no class: y\[1\] is None.* omit y"),
            ([np.nan, 1.0], r"sequence 0 has no class: y\[0\] is nan"),
            (np.array([1, "a"], dtype=object), "y mixes labels of different types"),
        ],
    )
    def test_classes_that_are_none(self, y, message):
        with pytest.raises(ValueError, match=message):
            AffinePairHMM((2, -3), alphabet="dna", n_iter=2).fit(["ACG", "AC"], y)

    def test_refused_and_warned(self):
        est = AffinePairHMM((2, -3), alphabet="dna", n_iter=2)
        with pytest.raises(ValueError, match=r"no class has two. Pass more sequences"):
            est.fit(["ACG", "AC"], [0, 1])
        with pytest.raises(ValueError, match="there is only one"):
            est.fit(["ACG"])
        with pytest.raises(ValueError, match=r"got shape \(1,\) for 2 sequences"):
            est.fit(["ACG", "AC"], [0])
        with pytest.raises(ValueError, match=r"got shape \(1,\) for 2 sequences"):
            clone(est).set_params(n_iter=0).fit(["ACG", "AC"], [0])
        X = Sequences(["ACG", "AC"], alphabet="dna", ids=["x", "y"])
        with pytest.raises(ValueError, match=r"x.* have joint probability zero at the start of EM"):
            clone(est).set_params(open_probability=0.0).fit(X)
        with pytest.warns(ConvergenceWarning, match="EM stopped after n_iter = 2 iterations"):
            clone(est).set_params(tol=1e-12).fit(["ACGTTA", "AGGT", "ACTTA"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clone(est).set_params(tol=10.0).fit(["ACGTTA", "AGGT", "ACTTA"])


class TestEstimator:
    def test_costs_are_in_the_units_of_the_matrix(self):
        p = AffinePairHMM((2, -3), gap_open=5, gap_extend=2, alphabet="dna").fit(["ACGT"])
        assert p.matrix_scale_ == pytest.approx(0.63373, abs=1e-5)
        assert p.model_.open[0] == pytest.approx(np.exp(-5 * p.matrix_scale_))
        assert p.model_.extend[0] == pytest.approx(np.exp(-2 * p.matrix_scale_))
        given = AffinePairHMM((2, -3), gap_open=5, matrix_scale=0.5, alphabet="dna").fit(["ACGT"]).model_
        assert given.open[0] == pytest.approx(np.exp(-2.5))

    def test_default_costs_do_not_depend_on_the_unit(self):
        for scores_ in ((2, -3), (20, -30)):
            p = AffinePairHMM(scores_, alphabet="dna").fit(["ACGT"]).model_
            assert p.open[0] == pytest.approx(2**-5.5)
            assert p.extend[0] == pytest.approx(2**-0.5)

    def test_blosum62(self):
        p = AffinePairHMM().fit(["MKVLAA", "MKILX"])
        assert p.matrix_scale_ == HALF_BIT
        assert p.model_.alphabet == Alphabet.of("protein")
        same = AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1).fit(["MKVLAA", "MKILX"]).model_
        np.testing.assert_allclose(p.model_.open, same.open, rtol=1e-14)
        np.testing.assert_array_equal(p.model_.joint, same.joint)
        mixed = AffinePairHMM("BLOSUM62", open_probability=0.02, gap_extend=2).fit(["MKVLAA"]).model_
        assert (mixed.open[0], mixed.extend[0]) == (0.02, pytest.approx(0.5))
        np.testing.assert_allclose(p.model_.insertion[0], np.asarray(p.model_.joint[0]).sum(axis=1))
        with pytest.warns(UserWarning, match="look like DNA, .* reads them as proteins"):
            AffinePairHMM().fit(["ACGTN", "ACCA"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            AffinePairHMM(alphabet="protein").fit(["ACGTN", "ACCA"])
            AffinePairHMM().fit(["ACGTW", "ACCA"])
        assert AffinePairHMM("NUC.4.4").fit(["ACGU"[:3]]).model_.alphabet == Alphabet.of("dna")
        with pytest.raises(ValueError, match="scores amino acids"):
            AffinePairHMM().fit(Sequences(["ACGT"], alphabet="dna"))

    def test_mean_length_of_the_data(self):
        X = ["ACGT" * n for n in (5, 10, 30)]
        p = AffinePairHMM((2, -3), alphabet="dna", gap_open=5, gap_extend=2).fit(X).model_
        lengths = np.exp(
            p.log_prob(Sequences.from_codes([np.full(n, p.alphabet.missing) for n in range(3000)], "dna"))
        )[0]
        inserted = p.open[0] / (1 - p.extend[0])
        assert lengths @ np.arange(3000) == pytest.approx(64 * (1 + inserted) + inserted, rel=1e-6)  # for 60
        part = AffinePairHMM((2, -3), alphabet="dna", gap_open=5, gap_extend=2).fit(X[1:2] + X[2:] + X[:1] * 2).model_
        assert part.digests() == p.digests()  # another mean length, the same model: folds share their pairs
        short = AffinePairHMM((2, -3), alphabet="dna", open_probability=0.9, extend_probability=0.9).fit(["A"]).model_
        assert short.continuation[0] == 0.01
        assert AffinePairHMM((2, -3), alphabet="dna", continuation=0.3).fit(["A"]).model_.continuation[0] == 0.3

    def test_alphabets(self):
        assert AffinePairHMM((2, -3)).fit(["GATTACA"]).model_.alphabet == Alphabet("ACGT")
        X = Sequences(["ACGT"], alphabet="rna", unknown="missing")
        assert AffinePairHMM((2, -3)).fit(X).model_.alphabet == Alphabet.of("rna")
        with pytest.raises(ValueError, match="'Z'"):
            AffinePairHMM((2, -3), alphabet="dna").fit(["ACZ"])
        lost = AffinePairHMM((2, -3), alphabet="dna", unknown="missing").fit(["ACZ"])
        assert np.isfinite(lost.score_samples(["AZ"])).all()

    def test_shared_fit_is_the_fit(self):
        X, y, _ = family(10, seed=3)
        est = AffinePairHMM((2, -3), n_iter=2, tol=0.0)
        shared = clone(est)._fit_shared(X, est.context(X), y)
        np.testing.assert_array_equal(shared.joint, est.fit(X, y).model_.joint)
        assert est.uses_classes

    def test_in_kernels(self):
        X, y, _ = family(8, seed=4)
        est = AffinePairHMM((2, -3), n_iter=2, tol=0.0)
        kernel = mc.Marginalization(est).fit(X, y)
        expected = clone(est).fit(X, y).model_
        np.testing.assert_array_equal(kernel.model_.joint, expected.joint)  # it learns from pairs of one class
        assert not np.array_equal(mc.Marginalization(est).fit(X).model_.joint, expected.joint)
        fisher = mc.Fisher(AffinePairHMM((2, -3)), normalize=False).fit(X)
        G = fisher.model_.sequence_scores(X)[0]
        np.testing.assert_allclose(fisher(X), G @ G.T, atol=1e-9)

    def test_of_a_model(self):
        p = model(3, k=4, alphabet=Alphabet.of("dna"))
        reader = p.estimator()
        assert isinstance(reader, AffinePairHMM)
        again = reader.fit(["ACGT"]).model_
        for name in ("joint", "insertion", "open", "extend", "continuation"):
            np.testing.assert_allclose(getattr(again, name), getattr(p, name), rtol=1e-15)

    def test_of_a_model_in_float32(self):
        law = np.array([0.3, 0.2, 0.4, 0.1])  # of rank one: the smallest eigenvalue is rounding
        fields = {name: np.array([value], np.float32) for name, value in
                  (("joint", np.outer(law, law)), ("insertion", law), ("open", 0.1), ("extend", 0.2),
                   ("continuation", 0.9))}  # fmt: skip
        p = AffinePairHMMs(**fields, alphabet="dna")
        again = p.estimator().fit(["ACGT"]).model_
        assert again.joint.dtype == np.float32
        np.testing.assert_allclose(again.joint, p.joint, rtol=1e-6)
        assert np.isfinite(mc.Marginalization(p).fit(["ACGT"]).log(["ACGT", "AC"])).all()

    def test_letters_that_the_data_lack(self):
        with pytest.raises(ValueError, match=r"letter of ACG, .*for 3 letters.*alphabet="):
            AffinePairHMM(np.eye(4)).fit(["ACG"])

    def test_each_has_no_meaning(self):
        est = AffinePairHMM((2, -3), alphabet="dna")
        with pytest.raises(TypeError, match="one model that all sequences share"):
            est.fit_each(["ACG", "AC"])
        with pytest.raises(TypeError, match="one model that all sequences share"):
            mc.MeanMap(est, length=3).fit(["ACG", "AC"])

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"gap_open": -11}, "gap_open must be a positive number, .* got -11. Use 11"),
            ({"gap_extend": 0}, "gap_extend must be a positive number, .* got 0"),
            ({"gap_open": "large"}, r"gap_open must be .*; got 'large'"),
            ({"gap_open": 11, "open_probability": 0.1}, "gap_open and open_probability exclude each other"),
            ({"gap_extend": 1, "extend_probability": 0.1}, "gap_extend and extend_probability exclude each other"),
            ({"init": START}, "substitution and init exclude each other"),
            ({"substitution": None, "gap_open": 3, "init": START}, "gap_open and init exclude each other"),
            ({"substitution": None, "alphabet": "protein", "init": START}, "init has the alphabet"),
            ({"init": AffinePairHMMs.concat([START, START])}, r"init must have shape \(1,\); got \(2,\)"),
            ({"open_probability": 1.0}, r"open_probability must be a probability.*; got 1.0"),
            ({"extend_probability": -0.1}, r"extend_probability must be .*; got -0.1"),
            ({"continuation": 1.0}, r"continuation must be .*; got 1.0"),
            ({"n_iter": -1}, r"n_iter must be .*; got -1"),
            ({"n_pairs": 0}, r"n_pairs must be .*; got 0"),
            ({"tol": -1.0}, r"tol must be .*; got -1.0"),
            ({"prior_strength": -1.0}, r"prior_strength must be .*; got -1.0"),
            ({"learn": None}, "learn must be some of 'gaps'.* got None"),
            ({"matrix_scale": -1}, r"matrix_scale must be .*; got -1"),
            ({"matrix_scale": "large"}, r"matrix_scale must be .*; got 'large'"),
            ({"gap_extend": 1e-17}, "gap_extend = 1e-17 at matrix_scale = 0.6337 has probability 1"),
            ({"gap_open": 1, "matrix_scale": 1e-17}, "gap_open = 1 at matrix_scale = 1e-17 has probability 1"),
            ({"learn": ("gaps", "scale")}, "learn must be .* got 'scale' in"),
            ({"random_state": "x"}, r"random_state must be .*; got 'x'"),
        ],
    )
    def test_bad_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            AffinePairHMM(**({"substitution": (2, -3), "alphabet": "dna"} | parameters)).fit(["ACGT", "ACT"])
