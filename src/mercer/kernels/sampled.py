"""Kernels between distributions from which we can sample (Jebara, Kondor and Howard 2004, section 5)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_torch_array

from mercer._array import Array, Floats, logsumexp, namespace, to_numpy
from mercer._batch import Batch
from mercer._parameters import Rules, rho, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.kernels._operands import LogFeatures, LogPairs
from mercer.kernels._windows.random import spread
from mercer.kernels.base.model import LONGEST, ModelKernel


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
        Number of samples from the average of the training distributions, which are drawn once in ``fit``.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the samples; None draws a new one in every fit.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    samples_ : array of shape (n_samples, ...) or Sequences
        The samples.
    log_proposal_ : array of shape (n_samples,)
        Their log densities under the average of the training distributions.

    Notes
    -----
    With samples :math:`x_i` of the average g of the training distributions (PPK-5b),

    .. math:: k(p, q) \approx \frac1N \sum_i \frac{p(x_i)^\rho\, q(x_i)^\rho}{g(x_i)},

    an inner product of explicit features, so that every matrix is positive semi-definite. It estimates the power of the
    marginal density, for models with hidden variables too.

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
    }
    _smooth = {"rho": (0.05, 5.0)}  # noqa: RUF012
    _needs_fit = "its samples come from the training distributions"
    _why_zero = " (its density is zero at all samples: increase n_samples)"

    psd = Verdict("always", "an inner product of explicit features, for every number of samples (PPK-5b)")

    model: Any = None
    rho: float = 0.5
    length: int = 10
    n_samples: int = 1000
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

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
        objects.require(*("log_prob", "sample")[: 1 + reset])
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
        for name in ("log_prob", "sample"):
            if not hasattr(batch, name):
                raise TypeError(f"Sampled needs distributions with {name}; {type(batch).__name__} do not have it.")
        return in_numpy(batch)

    def _training(self, X: Any) -> Any:
        source = super()._training(X)
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

    def _prepare(self, source: Any) -> LogFeatures:
        values = self._kept(source, "densities")
        values = densities(source, self.samples_) if values is None else values
        return LogFeatures(self.rho * values - (np.log(self.n_samples) + self.log_proposal_) / 2)

    def _features(self, a: LogFeatures) -> Array:
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


class Objects:
    """Distributions of the user's own: objects with ``log_prob(X)`` and ``sample(size)``."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Any) -> Objects:
        picked = range(len(self))[key] if isinstance(key, slice) else np.arange(len(self))[key]
        return Objects([self.items[i] for i in picked])

    def matched(self, reference: Any) -> Objects:
        """Return the objects; raise if the other side is a batch."""
        if not isinstance(reference, Objects):
            raise TypeError(
                f"Sampled got a list of objects on one side and {type(reference).__name__} on the other. Pass lists on "
                "both sides, such as list(batch)."
            )
        return self

    def require(self, *methods: str) -> None:
        """Raise if an object lacks one of the methods."""
        for i, item in enumerate(self.items):
            for name in methods:
                if not callable(getattr(item, name, None)):
                    raise TypeError(
                        f"object {i} is of type {type(item).__name__}, which has no method {name}. Sampled compares "
                        "objects with log_prob(X) and sample(size); to fit a model to each sample of data, give "
                        "Sampled(model=...)."
                    )


def in_numpy(batch: Batch) -> Batch:
    """Return a batch of NumPy arrays: draws and their densities have no gradient."""
    return batch._map(lambda _, x: x if hasattr(x, "indptr") else to_numpy(x), lambda _, part: in_numpy(part))


def seeds(source: Batch | Objects, seed: int) -> list[int]:
    """Return the seed of every object: that of a member of a batch depends on its content, others on the position."""
    if isinstance(source, Batch):
        words: Any = [[int.from_bytes(digest, "little")] for digest in source.digests()]
    else:
        words = [[i] for i in range(len(source))]
    return [int(np.random.SeedSequence([seed, *word]).generate_state(1)[0]) for word in words]


def draw(source: Batch | Objects, i: int, size: int, length: int, seed: int) -> Any:
    """Draw ``size`` points of object i: an array ``(size, ...)`` of NumPy or torch, or `Sequences`."""
    if isinstance(source, Objects):
        return _from_object(source.items[i], i, size, length, seed)
    one: Any = source[i : i + 1]
    if "length" not in _parameters(one.sample):
        return one.sample(size, random_state=seed)[0]
    if getattr(one, "end", False):
        raise ValueError(
            f"{type(one).__name__} with end=True have sequences of all lengths, and samples are cut at length = "
            f"{length}. Fit them with end=False."
        )
    points = np.asarray(one.sample(length, size, random_state=seed)[0])
    return Sequences.from_codes(points, one.alphabet) if points.ndim == 2 else Sequences(list(points))


def _from_object(item: Any, i: int, size: int, length: int, seed: int) -> Any:
    names = _parameters(item.sample)
    options: dict[str, Any] = {"length": length} if "length" in names else {}
    if "random_state" in names:
        options["random_state"] = seed
    count: Any = (size,) if names & {"sample_shape", "shape"} else size
    with _torch(seed):
        points = item.sample(count, **options)
    if isinstance(points, tuple):  # points and their labels or densities, as of scikit-learn's mixtures
        points = points[0]
    if not isinstance(points, Sequences):
        points = points.detach() if is_torch_array(points) else np.asarray(points)
    if len(points) != size:
        raise ValueError(f"sample({size}) of object {i} must return {size} points, one per row; got {len(points)}.")
    values = to_numpy(points.values if isinstance(points, Sequences) else points)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"object {i} has drawn a point that is not finite. Check its parameters.")
    return points


def _parameters(method: Any) -> set[str]:
    try:
        return set(inspect.signature(method).parameters)
    except (TypeError, ValueError):  # of compiled code
        return set()


@contextmanager
def _torch(seed: int | None = None) -> Iterator[None]:
    """Switch off gradients and, with a seed, seed torch, whose generators are restored at the end."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.no_grad():
        if seed is None:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            yield


def joined(parts: list[Any]) -> Any:
    """Concatenate draws of several objects."""
    if isinstance(parts[0], Sequences):
        return Sequences.concat(parts)
    shapes = {tuple(part.shape[1:]) for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"The objects draw points of different shapes, {' and '.join(map(str, sorted(shapes)))}.")
    xp = namespace(*parts)
    whole: Array = xp.concat(parts, axis=0)
    return whole


def densities(source: Batch | Objects, points: Any) -> Floats:
    """Return the log density of every point under every object, ``(N, T)``; -inf where it is zero."""
    count = len(points)
    with _torch():
        if isinstance(source, Objects):
            values = np.empty((len(source), count))
            for i, item in enumerate(source.items):
                found = to_numpy(item.log_prob(points))
                if found.shape != (count,):
                    raise ValueError(
                        f"log_prob of object {i} must return one number per point, shape ({count},); got shape "
                        f"{found.shape}. Sum over the coordinates, as torch.distributions.Independent does."
                    )
                values[i] = found
        else:
            values = np.asarray(to_numpy(source.log_prob(points)), dtype=np.float64)  # type: ignore[attr-defined]
    bad = np.argwhere(np.isnan(values) | (values == np.inf))
    if len(bad):
        i, t = bad[0]
        raise ValueError(
            f"object {i} has the log density {values[i, t]} at a sampled point; densities must be finite. Check its "
            "parameters; a point mass or a singular covariance has no density."
        )
    return values
