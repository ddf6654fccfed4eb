"""Search for objects on which a kernel is not positive semi-definite.

Random objects are too far apart to find them: their Gram matrix is nearly the identity. The search moves objects
together until the kernel tells them apart but not quite, and puts them on lines, crosses and corners of cubes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer._array import Floats, to_numpy
from mercer._notices import collected
from mercer.kernels.base import Kernel
from mercer.testing.variations import Variations, variations_of

PAIRS = 3
"""Number of pairs of objects between which lines are drawn."""
NEAR = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0, 100.0)
"""Positions between the objects of a pair at which the kernel is looked at first, to find its scale."""
SIMILARITIES = (0.97, 0.6)
"""Similarities of neighbors on the lines, crosses and corners."""
STEPS = 6
"""Number of steps of a line."""
SHOWN = 6
"""Number of objects that are shown at most."""
REFUSED = ValueError, TypeError, ArithmeticError
"""Errors of kernels that do not take some objects."""


@dataclass(frozen=True)
class Counterexample:
    """Objects whose Gram matrix has a negative eigenvalue.

    Parameters
    ----------
    eigenvalue : float
        Smallest eigenvalue of the Gram matrix, scaled to a diagonal of 1.
    objects : array, list, container or batch
        The objects, few of those that were tried, in the form of the data.
    matrix : array of shape (n, n)
        Their Gram matrix, scaled to a diagonal of 1.
    coefficients : array of shape (n,)
        Eigenvector: the combination of the objects whose squared norm is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.testing import Counterexample
    >>> K = np.array([[1.0, 1.5], [1.5, 1.0]])
    >>> Counterexample(-0.5, ["a", "b"], K, np.array([1.0, -1.0]) / np.sqrt(2))
    Counterexample(2 objects with the smallest eigenvalue -0.5:
    ['a', 'b']
    Gram matrix, with a diagonal of 1:
    [[1.  1.5]
     [1.5 1. ]])
    """

    eigenvalue: float
    objects: Any
    matrix: Floats
    coefficients: Floats

    def __repr__(self) -> str:
        n = len(self.matrix)
        head = f"{n} object{'s' if n > 1 else ''} with the smallest eigenvalue {self.eigenvalue:.3g}"
        if n > SHOWN:
            return f"Counterexample({head})"
        matrix = np.array2string(self.matrix, precision=6)
        return f"Counterexample({head}:\n{self.objects!r}\nGram matrix, with a diagonal of 1:\n{matrix})"


def find_counterexample(
    kernel: Kernel, data: Any, *, tolerance: float = 1e-8, random_state: int = 0
) -> Counterexample | None:
    """Search for objects whose Gram matrix has a negative eigenvalue.

    The search shrinks, repeats and mixes some of the objects: vectors and parameters of distributions are put on lines,
    crosses and corners of cubes, point sets and sequences also lose, repeat and exchange parts. What was found is
    reduced to a few objects. Values keep their signs, whole numbers stay whole, and vectors of one sum or norm keep
    it; objects that the kernel refuses are left out.

    Parameters
    ----------
    kernel : Kernel
        The kernel; one that has to be fitted first is fitted to the data.
    data : array, sparse matrix, list of strings or arrays, Sequences or batch
        At least two objects; a dozen are enough.
    tolerance : float, default=1e-8
        How far below zero the smallest eigenvalue may be by rounding, as a fraction of the largest.
    random_state : int, default=0
        Seed of the choices.

    Returns
    -------
    Counterexample or None
        None if nothing was found, which proves nothing.

    See Also
    --------
    mercer.gram.psd.check : Check one Gram matrix.
    KernelContract : The battery of kernels, which runs this search if ``psd`` says "always".

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from mercer.testing import find_counterexample
    >>> X = np.random.default_rng(0).normal(size=(12, 3))
    >>> find_counterexample(mc.RBF(gamma=0.5), X) is None
    True
    >>> p = mc.Multinomials(np.random.default_rng(0).dirichlet(np.ones(3), 12), trials=1)
    >>> found = find_counterexample(mc.Heat(t=10.0), p)
    >>> found.eigenvalue < -1e-5, len(found.objects) <= 12
    (True, True)
    """
    rng = np.random.default_rng(random_state)
    space = variations_of(data, rng)
    # What would be warned of, such as objects that are nearly equal, is made on purpose.
    with collected(), np.errstate(all="ignore"), mc.config(progress=False, memo_bytes=0):
        kernel = _ready(kernel, data)
        _gram(kernel, space, space.objects)  # an error here is not one of a variation
        objects, K = _evaluated(kernel, space, _candidates(kernel, space, rng))
    diagonal = np.diagonal(K)
    below = int(np.argmin(diagonal)) if len(K) else 0
    if len(K) and diagonal[below] < -tolerance * np.abs(K).max():
        return Counterexample(-1.0, space.joined([objects[below]]), -np.ones((1, 1)), np.ones(1))
    usable = np.flatnonzero(diagonal > 0)
    K = _scaled(K[np.ix_(usable, usable)])
    few = _few(K, tolerance)
    if few is None:
        return None
    values, vectors = np.linalg.eigh(K[np.ix_(few, few)])
    found = space.joined([objects[usable[i]] for i in few])
    return Counterexample(float(values[0]), found, K[np.ix_(few, few)], vectors[:, 0])


def _ready(kernel: Kernel, data: Any) -> Kernel:
    """Return the kernel, or a fitted clone if it cannot be called before it is fitted."""
    try:
        kernel.diag(data)
    except NotFittedError:
        return clone(kernel).fit(data)
    return kernel


def _candidates(kernel: Kernel, space: Variations, rng: np.random.Generator) -> list[list[Any]]:
    """Return groups of objects: given ones, some of them twice, and variations at the scale of the kernel."""
    own = space.objects
    groups = [own, [own[0], *own[:2]]]
    for _ in range(min(PAIRS, len(own) - 1)):
        i, j = rng.choice(len(own), 2, replace=False)
        x, y = own[i], own[j]
        line = space.line(x, y, NEAR if space.unlimited else [at for at in NEAR if at <= 1])
        groups += [line, *space.edits(x, y)]
        for step in _steps(kernel, space, x, line) if line else ():
            groups += [space.line(x, y, step * np.arange(1, STEPS + 1)), *space.around(x, y, step)]
    return [group for group in groups if group]


def _steps(kernel: Kernel, space: Variations, x: Any, line: list[Any]) -> list[float]:
    """Return the positions on the line from ``x`` at which the similarities to it are those that are looked for."""
    furthest = np.inf if space.unlimited else 1 / STEPS
    try:
        similar = _scaled(_gram(kernel, space, [x, *line]))[0, 1:]
    except REFUSED:
        return [1 / STEPS]
    last = (int(np.sum(np.logical_and.accumulate(similar >= least))) for least in SIMILARITIES)
    return sorted({min(NEAR[max(n - 1, 0)], furthest) for n in last})


def _evaluated(kernel: Kernel, space: Variations, groups: Sequence[list[Any]]) -> tuple[list[Any], Floats]:
    """Return the objects that the kernel takes, and their Gram matrix."""
    kept = [x for group in groups for x in group]
    try:
        return kept, _gram(kernel, space, kept)
    except REFUSED:
        kept = [x for group in groups for x in _accepted(kernel, space, group)]
    try:
        return kept, _gram(kernel, space, kept)
    except REFUSED:
        return [], np.zeros((0, 0))


def _accepted(kernel: Kernel, space: Variations, group: list[Any]) -> list[Any]:
    """Return the objects of a group that the kernel takes: all, or those that it takes one by one."""
    try:
        _gram(kernel, space, group)
    except REFUSED:
        return [] if len(group) == 1 else [x for one in group for x in _accepted(kernel, space, [one])]
    return group


def _gram(kernel: Kernel, space: Variations, objects: list[Any]) -> Floats:
    K = np.asarray(to_numpy(kernel(space.joined(objects))), dtype=float)
    if not np.isfinite(K).all():
        raise ArithmeticError("The Gram matrix is not finite.")
    return K


def _scaled(K: Floats) -> Floats:
    """Return the matrix with a diagonal of 1."""
    norms = np.sqrt(np.abs(np.diagonal(K)))
    return np.asarray(K / norms[:, None] / norms)


def _few(K: Floats, tolerance: float) -> NDArray[np.intp] | None:
    """Return a few objects that have at least a tenth of the smallest eigenvalue; None if none is negative."""
    if not len(K):
        return None
    values = np.linalg.eigvalsh(K)
    if values[0] >= -tolerance * values[-1]:
        return None

    def enough(some: NDArray[np.intp]) -> bool:
        return bool(np.linalg.eigvalsh(K[np.ix_(some, some)])[0] <= values[0] / 10)

    different = np.unique(K.round(12), axis=0, return_index=True)[1]
    few = different if enough(different) else np.arange(len(K))
    while (fewer := next(filter(enough, _smaller(K, few)), None)) is not None:
        few = fewer
    return few


def _smaller(K: Floats, few: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Yield subsets: without many of the objects that matter least, and without each of them."""
    order = np.argsort(np.abs(np.linalg.eigh(K[np.ix_(few, few)])[1][:, 0]), kind="stable")
    for n in (len(few) // 2, len(few) // 4, len(few) // 8):
        if n > 1:
            yield np.delete(few, order[:n])
    yield from (np.delete(few, i) for i in order if len(few) > 2)
