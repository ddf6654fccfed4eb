"""What estimators of networks, directed or not, have in common: tables of data, and questions to the fitted network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer._checks import is_whole
from mercer._parameters import Rule, Rules, boolean, check
from mercer.data import Sequences
from mercer.data.segments import check_some_points, digest_order, segments
from mercer.families.estimator import Context
from mercer.models._fitting.em import EMResults
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models._nets.cliques import AnyGraph
from mercer.models._nets.found import Declared, known_codes
from mercer.models._nets.graph import check_values, values_of
from mercer.models._nets.network import Network
from mercer.models.verbs import FittedModel


class NetworkEstimator(FittedModel, IterativeEstimator):
    """Base class of estimators of networks. A subclass has a graph, and fits tables of rows in `_run_em`."""

    infers_missing: ClassVar[bool] = True

    _parameters: ClassVar[Rules] = {
        "nodes": Rule("a dict of names and states", lambda value: isinstance(value, dict) and bool(value)),
        "hidden": Rule("a list of names", lambda value: isinstance(value, list | tuple)),
    }

    nodes: Any
    hidden: Any

    def _graph(self) -> AnyGraph:
        raise NotImplementedError

    def _run_em(self, tables: list[Floats], context: Context, name: Callable[[int], str]) -> EMResults:
        """Fit one network to each table of rows; ``name(i)`` is the name of table i in messages."""
        raise NotImplementedError

    def _nodes(self) -> Declared:
        """Return the nodes with all states, as users name them."""
        return dict(self.nodes)

    def _missing_allowed(self) -> bool:
        return True

    # -- the fitted network ------------------------------------------------------------------------------------

    def predict(self, X: Any, node: str | None = None) -> Any:
        """Return the most probable state of a node in each row, ``(T,)``, as it is in ``nodes_``.

        Parameters
        ----------
        X : array of shape (T, D), data frame, or dict
            Rows, as in ``fit``; a data frame or dict needs no column for the node.
        node : str, default=None
            A discrete node, whose own values in ``X`` are ignored; None is the hidden node, if there is one.
        """
        table, node = self._asked_about(X, node)
        best = self.model_.posterior(table, node)[0].argmax(axis=-1)
        return self._states(node)[best]

    def predict_proba(self, X: Any, node: str | None = None) -> Any:
        """Return the posterior probabilities of the states of a node as a data frame: rows of ``X``, a column a state.

        Parameters
        ----------
        X : array of shape (T, D), data frame, or dict
            Rows, as in ``predict``.
        node : str, default=None
            A discrete node, whose own values in ``X`` are ignored; None is the hidden node, if there is one.

        Examples
        --------
        >>> import mercer as mc
        >>> rows = [["no", "no"], ["no", "no"], ["yes", "yes"], ["no", None]]
        >>> nodes = {"smoke": ["no", "yes"], "cough": ["no", "yes"]}
        >>> net = mc.BayesNet(nodes, {"cough": ["smoke"]}).fit(rows)
        >>> net.predict_proba({"cough": ["no", "yes"]}, "smoke").round(2)
        smoke    no   yes
        0      0.89  0.11
        1      0.34  0.66
        >>> net.predict({"cough": ["no", "yes"]}, "smoke")
        array(['no', 'yes'], dtype='<U3')
        """
        table, node = self._asked_about(X, node)
        found = self.model_.posterior(table, node, as_frame=True)
        found.columns = type(found.columns)(self._states(node), name=node)
        return found.set_axis(X.index) if hasattr(X, "iloc") else found

    def _asked_about(self, X: Any, node: str | None) -> tuple[Floats, str]:
        """Return rows without the values of a node, and its name."""
        check_is_fitted(self, "model_")
        if node is None:
            if len(self.model_.hidden) != 1:
                raise ValueError(
                    f"node must be named: this network has {len(self.model_.hidden)} hidden nodes, not one."
                )
            node = self.model_.hidden[0]
        table = values_of(self.model_._graph, X, known=known_codes(self._nodes()))
        if node in self.model_.observed:
            table[:, self.model_.observed.index(node)] = np.nan
        return table, node

    def _states(self, node: str) -> Any:
        """Return the states of a discrete node as an array."""
        states = self._nodes()[node]
        if is_whole(states):
            return np.arange(states)
        return np.array(states, dtype=None if len(set(map(type, states))) == 1 else object)

    def sample(self, size: int = 1, random_state: Any = None, as_frame: bool = False) -> Any:
        """Sample rows of the observed nodes from ``model_``.

        Parameters
        ----------
        size : int, default=1
            Number of rows.
        random_state : int, Generator, RandomState or None, default=None
            Seed.
        as_frame : bool, default=False
            Whether to return a data frame of states.

        Returns
        -------
        array of shape (size, D), or DataFrame
            Codes of states, in the order of ``nodes_``, and real numbers; with ``as_frame``, the states themselves.
        """
        check(boolean(), as_frame=as_frame)
        check_is_fitted(self, "model_")
        drawn: Floats = self.model_.sample(size, random_state)[0]
        if not as_frame:
            return drawn
        import pandas as pd

        gaussian = {name for name, states in self.model_.nodes if not states}
        columns = zip(self.model_.observed, drawn.T, strict=True)
        return pd.DataFrame({n: x if n in gaussian else self._states(n)[x.astype(int)] for n, x in columns})

    # -- data ------------------------------------------------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Turn ``X`` into a matrix of codes (one row a sample) or `Sequences` (one table a sample), checked."""
        graph, known = self._graph(), known_codes(self._nodes())
        if isinstance(X, list | tuple) and any(map(is_table, X)):
            X = Sequences([values_of(graph, x, complete=True, known=known) for x in X])
        elif (
            hasattr(X, "columns")
            or getattr(getattr(X, "dtype", None), "kind", "") in ("O", "U", *("biuf" if known else ""))
            or (isinstance(X, list | tuple) and X)
        ):
            X = values_of(graph, X, complete=True, known=known)
        X = super().accept(X, owner=owner, reset=reset, context=context)
        values, _ = segments(X)
        if values.shape[1] != len(graph.observed):
            names = ", ".join(graph.names[v] for v in graph.observed[:20])
            raise ValueError(
                f"X must have {len(graph.observed)} columns, one per observed node ({names}); got {values.shape[1]}."
            )
        check_values(graph, values)
        return X

    def _with_pooled(self, values: Floats, context: Context, even: Network) -> Context:
        """Add the network that a named prior means: the even one, or that of all rows."""
        if not isinstance(self.prior, str):
            return context
        context = replace(context, pooled=even)
        if self.prior == "uniform":
            return context
        alone = clone(self).set_params(prior="uniform", prior_strength=1.0)
        return replace(context, pooled=alone._fit_all(values, context).models)

    # -- fits ------------------------------------------------------------------------------------------------

    def _fit_shared(self, X: Any, context: Context) -> Network:
        models: Network = self._fit_together(X, context).models
        return models

    def _fit_together(self, X: Any, context: Context) -> EMResults:
        check_some_points(X)
        return self._fit_all(segments(X)[0], context)

    def _fit_all(self, values: Floats, context: Context) -> EMResults:
        return self._run_em([values[digest_order(values)]], context, lambda i: "the model of all samples")

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        values, offsets = segments(X)
        return self._run_em([values[a:b] for a, b in pairwise(offsets)], context, name)


def is_table(x: Any) -> bool:
    """Whether a sample is a table of rows, rather than one row."""
    if hasattr(x, "ndim"):
        return bool(x.ndim == 2)
    return isinstance(x, list | tuple) and bool(x) and isinstance(x[0], list | tuple | np.ndarray)
