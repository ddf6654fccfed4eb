"""The protocol of jebara2004's figures, and what they must reach on real pages and strings."""

from __future__ import annotations

import jebara2004 as paper
import numpy as np
import pytest
from _protocol import Outcome
from jebara2004 import drawn_splits, halves, joined, line, make_task
from scipy import sparse
from sklearn.utils import Bunch
from tests.models.test_switching import switching

import mercer as mc

LABELS = np.array(["a", "b", "b"] * 40)
GROUPS = np.arange(120) // 5


class TestSplits:
    def test_halves_keep_groups_together(self):
        split, other = halves(LABELS, GROUPS, 1), halves(LABELS, GROUPS, 2)
        assert not set(GROUPS[split.train]) & set(GROUPS[split.test])
        assert len(set(GROUPS[split.train])) == 12
        assert sorted([*split.train, *split.test]) == list(range(120))
        assert not any(set(GROUPS[fit]) & set(GROUPS[held]) for fit, held in split.folds)
        assert not np.array_equal(split.train, other.train)

    @pytest.mark.parametrize("split", [drawn_splits(LABELS, 30, 1)[0], halves(LABELS, GROUPS)])
    def test_folds_are_inside_the_training_part(self, split):
        assert len(split.folds) == 5
        assert all(set(fit) | set(held) == set(split.train) for fit, held in split.folds)
        assert sorted(np.concatenate([held for _, held in split.folds])) == sorted(split.train)


class TestLines:
    def test_along_the_axis_the_member_is_chosen_inside(self):
        first = Outcome([], np.array([0.1, 0.4, 0.3, 0.2]), np.array([0.9, 0.1, 0.5, 0.6]))
        second = Outcome([], np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.2, 0.2, 0.3, 0.3]))
        found = line("panel", "method", (1.0, 2.0), [first, second], "a word")
        # The first split prefers members 1 and 0, and member 0 at the second C; the second has a tie along C.
        assert found.error == pytest.approx(((0.3 + 0.5) / 2, (0.4 + 0.6) / 2))
        assert found.chosen == pytest.approx((0.4 + 0.55) / 2)
        assert found.sd == pytest.approx([np.std([0.3, 0.5], ddof=1), np.std([0.4, 0.6], ddof=1)])
        assert (found.panel, found.method, found.x, found.paper) == ("panel", "method", (1.0, 2.0), "a word")
        assert joined([first, second]).test.tolist() == [*first.test, *second.test]


class TestText:
    def test_kernels_against_the_formulas(self):
        counts = np.random.default_rng(0).integers(0, 4, size=(5, 7)) + np.eye(5, 7)
        found = paper.text_kernels(sparse.csr_array(counts), variants=True)
        f = counts / counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found["Linear"], f @ f.T, atol=1e-12)
        np.testing.assert_allclose(found["Bhattacharyya"], np.sqrt(f) @ np.sqrt(f).T, atol=1e-12)
        norm = np.linalg.norm(f, axis=1)
        np.testing.assert_allclose(found["Cosine"], f @ f.T / np.outer(norm, norm), atol=1e-12)
        distance = ((f[:, None] - f) ** 2).sum(axis=-1)
        for name, sigma in paper.SIGMAS.items():
            np.testing.assert_allclose(found[f"RBF sigma={name}"], np.exp(-distance / (2 * sigma**2)), atol=1e-12)


