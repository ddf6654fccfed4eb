"""Explanations by marginalization: the decision as it is minus the decision had positions not been observed."""

from __future__ import annotations

from typing import Any

from mercer.kernels._explain._decision import Decision
from mercer.kernels._explain._explanation import Explanation


def marginalized(decision: Decision, X: Any, *, window: int = 1) -> Explanation:
    """Explain decisions by leaving out positions, which are summed over.

    Parameters
    ----------
    decision : Decision
        The decision of a fitted pipeline, with the outputs that are explained.
    X : data
        Input of the pipeline.
    window : int, default=1
        Number of neighboring positions that are left out together.
    """
    raise NotImplementedError("Explanation by marginalization is not there yet. Use method='additive'.")
