"""Is this model right for these data? Score tests and kernel tests against simulations from the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import clone

from mercer._array import Floats, to_numpy
from mercer._checks import is_choice
from mercer._notices import warns_once
from mercer._parallel import progress_bar
from mercer._random import random_generator
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.data.sequences import refuse_windows
from mercer.families import Multinomials
from mercer.families.estimator import Estimator
from mercer.kernels.base import Kernel, concatenated
from mercer.kernels.fisher import Fisher
from mercer.models.scores import alphabet_of, ends_by_itself, is_sequential
from mercer.stats._assignments import Design
from mercer.stats._discrepancy import Discrepancy
from mercer.stats._input import check_count, check_kernel, count_of, gram_matrix, one_model, p_of, p_text

METHODS = ("score", "kernel")
CHUNK = 5_000_000
"""Number of scores of simulated data in memory at once."""
PER_OBJECT = 4
"""Number of simulated objects that a kernel test compares with every object."""


@dataclass(frozen=True)
class GoodnessOfFit:
    """Result of `goodness_of_fit`.

    Parameters
    ----------
    p_value : float
        Probability of a statistic at least as large if the data come from the model.
    statistic : float
        Rao's score statistic, or the squared maximum mean discrepancy.
    method : str
        "score" or "kernel".
    n : int
        Number of objects.
    degrees_of_freedom : int
        Number of independent parameters of a score test, the mean of its statistic under the model; 0 otherwise.
    n_simulations : int
        Number of simulated data sets, or of permutations.
    null : ndarray of shape (n_simulations,)
        The statistic of every one of these.
    deviations : dict
        For a score test: how far the data would move every parameter of the model, in standard deviations, the largest
        first.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> model = mc.Gaussians(mean=[[0.0]], covariance=[1.0])
    >>> found = mc.stats.goodness_of_fit(model, np.linspace(1, 3, 20)[:, None])
    >>> next(iter(found.deviations))
    'log_sd'
    """

    p_value: float
    statistic: float
    method: str
    n: int
    degrees_of_freedom: int
    n_simulations: int
    null: Floats = field(repr=False)
    deviations: dict[str, float] = field(repr=False)

    def __str__(self) -> str:
        verdict = "The model does not fit these data" if self.p_value <= 0.05 else "No lack of fit was found"
        text = f"{verdict} ({p_text(self.p_value)}, {self.n_simulations:,} simulations; {self.n} objects)."
        if self.deviations and self.p_value <= 0.05:
            worst = ", ".join(f"{name} {z:+.1f}" for name, z in list(self.deviations.items())[:3])
            text += f" Largest deviations, in standard deviations: {worst}."
        if self.method == "score" and self.statistic < self.null.min():
            text += (
                " The scores nearly sum to zero, as they do if the model was fitted to these data: the test then tells "
                "nothing. Use data that were held out, or method='kernel' with refit=True."
            )
        return text


@warns_once
def goodness_of_fit(
    model: Any,
    X: Any,
    *,
    method: str = "score",
    kernel: Any = None,
    refit: bool = False,
    n_simulations: int = 199,
    random_state: Any = 0,
) -> GoodnessOfFit:
    r"""Test whether data come from a model.

    Parameters
    ----------
    model : batch of shape (1,), or a fitted estimator
        The model, such as ``hmm.fit(training_data)``: the hypothesis is this model with these parameters. Fit it to
        other data, and many more of them than you test, or use ``refit``.
    X : data
        Points, or sequences: whatever the model describes.
    method : {"score", "kernel"}, default="score"
        "score": do the data pull the parameters away from their values? Powerful against models of the same kind with
        other parameters, and it names these parameters. "kernel": are samples from the model different from the data to
        a kernel? Sees every difference that the kernel sees, such as a model of the wrong kind.
    kernel : Kernel, default=None
        Kernel between objects, for ``method="kernel"``.
    refit : bool, default=False
        Whether X are the data that ``model``, an estimator, was fitted to: then the model is fitted again to every
        simulated data set (a parametric bootstrap). For ``method="kernel"`` only, because scores of a model sum to zero
        on its training data.
    n_simulations : int, default=199
        Number of simulated data sets (or permutations, for ``method="kernel"`` without ``refit``).
    random_state : int, Generator, RandomState or None, default=0
        Seed of the simulations.

    Returns
    -------
    GoodnessOfFit
        The p-value and, for a score test, the parameters that the data disagree with. ``print`` it.

    Notes
    -----
    Rao's statistic is

    .. math:: T = S^\top C^{+} S, \qquad S = \sum_i \nabla_\theta \log p_\theta(x_i)

    with the covariance C of S under the model (FK-1). C and the distribution of T are simulated with the lengths and
    the missing values of X, so that the p-value is right for every sample size. The kernel test compares every object
    with four simulated ones of its length, and permutes within these sets of five.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> chain = mc.MarkovChain(alphabet="ab").fit(["abab", "aab", "abbab", "baba"])
    >>> held_out = ["abaab", "bab", "aabab", "abba"]
    >>> print(mc.stats.goodness_of_fit(chain, held_out))
    No lack of fit was found (p = 0.910, 199 simulations; 4 objects).
    """
    if not is_choice(method, METHODS):
        raise ValueError(f"method must be 'score' or 'kernel'; got {method!r}.")
    if not isinstance(refit, bool | np.bool_):
        raise ValueError(f"refit must be True or False; got {refit!r}.")
    count = check_count(n_simulations, "n_simulations", 19)
    refuse_windows(X, "goodness_of_fit")
    batch = one_model(model)
    batch._require_one()
    rng = random_generator(random_state)
    reader = Fisher(batch, information="identity", per="sequence", power=1.0, normalize=False)  # plain scores
    data = plain(reader.sources(X)[1])
    if method == "score":
        if kernel is not None:
            raise ValueError("A score test has no kernel. Pass method='kernel' along with it.")
        if refit:
            raise ValueError(
                "The scores of a model sum to zero on the data that it was fitted to. Use held-out data, or "
                "method='kernel' with refit=True."
            )
        return _score_test(reader, data, count, rng)
    check_kernel(kernel)
    count_of(data, "X")
    if refit:
        if not isinstance(model, Estimator):
            raise TypeError(
                f"refit=True fits the model again, so it must be an estimator, such as mc.HMM().fit(X); got {model!r}."
            )
        return _bootstrap_test(model, data, kernel, count, rng)
    return _kernel_test(batch, data, kernel, count, rng)


def _score_test(reader: Fisher, data: Any, count: int, rng: np.random.Generator) -> GoodnessOfFit:
    n = _size(data)

    def scores(part: Any) -> Floats:
        found = reader.features(part)
        return np.asarray(found.toarray() if hasattr(found, "toarray") else to_numpy(found), dtype=float)

    own = scores(data)
    totals, second = [own.sum(axis=0)], own.T @ own
    step = max(1, CHUNK // max(own.size, 1))
    for begin in progress_bar(list(range(0, count, step)), "simulations"):
        copies = min(step, count - begin)
        rows = scores(simulated(reader.model, data, copies, rng))
        totals.extend(rows.reshape(copies, n, -1).sum(axis=1))
        second = second + rows.T @ rows
    # The observed data are one of the sets, so that under the model all sets are exchangeable.
    covariance = second / (count + 1)
    scale = np.sqrt(np.diag(covariance))
    used = scale > 1e-10 * scale.max(initial=0.0)
    standard = np.array(totals)[:, used] / scale[used]
    values, vectors = linalg.eigh(covariance[np.ix_(used, used)] / scale[used] / scale[used][:, None])
    kept = values > 1e-8 * values.max(initial=0.0)
    statistics = (((standard @ vectors[:, kept]) ** 2) / values[kept]).sum(axis=1)
    names = np.asarray(reader.fit(data).get_score_names())[used]
    order = np.argsort(-np.abs(standard[0]), kind="stable")
    deviations = {str(names[i]): float(standard[0, i]) for i in order}
    observed, null = float(statistics[0]), statistics[1:]
    return GoodnessOfFit(
        p_of(observed, null, 1.0, exact=False), observed, "score", n, int(kept.sum()), count, null, deviations
    )


def _kernel_test(batch: Any, data: Any, kernel: Kernel, count: int, rng: np.random.Generator) -> GoodnessOfFit:
    """Compare every object with simulated ones of its length, and permute within these sets."""
    found = _against_draws(batch, data, kernel, rng)
    null, observed = found.squared(found.design.drawn(count, rng)), found.observed()
    p = p_of(observed, null, found.scale, exact=False)
    return GoodnessOfFit(p, observed, "kernel", _size(data), 0, count, null, {})


def _bootstrap_test(model: Any, data: Any, kernel: Kernel, count: int, rng: np.random.Generator) -> GoodnessOfFit:
    """Fit the model to the data and to simulated data alike, and compare each with samples from its own fit."""
    fitted = clone(model).fit(data).model_
    found = _against_draws(fitted, data, kernel, rng)
    null = np.empty(count)
    for b in progress_bar(list(range(count)), "refits"):
        sample = simulated(fitted, data, 1, rng)
        null[b] = _against_draws(clone(model).fit(sample).model_, sample, kernel, rng).observed()
    p = p_of(found.observed(), null, found.scale, exact=False)
    return GoodnessOfFit(p, found.observed(), "kernel", _size(data), 0, count, null, {})


def _against_draws(batch: Any, data: Any, kernel: Kernel, rng: np.random.Generator) -> Discrepancy:
    """Return the discrepancy between data and draws from a model; an object and its draws are one group."""
    n = _size(data)
    pool = concatenated((data, simulated(batch, data, PER_OBJECT, rng)))
    design = Design(np.arange((PER_OBJECT + 1) * n) < n, np.tile(np.arange(n), PER_OBJECT + 1))
    return Discrepancy.of(gram_matrix(kernel, pool), design)


def _size(data: Any) -> int:
    return int(data.shape[0]) if hasattr(data, "shape") else len(data)


def simulated(model: Any, X: Any, copies: int, rng: np.random.Generator) -> Any:
    """Draw ``copies`` data sets like ``X``, one after the other.

    Every object has the length of its counterpart in X, or its total of counts, and misses the same values, so that an
    object and its copies are exchangeable if the model is right.
    """
    if not isinstance(X, Sequences):
        return _counts(model, X, copies, rng) if hasattr(_leaf(model), "trials") else _points(model, X, copies, rng)
    check_lengths(model)
    lengths = np.tile(X.lengths, copies)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    alphabet = alphabet_of(model)
    values = _values(model, lengths, offsets, rng)
    if alphabet is not None:
        values = np.where(np.tile(X.values == alphabet.missing, copies), alphabet.missing, values)
        return Sequences.from_codes(np.split(values, offsets[1:-1]), alphabet)
    values = np.where(np.tile(np.isnan(X.values), (copies, 1)), np.nan, values.reshape(len(values), -1))
    return Sequences(np.split(values, offsets[1:-1]))


def plain(X: Any) -> Any:
    """Return accepted data in a form that can be concatenated: rows of counts become a sparse matrix."""
    if isinstance(X, CSRRows):
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    return X


def _leaf(model: Any) -> Any:
    while hasattr(model, "components"):
        model = model.components
    return model


def _points(model: Any, X: Any, copies: int, rng: np.random.Generator) -> Floats:
    """Draw points with the missing coordinates of X."""
    drawn = np.array(model.sample(copies * X.shape[0], random_state=rng)[0], dtype=float)
    if sparse.issparse(X):
        return sparse.csr_array(drawn)
    drawn[np.tile(np.isnan(np.asarray(to_numpy(X), dtype=float)), (copies, 1))] = np.nan
    return drawn


def _counts(model: Any, X: Any, copies: int, rng: np.random.Generator) -> Any:
    """Draw rows of counts with the totals of X."""
    if not isinstance(model, Multinomials):
        raise TypeError(
            f"Simulations of {type(model).__name__} with the totals of the data are not implemented. Use Multinomials, "
            "or compare the data with model.sample(...) by mc.stats.two_sample_test."
        )
    totals = np.asarray(X.sum(axis=1), dtype=float).ravel()
    if (totals != totals.round()).any():
        raise ValueError(
            f"Rows of counts must have whole numbers; the sum of row {int((totals != totals.round()).argmax())} is "
            f"{totals[(totals != totals.round()).argmax()]:.4g}."
        )
    probability = np.asarray(to_numpy(model.dense().probability), dtype=float)[0]
    drawn = rng.multinomial(np.tile(totals.astype(np.int64), copies), probability / probability.sum()).astype(float)
    return sparse.csr_array(drawn) if sparse.issparse(X) else drawn


def check_lengths(model: Any) -> None:
    """Raise if the model determines the lengths of its sequences, which simulations take from the data."""
    if ends_by_itself(model) or getattr(model, "end", False):
        raise ValueError(
            f"{type(model).__name__} determine the lengths of their sequences, and simulations take the lengths of the "
            "data. Fit a model with end=False, or compare the data with model.sample(...) by mc.stats.two_sample_test."
        )


def _values(model: Any, lengths: Floats, offsets: Floats, rng: np.random.Generator) -> Floats:
    """Return the observations of all sequences, one after the other, ``(T,)`` or ``(T, d)``."""
    if not is_sequential(model):
        return np.asarray(model.sample(int(offsets[-1]), random_state=rng)[0])
    values: Floats | None = None
    for length in np.unique(lengths[lengths > 0]):
        of_length = np.flatnonzero(lengths == length)
        drawn = np.asarray(model.sample(int(length), len(of_length), random_state=rng)[0])
        if values is None:
            values = np.empty((int(offsets[-1]), *drawn.shape[2:]), dtype=drawn.dtype)
        values[(offsets[of_length][:, None] + np.arange(length)).ravel()] = drawn.reshape(-1, *drawn.shape[2:])
    if values is None:
        raise ValueError("All sequences are empty, so there is nothing to test. Pass sequences with observations.")
    return values
