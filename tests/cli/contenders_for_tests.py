"""Classifiers that misbehave, importable by the processes of a comparison."""

from __future__ import annotations

import os
import time

from sklearn.dummy import DummyClassifier


class Refuses(DummyClassifier):
    """Raises one sentence."""

    def fit(self, X, y, sample_weight=None):
        raise ValueError("sequence 3 is odd; make it even")


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
