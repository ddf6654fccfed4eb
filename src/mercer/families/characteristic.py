"""Random features of mean maps: characteristic functions at random frequencies (MM-2).

A base kernel of the difference x - y is an average of complex exponentials, E_w exp(i <w, x - y>) (Bochner). So its
mean map is E_w phi_p(w) conj phi_q(w), phi a characteristic function, and F frequencies make explicit features. A
batch that has ``log_characteristic(frequencies)`` has them: the log modulus and the angle of phi, each ``(*B, F)``. A
model of sequences (``emits_sequences``) takes one vector per step, ``(F, T, d)``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._batch import Batch
from mercer._checks import check_gamma
from mercer.data.csr import CSRRows

CHUNK = 1 << 22
"""Numbers of random frequencies, and of characteristic functions at them, that are alive at once."""


def random_frequencies(rng: np.random.Generator, gamma: float, shape: tuple[int, ...], base: str = "rbf") -> Floats:
    """Draw frequencies of a base kernel: normal for exp(-gamma |x - y|^2), Cauchy for exp(-gamma |x - y|_1)."""
    if base == "laplace":
        return gamma * rng.standard_cauchy(shape)
    return math.sqrt(2 * gamma) * rng.standard_normal(shape)


def random_features(
    batch: Any, gamma: float, n_components: int, seed: int, length: int | None = None, base: str = "rbf"
) -> Array:
    """Return features ``(N, 2 F)`` of F random frequencies, real parts first, then imaginary ones.

    Their inner products are unbiased estimates of the mean map, of sequences of ``length`` observations for models
    of sequences.
    """
    distribution = _distribution(batch)
    _check_capable(distribution, base)
    event = (length, int(batch.dimension)) if emits_sequences(batch) and length else (int(batch.dimension),)
    rng, width = np.random.default_rng(seed), math.prod(event)
    real, imaginary = [], []
    step = max(1, CHUNK // max(width, math.prod(distribution.shape), 1))
    for begin in range(0, n_components, step):  # row by row, so that the size of a piece changes no frequency
        size = (min(step, n_components - begin), width)
        drawn = random_frequencies(rng, gamma, size, base)
        with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite raise below
            logs, angle = batch.log_characteristic(drawn.reshape(-1, *event))
            xp = namespace(logs)
            modulus = xp.exp(logs) / math.sqrt(n_components)
            real.append(modulus * xp.cos(angle))
            imaginary.append(modulus * xp.sin(angle))
    features = namespace(real[0]).concat(real + imaginary, axis=-1)
    _check_finite(features)
    return features


def emits_sequences(batch: Any) -> bool:
    """Whether the members, or the components of mixtures, are models of sequences."""
    while hasattr(batch, "components"):
        batch = batch.components
    return bool(getattr(batch, "emits_sequences", False))


def _distribution(batch: Any) -> Any:
    """Return the distributions of single points: the components of a mixture, emissions, or the batch itself."""
    while True:
        if hasattr(batch, "components"):
            batch = batch.components
        elif isinstance(getattr(batch, "emission", None), Batch):
            batch = batch.emission
        else:
            return batch


def _check_capable(distribution: Any, base: str) -> None:
    """Raise if a distribution has no characteristic function, or if it is not that of its mean map."""
    name = type(distribution).__name__
    if not hasattr(distribution, "log_characteristic"):
        raise TypeError(
            f"MeanMap(n_components=...) needs `log_characteristic`, which {name} does not have. Use Gaussians, "
            "Categoricals, Poissons or Multinomials, Mixtures of these, KDEs, HMMs, MarkovChains or LDSs, or "
            "n_components=None."
        )
    if base == "counts":
        if not hasattr(distribution, "trials"):
            raise no_counts(distribution)
    elif getattr(distribution, "trials", 1) > 1:
        raise ValueError(
            f"MeanMap(n_components=...) aligns the {distribution.trials} tokens of {name}, which is not a function of "
            "a difference and has no random features. Use n_components=None, which is exact and fast, or "
            "base='counts', which compares vectors of counts."
        )


def no_counts(distribution: Any) -> TypeError:
    """Return the error that a distribution is not one of vectors of counts of a given total."""
    return TypeError(
        f"MeanMap(base='counts') compares the vectors of counts of Multinomials; got {type(distribution).__name__}. "
        "Use base='rbf', the Gaussian kernel of their observations."
    )


def _check_finite(features: Array) -> None:
    """Raise if a frequency times a parameter overflowed."""
    xp = namespace(features)
    if not bool(xp.all(xp.isfinite(features))):
        member = int(np.argwhere(~np.isfinite(to_numpy(features)))[0][0])
        raise ValueError(
            f"The random features of member {member} are not finite, because the frequencies times its parameters "
            "overflow. Scale the data, or use a smaller gamma."
        )


# -- what families make characteristic functions of --------------------------------------------------------------


def averages(probability: Any, frequencies: Floats) -> tuple[Array, Array]:
    """Return 1 - Re c, without cancellation, and Im c of c = sum_d a_d exp(i w_d), ``(*B, F)`` for ``(F, k)`` w."""
    halves, sines = 2 * np.sin(frequencies / 2) ** 2, np.sin(frequencies)
    if isinstance(probability, CSRRows):
        rows = probability.to_scipy()
        return np.asarray(rows @ halves.T), np.asarray(rows @ sines.T)
    turned = [beside(probability, np.ascontiguousarray(part.T), probability.dtype) for part in (halves, sines)]
    return probability @ turned[0], probability @ turned[1]


def log_power(gap: Array, sine: Array, total: Any) -> tuple[Array, Array]:
    """Return log |c^s| and the angle of c^s, for c = 1 - gap + i sine and whole totals s; 0^0 is 1."""
    xp = namespace(gap)
    total = xp.zeros_like(gap) + total
    excess = gap * (gap - 2) + sine * sine  # |c|^2 - 1
    near = excess > -0.75  # there |c|^2 itself would lose digits, which a large total makes many
    logs = xp.where(near, xp.log1p(xp.where(near, excess, xp.zeros_like(excess))), safe_log(1 + excess)) / 2
    return xp.where(total > 0, total * logs, xp.zeros_like(logs)), total * xp.atan2(sine, 1 - gap)


def log_polar(real: Array, imaginary: Array) -> tuple[Array, Array]:
    """Return the log modulus and the angle of real + i imaginary; of zero -inf and 0, without a gradient."""
    xp = namespace(real)
    squared = real * real + imaginary * imaginary
    return safe_log(squared) / 2, xp.atan2(imaginary, xp.where(squared > 0, real, xp.ones_like(real)))


def log_average(log_weights: Array, logs: Array, angle: Array) -> tuple[Array, Array]:
    """Average complex numbers, given by log moduli and angles ``(*B, m, F)``, with weights ``(*B, m)``."""
    xp, logs = namespace(logs), logs + log_weights[..., None]
    top = xp.max(logs, axis=-2, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    size = xp.exp(logs - top)  # the largest is 1: squares do not underflow
    found, turned = log_polar(xp.sum(size * xp.cos(angle), axis=-2), xp.sum(size * xp.sin(angle), axis=-2))
    return found + top[..., 0, :], turned


# -- methods that follow from the formulas of an exponential family -----------------------------------------------


def log_mean_map(self: Any, other: Any, gamma: float) -> Array:
    """Log of E exp(-gamma |x - y|^2) of every pair, ``(*B, n, m)`` (GMMK-0)."""
    check_gamma(gamma)
    self._check_pair(other)
    return self._pairs(other, lambda p, q: p.mean_map(q, float(gamma)))


def log_characteristic(self: Any, frequencies: Floats) -> tuple[Array, Array]:
    """Log modulus and angle of E exp(i <w, x>) at every row w of ``frequencies (F, d)``, each ``(*B, F)``.

    They are the real and imaginary parts of K(theta + i w) - K(theta).
    """
    like = self.natural_parameters
    xp = namespace(like)
    value = self._continued(1j * xp.astype(beside(like, frequencies), xp.complex128))
    return xp.real(value), xp.imag(value)
