"""Joint distributions of matched letters from substitution matrices: names, units, scales, backgrounds (MK-5b)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from mercer._array import Floats, to_numpy
from mercer._checks import is_number
from mercer._notices import notify
from mercer._parallel import single_blas
from mercer.data import Alphabet
from mercer.models._pairs.blosum import UNIT, blosum62
from mercer.models._pairs.joint import is_psd, lowest_eigenvalue

AMINO_ACIDS = frozenset("ACDEFGHIKLMNPQRSTVWY")
NUCLEOTIDES = frozenset("ACGT")

OTHER_LETTERS = "Pass alphabet= if the training data lack some letters."
RARE = 1e-6
"""A letter with a smaller probability than this is practically lost, and a warning says so."""


class Joint(NamedTuple):
    """A joint distribution of two matched letters."""

    joint: Floats
    """Probabilities, ``(k, k)``, symmetric."""
    scale: float
    """Natural logarithms per unit of the scores."""


class _Scores(NamedTuple):
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
        Scores: "BLOSUM62", or the name of another matrix of Biopython; one of its arrays; scores in the order of
        the alphabet; ``{("A", "R"): -1.0, ...}``, each pair once; or two numbers.
    scale : float or None
        Natural logarithms per unit of the scores. None uses the unit that the header of the matrix states
        (BLOSUM62: half bits, ln 2 / 2); else the scale at which the scores are log odds of a joint distribution over
        its own marginals; or, if there is none, at which they are log odds over the background (Karlin and
        Altschul's lambda).
    background : array of shape (k,), dict or None
        Distribution of a letter. None uses the one that matrix and scale imply if it is positive, else the
        ``composition``.
    alphabet : Alphabet
        The letters; others of the matrix (B, Z, X, ``*``) are left out.
    composition : array of shape (k,), default=None
        Distribution of a letter in the training data; None is uniform.

    Notes
    -----
    .. math:: J_{ab} = q_a q_b e^{u S_{ab}} / \sum_{cd} q_c q_d e^{u S_{cd}}

    (MK-5b). The implied background is :math:`q \propto e^{uS\,-1} 1`, whose joint distribution has exactly these
    marginals at any scale u (Yu and Altschul 2005). J is positive semi-definite for every background if the matrix
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
    given = None if background is None else given_distribution("background", background, alphabet)
    u = _scale_of(scores, scale, given, spread)
    ratio = np.exp(u * (scores.values - scores.values.max()))  # constant factors cancel, and this avoids overflow
    implied = implied_background(ratio) if given is None else None
    chosen = spread if given is None else given
    distribution = chosen if implied is None else implied
    joint = distribution[:, None] * distribution * ratio
    joint /= joint.sum()
    _check_psd(joint, scores, u, alphabet)
    rarest = int(joint.sum(axis=1).argmin())
    if joint[rarest].sum() < RARE and (implied is not None or chosen[rarest] >= RARE):
        notify(
            f"{scores.name} at matrix_scale = {u:.4g} gives matched letters {alphabet.symbols[rarest]!r} a "
            f"probability of only {joint[rarest].sum():.1g}. Use a smaller matrix_scale, or another background.",
        )
    return Joint(joint, u)


def given_distribution(name: str, distribution: Any, alphabet: Alphabet) -> Floats:
    """Check a distribution of letters: an array in the order of the alphabet, a dictionary, or a labeled Series."""
    if hasattr(distribution, "items"):
        by_letter = dict(distribution.items())
        lacking = [symbol for symbol in alphabet.symbols if symbol not in by_letter]
        if lacking:
            raise ValueError(f"{name} must have a probability for every letter; {lacking[0]!r} has none.")
        distribution = [by_letter[symbol] for symbol in alphabet.symbols]
    values = _numbers(name, distribution)
    if values.shape != (len(alphabet),):
        raise ValueError(
            f"{name} must have one probability per letter of {alphabet.describe()}, in this order; "
            f"got shape {values.shape} for {len(alphabet)} letters. {OTHER_LETTERS}"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        letter = alphabet.symbols[bad[0]]
        raise ValueError(f"{name} of {letter!r} is {values[bad[0]]:g}; every letter must have a positive probability.")
    if abs(values.sum() - 1.0) > 1e-2:  # published frequencies are rounded
        raise ValueError(f"{name} must be probabilities that sum to 1; got the sum {values.sum():.6g}.")
    return np.asarray(values / values.sum())


def natural_alphabet(substitution: Any) -> Alphabet | None:
    """Return the alphabet of a matrix with letters: proteins or DNA; None if it has no letters."""
    labeled = _labeled(substitution)
    letters = frozenset() if labeled is None else frozenset(labeled.letters)
    if letters >= AMINO_ACIDS:
        return Alphabet.of("protein")
    return Alphabet.of("dna") if letters >= NUCLEOTIDES else None


# -- scores ---------------------------------------------------------------------------------------------------


class _Labeled(NamedTuple):
    """A matrix whose rows and columns have letters."""

    letters: list[Any]
    values: Any
    """NaN where there is no score."""
    unit: float | None = None
    name: str = "substitution"


def _labeled(substitution: Any) -> _Labeled | None:
    """Return scores with their letters; None if they have none."""
    if isinstance(substitution, str):
        if substitution.upper() == "BLOSUM62":
            return _Labeled(*blosum62(), UNIT, substitution)
        return _labeled(_named(substitution))._replace(name=substitution)  # type: ignore[union-attr]
    if isinstance(substitution, Mapping):
        return _of_pairs(substitution)
    if hasattr(substitution, "iloc"):
        letters = list(substitution.index)
        return _Labeled(letters, substitution.reindex(columns=letters).to_numpy())
    if hasattr(substitution, "alphabet") and getattr(substitution, "ndim", 0) == 2:
        return _Labeled(list(substitution.alphabet), substitution, printed_unit(getattr(substitution, "header", ())))
    return None


def _named(name: str) -> Any:
    """Load a matrix of Biopython by name, ignoring case."""
    try:
        from Bio.Align import substitution_matrices
    except ImportError as error:
        raise ImportError(
            f"substitution = {name!r} needs Biopython, which is not installed. Run pip install biopython, use "
            "'BLOSUM62', which needs no package, or pass the scores as an array or a dictionary."
        ) from error
    load: Any = substitution_matrices.load
    known = {str(found).upper(): found for found in load()}
    if name.upper() not in known:
        raise ValueError(
            f"substitution must be a matrix that Biopython knows ({', '.join(known.values())}); got {name!r}."
        )
    return load(known[name.upper()])


def _of_pairs(pairs: Mapping[Any, Any]) -> _Labeled:
    """Read a dictionary from pairs of letters to scores; one order of each pair is enough."""
    letters = list(dict.fromkeys(letter for pair in pairs for letter in pair))
    values = np.full((len(letters), len(letters)), np.nan)
    for (a, b), score in pairs.items():
        if not is_number(score):
            raise ValueError(f"The score of {a!r} and {b!r} must be a number; got {score!r}.")
        if pairs.get((b, a), score) != score:
            raise ValueError(
                f"The substitution matrix has two scores, {score:g} and {pairs[b, a]:g}, of ({a!r}, {b!r}); every pair "
                "must have one."
            )
        i, j = letters.index(a), letters.index(b)
        values[i, j] = values[j, i] = score
    return _Labeled(letters, values)


def _scores_of(substitution: Any, alphabet: Alphabet) -> _Scores:
    """Read scores in the order of the alphabet."""
    labeled, k = _labeled(substitution), len(alphabet)
    if labeled is not None:
        return _checked(_chosen(labeled, alphabet), labeled.unit, labeled.name, alphabet)
    if isinstance(substitution, tuple | list) and len(substitution) == 2 and all(map(is_number, substitution)):
        match, mismatch = map(float, substitution)
        if match <= mismatch:
            raise ValueError(
                f"substitution must be (match, mismatch) with match above mismatch, such as (2, -3); got ({match:g}, "
                f"{mismatch:g})."
            )
        return _checked(np.where(np.eye(k, dtype=bool), match, mismatch), None, f"({match:g}, {mismatch:g})", alphabet)
    if substitution is None or _ndim(substitution) != 2:
        raise TypeError(
            "substitution must be the name of a matrix such as 'BLOSUM62', scores of shape (k, k) in the order of the "
            f"alphabet, a dictionary {{('A', 'R'): -1, ...}}, or (match, mismatch); got {substitution!r}."
        )
    values = _numbers("substitution", substitution)
    if values.shape != (k, k):
        raise ValueError(
            f"substitution must have a row and a column per letter of {alphabet.describe()}, in this order; "
            f"got shape {values.shape} for {k} letters. {OTHER_LETTERS}"
        )
    return _checked(values, None, "substitution", alphabet)


def _chosen(labeled: _Labeled, alphabet: Alphabet) -> Floats:
    """Select the letters of the alphabet; others are left out."""
    place = {letter: i for i, letter in enumerate(labeled.letters)}
    if alphabet == Alphabet.of("rna") and "U" not in place and "T" in place:
        place["U"] = place["T"]
    nucleotides = len(alphabet) == 4 and set(alphabet.symbols) <= set("ACGTU")
    lacking = [symbol for symbol in alphabet.symbols if symbol not in place]
    if lacking or (nucleotides and set(place) >= AMINO_ACIDS):
        found = f"has no score of {lacking[0]!r}" if lacking else "scores amino acids"
        raise ValueError(
            f"{labeled.name} {found}, and the alphabet is {alphabet.describe()}. Use a matrix of its letters, such as "
            f"{'NUC.4.4' if nucleotides else 'BLOSUM62'!r}, or (match, mismatch), or another alphabet."
        )
    rows = [place[symbol] for symbol in alphabet.symbols]
    return _numbers(labeled.name, labeled.values)[np.ix_(rows, rows)]


def _checked(values: Floats, unit: float | None, name: str, alphabet: Alphabet) -> _Scores:
    for i, j in np.argwhere(~np.isfinite(values))[:1]:
        a, b = alphabet.symbols[i], alphabet.symbols[j]
        raise ValueError(f"The score of {a!r} and {b!r} in {name} must be a finite number; got {values[i, j]:g}.")
    away = np.abs(values - values.T)
    if away.max(initial=0.0) > 1e-9 * max(1.0, float(np.abs(values).max(initial=0.0))):
        i, j = np.unravel_index(int(away.argmax()), away.shape)
        a, b = alphabet.symbols[i], alphabet.symbols[j]
        raise ValueError(
            f"{name} must be symmetric; got {values[i, j]:g} for {a!r} and {b!r}, and {values[j, i]:g} for {b!r} and "
            f"{a!r}. Use (S + S.T) / 2."
        )
    return _Scores(values, unit, name)


def _ndim(values: Any) -> int | None:
    try:
        return np.ndim(values)
    except ValueError:  # rows of different lengths
        return None


def _numbers(name: str, values: Any) -> Floats:
    try:
        return np.asarray(to_numpy(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers; got {values!r}.") from None


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
            "somewhere. Use matrix_scale=, the natural logarithms per unit of its scores."
        )
    return found


# -- positive semi-definiteness -------------------------------------------------------------------------------


def _check_psd(joint: Floats, scores: _Scores, u: float, alphabet: Alphabet) -> None:
    """Raise if the joint distribution is not positive semi-definite, with a cure."""
    if is_psd(joint):
        return
    raise ValueError(
        f"{scores.name} at matrix_scale = {u:.4g} gives a joint distribution of matched letters that is not positive "
        f"semi-definite (scaled to a diagonal of ones, its smallest eigenvalue is {lowest_eigenvalue(joint):.3g}), so "
        f"the kernel would not be either. {_cure(scores.values, u, alphabet)}"
    )


def _cure(scores: Floats, u: float, alphabet: Alphabet) -> str:
    """Return a cure: a larger scale, unless two letters score higher together than by themselves on average."""
    diagonal = np.diag(scores)
    short = (diagonal[:, None] + diagonal) / 2 - scores
    np.fill_diagonal(short, np.inf)
    if short.min() <= 0:
        i, j = np.unravel_index(int(short.argmin()), short.shape)
        a, b = alphabet.symbols[i], alphabet.symbols[j]
        return (
            f"No scale helps, because {a!r} with {b!r} scores {scores[i, j]:g}, no less than the mean of {a!r} and "
            f"{b!r} with themselves. Use another matrix, such as BLOSUM62."
        )
    for larger in u * np.geomspace(1.01, 1000.0, 700):
        ratio = np.exp(larger * (scores - (diagonal[:, None] + diagonal) / 2))
        if np.linalg.eigvalsh(ratio)[0] > 0:
            return f"Use a larger scale, such as matrix_scale={larger:.3g}, or another matrix, such as BLOSUM62."
    return "Use another matrix, such as BLOSUM62."


LETTERS = 64
"""No implied scale is searched for more letters than codons, because it takes hundreds of decompositions."""


def printed_unit(header: Any) -> float | None:
    """Read the unit that the header of a matrix states, as a fraction of a bit."""
    for line in header:
        found = re.search(r"in 1/(\d+) bit units|scale = ln\(2\)/(\d+)", str(line), re.IGNORECASE)
        if found:
            return float(np.log(2.0)) / int(found[1] or found[2])
    return None


def _excess(scores: Floats, u: float) -> float:
    """Total of the implied background at scale ``u``, less 1: sum of the inverse of exp(u S)."""
    values, vectors = np.linalg.eigh(np.exp(u * scores))
    with np.errstate(divide="ignore"):
        return float(((vectors.sum(axis=0) ** 2) / values).sum()) - 1.0


def implied_scale(scores: Floats) -> float | None:
    """Find the scale at which the implied background is a distribution: positive, with sum 1 (Yu and Altschul 2005)."""
    k = len(scores)
    apart = scores[~np.eye(k, dtype=bool)]
    if (
        k > 1 and np.ptp(apart) == 0 and np.ptp(np.diag(scores)) == 0
    ):  # a match and a mismatch score: the distribution is uniform
        return karlin_altschul(scores, np.full(k, 1.0 / k))
    return _searched(np.ascontiguousarray(scores).tobytes(), k) if k <= LETTERS else None


@lru_cache(maxsize=64)
def _searched(content: bytes, k: int) -> float | None:
    """Search all scales, from the largest; cached, because every fit of a grid search needs it."""
    scores = np.frombuffer(content).reshape(k, k)
    grid = np.geomspace(1e-2, 30.0, 300) / max(float(np.abs(scores).max()), 1e-300)
    with single_blas():
        excess = np.array([_excess(scores, u) for u in grid])
        with np.errstate(invalid="ignore"):
            crossed = np.flatnonzero(np.sign(excess[1:]) != np.sign(excess[:-1]))
        for i in crossed[::-1]:
            u = float(brentq(lambda u: _excess(scores, u), grid[i], grid[i + 1], xtol=1e-14 * grid[i]))
            if abs(_excess(scores, u)) < 1e-6 and implied_background(np.exp(u * scores)) is not None:
                return u  # not a pole, where the sign changes as well
    return None


def implied_background(ratio: Floats) -> Floats | None:
    """Return the distribution that equals the marginals of its joint distribution, or None if it is not positive."""
    try:
        distribution = np.linalg.solve(ratio, np.ones(len(ratio)))
    except np.linalg.LinAlgError:
        return None
    return distribution / distribution.sum() if np.isfinite(distribution).all() and (distribution > 0).all() else None


def karlin_altschul(scores: Floats, distribution: Floats) -> float | None:
    """Solve sum q_a q_b exp(u S_ab) = 1 for u > 0 (Karlin and Altschul 1990); None if there is no solution."""
    weights, largest = distribution[:, None] * distribution, float(scores.max())
    if float((weights * scores).sum()) >= 0 or largest <= 0:
        return None

    def excess(u: float) -> float:
        return float((weights * np.exp(u * scores)).sum()) - 1.0

    high = 1.0 / largest
    while excess(high) <= 0:
        high *= 2
    low = high
    while excess(low) >= 0:
        low /= 2
    return float(brentq(excess, low, high, xtol=1e-14 * low))
