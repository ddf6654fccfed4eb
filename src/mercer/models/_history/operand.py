"""Samples under one hidden chain or tree as an operand of the Gram engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import device, is_numpy_array

from mercer._array import Array, beside, logsumexp, namespace
from mercer._coupling import FieldOperand, OneAxis, Operand
from mercer._device import moved
from mercer.models._chains.coupled import patch
from mercer.models._chains.sweep import without_gradient
from mercer.models._history import fused
from mercer.models._history.forest import Forest, Range
from mercer.models._history.planes import Evidence, History, aligned, below, check_alike, crossed, log_sums

_ENTRIES = 2**21
"""Numbers of the largest array of pairs that are repeated: 16 MB."""


def history_operand(
    parent: Any, transition: Any, root: Any, evidence: Any, pruning: float = 0.0, example: str | None = None
) -> Operand:
    r"""Prepare samples under one hidden chain or tree, for log kernels of pairs that share the hidden states.

    Parameters
    ----------
    parent : array of int of shape (V,)
        Parent of each node, which comes before its children; -1 for a root. Several roots are independent trees.
    transition : array of shape (V, S, S) or (S, S)
        ``transition[v, a, b]`` is the probability of state b in node v if its parent is in state a; one matrix for
        all edges, or one per node (that of a root is ignored).
    root : array of shape (S,)
        Probabilities of the states of a root.
    evidence : array of shape (N, V, S)
        Log likelihood of the observation of sample n at node v given its state; -inf if it is impossible.
    pruning : float, default=0.0
        Probability that two samples separate below an internal node, and have independent hidden states from there on.
    example : str, optional
        Description of a sample, for the error if two operands have different numbers of nodes.

    Returns
    -------
    operand
        Computes `pair` and `alone` as logarithms, -inf for impossible pairs.

    Notes
    -----
    MK-3 (all nodes are roots), MK-4 (a chain) and MK-6 (a tree) are one recursion, starting at the leaves:

    .. math:: m_v(a) = e_s[v,a]\, e_t[v,a] \prod_{c \text{ below } v} \sum_b T_c[a,b]\, m_c(b), \qquad
              \kappa(s, t) = \prod_{\text{roots } r} \sum_a \pi(a)\, m_r(a)

    With prunings :math:`m_v(a)` becomes :math:`p L_s[v,a] L_t[v,a] + (1-p) m_v(a)`, L the likelihood of one sample
    below v.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models._history.operand import history_operand
    >>> # 2 samples, 2 nodes, 2 states
    >>> evidence = np.log([[[0.9, 0.2], [0.9, 0.2]], [[0.1, 0.8], [0.9, 0.2]]])
    >>> data = history_operand([-1, 0], [[0.7, 0.3], [0.3, 0.7]], [0.5, 0.5], evidence)
    >>> np.exp(data.pair(data)).round(4)
    array([[0.2399, 0.0477],
           [0.0477, 0.0896]])
    """
    forest = Forest.of(parent)
    root, transition, evidence = _together(root, transition, evidence)
    xp = namespace(evidence)
    nodes, states = len(forest), int(root.shape[0])
    if tuple(transition.shape) not in ((states, states), (nodes, states, states)):
        raise ValueError(
            f"transition must have shape {(states, states)} or {(nodes, states, states)}; got "
            f"{tuple(transition.shape)}."
        )
    if tuple(evidence.shape[1:]) != (nodes, states):
        raise ValueError(f"evidence must have shape (N, {nodes}, {states}); got {tuple(evidence.shape)}.")
    if not 0 <= pruning <= 1:
        raise ValueError(f"pruning must be a probability; got {pruning}.")
    history = History(forest, transition, root, float(pruning), Range.of(forest, transition, root))
    tops = without_gradient(xp.max(evidence, axis=2))
    if bool(xp.any(xp.isnan(tops))):
        raise ValueError("The evidence contains NaN: a density of the model is not a number there.")
    shift = xp.sum(xp.astype(tops, xp.float64), axis=1)
    # An observation without a possible state makes its sample impossible, whatever its other entries.
    logs = evidence - xp.where(xp.isfinite(tops), tops, xp.zeros_like(tops))[:, :, None]
    logs = xp.where(xp.isfinite(tops)[:, :, None], logs, xp.zeros_like(logs))
    if is_numpy_array(logs) and pruning == 0:
        from mercer.models._history.lane_operand import LaneOperand

        return LaneOperand.of(history, logs, shift, example)
    logs = xp.permute_dims(logs, (1, 2, 0))
    prepared = Evidence(logs, below(history, logs) if pruning > 0 else None)
    return PlaneOperand(history, prepared, shift, example)


def _together(root: Any, transition: Any, evidence: Any) -> tuple[Array, Array, Array]:
    """Convert all arrays to the library, device and dtype of the probabilities of the root."""
    arrays = [x if hasattr(x, "dtype") else np.asarray(x, dtype=float) for x in (root, transition, evidence)]
    foreign = next((x for x in arrays if not is_numpy_array(x)), None)
    if foreign is None:
        first, step, shown = (np.asarray(x, dtype=np.float64) for x in arrays)
        return first, step, shown
    xp = namespace(foreign)
    first, step, shown = (
        beside(foreign, x, foreign.dtype) if is_numpy_array(x) else xp.astype(x, foreign.dtype) for x in arrays
    )
    return first, step, shown


class PlaneOperand(OneAxis):
    """Samples with the evidence of a shared hidden tree; computes tiles by summing over its states.

    On an NVIDIA GPU, one Triton kernel computes a tile; elsewhere, array operations.
    """

    def __init__(self, history: History, evidence: Evidence, shift: Array, example: str | None) -> None:
        self.history = history
        self.evidence = evidence
        self.shift = shift
        self.example = example

    @property
    def nodes(self) -> int:
        """Number of hidden nodes."""
        return len(self.history.forest)

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile whose planes fit into the cache; more on an accelerator, because of launch costs."""
        numbers = 1 << 15 if _on_host(self.shift) else 1 << 19
        return max(16, 8 * round(math.sqrt(numbers / int(self.history.root.shape[0])) / 8))

    def __len__(self) -> int:
        return int(self.shift.shape[0])

    def __getitem__(self, key: Any) -> Self:
        index = beside(self.shift, np.arange(len(self))[key])
        shift = namespace(self.shift).take(self.shift, index, axis=0)
        return type(self)(self.history, self.evidence.take(index), shift, self.example)

    def pair(self, other: Self) -> Array:
        """Log kernels of every pair, ``(I, J)``."""
        check_alike(self, other)
        xp, size, scales = namespace(self.shift), len(other), self.shift[:, None] + other.shift[None, :]
        if not fused.fits(self.history, self.evidence, other.evidence):
            return log_sums(self.history, self.evidence, other.evidence, crossed) + scales
        values = fused.fused_sums(self.history, self.evidence, other.evidence)
        flat = xp.reshape(values, (-1,))
        flat = self._repeated(flat, other, lambda which: (which // size, which % size))
        return xp.reshape(flat, values.shape) + scales

    def alone(self) -> Array:
        """Log kernel of every sample with itself, ``(N,)``."""
        if not fused.fits(self.history, self.evidence):
            return log_sums(self.history, self.evidence, self.evidence, aligned) + 2 * self.shift
        values = fused.fused_sums(self.history, self.evidence, None)
        return self._repeated(values, self, lambda which: (which, which)) + 2 * self.shift

    def _repeated(self, values: Array, other: Self, rows: Callable[[Array], tuple[Array, Array]]) -> Array:
        """Compute the pairs that are NaN again, by array operations; ``rows`` turns pairs into both their samples."""

        def compute(which: Array) -> Array:
            i, j = rows(which)
            return log_sums(self.history, self.evidence.take(i), other.evidence.take(j), aligned)

        states = int(self.history.root.shape[0])
        return patch(values, namespace(values).isnan(values), compute, max(1, _ENTRIES // states**2))


def moved_operand(history: History, logs: Array, shift: Array, example: str | None, device: Any) -> PlaneOperand:
    """Return samples on a device, from the logarithms of their relative evidence, ``(N, V, S)``."""
    step, root, there, scales = (moved(x, device) for x in (history.transition, history.root, logs, shift))
    xp = namespace(there)
    planes = xp.permute_dims(there, (1, 2, 0)).contiguous()
    return PlaneOperand(replace(history, transition=step, root=root), Evidence(planes), scales, example)


def _on_host(x: Array) -> bool:
    return is_numpy_array(x) or "cpu" in str(device(x)).lower()


@dataclass(eq=False)
class MixedOperand(FieldOperand):
    """Samples under a mixture of models, one model per pair: log sum over k of w_k kappa_k.

    Parameters
    ----------
    log_weights : array of shape (m,)
        Logarithms of the probabilities of the models.
    parts : list of m operands
        The samples under each model.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("log_weights",)

    log_weights: Array
    parts: list[Operand]

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile that suits the parts."""
        return min(int(part.tile_hint) for part in self.parts)

    def pair(self, other: Self) -> Array:
        """Log kernels of every pair, ``(I, J)``."""
        return self._mixed([a.pair(b) for a, b in zip(self.parts, other.parts, strict=True)])

    def alone(self) -> Array:
        """Log kernel of every sample with itself, ``(N,)``."""
        return self._mixed([part.alone() for part in self.parts])

    def _mixed(self, values: list[Array]) -> Array:
        xp = namespace(self.log_weights, *values)
        table = xp.stack(values)
        weights = xp.reshape(self.log_weights, (-1, *(1 for _ in table.shape[1:])))
        return logsumexp(table + weights, axis=0)
