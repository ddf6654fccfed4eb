"""The affine recursion (MK-5b) on a GPU: every thread has one pair of strings.

As on the CPU (native/pairs_affine.hpp), columns are split into strips whose numbers stay in registers for all
rows, and a strip leaves two numbers per row to the next one, in memory. All threads of a warp have the same first
string, so that a row of match weights is the same for all of them.
"""

# mypy: disable-error-code="misc,attr-defined"
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from mercer._array import Array, Floats
from mercer.cuda import n_programs

LANES = 32
STRIP = 24
"""Number of columns of a strip: two numbers each, in 96 of the registers of a thread."""
PROGRAMS = 8
"""Number of programs per multiprocessor, each with memory for the edge of a strip."""
LOG_2 = tl.constexpr(float(np.log(2.0)))


@dataclass(frozen=True)
class Strings:
    """Strings on a GPU, sorted by length."""

    codes: Array
    """Codes one after the other, int32."""
    offsets: Array
    """``(N + 1,)``, int64."""
    planes: Array
    """One row of codes per position, ``(longest, N)``, int32; the number of codes after the end of a string."""
    sizes: Array
    """Lengths, ``(N,)``, int32."""

    @classmethod
    def of(cls, values: Floats, offsets: Floats, end: int, device: Any) -> Strings:
        """Copy strings to a device; ``end`` is the number of codes."""
        sizes = np.diff(offsets)
        planes = np.full((len(sizes), max(1, int(sizes.max(initial=0)))), end, np.int32)
        codes = np.asarray(values[offsets[0] : offsets[-1]], np.int32)
        planes[np.arange(planes.shape[1]) < sizes[:, None]] = codes

        def there(x: Any, dtype: Any) -> Array:
            return torch.from_numpy(np.array(x, dtype, order="C")).to(device)

        begin = offsets - offsets[0]
        return cls(there(codes, np.int32), there(begin, np.int64), there(planes.T, np.int32), there(sizes, np.int32))

    def __len__(self) -> int:
        return int(self.sizes.shape[0])


