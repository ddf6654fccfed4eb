"""The estimator of hidden Markov models: Baum-Welch for one model of all sequences, or one model per sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import clone

from mercer._array import Floats, Indices
from mercer._hints import HintedParameters
from mercer._notices import notify
from mercer._parameters import NONE, Rule, Rules, function, instance_of, one_of, states
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.data.alphabet import ALPHABET
from mercer.data.segments import check_some_points, columns_as_symbols, digest_order, in_digest_order, in_numbers
from mercer.families.categorical import Categorical
from mercer.families.estimator import Context, Estimator
from mercer.families.gaussian_estimator import Gaussian
from mercer.models._fitting.checks import (
    allowed,
    check_given,
    check_kind,
    check_pooled_size,
    check_range,
    check_something,
    check_spread,
    check_suited,
    check_topology,
    impossible,
    jebara_states,
    warn_of_short,
    warn_of_unvisited,
)
from mercer.models._fitting.data import Data
from mercer.models._fitting.em import Collapsed, EMResults, Found, Impossible, best_of, em_batch
from mercer.models._fitting.emission_steps import emission_step, evenly, leaf_of
from mercer.models._fitting.goals import FIXABLE, HMMGoal, Limits, is_fixed, is_smoothing
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models._fitting.mixture_steps import spread
from mercer.models._fitting.starts import starts
from mercer.models.hmm import HMMs
from mercer.models.hmm_decoding import Decoder

ENOUGH_STARTS = 3
"""Value of ``n_init`` from which the pooled model of one model per sequence has no other starts."""
POOLED_STARTS = 10
"""Starts of that model with a smaller ``n_init``; the best ``n_init`` after a few iterations are continued."""
POOLED_TRIAL = 10
"""Number of iterations after which these starts are compared."""


@dataclass(eq=False, repr=False)
class HMM(HintedParameters, Decoder, IterativeEstimator):
    """Fit hidden Markov models by Baum-Welch, one per sequence or one to all sequences.

    Parameters
    ----------
    n_states : int, callable or "jebara", default=3
        Number of states. A callable gets the length of a sequence; "jebara" is the heuristic of PPK-7, for symbols.
        The number of states of one model of all sequences (``fit``) is that of the sequence of median length.
    emission : estimator or None, default=None
        The family of the emissions, or a `Mixture` of one; None uses ``Categorical`` for symbols and
        ``Gaussian("diagonal")`` for vectors: not "full", the default of `Gaussian`, because a state has a part of the
        observations only. For a `Mixture`, only the component and the number of components are used;
        prior, starts and iterations are those of the HMM.
    topology : "ergodic", "left-right", "banded", pair or bool array of shape (n, n), default="ergodic"
        Allowed transitions: all; from i to i, i + 1 and i + 2, starting in state 0; from i to j with abs(i - j) <= 1;
        or those of a mask. A pair sets the largest step: ``("left-right", 1)``, ``("banded", 2)``; in
        ``("left-right", None)`` it has no limit. The probabilities of other transitions are exactly zero.
    alphabet : Alphabet, str, iterable or None, default=None
        Alphabet of symbols; None takes it from `Sequences` or infers it from the training data.
    unknown : {"raise", "missing"}, default="raise"
        Whether a symbol outside the alphabet raises an error or is a missing symbol.
    fixed : dict or None, default=None
        Parts that are not learned, by their name in `HMMs`: ``fixed={"transition": [[0.9, 0.1], [0.0, 1.0]]}``. NaN
        marks entries of ``"initial"`` and ``"transition"`` that are learned nevertheless; ``"emission"``, a batch with
        one member per state, is fixed as a whole.
    smoothing : float or dict, default=0.0
        Pseudo-counts that are added to each initial state and each transition that the topology allows, in all fits, or
        ``{"initial": 1.0, "transition": ...}`` with numbers or arrays: a Dirichlet prior with parameters 1 +
        ``smoothing``. That of emissions belongs to their family, such as ``mc.Categorical(prior=...)`` with
        ``prior=None`` here.
    prior : None, "pooled" or HMMs of shape (1,), default="pooled"
        The model that the model of each sequence is shrunk to (EST-2b). With "pooled", one model of all training data
        is learned first (one for each number of states that occurs), and the model of each sequence starts from it, so
        that states keep their identity across sequences. None is maximum likelihood.
    prior_strength : float, default=20.0
        Weight of the prior, in observations, for the initial state, each row of transitions and each emission.
    n_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-4
        Stop if the objective per observation grows by at most this value; with 0 there are always ``n_iter``
        iterations.
    n_init : int, default=3
        Number of starts if there is no prior to start from; the best fit is kept. With ``n_init``
        below 3, the pooled model of ``fit_each`` has ten starts, of which the best ``n_init`` are continued after ten
        iterations.
    init : None or HMMs of shape (1,) or (N,), default=None
        The start of each fit, including that of the pooled model; with shape (N,), ``fit_each`` starts sequence i from
        model i. None starts from the prior or, without a prior, from k-means++ seeds (vectors), perturbed frequencies
        (symbols) or time segments (left-right models).
    random_state : int, Generator, RandomState or None, default=0
        Seed; the starts of a sequence depend only on it and on the sequence. None, or a generator, gives a new seed
        in each call of fit.

    Attributes
    ----------
    model_ : HMMs of shape (1,)
        The model learned by ``fit``.
    initial_, transition_, emission_
        Its parts, without the batch axis.
    context_ : Context
        Properties of the training data that all models share, learned by ``fit``.
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.
    history_ : ndarray
        The objective of that fit before each of its iterations.

    Notes
    -----
    The objective is the log probability of the sequences plus, with a prior, the logarithm of its conjugate density. It
    never decreases. Expected counts (EST-2) are shrunk in mean parameters (EST-2b):
    ``(s p0 + E[n]) / (s + sum E[n])`` for each row of probabilities, ``(s mu0 + sum of gamma phi(x)) / (s + sum of
    gamma)`` for each emission. The pooled model includes, in each state, one additional observation that is spread
    evenly (all symbols equally, a fair coin, the mean count), so that symbols that do not occur in the training data
    have positive probability. The ``floor`` of a Gaussian is a variance of each observation, in both steps. Series may
    have missing values (NaN), in whole steps or single channels, with every covariance (EST-1b).

    With ``prior="pooled"`` and sizes that depend on the sequence, a new sequence gets the nearest size that was
    learned.

    See Also
    --------
    HMMs : The learned models, with ``log_prob``, ``posterior``, ``viterbi``, ``sample`` and ``bic``.
    Posterior : The posterior probabilities of the states, as returned by ``posterior``.

    Examples
    --------
    >>> import mercer as mc
    >>> strings = ["ACACACACAC", "ACACACAGAC", "GGGTTTGGGT"]
    >>> models = mc.HMM(n_states=2, alphabet="dna", prior_strength=2.0).fit_each(strings)
    >>> models
    HMMs(shape=(3,), emission=Categoricals)
    >>> models.log_prob(strings).argmax(axis=0).tolist()
    [0, 1, 2]

    One model of all sequences, and the most probable states of each sequence:

    >>> hmm = mc.HMM(n_states=2, alphabet="dna").fit(strings)
    >>> paths, log_prob = hmm.model_.viterbi(strings)
    >>> len(paths), paths[0].shape, log_prob.shape
    (3, (10,), (3,))

    Convergence of the fit of each model:

    >>> models, info = mc.HMM(n_states=2, alphabet="dna").fit_each(
    ...     strings, return_info=True
    ... )
    >>> bool(info.converged.all()), info.n_iter.shape
    (True, (3,))
    """

    of_sequences = True
    _em = "Baum-Welch"

    _parameters: ClassVar[Rules] = {
        "fixed": Rule(f"a dict with keys among {', '.join(FIXABLE)}", is_fixed) | NONE,
        "smoothing": Rule("a number, 0 or more, or a dict with keys among initial, transition", is_smoothing),
        "alphabet": ALPHABET,
        "unknown": one_of("raise", "missing"),
        "n_states": states() | function() | one_of("jebara"),
        "emission": instance_of(
            Estimator, what="an estimator", cure="Use a family or a mixture, such as mc.Gaussian('full')."
        )
        | NONE,
    }

    n_states: int | str | Callable[[int], int] = 3
    emission: Any = None
    topology: Any = "ergodic"
    alphabet: Any = None
    unknown: str = "raise"
    fixed: Any = None
    smoothing: Any = 0.0
    prior: Any = "pooled"
    prior_strength: float = 20.0
    n_iter: int = 100
    tol: float = 1e-4
    n_init: int = 3
    init: Any = None
    random_state: Any = 0

    # -- validation of the input --------------------------------------------------------------------------

    @property
    def takes(self) -> str:  # type: ignore[override]
        """The kind of one observation; "vectors" if ``emission`` is None, when the data decide."""
        self._check_parameter("emission")
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
        """Convert ``X`` to `Sequences`; a 2-D array is N univariate series if floats, N strings if integers."""
        if sparse.issparse(X):
            raise TypeError("An HMM takes sequences, not a sparse matrix. Pass X.toarray(), whose rows are N series.")
        takes = None if self.emission is None else leaf_of(self.emission).takes
        if takes is None and context is not None:  # what the data of fit decided
            takes = "vectors" if context.alphabet is None else "symbols"
        shape: Any = getattr(X, "shape", ())
        if takes != "vectors" and len(shape) == 2 and shape[1] == 1 < shape[0] and np.asarray(X).dtype.kind != "f":
            notify(f"X is read as {shape[0]} sequences of one symbol; pass one sequence x of shape (T, 1) as [x].")
        X = columns_as_symbols(X) if takes in (None, "symbols") else X
        X = self._sequences(X, owner, reset, self._known_alphabet(context), self._unknown())
        X = X if takes in (None, "symbols") else in_numbers(X)
        emission = self._emission(X.is_symbols)
        check_kind(X, emission, context)
        check_range(X)
        accepted: Sequences = leaf_of(emission).accept(X, owner=self if owner is None else owner, reset=reset)
        return accepted

    def _unknown(self) -> str:
        own = "raise" if self.emission is None else getattr(leaf_of(self.emission), "unknown", "raise")
        return str(own) if self.unknown == "raise" else self.unknown

    def _known_alphabet(self, context: Context | None) -> Any:
        """Return the alphabet: given, learned, or that of the emission, the prior or the start."""
        if self.alphabet is not None or context is not None:
            return self.alphabet if context is None else context.alphabet
        sources = [None if self.emission is None else leaf_of(self.emission)]
        sources += [batch.emission for batch in (self.prior, self.init) if isinstance(batch, HMMs)]
        sources += [(self.fixed or {}).get("emission")]
        found = [getattr(getattr(s, "components", s), "alphabet", None) for s in sources]
        return next((alphabet for alphabet in found if alphabet is not None), None)

    def _check_context(self, X: Any, context: Context) -> None:
        leaf_of(self._emission(X.is_symbols))._check_context(X, context)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.emission is not None and self.emission.of_sequences:
            raise TypeError(f"emission must be a family or a mixture; got {self.emission!r}. Use mc.Gaussian('full').")
        check_topology(self.topology)
        for name, given in (("prior", None if isinstance(self.prior, str) else self.prior), ("init", self.init)):
            if given is not None:
                check_given(name, given, self.n_states, self.topology)
        if isinstance(self.n_states, int | np.integer):
            Limits.of(self.fixed, self.smoothing, allowed(self.topology, int(self.n_states)))
        elif self.fixed:
            raise ValueError(f"fixed needs one number of states; got n_states={self.n_states!r}. Use a whole number.")

    def _check_each(self, X: Any, context: Context) -> None:
        super()._check_each(X, context)
        if self._starts_apart() and len(self.init) != len(X):
            raise ValueError(
                f"init must have one model, such as p[3:4], or one per sequence; got {len(self.init)} models for "
                f"{len(X)} sequences."
            )

    def _check_pooled(self, context: Context) -> None:
        super()._check_pooled(context)
        if isinstance(self.prior, str):
            check_pooled_size(context.pooled, self.n_states, self.topology)
        elif isinstance(context.pooled, HMMs) and self._family_is_pooled(context):
            raise ValueError("The context was learned with prior='pooled', but prior has changed. Call fit again.")

    def _family_is_pooled(self, context: Context) -> bool:
        """Whether the emissions have a pooled prior of their own."""
        return self.prior is None and isinstance(leaf_of(self._emission(context.alphabet is not None)).prior, str)

    def _starts_apart(self) -> bool:
        """Whether each sequence has a start of its own."""
        return isinstance(self.init, HMMs) and self.init.shape != (1,)

    def _cacheable(self) -> bool:
        return super()._cacheable() and not self._starts_apart()  # the cache key does not include the start

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        # A family allows empty sequences if it has a prior; here the prior is that of the HMM.
        leaf = leaf_of(self._emission(X.is_symbols))
        clone(leaf).set_params(prior=leaf.prior if self.prior is None else "pooled")._check_data(X, offsets)

    # -- sizes ------------------------------------------------------------------------------------------

    def _sizes(self, X: Sequences, context: Context | None = None) -> Floats:
        """Return the number of states for each sequence; with a pooled prior, the nearest number that was learned."""
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
                    "n_states='jebara' needs sequences of symbols; got vectors. Use a number of states or a callable."
                )
            return jebara_states(length, len(X.alphabet))
        if not callable(self.n_states):
            return int(self.n_states)
        size = self.n_states(length)
        states()(f"n_states({length})", size)
        return int(size)

    def _shared_size(self, X: Sequences) -> int:
        return self._size(int(np.sort(X.lengths)[(len(X) - 1) // 2]), X)

    # -- the fit ----------------------------------------------------------------------------------------

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        """Learn the context of the emissions and, with a pooled prior, one model of all sequences per size."""
        if not each:
            self._check_one_start()
        bare = self._bare_context(X)
        if not isinstance(self.prior, str):
            return bare, None
        return self._with_pooled_models(X, bare, POOLED_STARTS if each and self.n_init < ENOUGH_STARTS else 0)

    def shared_context_of_one(self, X: Any) -> Context:
        """Return the context of one model of all sequences, which has ``n_init`` starts, as in ``fit``."""
        return self._shared_context("context of one", X, lambda X: self._learn(X)[0])

    def _bare_context(self, X: Sequences) -> Context:
        check_some_points(X)
        check_spread(X)
        bare = leaf_of(self._emission(X.is_symbols)).context(X)
        return bare if X.is_symbols else replace(bare, scale=spread(in_digest_order(X).values))

    def _with_pooled_models(self, X: Sequences, bare: Context, trials: int = 0) -> tuple[Context, EMResults]:
        """Learn one model of all sequences for each size that occurs; also return the fit of the shared size."""
        unshrunk = clone(self).set_params(prior=None)
        if self._starts_apart():
            unshrunk.set_params(init=None)
        models, shared = [], self._shared_size(X)
        for size in np.unique(self._sizes(X)):
            fit = unshrunk._fit_together(X, bare, int(size), pooled=True, trials=trials)
            models.append(fit.models)
            if size == shared:
                shared_fit = fit
        return replace(bare, pooled=HMMs.concat(models)), shared_fit

    def _check_one_start(self) -> None:
        if self._starts_apart():
            raise ValueError(
                f"init must have shape (1,), because fit learns one model; got shape {self.init.shape}. Pass p[3:4] or "
                "call fit_each."
            )

    def _fit_shared(self, X: Any, context: Context) -> HMMs:
        self._check_one_start()
        models: HMMs = super()._fit_shared(X, context)
        return _of_size(models, self._shared_size(X))

    def _fit_together(
        self, X: Sequences, context: Context, size: int | None = None, *, pooled: bool = False, trials: int = 0
    ) -> EMResults:
        """Fit one model of ``size`` states to all sequences."""
        size = self._shared_size(X) if size is None else size
        if self.prior is None:
            check_something(X, leaf_of(self._emission(X.is_symbols)))
        self._check_data(X, np.array([0, len(X.values)]))
        order = digest_order(X)
        ordered = X[order]
        data = Data(ordered.values, ordered.offsets, np.zeros(len(X), dtype=int), 1)
        emission = self._emission(X.is_symbols)
        if pooled:
            emission = evenly(emission, data.x, context)
        try:
            seed = seed_of(self.random_state)
            found = self._fit_models(data, size, context, emission, seed, self.init, trials)
        except Impossible as error:
            raise impossible(X.name(order[error.args[0]]), self._source()) from None
        except Collapsed as error:
            raise ValueError(f"The model of all data cannot be fitted: {error.args[1]}") from None
        if self._has_no_prior():
            total, components = np.array([len(X.values)]), _n_components(emission)
            warn_of_short(total, np.array([size]), components, _all_data, "use fewer states")
        self._warn_unconverged([(found, _all_data)])
        self._warn_unvisited([(found, _all_data)], "use fewer states, or another random_state")
        return found

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        """Fit one model to each sequence, in chunks of equal numbers of states, on several threads."""
        sizes, emission, seed = self._sizes(X, context), self._emission(X.is_symbols), seed_of(self.random_state)
        if self._has_no_prior():
            cure = "use prior='pooled', or fewer states"
            warn_of_short(X.lengths, sizes, _n_components(emission), name, cure)

        def fit(members: Indices) -> EMResults:
            part = X[members]
            data = Data(part.values, part.offsets, np.arange(len(part)), len(part))
            init = self.init[members] if self._starts_apart() else self.init
            try:
                return self._fit_models(data, int(sizes[members[0]]), context, emission, seed, init)
            except Impossible as error:
                raise impossible(name(int(members[error.args[1]])), self._source()) from None
            except Collapsed as error:
                raise ValueError(f"{name(int(members[error.args[0]]))} cannot be fitted: {error.args[1]}") from None

        found, named = self._on_threads([np.flatnonzero(sizes == size) for size in np.unique(sizes)], fit, name)
        self._warn_unvisited(named, "use fewer states, or prior='pooled'")
        return found

    def _fit_models(
        self,
        data: Data,
        size: int,
        context: Context,
        emission: Estimator,
        seed: int,
        init: HMMs | None,
        trials: int = 0,
    ) -> EMResults:
        """Fit models of one size from the given start, from the prior, or from the best of several starts.

        With ``trials``, a single model has at least as many starts, and the best ``n_init`` after a few iterations are
        continued.
        """
        prior = None
        if self.prior is not None:
            prior = _of_size(self._prior_batch(context), size)
        start = prior if init is None else init._trimmed(size)
        for name, given in (("prior", prior), ("init", start)):
            if given is not None and len(data.x):
                check_suited(name, given[:1].emission, emission, data.x, context)
        if self.fixed and self.fixed.get("emission") is not None and len(data.x):
            check_suited("fixed['emission']", self.fixed["emission"].reshape(1, -1), emission, data.x, context)
        strength = float(self.prior_strength)
        step = emission_step(emission, context, None if prior is None else prior.emission, strength)
        mask = allowed(self.topology, size)
        limits = Limits.of(self.fixed, self.smoothing, mask)
        goal = HMMGoal(step, prior, strength, limits)

        def limited(models: HMMs) -> HMMs:
            models = models._replaced(emission=step.start(models.emission))
            return models if limits is None else limits.applied(models)

        if start is not None:
            repeated = start if len(start) == data.size else start[np.zeros(data.size, dtype=int)]
            return em_batch(goal, data, limited(repeated), self.n_iter, self.tol)
        attempts = range(self.n_init if size == 1 else max(self.n_init, trials))
        begins = (limited(starts(emission, data, context, mask, seed, attempt)) for attempt in attempts)
        if len(attempts) > self.n_init and self.n_iter > POOLED_TRIAL:
            tried = [em_batch(goal, data, begin, POOLED_TRIAL, self.tol) for begin in begins]
            tried.sort(key=lambda found: -float(found.objective[0]))
            begins = (found.models for found in tried[: self.n_init])
        return best_of(goal, data, begins, self.n_iter, self.tol)

    # -- messages ----------------------------------------------------------------------------------------

    def _has_no_prior(self) -> bool:
        """Whether each model is fitted without a prior, or with one of strength zero."""
        return self.prior is None or self.prior_strength == 0

    def _warn_unvisited(self, found: Found, cure: str) -> None:
        if self._has_no_prior():
            warn_of_unvisited(found, cure)


def _all_data(i: int) -> str:
    return "the model of all data"


def _n_components(emission: Any) -> int:
    return 1 if leaf_of(emission) is emission else int(emission.n_components)


def _of_size(models: HMMs, size: int) -> HMMs:
    """Return the model with ``size`` states of a batch, without padding, as a batch of shape ``(1,)``."""
    which = np.flatnonzero(models.n_states == size)[:1]
    return models[which]._trimmed(size)
