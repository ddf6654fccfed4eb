"""The estimator of linear Gaussian networks: one regression per node on its parents."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._parameters import Rule, Rules, nonnegative
from mercer.families.estimator import Context, Estimator
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian
from mercer.models.gaussian_net import LinearGaussianNets, checked_graph, places

__all__ = ["LinearGaussianNet"]


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

    def __init__(
        self, nodes: Any, parents: Any, floor: float = 1e-3, prior: Any = None, prior_strength: float = 1.0
    ) -> None:
        self.nodes = nodes
        self.parents = parents
        self.floor = floor
        self.prior = prior
        self.prior_strength = prior_strength

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
