"""Kernels between distributions from which we can sample (Jebara, Kondor and Howard 2004, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, logsumexp
from mercer._batch import Batch
from mercer._parameters import Rules, between, one_of, rho, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.kernels._draws import Objects, densities, draw, in_numpy, joined, seeds
from mercer.kernels._operands import LogFeatures, LogPairs
from mercer.kernels._pair_draws import PairDraws
from mercer.kernels._windows.random import spread
from mercer.kernels.base.model import LONGEST, ModelKernel
from mercer.kernels.base.transformer import NoFeatures


@dataclass(eq=False, repr=False)
class Sampled(LogPairs, ModelKernel):
    r"""Probability product kernel between any distributions, estimated from samples.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a distribution to each sample, as ``model.fit_each``. None compares distributions: a batch,
        or a list of objects with ``log_prob`` and ``sample``.
    rho : float, default=0.5
        The power of the probability product.
    length : int, default=10
        Length of the sampled sequences, for sequence models.
    n_samples : int, default=1000
        Number of samples from the average of the training distributions, which are drawn once in ``fit``; with
        ``proposal="pairs"``, from each distribution.
    proposal : {"average", "pairs"}, default="average"
        What the samples are drawn from: the average of the training distributions, or the two distributions of each
        pair, as in the source. With "pairs" nothing is learned from the training distributions, the cost is
        ``n_samples`` densities for each pair, and the matrix is not positive semi-definite.
    beta : float, default=0.5
        With ``proposal="pairs"``, the share of the samples of the first distribution of a pair, from 0 to 1. The first
        is the one of the row; the lower triangle of a Gram matrix is mirrored, as in the source. The kernel of two
        distributions depends on their order unless it is 1/2.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the samples; None draws a new one in every fit.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    samples_ : array of shape (n_samples, ...) or Sequences
        The samples; with ``proposal="average"`` only.
    log_proposal_ : array of shape (n_samples,)
        Their log densities under the average of the training distributions.

    Notes
    -----
    With samples :math:`x_i` of the average g of the training distributions (PPK-5b),

    .. math:: k(p, q) \approx \frac1N \sum_i \frac{p(x_i)^\rho\, q(x_i)^\rho}{g(x_i)},

    an inner product of explicit features, so that every matrix is positive semi-definite. It estimates the power of the
    marginal density, for models with hidden variables too.

    With ``proposal="pairs"`` (PPK-5a) and T samples :math:`x_i` of p and :math:`y_i` of q,

    .. math:: k(p, q) \approx \frac\beta T \sum_i w_p(x_i)\, q(x_i)^\rho
              + \frac{1-\beta}T \sum_i w_q(y_i)\, p(y_i)^\rho

    At :math:`\rho = 1`, :math:`w = 1`. At other powers, families that are closed under powers (`Gaussians`,
    `Categoricals`, `Multinomials` of one trial, `Bernoullis`, `Exponentials` and, where it is proper, `Gammas`) are
    sampled from :math:`p^\rho / Z_p` with :math:`w_p = Z_p = \int p^\rho`, as in the source; others from p, with
    :math:`w_p(x) = p(x)^{\rho-1}`. Without normalization the estimate of a pair is unbiased, and its variance
    decreases as 1/T. The samples of a distribution are the same in all pairs.

    An object of your own has ``log_prob(X)``, which returns ``(n,)`` for n points, and ``sample(size)``, which returns
    n points, one per row. If ``sample`` has parameters ``random_state`` (an int) or ``length``, they are passed; torch
    is seeded.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Gaussians(mean=[[0.0], [1.0], [3.0]], covariance=[1.0, 1.0, 2.0])
    >>> exact = mc.ProbabilityProduct(rho=0.5)(p)
    >>> kernel = mc.Sampled(n_samples=3000)
    >>> K = kernel.fit_transform(p)
    >>> bool((abs(K - exact) <= 4 * kernel.standard_errors(p)).all())
    True
    """

    _parameters: ClassVar[Rules] = {
        "n_samples": whole(1),
        "rho": rho(),
        "length": whole(1, LONGEST, cure="It is the number of observations of the sampled sequences."),
        "random_state": seed(),
        "proposal": one_of("average", "pairs"),
        "beta": between(0, 1, cure="It is the share of the samples of the first distribution of a pair."),
    }
    _smooth = {"rho": (0.05, 5.0)}  # noqa: RUF012
    _why_zero = " (its density is zero at all samples: increase n_samples)"

    model: Any = None
    rho: float = 0.5
    length: int = 10
    n_samples: int = 1000
    proposal: str = "average"
    beta: float = 0.5
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

    @property
    def psd(self) -> Verdict:
        """Whether every Gram matrix is positive semi-definite: not if pairs have samples of their own."""
        if self.proposal == "pairs":
            seen = "seen: smallest eigenvalue -0.11 of 12 Gaussians with 20 samples each"
            return Verdict("no", f"every pair has samples of its own; {seen} (PPK-5a)")
        return Verdict("always", "an inner product of explicit features, for every number of samples (PPK-5b)")

    @property
    def _needs_fit(self) -> str:
        return "" if self.proposal == "pairs" else "its samples come from the training distributions"

    def _smooth_parameters(self) -> tuple[str, ...]:
        return () if self.proposal == "pairs" else super()._smooth_parameters()  # draws of discrete powers jump

    # -- fitting -----------------------------------------------------------------------------------------

    def _cheap_pairs(self, source: Any) -> bool:
        return True

    def _accept(self, X: Any, *, reset: bool) -> Any:
        items = X.ravel().tolist() if isinstance(X, np.ndarray) and X.dtype == object else X
        if not isinstance(items, list | tuple) or not _are_distributions(items, self.model):
            return super()._accept(X, reset=reset)
        first = items[0]
        if isinstance(first, Batch) and all(type(item) is type(first) for item in items):
            batch = type(first).concat([item if item.ndim else item.reshape(1) for item in items])
            return super()._accept(batch, reset=reset)
        objects = Objects(list(items))
        objects.require(*("log_prob", "sample")[: 1 + (reset or self.proposal == "pairs")])
        return objects

    def _learn(self, X: Any, y: Any = None) -> None:
        for name in ("samples_", "log_proposal_"):
            self.__dict__.pop(name, None)
        self._seed = seed_of(self.random_state)
        if isinstance(X, Objects):
            self.__dict__.pop("context_", None)
        else:
            super()._learn(X, y)

    def _learned(self) -> Any:
        # The samples depend on the training distributions, which their densities identify.
        return getattr(self, "_seed", None), getattr(self, "log_proposal_", None)

    def _source(self, X: Any) -> Any:
        if isinstance(X, Objects):
            return X
        batch = super()._source(X)
        for name in ("log_prob", "sample"):
            if not hasattr(batch, name):
                raise TypeError(f"Sampled needs distributions with {name}; {type(batch).__name__} do not have it.")
        return in_numpy(batch)

    def _training(self, X: Any) -> Any:
        source = super()._training(X)
        if self.proposal == "pairs":
            return source
        n, size = len(source), int(self.n_samples)
        own = seeds(source, self._seed)
        counts = np.full(n, size // n)  # as many from each, which varies less than random numbers
        counts[np.argsort(own, kind="stable")[: size % n]] += 1  # by content, not by position
        drawn = [draw(source, i, int(counts[i]), self.length, own[i]) for i in range(n) if counts[i]]
        self.samples_ = joined(drawn)
        values = densities(source, self.samples_)
        self.log_proposal_ = np.asarray(logsumexp(values, axis=0) - np.log(n))
        if not np.isfinite(self.log_proposal_).all():
            i = int(np.searchsorted(np.cumsum(counts), np.argmin(self.log_proposal_), side="right"))
            raise ValueError(
                f"object {i} has the density 0 at a point that it has drawn itself. Its log_prob and sample must "
                "belong to the same distribution."
            )
        self._train_side.keep("densities", values)
        return source

    # -- evaluation --------------------------------------------------------------------------------------

    def _prepare(self, source: Any) -> LogFeatures | PairDraws:
        if self.proposal == "pairs":
            size, power = int(self.n_samples), float(self.rho)
            return PairDraws.of(source, seeds(source, self._seed), size, self.length, power, float(self.beta))
        values = self._kept(source, "densities")
        values = densities(source, self.samples_) if values is None else values
        return LogFeatures(self.rho * values - (np.log(self.n_samples) + self.log_proposal_) / 2)

    def _features(self, a: Any) -> Array:
        if self.proposal == "pairs":
            raise NoFeatures("Sampled(proposal='pairs') has no explicit features. Use proposal='average'.")
        return a.values

    def _feature_names(self, width: int) -> list[str]:
        return [f"sample[{i}]" for i in range(width)]

    def standard_errors(self, X: Any, Y: Any = None) -> Floats:
        """Return the standard error of each entry of ``kernel(X, Y)``, from the spread over the samples.

        It is infinite, and the entry unreliable, if the samples do not cover an object: fewer than about 20 contribute
        to its norm. An error ten times smaller needs a hundred times as many samples.

        Parameters
        ----------
        X, Y : data
            As in ``kernel(X, Y)``.

        Returns
        -------
        array of shape (N, M)
        """
        if int(self.n_samples) < 2:
            raise ValueError("n_samples must be 2 or more for standard errors; got 1.")
        kernel, a, b = self.operands(X, Y)
        left, right = a.operand, (a if b is None else b).operand
        if isinstance(left, PairDraws):
            return left.standard_errors(right, bool(kernel.normalize))
        # `spread` takes cosines and sines: the features, and zeros.
        rows, columns = (np.concatenate([side.scaled, np.zeros_like(side.scaled)], axis=1) for side in (left, right))
        errors = spread(rows, columns, bool(kernel.normalize))
        return errors if kernel.normalize else errors * np.exp(left.log_scale[:, None] + right.log_scale)


def _are_distributions(items: Any, model: Any) -> bool:
    """Whether a list contains distributions, not data to fit a model to."""
    if not len(items):
        return False
    if model is None:
        return not isinstance(items[0], str | list | tuple | np.ndarray) and not np.isscalar(items[0])
    return hasattr(items[0], "sample") and hasattr(items[0], "log_prob")
