"""Operands of samples under hidden Markov models and mixtures: evidence of the hidden states."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, as_float, beside, namespace, safe_log, to_numpy
from mercer._coupling import Operand
from mercer.data import Sequences
from mercer.families.categorical import Categoricals
from mercer.models._forward.evidence import code_probabilities, row_log_prob
from mercer.models._history.operand import MixedOperand, history_operand
from mercer.models.inference import read


def shared_chain(model: Any, X: Any) -> Operand:
    """Prepare sequences of one length under one hidden Markov model (MK-4)."""
    model._require_one()
    X = read(model.emission, X)
    length = _one_length(X)
    n = int(model.n_states[0])  # further states are padding
    evidence = _evidence(model.emission[:, :n], X.values, model.initial)
    chain = np.arange(-1, length - 1)
    root, transition = model.initial[0, :n], model.transition[0, :n, :n]
    return history_operand(chain, transition, root, _by_datum(evidence, length), example=_example(X, length))


def independent_history(model: Any, X: Any) -> Operand:
    """Prepare points, or sequences of one length, under one mixture: each position has its own component (MK-3)."""
    model._require_one()
    alphabet = getattr(model.components, "alphabet", None)
    length, example = 1, None
    if isinstance(X, Sequences) or alphabet is not None:
        X = read(model.components, X)
        length, points = _one_length(X), X.values
        example = _example(X, length)
    else:
        points = X if hasattr(X, "indptr") else as_float(X)
    weights = model.weights[0, :]
    evidence = _evidence(model.components, points, weights)
    m = int(weights.shape[0])
    unused = np.full((m, m), 1.0 / m)  # no position follows another
    return history_operand(np.full(length, -1), unused, weights, _by_datum(evidence, length), example=example)


def one_of_several(model: Any, X: Any) -> Operand:
    """Prepare samples under a mixture of models with hidden states: each sample has one component."""
    model._require_one()
    several = range(int(model.weights.shape[-1]))
    return MixedOperand(
        safe_log(model.weights[0, :]), [model.components[0, k : k + 1].shared_history(X) for k in several]
    )


def _one_length(X: Sequences) -> int:
    """Return the common length of all sequences; raise if two differ."""
    if len(X) == 0:
        return 1
    lengths = X.lengths
    short, long = int(np.argmin(lengths)), int(np.argmax(lengths))
    if lengths[long] == 0:
        raise ValueError(
            f"{X.name(long)} is empty, so it shares no hidden state with others. Leave empty sequences out."
        )
    if lengths[short] != lengths[long]:
        raise ValueError(
            "All sequences must have the same length, because they share a hidden state at every position; "
            f"{X.name(short)} has {lengths[short]} observations and {X.name(long)} has {lengths[long]}. Use mc.PairHMM "
            "or mc.AffinePairHMM to compare sequences of different lengths."
        )
    return int(lengths[0])


def _example(X: Sequences, length: int) -> str | None:
    return f"{X.name(0)} has {length} observations" if len(X) else None


def _evidence(emission: Any, points: Any, like: Array) -> Array:
    """Log probability of every point in every state of one model, ``(T, S)``; emission has shape (1, S)."""
    if is_numpy_array(like):
        if isinstance(emission, Categoricals):
            return safe_log(code_probabilities(emission)[0].T)[np.asarray(points)]
        return row_log_prob(emission, points, np.zeros(points.shape[0], dtype=int))
    symbols = getattr(getattr(emission, "components", emission), "alphabet", None) is not None
    x = points if symbols else beside(like, np.array(to_numpy(points)), like.dtype)  # gradients flow to the parameters
    return namespace(like).matrix_transpose(emission[0].log_prob(x))


def _by_datum(evidence: Array, length: int) -> Array:
    return namespace(evidence).reshape(evidence, (-1, length, evidence.shape[-1]))
