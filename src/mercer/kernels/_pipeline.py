"""What a kernel can see of the pipeline that fits it: the memory that is needed, and the next step."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mercer._memory import check_room
from mercer._notices import notify

FRAMES = 15
"""Calls between a pipeline and the kernel in it, at most."""


def check_matrix(n: int, m: int, name: str, itemsize: int = 8, copies: int = 1) -> None:
    """Raise if a matrix of n x m kernel values does not fit into memory; before anything is fitted."""
    samples = f"{n:,} samples" if n == m else f"{n:,} and {m:,} samples"
    check_room(
        copies * n * m * itemsize,
        f"The matrix of {name} of {samples}",
        "Use features in place of the matrix, mc.Features(kernel) or mc.Landmarks(kernel, 500) before a linear model, "
        "or write it to disk, mc.gram.compute(kernel, X, store='gram.zarr').",
    )


def length_of(X: Any) -> int:
    """Return the number of objects of any input; 0 if it is not known yet."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(X) if hasattr(X, "__len__") else 0


def warn_of_second_kernel(kernel: Any) -> None:
    """Warn if the next step of a pipeline computes a kernel of the kernel matrix, or has no intercept."""
    step, y = _next_step()
    if type(step).__module__ == "sklearn.kernel_ridge" and step.kernel == "precomputed" and _is_far_from_zero(y):
        notify(
            f"scikit-learn's KernelRidge has no intercept, and the targets have the mean {np.mean(y):.4g}. Use "
            "mc.KernelRidge(), which has one, or subtract the mean from the targets."
        )
    for name in ("kernel", "affinity"):
        value = getattr(step, name, "precomputed")
        if isinstance(step, type) or (isinstance(value, str) and value.startswith("precomputed")):
            continue
        last, first = type(step).__name__, type(kernel).__name__
        chosen = repr(value) if isinstance(value, str) else "..."
        cure = f"{last}({name}='precomputed')"
        if type(step).__module__.startswith("sklearn.gaussian_process"):  # it takes no kernel matrix
            cure = f"{last}({first}(...).fit(X).as_gp()).fit(mc.objects(X), y) without a pipeline"
        notify(
            f"{last}({name}={chosen}) comes after {first}: it computes a second kernel, of the rows of the kernel "
            f"matrix. Use {cure}, or mc.Features({first}(...)) if you want features."
        )


def _is_far_from_zero(y: Any) -> bool:
    """Whether the mean of numeric targets is large, compared with their standard deviation."""
    targets = np.asarray(y)
    return targets.dtype.kind in "iuf" and bool(abs(targets.mean()) > targets.std() / 2)


def _next_step() -> tuple[Any, Any]:
    """Return the step after the calling kernel in the pipeline that fits it, and the targets; None if there are none.

    scikit-learn tells a transformer nothing about its pipeline. The pipeline is looked up among the calling functions,
    as ``warnings`` does to find the line of the user.
    """
    frame: Any = sys._getframe(1)
    for _ in range(FRAMES):
        if frame is None:
            break
        if frame.f_globals.get("__name__") == "sklearn.pipeline" and "step_idx" in frame.f_locals:
            steps = getattr(frame.f_locals.get("self"), "steps", [])
            after = [step for _, step in steps[frame.f_locals["step_idx"] + 1 :]]
            found = next((step for step in after if step is not None and not isinstance(step, str)), None)
            return found, frame.f_locals.get("y")
        frame = frame.f_back
    return None, None