def strings(seed: int = 0) -> paper.Strings:
    """Make 24 random strings of two lengths."""
    rng = np.random.default_rng(seed)
    made = ["".join(rng.choice(list("ACGT"), n)) for n in [40, 90] * 12]
    return paper.Strings(mc.Sequences(made, alphabet="dna"), np.array(["exon", "intron"] * 12), np.arange(24) // 2)


class TestDNA:
    def test_pairs_have_one_length(self):
        rng = np.random.default_rng(1)
        lengths, labels = rng.integers(20, 45, size=300), rng.choice(["exon", "intron"], 300)
        pairs = paper.equal_lengths(lengths, labels, rng)
        assert len(set(pairs.ravel().tolist())) == pairs.size
        assert np.array_equal(lengths[pairs[:, 0]], lengths[pairs[:, 1]])
        assert set(labels[pairs[:, 0]]) == {"exon"}
        assert set(labels[pairs[:, 1]]) == {"intron"}
        counts = [np.bincount(lengths[labels == name], minlength=45)[30:] for name in ("exon", "intron")]
        assert len(pairs) == np.minimum(*counts).sum()

    def test_copies_are_left_out(self):
        data = mc.Sequences(["ACGT", "AC", "ACGT", "GT", "AC"], alphabet="dna")
        target, groups = np.array([0, 0, 1, 1, 0]), np.arange(5)
        kept = paper._without_copies(Bunch(data=data, target=target, target_names=["exon", "intron"], groups=groups))
        assert list(kept.data) == ["ACGT", "AC", "GT"]
        assert kept.labels.tolist() == ["exon", "exon", "intron"]
        assert kept.groups.tolist() == [0, 1, 3]

    def test_models_begin_in_the_long_run(self):
        models = paper.stationary(mc.HMM("jebara", prior=None, n_init=1).fit_each(strings().data))
        once = np.einsum("ni,nij->nj", models.initial, models.transition)
        np.testing.assert_allclose(once, models.initial, atol=1e-9)

    @pytest.mark.parametrize("maker", [paper.hmm_kernels, paper.chain_kernels, paper.word_kernels])
    def test_kernels(self, maker):
        given = strings()
        families = maker(given, np.arange(12))
        prefix = "T=" if maker is paper.hmm_kernels else "K="
        assert sum(name.startswith(prefix) for name in families) == 5
        beside = {paper.hmm_kernels: {"EM's start", "pooled prior"}, paper.chain_kernels: {"pooled prior"}}
        assert {name for name in families if not name.startswith(prefix)} == beside.get(maker, set())
        for family in families.values():
            for gram in family:
                assert gram.shape == (24, 24)
                assert np.linalg.eigvalsh(gram)[0] > -1e-9
                np.testing.assert_allclose(np.diag(gram), 1)

    @pytest.mark.parametrize("maker", [paper.hmm_kernels, paper.chain_kernels])
    def test_the_pooled_prior_does_not_see_the_test_half(self, maker):
        given, others = strings(), strings(1)
        split = halves(given.labels, given.groups)
        mixed = list(given.data)
        for i in split.test:
            mixed[i] = others.data[int(i)]
        changed = paper.Strings(mc.Sequences(mixed, alphabet="dna"), given.labels, given.groups)
        train = np.ix_(split.train, split.train)
        before, after = (maker(some, split.train)["pooled prior"] for some in (given, changed))
        assert len(before) == len(after) > 5
        for a, b in zip(before, after, strict=True):
            np.testing.assert_allclose(a[train], b[train], atol=1e-10)
            assert not np.allclose(a, b)


@pytest.mark.parametrize("part", [pytest.param("figure8a", marks=pytest.mark.slow), "figure8b"])
def test_every_panel_has_every_line(monkeypatch: pytest.MonkeyPatch, part: str):
    for name in ("human", "fly", "human_ends_cut", "fly_as_it_is"):
        monkeypatch.setattr(paper, name, lambda n, seed: strings(n + seed[0]))
    half = lambda family, *_: Outcome([], *np.full((2, len(family) * len(paper.LOG_COSTS)), 0.5))  # noqa: E731
    monkeypatch.setattr(paper, "along", half)  # fits take their time, and are tested above
    curves = paper.reproduce(part, draws=2, quick=True)
    methods = {panel: [one.method for one in curves if one.panel == panel] for panel in (one.panel for one in curves)}
    beside = ["pooled prior", "length only"]
    letters = [f"K={k}" for k in range(1, 6)]
    if part == "figure8a":
        lines = [*(f"T={length}" for length in paper.LENGTHS), "T chosen", "EM's start", *beside]
        assert methods == dict.fromkeys(("human, HMM", "fly, HMM"), lines)
    else:
        chains, words = [*letters, "K chosen", *beside], [*letters, "K chosen", "length only"]
        assert methods == {
            f"{name}, {kind}": lines
            for name in ("human", "fly")
            for kind, lines in (("Markov chains", chains), ("words", words))
        }
    for one in curves:
        assert one.x == paper.LOG_COSTS
        assert set(one.error) == {one.chosen} == {0.5}
    monkeypatch.setattr(paper, "dna_outcomes", lambda strings, maker: {"line": half([1])})
    more = paper.reproduce(part, draws=1, quick=True, variants=True)
    assert len({one.panel for one in more}) == len(more) == 2 * len(methods)


def test_errors_by_length(monkeypatch: pytest.MonkeyPatch):
    def drawn(n: int, seed: tuple[int, int]) -> paper.Strings:
        """Return strings of three lengths of which only the long ones differ by class."""
        data = [letter * length for length in (30, 80, 200) for letter in "AC" for _ in range(8)]
        same = ["A" * len(one) if len(one) < 200 else one for one in data]
        labels = np.array([one[0] for one in data])
        return paper.Strings(mc.Sequences(same, alphabet="dna"), labels, np.arange(len(labels)))

    monkeypatch.setattr(paper, "fly", drawn)
    found = {(one.panel, one.method): one.error[0] for one in paper.reproduce("lengths", draws=2)}
    assert len(found) == 9
    assert all((error == 0) == panel.startswith("150") for (panel, _), error in found.items())


class TestSeries:
    def test_classes_are_of_systems(self):
        task = paper.make_task(0, models=6, per_model=3, length=7)
        assert len(task.series) == 18
        assert task.series[0].shape == (7, 2)
        assert np.bincount(task.labels).tolist() == [9, 9]
        assert all(len(set(task.labels[task.systems == i])) == 1 for i in range(6))

    def test_one_is_left_out(self):
        labels = np.arange(12) % 2
        alike = np.where(labels[:, None] == labels, 1.0, 0.0) + np.eye(12)
        assert (paper.left_out_errors(alike, labels) == 0).all()
        assert (paper.left_out_errors(np.eye(12), labels) == 1).all()  # the others are of the other class

    @pytest.mark.slow
    def test_every_curve_is_there(self, monkeypatch: pytest.MonkeyPatch):
        """Made small: short series, two per system, one model of each class in place of likelihoods."""
        monkeypatch.setattr(paper, "STEPS", (1, 2, 3, 4, 5))
        monkeypatch.setattr(paper, "make_task", lambda seed, *_: make_task(seed, 4, 2, 6))
        monkeypatch.setattr(paper, "likelihood_error", lambda estimator, task: 0.5)
        monkeypatch.setattr(paper, "fitted", lambda task: {"LDS": fewer(task), "SLDS": switching(0, 8)})
        curves = paper.reproduce("figure10", quick=True)
        names = [one.method for one in curves]
        assert names[:6] == [f"{kind} rho={rho:g}" for kind in ("LDS", "SLDS") for rho in (0.1, 0.5, 1.0)]
        assert names[-5:] == ["ML LDS", "ML SLDS", "RBF", "LDS kernel, best", "SLDS kernel, best"]
        for kind, least in zip(("LDS", "SLDS"), (one.error[0] for one in curves[-2:]), strict=True):
            drawn = [error for one in curves[:-5] if one.method.startswith(f"{kind} ") for error in one.error]
            assert least <= min(drawn)
        assert all(0 <= error <= 1 for one in curves for error in one.error)
        assert {one.panel for one in curves} == {"over T", "over rho", "one number"}

    def test_likelihoods_leave_one_out(self):
        task = make_task(1, 2, 4, 12)
        estimator = mc.LDS(1, n_iter=3, tol=0, n_init=1)
        assert 0 <= paper.likelihood_error(estimator, task) <= 1


def fewer(task):
    return mc.LDS(1, n_iter=2, tol=0, n_init=1).fit_each(task.series)


@pytest.mark.slow
def test_real_pages(real: None):
    """Twenty draws of 77 pages gave .124 for Bhattacharyya, .172 for linear and .170 for the best RBF."""
    found = {one.method: one.chosen for one in paper.reproduce("figure7", quick=True, draws=2)}
    assert found["Bhattacharyya"] < 0.16
    assert found["Bhattacharyya"] < min(found["Linear"], found["RBF sigma=1/4"], found["RBF sigma=1"])


def test_real_strings(real: None):
    """Words of two letters tell exons from introns, and the fly's lengths are those of pairs."""
    for given, most in ((paper.human(100), 0.33), (paper.fly(100), 0.2)):
        assert len(given.data) == len(set(given.data)) == 200
        assert np.sum(given.labels == "exon") == 100
        split = halves(given.labels, given.groups)
        words = paper.word_kernels(given, split.train)["K=2"]
        assert paper.along(words, given.labels, split, paper.LOG_COSTS).chosen < most
    exons, introns = (np.sort(given.data.lengths[given.labels == name]) for name in ("exon", "intron"))
    assert np.array_equal(exons, introns)
