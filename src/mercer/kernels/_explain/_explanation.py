"""The result of `mercer.explain`: contributions of positions to decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._checks import is_whole
from mercer._wording import wording
from mercer.data.channels import inside
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.kernels._data import n_objects


class Contribution(NamedTuple):
    """One contribution in a list of the largest ones.

    Parameters
    ----------
    position : int
        Number of the symbol, time step or column, counted from 0 unless `Explanation.counted_from` says otherwise.
    name : str
        The symbol, word or column at the position; for time steps, the position.
    channel : str or None
        Name of the channel; None without channels.
    value : float
        The contribution.
    """

    position: int
    name: str
    channel: str | None
    value: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Contributions of positions to the decisions of a fitted pipeline; made by `explain`.

    Parameters
    ----------
    contributions : list of n_samples arrays
        Of sample i, with T positions: ``(T,)`` for symbols, words, columns and leaves, ``(T, n_channels)`` for series.
        With several outputs, the last axis is that of the outputs: ``(T, n_outputs)``, ``(T, n_channels, n_outputs)``.
    decision : array of shape (n_samples,) or (n_samples, n_outputs)
        The explained decisions.
    bias : array of the shape of ``decision``
        The part of the decisions that belongs to no position: the intercept, means that are subtracted, and confounds.
    names : list of n_samples tuples of str
        What stands at every position: symbols, words, or names of columns; for series, the numbers of the steps.
    ids : tuple of str
        Names of the samples.
    outputs : tuple of str
        Names of the outputs: the positive class of two, the classes, pairs of classes as "a - b", or targets.
    method : {"additive", "marginal"}
        How contributions were computed.
    exact : bool
        Whether contributions and bias sum to the decision, up to rounding.
    channels : tuple of str or None, default=None
        Names of the channels of series.
    classes : array of shape (n_classes,) or None, default=None
        The classes of a classifier.
    window : int, default=1
        Number of positions that were left out together, with ``method="marginal"``.
    kind : {"symbols", "series", "columns", "leaves"}, default="symbols"
        What the positions are.
    predicted : tuple of str or None, default=None
        The class that a classifier predicts for each sample. It is what lists and plots show if there are several
        outputs and none is chosen.
    first : int, default=0
        Number of the first position; `counted_from` changes it.

    See Also
    --------
    explain : Makes it.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X, y = ["ACGTAC", "AGGTAA", "TTTTAC", "TTATTG"], [1, 1, 0, 0]
    >>> pipeline = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed")).fit(X, y)
    >>> found = mc.explain(pipeline, ["AGGT"])
    >>> found.contributions[0].round(2)
    array([0.09, 0.18, 0.29, 0.2 ])
    >>> found.top(1)[0][0]
    Contribution(position=2, name='G', channel=None, value=0.28...)
    """

    contributions: list[Floats]
    decision: Floats
    bias: Floats
    names: list[tuple[str, ...]]
    ids: tuple[str, ...]
    outputs: tuple[str, ...]
    method: str
    exact: bool
    channels: tuple[str, ...] | None = None
    classes: Floats | None = None
    window: int = 1
    kind: str = "symbols"
    predicted: tuple[str, ...] | None = None
    first: int = 0

    def __post_init__(self) -> None:
        for values in (*self.contributions, self.decision, self.bias):
            values.setflags(write=False)

    def __repr__(self) -> str:
        outputs = ", ".join(self.outputs)
        return f"Explanation({len(self)} samples of {self.kind}, {self.method}; outputs: {outputs})"

    def __len__(self) -> int:
        return len(self.contributions)

    def __getitem__(self, key: Any) -> Explanation:
        """Return the explanation of some samples: an index, a slice, or an array of indices."""
        try:
            index = np.atleast_1d(np.arange(len(self))[key])
        except IndexError:
            raise IndexError(
                f"An explanation of {len(self)} samples has no sample {key!r}. Use whole numbers from 0 to "
                f"{len(self) - 1}, a slice, or an array of them."
            ) from None
        return replace(
            self,
            contributions=[self.contributions[i] for i in index],
            decision=self.decision[index],
            bias=self.bias[index],
            names=[self.names[i] for i in index],
            ids=tuple(self.ids[i] for i in index),
            predicted=None if self.predicted is None else tuple(self.predicted[i] for i in index),
        )

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.outputs)

    @property
    def residual(self) -> Floats:
        """The decision minus bias and contributions, of the shape of ``decision``; rounding only if ``exact``."""
        return np.asarray(self.decision - self.bias - self.totals)

    @property
    def totals(self) -> Floats:
        """Sums of the contributions, of the shape of ``decision``."""
        several = self.decision.ndim == 2
        sums = [c.reshape(-1, self.n_outputs).sum(axis=0) if several else c.sum() for c in self.contributions]
        return np.array(sums, dtype=np.float64).reshape(self.decision.shape)

    def of_output(self, output: Any = None) -> Explanation:
        """Return the explanation of one output.

        Parameters
        ----------
        output : int, str or class, default=None
            A class of the classifier, the name of an output, or its number. None is the class that is predicted for
            each sample, or the only output. The first of two classes has the contributions to the second with the
            opposite sign.
        """
        if output is None and self.n_outputs > 1 and set(self.predicted or ("",)) <= set(self.outputs):
            return self.of_predicted()
        chosen = output_of(output, self.outputs, self.classes)
        if self.decision.ndim == 1 and chosen.sign > 0:
            return self
        return self._of([chosen] * len(self), chosen.name)

    def of_predicted(self) -> Explanation:
        """Return the explanation of the class that is predicted for each sample, by one output."""
        if self.predicted is None:
            raise ValueError("This explanation is not of a classifier, so that there is no predicted class.")
        names = sorted(set(self.predicted))
        chosen = [output_of(label, self.outputs, self.classes) for label in self.predicted]
        return self._of(chosen, names[0] if len(names) == 1 else "the predicted class")

    def _of(self, chosen: list[Output], name: str) -> Explanation:
        """Return the explanation of one output of each sample."""
        at, signs = [one.at for one in chosen], np.array([one.sign for one in chosen])
        rows, axes = np.arange(len(self)), 1 if self.channels is None else 2
        contributions = [c.reshape(*c.shape[:axes], self.n_outputs) for c in self.contributions]
        return replace(
            self,
            contributions=[sign * c[..., i] for sign, c, i in zip(signs, contributions, at, strict=True)],
            decision=signs * self.decision.reshape(len(self), -1)[rows, at],
            bias=signs * self.bias.reshape(len(self), -1)[rows, at],
            outputs=(name,),
        )

    def counted_from(self, first: int) -> Explanation:
        """Return the same explanation with another number for the first position: 1 is usual for residues.

        Parameters
        ----------
        first : int
            Number of the first symbol, time step or column in lists, tables and plots. The arrays stay the same.
        """
        if not is_whole(first, 0):
            raise ValueError(f"first must be a whole number, 0 or more; got {first!r}.")
        names = self.names
        if self.kind == "series":  # which are called by their numbers
            names = [tuple(str(t + int(first)) for t in range(len(row))) for row in names]
        return replace(self, names=names, first=int(first))

    def per_position(self) -> list[Floats]:
        """Return contributions summed over channels, ``(T,)`` or ``(T, n_outputs)`` for every sample."""
        return [c.sum(axis=1) if self.channels is not None else c for c in self.contributions]

    def top(self, k: int = 10, output: Any = None) -> list[list[Contribution]]:
        """Return the k contributions of the largest absolute value of every sample, the largest first.

        Parameters
        ----------
        k : int, default=10
            Number of contributions.
        output : int, str or class, default=None
            The output, if there are several; None is the class that is predicted for each sample.
        """
        if not is_whole(k, 1):
            raise ValueError(f"k must be a whole number, 1 or more; got {k!r}.")
        chosen = self.of_output(output)
        found = []
        for values, names in zip(chosen.contributions, self.names, strict=True):
            flat = values.reshape(-1)
            order = np.argsort(-np.abs(flat), kind="stable")[: int(k)]
            channels: tuple[str | None, ...] = self.channels or (None,)
            places = [(i // len(channels), i % len(channels), float(flat[i])) for i in order.tolist()]
            found.append([Contribution(t + self.first, names[t], channels[c], value) for t, c, value in places])
        return found

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per sample, position, channel and output.

        Its columns are "sample", "position", "name", "channel" (of series), "output" (if there are several) and
        "contribution".
        """
        import pandas as pd

        return pd.DataFrame(self.columns())

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of `to_frame` as lists, without pandas."""
        channels: tuple[str, ...] = self.channels or ("",)
        found: dict[str, list[Any]] = {
            name: [] for name in ("sample", "position", "name", "channel", "output", "contribution")
        }
        for sample, values, names in zip(self.ids, self.contributions, self.names, strict=True):
            block = values.reshape(len(names), len(channels), self.n_outputs)
            for position, channel, output in np.ndindex(block.shape):
                row = (sample, position + self.first, names[position], channels[channel], self.outputs[output])
                for key, value in zip(found, (*row, float(block[position, channel, output])), strict=True):
                    found[key].append(value)
        if self.channels is None:
            del found["channel"]
        if self.n_outputs == 1:
            del found["output"]
        return found


class Output(NamedTuple):
    """One output: its index, its sign, which is negative for the first of two classes, and its name."""

    at: int
    sign: float
    name: str


def output_of(output: Any, outputs: tuple[str, ...], classes: Any) -> Output:
    """Return an output that is given by its class, its name or its number; None is the only one."""
    if len(outputs) == 1 and output is not None and np.shape(classes) == (2,):
        other = next((str(label) for label in classes if (str(label),) != outputs), "")
        if str(output) == other:
            return Output(0, -1.0, other)
    at = _output_index(output, outputs, classes)
    return Output(at, 1.0, outputs[at])


def _output_index(output: Any, outputs: tuple[str, ...], classes: Any) -> int:
    if output is None:
        if len(outputs) > 1:
            raise ValueError(f"There are {len(outputs)} outputs: {', '.join(outputs)}. Pass output=.")
        return 0
    labels = [] if classes is None or len(classes) != len(outputs) else np.asarray(classes).tolist()
    if getattr(output, "ndim", 0):
        raise ValueError(f"output must be one of {', '.join(outputs)}; got an array of shape {np.shape(output)}.")
    if output in labels:
        return labels.index(output)
    if str(output) in outputs:
        return outputs.index(str(output))
    if not labels and is_whole(output, 0) and int(output) < len(outputs):
        return int(output)
    raise ValueError(f"{wording().must_be('output', 'one of ' + ', '.join(outputs))}; got {output!r}.")


class Columns(NamedTuple):
    """Rows of a matrix, whose columns are the positions, the names of the columns, and what they are."""

    rows: Any
    names: tuple[str, ...]
    kind: str = "columns"


def columns_of(kernel: Any, rows: Any, steps: tuple[Any, ...] = ()) -> Columns:
    """Return rows with the names of their columns: leaves of the tree of the kernel, words, or plain columns."""
    first = kernel
    while hasattr(first, "_parts"):
        first = first._parts()[0]
    leaves = getattr(getattr(first, "model_", None), "leaves", None)
    if leaves is not None:
        return Columns(rows, tuple(map(str, leaves)), "leaves")
    width = rows.n_columns if isinstance(rows, CSRRows) else int(np.shape(rows)[1])
    names: Any = getattr(kernel, "feature_names_in_", None)
    if names is None and steps and hasattr(steps[-1], "get_feature_names_out"):
        names = steps[-1].get_feature_names_out()
    if names is None or len(names) != width:
        names = [f"x{j}" for j in range(width)]
    return Columns(rows, tuple(map(str, names)))


def described(positions: Any) -> tuple[str, list[tuple[str, ...]], tuple[str, ...] | None]:
    """Return the kind of positions, their names in every sample, and the names of channels."""
    if isinstance(positions, Columns):
        rows, names, kind = positions
        if not isinstance(rows, CSRRows):
            return kind, [names] * n_objects(rows), None
        places = [rows.indices[a:b].tolist() for a, b in pairwise(rows.indptr.tolist())]
        return kind, [tuple(names[j] for j in row) for row in places], None
    if positions.alphabet is not None:
        return "symbols", [tuple("?" if x is None else str(x) for x in word) for word in positions], None
    channels = positions.channels or tuple(f"x{i}" for i in range(positions.dimension or 1))
    return "series", [tuple(map(str, range(n))) for n in positions.lengths.tolist()], channels


def sample_names(X: Any) -> tuple[str, ...]:
    """Return the ids of samples, or their numbers."""
    X = inside(X)
    if isinstance(X, Sequences) and X.ids is not None:
        return X.ids
    labels = X.index if hasattr(X, "iloc") and hasattr(X, "index") else range(n_objects(X))
    return tuple(str(label) for label in labels)
