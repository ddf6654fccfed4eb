"""Pairs of linear dynamical systems on an NVIDIA GPU (PPK-4.5, GMMK-7)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer import cuda
from mercer._array import Array, Floats
from mercer._coupling import FieldOperand, Smoothed
from mercer._immutable import cached_property
from mercer.models._dynamics.operand import LOG_2PI, SystemOperand, at_zero
from mercer.models.discount import Discounted

PAIRS = 2**26
"""Number of values, over all lengths, that a tile holds."""
MOST_STATES, MOST_OBSERVED = 4, 4
"""Coordinates of a state and of an observation; the covariance of larger ones does not stay in registers."""
LEAST_SYSTEMS = 500
"""Fewer systems are compared on the CPU: the Triton kernel is compiled for every size of a system, up to a minute."""
_logger = logging.getLogger("mercer")


def on_gpu(systems: SystemOperand, device: Any) -> Any:
    """Return systems on a GPU; the same systems, with a reason in the log, if its Triton kernel does not take them."""
    n, d = systems.systems.size
    if not cuda.takes(device):
        reason = "Triton 3.2 or newer is not installed"
    elif n > MOST_STATES or d > MOST_OBSERVED:
        reason = f"states of {n} and observations of {d} coordinates are larger than {MOST_STATES} and {MOST_OBSERVED}"
    elif len(systems) < LEAST_SYSTEMS:
        reason = f"there are fewer than {LEAST_SYSTEMS}"
    elif isinstance(systems.lengths, Discounted):
        reason = "lengths are discounted"
    elif isinstance(systems.coupling, Smoothed) and systems.coupling.gamma == 0:
        reason = "gamma is 0"
    else:
        return GPUSystems(systems, device)
    _logger.info("Linear dynamical systems are compared on the CPU: %s.", reason)
    return systems


@dataclass(eq=False)
class GPUSystems(FieldOperand):
    """Systems that are compared on a GPU; pairs that lose digits are computed on the CPU.

    Parameters
    ----------
    systems : SystemOperand
        The systems, on the host.
    device : torch.device
        The GPU.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("device",)

    by_length = True

    systems: SystemOperand
    device: Any

    @property
    def host(self) -> SystemOperand:
        """The systems on the CPU."""
        return self.systems

    @property
    def order(self) -> Any:
        """Sort by the size of the state."""
        return self.systems.order

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile on the CPU."""
        return self.systems.tile_hint

    @property
    def lengths(self) -> Floats:
        """Lengths of the compared series."""
        return np.asarray(self.systems.lengths)

    @cached_property
    def _planes(self) -> list[Any]:
        """One contiguous row per entry of every parameter."""
        parts = (np.ascontiguousarray(np.asarray(x).reshape(len(self), -1).T) for x in self.systems.systems)
        return [self._there(x) for x in parts]

    @cached_property
    def _determinants(self) -> Any:
        return self._there(self.systems.log_determinants(self.lengths))

    def _there(self, x: Any) -> Any:
        import torch

        return torch.from_numpy(np.array(x)).to(self.device)

    def pair(self, other: Self) -> Array:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths."""
        from mercer.cuda.kalman_pairs import pair_densities

        equal = self.systems.equal(other.systems)  # raises for some pairs of unstable systems
        coupling, lengths = self.systems.coupling, self.lengths
        observed = self._there(1.0 * lengths * self.systems.systems.size[1])[:, None, None]
        rho = 1.0 if isinstance(coupling, Smoothed) else coupling.rho
        noise, extra = 1.0 / rho, 0.5 / coupling.gamma if isinstance(coupling, Smoothed) else 0.0
        values: Any = pair_densities(self._planes, other._planes, lengths, noise, extra)
        self._mend(values, other, noise, extra)
        if isinstance(coupling, Smoothed):
            values += observed / 2 * float(np.log(np.pi / coupling.gamma))
        elif rho != 1:
            own = self._determinants[:, :, None] + other._determinants[:, None, :]
            values += (1 - rho) / 2 * (2 * LOG_2PI * observed + own) - float(np.log(rho)) * observed
        if len(equal):
            i, j = (self._there(x) for x in equal.T)
            values[:, i, j] = self._there(self.systems[equal[:, 0]].alone())
        return values

    def _mend(self, values: Any, other: Self, noise: float, extra: float) -> None:
        """Compute pairs that are not finite on the CPU, which raises if a covariance is singular."""
        bad = ~values.isfinite().all(0)
        if not bool(bad.any()):
            return
        i, j = np.nonzero(bad.cpu().numpy())
        found = at_zero(self.systems.systems, other.systems.systems, i, j, self.lengths, noise, extra)
        values[:, self._there(i), self._there(j)] = self._there(found)

    def alone(self) -> Array:
        """Log kernel of every system with itself, ``(H, N)``."""
        return self._there(self.systems.alone())