@triton.jit
def _power(exponent):
    """Two to a power of at most zero; zero if the result is not a normal number."""
    return ((tl.maximum(exponent, -1023) + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit(do_not_specialize=["n_left", "n_right", "longest", "rows", "blocks", "jobs"])
def _affine(
    left, offsets, left_planes, n_left, right, sizes, n_right, table, numbers, edge, levels, counter, value,
    longest, rows, blocks, jobs, WIDTH: tl.constexpr, STRIP: tl.constexpr, LANES: tl.constexpr, HALF: tl.constexpr,
    ALONE: tl.constexpr,
):  # fmt: skip
    lane = tl.arange(0, LANES)
    gap = tl.load(numbers)
    nothing = tl.zeros((LANES,), dtype=tl.float64)
    edge += tl.program_id(0).to(tl.int64) * (2 * longest * LANES) + lane
    levels += tl.program_id(0).to(tl.int64) * (tl.cdiv(longest, rows) * LANES) + lane
    job = tl.atomic_add(counter, 1)
    while job < jobs:
        # Long strings first, so that no program is left alone with them at the end.
        i = n_left - 1 - job // blocks
        j = (blocks - 1 - job % blocks) * LANES + lane
        there = j < n_right
        if (not HALF) or (tl.max(tl.where(there, j, -1)) >= i):
            begin = tl.load(offsets + i)
            m = tl.load(sizes + j, mask=there, other=0)
            if ALONE:
                n = tl.max(m)
            else:
                n = (tl.load(offsets + i + 1) - begin).to(tl.int32)
            found = nothing
            height = tl.zeros((LANES,), dtype=tl.int32)
            for k in range(0, tl.cdiv(tl.max(m), STRIP)):
                # Numbers of the row above: z of all alignments, x of those that end in a run of the first string.
                z = ()
                x = ()
                place = ()
                for c in tl.static_range(STRIP):
                    at = k * STRIP + c
                    place += (tl.load(right + at * n_right + j, mask=there & (at < m), other=WIDTH - 1),)
                    z += (nothing + gap,)
                    x += (nothing,)
                corner = tl.where(k == 0, 1.0, gap) + nothing
                mine = tl.zeros((LANES,), dtype=tl.int32)
                next_y = tl.load(edge, mask=(k > 0) & (lane >= 0), other=gap * gap)
                next_z = tl.load(edge + LANES, mask=(k > 0) & (lane >= 0), other=gap)
                if ALONE:
                    code = tl.load(left_planes + j, mask=there & (m > 0), other=0)
                else:
                    code = tl.load(left + begin, mask=n > 0, other=0)
                for first in range(0, n, rows):
                    # The exponent never falls, neither down the rows nor to the right: all factors are at most 1.
                    theirs = tl.load(levels + first // rows * LANES, mask=(k > 0) & (lane >= 0), other=0)
                    high = (z[STRIP - 1].to(tl.int64, bitcast=True) >> 52).to(tl.int32) - 1023
                    now = tl.maximum(mine + tl.maximum(high, 0), theirs)
                    down = _power(mine - now)
                    factor = _power(theirs - now)
                    tl.store(levels + first // rows * LANES, now)
                    mine = now
                    corner = corner * down
                    old_z = z
                    old_x = x
                    z = ()
                    x = ()
                    for c in tl.static_range(STRIP):
                        z += (old_z[c] * down,)
                        x += (old_x[c] * down,)
                    for row in range(first, tl.minimum(first + rows, n)):
                        weights = table + code * WIDTH
                        here = edge + row * (2 * LANES)
                        y = next_y * factor
                        before = next_z * factor
                        # What the next row needs is under way while this one is computed.
                        more = (k > 0) & (row + 1 < n) & (lane >= 0)
                        next_y = tl.load(here + 2 * LANES, mask=more, other=gap * gap)
                        next_z = tl.load(here + 3 * LANES, mask=more, other=gap)
                        if ALONE:
                            code = tl.load(left_planes + (row + 1) * n_left + j, mask=there & (row + 1 < m), other=0)
                        else:
                            code = tl.load(left + begin + row + 1, mask=row + 1 < n, other=0)
                        old_z = z
                        old_x = x
                        z = ()
                        x = ()
                        above = corner
                        # `above` is z of the cell before in both strings, y the runs of the second string.
                        for c in tl.static_range(STRIP):
                            matched = tl.load(weights + place[c]) * above
                            closed = matched + old_x[c]
                            run = old_x[c] + gap * matched
                            last = closed + y
                            y = y + gap * closed
                            above = old_z[c]
                            if ALONE:
                                last = tl.where(row < m, last, old_z[c])
                                run = tl.where(row < m, run, old_x[c])
                            z += (last,)
                            x += (run,)
                        corner = before
                        tl.store(here, y)
                        tl.store(here + LANES, z[STRIP - 1])
                # The result is z of the last column of each second string, in the strip that contains it.
                for c in tl.static_range(STRIP):
                    ends = m - 1 == k * STRIP + c
                    found = tl.where(ends, z[c], found)
                    height = tl.where(ends, mine, height)
            logs = tl.log(found) + height.to(tl.float64) * LOG_2
            if ALONE:
                tl.store(value + j, logs, mask=there)
            else:
                at = i.to(tl.int64) * n_right + j
                if HALF:
                    there = there & (j >= i)
                    tl.store(value + j.to(tl.int64) * n_right + i, logs, mask=there)
                tl.store(value + at, logs, mask=there)
        job = tl.atomic_add(counter, 1)


def affine_kernels(
    table: Floats, left: Strings, right: Strings | None, gap: float, rows: int, *, strip: int = STRIP,
    programs: int = PROGRAMS,
) -> Array:  # fmt: skip
    """Compute log z(n, m) of all pairs in tilted numbers; not finite where it is not known.

    Parameters
    ----------
    table : ndarray of shape (C, D)
        Tilted match weights.
    left, right : Strings
        The two sides; the same object for half of the pairs, ``right=None`` for each string with itself.
    gap : float
        Tilted weight of a run.
    rows : int
        Number of rows between two updates of the exponents.
    strip : int
        Number of columns of a strip.
    programs : int
        Number of programs per multiprocessor.

    Returns
    -------
    tensor of shape (I, J), or (I,)
    """
    alone = right is None
    right = left if right is None else right
    device, n, m = left.codes.device, len(left), len(right)
    ended = np.zeros((len(table), table.shape[1] + 1))  # a last column for positions after the end
    ended[:, :-1] = table
    weights, numbers = (torch.from_numpy(x).to(device) for x in (ended, np.array([gap])))
    blocks = triton.cdiv(m, LANES)
    jobs = blocks if alone else n * blocks
    count = n_programs(jobs, programs, device)
    longest = int(left.planes.shape[0])
    value = torch.empty((n,) if alone else (n, m), dtype=torch.float64, device=device)
    edge = torch.empty(count * 2 * longest * LANES, dtype=torch.float64, device=device)
    levels = torch.empty(count * triton.cdiv(longest, rows) * LANES, dtype=torch.int32, device=device)
    counter = torch.zeros(1, dtype=torch.int32, device=device)
    _affine[(count,)](
        left.codes, left.offsets, left.planes, n, right.planes, right.sizes, m, weights, numbers, edge, levels, counter,
        value, longest, rows, blocks, jobs, WIDTH=ended.shape[1], STRIP=strip, LANES=LANES,
        HALF=right is left and not alone, ALONE=alone, num_warps=1, num_stages=1,
    )  # fmt: skip
    return value
