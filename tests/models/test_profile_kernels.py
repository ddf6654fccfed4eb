"""Kernels of profile hidden Markov models: scores, expected counts, draws, products, real families."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer._native import profiles
from mercer.models._profile.inference import expected, native_model
from mercer.models._profile.nodes import GROUPS, TRANSITIONS
from mercer.models._profile.product import ProfileOperand
from mercer.models._profile.search import MODES, search_profile

STRINGS = ["abba", "b", "bbabab"]


def random_profiles(sizes=(3,), letters="ab", seed=0, **options):
    """Random profiles, as from an alignment of few sequences."""
    rng = np.random.default_rng(seed)
    k, match, insert, transitions = len(letters), [], [], []
    for m in sizes:
        match.append(rng.dirichlet(np.ones(k), m))
        insert.append(rng.dirichlet(np.ones(k), m + 1))
        rows = np.hstack([rng.dirichlet([3, 1, 1], m + 1), *(rng.dirichlet([1, 1], m + 1) for _ in range(2))])
        rows[-1, 2], rows[-1, :2] = 0.0, rows[-1, :2] / rows[-1, :2].sum()
        rows[[0, -1], 5:] = 1.0, 0.0
        transitions.append(rows)
    background = rng.dirichlet(5 * np.ones(k))
    return mc.models.ProfileHMMs(match, insert, transitions, alphabet=letters, background=background, **options)


def moved(rows, node, columns, j, step):
    """Add ``step`` to one logit of a row of probabilities."""
    out = rows.copy()
    part = out[node, columns]
    part[j - (columns.start or 0)] *= np.exp(step)
    out[node, columns] = part / part.sum()
    return out


def difference(p, name, step=1e-6):
    """Differentiate the log probability with respect to the parameter of a name."""
    kind, rest = name[:-1].split("[")
    node, what = int(rest.split(", ")[0]), rest.split(", ")[1]
    values = []
    for sign in (1, -1):
        match, insert, t = p.nodes(0)
        if kind == "transition":
            j = TRANSITIONS.index(what)
            t = moved(t, node, next(g for g in GROUPS if g.start <= j < g.stop), j, sign * step)
        elif kind == "match":
            match = moved(match, node - 1, slice(None), p.alphabet.symbols.index(what), sign * step)
        else:
            insert = moved(insert, node, slice(None), p.alphabet.symbols.index(what), sign * step)
        options = {"mode": p.mode, "insertion": p.insertion, "length": p.length, "background": p.background}
        values.append(mc.models.ProfileHMMs([match], [insert], [t], p.alphabet, **options).log_prob(STRINGS)[0])
    return (values[0] - values[1]) / (2 * step)


class TestScores:
    @pytest.mark.slow
    @pytest.mark.parametrize("mode", MODES)
    def test_finite_differences(self, mode):
        p = random_profiles((3,), mode=mode, insertion="model", length=5)
        found = p.sequence_scores(STRINGS)[0]
        truth = np.stack([difference(p, name) for name in p.score_names()], axis=1)
        np.testing.assert_allclose(found, truth, atol=5e-9)

    @pytest.mark.slow
    def test_inserted_symbols_of_the_background_have_no_score(self):
        p = random_profiles((3,), length=5)
        names = p.score_names()
        assert names[:2] == ["match[1, a]", "match[1, b]"]
        assert not any(name.startswith("insert") for name in names)
        truth = np.stack([difference(p, name) for name in names], axis=1)
        np.testing.assert_allclose(p.sequence_scores(STRINGS)[0], truth, atol=5e-9)

    @pytest.mark.slow
    def test_weights(self):
        p = random_profiles((3,))
        logit, weight = (p.sequence_scores(STRINGS, x)[0] for x in ("logit", "weight"))
        match = p.nodes(0)[0].ravel()
        np.testing.assert_allclose(weight[:, :6] * match, logit[:, :6], atol=1e-12)

    @pytest.mark.slow
    def test_profiles_of_several_sizes(self):
        p = random_profiles((2, 4))
        found = p.sequence_scores(STRINGS)
        assert found.shape == (2, 3, len(p.score_names())) == (2, 3, 4 * (2 + 7))
        alone = p[:1].sequence_scores(STRINGS)[0]
        np.testing.assert_array_equal(found[0, :, :4], alone[:, :4])
        assert (found[0, :, 4:8] == 0).all()

    @pytest.mark.slow
    def test_ambiguity_codes(self):
        """The score of a code is the mean of those of its symbols, by their probabilities."""
        p = random_profiles((3,), "ACGT", length=4)
        p = mc.models.ProfileHMMs(*([x] for x in p.nodes(0)), alphabet="dna", length=4)
        weights = np.exp(p.log_prob(["ACA", "ACG"])[0])
        one, other = p.sequence_scores(["ACA", "ACG"])[0]
        mean = (weights[0] * one + weights[1] * other) / weights.sum()
        np.testing.assert_allclose(p.sequence_scores(["ACR"])[0, 0], mean, atol=1e-12)

    @pytest.mark.slow
    def test_an_impossible_sequence_has_none(self):
        with pytest.raises(ValueError, match="sequence 1 has probability zero under the profile 'profile_0'"):
            random_profiles().sequence_scores(["ab", ""])


class TestCounts:
    @pytest.mark.parametrize("mode", MODES)
    def test_plain_and_ranged_numbers_agree(self, mode):
        p = random_profiles((4,), mode=mode)
        x = p.read(["abbabbbaabab" * 5])
        fast = expected(p, 0, x)
        outs = [np.zeros((1, 3, 6)), np.zeros((1, 3, 6)), np.zeros((1, 7, 6)), np.zeros((1, 6))]
        profile = search_profile(p, 0)
        data = x.values, x.offsets, profile.flanks(60)[None]
        value = profiles.log_odds(native_model(profile), *data, False, True, profiles.Counts(*outs))
        outs = [out[0] for out in outs]
        np.testing.assert_allclose(fast.log_odds, value, rtol=1e-12)
        np.testing.assert_allclose(fast.match[0], outs[0].T[1:5], atol=1e-12)
        np.testing.assert_allclose(fast.insert[0], outs[1].T[1:5], atol=1e-12)
        np.testing.assert_allclose(fast.transitions[0], outs[2].T[:5], atol=1e-12)
        np.testing.assert_allclose(fast.entry[0], outs[3][1:5], atol=1e-12)

    @pytest.mark.slow
    def test_every_symbol_is_in_one_state(self):
        found = expected(random_profiles((4,), mode="uniglocal", length=0), 0, mc.Sequences(["abba"], alphabet="ab"))
        np.testing.assert_allclose(found.match.sum() + found.insert.sum(), 4)  # there are no flanks
        np.testing.assert_allclose(found.entry.sum(), 1)

    @pytest.mark.slow
    def test_long_sequences(self):
        p = random_profiles((3,), length=50)
        x = mc.Sequences(["ab" * 10_000], alphabet="ab")
        found = expected(p, 0, x)
        assert np.isfinite(found.match).all()
        assert found.match.sum() + found.insert.sum() < 20_000
        np.testing.assert_allclose(found.log_odds, p.log_prob(x)[0] - np.log(p.background[0])[x.values].sum())

    @pytest.mark.slow
    def test_posterior_counts(self):
        p = random_profiles((3,))
        kernel = mc.PosteriorCounts(p, normalize=False)
        features = kernel.fit(STRINGS).features(STRINGS)
        names = kernel.get_count_names().tolist()
        assert (features.shape, names[0], names[-1]) == ((3, 12), "count[match 1, a]", "count[insert 3, b]")
        found = expected(p, 0, p.read(STRINGS))
        np.testing.assert_allclose(features[:, :6] * [[4], [1], [6]], found.match[..., :2].reshape(3, -1))
        np.testing.assert_allclose(kernel(STRINGS), features @ features.T)
        with pytest.raises(ValueError, match="k must be 1 for ProfileHMMs"):
            mc.PosteriorCounts(p, k=2)(STRINGS)


class TestDraws:
    @pytest.mark.parametrize("mode", MODES)
    def test_frequencies_of_short_strings(self, mode):
        p = random_profiles((2,), mode=mode, length=1, insertion="model", seed=3)
        n = 40_000
        drawn = list(p.sample(n, random_state=0)[0])
        short = ["".join(x) for size in (1, 2) for x in product("ab", repeat=size)]
        probability = np.exp(p.log_prob(short)[0])
        if mode.endswith("glocal"):  # the path of delete states only is not drawn
            silent = p.nodes(0)[2][0, 2] * p.nodes(0)[2][1, 6]
            probability /= 1 - silent
        counts = np.array([drawn.count(x) for x in short])
        error = np.sqrt(n * probability * (1 - probability))
        if mode != "glocal":
            assert (np.abs(counts - n * probability) < 5 * error).all()
        else:  # several hits: the share of silent paths depends on their number
            assert (np.abs(counts - n * probability) < 5 * error + 0.1 * n * probability).all()

    def test_they_are_reproducible_and_of_every_profile(self):
        p = random_profiles((2, 5))
        first, second = p.sample(4, random_state=1)
        assert (len(first), len(second)) == (4, 4)
        assert list(p.sample(4, random_state=1)[1]) == list(second)
        assert (first.lengths > 0).all()


class TestKernels:
    @pytest.mark.slow
    def test_fisher_top_and_files(self, tmp_path):
        rows = ["ACGT-ACGT", "ACGTAACGT", "AC-T-ACGA"]
        p = mc.ProfileHMM("dna").fit(rows).model_
        strings, y = ["ACGTACGT", "ACGTAACGT", "GGGTTTCC", "TTTTCCCA", "ACACACAC"], [0, 0, 1, 1, 1]
        kernel = mc.Fisher(p).fit(strings)
        assert kernel(strings).shape == (5, 5)
        mc.save(kernel, tmp_path / "k.mercer")
        np.testing.assert_array_equal(mc.load(tmp_path / "k.mercer")(strings), kernel(strings))
        other = mc.ProfileHMM("dna").fit(["GGGTTTCC", "GGGTATCC"]).model_
        top = mc.TOP(mc.models.ProfileHMMs.concat([p, other]))
        clf = make_pipeline(top, SVC(kernel="precomputed")).fit(strings, y)
        assert clf.score(strings, y) == 1.0
        odds = p.log_prob(strings)[0] - other.log_prob(strings)[0]
        np.testing.assert_allclose(top.log_odds(strings)[:, 0], -odds)
        assert mc.Fisher(mc.ProfileHMM("dna")).fit(rows).transform(strings).shape == (5, 3)

    @pytest.mark.slow
    def test_probability_products(self):
        p = random_profiles((3, 2, 4), letters="abc")
        background = np.repeat(p.background, p.insert.sizes, axis=0)
        for insertion, insert in (("model", p.insert.data), ("background", background)):
            q = p.configure(insertion=insertion)
            operand = ProfileOperand.of(q.match.data, insert, q.transitions.data, [3, 2, 4], 1.0)
            logs = mc.ProbabilityProduct(rho=1.0, normalize=False).log(q)
            np.testing.assert_allclose(logs, operand.pair(operand), rtol=1e-12)
        K = mc.ProbabilityProduct(rho=0.5)(p)
        np.testing.assert_allclose(np.diag(K), 1)
        assert np.linalg.eigvalsh(K).min() > -1e-12

    def test_what_profiles_cannot(self):
        p = random_profiles((3,), letters="abcdefgh")
        with pytest.raises(ValueError, match=r"is infinite at rho = 0\.1"):
            mc.ProbabilityProduct(rho=0.1)(p)
        with pytest.raises(TypeError, match="probability products only"):
            mc.MeanMap()(p)
        with pytest.raises(TypeError, match="cannot be fitted to each sample"):
            mc.ProbabilityProduct(mc.ProfileHMM("dna"))(["ACGT", "ACGA"])
        with pytest.raises(ValueError, match="differ in alphabet"):
            mc.ProbabilityProduct()(p, random_profiles())

    def test_alignment(self):
        p = mc.ProfileHMM("dna", mode="glocal").fit(["ACGTACGT", "ACGAACGT", "ACGTACGT"]).model_
        rows = p.align(["GGACGTACGTCC", "ACGTCGT", "ACGTGGGACGT"])
        assert len({len(row) for row in rows}) == 1
        assert [row.replace(".", "") for row in rows[:2]] == ["ACGTACGT", "ACGT-CGT"]
        assert [row.upper().replace(".", "").replace("-", "") for row in rows][2] in "ACGTGGGACGT"


@pytest.mark.slow
def test_globins(real_folder):
    """Scores of one globin profile tell the kinds of globins apart, which its log odds do not."""
    folder = Path(real_folder, "pfam_seed_hmmer")
    p = mc.ProfileHMM().fit(mc.data.read_alignment(folder / "globins4.sto").X).model_
    X = mc.read_fasta(folder / "globins45.fa", alphabet="protein").X
    others = [mc.data.read_alignment(folder / f"{name}.sto").X[:20] for name in ("fn3", "RRM_1")]
    odds = [p.log_odds(some)[0] for some in (X, *others)]
    assert odds[0].min() > 50 > 5 > max(odds[1].max(), odds[2].max())
    kinds = np.array([name[:3] for name in X.ids])
    some = np.isin(kinds, ["HBA", "HBB"])
    X, y = X[some], kinds[some]
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    score = cross_val_score(make_pipeline(mc.Fisher(p), SVC(kernel="precomputed", C=10)), X, y, cv=folds).mean()
    alone = cross_val_score(SVC(C=10), p.log_odds(X).T, y, cv=folds).mean()
    assert score > 0.95 > alone


@pytest.mark.slow
def test_a_search_over_profiles():
    X, y = ["ACGT", "ACGGT", "TTTT", "TTATT", "ACGTT", "TTTA"], [0, 0, 1, 1, 0, 1]
    profile = mc.ProfileHMM("dna").fit(["ACG-T", "ACGGT", "AC--T"]).model_
    both = [profile, profile.configure(mode="glocal")]
    search = GridSearchCV(make_pipeline(mc.Fisher(profile), SVC(kernel="precomputed")), {"fisher__model": both}, cv=2)
    assert search.fit(X, y).best_params_["fisher__model"] in both
