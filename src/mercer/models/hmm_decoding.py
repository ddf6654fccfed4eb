"""Inference for hidden Markov models: states over time, filtering, forecasts, criteria and a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, as_float, to_numpy
from mercer._hints import ATTRIBUTES, missing
from mercer._parameters import check, one_of, whole
from mercer.data.ragged import unstacked
from mercer.models._forward.filtering import emission_moments, filtered, log_densities, mixed
from mercer.models.inference import double, own_runs
from mercer.models.posterior import Posterior
from mercer.models.summaries import chain_table, described, headed, kind_of
from mercer.models.verbs import FittedChain, HasCriteria, Learned


class Decoded(HasCriteria):
    """Methods of a batch of hidden Markov models: filtering, forecasts, criteria and a summary."""

    initial: Any
    transition: Any
    emission: Any
    n_states: Any
    n_parameters: Any
    alphabet: Any

    def filter(self, X: Any) -> Posterior:
        """Probabilities of the states given the observations up to each time, unlike `posterior`, which knows all.

        Sequences are assigned to models as in `posterior`. Of one more observation: `update`.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.filter(["aab"])[0].round(2)
        array([[0.9 , 0.1 ],
               [0.98, 0.02],
               [0.45, 0.55]])
        """
        X, states, log_prob = self._filtered(X)
        return Posterior._make(X, states, None, log_prob)

    def _filtered(self, X: Any) -> tuple[Any, Floats, Floats]:
        self._require_axis()  # type: ignore[attr-defined]
        X = self.read(X)  # type: ignore[attr-defined]
        runs = own_runs(self, X)
        table = log_densities(self.emission, X.values, np.repeat(runs.model, runs.length))
        initial, transition = double(self.initial)[runs.model], double(self.transition)[runs.model]
        states, log_prob = filtered(initial, transition, table, X.offsets)
        impossible = np.flatnonzero(~np.isfinite(log_prob))
        if len(impossible):
            raise ValueError(
                f"{X.name(impossible[0])} has probability zero under its model, so its states have no probabilities. "
                "Leave it out, or use a model without zeros, such as one fitted with a prior."
            )
        return X, states, log_prob

    def update(self, observation: Any, belief: Any = None) -> Floats:
        """Probabilities of the states after one more observation, at a constant cost: for streams.

        Parameters
        ----------
        observation : symbol, number or array of shape (d,)
            The next observation; None or NaN if it is missing.
        belief : array of shape (n,), default=None
            The result of the last call; None before the first observation.

        Returns
        -------
        ndarray of shape (n,)

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> belief = None
        >>> for symbol in "aab":
        ...     belief = model.update(symbol, belief)
        >>> belief.round(2)
        array([0.45, 0.55])
        """
        self._require_one()  # type: ignore[attr-defined]
        start, n = double(self.initial), int(self.initial.shape[-1])
        if belief is not None:
            before = to_numpy(as_float(belief, "belief"))
            if before.shape != (n,) or not np.all(before >= 0) or not abs(before.sum() - 1) < 1e-6:
                raise ValueError(f"belief must be {n} probabilities that sum to one; got {belief!r}.")
            start = (before @ double(self.transition)[0])[None]
        if observation is None:
            return np.asarray(start[0])
        one = [[observation]] if self.alphabet is not None else [np.atleast_2d(as_float(observation, "observation"))]
        return np.asarray(self._made(initial=start).filter(one)[0][0])

    def _made(self, **changed: Any) -> Any:
        fields = {name: getattr(self, name) for name in ("initial", "transition", "n_states", "emission")}
        return type(self)._make(**fields | changed)  # type: ignore[attr-defined]

    def forecast(self, X: Any, steps: int = 1) -> tuple[Floats, Floats]:
        """Mean and covariance of the next ``steps`` observations of each sequence.

        Sequences are assigned to models as in `posterior`. A symbol counts as its indicator vector, so that the means
        are the probabilities of the symbols.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences.
        steps : int, default=1
            Number of observations to predict.

        Returns
        -------
        means : ndarray of shape (M, steps, d)
        covariances : ndarray of shape (M, steps, d, d)

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.forecast(["aab"], steps=2)[0].round(2)
        array([[[0.47, 0.53],
                [0.48, 0.52]]])
        """
        ahead, model = self._ahead(X, steps)
        mean, covariance = emission_moments(self.emission)
        return mixed(ahead, mean[model][:, None], covariance[model][:, None])

    def forecast_states(self, X: Any, steps: int = 1) -> Floats:
        """Probabilities of the states at the next ``steps`` times after each sequence, ``(M, steps, n)``.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.forecast_states(["aab"], steps=2).round(2)
        array([[[0.46, 0.54],
                [0.47, 0.53]]])
        """
        return self._ahead(X, steps)[0]

    def _ahead(self, X: Any, steps: Any) -> tuple[Floats, Floats]:
        check(whole(1, 10**6), steps=steps)
        X, states, _ = self._filtered(X)
        model = own_runs(self, X).model
        initial, transition = double(self.initial)[model], double(self.transition)[model]
        out = np.empty((len(X), int(steps), initial.shape[1]))
        some = X.lengths > 0
        now = initial.copy()
        now[some] = np.einsum("mi,mij->mj", states[X.offsets[1:][some] - 1], transition[some])
        for t in range(int(steps)):
            out[:, t] = now
            now = np.einsum("mi,mij->mj", now, transition)
        return out, model

    def summary(self) -> str:
        """Return a table of one model as text: for each state where it starts, goes and stays, and what it emits.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> print(mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.2, 0.8]]], emission).summary())
        HMM of 2 states, Categoricals, 5 free parameters
        state  initial  to 0  to 1  steps  share  emission
            0     0.50  0.90  0.10   10.0   0.67  a 0.90, b 0.10
            1     0.50  0.20  0.80    5.0   0.33  b 0.90, a 0.10
        """
        self._require_one()  # type: ignore[attr-defined]
        n = int(self.n_states[0])
        shares = self.stationary()[0]  # type: ignore[attr-defined]
        emitted = [described(self.emission[0, i]) for i in range(n)]
        rows = chain_table(
            double(self.initial)[0, :n], double(self.transition)[0, :n, :n], shares, emitted, ("state", "emission")
        )
        return headed(f"HMM of {n} states, {kind_of(self.emission)}", self.n_parameters, rows)


class Decoder(FittedChain):
    """Methods of a fitted estimator of hidden Markov models that others do not have."""

    initial_, transition_, emission_ = Learned(), Learned(), Learned()

    if not TYPE_CHECKING:  # type checkers know the attributes that exist

        def __getattr__(self, name: str) -> NoReturn:
            """Raise for an attribute that does not exist, with what to use where hmmlearn has it."""
            missing(type(self).__name__, name, ATTRIBUTES)

    def decode(self, X: Any, algorithm: str = "viterbi", lengths: Any = None) -> tuple[Floats, list[Floats]]:
        """Log probabilities and hidden states of each sequence.

        Parameters
        ----------
        X : data
            As for ``fit``.
        algorithm : {"viterbi", "map"}, default="viterbi"
            The most probable path, with its joint log probability with the sequence; or the most probable state at
            each time, with the sum of the log posteriors of these states.
        lengths : list of int, default=None
            As for ``fit``.

        Returns
        -------
        log_prob : ndarray of shape (N,)
        states : list of N arrays of int
        """
        check(one_of("viterbi", "map"), algorithm=algorithm)
        X = self._known(unstacked(X, lengths))
        if algorithm == "viterbi":
            states, log_prob = self.model_.viterbi(X)
            return log_prob, list(states)
        parts = self.predict_proba(X)
        return np.array([np.log(p.max(axis=1)).sum() for p in parts]), [p.argmax(axis=1) for p in parts]

    def update(self, observation: Any, belief: Any = None) -> Floats:
        """Probabilities of the states after one more observation, ``(n,)``: ``model_.update``.

        Parameters
        ----------
        observation : symbol, number or array of shape (d,)
            The next observation; None or NaN if it is missing.
        belief : array of shape (n,), default=None
            The result of the last call; None before the first observation.
        """
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.update(observation, belief))
