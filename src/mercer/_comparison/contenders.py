"""Factories of contenders, for labels and for numeric targets: kernels with an estimator, and plain baselines."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import mercer as mc
from mercer._comparison.evaluation import Contender
from mercer.data.alphabet import Alphabet
from mercer.data.baseline_features import ConfoundsOnly, ScaledFeatures
from mercer.data.standardize import Lengths
from mercer.kernels.empiricalkernelmap import EmpiricalKernelMap
from mercer.kernels.linear_rbf import RBF, Linear
from mercer.kernels.marginalization import Marginalization
from mercer.kernels.residualized import Residualized
from mercer.kernels.tempered import Tempered
from mercer.models.hmm_estimator import HMM
from mercer.models.pairhmm_affine_estimator import AffinePairHMM

COSTS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class ContenderFactory:
    """Makes contenders for labels or for targets, with or without confounds.

    Parameters
    ----------
    regression : bool
        Whether the targets are numbers.
    confounded : bool
        Whether the data come with confounds: they are regressed out of all features and kernels, and of the targets.
    """

    regression: bool = False
    confounded: bool = False

    def with_kernel(self, name: str, *steps: Any, **grid: Any) -> Contender:
        """Return a kernel, the last of ``steps``, with a support vector machine or kernel ridge regression.

        Parameters
        ----------
        name : str
            Name of the contender.
        *steps : transformers, then a kernel
            Steps of the pipeline.
        **grid : iterables
            Values of the kernel's parameters; parameters of other steps are prefixed as in ``step__parameter``.
        """
        *before, kernel = steps
        costs = {} if self.regression else {"svc__C": COSTS}
        if self.regression:
            grid.pop("svc__C", None)
            # With a kernel of its own, the regression has the confounds of the target, too.
            end = (mc.KernelRidge(kernel),) if self.confounded else (kernel, mc.KernelRidge())
        else:
            end = (Residualized(kernel) if self.confounded else kernel, SVC(kernel="precomputed"))
        pipeline = make_pipeline(*before, *end)
        names = [step for step, _ in pipeline.steps]
        prefix = f"{names[len(before)]}__{'kernel__' if self.confounded else ''}"
        own = {key if key.split("__")[0] in names else prefix + key: values for key, values in grid.items()}
        return Contender(name, pipeline, {**costs, **own})

    def aligned(self, alphabet: Alphabet | str) -> Contender:
        """Return a power of a pair HMM kernel; by itself, its Gram matrix is nearly the identity.

        Parameters
        ----------
        alphabet : Alphabet or str
            Proteins are scored by BLOSUM62 if Biopython is installed; other symbols as equal or not.
        """
        if Alphabet.of(alphabet) == Alphabet.of("protein") and find_spec("Bio") is not None:
            pairs = AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1)
            grid: dict[str, Any] = {"kernel__model__gap_open": (8, 11)}
        else:
            pairs = AffinePairHMM((1, -1), open_probability=0.01, extend_probability=0.5, matrix_scale=0.5)
            pairs.set_params(alphabet=alphabet if isinstance(alphabet, str) else None)
            grid = {"kernel__model__matrix_scale": (0.2, 0.5)}
        return self.with_kernel("Marginalization, pair HMM", Tempered(Marginalization(pairs)), **grid)

    def same_path(self, hmm: HMM) -> Contender:
        """Return the kernel of equal-length strings that share a hidden path, within an empirical map."""
        return self.with_kernel("Marginalization, HMM", EmpiricalKernelMap(Marginalization(hmm)))

    # -- baselines -----------------------------------------------------------------------------------------

    def trivial(self) -> list[Contender]:
        """Return what ignores the data: the most frequent class or the mean, and the confounds by themselves."""
        constant = (
            Contender("mean", DummyRegressor()) if self.regression else Contender("majority class", DummyClassifier())
        )
        if not self.confounded:
            return [constant]
        end = LinearRegression() if self.regression else LogisticRegression(max_iter=1000)
        return [constant, Contender("confounds only", make_pipeline(ConfoundsOnly(), StandardScaler(), end))]

    def only_length(self, name: str) -> Contender:
        """Return a predictor that uses the length only."""
        return self.linear(name, Lengths(), StandardScaler())

    def linear(self, name: str, *steps: Any) -> Contender:
        """Return logistic or ridge regression on features."""
        if self.confounded:
            return self._confounded(name, *steps, Linear(normalize=False))
        if self.regression:
            return Contender(name, make_pipeline(*steps, Ridge()), {"ridge__alpha": (0.01, 1.0, 100.0)})
        estimator = make_pipeline(*steps, LogisticRegression(max_iter=1000))
        return Contender(name, estimator, {"logisticregression__C": (0.1, 1.0, 10.0)})

    def linear_svm(self, name: str, *steps: Any) -> Contender:
        """Return a linear support vector machine on features."""
        return Contender(name, make_pipeline(*steps, SVC(kernel="linear")), {"svc__C": (0.01, 0.1, 1.0, 10.0)})

    def rbf_svm(self, name: str, *steps: Any) -> Contender:
        """Return a support vector machine with a Gaussian kernel on standardized features."""
        if self.confounded:
            return self._confounded(name, *steps, RBF(), gamma=(0.01, 0.1))
        svm = SVR() if self.regression else SVC()
        estimator = make_pipeline(*steps, StandardScaler(), svm)
        key = estimator.steps[-1][0]
        return Contender(name, estimator, {f"{key}__C": (1.0, 10.0), f"{key}__gamma": ("scale", 0.01, 0.1)})

    def nearest(self, name: str, *steps: Any) -> Contender:
        """Return the nearest neighbor by the Euclidean distance of features; for targets, the mean of a few."""
        if self.regression:
            estimator: Pipeline = make_pipeline(*steps, KNeighborsRegressor())
            return Contender(name, estimator, {"kneighborsregressor__n_neighbors": (1, 3, 10)})
        return Contender(name, make_pipeline(*steps, KNeighborsClassifier(1)))

    def naive_bayes(self, name: str, *steps: Any) -> Contender:
        """Return naive Bayes on counts."""
        return Contender(name, make_pipeline(*steps, MultinomialNB()), {"multinomialnb__alpha": (0.01, 0.1, 1.0)})

    def _confounded(self, name: str, *steps: Any, **grid: Any) -> Contender:
        """Return a plain kernel, the last of ``steps``, of features whose confounds are regressed out."""
        *features, kernel = steps
        before = [step for step in features if not isinstance(step, StandardScaler)]  # it does not know of confounds
        made = self.with_kernel(name, *before, ScaledFeatures(), kernel, **grid)
        return Contender(f"{name}, deconfounded", made.estimator, made.grid, is_baseline=True)
