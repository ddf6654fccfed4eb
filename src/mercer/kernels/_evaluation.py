"""Evaluation of kernels: the stages from input to matrix, normalization, logarithms, and the memo of pairs.

A sample passes through five stages, and the names in `mercer.kernels` refer to them:

=========== ============================================================ ====================================
stage       meaning                                                      made by
=========== ============================================================ ====================================
*input*     the argument of the user: strings, a data frame, a batch     the user
*accepted*  checked data: a matrix, `Sequences`, a batch                 ``kernel._accept(input)``
*source*    compared objects: a batch of models, or the accepted data    ``kernel._source(accepted)``
*operand*   a source after all work that needs only one side             ``kernel._prepare(source)``
*prepared*  an operand with the self-kernels that normalize it           ``Evaluation(kernel).prepared(source)``
=========== ============================================================ ====================================

For ``ProbabilityProduct(HMM())`` these are strings, `Sequences`, `HMMs`, coupled chains, and coupled chains with their
norms; for ``Fisher(HMM())`` strings, `Sequences`, the same `Sequences`, whitened scores, and scores with their norms.
Two prepared sides give tiles, ``kernel.tile(a, b)``, from which the engine fills a matrix.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any

import joblib
import numpy as np
from array_api_compat import is_array_api_obj

from mercer._array import Array, Floats, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer._checks import is_number
from mercer._config import settings
from mercer._immutable import cached_property
from mercer.data.segments import data_digests
from mercer.gram.engine import fill
from mercer.gram.pair_memo import gather
from mercer.kernels._data import has_digests, object_name, take

LOG_RANGE = 1.0
"""If log self-kernels differ by less, distances use a formula that does not cancel."""


class ZeroNorm(ValueError):
    """An object has zero norm, so that it cannot be normalized."""


class Prepared:
    """An operand and the self-kernels that normalize it; the engine slices it into tiles."""

    def __init__(self, operand: Any, norm: Array | None, zero: Floats | None = None) -> None:
        self.operand = operand
        self.norm = norm
        self.zero = zero

    @property
    def order(self) -> Floats | None:
        """The operand's hint: neighbors have similar cost."""
        return getattr(self.operand, "order", None)

    @property
    def tile_hint(self) -> int:
        """The operand's hint: number of rows of a tile."""
        return int(getattr(self.operand, "tile_hint", 256))

    def __len__(self) -> int:
        return len(self.operand)

    def __getitem__(self, key: Any) -> Prepared:
        norm = None if self.norm is None else self.norm[..., key]
        return type(self)(self.operand[key], norm, None if self.zero is None else self.zero[..., key])


