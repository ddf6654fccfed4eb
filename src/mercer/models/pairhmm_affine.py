"""Batches of pair hidden Markov models with affine gaps (MK-5b)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy
from mercer._batch import Batch
from mercer._probability import checked_probability
from mercer.data import Alphabet, Sequences
from mercer.models._pairs.joint import checked_joint
from mercer.models.inference import read

if TYPE_CHECKING:
    from mercer.models._pairs.affine_operand import AffineOperand
    from mercer.models._pairs.matches import Matches
    from mercer.models.pairhmm_affine_estimator import AffinePairHMM


class AffinePairHMMs(Batch):
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
        return AffineOperand.of(self, read(self, X))

    def matches(self, first: Any, second: Any) -> Matches:
        """Posterior probabilities that symbols of two strings are matched.

        Parameters
        ----------
        first, second : one sequence each
            Strings over the alphabet.
        """
        from mercer.models._pairs.affine import AffineMachine, AffineParameters
        from mercer.models._pairs.machine import matches_of

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
        from mercer.models._pairs.affine import log_probabilities

        self._require_axis()
        return log_probabilities(self, read(self, X))

    def bic(self, X: Any) -> Floats:
        """Bayesian information criterion of each model on all of ``X``, ``(N,)``; smaller is better."""
        X = read(self, X)
        return self.n_parameters * np.log(max(len(X.values), 1)) - 2 * self.log_prob(X).sum(axis=1)

    def sequence_scores(self, X: Any, parametrization: str = "logit") -> Floats:
        """Fisher scores of each string under each model, ``(N, M, P)``; `score_names` names the columns."""
        from mercer.models._pairs.affine import scores

        self._require_axis()
        return scores(self, read(self, X), parametrization)

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        from mercer.models._pairs.affine import score_names

        return score_names(self)

    def sample(self, size: int = 1, random_state: Any = None) -> list[Sequences]:
        """Draw ``size`` single strings from each model; one `Sequences` per model."""
        from mercer.models._pairs.affine_draws import drawn

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
        from mercer.models._pairs.affine_draws import drawn

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
