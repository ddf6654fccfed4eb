"""Names of the parameters that Fisher scores belong to, column by column."""

from __future__ import annotations

from typing import Any


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
    names: list[str] = models.score_names()
    return names if len(models) == 1 else [f"model[{c}].{name}" for c in range(len(models)) for name in names]
