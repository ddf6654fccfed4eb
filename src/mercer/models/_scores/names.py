"""Names of the parameters that Fisher scores belong to, column by column."""

from __future__ import annotations

from typing import Any

from mercer.families._simplex import Simplex
from mercer.families.gaussian import Gaussians


def score_names(models: Any) -> list[str]:
    """Name the columns of the scores under every member of a batch of shape ``(C,)``, one member after the other.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.models._scores.names import score_names
    >>> score_names(mc.Mixtures([[0.5, 0.5]], mc.Gaussians([[[0.0], [1.0]]], [[1.0, 1.0]])))
    ['weights[0]', 'weights[1]', 'components[0].mean[0]', 'components[0].log_sd', 'components[1].mean[0]', \
'components[1].log_sd']
    """
    names = _names(models)
    return names if len(models) == 1 else [f"model[{c}].{name}" for c in range(len(models)) for name in names]


def _names(models: Any) -> list[str]:
    if hasattr(models, "score_names"):
        return list(models.score_names())
    if hasattr(models, "emission"):
        n = int(models.initial.shape[-1])
        first = [f"initial[{i}]" for i in range(n)]
        steps = [f"transition[{i}, {j}]" for i in range(n) for j in range(n)]
        emitted = _names(models.emission)
        return first + steps + [f"emission[{i}].{name}" for i in range(n) for name in emitted]
    if hasattr(models, "components"):
        m, inner = int(models.weights.shape[-1]), _names(models.components)
        return [f"weights[{k}]" for k in range(m)] + [f"components[{k}].{name}" for k in range(m) for name in inner]
    d = models.dimension
    if isinstance(models, Gaussians):
        means = [f"mean[{i}]" for i in range(d)]
        if models.structure == "full":
            return means + [f"covariance[{i}, {j}]" for i in range(d) for j in range(i, d)]
        return means + (["log_sd"] if models.structure == "isotropic" else [f"log_sd[{i}]" for i in range(d)])
    alphabet = getattr(models, "alphabet", None)
    if isinstance(models, Simplex) and alphabet is not None:
        return [f"probability[{symbol}]" for symbol in alphabet.symbols]
    return [f"parameter[{i}]" for i in range(d)]
