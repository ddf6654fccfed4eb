"""Families of vectors with independent coordinates: a subclass declares the formulas of one coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, cross_shape, identity, namespace, to_numpy
from mercer._random import random_generator, whole_size
from mercer.families import _names, sets
from mercer.families.base import Family, Parameter
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.special import total

TOGETHER = 16_384
"""Number of terms, of pairs and coordinates, that are computed in one array: planes that stay in the cache."""

coordinate_labels: set[str] = set()
"""Names of natural parameters of which every coordinate has one, in the columns of Fisher scores."""


class Coordinates(Family):
    """A family of vectors with independent coordinates: `log_density` and `draw` are those of one coordinate."""

    independent: ClassVar[bool] = True
    tile_hint = 192

    def log_prob(self, x: Any) -> Array:
        """Log density or log probability of every point; missing coordinates (NaN) are marginalized.

        ``(*B, n) x (*B, T, d) -> (*B, n, T)``.
        """
        single, x = self._crossable(self._checked_points(as_float(x)))
        value: Any = 0.0
        for i in range(self.dimension):
            point, view = x[..., None, :, i], single._coordinate(i)
            xp = namespace(point)
            seen = ~xp.isnan(point)
            term = view.log_density(xp.where(seen, point, xp.full_like(point, self.support.center)))
            value = value + xp.where(seen, term, xp.zeros_like(term))
        return value if self.shape else value[..., 0, :]

    def _pairs(self, other: Self, term: Callable[[Any, Any], Array]) -> Array:
        """Sum ``term(p, q)`` over coordinates, ``(*B, n, m)``.

        Few pairs have the terms of several coordinates at once, which are then added one after the other: the same
        bits for any number of pairs.
        """
        shape, value = cross_shape(self.shape, other.shape), 0.0
        step = max(1, TOGETHER // max(1, len(self) * len(other)))
        if step == 1:
            for i in range(self.dimension):
                value = value + term(self._coordinate(i), other._coordinate(i, -2))
        else:
            for i in range(0, self.dimension, step):
                part = slice(i, min(i + step, self.dimension))
                p, q = self._planes((..., slice(None), None, part)), other._planes((..., None, slice(None), part))
                terms = term(p, q)
                for k in range(terms.shape[0]):
                    value = value + terms[k, ...]
        found: Any = value
        return found if tuple(found.shape) == shape else namespace(found).broadcast_to(found, shape)

    def _coordinate(self, i: int, axis: int = -1) -> Self:
        """Return coordinate i of every member, ``(*B, n, 1)``, or ``(*B, 1, n)`` for axis -2."""
        at = (..., None, i) if axis == -1 else (..., None, slice(None), i)
        return self._viewed(lambda _, x: x[at])

    def _planes(self, at: tuple[Any, ...]) -> Self:
        return self._viewed(lambda _, x: namespace(x).moveaxis(x[at], -1, 0))

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        shape = (*self.shape, whole_size(size), self.dimension)
        view = self._viewed(lambda _, x: to_numpy(x)[..., None, :])
        return np.asarray(view.draw(random_generator(random_state), shape), dtype=float)


class Coordinatewise(Coordinates, ExponentialFamily, adopts=False):
    r"""An exponential family of vectors with independent coordinates, declared by the formulas of *one* coordinate.

    The formulas are those of `ExponentialFamily`. They receive parameters and points of any shape that broadcast. A
    coordinate with two statistics returns and takes tuples: ``return log(x), x``. Missing coordinates (NaN) are
    marginalized.

    Subclasses of earlier versions list their parameter in ``_arrays``, check it in ``__init__``, name a ``domain``
    ("real", "nonnegative", "counts" or "binary"), and write ``term_natural(parameter)``, ``term_partition(theta)``,
    ``term_mean(parameter)``, ``term_from_mean(mu)``, ``term_dual(mu)``, ``term_variance(parameter)`` and
    ``term_sample(rng, parameter)``, perhaps ``term_statistics(x)``, ``term_log_base(x)``,
    ``term_log_prob(x, parameter)``, ``term_product(p, q, rho)``, ``term_divergence(p, q)`` and ``term_kl(p, q)``; all
    of this stays valid.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Poissons([[1.0, 4.0]])
    >>> isinstance(p, mc.families.Coordinatewise)
    True
    >>> p.statistics([[3.0, 2.0]])
    array([[3., 2.]])
    """

    domain: ClassVar[str] = "real"
    """Values of a coordinate: "real", "nonnegative", "counts", "binary" and so on, the name of the support."""

    def __init_subclass__(cls, **options: Any) -> None:
        if "domain" in vars(cls):
            cls.support = sets.DOMAINS[cls.domain]
        if "score_label" in vars(cls):
            cls.labels = (vars(cls)["score_label"],)
        arrays = vars(cls).get("arrays", vars(cls).get("_arrays", {}))
        if arrays and not any(isinstance(value, Parameter) for value in vars(cls).values()):
            cls._declared = {name: Parameter(sets.anything, axes) for name, axes in arrays.items()}
        super().__init_subclass__(**options)
        _names.adopt(cls, Coordinatewise, _names.TERMS)
        cls.domain = cls.support.name
        coordinate_labels.update(set(cls.labels) - {"parameter"})

    @property
    def _parameter(self) -> Array:
        (name,) = self._arrays
        return getattr(self, name)

    def log_density(self, x: Array) -> Array:
        """Log density of one coordinate."""
        theta, t = self.natural(), self.statistic(x)
        value = sum(a * b for a, b in zip(theta, t, strict=True)) if isinstance(theta, tuple) else theta * t
        value = value - self.partition(theta)
        return value if self.base is None else value + self.base(x)

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the natural parameters: statistics minus their means, ``(*B, n, T, D)``; 0 where NaN (FK-3)."""
        single, x = self._crossable(self._checked_points(as_float(x)))
        value = observed_scores(single.statistics(x)[..., None, :, :] - single.mean_parameters[..., :, None, :])
        return value if self.shape else value[..., 0, :, :]

    def fisher_information(self) -> Array:
        """Covariances of the statistics, ``(*B, D, D)``: one diagonal for every two statistics of a coordinate."""
        value = self.information()
        xp, unit = namespace(value), identity(value, self.dimension)
        if len(value.shape) == self.ndim + 1:
            return value[..., :, None] * unit
        b = value.shape[-1]
        rows = [xp.concat([value[..., i, j][..., None] * unit for j in range(b)], axis=-1) for i in range(b)]
        return xp.concat(rows, axis=-2)

    # -- one array of all statistics of a coordinate, or of all coordinates ------------------------------------

    def _stacked(self, form: Any) -> Array:
        parts = form if isinstance(form, tuple) else (form,)
        return namespace(*parts).stack(parts, axis=-1)

    def _unstacked(self, z: Array) -> Any:
        parts = tuple(z[..., k] for k in range(z.shape[-1]))
        return parts if len(parts) > 1 else parts[0]

    def _combined(self, combine: Callable[..., Array], *forms: Any) -> Any:
        if not isinstance(forms[0], tuple):
            return combine(*forms)
        return tuple(combine(*parts) for parts in zip(*forms, strict=True))

    def _joined(self, form: Any) -> Array:
        return namespace(*form).concat(form, axis=-1) if isinstance(form, tuple) else form

    def _split(self, values: Array) -> Any:
        d = self.dimension
        parts = tuple(values[..., k : k + d] for k in range(0, values.shape[-1], d))
        return parts if len(parts) > 1 else parts[0]

    def _summed(self, terms: Array) -> Array:
        return total(terms)

    def _axes_in_formulas(self, axes: int) -> int:
        return 0

    def _continued(self, shift: Array) -> Array:
        value: Any = 0.0
        for i in range(self.dimension):
            view = self._coordinate(i)
            theta = view._stacked(view.natural())
            xp = namespace(theta)
            unit = xp.astype(identity(theta, theta.shape[-1])[self.continued, :], shift.dtype)
            moved = xp.astype(theta, shift.dtype) + shift[:, i, None] * unit
            value = value + (view._flat_partition(moved) - view._flat_partition(theta))
        return value


def observed_scores(scores: Array) -> Array:
    """Set the scores of missing coordinates (NaN) to zero."""
    xp = namespace(scores)
    return xp.where(xp.isnan(scores), xp.zeros_like(scores), scores)
