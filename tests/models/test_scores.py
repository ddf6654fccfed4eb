"""Scores of hidden Markov models and mixtures: differences of log probabilities that are computed by slow loops."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal, poisson

import mercer as mc
from mercer.models._scores.scores import hmm_scores, mixture_scores
from mercer.models.scores import score_names

STEP = 1e-5


def log_prob(initial, transition, likelihood):
    """Log probability of one sequence from a table ``(T, n)``, as a polynomial: entries may be zero or negative."""
    forward = initial * likelihood[0]
    for row in likelihood[1:]:
        forward = (forward @ transition) * row
    return np.log(forward.sum())


def moved(p, where, parametrization, delta):
    """A row of probabilities after one logit, or one unnormalised weight, has moved."""
    p = p.copy()
    p[where] = p[where] * np.exp(delta) if parametrization == "logit" else p[where] + delta
    return p / p.sum()


def difference(f):
    """Derivative at 0 of fourth order."""
    h = STEP
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


# -- emissions: a slow likelihood and what moves when a parameter does --------------------------------------


class Symbols:
    """Probabilities ``(n, k)``; data are lists of sets of symbols."""

    def __init__(self, probability, parametrization):
        self.parameters = np.asarray(probability, dtype=float)
        self.parametrization = parametrization

    def batch(self):
        return mc.Categoricals(self.parameters[None], alphabet="dna")

    def read(self, x):
        sets = {"A": "A", "C": "C", "G": "G", "T": "T", "N": "ACGT", "R": "AG", "Y": "CT"}
        return [["ACGT".index(s) for s in sets[c]] for c in x]

    def table(self, x, parameters=None):
        p = self.parameters if parameters is None else parameters
        return np.array([[p[i, options].sum() for i in range(len(p))] for options in self.read(x)])

    def moves(self):
        for i, o in itertools.product(*map(range, self.parameters.shape)):

            def move(delta, i=i, o=o):
                p = self.parameters.copy()
                p[i] = moved(p[i], o, self.parametrization, delta)
                return p

            yield move


class Normal:
    """Means ``(n, d)`` and covariances ``(n, d, d)`` of one structure."""

    def __init__(self, mean, covariance, structure):
        self.parameters = np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float)
        self.structure = structure

    def batch(self):
        mean, covariance = self.parameters
        if self.structure == "diagonal":
            covariance = np.diagonal(covariance, axis1=1, axis2=2)
        elif self.structure == "isotropic":
            covariance = covariance[:, 0, 0]
        return mc.Gaussians(mean[None], covariance[None])

    def table(self, x, parameters=None):
        mean, covariance = self.parameters if parameters is None else parameters
        out = np.ones((len(x), len(mean)))
        for (t, point), i in itertools.product(enumerate(x), range(len(mean))):
            seen = np.flatnonzero(~np.isnan(point))
            if len(seen):
                out[t, i] = multivariate_normal(mean[i, seen], covariance[i][np.ix_(seen, seen)]).pdf(point[seen])
        return out

    def moves(self):
        n, d = self.parameters[0].shape
        for i in range(n):
            for k in range(d):
                yield lambda delta, i=i, k=k: self._mean(i, k, delta)
            if self.structure == "full":
                for k, j in itertools.combinations_with_replacement(range(d), 2):
                    unit = np.zeros((d, d))
                    unit[k, j] = unit[j, k] = 1.0 if k == j else np.sqrt(0.5)
                    yield lambda delta, i=i, unit=unit: self._covariance(i, lambda s: s + delta * unit)
                continue
            for some in [[k] for k in range(d)] if self.structure == "diagonal" else [range(d)]:

                def spread(delta, i=i, some=some):
                    factor = np.ones(d)
                    factor[list(some)] = np.exp(delta)
                    return self._covariance(i, lambda s: s * factor * factor[:, None])

                yield spread

    def _mean(self, i, k, delta):
        mean, covariance = self.parameters
        mean = mean.copy()
        mean[i, k] += delta
        return mean, covariance

    def _covariance(self, i, change):
        mean, covariance = self.parameters
        covariance = covariance.copy()
        covariance[i] = change(covariance[i])
        return mean, covariance


class Counts:
    """Poisson rates ``(n, d)``: a family that knows its scores per point only; parameters are log rates."""

    def __init__(self, rate):
        self.parameters = np.asarray(rate, dtype=float)

    def batch(self):
        return mc.Poissons(self.parameters[None])

    def table(self, x, parameters=None):
        rate = self.parameters if parameters is None else parameters
        return np.array([[poisson.pmf(point, r).prod() for r in rate] for point in x])

    def moves(self):
        for i, k in itertools.product(*map(range, self.parameters.shape)):
            unit = np.zeros_like(self.parameters)
            unit[i, k] = 1.0
            yield lambda delta, unit=unit: self.parameters * np.exp(delta * unit)


class Mixed:
    """Mixtures, one to a state: mixing weights ``(n, m)`` and slow members ``(n m)``."""

    def __init__(self, weights, parts, parametrization):
        self.parameters = np.asarray(weights, dtype=float), parts.parameters
        self.parts = parts
        self.parametrization = parametrization

    def batch(self):
        n, m = self.parameters[0].shape
        return mc.Mixtures(self.parameters[0][None], self.parts.batch().reshape(1, n, m))

    def table(self, x, parameters=None):
        weights, inner = self.parameters if parameters is None else parameters
        each = self.parts.table(x, inner).reshape(len(x), *weights.shape)
        return (each * weights).sum(axis=-1)

    def moves(self):
        weights, inner = self.parameters
        n, m = weights.shape
        moves = list(self.parts.moves())
        each = len(moves) // n
        for i in range(n):
            for k in range(m):

                def weight(delta, i=i, k=k):
                    w = weights.copy()
                    w[i] = moved(w[i], k, self.parametrization, delta)
                    return w, inner

                yield weight
            for move in moves[i * each : (i + 1) * each]:
                yield lambda delta, move=move: (weights, move(delta))


def slow_scores(initial, transition, emission, sequences, parametrization):
    """Derivatives of the log probability of every sequence, column by column."""
    n, columns = len(initial), []
    for x in sequences:
        if len(x) == 0:
            columns.append(np.zeros(n + n * n + len(list(emission.moves()))))
            continue
        table, row = emission.table(x), []
        for i in range(n):
            row.append(
                difference(
                    lambda d, i=i, table=table: log_prob(moved(initial, i, parametrization, d), transition, table)
                )
            )
        for i, j in itertools.product(range(n), range(n)):

            def step(d, i=i, j=j, table=table):
                changed = transition.copy()
                changed[i] = moved(changed[i], j, parametrization, d)
                return log_prob(initial, changed, table)

            row.append(difference(step))
        for move in emission.moves():
            row.append(difference(lambda d, move=move, x=x: log_prob(initial, transition, emission.table(x, move(d)))))
        columns.append(row)
    return np.array(columns)


INITIAL = np.array([0.7, 0.3])
TRANSITION = np.array([[0.85, 0.15], [0.4, 0.6]])
STRINGS = ["ACGT", "A", "", "NRYNA", "GGGGT"]
DNA = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]])


def models(initial, transition, emission):
    return mc.HMMs(initial[None], transition[None], emission.batch())


def points(seed, lengths, d, missing=0.0):
    rng = np.random.default_rng(seed)
    out = [rng.normal(size=(length, d)) for length in lengths]
    return [np.where(rng.random(x.shape) < missing, np.nan, x) for x in out]


MEANS = [[0.0, 1.0], [1.0, -0.5]]
FULL = [[[1.0, 0.4], [0.4, 0.8]], [[0.6, -0.2], [-0.2, 1.5]]]


def spread_of(structure):
    full = np.asarray(FULL)
    if structure == "full":
        return full
    diagonal = full * np.eye(2)
    return diagonal if structure == "diagonal" else diagonal[:, :1, :1] * np.eye(2)


def cases(parametrization):
    sets = points(1, [4, 1, 6], 2)
    gapped = points(2, [4, 1, 6], 2, missing=0.3)
    wide = Normal(
        np.repeat(MEANS, 2, axis=0) + np.array([[0], [1], [0], [1]]),
        np.repeat(spread_of("diagonal"), 2, axis=0),
        "diagonal",
    )
    mixing = [[0.3, 0.7], [0.6, 0.4]]
    symbols = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5], [0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
    found = {
        "symbols": (Symbols(DNA, parametrization), STRINGS),
        "Poisson": (
            Counts([[1.0, 3.0], [4.0, 0.5]]),
            [np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 1.0]]), np.array([[2.0, 2.0]])],
        ),
        "mixtures of Gaussians": (Mixed(mixing, wide, parametrization), sets),
        "mixtures of symbols": (
            Mixed(mixing, Symbols(symbols, parametrization), parametrization),
            STRINGS[:2] + STRINGS[3:],
        ),
    }
    for structure in ("full", "diagonal", "isotropic"):
        found[structure] = (Normal(MEANS, spread_of(structure), structure), sets)
        found[f"{structure}, NaN"] = (Normal(MEANS, spread_of(structure), structure), gapped)
    return found


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
@pytest.mark.parametrize("case", list(cases("logit")))
def test_scores_are_derivatives(case, parametrization):
    emission, X = cases(parametrization)[case]
    found = hmm_scores(models(INITIAL, TRANSITION, emission), X, parametrization)
    expected = slow_scores(INITIAL, TRANSITION, emission, X, parametrization)
    assert found.shape == (1, *expected.shape)
    np.testing.assert_allclose(found[0], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
@pytest.mark.parametrize("zero", ["initial", "transition", "emission", "mixture"])
def test_zero_parameters(zero, parametrization):
    """FK-8: ratios at parameters of zero are limits, not divisions; in logits a structural zero has the score 0."""
    initial = np.array([1.0, 0.0]) if zero == "initial" else INITIAL
    transition = np.array([[1.0, 0.0], [0.4, 0.6]]) if zero == "transition" else TRANSITION
    p = np.array([[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    emission = Symbols(p if zero == "emission" else DNA, parametrization)
    if zero == "mixture":
        emission = Mixed([[0.5, 0.5], [0.8, 0.2]], Symbols(np.concatenate([p, p]), parametrization), parametrization)
    X = ["ACA", "AGCA", "GN", "YRA"]
    found = hmm_scores(models(initial, transition, emission), X, parametrization)[0]
    np.testing.assert_allclose(
        found, slow_scores(initial, transition, emission, X, parametrization), rtol=1e-7, atol=1e-8
    )
    if parametrization == "logit":
        parameters = np.concatenate([initial, transition.ravel()])
        assert np.all(found[:, :6][:, parameters == 0] == 0)
    else:
        assert np.abs(found).max() < 1e3


def test_rows_of_weights_are_orthogonal_to_their_scores():
    """FK-8: sum_j A_ij d/dA_ij = 0, and the same for the other rows of probabilities."""
    model = models(INITIAL, TRANSITION, Symbols(DNA, "weight"))
    g = hmm_scores(model, STRINGS, "weight")[0]
    np.testing.assert_allclose(g[:, :2] @ INITIAL, 0.0, atol=1e-12)
    np.testing.assert_allclose((g[:, 2:6].reshape(-1, 2, 2) * TRANSITION).sum(axis=-1), 0.0, atol=1e-12)
    np.testing.assert_allclose((g[:, 6:].reshape(-1, 2, 4) * DNA).sum(axis=-1), 0.0, atol=1e-12)
    logit = hmm_scores(model, STRINGS)[0]
    parameters = np.concatenate([INITIAL, TRANSITION.ravel(), DNA.ravel()])
    np.testing.assert_allclose(g * parameters, logit, atol=1e-12)


def test_several_models_and_sizes():
    two = models(INITIAL, TRANSITION, Symbols(DNA, "logit"))
    one = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals(DNA[None, :1], alphabet="dna"))
    both = mc.HMMs.concat([two, one])
    scores = hmm_scores(both, STRINGS)
    assert scores.shape == (2, 5, 14)
    assert np.array_equal(scores[:1], hmm_scores(two, STRINGS))
    alone = hmm_scores(one, STRINGS)[0]
    np.testing.assert_allclose(scores[1][:, 6:10], alone[:, 2:], atol=1e-12)
    assert np.all(np.delete(scores[1], range(6, 10), axis=1) == 0)  # a padded state has no score


def test_long_sequences_and_small_variances():
    """Sums do not lose the digits of a state far from the origin with a tiny variance."""
    mean = np.array([[1e3], [1e3 + 1e-5]])
    model = mc.HMMs([INITIAL], [TRANSITION], mc.Gaussians(mean[None], np.full((1, 2, 1), 1e-12)))
    x = mean[np.random.default_rng(0).integers(2, size=2000)] + 1e-6
    g = hmm_scores(model, [x])[0, 0]
    assert np.isfinite(g).all()
    nearest = (x > 1e3 + 0.5e-5).ravel()
    expected = [((x[s] - m) / 1e-12).sum() for s, m in ((~nearest, mean[0]), (nearest, mean[1]))]
    np.testing.assert_allclose(g[[6, 8]], expected, rtol=1e-6)


def test_impossible_sequences_are_named():
    model = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.5, 0.5, 0.0, 0.0]]], alphabet="dna"))
    X = mc.Sequences(["ACA", "AGA"], alphabet="dna", ids=["left", "right"])
    with pytest.raises(ValueError, match=r"right.*has probability zero under the shared model, so it has no score"):
        hmm_scores(model, X)
    two = mc.HMMs.concat(
        [model, mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.0, 1.0, 0.0, 0.0]]], alphabet="dna"))]
    )
    with pytest.raises(ValueError, match="zero under the shared model 1"):
        hmm_scores(two, X[:1])
    with pytest.raises(ValueError, match=r"parametrization must be 'logit', or 'weight' .* got 'log'"):
        hmm_scores(model, X, "log")


# -- mixtures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parametrization", [pytest.param("logit", marks=pytest.mark.slow), "weight"])
def test_mixture_scores_are_derivatives(parametrization):
    emission, X = cases(parametrization)["mixtures of Gaussians"]
    single, x = emission.batch()[0], np.concatenate(X)
    scores = mixture_scores(single, x, parametrization)
    moves = list(emission.moves())
    each = len(moves) // 2
    for i in range(2):
        own = moves[i * each : (i + 1) * each]
        expected = np.stack(
            [difference(lambda d, move=move, i=i: np.log(emission.table(x, move(d))[:, i])) for move in own], axis=-1
        )
        np.testing.assert_allclose(scores[i], expected, rtol=1e-7, atol=1e-8)


def test_mixture_scores_of_torch_have_gradients():
    torch = pytest.importorskip("torch")
    weights = torch.tensor([[0.3, 0.7]], dtype=torch.float64)
    mean = torch.tensor([[[0.0], [2.0]]], dtype=torch.float64, requires_grad=True)
    mixture = mc.Mixtures(weights, mc.Gaussians(mean, torch.ones((1, 2, 1), dtype=torch.float64)))
    x = torch.tensor([[0.5], [3.0]], dtype=torch.float64)
    found = mixture_scores(mixture, x)
    plain = mc.Mixtures([[0.3, 0.7]], mc.Gaussians([[[0.0], [2.0]]], np.ones((1, 2, 1))))
    np.testing.assert_allclose(found.detach().numpy(), mixture_scores(plain, x.numpy()), rtol=1e-12)
    (slope,) = torch.autograd.grad(mixture.log_prob(x).sum(), mean)
    np.testing.assert_allclose(slope.numpy().ravel(), found.detach().numpy()[0].sum(axis=0)[[2, 4]], rtol=1e-12)


def test_impossible_points_of_mixtures():
    single = mc.Mixtures([[0.5, 0.5]], mc.Categoricals([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], alphabet="abc"))
    for parametrization in ("logit", "weight"):
        with pytest.raises(ValueError, match="Point 1 has probability zero under the mixture"):
            mixture_scores(single, np.array([0, 2]), parametrization)


def test_names_belong_to_columns():
    for case, (emission, X) in cases("logit").items():
        model = models(INITIAL, TRANSITION, emission)
        names = score_names(model)
        assert len(names) == len(set(names)) == hmm_scores(model, X).shape[-1], case
    assert names[:3] == ["initial[0]", "initial[1]", "transition[0, 0]"]
    assert score_names(models(INITIAL, TRANSITION, Symbols(DNA, "logit")))[6] == "emission[0].probability[A]"
    assert "model[1].initial[0]" in score_names(mc.HMMs.concat([model, model]))


def test_names_of_families():
    for family, last in (
        (mc.Poissons([[1.0, 2.0]]), "log_rate[1]"),
        (mc.families.Bernoullis([[0.5, 0.5]]), "log_odds[1]"),
        (mc.Multinomials([[0.5, 0.5]]), "probability[1]"),
        (mc.Gaussians([[0.0, 1.0]], [[1.0, 1.0]]), "log_sd[1]"),
        (mc.Gaussians([[0.0, 1.0]], [np.eye(2)]), "covariance[1, 1]"),
    ):
        names = mc.Fisher(family).fit([[1.0, 0.0]]).get_score_names()
        assert names[-1] == last
        assert len(names) == mc.Fisher(family, information="identity").features([[1.0, 0.0]]).shape[1]
