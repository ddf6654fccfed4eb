"""The estimator of hidden Markov models: Baum-Welch for one model of all sequences, or for thousands, one of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer._parallel import n_threads, thread_map
from mercer._parameters import NONE, Rules, function, instance_of, one_of, whole
from mercer.data import Sequences
from mercer.families.categorical import Categorical
from mercer.families.estimator import Context, Estimator
from mercer.families.gaussian_estimator import Gaussian
from mercer.models._fitting.baum_welch import HMMGoal
from mercer.models._fitting.checks import (
    Found,
    check_given,
    check_kind,
    check_observed,
    check_pooled_size,
    check_range,
    check_something,
    check_spread,
    check_suited,
    impossible,
    warn_of_one_series,
    warn_of_short,
    warn_of_unconverged,
    warn_of_unvisited,
)
from mercer.models._fitting.climb import Climbed, Collapsed, Impossible, better_of, climb, in_order
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import emission_step, evenly, leaf_of
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models._fitting.mixture_steps import spread
from mercer.models._fitting.starts import starts
from mercer.models._fitting.topology import allowed, check_topology, jebara_states
from mercer.models.hmm import HMMs

CHUNK = 512
"""Sequences that are fitted together; a chunk is the work of one thread."""


class HMM(IterativeEstimator):
    """Fit hidden Markov models by Baum-Welch, one to every sequence or one to all.

    Parameters
    ----------
    n_states : int, callable or "jebara", default=3
        Number of states; a callable gets the length of a sequence; "jebara" is the heuristic of PPK-7, for symbols.
        One model of all sequences (``fit``) has the size of the sequence of median length.
    emission : estimator or None, default=None
        The family of the emissions, or a `Mixture` of one; None takes ``Categorical`` for symbols and
        ``Gaussian("diagonal")`` for vectors. Of a `Mixture` the component and the number of components count, not its
        own prior, starts and iterations: those of the HMM hold for all of it.
    topology : "ergodic", "left-right", "banded", pair or bool array of shape (n, n), default="ergodic"
        Which transitions are possible: all; from i to j >= i, beginning in state 0; from i to j with abs(i - j) <= 1;
        or those of a mask. A pair sets how far a step may go: ``("left-right", 1)``, ``("banded", 2)``. What is
        impossible stays exactly zero.
    alphabet : Alphabet, str, iterable or None, default=None
        Of symbols; None takes it from `Sequences` or finds it in the training data.
    prior : None, "pooled" or HMMs of shape (1,), default="pooled"
        What every sequence's model is shrunk to (EST-2b). With "pooled", one model of all training data is learned
        first (one for every number of states that occurs), and every sequence's model starts from it, so that states
        keep their identity across sequences. None is maximum likelihood.
    prior_strength : float, default=20.0
        Weight of the prior, in observations: for the initial state, every row of transitions and every emission.
    n_iter : int, default=100
        Largest number of iterations.
    tol : float, default=1e-4
        Stop when the objective per observation grows by no more; 0 makes ``n_iter`` iterations always.
    n_init : int, default=3
        Number of starts where there is no prior to start from; the best is kept.
    init : None or HMMs of shape (1,) or (N,), default=None
        Where every fit starts, that of the pooled model too; of shape (N,), where ``fit_each`` starts with every one of
        N sequences. None starts from the prior or, where there is none, from k-means++ seeds (vectors), perturbed
        frequencies (symbols) or stretches of time (left-right models).
    random_state : int, Generator, RandomState or None, default=0
        Seed; a sequence's starts depend on it and on the sequence alone. None is 0; a generator gives one seed to every
        fit.
    unknown : {"raise", "missing"}, default="raise"
        What a symbol outside the alphabet is.

    Attributes
    ----------
    model_ : HMMs of shape (1,)
        What ``fit`` learned.
    context_ : Context
        What ``fit`` learned of the data as a whole.
    n_iter_ : int
        Iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.

    Notes
    -----
    The objective is the log probability of the sequences plus, with a prior, the logarithm of its conjugate density,
    and never decreases: expected counts (EST-2) are shrunk in mean parameters (EST-2b),
    ``(s p0 + E[n]) / (s + sum E[n])`` for every row of probabilities, ``(s mu0 + sum of gamma phi(x)) / (s + sum of
    gamma)`` for every emission. The pooled model counts, in every state, one observation more, spread evenly (a symbol
    of every kind alike, a fair coin, the mean count), so that what the training data lack is not impossible in new
    data. A Gaussian's ``floor`` is a variance of every observation, in both steps.

    With ``prior="pooled"`` and sizes that depend on the sequence, a new one gets the nearest size that was learned.

    See Also
    --------
    HMMs : What is learned, with ``log_prob``, ``posterior``, ``viterbi``, ``sample`` and ``bic``.
    Posterior : The probabilities of the states, as ``posterior`` returns them.

    Examples
    --------
    >>> import mercer as mc
    >>> strings = ["ACACACACAC", "ACACACAGAC", "GGGTTTGGGT"]
    >>> models = mc.HMM(n_states=2, alphabet="dna", prior_strength=2.0).fit_each(strings)
    >>> models
    HMMs(shape=(3,), emission=Categoricals)
    >>> models.log_prob(strings).argmax(axis=0).tolist()
    [0, 1, 2]

    One model of all, and the most probable states of every sequence under it:

    >>> paths, log_prob = mc.HMM(n_states=2, alphabet="dna").fit(strings).model_.viterbi(strings)
    >>> len(paths), paths[0].shape, log_prob.shape
    (3, (10,), (3,))

    How the fit of every single model ended:

    >>> models, info = mc.HMM(n_states=2, alphabet="dna").fit_each(strings, return_info=True)
    >>> bool(info.converged.all()), info.n_iter.shape
    (True, (3,))
    """

    of_sequences = True
    has_hidden = True

    _parameters: ClassVar[Rules] = {
        "n_states": whole(1) | function() | one_of("jebara"),
        "emission": instance_of(
            Estimator, what="an estimator", cure="Give a family or a mixture, such as mc.Gaussian('full')."
        )
        | NONE,
    }

    def __init__(
        self,
        n_states: int | str | Callable[[int], int] = 3,
        emission: Any = None,
        topology: Any = "ergodic",
        alphabet: Any = None,
        prior: Any = "pooled",
        prior_strength: float = 20.0,
        n_iter: int = 100,
        tol: float = 1e-4,
        n_init: int = 3,
        init: Any = None,
        random_state: Any = 0,
        unknown: str = "raise",
    ) -> None:
        self.n_states = n_states
        self.emission = emission
        self.topology = topology
        self.alphabet = alphabet
        self.prior = prior
        self.prior_strength = prior_strength
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.init = init
        self.random_state = random_state
        self.unknown = unknown

    # -- the border -------------------------------------------------------------------------------------

    @property
    def takes(self) -> str:  # type: ignore[override]
        """What one observation is; by the data where ``emission`` is None."""
        return "vectors" if self.emission is None else str(self.emission.takes)

    def _emission(self, symbols: bool) -> Estimator:
        """Return the estimator of the emissions."""
        if self.emission is None:
            return Categorical(self.alphabet, self.unknown) if symbols else Gaussian("diagonal")
        emission: Estimator = self.emission
        return emission

    def _missing_allowed(self) -> bool:
        return self.emission is None or leaf_of(self.emission)._missing_allowed()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.string = self.emission is None or self.takes == "symbols"
        return tags

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Sequences:
        """Turn ``X`` into `Sequences`: a 2-D array of floats is N series of numbers, of integers N strings."""
        if isinstance(X, list | tuple) and not len(X):
            raise ValueError("there are no data: the list is empty")
        if sparse.issparse(X):
            raise TypeError("an HMM takes sequences, not a sparse matrix: pass X.toarray(), whose rows are N series")
        if context is None:
            warn_of_one_series(X)
        X = Sequences(X, alphabet=self._known_alphabet(context), unknown=self._unknown())
        if len(X) == 0:
            raise ValueError("there are no data: there is no sequence")
        emission = self._emission(X.is_symbols)
        check_kind(X, emission, context)
        check_range(X)
        accepted: Sequences = leaf_of(emission).accept(X)
        return accepted

    def _unknown(self) -> str:
        own = "raise" if self.emission is None else getattr(leaf_of(self.emission), "unknown", "raise")
        return str(own) if self.unknown == "raise" else self.unknown

    def _known_alphabet(self, context: Context | None) -> Any:
        """Find the alphabet: given, learned, or that of the emission, the prior or the start."""
        if self.alphabet is not None or context is not None:
            return self.alphabet if context is None else context.alphabet
        sources = [None if self.emission is None else leaf_of(self.emission)]
        sources += [batch.emission for batch in (self.prior, self.init) if isinstance(batch, HMMs)]
        found = [getattr(getattr(s, "components", s), "alphabet", None) for s in sources]
        return next((alphabet for alphabet in found if alphabet is not None), None)

    def _check_context(self, X: Any, context: Context) -> None:
        leaf_of(self._emission(X.is_symbols))._check_context(X, context)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.emission is not None and self.emission.of_sequences:
            raise TypeError(f"emission must be a family or a mixture; got {self.emission!r}. Give mc.Gaussian('full').")
        check_topology(self.topology)
        for name, given in (("prior", None if isinstance(self.prior, str) else self.prior), ("init", self.init)):
            if given is not None:
                check_given(name, given, self.n_states, self.topology)
        if isinstance(self.n_states, int | np.integer):
            allowed(self.topology, int(self.n_states))

    def _check_each(self, X: Any, context: Context) -> None:
        super()._check_each(X, context)
        if self._starts_apart() and len(self.init) != len(X):
            raise ValueError(
                f"init has {len(self.init)} models, and there are {len(X)} sequences: give one for all, such as "
                "p[3:4], or one for each"
            )

    def _check_pooled(self, context: Context) -> None:
        super()._check_pooled(context)
        if isinstance(self.prior, str):
            check_pooled_size(context.pooled, self.n_states, self.topology)
        elif isinstance(context.pooled, HMMs) and self._family_is_pooled(context):
            raise ValueError("the context was learned with prior='pooled', which is another one now: call fit again")

    def _family_is_pooled(self, context: Context) -> bool:
        """Whether the emissions shrink to a pooled law of their own."""
        return self.prior is None and isinstance(leaf_of(self._emission(context.alphabet is not None)).prior, str)

    def _starts_apart(self) -> bool:
        """Whether every sequence has a start of its own."""
        return isinstance(self.init, HMMs) and self.init.shape != (1,)

    def _cacheable(self) -> bool:
        return super()._cacheable() and not self._starts_apart()  # what is kept is known by its datum alone

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        # A family checks by its own prior whether an empty datum may be: here the prior is the HMM's.
        leaf = leaf_of(self._emission(X.is_symbols))
        clone(leaf).set_params(prior=None if self.prior is None else "pooled")._check_data(X, offsets)
        if self.prior is None and leaf.prior is None and not X.is_symbols:
            check_observed(X, offsets)

    # -- sizes ------------------------------------------------------------------------------------------

    def _sizes(self, X: Sequences, context: Context | None = None) -> Floats:
        """Find the number of states of every sequence's model; of those learned where the prior is pooled."""
        lengths, back = np.unique(X.lengths, return_inverse=True)
        sizes = np.array([self._size(int(length), X) for length in lengths], dtype=int)
        if context is not None and isinstance(self.prior, str) and not isinstance(self.n_states, int | np.integer):
            learned = np.unique(context.pooled.n_states)
            sizes = learned[np.abs(learned - sizes[:, None]).argmin(axis=1)]
        return np.asarray(sizes[back])

    def _size(self, length: int, X: Sequences) -> int:
        if self.n_states == "jebara":
            if X.alphabet is None:
                raise TypeError(
                    "n_states='jebara' counts symbols, and these are vectors: give a number of states, or a callable"
                )
            return jebara_states(length, len(X.alphabet))
        if not callable(self.n_states):
            return int(self.n_states)
        size = self.n_states(length)
        whole(1)(f"n_states({length})", size)
        return int(size)

    def _shared_size(self, X: Sequences) -> int:
        return self._size(int(np.sort(X.lengths)[(len(X) - 1) // 2]), X)

    # -- the fit ----------------------------------------------------------------------------------------

    def context(self, X: Any) -> Context:
        """Learn what the emissions share and, where it is the prior, one model of all data for every size."""
        bare = self._bare_context(X)
        return self._with_pooled_models(X, bare)[0] if isinstance(self.prior, str) else bare

    def _bare_context(self, X: Sequences) -> Context:
        if len(X.values) == 0:
            raise ValueError("there is nothing to fit: every sequence is empty")
        check_spread(X)
        bare = leaf_of(self._emission(X.is_symbols)).context(X)
        return bare if X.is_symbols else replace(bare, scale=spread(X.values))

    def _with_pooled_models(self, X: Sequences, bare: Context) -> tuple[Context, Climbed]:
        """Learn one model of all data for every size that occurs; also say how that of the shared size was found."""
        alone = clone(self).set_params(prior=None)
        if self._starts_apart():
            alone.set_params(init=None)
        found, shared = [], self._shared_size(X)
        for size in np.unique(self._sizes(X)):
            climbed = alone._fit_together(X, int(size), bare, pooled=True)
            found.append(climbed.models)
            if size == shared:
                info = climbed
        return replace(bare, pooled=HMMs.concat(found)), info

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one model to all sequences; it becomes ``model_``, a batch of shape ``(1,)``."""
        self._check_parameters()
        self._check_one_start()
        X = self.accept(X, reset=True)
        context = self._bare_context(X)
        if isinstance(self.prior, str):
            # The pooled prior of all data is the fit itself: a second pass would only shrink it towards itself.
            context, found = self._with_pooled_models(X, context)
        else:
            found = self._fit_together(X, self._shared_size(X), context)
        self.context_, self.model_ = context, found.models
        self.n_iter_, self.converged_ = int(found.steps[0]), bool(found.converged[0])
        return self

    def _check_one_start(self) -> None:
        if self._starts_apart():
            raise ValueError(
                f"init has shape {self.init.shape}, and one model is learned: give HMMs of shape (1,), or call fit_each"
            )

    def _fit_shared(self, X: Any, context: Context) -> HMMs:
        self._check_one_start()
        size = self._shared_size(X)
        if not isinstance(self.prior, str):
            return self._fit_together(X, size, context).models
        return _of_size(context.pooled, size)

    def _fit_together(self, X: Sequences, size: int, context: Context, *, pooled: bool = False) -> Climbed:
        """Fit one model of ``size`` states to all sequences."""
        if self.prior is None:
            check_something(X, leaf_of(self._emission(X.is_symbols)))
        self._check_data(X, np.array([0, len(X.values)]))
        data = Data(_numbers(X), X.offsets, np.zeros(len(X), dtype=int), 1)
        emission = self._emission(X.is_symbols)
        if pooled:
            emission = evenly(emission, data.x, context)
        try:
            found = self._fit_models(data, size, context, emission, self._seed(), self.init)
        except Impossible as error:
            raise impossible(X.name(error.args[0]), self._source()) from None
        except Collapsed as error:
            raise ValueError(f"the model of all data cannot be fitted: {error.args[1]}") from None
        if self._alone():
            total, components = np.array([len(X.values)]), _n_components(emission)
            warn_of_short(total, np.array([size]), components, _all_data, "use fewer states")
        self._warn([(found, _all_data)], "use fewer states, or another random_state")
        return found

    def _climb_each(self, X: Any, context: Context, name: Callable[[int], str]) -> Climbed:
        """Fit one model to every sequence, in chunks of equal numbers of states, over threads."""
        sizes, emission, seed = self._sizes(X, context), self._emission(X.is_symbols), self._seed()
        if self._alone():
            cure = "give prior='pooled', or fewer states"
            warn_of_short(X.lengths, sizes, _n_components(emission), name, cure)
        pieces: dict[int, Climbed] = {}
        tasks = []
        for size in np.unique(sizes):
            members = np.flatnonzero(sizes == size)
            tasks += [members[begin : begin + CHUNK] for begin in range(0, len(members), CHUNK)]

        def work(task: tuple[int, Floats]) -> None:
            number, members = task
            part = X[members]
            data = Data(_numbers(part), part.offsets, np.arange(len(part)), len(part))
            init = self.init[members] if self._starts_apart() else self.init
            try:
                pieces[number] = self._fit_models(data, int(sizes[members[0]]), context, emission, seed, init)
            except Impossible as error:
                raise impossible(name(int(members[error.args[1]])), self._source()) from None
            except Collapsed as error:
                raise ValueError(f"{name(int(members[error.args[0]]))} cannot be fitted: {error.args[1]}") from None

        thread_map(work, list(enumerate(tasks)), threads=n_threads(), label="Baum-Welch")
        done = [pieces[number] for number in range(len(tasks))]
        named: Found = [
            (found, lambda i, members=members: name(int(members[i])))  # type: ignore[misc]
            for found, members in zip(done, tasks, strict=True)
        ]
        self._warn(named, "use fewer states, or prior='pooled'")
        return in_order(done, tasks)

    def _fit_models(
        self, data: Data, size: int, context: Context, emission: Estimator, seed: int, init: HMMs | None
    ) -> Climbed:
        """Fit models of one size: from the start given, from the prior, or from the best of several starts."""
        prior = None
        if self.prior is not None:
            prior = _of_size(self._prior_batch(context), size)
        start = prior if init is None else init._trimmed(size)
        for name, given in (("prior", prior), ("init", start)):
            if given is not None and len(data.x):
                check_suited(name, given[:1], emission, data.x, context)
        strength = float(self.prior_strength)
        step = emission_step(emission, context, None if prior is None else prior.emission, strength)
        goal = HMMGoal(step, prior, strength)
        if start is not None:
            everybody = start if len(start) == data.size else start[np.zeros(data.size, dtype=int)]
            return climb(goal, data, everybody, self.n_iter, self.tol)
        mask = allowed(self.topology, size)
        attempts = (starts(emission, data, context, mask, seed, attempt) for attempt in range(self.n_init))
        best = climb(goal, data, next(attempts), self.n_iter, self.tol)
        for begin in attempts:
            best = better_of(best, climb(goal, data, begin, self.n_iter, self.tol))
        return best

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Any:
        """Raise: an HMM is fitted to sequences, not to weighted points."""
        raise TypeError(
            "an HMM is a model of sequences, not of weighted points: it cannot be a component or an emission"
        )

    # -- after the fit ----------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Floats:
        """Log probability of every sequence under the model that ``fit`` learned."""
        check_is_fitted(self, "model_")
        X = self.accept(X, context=self.context_)
        self._check_context(X, self.context_)
        return np.asarray(self.model_.log_prob(X)[0])

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the model that ``fit`` learned, on ``X``; smaller is better.

        Minus twice the log probability, plus the number of free parameters (transitions that the topology, or a zero of
        the model, excludes are none) times the logarithm of the number of observations: ``model_.bic(X)[0]``.
        """
        check_is_fitted(self, "model_")
        X = self.accept(X, context=self.context_)
        self._check_context(X, self.context_)
        return float(self.model_.bic(X)[0])

    # -- what is said ------------------------------------------------------------------------------------

    def _alone(self) -> bool:
        """Whether every model has its data alone to learn from."""
        return self.prior is None or self.prior_strength == 0

    def _source(self) -> str:
        """Name where fits start."""
        return "init" if self.init is not None else "the prior" if self.prior is not None else "every start"

    def _warn(self, found: Found, cure: str) -> None:
        if self.n_iter > 1 and self.tol > 0:
            warn_of_unconverged(found, self.n_iter)
        if self._alone():
            warn_of_unvisited(found, cure)


def _all_data(i: int) -> str:
    return "the model of all data"


def _n_components(emission: Any) -> int:
    return 1 if leaf_of(emission) is emission else int(emission.n_components)


def _of_size(models: HMMs, size: int) -> HMMs:
    """Return the model of ``size`` states of a batch with one of every size, or the only one, without padding."""
    which = np.flatnonzero(models.n_states == size)[:1]
    return models[which]._trimmed(size)


def _numbers(X: Sequences) -> Floats:
    """Values in double precision."""
    return X.values if X.is_symbols else np.asarray(X.values, dtype=np.float64)
