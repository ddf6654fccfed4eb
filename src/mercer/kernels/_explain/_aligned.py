"""Alignments of a sample with its nearest support objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._checks import is_whole
from mercer._config import without_caches
from mercer.data.sequences import Sequences
from mercer.kernels._data import unwrapped
from mercer.kernels._explain._decision import decision_of
from mercer.kernels._explain._explanation import output_of
from mercer.kernels.base.compound import Compound


@dataclass(frozen=True, eq=False)
class Aligned:
    """One training object, aligned with a sample.

    Parameters
    ----------
    index : int
        Index of the object in the training data.
    name : str
        Its id, or its index.
    kernel : float
        The kernel of the sample and the object.
    share : float
        The weight of the object times this kernel: what it adds to the decision.
    matches : Matches
        Posterior probabilities of the matches between the symbols of the sample and those of the object.
    """

    index: int
    name: str
    kernel: float
    share: float
    matches: Any


@dataclass(frozen=True, eq=False)
class Alignments:
    """A sample, aligned with its nearest support objects; made by `aligned`.

    Parameters
    ----------
    sample : str or array of symbols
        The sample.
    decision : float
        The decision on the sample.
    output : str
        What is decided.
    objects : tuple of objects with ``index``, ``name``, ``kernel``, ``share`` and ``matches``
        The support objects, the nearest first.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X, y = ["ACGTACGT", "ACGTTCGT", "TTTTCCCC", "TTTCCCCC"], [1, 1, 0, 0]
    >>> pair = mc.AffinePairHMM(
    ...     (2, -3), alphabet="dna", open_probability=0.05, extend_probability=0.5
    ... )
    >>> pipeline = make_pipeline(mc.Marginalization(pair), SVC(kernel="precomputed"))
    >>> pipeline = pipeline.fit(X, y)
    >>> print(mc.aligned(pipeline, "ACGACGT", n=1))
    0: adds 0.016 to the decision for 1
    ACG-ACGT
    ||| ||||
    ACGTACGT
    """

    sample: Any
    decision: float
    output: str
    objects: tuple[Aligned, ...]

    def __len__(self) -> int:
        return len(self.objects)

    def __iter__(self) -> Iterator[Aligned]:
        return iter(self.objects)

    def __getitem__(self, key: int) -> Aligned:
        return self.objects[key]

    def __str__(self) -> str:
        """Format the alignments with their shares."""
        return "\n\n".join(
            f"{each.name}: adds {each.share:.2g} to the decision for {self.output}\n{each.matches}" for each in self
        )


def aligned(pipeline: Any, x: Any, n: int = 3, *, output: Any = None) -> Alignments:
    r"""Align a sample with its nearest support objects, under a pair HMM.

    Parameters
    ----------
    pipeline : fitted estimator
        A pipeline with `Marginalization` of a `PairHMM` or an `AffinePairHMM`, or a kernel made of it such as
        `Tempered`, before ``SVC``, `KernelRidge` or another estimator that `explain` reads.
    x : one sequence
        A string, an array of symbols, or `Sequences` of length one.
    n : int, default=3
        Number of support objects.
    output : int, str or class, default=None
        The output, if there are several.

    Returns
    -------
    Alignments
        Of all training objects that the decision :math:`\sum_i a_i k(x, z_i) + b` depends on, those with the largest
        :math:`k(x, z_i)`, each with its share :math:`a_i k(x, z_i)` and the posterior probabilities of its matches.
        Print it, or draw it with ``mc.plot.alignments``.

    See Also
    --------
    explain : What every position of the sample contributes.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X, y = ["ACGTACGT", "ACGTTCGT", "TTTTCCCC", "TTTCCCCC"], [1, 1, 0, 0]
    >>> pair = mc.AffinePairHMM(
    ...     (2, -3), alphabet="dna", open_probability=0.05, extend_probability=0.5
    ... )
    >>> pipeline = make_pipeline(mc.Marginalization(pair), SVC(kernel="precomputed"))
    >>> pipeline = pipeline.fit(X, y)
    >>> found = mc.aligned(pipeline, "ACGACGT", n=2)
    >>> [each.index for each in found], found[0].share > 0
    ([0, 1], True)
    """
    if not is_whole(n, 1):
        raise ValueError(f"n must be a whole number, 1 or more; got {n!r}.")
    decision = decision_of(pipeline)
    decision = decision.taken(output_of(output, decision.outputs, decision.classes))
    if decision.over == "features" or decision.steps:
        raise TypeError("mc.aligned needs a pipeline that begins with its only kernel, before an estimator.")
    at, model = _pair_model(decision.kernel)
    X = x if isinstance(x, Sequences) else [x]
    if len(X) != 1:
        raise ValueError(f"x must be one sequence, such as X[3:4]; got {len(X)}.")
    data = unwrapped(X)
    with without_caches():
        row = decision.rows(data)[0]
        source = decision.source(data)
    shares = decision.weights[0] * row
    value = float(shares.sum() + decision.bias[0])
    strings, objects = _view(source, at), _view(decision.objects, at)
    numbers = getattr(decision.kernel, "_taken", None)
    found = []
    nearest = np.argsort(-row, kind="stable")
    for i in nearest[decision.weights[0][nearest] != 0][: int(n)].tolist():
        index = i if numbers is None or decision.reference is not None else int(numbers[i])
        name = str(index) if objects.ids is None else objects.ids[i]
        matches = model.matches(strings, objects[[i]])
        found.append(Aligned(index, name, float(row[i]), float(shares[i]), matches))
    return Alignments(strings[0], value, decision.outputs[0], tuple(found))


def _pair_model(kernel: Any) -> tuple[tuple[int, ...], Any]:
    """Return the pair HMM of a kernel, and which views of the objects it compares."""
    at: tuple[int, ...] = ()
    stack = [(at, kernel)]
    while stack:
        at, part = stack.pop()
        if isinstance(part, Compound):
            stack += [((*at, i), inner) for i, inner in reversed(list(enumerate(part._parts())))]
        elif hasattr(getattr(part, "model_", None), "matches"):
            return at, part.model_
    raise TypeError(
        f"mc.aligned needs Marginalization of a pair HMM; got {type(kernel).__name__}. Use "
        "mc.Marginalization(mc.AffinePairHMM('BLOSUM62')), or mc.explain for other kernels."
    )


def _view(source: Any, at: tuple[int, ...]) -> Any:
    for i in at:
        source = source.parts[i]
    return source
