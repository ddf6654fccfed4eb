"""Python's errors about arguments name the class that the user has, not a base class."""

import importlib
import inspect

import numpy as np
import pytest

import mercer as mc
from mercer._own_names import name_methods

ROOMS = ("data", "families", "models", "kernels", "embedding")
X = [np.random.default_rng(i).normal(size=(10, 2)) for i in range(4)]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: mc.HMM(2).fit(X, sample_weight=[1, 2, 3, 4]), r"HMM\.fit\(\)"),
        (lambda: mc.LDS(2).smooth(X, level=0.9), r"LDS\.smooth\(\)"),
        (lambda: mc.EmbeddedHMM().predict_proba(), r"EmbeddedHMM\.predict_proba\(\)"),
        (lambda: mc.Gaussian().fit(X, None, 3), r"Gaussian\.fit\(\)"),
        (lambda: mc.GaussianProcess(), r"GaussianProcess\.__init__\(\)"),
        (lambda: mc.kernels.GaussianProcessClassifier(noise=1), r"GaussianProcessClassifier\.__init__\(\)"),
        (lambda: mc.SeriesClassifier().explain(), r"SeriesClassifier\.explain\(\)"),
        (lambda: mc.RBF().fit(), r"RBF\.fit\(\)"),
        (lambda: mc.HMMs.load("a", "b", "c"), r"HMMs\.load\(\)"),
    ],
)
def test_errors_about_arguments(call, name):
    with pytest.raises(TypeError, match=f"^{name}"):
        call()


def test_no_public_method_has_the_name_of_another_class():
    wrong = []
    for room in ROOMS:
        module = importlib.import_module(f"mercer.{room}")
        for cls in (value for value in map(vars(module).get, module.__all__) if isinstance(value, type)):
            for name, found in inspect.getmembers(cls, inspect.isroutine):
                owner = getattr(found, "__qualname__", "").rpartition(".")[0]
                ours = getattr(found, "__module__", None) or ""
                if ours.startswith("mercer.") and not name.startswith("_") and owner not in ("", cls.__name__):
                    wrong.append((cls.__name__, found.__qualname__))
    assert not [pair for pair in wrong if "<locals>" not in pair[1]]


def test_methods_keep_what_they_were():
    """Signature, defaults, docstring, super() and decorators."""

    class Base:
        def fit(self, x, *, y=1):
            """Fit."""
            return (type(self).__name__, x, y)

        @classmethod
        def make(cls, x):
            return cls, x

    Base.__module__ = "mercer.elsewhere"

    class Middle(Base):
        def fit(self, x, *, y=2):
            """Fit in the middle."""
            return super().fit(x, y=y)

    Middle.__module__ = "mercer.elsewhere"

    class Public(Middle):
        pass

    name_methods({"Public": Public, "number": 3}, ["Public", "number"])
    assert Public().fit(1) == ("Public", 1, 2)
    assert Public.make(4) == (Public, 4)
    assert str(inspect.signature(Public.fit)) == "(self, x, *, y=2)"
    assert Public.fit.__doc__ == "Fit in the middle."
    assert Middle.fit.__qualname__.endswith("Middle.fit")
    with pytest.raises(TypeError, match=r"Public\.make\(\)"):
        Public.make()
