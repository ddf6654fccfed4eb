"""Strings under an affine pair HMM on an NVIDIA GPU (MK-5b)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer import cuda
from mercer._array import Array, Floats
from mercer._coupling import FieldOperand
from mercer._immutable import cached_property
from mercer.models._pairs.affine_operand import AffineOperand, in_range, letter_sums
from mercer.models._pairs.affine_range import rows_of_group

PAIRS = 2**26
"""Number of pairs that a tile holds."""
STRIP = 24
"""Number of columns of a strip, see `mercer.cuda.pairs_affine`."""
_logger = logging.getLogger("mercer")


def on_gpu(strings: AffineOperand, device: Any) -> Any:
    """Return strings on a GPU; the same strings, with a reason in the log, if its Triton kernel does not take them."""
    fast, rows = strings.fast, None
    if not cuda.takes(device):
        reason = "Triton 3.2 or newer is not installed"
    elif fast is not None and fast.odds.flanks is not None:
        reason = "alignments are local"
    elif fast is None or (rows := rows_of_group(float(fast.odds.match.max()), fast.odds.gap, strip=STRIP)) is None:
        reason = "the parameters of the model are too extreme"
    else:
        return GPUOperand(strings, rows, device)
    _logger.info("The pair HMM is computed on the CPU: %s.", reason)
    return strings


@dataclass(eq=False)
class GPUOperand(FieldOperand):
    """Strings that are compared on a GPU; pairs for which its numbers are not sound are computed on the CPU.

    Parameters
    ----------
    strings : AffineOperand
        The strings and the model.
    rows : int
        Number of rows between two updates of the exponents.
    device : torch.device
        The GPU.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("rows", "device")

    strings: AffineOperand
    rows: int
    device: Any

    @property
    def host(self) -> AffineOperand:
        """The strings on the CPU."""
        return self.strings

    @property
    def order(self) -> Any:
        """Sort by length, so that the threads of a warp end at the same time."""
        return self.strings.order

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile on the CPU."""
        return self.strings.tile_hint

    @cached_property
    def _there(self) -> Any:
        from mercer.cuda.pairs_affine import Strings

        assert self.strings.fast is not None
        fast = self.strings.fast.odds
        return Strings.of(self.strings.X.values, self.strings.X.offsets, fast.match.shape[1], self.device)

    @cached_property
    def _letters(self) -> Any:
        import torch

        assert self.strings.fast is not None
        fast = self.strings.fast.odds
        sums = letter_sums(fast.log_letter, self.strings.X)
        return torch.from_numpy(sums).to(self.device)

    def pair(self, other: Self) -> Array:
        """Log kernels of every pair, ``(I, J)``; -inf if a pair is impossible."""
        values = self._logs(other._there)
        values += self._letters[:, None] + other._letters
        asked = in_range(self.strings.X)[:, None] & in_range(other.strings.X)
        return self._checked(values, asked, lambda i, j: self.strings.some(other.strings, i, j))

    def alone(self) -> Array:
        """Log kernel of every string with itself, ``(N,)``."""
        order = np.argsort(self.strings.X.lengths, kind="stable")
        some = self[order]
        values = (some._logs(None) + 2 * some._letters)[np.argsort(order)]
        return self._checked(values, in_range(self.strings.X), lambda i: self.strings.some(self.strings, i, i))

    def _logs(self, other: Any) -> Any:
        from mercer.cuda.pairs_affine import affine_kernels

        assert self.strings.fast is not None
        fast = self.strings.fast.odds
        return affine_kernels(fast.match, self._there, other, fast.gap, self.rows, strip=STRIP) + fast.base

    def _checked(self, values: Any, asked: Floats, compute: Any) -> Any:
        """Replace values that are not sound by those of the CPU, in numbers of unlimited range."""
        import torch

        finite = torch.isfinite(values)
        if asked.all() and bool(finite.all()):
            return values
        where = np.nonzero(~(asked & finite.cpu().numpy()))
        at = tuple(torch.from_numpy(x).to(self.device) for x in where)
        values[at] = torch.from_numpy(compute(*where)).to(self.device)
        return values
