"""Shares passed back through transformers of series to the original time steps and channels."""

from __future__ import annotations

from typing import Any

from mercer.data.wrapped import inside
from mercer.kernels._data import unwrapped
from mercer.kernels._explain._shares import NotAdditive, Shares


def pulled_back(step: Any, before: Any, shares: Shares, after: Any) -> tuple[Shares, Any]:
    """Return the shares of the positions of the input of a transformer, and this input.

    Parameters
    ----------
    step : transformer
        A fitted transformer.
    before : data
        Its input.
    shares : Shares
        Shares of the positions of its output.
    after : data
        Its output.
    """
    _ = inside(unwrapped(before))
    raise NotAdditive(
        f"mc.explain cannot pass shares back through {type(step).__name__}. Use method='marginal', or explain the "
        "pipeline after this step."
    )
