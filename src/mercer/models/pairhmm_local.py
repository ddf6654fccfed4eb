"""Batches of pair hidden Markov models of local alignments (MK-5d)."""

from __future__ import annotations

from typing import Any, ClassVar

from mercer._array import Array
from mercer.models.pairhmm_affine import AffinePairHMMs, checked_fields


class LocalPairHMMs(AffinePairHMMs):
    r"""A batch of pair hidden Markov models of local alignments: unrelated ends of two strings cost little.

    Parameters
    ----------
    joint : array of shape (..., k, k)
        ``joint[..., a, b]`` is the probability that a match emits a to one string and b to the other. Symmetric and
        positive semi-definite.
    insertion : array of shape (..., k)
        Distribution of the letters inserted between matches and in flanks.
    open : array of shape (...)
        Probability that letters are inserted between two matches; below 1.
    extend : array of shape (...)
        Probability that one more letter is inserted; below 1.
    continuation : array of shape (...)
        Probability of one more match; below 1.
    flank_open : array of shape (...)
        Probability that a string has letters before its first match, and after its last one; below 1.
    flank_extend : array of shape (...)
        Probability that a flank has one more letter; below 1, and usually near it.
    alphabet : Alphabet, str or iterable, default=None
        The k symbols; None means the integers 0 .. k-1.

    Notes
    -----
    MK-5d. It is the model of `AffinePairHMMs`, except that the letters before the first match and after the last one,
    the *flanks*, have their own distribution: none with probability 1 - ``flank_open``, else a geometric number. A
    string without matches is one flank. Given the hidden letters of the matches, the two strings are independent, so
    ``Marginalization`` of this model is positive semi-definite. With flanks like gaps it is `AffinePairHMMs`.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.models.LocalPairHMMs(
    ...     joint=[[[0.4, 0.1], [0.1, 0.4]]], insertion=[[0.5, 0.5]],
    ...     open=[0.1], extend=[0.4], continuation=[0.8],
    ...     flank_open=[0.9], flank_extend=[0.9], alphabet="ab",
    ... )
    >>> p
    LocalPairHMMs(shape=(1,), alphabet=Alphabet('ab'))
    >>> history = p.shared_history(["abba", "bbbbabbabbbb", "baab"])
    >>> history.pair(p.shared_history(["abba"])).round(2)
    array([[-12.31],
           [-18.24],
           [-12.38]])
    """

    _arrays: ClassVar[dict[str, int]] = AffinePairHMMs._arrays | {"flank_open": 0, "flank_extend": 0}
    is_local: ClassVar[bool] = True

    flank_open: Array
    flank_extend: Array

    def __init__(
        self,
        joint: Any,
        insertion: Any,
        open: Any,
        extend: Any,
        continuation: Any,
        flank_open: Any,
        flank_extend: Any,
        alphabet: Any = None,
    ) -> None:
        numbers = {
            "open": open,
            "extend": extend,
            "continuation": continuation,
            "flank_open": flank_open,
            "flank_extend": flank_extend,
        }
        self._freeze(**checked_fields(joint, insertion, numbers, alphabet))
