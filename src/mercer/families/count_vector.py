"""Vectors of counts of random length: word frequencies, and how many words a document has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from mercer._array import Array, Floats, as_float, beside, namespace, safe_log, to_numpy
from mercer._checks import check_gamma, check_rho
from mercer._coupling import (
    CountSmoothed,
    Coupling,
    FieldOperand,
    InnerLeaf,
    Leaf,
    Operand,
    PowerProduct,
    Smoothed,
    power,
)
from mercer._parameters import one_of
from mercer._random import random_generator, whole_size
from mercer._special import gammaln
from mercer.data import Alphabet
from mercer.data.csr import CSRRows
from mercer.families._counts.convolution import CountLeaf
from mercer.families._counts.rows import SparseRows, dense_counts
from mercer.families._sparse_leaf import SparseLeaf
from mercer.families.base import Family
from mercer.families.characteristic import averages, log_power
from mercer.families.geometric import Geometrics, times_log
from mercer.families.multinomial import Multinomials
from mercer.families.poisson import Poissons

if TYPE_CHECKING:
    from mercer.families.count_vector_estimator import CountVector

LENGTH_DISTRIBUTION = one_of("poisson", "geometric", "fixed", cure="It names the distribution of the number of words.")
"""The rule of the parameter ``length_distribution``."""
LONGEST = 1e17
"""Expected lengths that can be drawn: a geometric one of 90 times as much still has 64 bits."""


class CountVectors(SparseRows, Family):
    r"""A batch of distributions of count vectors: a random number of words, each drawn from the same frequencies.

    Parameters
    ----------
    probability : array of shape (..., k), or sparse matrix of shape (N, k)
        Word frequencies, rows that sum to one. A sparse matrix stays sparse.
    length : float or array of shape (...)
        Expected number of words, 0 or more; of ``length_distribution="fixed"`` a whole number.
    length_distribution : {"poisson", "geometric", "fixed"}, default="poisson"
        Distribution of the number of words. Poisson: every word has a Poisson count of its own. Geometric: much
        wider, so that the length of a document says less about it. Fixed: documents of different lengths have nothing
        in common.
    alphabet : Alphabet, iterable of words or None, default=None
        The vocabulary, one word per column.

    Notes
    -----
    Probability product (PPK-3.3) at rho = 1/2, with :math:`r = \sum_d \sqrt{a_d a'_d}` and mean lengths
    :math:`\tau, \tau'`: :math:`\exp(-\tfrac{\tau+\tau'}2 + \sqrt{\tau\tau'}\,r)` for Poisson lengths,
    :math:`\sqrt{(1-l)(1-l')} / (1 - \sqrt{ll'}\,r)` with :math:`\tau = l/(1-l)` for geometric ones, :math:`r^s` for
    equal fixed ones. The plain sum of :math:`r^s` over all lengths, :math:`1/(1-r)`, is not a kernel: it is infinite
    for a document with itself.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> probability = [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]
    >>> p = mc.families.CountVectors(probability, length=[4.0, 9.0, 4.0])
    >>> np.exp(p.log_product(p)).round(4)
    array([[1.    , 0.6065, 0.3099],
           [0.6065, 1.    , 0.1046],
           [0.3099, 0.1046, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"probability": 1, "length": 0}
    _shared: ClassVar[tuple[str, ...]] = ("length_distribution", "alphabet")
    tile_hint = 512

    length: Array
    length_distribution: str
    alphabet: Alphabet | None

    def __init__(
        self, probability: Any, length: Any, length_distribution: str = "poisson", alphabet: Any = None
    ) -> None:
        LENGTH_DISTRIBUTION("length_distribution", length_distribution)
        words = Multinomials(probability, alphabet=alphabet)
        checked = _checked_length(length, words, length_distribution == "fixed")
        self._freeze(
            probability=words.probability,
            length=checked,
            length_distribution=length_distribution,
            alphabet=words.alphabet,
        )

    # -- storage -------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of words of the vocabulary."""
        return int(self.probability.shape[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution: frequencies, and the expected length."""
        return self.dimension if self.length_distribution != "fixed" else self.dimension - 1

    @property
    def mean_parameters(self) -> Array:
        """Expected counts, ``(*B, k)``, dense."""
        return self.length[..., None] * self.dense().probability

    @classmethod
    def _unpack_fields(cls, arrays: dict[str, Any], shared: dict[str, Any], prefix: str) -> dict[str, Any]:
        if "law" in shared:  # its name in older files
            shared = {**shared, "length_distribution": shared["law"]}
            del shared["law"]
        return super()._unpack_fields(arrays, shared, prefix)

    def estimator(self) -> CountVector:
        """Return the estimator of this family."""
        from mercer.families.count_vector_estimator import CountVector

        return CountVector(length_distribution=self.length_distribution)

    @property
    def _words(self) -> Multinomials:
        return Multinomials._make(probability=self.probability, trials=1, alphabet=self.alphabet)

    @property
    def _poissons(self) -> Poissons:
        """Poisson lengths are independent Poisson counts of the words."""
        return Poissons._make(rate=self.mean_parameters)

    # -- coupling ------------------------------------------------------------------------------------------

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; at rho = 1/2 one product of rows a tile."""
        if isinstance(coupling, PowerProduct):
            check_rho(coupling.rho)
            if coupling.rho == 0.5:
                return LengthLeaf.of(self.probability, self.length, self.length_distribution)
            if self.length_distribution == "poisson":
                return self._poissons.couple(coupling, lengths)
            raise ValueError(
                f"rho must be 0.5 for counts of {self.length_distribution} length; got {coupling.rho}. Only "
                "length_distribution='poisson' has a closed form of the probability product for every rho."
            )
        if isinstance(coupling, CountSmoothed):
            check_gamma(coupling.gamma)
            if self.length_distribution == "fixed":
                return CountLeaf.of(self.probability, self.length, coupling.gamma)
            if self.length_distribution == "poisson":
                return self._poissons.couple(coupling, lengths)
            raise ValueError(
                "The mean map of counts of geometric length has no closed form. Use n_components=1000 for random "
                "features, or length_distribution='poisson'."
            )
        if isinstance(coupling, Smoothed):
            raise TypeError(
                "MeanMap(base='rbf') aligns single tokens, which CountVectors do not have. Use base='counts', or "
                "Multinomials."
            )
        return Leaf(self, coupling)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of p^rho q^rho over all vectors of counts (PPK-3.3)."""
        self._check_pair(other)
        return self.couple(PowerProduct(rho)).pair(other.matched(self).couple(PowerProduct(rho)))

    def log_count_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma |x - y|^2) of the counts, exact for Poisson and fixed lengths (GMMK-10a)."""
        self._check_pair(other)
        return self.couple(CountSmoothed(gamma)).pair(other.matched(self).couple(CountSmoothed(gamma)))

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i <w, x>) at every row w of ``frequencies (F, k)``, each ``(*B, F)``."""
        gap, sine = averages(self.probability, frequencies)
        tau = self.length[..., None]
        if self.length_distribution == "poisson":
            return -tau * gap, tau * sine
        if self.length_distribution == "fixed":
            return log_power(gap, sine, tau)
        xp, real, imaginary = namespace(gap), tau * gap, tau * sine  # 1 / (1 + real - i imaginary)
        return -xp.log1p(real * (2 + real) + imaginary * imaginary) / 2, xp.atan2(imaginary, 1 + real)

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence: of the lengths, and of every word of p; +inf where q excludes what p has."""
        self._check_pair(other)
        xp, tau, other_tau = namespace(self.length), self.length[..., None], other.length[..., None]
        if self.length_distribution == "poisson":
            lengths = Poissons._make(rate=tau).kl(Poissons._make(rate=other_tau))
        elif self.length_distribution == "geometric":
            sides = (Geometrics._make(probability=1 / (1 + side)) for side in (tau, other_tau))
            lengths = next(sides).kl(next(sides))
        else:
            lengths = xp.where(tau == other.length[..., None, :], 0 * tau, xp.inf)
        words = self._words.kl(other._words)
        return lengths + xp.where(tau > 0, tau * xp.where(tau > 0, words, xp.zeros_like(words)), 0 * tau)

    # -- counts --------------------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log probability of every row of counts, its total included, ``(*B, n) x (*B, T, k) -> (*B, n, T)``."""
        x = dense_counts(x)
        given = self._words.log_prob(x)
        xp = namespace(given)
        total = xp.sum(x, axis=-1) if not self.shape else xp.sum(x, axis=-1)[..., None, :]
        tau = self.length[..., None]
        if self.length_distribution == "fixed":
            return xp.where(total == tau, given, -xp.inf)
        if self.length_distribution == "poisson":
            return given + times_log(total, safe_log(tau)) - tau - gammaln(total + 1)
        return given + times_log(total, safe_log(tau / (1 + tau))) - xp.log1p(tau)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` vectors of counts from every member, ``(*B, size, k)``."""
        size = whole_size(size)
        rng = random_generator(random_state)
        length = to_numpy(self.length).astype(float)
        long = np.argwhere(length > LONGEST)
        if len(long):
            where = tuple(map(int, long[0]))
            raise ValueError(
                f"The member{f' at index {where}' if where else ''} has {length[where]:.3g} words, more than NumPy "
                f"draws as 64-bit integers. Sample from lengths up to {LONGEST:.0e}."
            )
        tau = np.broadcast_to(length[..., None], (*self.shape, size))
        if self.length_distribution == "poisson":
            total = rng.poisson(tau)
        else:
            total = tau.astype(np.int64) if self.length_distribution == "fixed" else rng.geometric(1 / (1 + tau)) - 1
        p = to_numpy(self.dense().probability).astype(float)
        p = p / p.sum(axis=-1, keepdims=True)
        return rng.multinomial(total, p[..., None, :]).astype(float)


def _checked_length(length: Any, words: Multinomials, fixed: bool) -> Array:
    """Return expected lengths of the batch shape in the library of the frequencies, or say which is wrong."""
    try:
        given = as_float(length)
    except TypeError as error:
        raise TypeError(
            f"length must be the expected number of words, one number or one per row; got {length!r}."
        ) from error
    if words.sparse:
        given = to_numpy(given)
    elif not (is_array_api_obj(length) and namespace(given) is namespace(words.probability)):
        given = beside(words.probability, to_numpy(given), words.probability.dtype)
    if tuple(given.shape) not in ((), words.shape):
        raise ValueError(
            f"length must have one number of words per row, shape {words.shape}; got {tuple(given.shape)}."
        )
    values = np.broadcast_to(to_numpy(given), words.shape)
    good = (values >= 0) & np.isfinite(values)
    for right, must in (
        (good, "0 or more, and finite"),
        (np.where(good, values, 0.5) % 1 == 0 if fixed else good, "a whole number with length_distribution='fixed'"),
    ):
        bad = np.argwhere(~right)
        if len(bad):
            where = tuple(map(int, bad[0]))
            raise ValueError(f"length{f' at index {where}' if where else ''} must be {must}; got {values[where]}.")
    return namespace(given).broadcast_to(given, words.shape)


# Vectors of counts of random length under the probability product at rho = 1/2 (PPK-3.3).

NEAR = 1e-5
"""Pairs whose 1 - r is below this have lost digits to cancellation, which a long document makes many."""
CHUNK = 1 << 20
"""Numbers of differences that are alive at once."""


@dataclass(eq=False)
class LengthLeaf(FieldOperand):
    """Frequencies and lengths: sum_s sqrt(w_s w'_s) r^s with r = sum_d sqrt(a_d a'_d), from 1 - r without cancellation.

    Parameters
    ----------
    inner : InnerLeaf or SparseLeaf
        Of the square roots of frequencies that sum to one: log r of every pair, by one product a tile.
    length : array of shape (*B)
        Expected lengths.
    distribution : {"poisson", "geometric", "fixed"}
        Of the lengths.
    dtype : dtype or None
        Dtype of the results, if they are computed in a wider one.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("distribution", "dtype")

    inner: Any
    length: Array
    distribution: str
    dtype: Any = None

    @classmethod
    def of(cls, probability: Any, length: Array, distribution: str) -> Self:
        """Prepare frequencies, dense ``(*B, k)`` or compressed, and lengths ``(*B)``."""
        sparse = isinstance(probability, CSRRows)
        single = (sparse or is_numpy_array(probability)) and probability.dtype == np.float32
        dtype = probability.dtype if single else None
        if single:  # lengths multiply the rounding of r
            length = length.astype(np.float64)
        if sparse:
            return cls(SparseLeaf.of_power(probability.widened().shares(), 0.5, 1), length, distribution, dtype)
        if single:
            probability = probability.astype(np.float64)
        total = namespace(probability).sum(probability, axis=-1, keepdims=True)
        return cls(InnerLeaf.of_power(probability / total, 0.5), length, distribution, dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.length.shape)

    @property
    def tile_hint(self) -> int:
        """Rows of a tile that suit the caches."""
        return int(self.inner.tile_hint)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        length = namespace(self.length).reshape(self.length, shape)
        return type(self)(self.inner.reshape(*shape), length, self.distribution, self.dtype)

    def pair(self, other: Self) -> Array:
        """Compute the kernel of every pair, as a logarithm."""
        log_r = self.inner.pair(other.inner)
        xp = namespace(log_r)
        gap = self._refined(other, xp.clip(-xp.expm1(log_r), 0.0, None))
        tau, other_tau = self.length[..., :, None], other.length[..., None, :]
        root, other_root = power(tau, 0.5), power(other_tau, 0.5)
        apart, together = (root - other_root) ** 2, root * other_root
        if self.distribution == "poisson":
            value = -apart / 2 - together * gap
        elif self.distribution == "geometric":  # u = sqrt((1 + tau)(1 + tau')): k = 1 / (u - together r), rewritten
            u = xp.sqrt(1 + tau) * xp.sqrt(1 + other_tau)  # the product itself may overflow
            value = -xp.log1p(apart / (u + 1 + together) + together * gap)
        else:
            near = gap < 0.5
            log_r = xp.where(near, xp.log1p(-xp.where(near, gap, xp.zeros_like(gap))), log_r)
            equal = tau == other_tau
            drawn = equal & (tau > 0)  # two empty documents are equal for any frequencies
            logs = xp.where(drawn, log_r, xp.zeros_like(log_r))
            value = xp.where(equal, tau * logs, -xp.inf)
        return value if self.dtype is None else value.astype(self.dtype)

    def alone(self) -> Array:
        """Compute the kernel of every member with itself: 1."""
        zeros = 0 * self.length
        return zeros if self.dtype is None else zeros.astype(self.dtype)

    def _refined(self, other: Self, gap: Array) -> Array:
        """Compute 1 - r = |sqrt a - sqrt a'|^2 / 2 once more for pairs that are nearly equal, from their differences.

        Of one batch axis in NumPy; elsewhere 1 - r is exact to a few units of the last digit of 1.
        """
        if not is_numpy_array(gap) or gap.ndim != 2:
            return gap
        rows, columns = np.nonzero(gap < NEAR)
        a, b = _roots(self.inner), _roots(other.inner)
        step = max(1, CHUNK // max(int(a.shape[1]), 1)) if isinstance(a, np.ndarray) else 256
        for at in range(0, len(rows), step):
            i, j = rows[at : at + step], columns[at : at + step]
            difference = a[i] - b[j]
            squares = difference * difference
            gap[i, j] = np.asarray(squares.sum(axis=1)).ravel() / 2
        return gap


def _roots(inner: Any) -> Any:
    """Return the square roots of the frequencies, as a matrix."""
    return inner.rows.rows.to_scipy() if isinstance(inner, SparseLeaf) else inner.features
