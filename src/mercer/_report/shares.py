"""What the positions of the drawn samples contribute to their predictions."""

from __future__ import annotations

import numpy as np
from sklearn.utils import _safe_indexing

from mercer._array import Floats
from mercer._comparison.evaluation import Task
from mercer._notices import collected
from mercer._refusals import NotAdditive, NotRead
from mercer._report.details import Details
from mercer.kernels import explain


def shares_of(task: Task, found: Details, numbers: list[int]) -> dict[int, Floats]:
    """Return the contributions of positions to the prediction, by sample; empty for kernels without exact ones.

    For labels, positive contributions speak for the class that the model predicts.
    """
    if not numbers:
        return {}
    X = _safe_indexing(task.X, np.asarray(numbers))
    try:
        with collected():
            explained = explain(found.model, X, method="additive")
            predicted = found.model.predict(X)
    except (NotAdditive, NotRead):  # the kernel has no exact shares, or the pipeline is not one of ours
        return {}
    shares = {}
    for j, i in enumerate(numbers):
        values = explained.contributions[j]
        if explained.n_outputs > 1:
            if explained.n_outputs != len(explained.classes if explained.classes is not None else ()):
                return {}  # decisions between pairs of classes
            values = values[..., int(np.searchsorted(np.asarray(explained.classes), predicted[j]))]
        elif explained.classes is not None and predicted[j] == explained.classes[0]:
            values = -values
        shares[i] = values
    return shares
