"""The estimator of pair hidden Markov models: EM over pairs of strings that share a history, or over single ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer._array import Floats, safe_log
from mercer._notices import notify_unconverged
from mercer._parameters import NONE, Rules, instance_of, nonnegative, one_of, states, whole
from mercer._probability import normalized, shared_out
from mercer._random import generator, seed_of
from mercer.data import Alphabet, Sequences
from mercer.data.alphabet import ALPHABET
from mercer.data.segments import check_some_points, digest_order
from mercer.families.categorical import Categoricals
from mercer.families.estimator import Context
from mercer.models._fitting.checks import check_something, impossible, warn_of_unvisited
from mercer.models._fitting.em import EMResult, Impossible, em_single, joined
from mercer.models._fitting.iterative import learned
from mercer.models._pairs.drawn import drawn_pairs
from mercer.models._pairs.estimator import PairEstimator
from mercer.models._pairs.general import PairExpectations, Parameters, expected_counts
from mercer.models.pairhmm import PairHMMs

GOALS = ("pairs", "sequences")


@dataclass(eq=False, repr=False)
class PairHMM(PairEstimator):
    """Fit a pair hidden Markov model by EM: one hidden trajectory, with silent visits, that writes two strings.

    Parameters
    ----------
    n_states : int, default=2
        Number of states.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None finds them in the training data.
    unknown : {"raise", "missing"}, default="raise"
        How to treat a symbol outside the alphabet.
    fit_to : {"pairs", "sequences"}, default="pairs"
        The objective: the sum of log kernels of pairs of training strings that share a class of y (any two without
        y), or the sum of log probabilities of single strings.
    n_pairs : int, default=500
        Maximum number of pairs, drawn without replacement.
    smoothing : float, default=0.1
        Added to every expected count that the start allows.
    n_iter : int, default=100
        Largest number of iterations; with 0 the start is the model.
    tol : float, default=1e-4
        Stop if the objective per symbol grows by at most this value; with 0 there are always ``n_iter`` iterations.
    n_init : int, default=1
        Number of random starts, of which the best is kept. 1, because the time of a fit is quadratic in the lengths.
    init : PairHMMs of shape (1,) or None, default=None
        Start of the fit; probabilities that are zero there stay zero.
    random_state : int, Generator, RandomState or None, default=0
        Seed of starts and of the draw of pairs; None draws a new one in every fit.

    Attributes
    ----------
    model_ : PairHMMs of shape (1,)
        The model learned by ``fit``.
    context_ : Context
        The alphabet.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether it converged before ``n_iter``; True with ``n_iter=0``.
    objective_ : ndarray of shape (iterations,)
        Log probability of all pairs, or strings, plus the log prior implied by ``smoothing``, before every iteration
        of the best start; never decreases.

    Notes
    -----
    Expected numbers are parameters times gradients, through the elimination of silent visits (MK-5, FK-7); the
    objective never decreases. A sum over pairs is a composite likelihood: every string counts as often as it is paired.
    The order of the training data does not matter.

    A random start writes strings as long as the data on average; a tenth of its visits is silent.

    See Also
    --------
    AffinePairHMM : affine gaps and substitution matrices, much faster.

    Examples
    --------
    >>> import mercer as mc
    >>> strings = ["abab", "abb", "aab", "bbaa", "bba", "baa"]
    >>> pairs = mc.PairHMM(n_states=2, n_iter=20, tol=0).fit(strings, [0, 0, 0, 1, 1, 1])
    >>> pairs.model_
    PairHMMs(shape=(1,), emission=Categoricals)
    >>> mc.Marginalization(pairs.model_)(strings).shape
    (6, 6)
    """

    _parameters: ClassVar[Rules] = {
        "alphabet": ALPHABET,
        "unknown": one_of("raise", "missing"),
        "n_states": states(),
        "n_init": whole(1),
        "fit_to": one_of(*GOALS),
        "smoothing": nonnegative("It is added to every expected count."),
        "init": instance_of(PairHMMs, cure="Pass PairHMMs of shape (1,).") | NONE,
    }

    n_states: int = 2
    alphabet: Any = None
    unknown: str = "raise"
    fit_to: str = "pairs"
    n_pairs: int = 500
    smoothing: float = 0.1
    n_iter: int = 100
    tol: float = 1e-4
    n_init: int = 1
    init: Any = None
    random_state: Any = 0

    # -- parameters --------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.init is not None and self.init.n_states != self.n_states:
            n = self.init.n_states
            raise ValueError(f"init must have n_states = {self.n_states} states; got {n}. Use n_states={n}.")

    # -- fitting -----------------------------------------------------------------------------------------

    def _fit_all(self, X: Sequences, context: Context, y: Any = None) -> tuple[Any, dict[str, Any]]:
        """Run EM from the start that is given, or from several; the best is kept."""
        self._check_classes(X, y)  # also where single strings have no use for it
        check_some_points(X)
        check_something(X, self)
        seed = seed_of(self.random_state)
        if self.fit_to == "pairs":
            pairs = drawn_pairs(X, y, int(self.n_pairs), seed, _OTHERWISE)
            goal, members = PairGoal(X, pairs, float(self.smoothing)), np.stack(pairs, axis=1)
        else:  # sorted by content, so that sums do not depend on the order of the data
            order = digest_order(X)
            goal, members = PairGoal(X[order], None, float(self.smoothing)), order[:, None]
        about = f"PairHMM of {len(members)} {self.fit_to}"
        best: EMResult | None = None
        for attempt in range(1 if self.init is not None else self.n_init):
            start = random_start(X, self.n_states, seed, attempt) if self.init is None else self.init
            if self.n_iter == 0:
                return start, learned(np.empty(0), True)
            try:
                found = em_single(goal.expect, goal.maximize, start, self.n_iter, self.tol * goal.mass, about)
            except Impossible as error:
                names = ", with ".join(X.name(int(i)) for i in sorted(members[error.args[0]]))
                raise impossible(names, "init") from None
            best = found if best is None or found.objective > best.objective else best
        assert best is not None
        if self.n_iter > 1 and self.tol > 0:
            notify_unconverged("EM", self.n_iter, [] if best.converged else ["the model of all data"])
        visits = best.expected.visits.sum(axis=0, keepdims=True)
        results = joined(best.model, [best])._replace(visits=visits)
        warn_of_unvisited([(results, lambda i: "the model of all data")], "use fewer states, or another random_state")
        return best.model, learned(best.history, best.converged)


_OTHERWISE = "use fit_to='sequences' to learn from single ones"


SILENT = 0.1
"""Initial probability of emitting nothing."""


class PairGoal(NamedTuple):
    """Log probability of the data, plus a Dirichlet prior that adds ``smoothing`` to every expected count."""

    X: Sequences
    pairs: tuple[Floats, Floats] | None
    """Indices of the two strings of each pair; None for single strings."""
    smoothing: float

    @property
    def mass(self) -> float:
        """Number of symbols and ends."""
        lengths = self.X.lengths + 1
        return float(lengths.sum() if self.pairs is None else sum(lengths[side].sum() for side in self.pairs))

    def expect(self, models: PairHMMs) -> tuple[float, PairExpectations]:
        """Return the objective and expected counts of the trajectories."""
        model, k = Parameters.of(models, 0), models.dimension
        found = expected_counts(model, self.X, self.pairs)
        if not np.isfinite(found.log_prob).all():
            raise Impossible(int(np.flatnonzero(~np.isfinite(found.log_prob))[0]))
        # Probabilities that are zero at the start stay zero, and have no prior.
        rows = (model.initial, model.transition, model.letters[:, :k], model.silent, 1 - model.silent)
        log_prior = sum(float(np.sum(safe_log(p[(p > 0) & (p < 1)]))) for p in rows)
        return float(found.log_prob.sum()) + self.smoothing * log_prior, found

    def maximize(self, models: PairHMMs, found: PairExpectations) -> PairHMMs:
        """Fit the model to expected counts."""
        n, k, model = models.n_states, models.dimension, Parameters.of(models, 0)
        initial = self._distribution(found.initial.sum(axis=0), model.initial)
        transition = self._distribution(found.transition.sum(axis=0), model.transition)
        codes = found.symbols.sum(axis=0)
        letters = self._distribution(_letters(codes, model.letters, models.alphabet), model.letters[:, :k])
        both = np.stack([found.silent.sum(axis=0), codes.sum(axis=1)], axis=1)
        silent = self._distribution(both, np.stack([model.silent, 1 - model.silent], axis=1))[:, 0]
        return PairHMMs._make(
            initial=initial[None, :n],
            transition=transition[None, :, :n],
            stop=transition[None, :, n],
            silent=silent[None],
            empty=initial[None, n],
            emission=Categoricals._make(probability=letters[None], alphabet=models.alphabet),
        )

    def _distribution(self, counts: Floats, p: Floats) -> Floats:
        """Return rows of probabilities from expected counts; unvisited rows stay unchanged."""
        return normalized(np.where(p > 0, counts + self.smoothing, 0.0), p)


def _letters(codes: Floats, probability: Floats, alphabet: Alphabet) -> Floats:
    """Distribute the counts of ambiguity codes ``(n, C)`` over the symbols that they stand for, ``(n, k)``."""
    k = len(alphabet)
    sets = alphabet.indicators(np.arange(k, alphabet.n_codes))
    return codes[:, :k] + shared_out(codes[:, k:], probability[:, k:], probability[:, :k], sets)


def random_start(X: Sequences, n: int, seed: int, attempt: int) -> PairHMMs:
    """Return a model whose strings have the average length of the data, with frequencies perturbed per state."""
    assert X.alphabet is not None
    k = len(X.alphabet)
    codes = np.bincount(X.values, minlength=X.alphabet.n_codes)
    rng = generator(seed, attempt)
    indicators = X.alphabet.indicators(np.arange(X.alphabet.n_codes))
    indicators[X.alphabet.missing] = 0.0
    weights = indicators / np.maximum(indicators.sum(axis=1, keepdims=True), 1.0)
    counts = codes @ weights + 1.0
    letters = normalized(counts * np.exp(rng.normal(0.0, 0.5 if n > 1 else 0.0, (n, k))), 1.0 / k)
    visits = max(float(np.mean(X.lengths)), 1.0) / (1 - SILENT)
    stop = 1.0 / visits  # the number of visits is geometric, at least 1
    inner = (1 - stop) * normalized(rng.gamma(4.0, 0.25, (n, n)) + np.eye(n), 1.0 / n)
    return PairHMMs(
        initial=normalized(rng.gamma(4.0, 0.25, n), 1.0 / n)[None],
        transition=inner[None],
        stop=np.full((1, n), stop),
        emission=Categoricals(letters[None], X.alphabet),
        silent=np.full((1, n), SILENT) * (np.exp(rng.normal(0.0, 0.2, (1, n)))),
    )
