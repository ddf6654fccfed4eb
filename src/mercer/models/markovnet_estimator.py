"""The estimator of Markov networks of known structure: EM, with one sweep of iterative proportional fitting a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer._array import Floats, safe_log, to_numpy
from mercer._batch import Batch
from mercer._parameters import Rule, Rules
from mercer._probability import ratio
from mercer._random import seed_of
from mercer.data.segments import segments
from mercer.families.estimator import Context
from mercer.models._fitting.em import EMResult, EMResults, em_single, joined
from mercer.models._nets.cliques import CliqueGraph, checked_cliques
from mercer.models._nets.contraction import BATCH, Plan, find_plan, posteriors, relabeled
from mercer.models._nets.estimator import NetworkEstimator
from mercer.models._nets.evidence import inferred
from mercer.models._nets.learning import Evidence
from mercer.models.markovnet import MarkovNetworks

__all__ = ["MarkovNetwork"]


def _is_prior(value: Any) -> bool:
    if isinstance(value, Batch):
        return isinstance(value, MarkovNetworks) and value.shape == (1,)
    return value is None or (isinstance(value, str) and value in ("uniform", "pooled"))


@dataclass(eq=False, repr=False)
class MarkovNetwork(NetworkEstimator):
    r"""Fit Markov networks of a known structure: one to every sample (a table of rows), or one to all.

    Parameters
    ----------
    nodes : dict
        Names of the nodes, and of each the names of its states, or their number. Observed nodes are the columns of the
        data, in this order; the columns of data frames are found by name.
    cliques : list of tuples of str
        The nodes of each factor, such as ``[("a", "b"), ("b", "c")]``. Every node must be in one.
    hidden : sequence of str, default=()
        Nodes that are not observed.
    prior : {"uniform", "pooled"}, None, or MarkovNetworks of shape (1,), default="uniform"
        The distribution of pseudo-observations: even, the network of all samples, or a given one.
    prior_strength : float, default=1.0
        Number of pseudo-observations.
    n_iter, tol : int and float, default=200 and 1e-6
        The maximum number of iterations, and the growth of the objective per row at which it stops. There are
        more of them than for models of sequences, because they are cheaper.
    n_init : int, default=1
        Number of random starts, if there are hidden nodes; the best fit is kept. 1, because a fit with
        many hidden nodes is slow.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the starts. All samples have the same starts, so that the hidden states of their networks correspond.

    Attributes
    ----------
    model_ : MarkovNetworks of shape (1,)
        What ``fit`` learned, with factors for which Z is 1.
    context_ : Context
        Properties of the training data that all models share.
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.

    Notes
    -----
    An iteration multiplies one factor after the other by the ratio of its expected to its present probabilities,

    .. math:: \psi_c(z_c) \leftarrow \psi_c(z_c)\, \frac{\tilde p(z_c)}{p(z_c)}

    (iterative proportional fitting), which maximizes the likelihood in that factor. The expectations are frequencies,
    and with missing values (NaN) or hidden nodes those given the present network, so the objective never decreases.

    Examples
    --------
    >>> import mercer as mc
    >>> rows = [["up", "up"], ["up", "up"], ["down", "down"], ["up", "down"]]
    >>> states = ["up", "down"]
    >>> net = mc.models.MarkovNetwork({"a": states, "b": states}, [("a", "b")])
    >>> net.fit(rows).predict_proba({"a": ["up", "down"]}, "b").round(2)
    b    up  down
    0  0.64  0.36
    1  0.17  0.83
    """

    _parameters: ClassVar[Rules] = {
        "cliques": Rule("a list of tuples of names", lambda value: isinstance(value, list | tuple) and bool(value)),
        "prior": Rule("'uniform', 'pooled', None or MarkovNetworks of shape (1,)", _is_prior),
    }

    nodes: Any
    cliques: Any
    hidden: Any = ()
    prior: Any = "uniform"
    prior_strength: float = 1.0
    n_iter: int = 200
    tol: float = 1e-6
    n_init: int = 1
    random_state: Any = 0

    def _graph(self) -> CliqueGraph:
        return checked_cliques(self.nodes, self.cliques, self.hidden)

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        graph = self._graph()
        values, _ = segments(X)
        found = Context(dimension=values.shape[1])
        return self._with_pooled(values, found, _stacked(graph, [np.ones(graph.n_entries)])), None

    def _run_em(self, tables: list[Floats], context: Context, name: Callable[[int], str]) -> EMResults:
        graph = self._graph()
        prior = Prior(0.0, np.zeros(graph.n_entries))
        if self.prior is not None:
            given = self._prior_batch(context)
            if given._graph is not graph:
                raise ValueError("The prior must be a network of the same nodes, cliques and hidden nodes.")
            prior = Prior(float(self.prior_strength), given.expected_counts()[0])
        starts, fits = self._starts(graph, context), []
        for table in tables:
            data = Evidence(graph, table)
            tried = [fitted(graph, data, start, prior, int(self.n_iter), float(self.tol)) for start in starts]
            fits.append(max(tried, key=lambda fit: fit.objective))
        found = joined(_stacked(graph, [fit.model for fit in fits]), fits)
        self._warn_unconverged([(found, name)])
        return found

    def _starts(self, graph: CliqueGraph, context: Context) -> list[Floats]:
        """Return where the iterations start: at even factors, or at those that tell hidden states apart."""
        if not graph.hidden:
            return [np.ones(graph.n_entries)]
        if self.prior is not None and not (isinstance(self.prior, str) and self.prior == "uniform"):
            return [to_numpy(self._prior_batch(context).factors)[0].astype(np.float64)]
        seed = seed_of(self.random_state)
        return [
            np.exp(0.5 * np.random.default_rng([seed, k]).standard_normal(graph.n_entries))
            for k in range(int(self.n_init))
        ]


def _stacked(graph: CliqueGraph, factors: list[Floats]) -> MarkovNetworks:
    return MarkovNetworks._make(
        factors=np.stack(factors), nodes=graph.nodes, hidden=graph.hidden, cliques=graph.cliques
    )


class Prior(NamedTuple):
    """Pseudo-observations: their number, and the probabilities of the states of all cliques ``(P,)``."""

    strength: float
    probability: Floats


class Expected(NamedTuple):
    """Expected numbers of the states of all cliques ``(P,)``, with those of the prior, and of all rows."""

    counts: Floats
    size: float


def fitted(graph: CliqueGraph, data: Evidence, start: Floats, prior: Prior, n_iter: int, tol: float) -> EMResult:
    """Maximize the log probability plus the log prior from a start."""
    plan = find_plan(tuple((*sorted(family), BATCH) for family in graph.families), graph.sizes, (BATCH,))
    plan.check("The sum over all configurations of this network")
    nothing, size = np.empty((1, 0)), float(data.counts.sum())

    def expect(factors: Floats) -> tuple[float, Expected]:
        log_z, _ = marginals(graph, plan, factors)
        value, counts = -(size + prior.strength) * log_z, prior.strength * prior.probability
        seen = prior.probability > 0
        value += prior.strength * float(prior.probability[seen] @ safe_log(factors[seen]))
        for _, group, logs, tables in inferred(data.groups, (factors[None], nothing, nothing)):
            weights = data.counts[group.rows]
            value += float(weights @ logs[0])
            for t, posterior in tables.items():
                counts[graph.places[t]] += weights @ group.counts(t, posterior)[0]
        return value, Expected(counts, size + prior.strength)

    def maximize(factors: Floats, expected: Expected) -> Floats:
        if expected.size <= 0:
            return factors
        factors = factors.copy()
        for place in graph.places:
            _, found = marginals(graph, plan, factors)
            factors[place] *= ratio(expected.counts[place] / expected.size, found[place])
        first = graph.places[0]
        factors[first] *= np.exp(-marginals(graph, plan, factors)[0])
        return factors

    return em_single(expect, maximize, start, n_iter, tol * max(size, 1.0), f"MarkovNetwork of {size:.0f} samples")


def marginals(graph: CliqueGraph, plan: Plan, factors: Floats) -> tuple[float, Floats]:
    """Return log Z and the probabilities of the states of all cliques, ``(P,)``."""
    inputs = []
    for place, shape, family in zip(graph.places, graph.shapes, graph.families, strict=True):
        inputs.append(relabeled(factors[place].reshape(*shape, 1), (*family, BATCH), (*sorted(family), BATCH)))
    log_z, tables = posteriors(plan, inputs)
    found = np.empty(graph.n_entries)
    for place, table, family in zip(graph.places, tables, graph.families, strict=True):
        found[place] = relabeled(table, (*sorted(family), BATCH), (*family, BATCH)).ravel()
    return float(log_z[0]), found
