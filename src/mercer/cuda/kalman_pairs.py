"""Kernels of pairs of linear dynamical systems (PPK-4.5) on a GPU: a thread filters the difference of two series.

As on the CPU (native/kalman_pairs.hpp), the state of the difference is that of both systems, and its covariance
does not depend on data: once it does not change any more in any thread of a warp, only the mean goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl

from mercer._array import Array, Floats

LANES = 32
LOG_2 = tl.constexpr(float(np.log(2.0)))
CANCELED, STEADY = tl.constexpr(1e-4), tl.constexpr(4e-16)
"""As on the CPU: a variance that falls by more has lost digits; a covariance that changes less does not change."""


@triton.jit
def _exponent(x):
    """Exponent of positive numbers."""
    return ((x.to(tl.int64, bitcast=True) >> 52) & 2047) - 1023


@triton.jit
def _power(exponent):
    """Two to a power within the range of float64."""
    return ((exponent + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit(do_not_specialize=["count_a", "count_b", "n_lengths", "jobs"])
def _filter(
    a_left, b_left, c_left, d_left, q_left, r_left, m_left, s_left, count_a,
    a_right, b_right, c_right, d_right, q_right, r_right, m_right, s_right, count_b,
    numbers, lengths, n_lengths, value, jobs,
    N: tl.constexpr, M: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    S: tl.constexpr = N + M
    noise, extra, log_2pi = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    blocks = tl.cdiv(count_b, LANES)
    plane = count_a.to(tl.int64) * count_b
    job = tl.program_id(0)
    i = job // blocks
    j = (job % blocks) * LANES + tl.arange(0, LANES)
    there = j < count_b
    j = tl.where(there, j, count_b - 1)
    if (not HALF) or (tl.max(j) >= i):
        nothing = tl.zeros((LANES,), dtype=tl.float64)
        # Lower triangle of the covariance of the predicted state, and its mean.
        p = ()
        mean = ()
        for r in tl.static_range(S):
            for c in tl.static_range(r + 1):
                if r < N:
                    p += (nothing + noise * tl.load(s_left + (r * N + c) * count_a + i),)
                elif c >= N:
                    p += (noise * tl.load(s_right + ((r - N) * M + c - N) * count_b + j),)
                else:
                    p += (nothing,)
            if r < N:
                mean += (nothing + tl.load(m_left + r * count_a + i),)
            else:
                mean += (tl.load(m_right + (r - N) * count_b + j),)
        squares = nothing
        mantissa = nothing + 1.0
        exponent = tl.zeros((LANES,), dtype=tl.int64)
        step_mantissa = mantissa
        step_exponent = exponent
        good = j >= 0
        # Of L D L', the covariance of the observation C P C' + R: the rows of L^-1 C P, 1 / D, and L.
        rows = ()
        inverse = ()
        lower = ()
        for r in tl.static_range(D):
            for _c in tl.static_range(S):
                rows += (nothing,)
            for _c in tl.static_range(r):
                lower += (nothing,)
            inverse += (nothing,)
        steady = 0
        reached = 0
        last = tl.load(lengths + n_lengths - 1)
        t = last * 0
        while t < last:
            # The factor of the covariance of the observation, as long as covariances still change.
            if steady == 0:
                rows = ()
                inverse = ()
                lower = ()
                step_mantissa = nothing + 1.0
                step_exponent = tl.zeros((LANES,), dtype=tl.int64)
                for r in tl.static_range(D):
                    # Row r of (C, -C') of both systems, and of its product with P.
                    seen = ()
                    for k in tl.static_range(S):
                        if k < N:
                            seen += (nothing + tl.load(c_left + (r * N + k) * count_a + i),)
                        else:
                            seen += (-tl.load(c_right + (r * M + k - N) * count_b + j),)
                    cp = ()
                    for c in tl.static_range(S):
                        total = nothing
                        for k in tl.static_range(S):
                            total += seen[k] * p[(k * (k + 1) // 2 + c) if k >= c else (c * (c + 1) // 2 + k)]
                        cp += (total,)
                    # Row r of L, then its pivot, and row r of L^-1 C P.
                    raw = ()
                    low = ()
                    for c in tl.static_range(r):
                        entry = noise * (
                            tl.load(r_left + (r * D + c) * count_a + i) + tl.load(r_right + (r * D + c) * count_b + j)
                        )
                        for k in tl.static_range(S):
                            if k < N:
                                entry += cp[k] * tl.load(c_left + (c * N + k) * count_a + i)
                            else:
                                entry -= cp[k] * tl.load(c_right + (c * M + k - N) * count_b + j)
                        for k in tl.static_range(c):
                            entry -= raw[k] * lower[c * (c - 1) // 2 + k]
                        raw += (entry,)
                        low += (entry * inverse[c],)
                    pivot = extra + noise * (
                        tl.load(r_left + r * (D + 1) * count_a + i) + tl.load(r_right + r * (D + 1) * count_b + j)
                    )
                    for k in tl.static_range(S):
                        pivot += cp[k] * seen[k]
                    for k in tl.static_range(r):
                        pivot -= raw[k] * low[k]
                    for c in tl.static_range(S):
                        total = cp[c]
                        for k in tl.static_range(r):
                            total -= low[k] * rows[k * S + c]
                        rows += (total,)
                    # The determinant is kept as mantissa and exponent: no logarithm, no overflow.
                    good = good & (pivot > 0.0)
                    step_mantissa *= pivot
                    power = _exponent(step_mantissa)
                    step_exponent += power
                    step_mantissa *= _power(-power)
                    lower += low
                    inverse += (1.0 / pivot,)
                # Update: the covariance given the observation, P - (C P)' (L D L')^-1 C P.
                kept = ()
                for r in tl.static_range(S):
                    for c in tl.static_range(r + 1):
                        total = p[r * (r + 1) // 2 + c]
                        for k in tl.static_range(D):
                            total -= rows[k * S + r] * (rows[k * S + c] * inverse[k])
                        kept += (total,)
                    good = good & ~(kept[r * (r + 3) // 2] < CANCELED * p[r * (r + 3) // 2])
                # A P A' + Q, row by row of A P.
                moved = ()
                for r in tl.static_range(S):
                    row = ()
                    for c in tl.static_range(S):
                        total = nothing
                        if r < N:
                            if c < N:
                                for k in tl.static_range(N):
                                    total += (
                                        tl.load(a_left + (r * N + k) * count_a + i)
                                        * kept[(k * (k + 1) // 2 + c) if k >= c else (c * (c + 1) // 2 + k)]
                                    )
                        else:
                            for k in tl.static_range(M):
                                total += (
                                    tl.load(a_right + ((r - N) * M + k) * count_b + j)
                                    * kept[
                                        ((N + k) * (N + k + 1) // 2 + c) if N + k >= c else (c * (c + 1) // 2 + N + k)
                                    ]
                                )
                        row += (total,)
                    for c in tl.static_range(r + 1):
                        if r < N:
                            total = nothing + noise * tl.load(q_left + (r * N + c) * count_a + i)
                        elif c >= N:
                            total = noise * tl.load(q_right + ((r - N) * M + c - N) * count_b + j)
                        else:
                            total = nothing
                        if c < N:
                            for k in tl.static_range(N):
                                total += row[k] * tl.load(a_left + (c * N + k) * count_a + i)
                        else:
                            for k in tl.static_range(M):
                                total += row[N + k] * tl.load(a_right + ((c - N) * M + k) * count_b + j)
                        moved += (total,)
                # Steady if no entry of any thread changes, relative to its two variances.
                changes = j < 0
                for r in tl.static_range(S):
                    for c in tl.static_range(r + 1):
                        bound = STEADY * (moved[r * (r + 3) // 2] + moved[c * (c + 3) // 2])
                        change = tl.abs(moved[r * (r + 1) // 2 + c] - p[r * (r + 1) // 2 + c])
                        changes = changes | ~(change <= bound)
                steady = 1 - tl.max(changes.to(tl.int32))
                p = moved
            # The observed difference is zero: its error L^-1 (d' - d - (C, -C') mean), and its squares.
            error = ()
            for r in tl.static_range(D):
                y = tl.load(d_right + r * count_b + j) - tl.load(d_left + r * count_a + i)
                for k in tl.static_range(S):
                    if k < N:
                        y -= mean[k] * tl.load(c_left + (r * N + k) * count_a + i)
                    else:
                        y += mean[k] * tl.load(c_right + (r * M + k - N) * count_b + j)
                for k in tl.static_range(r):
                    y -= lower[r * (r - 1) // 2 + k] * error[k]
                squares += y * y * inverse[r]
                error += (y,)
            mantissa *= step_mantissa
            power = _exponent(mantissa)
            exponent += power + step_exponent
            mantissa *= _power(-power)
            # The mean given the observation, and that of the next state.
            found = ()
            for r in tl.static_range(S):
                total = mean[r]
                for k in tl.static_range(D):
                    total += rows[k * S + r] * (error[k] * inverse[k])
                found += (total,)
            mean = ()
            for r in tl.static_range(S):
                if r < N:
                    total = nothing + tl.load(b_left + r * count_a + i)
                    for k in tl.static_range(N):
                        total += found[k] * tl.load(a_left + (r * N + k) * count_a + i)
                else:
                    total = tl.load(b_right + (r - N) * count_b + j)
                    for k in tl.static_range(M):
                        total += found[N + k] * tl.load(a_right + ((r - N) * M + k) * count_b + j)
                mean += (total,)
            t += 1
            if t == tl.load(lengths + reached):
                logs = tl.log(mantissa) + exponent.to(tl.float64) * LOG_2
                logs = -0.5 * (logs + squares + (nothing + t) * log_2pi)
                logs = tl.where(good, logs, float("nan"))
                kept_here = there
                if HALF:
                    kept_here = there & (j >= i)
                    tl.store(value + reached * plane + j.to(tl.int64) * count_b + i, logs, mask=kept_here)
                tl.store(value + reached * plane + i.to(tl.int64) * count_b + j, logs, mask=kept_here)
                reached += 1


def pair_densities(left: Sequence[Array], right: Sequence[Array], lengths: Floats, noise: float, extra: float) -> Array:
    """Compute the log density at zero of the difference of two series, for all pairs and lengths.

    Parameters
    ----------
    left, right : sequence of tensors
        A, b, C, d, Q, R, mu and S of the systems of each side, one contiguous row per entry, such as ``(n * n, I)``;
        the same object for half of the pairs.
    lengths : ndarray of int
        Lengths, increasing.
    noise, extra : float
        All covariances are multiplied by ``noise``; ``extra`` is added to the variances of observations.

    Returns
    -------
    tensor of shape (H, I, J)
        NaN where digits were lost, or where a covariance is singular.
    """
    device, (n, i), (m, j), d = left[0].device, left[1].shape, right[1].shape, left[3].shape[0]
    value = torch.empty((len(lengths), i, j), dtype=torch.float64, device=device)
    numbers = torch.tensor([noise, extra, d * np.log(2 * np.pi)], dtype=torch.float64, device=device)
    steps = torch.from_numpy(np.append(np.asarray(lengths, np.int32), np.int32(0))).to(device)
    jobs = i * triton.cdiv(j, LANES)
    _filter[(jobs,)](
        *left, i, *right, j, numbers, steps, len(lengths), value, jobs, N=n, M=m, D=d, HALF=right is left, LANES=LANES,
        num_warps=1, num_stages=1,
    )  # fmt: skip
    return value
