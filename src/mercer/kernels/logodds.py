"""Logarithms of kernels against chance, as linear kernels."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._parameters import Rules, nonnegative, number, one_of
from mercer._verdict import Verdict
from mercer.data.segments import data_digests
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import WithScalar
from mercer.kernels._trained import TrainedWrapper


@dataclass
class Identified(WithScalar):
    """An operand with the log chance of each object, and a number that equal objects share."""

    identity: Floats


@dataclass(eq=False, repr=False)
class LogOdds(TrainedWrapper):
    r"""Logarithm of a kernel against chance, as a linear kernel: :math:`\log\frac{k(x,y)}{c(x)\,c(y)}`.

    Parameters
    ----------
    kernel : Kernel
        A kernel that is never negative. Whether it is normalized makes no difference.
    chance : {"training", "model"}, default="training"
        The odds are against c(x) c(y). "training": c(x) is the geometric mean of k(x, z) over the training objects z,
        up to a constant, so that the log odds of every object with the training objects have mean zero. "model": c(x)
        is the probability of x under the model of a `Marginalization` kernel, so that k(x, y) / (c(x) c(y)) compares a
        shared hidden history with two independent ones.
    shift : float or "auto", default="auto"
        Added to the log odds of an object with itself, and with objects equal to it. "auto" learns the smallest shift
        that makes the training matrix positive semi-definite.
    floor : float, default=-700.0
        Replaces log kernels of -inf, or the smallest finite one of the training data does if it is lower.
    normalize : bool, default=True
        Whether to normalize the kernel, so that every self-kernel is 1.
    on_zero : {"raise", "zero"}, default="raise"
        Whether objects of zero norm raise an error or get zeros.

    Attributes
    ----------
    shift_ : float
        The shift: what was given, or learned with "auto". 0 if the log odds of the training data are positive
        semi-definite by themselves.

    Notes
    -----
    KK-6. With S the log odds and [x = y] 1 for equal objects and 0 for others, the kernel is
    S(x, y) + shift [x = y], for training and new objects alike. The matrix of the training objects is positive
    semi-definite. Rows of new objects with the training objects are log odds without a shift, except that a new object
    that equals a training object has the row of that object. A matrix of new objects is positive semi-definite if no
    eigenvalue of its log odds is below -shift, which is not guaranteed. It is guaranteed, and the shift is 0, if the
    kernel is infinitely divisible and ``chance="training"``: the logarithm is then conditionally positive definite.
    `Repaired` of this kernel is positive semi-definite for all objects. A shift above 0 is not continuous: two objects
    that are nearly equal do not have it.

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[0.0], [1.0], [5.0]]
    >>> odds = mc.kernels.LogOdds(mc.RBF(gamma=0.5), normalize=False)
    >>> odds.fit_transform(X).round(6)  # inner products of centered vectors
    array([[ 4.,  2., -6.],
           [ 2.,  1., -3.],
           [-6., -3.,  9.]])
    >>> odds.shift_
    0.0
    """

    _parameters: ClassVar[Rules] = {
        "chance": one_of("training", "model"),
        "shift": nonnegative("It is added to the diagonal.") | one_of("auto"),
        "floor": number("A log kernel of -inf is replaced by it."),
    }

    kernel: Any
    chance: str = "training"
    shift: float | str = "auto"
    floor: float = -700.0
    normalize: bool = True
    on_zero: str = "raise"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name = type(self.kernel).__name__
        if self.kernel.domain != "log" and not self.kernel.nonnegative:
            raise ValueError(
                f"kernel must have no negative values; got {name}, whose logarithm is undefined. Pass a kernel with "
                "positive values, such as mc.Marginalization(mc.AffinePairHMM())."
            )
        if self.chance == "model" and not hasattr(self.kernel, "_log_chance"):
            raise ValueError(
                f"chance='model' needs a kernel of one probability model; {name} has none. Use chance='training', or "
                "mc.Marginalization(model)."
            )

    @property
    def _by_model(self) -> bool:
        return self.chance == "model"

    @property
    def _has_reference(self) -> bool:  # type: ignore[override]
        return not self._by_model

    # -- learning ---------------------------------------------------------------------------------------------

    def _learn_gram(self) -> None:
        inner, train = self._inner, self._inner._train_side
        given = self._train_gram(log=True)
        logs = to_numpy(self._logs(given))
        finite = logs > -np.inf
        self._floor = min(float(self.floor), float(logs.min(where=finite, initial=np.inf)))
        logs = np.where(finite, logs, self._floor)
        self._level = 0.0 if self._by_model else float(logs.mean())
        own = self._log_chances(train, logs)
        if is_numpy_array(given):
            self._train_side.keep("chances", own)
        if isinstance(self.shift, str):
            first = np.unique(_identity(inner.train_), return_index=True)[1]  # equal objects have equal rows
            odds = (logs - own[:, None] - own)[np.ix_(first, first)]
            self.shift_ = least_shift(odds)
        else:
            self.shift_ = float(self.shift)

    def _log_chances(self, objects: Side, logs: Floats | None = None) -> Floats:
        """Return log c(x) of every object; ``logs`` are the log kernels with the training objects, if known."""
        if not self._by_model:
            columns = self._values(objects) if logs is None else logs
            return namespace(columns).mean(columns, axis=-1) - self._level / 2
        prepared = self._inner._evaluation.prepared_side(objects)
        found = self._inner._log_chance(objects.source)
        if prepared.norm is None:
            return found
        return found - prepared.norm / 2  # the log kernels are divided by the norms

    def _values(self, objects: Side) -> Array:
        """Return log kernels with the training objects, ``(N, n_train)``."""
        return self._floored(self._logs(self._columns(objects, log=True)))

    def _logs(self, values: Array) -> Array:
        """Return logarithms of values in the domain of the kernel."""
        return values if self._inner.domain == "log" else safe_log(values)

    def _floored(self, logs: Array) -> Array:
        xp = namespace(logs)
        return xp.where(logs > -xp.inf, logs, xp.full_like(logs, self._floor))

    def _learned(self) -> Any:
        return super()._learned(), getattr(self, "shift_", None)

    # -- values -----------------------------------------------------------------------------------------------

    def _prepare(self, source: Any) -> Any:
        objects = self._objects(source)
        identity = _identity(objects.source)
        numbers = self._kept(source, "chances")
        numbers = self._log_chances(objects) if numbers is None else numbers
        return Identified(self._operand(objects), numbers, identity)

    def _odds(self, logs: Array, a: Identified, b: Identified) -> Array:
        """Return the kernel of log kernels, ``(I, J)``, before normalization."""
        values = self._floored(self._logs(logs)) - a.numbers[:, None] - b.numbers[None, :]
        if self.shift_:
            values = values + self.shift_ * beside(values, a.identity[:, None] == b.identity, values.dtype)
        return values

    def _tile(self, a: Any, b: Any) -> Array:
        return self._odds(self._inner.tile(a.operand.parts[0], b.operand.parts[0]), a, b)

    def _self(self, a: Any) -> Array:
        logs = self._floored(self._logs(self._inner._evaluation.diagonal(a.operand.parts[0])))
        values, xp = logs - 2 * a.numbers + self.shift_, namespace(logs)
        # The log odds of an object that has nothing but the mean are rounding errors, which would be normalized to 1.
        size = xp.abs(logs) + 2 * xp.abs(a.numbers) + self.shift_ + float(self._inner.domain != "log")
        return xp.where(xp.abs(values) > 16 * xp.finfo(values.dtype).eps * size, values, xp.zeros_like(values))

    def _gram(self, left: Side, right: Side | None, *, log: bool = False) -> Array:
        # Uses the memo of the wrapped kernel: what `fit` has computed, and a search over chances and shifts.
        evaluation = self._evaluation
        a = evaluation.prepared_side(left)
        if not is_numpy_array(a.operand.numbers):
            return super()._gram(left, right, log=log)
        b = a if right is None else evaluation.prepared_side(right)
        sides = [None if side is None else self._objects(side.source) for side in (left, right)]
        values = evaluation.normalized(self._odds(self._inner._gram(*sides, log=True), a.operand, b.operand), a, b)
        if right is None:
            np.fill_diagonal(values, evaluation.diagonal(a))
        return evaluation.exp(values)

    # -- parts ------------------------------------------------------------------------------------------------

    @property
    def psd(self) -> Verdict:
        """Always if the kernel is infinitely divisible and chance is "training", else conditional."""
        if self.chance == "training" and self._inner.infinitely_divisible:
            return Verdict(
                "always", "the logarithm of an infinitely divisible kernel is conditionally positive definite (KK-2)"
            )
        return Verdict(
            "conditional", "the shift makes the matrix of the training objects positive semi-definite, not every matrix"
        )


def least_shift(matrix: Floats) -> float:
    """Return the smallest number that makes a symmetric matrix positive semi-definite if its diagonal grows by it."""
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    rounding = len(values) * np.finfo(float).eps * float(np.abs(values).max(initial=0.0))
    least = float(values.min(initial=0.0))
    return 0.0 if least >= -10 * rounding else float(rounding - least)


def _identity(source: Any) -> Floats:
    """Return a number per object, from its digest: the same for equal objects, ``(N,)``."""
    found = (blake2b(digest, digest_size=8).digest() for digest in data_digests(source))
    return np.frombuffer(b"".join(found), dtype=np.uint64)
