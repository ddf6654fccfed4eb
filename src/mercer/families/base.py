"""The base class of families of distributions, and what their declarations consist of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, cross_shape, namespace, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, Leaf, Operand
from mercer._parameters import Check
from mercer._random import random_generator, whole_size
from mercer.families.sets import Set, reals


class Parameter:
    """An array of parameters, one block per distribution, in the declaration of a family.

    Parameters
    ----------
    within : Set
        Where its entries lie: a member of `mercer.families.sets`.
    axes : int, default=1
        Trailing axes that belong to one distribution: 1 for one number per coordinate, 0 for a single one.
    moment : bool, default=False
        Whether it is the mean parameter itself; ``moments`` and ``from_moments`` then need no formula.
    known : bool, default=False
        Whether it is not a parameter of the exponential family but known. Only members with the same value are
        compared, and it is a parameter of the estimator.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.families.sets import positive
    >>> class Waits(mc.families.Coordinatewise):
    ...     scale = mc.families.Parameter(positive, moment=True)
    >>> Waits([[1.0, 2.0]]).scale
    array([[1., 2.]])
    >>> Waits([[1.0, -2.0]])
    Traceback (most recent call last):
    ValueError: scale must be positive and finite; got -2.0 at index (0, 1).
    """

    def __init__(self, within: Set = reals, axes: int = 1, *, moment: bool = False, known: bool = False) -> None:
        self.within, self.axes, self.moment, self.known = within, axes, moment, known

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def known_value(self, value: Any, dimension: int) -> Array:
        """Return a checked known value: a number stands for all coordinates, or for a multiple of the identity."""
        if np.ndim(value) == 0 and self.axes == 2:
            value = np.eye(dimension) * as_float(value, self.name)
        return self.within.parameter(value, self.name, 0 if np.ndim(value) == 0 else self.axes)

    def __get__(self, batch: Any, owner: Any = None) -> Any:
        """Return the declaration to the class; a member has the array of its own."""
        if batch is None:
            return self
        raise AttributeError(f"{type(batch).__name__} has no value of {self.name}")


class Constant:
    """A plain value that all members share, such as a number of trials, and a parameter of the estimator.

    Parameters
    ----------
    rule : callable
        ``rule(name, value)`` raises if a value is not allowed.
    default : object
        The default value.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.families.DirichletMultinomials.trials.default
    1
    """

    def __init__(self, rule: Check, default: Any) -> None:
        self.rule, self.default = rule, default

    def __get__(self, batch: Any, owner: Any = None) -> Any:
        """Return the declaration to the class, and the default to a member without a value."""
        return self if batch is None else self.default


class Family(Batch):
    """A batch of distributions of one family. Capabilities are optional methods with one shape rule.

    Leading batch axes align and the last axis of each side crosses, as in ``matmul``:
    ``(*B, n) x (*B, m) -> (*B, n, m)``.

    A subclass declares `Parameter` and `Constant` attributes, from which its constructor and checks follow, and the
    ``support`` of its points. With ``log_density(x)`` it has densities, with ``draw(rng, shape)`` samples. In such a
    formula, ``self`` is a batch whose parameters broadcast with the points.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Poissons([[1.0], [4.0], [9.0]])
    >>> isinstance(p, mc.families.Family), p.shape, p.log_product(p[:2]).shape
    (True, (3,), (3, 2))
    """

    tile_hint: int = 256
    support: ClassVar[Set] = reals
    """Set that the points lie in."""
    independent: ClassVar[bool] = False
    """Whether coordinates are independent, so that missing ones (NaN) are marginalized."""
    _declared: ClassVar[dict[str, Parameter]] = {}
    _constants: ClassVar[dict[str, Constant]] = {}
    _singular: ClassVar[Any] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for kind, store in ((Parameter, "_declared"), (Constant, "_constants")):
            setattr(cls, store, getattr(cls, store) | {n: v for n, v in vars(cls).items() if isinstance(v, kind)})
        if not cls._declared:
            return
        if "_arrays" not in vars(cls):
            cls._arrays = {name: parameter.axes for name, parameter in cls._declared.items()}
        if cls._constants and "_shared" not in vars(cls):
            cls._shared = tuple(cls._constants)
        if cls.__init__ is Family.__init__:
            defaults = dict.fromkeys(cls._declared, inspect.Parameter.empty)
            defaults |= {name: constant.default for name, constant in cls._constants.items()}
            either = inspect.Parameter.POSITIONAL_OR_KEYWORD
            cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                [inspect.Parameter(name, either, default=default) for name, default in defaults.items()]
            )
        else:  # a subclass with a constructor of its own
            cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                list(inspect.signature(cls.__init__).parameters.values())[1:]
            )

    # -- construction and checks -----------------------------------------------------------------------------

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self._declared:
            super().__init__(*args, **kwargs)
        given = inspect.signature(type(self)).bind(*args, **kwargs)
        given.apply_defaults()
        fields = given.arguments
        for name, constant in self._constants.items():
            constant.rule(name, fields[name])
        for name in self._free_names():
            parameter = self._declared[name]
            fields[name] = parameter.within.parameter(fields[name], name, parameter.axes)
        dimension = max((fields[name].shape[-1] for name in self._free_names() if self._declared[name].axes), default=1)
        for name, parameter in self._declared.items():
            if parameter.known:
                fields[name] = parameter.known_value(fields[name], dimension)
        self._freeze(**self._matched(fields))

    def _matched(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Spread known parameters over the members, and raise unless all describe equally many distributions."""
        first = max(self._free_names(), key=lambda name: self._declared[name].axes)
        shape, axes = tuple(fields[first].shape), self._declared[first].axes
        for name, parameter in self._declared.items():
            found = tuple(fields[name].shape)
            wanted = (*shape[: len(shape) - axes], *shape[len(shape) - 1 :] * parameter.axes)
            if parameter.known and found != wanted:
                try:
                    fields[name] = namespace(fields[name]).broadcast_to(fields[name], wanted)
                except ValueError:
                    raise ValueError(
                        f"{name} must have the shape {wanted}, or one that broadcasts to it; got {found}."
                    ) from None
            elif found != wanted:
                same = "the same shape" if parameter.axes == axes else "shapes of equally many distributions"
                raise ValueError(f"{first} and {name} must have {same}; got {shape} and {found}.")
        return fields

    @classmethod
    def standard(cls, dimension: int, **constants: Any) -> Self:
        """Return the standard member, of shape ``()``: every parameter at the center of its set."""
        arrays = {n: p.within.filled((dimension,) * p.axes, p.axes) for n, p in cls._declared.items()}
        return cls._make(**arrays, **({n: c.default for n, c in cls._constants.items()} | constants))

    @classmethod
    def _free_names(cls) -> list[str]:
        """Names of the parameters that are not known."""
        return [name for name, parameter in cls._declared.items() if not parameter.known]

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(next(getattr(self, name) for name, axes in self._arrays.items() if axes).shape[-1])

    def estimator(self) -> Any:
        """Return the estimator of this family, with its known parameters and constants."""
        if self._singular is None or self._singular.family is not type(self):
            raise NotImplementedError(f"{type(self).__name__} must implement estimator()")
        known = [name for name, parameter in self._declared.items() if parameter.known]
        values = {name: to_numpy(getattr(self.reshape(-1)[0], name)).tolist() for name in known if 0 not in self.shape}
        return self._singular(**{name: getattr(self, name) for name in self._constants}, **values)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution."""
        if not self._declared:
            raise NotImplementedError(f"{type(self).__name__} must implement n_parameters")
        sizes = (getattr(self, name).shape[len(self.shape) :] for name in self._free_names())
        return int(sum(np.prod(size, dtype=int) for size in sizes))

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare this batch for a coupling; ``lengths`` is ignored, since families are not models of sequences."""
        return Leaf(self, coupling)

    def _check_pair(self, other: Any) -> None:
        if not isinstance(other, Batch):
            raise TypeError(f"Expected {type(self).__name__} on the other side; got {type(other).__name__}.")
        self._check_alike(other)
        cross_shape(self.shape, other.shape)

    def _check_known(self, other: Any) -> None:
        """Raise unless known parameters have one value in both batches: others are of another exponential family."""
        self._check_pair(other)
        for name, parameter in self._declared.items():
            if parameter.known:
                own, theirs = (to_numpy(getattr(side, name)) for side in (self, other))
                rows = [v.reshape(-1, *v.shape[v.ndim - parameter.axes :]) for v in (own, theirs)]
                if all(map(len, rows)) and any((v != rows[0][:1]).any() for v in rows):
                    raise ValueError(
                        f"Two batches of {type(self).__name__} differ in the known parameter {name}. Make both with "
                        "the same value, or use mc.Sampled, which compares densities."
                    )

    def _crossable(self, x: Array) -> tuple[Self, Array]:
        return (self if self.shape else self.reshape(1)), x

    def _checked_points(self, x: Array) -> Array:
        """Return points of ``dimension`` coordinates unchanged, or raise if shape or values are wrong."""
        d = int(self.dimension)
        if len(x.shape) < 2 or x.shape[-1] != d:
            raise ValueError(f"Points must have shape (T, {d}), one row per point; got {tuple(x.shape)}.")
        self._check_values(x)
        return x

    def _check_values(self, x: Array) -> None:
        """Raise if a point lies outside the support; real vectors are not checked."""
        if self.support is not reals:
            self.support.check(x, type(self).__name__)

    # -- how formulas are evaluated --------------------------------------------------------------------------

    def _viewed(self, convert: Callable[[str, Array], Array]) -> Self:
        """Return a batch of converted arrays, which need not be valid members."""
        return self._map(convert, lambda name, part: part)

    def _at(self, axis: int) -> Self:
        """Return this batch with one more batch axis, as its last (-1) or before its last (-2)."""
        return self._viewed(lambda name, x: namespace(x).expand_dims(x, axis=axis - self._event_axes(name)))

    def _pairs(self, other: Self, term: Callable[[Any, Any], Array]) -> Array:
        """Return ``term(p, q)`` of every pair, ``(*B, n, m)``; p and q are batches that broadcast to all pairs."""
        value, shape = term(self._at(-1), other._at(-2)), cross_shape(self.shape, other.shape)
        return value if tuple(value.shape) == shape else namespace(value).broadcast_to(value, shape)

    def _members_by_points(self, x: Any) -> tuple[Self, Array]:
        """Return this batch, with an axis of its own, and points that were checked; NaN is refused."""
        x = self._checked_points(as_float(x))
        if bool(namespace(x).any(namespace(x).isnan(x))):
            raise ValueError(f"A point of {type(self).__name__} contains NaN. Fill it in, or leave the point out.")
        return self._crossable(x)

    # -- densities and draws ---------------------------------------------------------------------------------

    def log_density(self, x: Array) -> Array:
        """Log density at points, where points and parameters broadcast: a formula that a subclass declares."""
        raise NotImplementedError(f"{type(self).__name__} must implement log_density(x)")

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Draw ``shape`` points, to which the parameters broadcast: a formula that a subclass declares."""
        raise NotImplementedError(f"{type(self).__name__} must implement sample(size, random_state)")

    def log_prob(self, x: Any) -> Array:
        """Log density or log probability of every point, ``(*B, n) x (*B, T, d) -> (*B, n, T)``."""
        single, x = self._members_by_points(x)
        value = single._at(-1).log_density(x[..., None, :, :])
        return value if self.shape else value[..., 0, :]

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        shape = (*self.shape, whole_size(size))
        view = self._viewed(lambda name, x: np.expand_dims(to_numpy(x), -1 - self._event_axes(name)))
        return np.asarray(view.draw(random_generator(random_state), shape), dtype=float)
