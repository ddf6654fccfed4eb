"""Kernels between distributions from which we can sample (Jebara, Kondor and Howard 2004, section 5)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, logsumexp, to_numpy
from mercer._batch import Batch
from mercer._parameters import NONE, Rules, between, gamma, one_of, rho, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.kernels._draws import Objects, densities, draw, in_numpy, joined, seeds, vectors
from mercer.kernels._operands import LogFeatures
from mercer.kernels._sampled import TwoSided, common_effective, common_errors, mean_map_errors
from mercer.kernels._windows.points import WindowSets
from mercer.kernels.base.model import LONGEST, ModelKernel
from mercer.kernels.base.transformer import WIDE, NoFeatures


class Sampled(ModelKernel):
    r"""Probability product or mean map kernel between any distributions, estimated from samples.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a distribution to each sample, as ``model.fit_each``. None compares distributions: a batch,
        or a list of objects with ``log_prob`` and ``sample``.
    n_samples : int, default=1000
        Number of samples: from the common proposal, or from each distribution.
    rho : float, default=0.5
        The power of the probability product.
    proposal : {"common", "two-sided"}, default="common"
        Where the samples come from. "common": the average of the training distributions, drawn once in ``fit``.
        "two-sided": the two compared distributions, as in the source; not positive semi-definite.
    beta : float, default=0.5
        For "two-sided": the weight of the samples of the row in ``kernel(X, Y)`` and ``transform``, from 0 to 1; those
        of the column have the rest. Symmetric matrices use 1/2.
    base : {"rbf"} or None, default=None
        None estimates the probability product. "rbf" estimates the mean map kernel with the base kernel
        ``exp(-gamma |x - y|^2)`` from samples of both distributions; it needs no ``log_prob``, and ignores ``rho``,
        ``proposal`` and ``beta``.
    gamma : float, default=1.0
        Parameter of the base kernel.
    length : int, default=10
        Length of the sampled sequences, for sequence models.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the samples; None draws a new one in every fit.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    samples_ : array of shape (n_samples, ...) or Sequences
        The samples of the common proposal.
    log_proposal_ : array of shape (n_samples,)
        Their log densities under the proposal.

    Notes
    -----
    With samples :math:`x_i` of the average g of the training distributions (PPK-5b),

    .. math:: k(p, q) \approx \frac1N \sum_i \frac{p(x_i)^\rho\, q(x_i)^\rho}{g(x_i)},

    an inner product of explicit features, so that every matrix is positive semi-definite. "two-sided" (PPK-5a) is
    :math:`\beta E_{x \sim p}[p(x)^{\rho-1} q(x)^\rho] + (1-\beta) E_{y \sim q}[q(y)^{\rho-1} p(y)^\rho]`. At other
    powers than 1, an object with a method ``tempered(rho)`` that returns :math:`\log\int p^\rho` and the distribution
    proportional to :math:`p^\rho` is sampled from the latter, as in the source. Both estimate the power of
    the marginal density, for models with hidden variables too.

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
        "proposal": one_of("common", "two-sided"),
        "beta": between(0, 1, cure="It is the weight of the samples of the row."),
        "base": one_of("rbf", cure="None estimates the probability product.") | NONE,
        "gamma": gamma(),
        "length": whole(1, LONGEST, cure="It is the number of observations of the sampled sequences."),
        "random_state": seed(),
    }
    _smooth = {"rho": (0.05, 5.0), "gamma": WIDE}  # noqa: RUF012

    def __init__(
        self,
        model: Any = None,
        n_samples: int = 1000,
        rho: float = 0.5,
        proposal: str = "common",
        beta: float = 0.5,
        base: str | None = None,
        gamma: float = 1.0,
        length: int = 10,
        random_state: Any = 0,
        normalize: bool = True,
        on_zero: str = "raise",
    ) -> None:
        self.model = model
        self.n_samples = n_samples
        self.rho = rho
        self.proposal = proposal
        self.beta = beta
        self.base = base
        self.gamma = gamma
        self.length = length
        self.random_state = random_state
        self.normalize = normalize
        self.on_zero = on_zero

    @property
    def _kind(self) -> str:
        return "mean map" if self.base is not None else self.proposal

    # -- fitting -----------------------------------------------------------------------------------------

    @property
    def _needs_fit(self) -> str:
        return "its samples come from the training distributions" if self._kind == "common" else ""

    @property
    def _why_zero(self) -> str:  # type: ignore[override]
        return " (its density is zero at all samples: increase n_samples, or use proposal='two-sided')"

    def _smooth_parameters(self) -> tuple[str, ...]:
        return ("rho",) if self.base is None else ("gamma",)

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "n_samples", "proposal", "base", "length", "random_state")

    def _cheap_pairs(self, source: Any) -> bool:
        return self.base is None

    def _accept(self, X: Any, *, reset: bool) -> Any:
        items = X.ravel().tolist() if isinstance(X, np.ndarray) and X.dtype == object else X
        if not isinstance(items, list | tuple) or not _are_distributions(items, self.model):
            return super()._accept(X, reset=reset)
        first = items[0]
        if isinstance(first, Batch) and all(type(item) is type(first) for item in items):
            batch = type(first).concat([item if item.ndim else item.reshape(1) for item in items])
            return super()._accept(batch, reset=reset)
        objects = Objects(list(items))
        needed = {"mean map": ("sample",), "common": ("log_prob", "sample")[: 1 + reset]}
        objects.require(*needed.get(self._kind, ("log_prob", "sample")))
        return objects

    def _learn(self, X: Any, y: Any = None) -> None:
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
        for name in ("sample",) if self._kind == "mean map" else ("log_prob", "sample"):
            if not hasattr(batch, name):
                raise TypeError(f"Sampled needs distributions with {name}; {type(batch).__name__} do not have it.")
        return in_numpy(batch)

    def _training(self, X: Any) -> Any:
        source = super()._training(X)
        for name in ("samples_", "log_proposal_"):
            self.__dict__.pop(name, None)
        if self._kind != "common":
            return source
        n, size = len(source), int(self.n_samples)
        own = seeds(source, self._seed, apart=True)
        counts = np.full(n, size // n)  # as many from each, which varies less than random numbers
        counts[np.argsort(own, kind="stable")[: size % n]] += 1  # by content, not by position
        drawn = [draw(source, i, int(counts[i]), self.length, own[i]) for i in range(n) if counts[i]]
        self.samples_ = joined(drawn)
        values = densities(source, self.samples_)
        self.log_proposal_ = np.asarray(logsumexp(values, axis=0) - np.log(n))
        if not np.isfinite(self.log_proposal_).all():
            i = int(np.searchsorted(np.cumsum(counts), np.argmin(self.log_proposal_), side="right"))
            raise ValueError(_disagree(i))
        self._train_side.keep("densities", values)
        return source

    # -- evaluation --------------------------------------------------------------------------------------

    def _prepare(self, source: Any) -> LogFeatures | TwoSided | WindowSets:
        if self._kind == "mean map":
            rows = [vectors(points) for points in self._own_draws(source, source)]
            if len({row.shape[1] for row in rows}) > 1:
                raise ValueError("The objects draw points of different dimensions.")
            return WindowSets(Sequences(np.stack(rows)), 0, float(self.gamma))
        if self._kind == "two-sided":
            return self._two_sided(source)
        values = self._kept(source, "densities")
        values = densities(source, self.samples_) if values is None else values
        return LogFeatures(self.rho * values - (np.log(self.n_samples) + self.log_proposal_) / 2)

    def _own_draws(self, source: Any, drawn: Any) -> list[Any]:
        """Draw from each of ``drawn``, with the seeds of ``source``."""
        own, size = seeds(source, self._seed), int(self.n_samples)
        return [draw(drawn, i, size, self.length, own[i]) for i in range(len(source))]

    def _two_sided(self, source: Any) -> TwoSided:
        power = float(self.rho)
        log_normalizers, drawn = _tempered(source, power)
        points = self._own_draws(source, drawn)
        own = np.stack([densities(source[i : i + 1], points[i])[0] for i in range(len(source))])
        bad = np.flatnonzero(~np.isfinite(own).all(axis=1))
        if len(bad):
            raise ValueError(_disagree(int(bad[0])))
        if log_normalizers is None:
            weights = (power - 1) * own
        else:
            weights = np.broadcast_to(log_normalizers[:, None], own.shape)
        return TwoSided(source, points, weights, weights + power * own, power, float(self.beta), object())

    def _tile(self, a: Any, b: Any) -> Array:
        return a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()

    def _features(self, a: Any) -> Array:
        if not isinstance(a, LogFeatures):
            raise NoFeatures(
                "Sampled has no finite explicit features, except with base=None and proposal='common'. Use its Gram "
                "matrix, or Landmarks(Sampled(...))."
            )
        return a.values

    def _feature_names(self, width: int) -> list[str]:
        return [f"sample[{i}]" for i in range(width)]

    # -- errors ------------------------------------------------------------------------------------------

    def standard_errors(self, X: Any, Y: Any = None) -> Floats:
        """Return the standard error of each entry of ``kernel(X, Y)``, from the spread over the samples.

        It is infinite, and the entry unreliable, if the samples do not cover an object: fewer than about 20 contribute
        to its norm under the common proposal, or those of a mean map are too far apart. An error ten times smaller
        needs a hundred times as many samples.

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
        left, right, normalize = a.operand, (a if b is None else b).operand, bool(kernel.normalize)
        if isinstance(left, TwoSided):
            return left.errors(right, normalize)
        if isinstance(left, WindowSets):
            return mean_map_errors(left, right, normalize)
        return common_errors(left, right, normalize)

    def effective_samples(self, X: Any, Y: Any = None) -> Floats:
        r"""Return the effective number of samples of each entry of ``kernel(X, Y)``.

        It is :math:`(\sum_i t_i)^2 / \sum_i t_i^2` over the terms :math:`t_i` of the sum: ``n_samples`` if all
        contribute equally, 1 if one dominates. The diagonal says how well the samples cover an object.

        Parameters
        ----------
        X, Y : data
            As in ``kernel(X, Y)``.

        Returns
        -------
        array of shape (N, M)
        """
        _, a, b = self.operands(X, Y)
        left, right = a.operand, (a if b is None else b).operand
        if isinstance(left, TwoSided):
            return left.effective(right)
        if isinstance(left, WindowSets):
            return np.full((len(left), len(right)), float(self.n_samples))  # all samples have the same weight
        return common_effective(left, right)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite, except with two-sided samples."""
        if self._kind == "mean map":
            return Verdict("always", "an inner product of empirical mean embeddings (MM-1)")
        if self._kind == "common":
            return Verdict("always", "an inner product of explicit features, for every number of samples (PPK-5b)")
        return Verdict(
            "no", "each pair has samples of its own; 12 Gaussians, 20 samples: a negative eigenvalue (PPK-5a)"
        )


def _are_distributions(items: Any, model: Any) -> bool:
    """Whether a list contains distributions, not data to fit a model to."""
    if not len(items):
        return False
    if model is None:
        return not isinstance(items[0], str | list | tuple | np.ndarray) and not np.isscalar(items[0])
    return hasattr(items[0], "sample") and hasattr(items[0], "log_prob")


def _tempered(source: Any, power: float) -> tuple[Floats | None, Any]:
    """Return log normalizers of p^rho and these distributions; None and the distributions themselves if unknown."""
    if power == 1:
        return None, source  # the weights p^(rho - 1) are 1
    if isinstance(source, Batch):
        if not hasattr(source, "tempered"):
            return None, source
        logs, drawn = source.tempered(power)
        return to_numpy(logs), drawn
    if not all(hasattr(item, "tempered") for item in source.items):
        return None, source
    pairs = [item.tempered(power) for item in source.items]
    return np.array([float(log) for log, _ in pairs]), Objects([item for _, item in pairs])


def _disagree(i: int) -> str:
    return (
        f"object {i} has the density 0 at a point that it has drawn itself. Its log_prob and sample must belong to the "
        "same distribution."
    )
