"""Inference for hidden Markov models: states over time, filtering, forecasts, criteria and a summary."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, as_float, to_numpy
from mercer._hints import ATTRIBUTES, missing
from mercer._parameters import check, one_of, whole
from mercer.models._forward.filtering import emission_moments, filtered, log_densities, mixed
from mercer.models.inference import crossed_log_prob, double, own_runs
from mercer.models.posterior import Posterior


class Decoded:
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

    def aic(self, X: Any) -> Floats:
        """Akaike information criterion of each model on all of ``X``, ``(N,)``; smaller is better.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.aic(["aab", "abb"]).round(2)
        array([20.43])
        """
        self._require_axis()  # type: ignore[attr-defined]
        X = self.read(X)  # type: ignore[attr-defined]
        return np.asarray(2 * self.n_parameters - 2 * crossed_log_prob(self, X).sum(axis=1))

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
        initial, transition = double(self.initial)[0], double(self.transition)[0]
        shares = self.stationary()[0]  # type: ignore[attr-defined]
        head = f"HMM of {n} states, {type(self.emission).__name__}, {int(self.n_parameters[0])} free parameters"
        shown = min(n, 8)
        columns = [f"to {j}" for j in range(shown)] + ["..."] * (n > shown)
        rows = [["state", "initial", *columns, "steps", "share", "emission"]]
        for i in range(n):
            stay = transition[i, i]
            steps = f"{1 / (1 - stay):.1f}" if stay < 1 else "inf"
            goes = [f"{p:.2f}" for p in transition[i, :shown]] + [""] * (n > shown)
            rows.append(
                [str(i), f"{initial[i]:.2f}", *goes, steps, f"{shares[i]:.2f}", _described(self.emission[0, i])]
            )
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]) - 1)]
        lines = ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
        return "\n".join([head, *lines])


def _described(member: Any) -> str:
    """Describe one emission in a few words: the most probable symbols, or means and deviations."""
    if hasattr(member, "probability") and getattr(member, "alphabet", None) is not None:
        p = to_numpy(member.probability)
        best = np.argsort(-p, kind="stable")[:4]
        return ", ".join(f"{member.alphabet.symbols[k]} {p[k]:.2f}" for k in best)
    try:
        mean, covariance = (part[0, 0] for part in emission_moments(member.reshape(1, 1)))
    except TypeError:
        return repr(member)
    spread = np.sqrt(np.diagonal(covariance))
    shown = [f"{m:.3g} ± {s:.2g}" for m, s in zip(mean[:4], spread[:4], strict=True)]
    return ", ".join(shown) + (", ..." if len(mean) > 4 else "")


class Decoder:
    """Methods of a fitted estimator of hidden Markov models: states over time, criteria, samples and forecasts."""

    context_: Any
    model_: Any

    if not TYPE_CHECKING:  # type checkers know the attributes that exist

        def __getattr__(self, name: str) -> NoReturn:
            """Raise for an attribute that does not exist, with what to use where hmmlearn has it."""
            missing(type(self).__name__, name, ATTRIBUTES)

    def _known(self, X: Any) -> Any:
        """Return data as those of ``fit`` were read."""
        check_is_fitted(self, "model_")
        X = self.accept(X, context=self.context_)  # type: ignore[attr-defined]
        self._check_context(X, self.context_)  # type: ignore[attr-defined]
        return X

    def predict(self, X: Any) -> list[Floats]:
        """Most probable path of hidden states of each sequence under ``model_`` (Viterbi); a list of arrays."""
        X = self._known(X)
        return list(self.model_.viterbi(X)[0])

    def predict_proba(self, X: Any) -> list[Floats]:
        """Posterior probabilities of the states at each time, a list of arrays ``(T, n)``: ``model_.posterior``."""
        X = self._known(X)
        states = self.model_.posterior(X).states
        return [states[begin:end] for begin, end in pairwise(X.offsets)]

    def decode(self, X: Any, algorithm: str = "viterbi") -> tuple[Floats, list[Floats]]:
        """Log probabilities and hidden states of each sequence.

        Parameters
        ----------
        X : data
            As for ``fit``.
        algorithm : {"viterbi", "map"}, default="viterbi"
            The most probable path, with its joint log probability with the sequence; or the most probable state at
            each time, with the sum of the log posteriors of these states.

        Returns
        -------
        log_prob : ndarray of shape (N,)
        states : list of N arrays of int
        """
        check(one_of("viterbi", "map"), algorithm=algorithm)
        X = self._known(X)
        if algorithm == "viterbi":
            states, log_prob = self.model_.viterbi(X)
            return log_prob, list(states)
        parts = self.predict_proba(X)
        return np.array([np.log(p.max(axis=1)).sum() for p in parts]), [p.argmax(axis=1) for p in parts]

    def filter(self, X: Any) -> Posterior:
        """Probabilities of the states given the observations up to each time: ``model_.filter``."""
        X = self._known(X)
        found: Posterior = self.model_.filter(X)
        return found

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

    def forecast(self, X: Any, steps: int = 1) -> tuple[Floats, Floats]:
        """Mean and covariance of the next ``steps`` observations of each sequence: ``model_.forecast``."""
        X = self._known(X)
        means, covariances = self.model_.forecast(X, steps)
        return means, covariances

    def sample(self, length: int, size: int = 1, random_state: Any = None, return_states: bool = False) -> Any:
        """Sample sequences of ``model_``, ``(size, length, ...)``, and their states if ``return_states``."""
        check_is_fitted(self, "model_")
        found = self.model_.sample(length, size, random_state, return_states)
        return tuple(part[0] for part in found) if return_states else found[0]

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of ``model_`` on ``X``; smaller is better.

        Minus twice the log probability, plus the number of free parameters (transitions of probability zero are not
        counted) times the logarithm of the number of observations: ``model_.bic(X)[0]``.
        """
        X = self._known(X)
        return float(self.model_.bic(X)[0])

    def aic(self, X: Any) -> float:
        """Akaike information criterion of ``model_`` on ``X``; smaller is better: ``model_.aic(X)[0]``."""
        X = self._known(X)
        return float(self.model_.aic(X)[0])

    def summary(self) -> str:
        """Return a table of ``model_`` as text: for each state where it starts, goes and stays, and what it emits."""
        check_is_fitted(self, "model_")
        return str(self.model_.summary())