class Side:
    """One side of a matrix: a source and the results computed from it, each computed when first needed.

    The side of the training data lives as long as its kernel, so that ``transform`` prepares and digests the new
    samples only. It is neither pickled nor copied. No lock is held during a computation: two threads that
    need a result at the same time both compute it, and one of the results is kept.

    Parameters
    ----------
    source : batch or data
        The compared objects; None until the training data are known.
    """

    def __init__(self, source: Any = None) -> None:
        self.source = source
        self._made: dict[str, tuple[Any, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "_made": {}}  # the rest can be computed again, and may be large or on a device

    def once(self, name: str, parameters: Any, make: Callable[[], Any]) -> Any:
        """Return the result of ``make`` for the current values of the kernel's parameters."""
        known = self._made.get(name)
        if known is not None and _unchanged(known[0], parameters):
            return known[1]
        value = make()
        self._made[name] = (parameters, value)
        return value

    def digests(self) -> list[bytes]:
        """Return the digest of every object; always the same list."""
        digests: list[bytes] = self.once("digests", (), lambda: data_digests(self.source))
        return digests

    def keep(self, name: str, value: Any) -> None:
        """Keep a result of ``fit`` until the operand is made from it."""
        self._made[name] = ((), value)

    def spend(self, name: str) -> Any:
        """Return the kept result once, then None."""
        found = self._made.pop(name, None)
        return None if found is None else found[1]


def same(old: Any, new: Any) -> bool:
    """Whether two values are equal: the same object (the fast case), equal numbers, or equal content."""
    if old is new:
        return True
    if is_number(old) and is_number(new):
        return bool(old == new)
    try:
        return type(old) is type(new) and bool(joblib.hash(_content(old)) == joblib.hash(_content(new)))
    except Exception:  # values that cannot be pickled, such as two lambdas
        return False


def _content(value: Any) -> Any:
    """Convert arrays of any library to NumPy: joblib gives equal torch tensors different hashes."""
    if isinstance(value, Batch):
        return value._pack()
    return to_numpy(value) if is_array_api_obj(value) else value


def _unchanged(then: Any, now: Any) -> bool:
    return len(then) == len(now) and all(a[0] == b[0] and same(a[1], b[1]) for a, b in zip(then, now, strict=True))


def evaluation_of(kernel: Any) -> Evaluation:
    """Return the evaluation of a kernel: one that knows devices if there can be one."""
    if settings().device is None and "torch" not in sys.modules:
        return Evaluation(kernel)
    from mercer.kernels._device_choice import DeviceEvaluation  # knows kernels, which import this module

    return DeviceEvaluation(kernel)


class Evaluation:
    """The values of a kernel that can be evaluated: prepared sides, tiles, diagonals and matrices.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel, or a copy fitted to the data of the call.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.log_domain = kernel.domain == "log"

    @cached_property
    def _parameters(self) -> tuple[tuple[str, Any], ...]:
        found: tuple[tuple[str, Any], ...] = self.kernel._current_parameters()
        return found

    # -- one side --------------------------------------------------------------------------------------------

    def side(self, source: Any) -> Side:
        """Return the side of a source; the side of the training data exists already."""
        kernel = self.kernel
        training = source is not None and source is getattr(kernel, "train_", None)
        side: Side = kernel._train_side if training else Side(source)
        return side

    def prepared(self, source: Any) -> Prepared:
        """Prepare a source; the training data only once per fit and parameter values."""
        return self.prepared_side(self.side(source))

    def prepared_side(self, side: Side) -> Prepared:
        """Return the prepared objects of a side."""
        made: Prepared = side.once(
            "prepared", self._parameters, lambda: self._normalized(self.kernel._prepare(side.source), side.source)
        )
        return made

    def prepared_for_matrix(self, side: Side) -> Prepared:
        """Return the prepared objects of a side where matrices of them are computed."""
        return self.prepared_side(side)

    def sides(self, left: Any, right: Any) -> tuple[Prepared, Prepared | None]:
        """Prepare the sources of both sides of a matrix; the second is None for a symmetric one."""
        prepared = self.prepared_for_matrix
        return prepared(self.side(left)), None if right is None else prepared(self.side(right))

    def returned(self, values: Array, a: Prepared) -> Array:
        """Return values as the caller gets them."""
        return values

    def _normalized(self, operand: Any, source: Any) -> Prepared:
        kernel = self.kernel
        if not kernel.normalize:
            return Prepared(operand, None)
        with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite raise below
            norm = kernel._self(operand)
        xp = namespace(norm)
        values = to_numpy(norm)
        bad = np.argwhere(np.isnan(values) | (values == np.inf))
        if len(bad):
            raise ValueError(
                f"{object_name(source, bad[0][-1])} has a self-kernel that is not finite ({values[tuple(bad[0])]}). It "
                "cannot be normalized. Rescale the data, or set normalize=False."
            )
        zero = values == -np.inf if self.log_domain else values <= 0
        if not zero.any():
            return Prepared(operand, norm)
        name = type(kernel).__name__
        if not self.log_domain and values.min() < -1e-10 * np.abs(values).max():
            raise ValueError(
                f"{object_name(source, int(np.argmin(values)))} has the self-kernel {values.min():.4g} under {name}, "
                "which is not positive semi-definite and cannot be normalized. Wrap it in mc.kernels.Repaired first."
            )
        if kernel.on_zero == "raise":
            raise ZeroNorm(
                f"{object_name(source, np.argwhere(zero)[0][-1])} has zero norm under {name}{kernel._why_zero}, so it "
                "cannot be normalized. Leave it out, set on_zero='zero' to make it dissimilar to everything, or "
                "set normalize=False."
            )
        mask = beside(norm, zero)
        harmless = xp.zeros_like(norm) if self.log_domain else xp.ones_like(norm)
        return Prepared(operand, xp.where(mask, harmless, norm), zero)

    def diagonal(self, a: Prepared) -> Array:
        """Return self-kernels in the kernel's domain; exactly 1 for a normalized kernel."""
        if not self.kernel.normalize:
            with np.errstate(over="ignore"):  # infinite values raise in `exp`
                return self.kernel._self(a.operand)
        xp = namespace(a.norm)
        one = xp.zeros_like(a.norm) if self.log_domain else xp.ones_like(a.norm)
        if a.zero is None:
            return one
        return xp.where(beside(one, a.zero), -xp.inf if self.log_domain else 0.0, one)

    # -- tiles -----------------------------------------------------------------------------------------------

    def tile(self, a: Prepared, b: Prepared) -> Array:
        """Return a tile in the kernel's domain, normalized if ``normalize`` is set."""
        kernel = self.kernel
        with np.errstate(over="ignore", invalid="ignore"):  # NaN raises below, and infinite values raise in `exp`
            values = self.normalized(kernel._tile(a.operand, b.operand), a, b)
        xp = namespace(values)
        if bool(xp.any(xp.isnan(values))):
            raise ArithmeticError(
                f"{type(kernel).__name__} is NaN for a pair of objects. Check the data for numbers whose squares "
                "overflow; otherwise please report it with the data."
            )
        return values

    def normalized(self, values: Array, a: Prepared, b: Prepared) -> Array:
        """Divide a tile by the norms of its two sides, if ``normalize`` is set."""
        if a.norm is None or b.norm is None:
            return values
        if self.log_domain:
            values = values - (a.norm[..., :, None] / 2 + b.norm[..., None, :] / 2)
        else:
            xp = namespace(values)
            values = values / xp.sqrt(a.norm[..., :, None]) / xp.sqrt(b.norm[..., None, :])
        return self._silenced(values, a, b)

    def _silenced(self, values: Array, a: Prepared, b: Prepared) -> Array:
        """Set the kernel of objects of zero norm to exactly 0, without rounding errors."""
        xp = namespace(values)
        nothing = -xp.inf if self.log_domain else 0.0
        for zero, at in ((a.zero, (..., slice(None), None)), (b.zero, (..., None, slice(None)))):
            if zero is not None:
                values = xp.where(beside(values, zero[at]), nothing, values)
        return values

    def value_tile(self, a: Prepared, b: Prepared) -> Array:
        """Return a tile of kernel values, not of logarithms."""
        values = self.kernel._value_tile(a.operand, b.operand) if self.log_domain else None
        if values is None:
            return self.exp(self.tile(a, b))
        if a.norm is not None and b.norm is not None:
            values *= np.exp(-a.norm / 2)[:, None]
            values *= np.exp(-b.norm / 2)
        return values

    def exp(self, values: Array) -> Array:
        """Convert values in the kernel's domain to kernel values; raise if they overflow."""
        xp, name = namespace(values), type(self.kernel).__name__
        if not self.log_domain:
            if bool(xp.any(xp.isinf(values))):
                raise OverflowError(f"{name} has values that overflow. Rescale the data, or normalize the kernel.")
            return values
        if bool(xp.any(values > float(np.log(xp.finfo(values.dtype).max)))):
            raise OverflowError(
                f"{name} has values up to exp({to_numpy(values).max():.6g}), which overflow. Use "
                "kernel.log(X), or normalize the kernel."
            )
        return xp.exp(values)

    # -- matrices --------------------------------------------------------------------------------------------

    def matrix(self, a: Prepared, b: Prepared | None, *, log: bool = False) -> Array:
        """Compute the matrix of two prepared sides, or the Gram matrix of ``a``; ``log`` keeps the kernel's domain."""
        diagonal = None
        if b is None:
            diagonal = self.diagonal(a)
            if not log:
                diagonal = self.exp(diagonal)
        return self._fill(self.tile if log else self.value_tile, a, b, diagonal, type(self.kernel).__name__)

    def _fill(self, tile: Any, a: Prepared, b: Prepared | None, diagonal: Array | None, label: str) -> Array:
        return fill(tile, a, b, diagonal=diagonal, label=label)

    def distances(self, a: Prepared, b: Prepared | None) -> Array:
        """Compute the matrix of squared distances in feature space, k(x,x) + k(y,y) - 2 k(x,y) (KK-4)."""
        label = f"{type(self.kernel).__name__}.distance"
        if self.kernel._distance_tile(a[:1], (a if b is None else b)[:1]) is None:
            values = self.matrix(a, b, log=self.log_domain)
            own = self.returned(self.diagonal(a), a)
            other = own if b is None else self.returned(self.diagonal(b), b)
            return self.squared_distances(values, own, other)
        diagonal = np.zeros(len(a)) if b is None else None
        return self._fill(self.kernel._distance_tile, a, b, diagonal, label)

    def squared_distances(self, values: Array, own: Array, other: Array) -> Array:
        """Compute k(x,x) + k(y,y) - 2 k(x,y) from values and self-kernels in the kernel's domain (KK-4)."""
        xp = namespace(values)
        own, other = own[..., :, None], other[..., None, :]
        plain = self.exp(own) + self.exp(other) - 2 * self.exp(values)
        if self.log_domain:
            # If self-kernels are similar, avoid cancellation: 2 e^h (cosh g - e^(log k - h)), h their mean.
            safe, safe_other = (xp.where(side > -xp.inf, side, xp.zeros_like(side)) for side in (own, other))
            alike = (own > -xp.inf) & (other > -xp.inf) & (xp.abs(safe - safe_other) < LOG_RANGE)
            mean = (safe + safe_other) / 2
            gap = xp.where(alike, safe - safe_other, xp.zeros_like(mean)) / 4
            excess = xp.where(alike, values - mean, xp.zeros_like(values))
            close = self.exp(xp.where(alike, mean, xp.zeros_like(mean))) * (
                4 * xp.sinh(gap) ** 2 - 2 * xp.expm1(excess)
            )
            plain = xp.where(alike, close, plain)
        return xp.clip(plain, 0.0, None)

    def remembered(self, left: Side, right: Side | None, *, log: bool = False) -> Array:
        """Return the matrix of two sides through the memo of pairs; ``right=None`` for the symmetric one of ``left``.

        A side is prepared as a whole, so that messages can name an object by its position in the data, and only if a
        pair is missing from the memo.
        """
        setting = self._setting(left, right)
        prepared = self.prepared_for_matrix
        if setting is None:
            return self.matrix(prepared(left), None if right is None else prepared(right), log=log)

        def rectangle(rows: Floats, columns: Floats | None) -> Floats:
            other = None
            if columns is not None:
                other = take(prepared(left if right is None else right), columns)
            return np.asarray(self.matrix(take(prepared(left), rows), other, log=log))

        digests = None if right is None else right.digests()
        return gather((setting, "log") if log else setting, left.digests(), digests, rectangle)

    def _setting(self, left: Side, right: Side | None) -> Hashable | None:
        """Return a key of all that values depend on, except the objects; None if values are not kept in the memo."""
        kernel, sides = self.kernel, (left,) if right is None else (left, right)
        if (
            settings().memo_bytes == 0
            or kernel._cheap_pairs(left.source)
            or not all(has_digests(side.source) for side in sides)
        ):
            return None
        found: Hashable | None = kernel._train_side.once("setting", self._parameters, kernel._setting)
        return found
