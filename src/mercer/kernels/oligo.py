"""The oligo kernel, which compares aligned strings by words whose positions are blurred (Meinicke et al. 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from mercer._array import Array, Floats
from mercer._parameters import Rules, positive
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.kernels._names import words
from mercer.kernels._operands import Rows
from mercer.kernels.base.transformer import WIDE, Bounds
from mercer.kernels.spectrum import FarColumns, Words, operand_of

LONGEST = 4096
"""Positions of the longest strings: the blur is a matrix of all pairs of positions."""
TINY = 1e-14
"""Positions whose blur is known up to this variance from others have no feature of their own."""


@dataclass(eq=False, repr=False)
class Oligo(Words):
    r"""Oligo kernel: words of length k that two aligned strings share, weighted by how near their positions are.

    Parameters
    ----------
    k : int, default=3
        Length of the words.
    sigma : float, default=1.0
        Width of the blur in positions. Near 0 a word counts at its own position only; a large sigma ignores positions.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None takes them from `Sequences`, or infers them from the data.
    unknown : {"raise", "missing"}, default="raise"
        How to treat a symbol outside the alphabet: as an error, or as missing.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with a string without any word: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    length_ : int
        Length of the longest training string; longer strings are refused.

    Notes
    -----
    .. math:: k(x, y) = \sum_{w \in \Sigma^k} \sum_{p: x_p = w}\ \sum_{q: y_q = w} e^{-(p - q)^2 / (4 \sigma^2)}

    up to the factor :math:`\sqrt\pi\sigma` the inner product of functions over positions, in which each occurrence of
    a word is a Gaussian bump of width sigma (Meinicke, Tech, Morgenstern and Merkl 2004). Positions count from the
    first symbol, so strings must be aligned, as windows around a site are. Words with an ambiguity code or a missing
    symbol are ignored. With sigma near 0 it is the linear kernel of words at positions, with a large one `Spectrum`.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.kernels.Oligo(k=2, sigma=1.0)(["ACGTT", "TACGT", "GTTAC"]).round(3)
    array([[1.   , 0.584, 0.21 ],
           [0.584, 1.   , 0.21 ],
           [0.21 , 0.21 , 1.   ]])
    """

    _parameters: ClassVar[Rules] = {"sigma": positive("It is a width in positions.")}
    _smooth: ClassVar[Bounds] = {"sigma": WIDE}

    psd = Verdict("always", "an inner product of sums of Gaussian bumps")

    k: int = 3
    sigma: float = 1.0
    alphabet: Any = None
    unknown: str = "raise"
    normalize: bool = True
    on_zero: str = "raise"

    def _learn(self, X: Sequences, y: Any = None) -> None:
        super()._learn(X)
        self.length_: int = int(X.lengths.max(initial=1))

    def _source(self, X: Sequences) -> Sequences:
        X = super()._source(X)
        too_long = np.flatnonzero(X.lengths > min(self.length_, LONGEST))
        if len(too_long):
            i = int(too_long[0])
            most = "the longest training string has" if self.length_ <= LONGEST else "the limit is"
            raise ValueError(
                f"{X.name(i)} has {X.lengths[i]:,} symbols, but {most} {min(self.length_, LONGEST):,}. Oligo compares "
                "aligned strings: cut all of them to the same window, or use mc.Spectrum."
            )
        return X

    def _prepare(self, source: Sequences) -> Rows | FarColumns:
        number, blur = len(self.alphabet_) ** int(self.k), self.blur()
        columns = number * blur.shape[1]
        found = self._windows(source)
        if number * max(len(source), blur.shape[1]) >= 2**63:
            raise ValueError(f"{number:,} words of {self.k} symbols are too many to index with int64. Lower k.")
        # One row for each word of each string: the sum of the rows of its positions.
        pairs, row = np.unique(found.owner * number + found.code, return_inverse=True)
        places = row, found.start - source.offsets[found.owner]
        bumps = sparse.csr_array((np.ones(len(row)), places), shape=(len(pairs), len(blur))) @ sparse.csr_array(blur)
        bumps.sort_indices()
        indices = np.repeat(pairs % number * blur.shape[1], np.diff(bumps.indptr)) + bumps.indices
        ends = bumps.indptr[np.searchsorted(pairs, np.arange(len(source) + 1) * number)]
        return operand_of(sparse.csr_array((bumps.data, indices, ends), shape=(len(source), columns)))

    def blur(self) -> Floats:
        """Return features of positions, ``(length_, r)``, whose inner products are the blur of their distances."""
        apart = np.subtract.outer(np.arange(self.length_), np.arange(self.length_)) / (2 * self.sigma)
        factor, pivots, rank, _ = lapack.dpstrf(np.exp(-(np.minimum(np.abs(apart), 1e3) ** 2)), tol=TINY, lower=1)
        features = np.empty((self.length_, rank))
        features[pivots - 1] = np.tril(factor)[:, :rank]
        return np.where(np.abs(features) > 1e-17, features, 0.0)

    def features(self, X: Any) -> Array:
        """Return the features, ``(N, |alphabet|^k r)``, r of each word; dense, or CSR if there are many.

        Rows have unit norm if the kernel is normalized.
        """
        return super().features(X)

    def _feature_names(self, width: int) -> list[str]:
        rank = width // len(self.alphabet_) ** int(self.k)
        return [
            f"{word}[{j}]" for word in words(self.alphabet_.symbols, int(self.k), width // rank) for j in range(rank)
        ]
