"""Conversion of models from hmmlearn, glhmm and scikit-learn, and back to hmmlearn.

These libraries are not imported to read their models; any object with the right attributes is accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.families.poisson import Poissons
from mercer.models.mixture import Mixtures

Tables = tuple[Floats, Floats, Any]
"""Initial (1, n), transition (1, n, n) and emission (1, n) of one model."""


def joined(models: Any, read: Callable[[Any], Any], concat: Callable[[list[Any]], Any]) -> Any:
    """Convert one model or a list of models to one batch."""
    if isinstance(models, list | tuple) or (isinstance(models, np.ndarray) and models.ndim):
        if len(models) == 0:
            raise ValueError("models must have at least one model; got an empty list.")
        return concat([read(model) for model in models])
    return read(models)


def _fitted(model: Any, *names: str) -> list[Floats]:
    """Return attributes of a fitted model; raise if one is missing."""
    missing = [name for name in names if getattr(model, name, None) is None]
    if missing:
        raise ValueError(f"The {type(model).__name__} has no {missing[0]}. Fit it first.")
    return [np.asarray(getattr(model, name), dtype=float) for name in names]


# -- hmmlearn ------------------------------------------------------------------------------------------------


def from_hmmlearn(model: Any) -> Tables:
    """Read hmmlearn's CategoricalHMM, GaussianHMM, GMMHMM or PoissonHMM."""
    if not hasattr(model, "startprob_") and not hasattr(model, "n_components"):
        raise TypeError(
            "models must be CategoricalHMM, GaussianHMM, GMMHMM or PoissonHMM of hmmlearn; got a "
            f"{type(model).__name__}."
        )
    initial, transition = _fitted(model, "startprob_", "transmat_")
    emission: Any
    if hasattr(model, "emissionprob_") and not hasattr(model, "n_trials"):
        emission = Categoricals(_fitted(model, "emissionprob_")[0][None])
    elif hasattr(model, "weights_"):
        weights, means, covariances = _fitted(model, "weights_", "means_", "covars_")
        if model.covariance_type == "tied":  # the components of a state share one covariance
            covariances = np.repeat(covariances[:, None], weights.shape[1], axis=1)
        emission = Mixtures(weights[None], Gaussians(means[None], covariances[None]))
    elif hasattr(model, "lambdas_"):
        emission = Poissons(_fitted(model, "lambdas_")[0][None])
    elif hasattr(model, "means_"):
        means, covariances = _fitted(model, "means_", "covars_")  # full matrices, for every covariance type
        if model.covariance_type == "diag":
            covariances = np.diagonal(covariances, axis1=-2, axis2=-1)
        elif model.covariance_type == "spherical":  # hmmlearn 0.3 repeats the variance of a state for each coordinate
            covariances = covariances[:, 0, 0].reshape(len(means), -1)[:, 0]
        emission = Gaussians(means[None], covariances[None])
    else:
        raise TypeError(
            "models must be CategoricalHMM, GaussianHMM, GMMHMM or PoissonHMM of hmmlearn; got a "
            f"{type(model).__name__}."
        )
    return initial[None], transition[None], emission


def to_hmmlearn(initial: Floats, transition: Floats, emission: Any) -> Any:
    """Convert one model, of shape ``(1,)``, to a model of hmmlearn."""
    try:
        hmm = import_module("hmmlearn.hmm")
    except ImportError:
        raise ImportError("to_hmmlearn needs hmmlearn, which is not installed. Run pip install hmmlearn.") from None
    n = initial.shape[-1]
    if isinstance(emission, Categoricals):
        model = hmm.CategoricalHMM(n_components=n)
        model.emissionprob_ = to_numpy(emission.probability)[0]
        model.n_features = emission.dimension
    elif isinstance(emission, Gaussians):
        model = hmm.GaussianHMM(n_components=n, covariance_type=_covariance_type(emission))
        model.means_, model.n_features = to_numpy(emission.mean)[0], emission.dimension
        model.covars_ = to_numpy(emission.covariance)[0]
    elif isinstance(emission, Mixtures) and isinstance(emission.components, Gaussians):
        kind = _covariance_type(emission.components)
        model = hmm.GMMHMM(n_components=n, n_mix=int(emission.weights.shape[-1]), covariance_type=kind)
        model.weights_, model.n_features = to_numpy(emission.weights)[0], emission.dimension
        model.means_ = to_numpy(emission.components.mean)[0]
        model.covars_ = to_numpy(emission.components.covariance)[0]
    elif isinstance(emission, Poissons):
        model = hmm.PoissonHMM(n_components=n)
        model.lambdas_, model.n_features = to_numpy(emission.rate)[0], emission.dimension
    else:
        raise TypeError(
            "The emissions must be Categoricals, Gaussians, Poissons or Mixtures of Gaussians for hmmlearn; got "
            f"{type(emission).__name__}."
        )
    model.startprob_, model.transmat_ = initial[0], transition[0]
    return model


def _covariance_type(batch: Gaussians) -> str:
    return {"full": "full", "diagonal": "diag", "isotropic": "spherical"}[batch.structure]


# -- glhmm ---------------------------------------------------------------------------------------------------


def from_glhmm(model: Any) -> Tables:
    """Convert a glhmm model: the expected parameters of its variational posterior, in the space of its fit."""
    settings = getattr(model, "hyperparameters", None)
    if not isinstance(settings, dict) or "covtype" not in settings:
        raise TypeError(f"models must be trained glhmm.glhmm.glhmm models; got a {type(model).__name__}.")
    if getattr(model, "beta", None) is not None:
        raise ValueError(
            "The glhmm model contains a regression (model_beta is not 'no'), which HMMs do not support. Fit it with "
            "model_beta='no'."
        )
    initial, transition = _fitted(model, "Pi", "P")
    n, kind = len(initial), settings["covtype"]
    shared = settings["model_mean"] == "shared"
    mean, spread = [], []
    if model.mean is not None:
        mean = [np.asarray(model.mean[0 if shared else k]["Mu"], dtype=float).ravel() for k in range(n)]
    if kind != "identity":  # a single matrix, or vector of variances, if all states share it
        spread = [np.asarray(s["rate"], dtype=float) / s["shape"] for s in model.Sigma]
        spread = [spread[k if len(spread) > 1 else 0] for k in range(n)]
    if not mean and not spread:
        raise ValueError("The glhmm model has neither means nor covariances, so its states are all equal.")
    mean = mean or [np.zeros(len(spread[0]))] * n
    spread = spread or [np.ones(len(mean[0]))] * n
    return initial[None], transition[None], Gaussians(np.stack(mean)[None], np.stack(spread)[None])


# -- scikit-learn --------------------------------------------------------------------------------------------


def gaussian_mixture(model: Any) -> Mixtures:
    """Convert a GaussianMixture or BayesianGaussianMixture of scikit-learn to a batch of shape ``(1,)``."""
    if not hasattr(model, "covariance_type"):
        raise TypeError(f"models must be GaussianMixture of scikit-learn; got a {type(model).__name__}.")
    weights, means, covariances = _fitted(model, "weights_", "means_", "covariances_")
    if model.covariance_type == "tied":
        covariances = np.repeat(covariances[None], len(weights), axis=0)
    return Mixtures(weights[None], Gaussians(means[None], covariances[None]))
