"""Joint distributions of matched letters from substitution matrices: names, units, scales, backgrounds (MK-5b)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._checks import is_number
from mercer.data import Alphabet
from mercer.models._pairs.joint import checked_joint, is_psd, lowest_eigenvalue
from mercer.models._pairs.scales import implied_background, implied_scale, karlin_altschul, printed_unit

__all__ = ["Joint", "given_joint", "given_law", "joint_of", "natural_alphabet"]

AMINO_ACIDS = frozenset("ACDEFGHIKLMNPQRSTVWY")
NUCLEOTIDES = frozenset("ACGT")

OTHER_LETTERS = "or alphabet= where the training data do not show all letters"
RARE = 1e-6
"""A letter with a smaller probability than this is as good as gone, which a scale alone should not do."""


@dataclass(frozen=True)
class Joint:
    """A joint distribution of two matched letters."""

    joint: Floats
    """Probabilities, ``(k, k)``, symmetric."""
    scale: float
    """Natural logarithms in a unit of the scores."""


@dataclass(frozen=True)
class _Scores:
    """A substitution matrix in the order of an alphabet."""

    values: Floats
    unit: float | None
    """The scale that its header states, or None."""
    name: str


def joint_of(substitution: Any, scale: Any, background: Any, alphabet: Alphabet, composition: Any = None) -> Joint:
    r"""Turn scores of substitutions into the joint distribution of two matched letters.

    Parameters
    ----------
    substitution : str, Biopython Array, array of shape (k, k), dict or (match, mismatch)
        Scores: the name of a matrix that Biopython holds, such as "BLOSUM62"; one of its arrays; scores in the order of
        the alphabet; ``{("A", "R"): -1.0, ...}``, each pair once; or two numbers.
    scale : float or None
        Natural logarithms in a unit of the scores. None: the unit that the matrix is printed in where its header says
        so (BLOSUM62: half bits, ln 2 / 2). Else the one at which the scores are log odds of a joint law and its own
        marginals, or, where there is none, at which they are log odds over the background (Karlin and Altschul's
        lambda).
    background : array of shape (k,), dict or None
        Law of a letter. None: the one that matrix and scale imply, where it is positive, else the ``composition``.
    alphabet : Alphabet
        The letters; others of the matrix (B, Z, X, ``*``) are left out.
    composition : array of shape (k,), default=None
        Law of a letter in the training data; None is even.

    Notes
    -----
    .. math:: J_{ab} = q_a q_b e^{u S_{ab}} / \sum_{cd} q_c q_d e^{u S_{cd}}

    (MK-5b). The implied background is :math:`q \propto e^{uS\,-1} 1`, whose joint law has exactly these marginals at
    any scale u (Yu and Altschul 2005). J is positive semi-definite for every background if the matrix
    :math:`e^{u S_{ab}}` is.

    Examples
    --------
    >>> from mercer.data import Alphabet
    >>> from mercer.models._pairs.substitution import joint_of
    >>> found = joint_of((5, -4), None, None, Alphabet.of("dna"))
    >>> round(found.scale, 4), found.joint[0].round(4)
    (0.1915, array([0.1628, 0.0291, 0.0291, 0.0291]))
    """
    scores = _scores_of(substitution, alphabet)
    even = np.full(len(alphabet), 1.0 / len(alphabet))
    spread = even if composition is None else np.asarray(composition, dtype=np.float64)
    given = None if background is None else given_law("background", background, alphabet)
    u = _scale_of(scores, scale, given, spread)
    ratio = np.exp(u * (scores.values - scores.values.max()))  # a factor falls out, and nothing overflows
    implied = implied_background(ratio) if given is None else None
    chosen = spread if given is None else given
    law = chosen if implied is None else implied
    joint = law[:, None] * law * ratio
    joint /= joint.sum()
    _check_psd(joint, scores, u, alphabet)
    rarest = int(joint.sum(axis=1).argmin())
    if joint[rarest].sum() < RARE and (implied is not None or chosen[rarest] >= RARE):
        warnings.warn(
            f"{scores.name} at scale {u:.4g} gives matched letters {alphabet.symbols[rarest]!r} with probability "
            f"{joint[rarest].sum():.1g} only: give a smaller matrix_scale, or another background",
            UserWarning,
            stacklevel=2,
        )
    return Joint(joint, u)


def given_joint(joint: Any, alphabet: Alphabet) -> Floats:
    """Check a joint distribution given as probabilities, ``(k, k)``; float32 stays float32."""
    values = _table("joint", joint, alphabet)
    kind = np.float32 if getattr(joint, "dtype", None) == np.float32 else np.float64
    checked_joint(values.astype(kind))
    return (values / values.sum()).astype(kind)


def given_law(name: str, law: Any, alphabet: Alphabet, *, zeros: bool = False) -> Floats:
    """Check a distribution of letters: an array in the order of the alphabet, a dictionary, or a labeled Series."""
    if hasattr(law, "iloc"):
        law = _by_label(name, law, alphabet)
    if isinstance(law, Mapping):
        lacking = [symbol for symbol in alphabet.symbols if symbol not in law]
        if lacking:
            raise ValueError(f"{name} has no probability of {lacking[0]!r}: give one for every letter")
        law = [law[symbol] for symbol in alphabet.symbols]
    values = _numbers(name, law)
    if values.shape != (len(alphabet),):
        raise ValueError(
            f"{name} has shape {values.shape}, and the alphabet {alphabet.describe()} has {len(alphabet)} letters: "
            f"give a probability for each, in this order, {OTHER_LETTERS}"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & ((values >= 0) if zeros else (values > 0))))
    if len(bad):
        cure = "a probability" if zeros else "a positive probability, so that none is impossible"
        raise ValueError(f"{name} of {alphabet.symbols[bad[0]]!r} is {values[bad[0]]:g}: give every letter {cure}")
    if abs(values.sum() - 1.0) > 1e-2:  # published frequencies are rounded
        raise ValueError(f"{name} sums to {values.sum():.6g}: give probabilities that sum to 1")
    return np.asarray(values / values.sum())


def natural_alphabet(substitution: Any) -> Alphabet | None:
    """Return the alphabet that a matrix with letters is about: proteins, DNA, or None where it has no letters."""
    letters = frozenset(_letters(substitution))
    if letters >= AMINO_ACIDS:
        return Alphabet.of("protein")
    if letters >= NUCLEOTIDES:
        return Alphabet.of("dna")
    return None


# -- scores ---------------------------------------------------------------------------------------------------


def _scores_of(substitution: Any, alphabet: Alphabet) -> _Scores:
    """Read scores in the order of the alphabet."""
    if isinstance(substitution, str):
        array = _named(substitution)
        return _of_letters(array, array.alphabet, f"{substitution}", alphabet)
    if isinstance(substitution, Mapping):
        return _checked(_of_pairs(substitution, alphabet), None, "the substitution matrix", alphabet)
    if hasattr(substitution, "iloc"):
        values = _numbers("substitution", _by_label("substitution", substitution, alphabet, others=True))
        return _checked(values, None, "the substitution matrix", alphabet)
    if hasattr(substitution, "alphabet") and getattr(substitution, "ndim", 0) == 2:
        return _of_letters(substitution, substitution.alphabet, "the substitution matrix", alphabet)
    if isinstance(substitution, tuple | list) and len(substitution) == 2 and all(map(is_number, substitution)):
        match, mismatch = map(float, substitution)
        if match <= mismatch:
            raise ValueError(
                f"substitution = ({match:g}, {mismatch:g}): give (match, mismatch) with a match above a mismatch, such "
                "as (2, -3)"
            )
        values = np.full((len(alphabet), len(alphabet)), mismatch)
        np.fill_diagonal(values, match)
        return _checked(values, None, f"({match:g}, {mismatch:g})", alphabet)
    if substitution is None or _ndim(substitution) != 2:
        raise TypeError(
            f"substitution = {substitution!r}: give the name of a matrix such as 'BLOSUM62', scores of shape (k, k) in "
            "the order of the alphabet, a dictionary {('A', 'R'): -1, ...}, or (match, mismatch)"
        )
    return _checked(_table("substitution", substitution, alphabet), None, "the substitution matrix", alphabet)


def _named(name: str) -> Any:
    """Load a matrix by name, in whatever case."""
    try:
        from Bio.Align import substitution_matrices
    except ImportError as error:
        raise ImportError(
            f"substitution = {name!r} is read through Biopython, which is not installed: pip install 'mercer[bio]', or "
            "give the scores as an array or a dictionary"
        ) from error
    load: Any = substitution_matrices.load
    known = {str(found).upper(): found for found in load()}
    if name.upper() not in known:
        raise ValueError(
            f"substitution = {name!r} is no matrix that Biopython knows; it has {', '.join(known.values())}"
        )
    return load(known[name.upper()])


def _letters(substitution: Any) -> list[Any]:
    """Return the letters that a matrix is about, or none."""
    if isinstance(substitution, str):
        return list(_named(substitution).alphabet)
    if isinstance(substitution, Mapping):
        return [letter for pair in substitution if isinstance(pair, tuple) for letter in pair]
    if hasattr(substitution, "iloc"):
        return list(substitution.index)
    return list(getattr(substitution, "alphabet", ()))


def _of_letters(array: Any, letters: Any, name: str, alphabet: Alphabet) -> _Scores:
    """Take the letters of the alphabet out of a matrix that names its rows."""
    place = {letter: i for i, letter in enumerate(letters)}
    if alphabet == Alphabet.of("rna") and "U" not in place and "T" in place:
        place["U"] = place["T"]
    nucleotides = len(alphabet) == 4 and set(alphabet.symbols) <= set("ACGTU")
    lacking = [symbol for symbol in alphabet.symbols if symbol not in place]
    if lacking or (nucleotides and set(place) >= AMINO_ACIDS):
        found = f"has no score of {lacking[0]!r}" if lacking else "scores amino acids"
        raise ValueError(
            f"{name} {found}, and the alphabet is {alphabet.describe()}: give a matrix of its letters, such as "
            f"{'NUC.4.4' if nucleotides else 'BLOSUM62'!r}, or (match, mismatch), or another alphabet"
        )
    rows = [place[symbol] for symbol in alphabet.symbols]
    values = np.asarray(array, dtype=np.float64)[np.ix_(rows, rows)]
    return _checked(values, printed_unit(getattr(array, "header", ())), name, alphabet)


def _of_pairs(pairs: Mapping[Any, Any], alphabet: Alphabet) -> Floats:
    """Read a dictionary from pairs of letters to scores, where one order of every pair is enough."""
    values = np.empty((len(alphabet), len(alphabet)))
    for i, a in enumerate(alphabet.symbols):
        for j, b in enumerate(alphabet.symbols[: i + 1]):
            given = [pairs[key] for key in ((a, b), (b, a)) if key in pairs]
            for score in given:
                if not is_number(score):
                    raise ValueError(f"the score of {a!r} and {b!r} is {score!r}: give a number")
            found = set(map(float, given))
            if len(found) != 1:
                problem = f"two scores, {min(found):g} and {max(found):g}" if found else "no score"
                raise ValueError(f"the substitution matrix has {problem} of ({a!r}, {b!r}): give one for every pair")
            values[i, j] = values[j, i] = found.pop()
    return values


def _ndim(values: Any) -> int | None:
    try:
        return np.ndim(values)
    except ValueError:  # rows of different lengths
        return None


def _numbers(name: str, values: Any) -> Floats:
    try:
        return np.asarray(to_numpy(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} = {values!r}: give numbers") from None


def _by_label(name: str, frame: Any, alphabet: Alphabet, *, others: bool = False) -> Any:
    """Bring a pandas DataFrame or Series into the order of the alphabet; ``others``: more labels are left out."""
    for axis in frame.axes:
        labels = list(axis)
        lacking = [symbol for symbol in alphabet.symbols if symbol not in labels]
        odd = [label for label in labels if label not in alphabet.symbols]
        if lacking or (odd and not others) or len(set(labels)) < len(labels):
            found = f"lack {lacking[0]!r}" if lacking else f"hold {odd[0]!r}" if odd else "repeat themselves"
            raise ValueError(
                f"the labels of {name} {found}, and the alphabet is {alphabet.describe()}: label rows and columns by "
                f"its letters, or give {name}.to_numpy() in this order"
            )
    symbols = list(alphabet.symbols)
    return (frame.loc[symbols, symbols] if len(frame.axes) == 2 else frame.loc[symbols]).to_numpy()


def _table(name: str, values: Any, alphabet: Alphabet) -> Floats:
    table = _numbers(name, _by_label(name, values, alphabet) if hasattr(values, "iloc") else values)
    if table.shape != (len(alphabet), len(alphabet)):
        raise ValueError(
            f"{name} has shape {table.shape}, and the alphabet {alphabet.describe()} has {len(alphabet)} letters: give "
            f"a row and a column for each, in this order, {OTHER_LETTERS}"
        )
    if not np.isfinite(table).all():
        a, b = (int(i) for i in np.argwhere(~np.isfinite(table))[0])
        raise ValueError(f"{name}[{a}, {b}] = {table[a, b]:g}: give finite numbers")
    return table


def _checked(values: Floats, unit: float | None, name: str, alphabet: Alphabet) -> _Scores:
    if not np.isfinite(values).all():
        a, b = (alphabet.symbols[i] for i in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"the score of {a!r} and {b!r} in {name} is not finite: give a number")
    _check_symmetric(name, values, alphabet)
    return _Scores(values, unit, name)


def _check_symmetric(name: str, values: Floats, alphabet: Alphabet) -> None:
    away = np.abs(values - values.T)
    if away.max(initial=0.0) > 1e-9 * max(1.0, float(np.abs(values).max(initial=0.0))):
        i, j = np.unravel_index(int(away.argmax()), away.shape)
        a, b = alphabet.symbols[i], alphabet.symbols[j]
        raise ValueError(
            f"{name} is not symmetric: {values[i, j]:g} for {a!r} and {b!r}, and {values[j, i]:g} for {b!r} and {a!r}; "
            "give (S + S.T) / 2"
        )


# -- scales ---------------------------------------------------------------------------------------------------


def _scale_of(scores: _Scores, scale: Any, background: Floats | None, composition: Floats) -> float:
    if scale is not None:
        return float(scale)
    if scores.unit is not None:
        return scores.unit
    found = implied_scale(scores.values) if background is None else None
    if found is None:
        found = karlin_altschul(scores.values, composition if background is None else background)
    if found is None:
        raise ValueError(
            f"{scores.name} has no natural scale, because its scores are not negative on average and positive "
            "somewhere: give matrix_scale=, the natural logarithms in a unit of its scores"
        )
    return found


# -- positive semi-definiteness -------------------------------------------------------------------------------


def _check_psd(joint: Floats, scores: _Scores, u: float, alphabet: Alphabet) -> None:
    """Raise if the joint distribution is not positive semi-definite, with a cure."""
    if is_psd(joint):
        return
    raise ValueError(
        f"{scores.name} at scale {u:.4g} gives a joint law of matched letters that is not positive semi-definite "
        f"(scaled to a diagonal of ones, its smallest eigenvalue is {lowest_eigenvalue(joint):.3g}), so that the "
        f"kernel would not be one: {_cure(scores.values, u, alphabet)}"
    )


def _cure(scores: Floats, u: float, alphabet: Alphabet) -> str:
    """Find what helps: a larger scale, unless two letters score higher together than by themselves on average."""
    diagonal = np.diag(scores)
    short = (diagonal[:, None] + diagonal) / 2 - scores
    np.fill_diagonal(short, np.inf)
    if short.min() <= 0:
        i, j = np.unravel_index(int(short.argmin()), short.shape)
        a, b = alphabet.symbols[i], alphabet.symbols[j]
        return (
            f"no scale helps, because {a!r} with {b!r} scores {scores[i, j]:g}, no less than the mean of {a!r} and "
            f"{b!r} with themselves; give another matrix, such as BLOSUM62"
        )
    for larger in u * np.geomspace(1.01, 1000.0, 700):
        ratio = np.exp(larger * (scores - (diagonal[:, None] + diagonal) / 2))
        if np.linalg.eigvalsh(ratio)[0] > 0:
            return f"give a larger scale, such as matrix_scale={larger:.3g}, or another matrix, such as BLOSUM62"
    return "give another matrix, such as BLOSUM62"
