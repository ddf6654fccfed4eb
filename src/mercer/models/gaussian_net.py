"""Linear Gaussian networks: directed acyclic graphs whose nodes are linear functions of their parents plus noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, Indices, as_float, to_numpy
from mercer._batch import Batch
from mercer._checks import is_listing, is_whole
from mercer._coupling import Coupling, Operand
from mercer._parameters import Rule, Rules, nonnegative
from mercer.families.estimator import Context, Estimator
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian

__all__ = ["LinearGaussianNets", "checked_graph", "places"]

Nodes = tuple[tuple[str, int], ...]
"""Names and numbers of coordinates."""
Parents = tuple[tuple[str, tuple[str, ...]], ...]
"""Names and their parents."""


def checked_graph(nodes: Any, parents: Any) -> tuple[Nodes, Parents]:
    """Return the nodes and the parents of each, as tuples; raise if they are not a directed acyclic graph."""
    try:
        sizes, edges = dict(nodes), {name: tuple(above) for name, above in dict(parents).items()}
    except (TypeError, ValueError):
        raise TypeError(
            "nodes must map names to numbers of coordinates, and parents names to lists of names; got "
            f"{nodes!r} and {parents!r}."
        ) from None
    for name, size in sizes.items():
        if not is_whole(size):
            raise ValueError(f"nodes[{name!r}] must be its number of coordinates, 1 or more; got {size!r}.")
    known = [*edges, *(above for row in edges.values() for above in row)]
    unknown = [name for name in known if name not in sizes]
    if unknown:
        raise ValueError(f"parents must name nodes among {', '.join(map(str, sizes))}; got {unknown[0]!r}.")
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        raise ValueError(f"parents must have no cycle; got {' -> '.join(map(str, error.args[1]))}.") from None
    return tuple((name, int(size)) for name, size in sizes.items()), tuple(
        (name, edges.get(name, ())) for name in sizes
    )


def places(nodes: Nodes, names: Any) -> Indices:
    """Return the coordinates of the named nodes, in the order of the nodes."""
    ends = np.cumsum([size for _, size in nodes])
    wanted = set(names)
    parts = [np.arange(end - size, end) for (name, size), end in zip(nodes, ends, strict=True) if name in wanted]
    return np.concatenate([np.empty(0, dtype=int), *parts])


class LinearGaussianNets(Batch):
    r"""A batch of linear Gaussian networks over one graph.

    Parameters
    ----------
    offset : array of shape (..., D)
        Constant terms of all D coordinates of all nodes, in the order of ``nodes``.
    coefficients : array of shape (..., D, D)
        Row i has the coefficients of coordinate i; zero except in the columns of the parents of its node.
    noise_covariance : array of shape (..., D, D)
        Covariances of the noise, zero between different nodes.
    nodes : dict
        Name of each node and its number of coordinates.
    parents : dict
        Names of the parents of a node. A node that is not a key has none.
    hidden : tuple of str, default=()
        Nodes that are not observed. Probabilities and kernels are those of the others.

    Notes
    -----
    .. math:: x = b + B x + \varepsilon, \qquad \varepsilon \sim \mathcal N(0, S), \qquad
              x \sim \mathcal N\left((I-B)^{-1} b,\ (I-B)^{-1} S (I-B)^{-\top}\right)

    (PPK-4.4). The observed coordinates are Gaussian, and kernels are those of `gaussians`, for every rho. Batches of
    different graphs are compared through `gaussians`.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> nets = mc.models.LinearGaussianNets(  # a hidden cause and two effects
    ...     offset=[[0.0, 1.0, 0.0]],
    ...     coefficients=[[[0, 0, 0], [2.0, 0, 0], [-1.0, 0, 0]]],
    ...     noise_covariance=[np.eye(3)],
    ...     nodes={"cause": 1, "rise": 1, "fall": 1},
    ...     parents={"rise": ["cause"], "fall": ["cause"]},
    ...     hidden=["cause"],
    ... )
    >>> nets.gaussians().mean.tolist(), nets.gaussians().covariance.tolist()
    ([[1.0, 0.0]], [[[5.0, -2.0], [-2.0, 2.0]]])
    """

    _arrays: ClassVar[dict[str, int]] = {"offset": 1, "coefficients": 2, "noise_covariance": 2}
    _shared: ClassVar[tuple[str, ...]] = ("nodes", "parents", "hidden")

    offset: Any
    coefficients: Any
    noise_covariance: Any
    nodes: Nodes
    parents: Parents
    hidden: tuple[str, ...]

    def __init__(
        self, offset: Any, coefficients: Any, noise_covariance: Any, nodes: Any, parents: Any, hidden: Any = ()
    ) -> None:
        kept, edges = checked_graph(nodes, parents)
        if not is_listing(hidden):
            raise TypeError(f"hidden must be a list of names of nodes; got {hidden!r}.")
        unknown = [name for name in hidden if name not in dict(kept)]
        if unknown or len(set(hidden)) == len(kept):
            raise ValueError(f"hidden must name some of the nodes {', '.join(dict(kept))}; got {list(hidden)!r}.")
        offset, coefficients, noise_covariance = (
            np.array(to_numpy(as_float(part)), dtype=np.float64) for part in (offset, coefficients, noise_covariance)
        )
        size = sum(dict(kept).values())
        for name, value, axes in (("coefficients", coefficients, 2), ("noise_covariance", noise_covariance, 2)):
            if offset.shape[-1:] != (size,) or value.shape != (*offset.shape[:-1], *(size,) * axes):
                raise ValueError(
                    f"offset and {name} must have shapes (..., {size}) and (..., {size}, {size}) for these nodes; got "
                    f"{offset.shape} and {value.shape}."
                )
        _check_zeros(coefficients, noise_covariance, kept, edges)
        gaussian = Gaussians(offset, noise_covariance)  # checks the covariance and that all is finite
        if not np.isfinite(coefficients).all():
            raise ValueError("coefficients must be finite.")
        self._freeze(
            offset=to_numpy(gaussian.mean),
            coefficients=coefficients,
            noise_covariance=to_numpy(gaussian.covariance),
            nodes=kept,
            parents=edges,
            hidden=tuple(hidden),
        )

    @property
    def dimension(self) -> int:
        """Number of observed coordinates."""
        return sum(size for name, size in self.nodes if name not in self.hidden)

    def joint(self) -> Gaussians:
        """Return the distributions of all nodes, also of hidden ones."""
        inverse = np.linalg.inv(np.eye(self.offset.shape[-1]) - self.coefficients)
        covariance = inverse @ self.noise_covariance @ inverse.swapaxes(-2, -1)
        covariance = (covariance + covariance.swapaxes(-2, -1)) / 2
        return Gaussians((inverse @ self.offset[..., None])[..., 0], covariance)

    def gaussians(self) -> Gaussians:
        """Return the distributions of the observed nodes."""
        seen = places(self.nodes, [name for name, _ in self.nodes if name not in self.hidden])
        found = self.joint()
        return Gaussians(found.mean[..., seen], found.covariance[..., seen[:, None], seen])

    def log_prob(self, x: Any) -> Floats:
        """Log density of points ``(T, d)`` of the observed nodes, ``(..., T)``."""
        return np.asarray(self.gaussians().log_prob(x))

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Sample points of the observed nodes, ``(..., size, d)``."""
        return np.asarray(self.gaussians().sample(size, random_state=random_state))

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling of the observed nodes."""
        found: Operand = self.gaussians().couple(coupling, lengths)
        return found

    def estimator(self) -> Any:
        """Return an estimator of networks over the same graph."""
        from mercer.models.gaussian_net import LinearGaussianNet

        return LinearGaussianNet(dict(self.nodes), dict(self.parents))


def _check_zeros(coefficients: Floats, noise: Floats, nodes: Nodes, parents: Parents) -> None:
    """Raise if a coordinate depends on one that is not of a parent, or noises of two nodes on one another."""
    edges: Mapping[str, tuple[str, ...]] = dict(parents)
    for name, _ in nodes:
        own = places(nodes, [name])
        rest = np.setdiff1d(np.arange(coefficients.shape[-1]), places(nodes, edges[name]))
        if np.any(coefficients[..., own[:, None], rest]):
            raise ValueError(f"coefficients of node {name!r} must be zero outside its parents {list(edges[name])!r}.")
        others = np.setdiff1d(np.arange(coefficients.shape[-1]), own)
        if np.any(noise[..., own[:, None], others]):
            raise ValueError(f"noise_covariance must be zero between node {name!r} and the others.")


# The estimator of linear Gaussian networks: one regression per node on its parents.


@dataclass(eq=False, repr=False)
class LinearGaussianNet(Estimator):
    """Fit linear Gaussian networks of a known graph: one to every sample (a set of points), or one to all.

    Parameters
    ----------
    nodes : dict
        Name of each node and its number of coordinates; the columns of the data, in this order. All are observed.
    parents : dict
        Names of the parents of a node. A node that is not a key has none.
    floor : float, default=1e-3
        Fraction of the pooled variance that is added to every variance (EST-1).
    prior : None, "pooled", LinearGaussianNets or Gaussians of shape (1,), default=None
        What the moments of a sample are shrunk to.
    prior_strength : float, default=1.0
        Weight of the prior, in observations.

    Attributes
    ----------
    model_ : LinearGaussianNets of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Notes
    -----
    The moments of a sample are those of ``Gaussian("full")``; each node is regressed on its parents with them
    (PPK-4.4), which maximizes the likelihood.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> points = np.concatenate([x, 2 * x + 1 + 0.1 * rng.normal(size=(500, 1))], axis=1)
    >>> estimator = mc.models.LinearGaussianNet({"x": 1, "y": 1}, {"y": ["x"]})
    >>> net = estimator.fit([points]).model_
    >>> net.coefficients.round(1).tolist(), float(net.offset[0, 1].round(1))
    ([[[0.0, 0.0], [2.0, 0.0]]], 1.0)
    """

    _parameters: ClassVar[Rules] = {
        "nodes": Rule(
            "a dict of names and numbers of coordinates", lambda value: isinstance(value, dict) and bool(value)
        ),
        "parents": Rule("a dict of names and lists of names", lambda value: isinstance(value, dict)),
        "floor": nonnegative("It is a fraction of the pooled variance."),
    }

    nodes: Any
    parents: Any
    floor: float = 1e-3
    prior: Any = None
    prior_strength: float = 1.0

    def _moments(self) -> Gaussian:
        """Return the estimator of the moments."""
        prior = self.prior.gaussians() if isinstance(self.prior, LinearGaussianNets) else self.prior
        return Gaussian("full", floor=self.floor, prior=prior, prior_strength=self.prior_strength)

    def context(self, X: Any) -> Context:
        """Learn what `Gaussian` learns; raise if the columns are not those of the nodes."""
        nodes, _ = checked_graph(self.nodes, self.parents)
        found = self._moments().context(X)
        size = sum(size for _, size in nodes)
        if found.dimension != size:
            raise ValueError(f"X must have the {size} columns of the nodes; got {found.dimension}.")
        return found

    def _check_data(self, X: Any, offsets: Floats) -> None:
        self._moments()._check_data(X, offsets)
        self._check_observed(X)

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Any:
        """Fit to weighted points: by moments, then one regression per node."""
        begin = None if start is None else start.joint()
        return self._regressed(self._moments().fit_weighted(x, weights, offsets, context, begin))

    def _regressed(self, found: Gaussians) -> LinearGaussianNets:
        nodes, parents = checked_graph(self.nodes, self.parents)
        mean, covariance = to_numpy(found.mean), to_numpy(found.covariance)
        offset, coefficients, noise = mean.copy(), np.zeros_like(covariance), np.zeros_like(covariance)
        for name, above in parents:
            own, given = places(nodes, [name]), places(nodes, above)
            block = covariance[..., own[:, None], own]
            if len(given):
                mixed = covariance[..., given[:, None], own]
                try:
                    slope = np.linalg.solve(covariance[..., given[:, None], given], mixed).swapaxes(-2, -1)
                except np.linalg.LinAlgError:
                    raise ValueError(
                        f"Node {name!r} cannot be regressed on its parents, because these are linearly dependent in a "
                        "sample. Use floor > 0 or prior='pooled'."
                    ) from None
                coefficients[..., own[:, None], given] = slope
                offset[..., own] = mean[..., own] - (slope @ mean[..., given, None])[..., 0]
                block = block - slope @ mixed
            noise[..., own[:, None], own] = (block + block.swapaxes(-2, -1)) / 2
        return LinearGaussianNets(offset, coefficients, noise, nodes, parents)
