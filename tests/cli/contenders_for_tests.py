"""Classifiers that misbehave, importable by the processes of a comparison."""

from __future__ import annotations

import io
import os
import time
import warnings
from contextlib import redirect_stderr

from sklearn.dummy import DummyClassifier


class Refuses(DummyClassifier):
    """Raises one sentence."""

    def fit(self, X, y, sample_weight=None):
        raise ValueError("sequence 3 is odd; make it even")


class Warns(DummyClassifier):
    """Warns, and says what a terminal would have shown."""

    def fit(self, X, y, sample_weight=None):
        with redirect_stderr(io.StringIO()) as shown:
            warnings.warn("lbfgs failed to converge", UserWarning, stacklevel=2)
        raise ValueError(f"shown: {shown.getvalue()!r}")


class Breaks(DummyClassifier):
    """Raises what nobody expects."""

    def fit(self, X, y, sample_weight=None):
        raise ZeroDivisionError("division by zero")


class Hangs(DummyClassifier):
    """Never ends."""

    def fit(self, X, y, sample_weight=None):
        time.sleep(3600)


class Dies(DummyClassifier):
    """Takes its process along."""

    def fit(self, X, y, sample_weight=None):
        os._exit(3)
