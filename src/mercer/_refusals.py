"""Why a pipeline has no explanation: errors that others tell from a defect."""

from __future__ import annotations


class NotAdditive(TypeError):
    """A kernel is not a sum over positions."""


class NotRead(TypeError):
    """A pipeline has a step that explanations cannot read."""


class NoKernel(NotRead, ValueError):
    """A pipeline has no kernel of mercer."""
