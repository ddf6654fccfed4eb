"""Batches of pair hidden Markov models with affine gaps (MK-5b)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy
from mercer._batch import Batch
from mercer._probability import checked_probability
from mercer._random import random_generator, whole_size
from mercer.data import Alphabet, Sequences
from mercer.data.ragged import offsets_of
from mercer.models._pairs.affine import (
    EXTEND,
    OPEN,
    AffineMachine,
    AffineParameters,
    log_probabilities,
    score_names,
    scores,
)
from mercer.models._pairs.joint import checked_joint
from mercer.models._pairs.machine import matches_of
from mercer.models.inference import read
from mercer.models.verbs import HasCriteria

if TYPE_CHECKING:
    from mercer.models._pairs.affine_operand import AffineOperand
    from mercer.models._pairs.matches import Matches
    from mercer.models.pairhmm_affine_estimator import AffinePairHMM


class AffinePairHMMs(HasCriteria, Batch):
    r"""A batch of pair hidden Markov models with affine gaps; two strings share hidden matches.

    Parameters
    ----------
    joint : array of shape (..., k, k)
        ``joint[..., a, b]`` is the probability that a match emits a to one string and b to the other. Symmetric and
        positive semi-definite: the joint distribution of two independent readings of one hidden letter.
    insertion : array of shape (..., k)
        Distribution of the letters inserted between matches.
    open : array of shape (...)
        Probability that letters are inserted before a match, or at the end; below 1.
    extend : array of shape (...)
        Probability that one more letter is inserted; below 1.
    continuation : array of shape (...)
        Probability of one more match; below 1.
    alphabet : Alphabet, str or iterable, default=None
        The k symbols; None means the integers 0 .. k-1.

    Notes
    -----
    MK-5b. There are N matches with probability :math:`(1-c)\,c^N`. Before, between and after them, each string
    *independently* inserts a run of letters: none with probability 1 - ``open``, else a geometric number. Given the
    hidden letters of the matches, the two strings are independent, so ``Marginalization`` of this model is positive
    semi-definite. The textbook pair HMM, with states match, insert in one and insert in the other string, is not.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.models.AffinePairHMMs(
    ...     joint=[[[0.4, 0.1], [0.1, 0.4]]], insertion=[[0.5, 0.5]],
    ...     open=[0.1], extend=[0.4], continuation=[0.8],
    ...     alphabet="ab",
    ... )
    >>> p
    AffinePairHMMs(shape=(1,), alphabet=Alphabet('ab'))
    >>> p.shared_history(["abba", "abb", "baab"]).pair(p.shared_history(["abba"])).round(2)
    array([[ -7.18],
           [ -8.76],
           [-11.65]])
    """

    _arrays: ClassVar[dict[str, int]] = {"joint": 2, "insertion": 1, "open": 0, "extend": 0, "continuation": 0}
    _shared: ClassVar[tuple[str, ...]] = ("alphabet",)
    _from_header: ClassVar[dict[str, Any]] = {"alphabet": Alphabet.from_header}
    draws_whole: ClassVar[bool] = True
    """Whether `sample` draws whole sequences, whose lengths the model decides."""
    is_local: ClassVar[bool] = False
    """Whether the ends of sequences have a distribution of their own (`LocalPairHMMs`)."""

    joint: Array
    insertion: Array
    open: Array
    extend: Array
    continuation: Array
    alphabet: Alphabet

    def __init__(
        self, joint: Any, insertion: Any, open: Any, extend: Any, continuation: Any, alphabet: Any = None
    ) -> None:
        numbers = {"open": open, "extend": extend, "continuation": continuation}
        self._freeze(**checked_fields(joint, insertion, numbers, alphabet))

    @property
    def dimension(self) -> int:
        """Number of symbols."""
        return len(self.alphabet)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one model: a symmetric joint, a distribution of letters, probabilities."""
        k = self.dimension
        return k * (k + 1) // 2 - 1 + k - 1 + len(self._arrays) - 2

    def estimator(self) -> AffinePairHMM:
        """Return an estimator that reads data as these models do, and whose ``fit`` is the first of them."""
        from mercer.models.pairhmm_affine_estimator import AffinePairHMM

        if 0 in self.shape:
            raise ValueError(f"An estimator stands for one model; got a batch of shape {self.shape}. Use one member.")
        return AffinePairHMM(alphabet=self.alphabet, local=self.is_local, init=self.reshape(-1)[:1])

    def read(self, X: Any) -> Sequences:
        """Convert ``X`` to sequences of the alphabet."""
        return read(self, X)

    # -- pairs of strings ----------------------------------------------------------------------------------

    def shared_history(self, X: Any) -> AffineOperand:
        """Prepare strings for the marginalization kernel, the probability of a shared hidden history (MK-5b).

        Parameters
        ----------
        X : Sequences or what makes them
            Strings over the alphabet, of any lengths. Ambiguity codes and missing symbols are marginalized.

        Returns
        -------
        operand
            ``a.pair(b)`` returns the log kernel of all pairs.
        """
        from mercer.models._pairs.affine_operand import AffineOperand

        self._require_one()
        return AffineOperand.of(self, self.read(X))

    def matches(self, first: Any, second: Any) -> Matches:
        """Posterior probabilities that symbols of two strings are matched.

        Parameters
        ----------
        first, second : one sequence each
            Strings over the alphabet.
        """
        self._require_one()
        return matches_of(AffineMachine.of(AffineParameters.of(self), 2).machine, self.alphabet, first, second)

    # -- single strings --------------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each string under each model, ``(N, M)``: the kernel summed over the other string.

        Parameters
        ----------
        X : Sequences or what makes them
            M strings; ambiguity codes and missing symbols are marginalized.
        """
        self._require_axis()
        return log_probabilities(self, self.read(X))

    def sequence_scores(self, X: Any, parametrization: str = "logit") -> Floats:
        """Fisher scores of each string under each model, ``(N, M, P)``; `score_names` names the columns."""
        self._require_axis()
        return scores(self, self.read(X), parametrization)

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        return score_names(self)

    def sample(self, size: int = 1, random_state: Any = None) -> list[Sequences]:
        """Draw ``size`` single strings from each model; one `Sequences` per model."""
        self._require_axis()
        return [strings for (strings,) in drawn(self, size, random_state, 1)]

    def sample_pairs(self, size: int = 1, random_state: Any = None) -> list[tuple[Sequences, Sequences]]:
        """Draw ``size`` pairs of strings from each model; both strings of a pair share their matches.

        Examples
        --------
        >>> import mercer as mc
        >>> model = mc.AffinePairHMM((2, -3), alphabet="dna").fit(["ACGTACGT"]).model_
        >>> first, second = model.sample_pairs(3, random_state=0)[0]
        >>> len(first), len(second)
        (3, 3)
        """
        self._require_axis()
        return [(first, second) for first, second in drawn(self, size, random_state, 2)]


def checked_fields(joint: Any, insertion: Any, numbers: dict[str, Any], alphabet: Any) -> dict[str, Any]:
    """Return the fields of a batch, or raise; ``numbers`` are probabilities below 1."""
    joint = checked_joint(joint)
    insertion = checked_probability(insertion, "insertion")
    k, batch = int(joint.shape[-1]), tuple(joint.shape[:-2])
    checked = {name: _checked_number(value, name) for name, value in numbers.items()}
    shapes = {"insertion": (*batch, k)} | dict.fromkeys(checked, batch)
    for name, value in {"insertion": insertion, **checked}.items():
        if tuple(value.shape) != shapes[name]:
            raise ValueError(
                f"{name} must have shape {shapes[name]} for a joint of shape {tuple(joint.shape)}; got "
                f"{tuple(value.shape)}."
            )
    symbols = Alphabet.of(range(k) if alphabet is None else alphabet)
    if len(symbols) != k:
        raise ValueError(f"joint must have one row per symbol; got {k} rows for an alphabet of {len(symbols)} symbols.")
    return {"joint": joint, "insertion": insertion, **checked, "alphabet": symbols}


def _checked_number(values: Any, what: str) -> Array:
    number = as_float(values)
    plain = to_numpy(number)
    bad = np.argwhere(~((plain >= 0) & (plain < 1)))
    if len(bad):
        where = tuple(map(int, bad[0]))
        raise ValueError(f"{what} must be a probability below 1; got {plain[where]} at index {where}.")
    return number


# Batches of pair hidden Markov models of local alignments (MK-5d).


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


MOST_LETTERS = 2e8
"""Largest expected number of letters: a gigabyte. More is probably a mistake."""
LETTERS_AT_ONCE = 2e6
"""Expected number of letters of the sequences that are drawn at once."""


def drawn(model: Any, size: int, random_state: Any, copies: int) -> list[tuple[Sequences, ...]]:
    """Draw ``size`` sets of matches of every model, and ``copies`` sequences of each, with independent insertions."""
    size = whole_size(size, "sequences")
    rng = random_generator(random_state)
    return [_of_one(AffineParameters.of(model, i), model.alphabet, size, rng, copies) for i in range(len(model))]


def _of_one(
    affine: AffineParameters, alphabet: Any, size: int, rng: np.random.Generator, copies: int
) -> tuple[Sequences, ...]:
    mean, (continuation, _, extended) = affine.mean_length, affine.rates[:3]
    if mean * size * copies > MOST_LETTERS:
        raise ValueError(
            f"Sequences of the model have {mean:.3g} letters on average (continuation {continuation:.17g}, "
            f"extend {max(extended, affine.flank[1]):.17g}), and {size * copies} of them more than "
            f"{MOST_LETTERS:.0e}. Draw fewer, or use a smaller continuation or extend."
        )
    some = int(np.clip(LETTERS_AT_ONCE / max(mean, 1e-9), 1, max(size, 1)))
    parts: list[list[tuple[Floats, Floats]]] = [[] for _ in range(copies)]
    for begin in range(0, size, some):
        count = rng.geometric(1.0 - continuation, size=min(some, size - begin)) - 1
        k = len(affine.insertion)
        pair = rng.choice(k * k, p=affine.joint.reshape(-1) / affine.joint.sum(), size=count.sum())
        for side, letters in zip(parts, divmod(pair, k), strict=False):
            side.append(_with_runs(affine, count, letters, rng))
    return tuple(_joined(side, alphabet) for side in parts)


def _joined(parts: list[tuple[Floats, Floats]], alphabet: Any) -> Sequences:
    codes = np.concatenate([np.empty(0, dtype=np.int32), *(codes for codes, _ in parts)])
    lengths = np.concatenate([np.empty(0, dtype=np.int64), *(lengths for _, lengths in parts)])
    return Sequences._make(codes, offsets_of(lengths), alphabet, None)


def _with_runs(
    affine: AffineParameters, matches: Floats, letters: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Add insertions before, between and after the matched letters of every sequence; return all codes, and lengths."""
    ends = np.cumsum(matches + 1)
    places = int((matches + 1).sum())
    opened, left = np.full(places, affine.rates[OPEN]), np.full(places, 1.0 - affine.rates[EXTEND])
    for at in (ends - 1, ends - 1 - matches):  # the last and the first run of each sequence
        opened[at], left[at] = affine.flank[0], 1.0 - affine.flank[1]
    run = (rng.random(places) < opened) * rng.geometric(left)
    follows = np.ones(places, dtype=np.int64)  # a match after every run except the last of a sequence
    follows[ends - 1] = 0
    kind = np.repeat(np.tile([False, True], places), np.stack([run, follows], axis=1).reshape(-1))
    codes = np.empty(len(kind), dtype=np.int32)
    codes[kind] = letters
    codes[~kind] = rng.choice(
        len(affine.insertion), p=affine.insertion / affine.insertion.sum(), size=int((~kind).sum())
    )
    owner = np.repeat(np.arange(len(matches)), matches + 1)
    return codes, np.bincount(owner, weights=run, minlength=len(matches)).astype(np.int64) + matches
