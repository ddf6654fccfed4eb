"""Characteristic functions of whole sequences of hidden Markov models: one product of matrices per frequency (MM-2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, Floats, beside, namespace
from mercer.families.characteristic import log_polar


def chain_characteristic(initial: Array, transition: Array, emission: Any, frequencies: Floats) -> tuple[Array, Array]:
    r"""Return the log modulus and the angle of :math:`E \exp(i \sum_t \langle w_t, y_t\rangle)`, each ``(*B, F)``.

    :math:`\varphi = \pi D_1 A D_2 \cdots A D_T 1`, where the diagonal matrix :math:`D_t` holds the characteristic
    functions of the states' emissions at :math:`w_t`. The vector is rescaled at every step, so that its length does not
    matter.

    Parameters
    ----------
    initial, transition : arrays of shape (*B, n) and (*B, n, n)
        The chain of hidden states.
    emission : batch of shape (*B, n)
        Distributions with ``log_characteristic``.
    frequencies : array of shape (F, T, d)
        One vector per step.
    """
    xp = namespace(initial)
    forward = xp.matrix_transpose(transition)
    total: Any = 0.0
    real: Any = initial[..., None]  # (*B, n, F) from the first step on
    imaginary = xp.zeros_like(real)
    for t in range(frequencies.shape[1]):
        if t:
            real, imaginary = forward @ real, forward @ imaginary
        logs, angle = emission.log_characteristic(frequencies[:, t])
        top = _finite(xp.max(logs, axis=-2, keepdims=True))
        size = xp.exp(logs - top)
        cosine, sine = size * xp.cos(angle), size * xp.sin(angle)
        real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        largest = xp.max(xp.maximum(xp.abs(real), xp.abs(imaginary)), axis=-2, keepdims=True)
        scale = xp.where(largest > 0, largest, xp.ones_like(largest))
        real, imaginary = real / scale, imaginary / scale
        total = total + (top + xp.log(scale))[..., 0, :]
    found, turned = log_polar(xp.sum(real, axis=-2), xp.sum(imaginary, axis=-2))
    return total + found, turned


def _finite(top: Array) -> Array:
    xp = namespace(top)
    return xp.where(xp.isfinite(top), top, xp.zeros_like(top))


# Characteristic functions of whole series of linear dynamical systems: one backward pass per frequency (MM-2).


def system_characteristic(systems: Any, frequencies: Floats) -> tuple[Array, Array]:
    r"""Return the log modulus and the angle of :math:`E \exp(i \sum_t \langle w_t, x_t\rangle)`, each ``(*B, F)``.

    The series is Gaussian, so that the modulus is :math:`e^{-w^\top S w/2}` and the angle :math:`w^\top m`,
    of the joint covariance S and mean m. With :math:`u_t = C^\top w_t + A^\top u_{t+1}`, both are sums over time:
    :math:`u_t^\top Q u_t + w_t^\top R w_t` and :math:`u_t^\top b + w_t^\top c`; the first state has its own mean and
    covariance.

    Parameters
    ----------
    systems : LDSs of shape (*B,)
        The systems.
    frequencies : array of shape (F, T, d)
        One vector per step.
    """
    first = systems.initial_mean
    xp = namespace(first)
    back, seen = xp.matrix_transpose(systems.transition), xp.matrix_transpose(systems.emission)
    power: Any = 0.0
    angle: Any = 0.0
    state: Any = None
    for t in range(frequencies.shape[1] - 1, -1, -1):
        w = beside(first, np.ascontiguousarray(frequencies[:, t].T), first.dtype)  # (d, F)
        state = seen @ w if state is None else seen @ w + back @ state  # (*B, n, F)
        covariance, mean = systems.process_covariance, systems.state_offset
        if t == 0:
            covariance, mean = systems.initial_covariance, first
        power = power + _quadratic(systems.observation_covariance, w) + _quadratic(covariance, state)
        angle = angle + _inner(systems.observation_offset, w) + _inner(mean, state)
    return -xp.clip(power, 0.0, None) / 2, angle


def _quadratic(matrix: Array, vectors: Array) -> Array:
    """Return v' M v of every column v."""
    return namespace(matrix).sum(vectors * (matrix @ vectors), axis=-2)


def _inner(vector: Array, vectors: Array) -> Array:
    """Return <m, v> of every column v."""
    return namespace(vector).sum(vector[..., None] * vectors, axis=-2)
