"""The estimator of pair hidden Markov models: EM over pairs of strings that share a history, or over single ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer.data import Sequences
from mercer.families._estimator import Context
from mercer.families._family import is_number
from mercer.models._fitting.checks import impossible, warn_of_unconverged, warn_of_unvisited
from mercer.models._fitting.climb import Climbed, Impossible, better_of, climb
from mercer.models._fitting.iterative import IterativeEstimator, check_whole
from mercer.models._pairs.drawn import drawn_pairs
from mercer.models._pairs.visits_em import Strings, VisitsGoal, random_start
from mercer.models.pairhmm import PairHMMs

if TYPE_CHECKING:
    from mercer.models.affine_estimator import AffinePairHMM

GOALS = ("pairs", "sequences")


class PairHMM(IterativeEstimator):
    """Fit a pair hidden Markov model by EM: one hidden trajectory, with silent visits, that writes two strings.

    Parameters
    ----------
    n_states : int, default=2
        Number of states.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None finds them in the training data.
    unknown : {"raise", "missing"}, default="raise"
        What a symbol outside the alphabet is.
    fit_to : {"pairs", "sequences"}, default="pairs"
        What is maximised: the sum of log kernels of pairs of training strings that share a class of y (any two without
        y), or the sum of log probabilities of single strings.
    n_pairs : int, default=500
        At most so many pairs, drawn without replacement.
    n_iter : int, default=100
        Largest number of iterations.
    tol : float, default=1e-4
        EM ends where the objective grows by so much per symbol at most; with 0 it makes ``n_iter`` iterations.
    n_init : int, default=1
        Number of random starts, of which the best is kept.
    init : PairHMMs of shape (1,) or None, default=None
        Where the fit starts; what is impossible there stays impossible.
    smoothing : float, default=0.1
        Added to every expected number of what the start allows.
    random_state : int, Generator, RandomState or None, default=0
        Seed of starts and of the draw of pairs; None is 0.

    Attributes
    ----------
    model_ : PairHMMs of shape (1,)
        What ``fit`` learned.
    context_ : Context
        The alphabet.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether it converged before ``n_iter``.
    objective_ : float
        Log probability of all pairs, or strings, plus the log prior that the smoothing is, before the last iteration.

    Notes
    -----
    Expected numbers are parameters times gradients, through the elimination of silent visits (MK-5, FK-7); the
    objective never falls. A sum over pairs is a composite likelihood: every string counts as often as it is paired. The
    order of the training data does not matter.

    A random start has strings as long as the training data on average, which visits a tenth of silently.

    See Also
    --------
    PairHMM.affine : affine gaps and substitution matrices, much faster.

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

    takes: ClassVar[str] = "symbols"
    of_sequences: ClassVar[bool] = True
    uses_classes: ClassVar[bool] = True
    prior: Any = None
    prior_strength: float = 0.0

    def __init__(
        self,
        n_states: int = 2,
        alphabet: Any = None,
        unknown: str = "raise",
        fit_to: str = "pairs",
        n_pairs: int = 500,
        n_iter: int = 100,
        tol: float = 1e-4,
        n_init: int = 1,
        init: Any = None,
        smoothing: float = 0.1,
        random_state: Any = 0,
    ) -> None:
        self.n_states = n_states
        self.alphabet = alphabet
        self.unknown = unknown
        self.fit_to = fit_to
        self.n_pairs = n_pairs
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.init = init
        self.smoothing = smoothing
        self.random_state = random_state

    @classmethod
    def affine(cls, *args: Any, **parameters: Any) -> AffinePairHMM:
        """Return the estimator of a pair HMM with affine gaps (MK-5b); parameters are those of `AffinePairHMM`.

        Examples
        --------
        >>> import mercer as mc
        >>> kernel = mc.Marginalization(mc.PairHMM.affine((2, -3), gap_open=5, gap_extend=2, alphabet="dna"))
        >>> kernel.fit_transform(["ACGTAC", "ACGAC", "TTTT"]).shape
        (3, 3)
        """
        from mercer.models.affine_estimator import AffinePairHMM

        return AffinePairHMM(*args, **parameters)

    # -- parameters --------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_states", "n_pairs"):
            check_whole(name, getattr(self, name))
        if self.fit_to not in GOALS:
            raise ValueError(f"fit_to = {self.fit_to!r}: give 'pairs', or 'sequences' for single strings")
        if not is_number(self.smoothing) or self.smoothing < 0:
            raise ValueError(f"smoothing = {self.smoothing!r}: give what is added to every expected number, 0 or more")
        if self.init is None:
            return
        if not isinstance(self.init, PairHMMs):
            raise TypeError(f"init = {self.init!r}: give None, or PairHMMs of shape (1,)")
        if self.init.shape != (1,):
            raise ValueError(f"init has shape {self.init.shape}: give PairHMMs of shape (1,), such as p[3:4]")
        if self.init.n_states != self.n_states:
            n = self.init.n_states
            raise ValueError(
                f"init has {n} states, and n_states = {self.n_states}: make them equal, as in n_states={n}"
            )

    # -- data --------------------------------------------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Turn ``X`` into `Sequences`; a start that is given knows the alphabet."""
        if context is None and self.alphabet is None and isinstance(self.init, PairHMMs):
            context = Context(self.init.dimension, self.init.alphabet)
        return super().accept(X, owner=owner, reset=reset, context=context)

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet."""
        assert X.alphabet is not None
        return Context(dimension=len(X.alphabet), alphabet=X.alphabet)

    def shared_context(self, X: Any) -> Context:
        """Return ``context(X)``, which takes no time."""
        return self.context(X)

    # -- fitting -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one model to all strings; it becomes ``model_``, of shape ``(1,)``.

        Parameters
        ----------
        X : Sequences or what makes them
            The training data.
        y : array of shape (N,), default=None
            Classes: with ``fit_to="pairs"``, strings of one class are paired.
        """
        self._check_parameters()
        X = self.accept(X, reset=True)
        self.context_ = self.context(X)
        found = self._climbed(X, y)
        self.model_ = found.models
        self.n_iter_, self.converged_ = int(found.steps[0]), bool(found.converged[0])
        self.objective_ = float(found.objective[0])
        return self

    def _fit_shared(self, X: Sequences, context: Context, y: Any = None) -> PairHMMs:
        models: PairHMMs = self._climbed(X, y).models
        return models

    def _climbed(self, X: Sequences, y: Any) -> Climbed:
        """Climb from the start that is given, or from several, and keep the best."""
        if len(X.values) == 0:
            raise ValueError("there is nothing to fit: every sequence is empty")
        if self.init is not None and self.init.alphabet != X.alphabet:
            raise ValueError(
                f"init has the alphabet {self.init.alphabet}, and the sequences have {X.alphabet}: read them with the "
                "alphabet of init"
            )
        seed = self._seed()
        # Sorted by content, so that neither starts nor sums depend on the order of the data.
        order = np.array(sorted(range(len(X)), key=X.digests().__getitem__), dtype=np.int64)
        given, X, classes = X, X[order], None if y is None else np.asarray(y)
        if classes is not None and classes.shape == (len(X),):
            classes = classes[order]
        pairs = drawn_pairs(X, classes, int(self.n_pairs), seed, _OTHERWISE) if self.fit_to == "pairs" else None
        data: Any = Strings(X, pairs)
        goal: Any = VisitsGoal(float(self.smoothing))
        attempts = 1 if self.init is not None else self.n_init
        best: Climbed | None = None
        for attempt in range(attempts):
            start = random_start(X, self.n_states, seed, attempt) if self.init is None else self.init
            try:
                found = climb(goal, data, start, self.n_iter, self.tol, "EM of a pair HMM")
            except Impossible as error:
                places = [error.args[0]] if data.pairs is None else [int(side[error.args[0]]) for side in data.pairs]
                names = ", with ".join(given.name(int(i)) for i in sorted(order[places]))
                raise impossible(names, "init") from None
            best = found if best is None else better_of(best, found)
        assert best is not None
        if self.n_iter > 1 and self.tol > 0:
            warn_of_unconverged([(best, _all_data)], self.n_iter, "EM")
        warn_of_unvisited([(best, _all_data)], "use fewer states, or another random_state")
        return best

    def fit_each(self, X: Any, context: Context | None = None, *, return_info: bool = False) -> NoReturn:
        """Raise: a pair HMM is a law of pairs that all strings share."""
        self._fit_accepted(X, context)

    def _fit_accepted(self, X: Any, context: Any) -> NoReturn:
        raise TypeError(
            "a pair HMM is one model that all sequences share, and is not fitted to each: use fit, or a kernel under a "
            "shared model, mc.Marginalization(mc.PairHMM(...)) or mc.Fisher(mc.PairHMM(...))"
        )

    # -- after the fit -----------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Floats:
        """Log probability of every string by itself under the model that ``fit`` learned."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.log_prob(self.accept(X, context=self.context_))[0])

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the model that ``fit`` learned, on ``X``; smaller is better."""
        check_is_fitted(self, "model_")
        return float(self.model_.bic(self.accept(X, context=self.context_))[0])


_OTHERWISE = "give fit_to='sequences' to learn from single ones"


def _all_data(i: int) -> str:
    return "the model of all data"
