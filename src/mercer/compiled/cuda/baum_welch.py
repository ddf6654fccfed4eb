"""Baum-Welch for many HMMs with symbols: one program runs all iterations of one model (EST-2, EST-2b).

A program is one warp. It keeps the parameters and the expected counts of its model in registers, and the scaled forward
probabilities of its sequences in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from mercer._array import Array

MOST_STATES, MOST_SYMBOLS = 16, 32
SMALLEST = tl.constexpr(1e-100)
"""Smaller probabilities of an observation, given those before it, are left to numbers of a wider range."""


class Fits(NamedTuple):
    """Models after their last iteration, and how they were reached."""

    initial: Array
    transition: Array
    emission: Array
    objective: Array
    steps: Array
    converged: Array
    visits: Array
    history: Array
    sound: Array
    """Whether no observation was nearly impossible, ``(N,)``."""


@triton.jit
def _log_prior(counts, p):
    """Sum of counts times log probabilities, which are clipped to keep it finite."""
    return tl.sum(counts * tl.log(tl.maximum(p, 1e-300)))


@triton.jit
def _refit(counts, prior, old):
    """Divide rows by their sums; a row of zeros keeps its values."""
    counts += prior
    total = tl.sum(counts, axis=1)[:, None]
    return tl.where(total > 0, counts / tl.where(total > 0, total, 1.0), old)


@triton.jit(do_not_specialize=["n", "k", "n_iter"])
def _fit(
    codes, offsets, sequences, initial, transition, emission, prior_initial, prior_transition, prior_emission,
    tolerance, forward, factors, objective, steps, converged, visits, history, sound, n, k, n_iter,
    N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(0).to(tl.int64)
    i, j, s = tl.arange(0, N), tl.arange(0, N), tl.arange(0, K)
    one, two, three = i < n, (i < n)[:, None] & (j < n)[None, :], (i < n)[:, None] & (s < k)[None, :]
    at_a, at_b = i[:, None] * n + j[None, :], i[:, None] * k + s[None, :]
    # A row of weights is (1, N), so that it broadcasts over the states before a step.
    row = tl.zeros((1, N), dtype=tl.int64) + j[None, :]
    pi = tl.load(initial + model * n + row, mask=row < n, other=0.0)
    a = tl.load(transition + model * n * n + at_a, mask=two, other=0.0)
    b = tl.load(emission + model * n * k + at_b, mask=three, other=0.0)
    more_pi = tl.load(prior_initial + row, mask=row < n, other=0.0)
    more_a = tl.load(prior_transition + at_a, mask=two, other=0.0)
    more_b = tl.load(prior_emission + at_b, mask=three, other=0.0)
    first_sequence, last_sequence = tl.load(sequences + model), tl.load(sequences + model + 1)
    least = tl.load(tolerance + model)
    good = 1
    done = 0
    iteration = 0
    visited = tl.zeros((N,), dtype=tl.float64)
    before = tl.sum(visited) - float("inf")
    while (iteration < n_iter) & (done == 0):
        counts_pi = tl.zeros((1, N), dtype=tl.float64)
        counts_a = tl.zeros((N, N), dtype=tl.float64)
        counts_b = tl.zeros((N, K), dtype=tl.float64)
        reached = _log_prior(more_pi, pi) + _log_prior(more_a, a) + _log_prior(more_b, b)
        for sequence in range(first_sequence, last_sequence):
            begin, end = tl.load(offsets + sequence), tl.load(offsets + sequence + 1)
            ahead = tl.sum(tl.where(i[:, None] == 0, pi, 0.0), axis=0)
            for t in range(begin, end):
                code = tl.load(codes + t)
                leaf = tl.sum(tl.where(s[None, :] == code, b, 0.0), axis=1)
                alpha = ahead * leaf
                factor = tl.sum(alpha)
                good = tl.where(factor >= SMALLEST, good, 0)
                alpha = alpha / factor
                reached += tl.log(factor)
                tl.store(forward + t * n + i, alpha, mask=one)
                tl.store(factors + t, factor)
                ahead = tl.sum(alpha[:, None] * a, axis=0)
            tl.debug_barrier()
            # `after` is the weight of the future of every state, times its emission, over the factor of the step.
            after = tl.zeros((N,), dtype=tl.float64)
            for back in range(begin, end):
                t = end - 1 - (back - begin)
                alpha = tl.load(forward + t * n + i, mask=one, other=0.0)
                code = tl.load(codes + t)
                steps_here = alpha[:, None] * a * after[None, :]
                counts_a += steps_here
                beta = tl.where(t == end - 1, 1.0, tl.sum(a * after[None, :], axis=1))
                gamma = alpha * beta
                counts_b += tl.where(s[None, :] == code, gamma[:, None], 0.0)
                leaf = tl.sum(tl.where(s[None, :] == code, b, 0.0), axis=1)
                after = leaf * beta / tl.load(factors + t)
                counts_pi += tl.where(t == begin, 1.0, 0.0) * gamma[None, :]
            tl.debug_barrier()
        visited = tl.sum(counts_b, axis=1)
        tl.store(history + model * n_iter + iteration, reached)
        pi = _refit(counts_pi, more_pi, pi)
        a = _refit(counts_a, more_a, a)
        b = _refit(counts_b, more_b, b)
        done = tl.where(reached - before <= least, 1, 0)
        before = reached
        iteration += 1
    tl.store(initial + model * n + row, pi, mask=row < n)
    tl.store(transition + model * n * n + at_a, a, mask=two)
    tl.store(emission + model * n * k + at_b, b, mask=three)
    tl.store(objective + model, before)
    tl.store(steps + model, iteration)
    tl.store(converged + model, done)
    tl.store(visits + model * n + i, visited, mask=one)
    tl.store(sound + model, good)


def baum_welch(
    codes: Array, offsets: Array, sequences: Array, models: Sequence[Array], prior: Sequence[Array],
    tolerance: Array, n_iter: int,
) -> Fits:  # fmt: skip
    """Run EM for many models until the objective of each grows by at most its tolerance.

    Parameters
    ----------
    codes : tensor of int64 of shape (T,)
        All observations, below the number of symbols.
    offsets : tensor of int64 of shape (S + 1,)
        Sequence s has the observations ``offsets[s]:offsets[s + 1]``.
    sequences : tensor of int64 of shape (N + 1,)
        Model i has the sequences ``sequences[i]:sequences[i + 1]``.
    models : sequence of tensors
        Initial ``(N, n)``, transition ``(N, n, n)`` and emission probabilities ``(N, n, k)`` to start from.
    prior : sequence of tensors
        Pseudo-counts of each, ``(n,)``, ``(n, n)`` and ``(n, k)``.
    tolerance : tensor of shape (N,)
        Least gain of another iteration; -inf for ``n_iter`` iterations.
    n_iter : int
        Maximum number of iterations.

    Returns
    -------
    Fits
    """
    initial, transition, emission = (x.clone(memory_format=torch.contiguous_format) for x in models)
    (size, n), k, place = initial.shape, emission.shape[2], initial.device

    def empty(*shape: int, dtype: torch.dtype = torch.float64) -> Array:
        return torch.empty(shape, dtype=dtype, device=place)

    fits = Fits(
        initial, transition, emission, empty(size), empty(size, dtype=torch.int64), empty(size, dtype=torch.int64),
        empty(size, n), torch.full((size, n_iter), torch.nan, dtype=torch.float64, device=place),
        empty(size, dtype=torch.int64),
    )  # fmt: skip
    forward, factors = empty(len(codes), n), empty(len(codes))
    _fit[(size,)](
        codes, offsets, sequences, initial, transition, emission, *(x.contiguous() for x in prior), tolerance, forward,
        factors, fits.objective, fits.steps, fits.converged, fits.visits, fits.history, fits.sound, n, k, n_iter,
        N=triton.next_power_of_2(n), K=triton.next_power_of_2(k), num_warps=1,
    )  # fmt: skip
    return fits
