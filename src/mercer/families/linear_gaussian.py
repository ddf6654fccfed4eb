"""Linear Gaussian networks: a regression of each node on its parents in a directed acyclic graph (PPK-4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.data.channels import by_name, channel_names
from mercer.families.gaussian import Gaussians

SPREAD = 0.5
"""Standard deviation of the effects of hidden nodes in the start of EM, in standard deviations of the children."""
RANK = 1e-12
"""Eigenvalues of a correlation matrix of parents, relative to the largest one, that count as zero."""


class LinearNetwork(NamedTuple):
    """The parameters of linear Gaussian networks, in the order of ``Gaussians.from_network``.

    Examples
    --------
    >>> import mercer as mc
    >>> rows = [[0.0, 1.0], [1.0, 3.1], [2.0, 4.9], [3.0, 7.0]]
    >>> net = mc.Gaussian(parents={"x": [], "y": ["x"]}, floor=0.0).fit(rows).network_
    >>> net.coefficients[0].round(2)
    array([[0.  , 0.  ],
           [1.98, 0.  ]])
    """

    offset: Floats
    """Constant terms b, ``(..., d)``."""
    coefficients: Floats
    """Effects B of column j on row i, ``(..., d, d)``; zero unless j is a parent of i."""
    noise_covariance: Floats
    """Diagonal covariances S of the noise, ``(..., d, d)``."""


@dataclass(frozen=True)
class LinearGraph:
    """Nodes with their parents; hidden nodes have no column in the data."""

    names: tuple[Any, ...]
    above: tuple[tuple[int, ...], ...]
    hidden: tuple[int, ...]

    @classmethod
    def of(cls, parents: Any, hidden: Any) -> LinearGraph:
        """Check a graph; raise if it has a cycle, or a name that is not a node."""
        try:
            edges = {name: _listed(above) for name, above in dict(parents).items()}
            concealed = _listed(hidden)
        except (TypeError, ValueError):
            raise TypeError(
                "parents must map each node to a list of nodes, and hidden must list nodes; got "
                f"{parents!r} and {hidden!r}."
            ) from None
        shown = ", ".join(map(repr, list(edges)[:20]))
        for child, above in edges.items():
            if len(set(above)) < len(above):
                raise ValueError(f"parents[{child!r}] must name each node once; got {list(above)!r}.")
            for name in above:
                if name not in edges:
                    raise ValueError(
                        f"parents[{child!r}] must name nodes among {shown}; got {name!r}. Add {name!r}: [] if it is "
                        "a node."
                    )
        for name in concealed:
            if name not in edges or concealed.count(name) > 1:
                raise ValueError(f"hidden must name nodes among {shown}, each once; got {name!r}.")
        if len(concealed) == len(edges):
            raise ValueError("At least one node must be observed; got all of them in hidden.")
        try:
            TopologicalSorter(edges).prepare()
        except CycleError as error:
            path = " -> ".join(map(str, error.args[1]))
            raise ValueError(f"parents must have no cycle; got {path}. Leave out one of these edges.") from None
        number = {name: v for v, name in enumerate(edges)}
        return cls(
            tuple(edges),
            tuple(tuple(number[u] for u in row) for row in edges.values()),
            tuple(number[name] for name in concealed),
        )

    @cached_property
    def observed(self) -> tuple[int, ...]:
        """Numbers of the nodes that are columns of data."""
        return tuple(v for v in range(len(self.names)) if v not in self.hidden)

    def in_columns(self, X: Any) -> Any:
        """Return data with the observed nodes in their order, if the nodes and the columns have names."""
        names = [self.names[v] for v in self.observed]
        if not all(isinstance(name, str) for name in names):
            return X
        if hasattr(X, "columns") and channel_names(X) is None:
            columns = [str(name) for name in X.columns]
            unknown = [name for name in columns if name not in names]
            missing = [name for name in names if name not in columns]
            if unknown or missing:
                what = f"{unknown[0]!r} is not one. Drop it" if unknown else f"{missing[0]!r} is missing. Add it"
                raise ValueError(f"The columns must be the observed nodes {', '.join(names[:20])}; {what}.")
            return X[names]
        return by_name(SimpleNamespace(feature_names_in_=names), X, reset=False)

    def check_width(self, width: int | None) -> None:
        """Raise if data do not have one column per observed node."""
        if width not in (None, len(self.observed)):
            names = ", ".join(str(self.names[v]) for v in self.observed[:20])
            raise ValueError(f"X must have {len(self.observed)} columns, one per observed node ({names}); got {width}.")

    def with_hidden(self, x: Floats) -> Floats:
        """Return points with a missing value for each hidden node."""
        wide = np.full((len(x), len(self.names)), np.nan)
        wide[:, list(self.observed)] = x
        return wide

    def regressed(self, gaussians: Gaussians) -> LinearNetwork:
        """Regress each node on its parents: the network that is closest to Gaussians of all nodes (KL)."""
        mean, covariance = np.asarray(gaussians.mean), np.asarray(gaussians._as_full().covariance)
        coefficients, noise = np.zeros_like(covariance), np.zeros_like(covariance)
        sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        sd = np.where(sd > 0, sd, 1.0)
        correlation = covariance / (sd[..., :, None] * sd[..., None, :])
        for v, above in enumerate(self.above):
            pa = np.array(above, dtype=int)
            inverse = np.linalg.pinv(correlation[..., pa, :][..., pa], rcond=RANK, hermitian=True)
            slopes = (correlation[..., v, pa][..., None, :] @ inverse)[..., 0, :]
            rest = correlation[..., v, v] - np.sum(slopes * correlation[..., v, pa], axis=-1)
            coefficients[..., v, pa] = slopes * sd[..., v, None] / sd[..., pa]
            noise[..., v, v] = np.maximum(rest, 0.0) * sd[..., v] ** 2
        offset = mean - (coefficients @ mean[..., None])[..., 0]
        return LinearNetwork(offset, coefficients, noise)

    def projected(self, gaussians: Gaussians) -> Gaussians:
        """Return the distributions of the networks that are closest to Gaussians of all nodes; means do not change."""
        found = Gaussians.from_network(*self.regressed(gaussians))
        return Gaussians._make(mean=gaussians.mean, covariance=found.covariance, structure="full")

    def start(self, known: Gaussians) -> Gaussians:
        """Return networks whose hidden nodes have random effects, from Gaussians of the observed nodes.

        The effects are the same for all samples.
        """
        rng, d, shape = np.random.default_rng(0), len(self.names), known.shape
        sd, mean = np.ones((*shape, d)), np.zeros((*shape, d))
        sd[..., list(self.observed)] = np.sqrt(np.diagonal(known._as_full().covariance, axis1=-2, axis2=-1))
        mean[..., list(self.observed)] = known.mean
        coefficients = np.zeros((*shape, d, d))
        for v, above in enumerate(self.above):
            for u in above:
                if u in self.hidden:
                    coefficients[..., v, u] = SPREAD * rng.standard_normal() * sd[..., v]
        found = Gaussians.from_network(mean, coefficients, sd[..., None] ** 2 * np.eye(d))
        return Gaussians._make(mean=mean, covariance=found.covariance, structure="full")

    def check_points(self, counts: Any, name: Any) -> None:
        """Raise if a sample has too few points for a regression without a floor; ``name(i)`` names sample i."""
        most = max(range(len(self.above)), key=lambda v: len(self.above[v]))
        needed = len(self.above[most]) + 2
        few = np.flatnonzero(np.asarray(counts) < needed)
        if len(few):
            i = int(few[0])
            raise ValueError(
                f"{name(i)} has {int(counts[i])} points; with floor=0, the regression of node {self.names[most]!r} on "
                f"its {needed - 2} parents needs at least {needed}. Use a positive floor, or prior='pooled'."
            )


def _listed(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise TypeError
    listed = tuple(value)
    hash(listed)
    return listed
