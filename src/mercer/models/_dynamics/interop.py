"""Conversion of linear dynamical systems from pykalman and statsmodels.

These libraries are not imported to read their models; any object with the right attributes is accepted.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer.models._dynamics.runs import shapes_of
from mercer.models._interop import joined

Fields = dict[str, Floats]
"""Arguments of `LDSs`."""

_PYKALMAN = {
    "transition": "transition_matrices",
    "emission": "observation_matrices",
    "process_covariance": "transition_covariance",
    "observation_covariance": "observation_covariance",
    "initial_mean": "initial_state_mean",
    "initial_covariance": "initial_state_covariance",
    "state_offset": "transition_offsets",
    "observation_offset": "observation_offsets",
}
"""Field -> name of the parameter in pykalman."""


def _varies(name: str, shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"{name} changes over time, with shape {shape}, which LDSs do not support. Use a model with constant matrices."
    )


# -- pykalman --------------------------------------------------------------------------------------------------


def _from_pykalman(model: Any) -> Fields:
    """Read a KalmanFilter; a parameter that is not set is the identity, or zero, as there."""
    missing = [name for name in (*_PYKALMAN.values(), "n_dim_state", "n_dim_obs") if not hasattr(model, name)]
    if missing:
        raise TypeError(f"models must be KalmanFilter of pykalman; got a {type(model).__name__} without {missing[0]}.")
    fields = {}
    for field, shape in shapes_of(int(model.n_dim_state), int(model.n_dim_obs)).items():
        name = _PYKALMAN[field]
        given = getattr(model, name)
        if given is None:
            value = np.eye(*shape) if len(shape) == 2 else np.zeros(shape)
        else:
            value = np.asarray(given, dtype=float)
            if value.ndim > len(shape):
                raise _varies(name, value.shape)
        fields[field] = value.reshape(shape)[None]
    return fields


# -- statsmodels -----------------------------------------------------------------------------------------------


def _from_statsmodels(model: Any) -> Fields:
    """Read the results of a state-space model."""
    found = getattr(model, "filter_results", model)
    names = ("design", "obs_intercept", "obs_cov", "transition", "state_intercept", "selection", "state_cov")
    missing = [name for name in (*names, "initial_state", "initial_state_cov") if not hasattr(found, name)]
    if missing:
        raise TypeError(
            "models must be results of a state-space model of statsmodels, as its fit, filter or smooth returns; got a "
            f"{type(model).__name__} without {missing[0]}."
        )
    diffuse = getattr(found, "initial_diffuse_state_cov", None)
    if diffuse is not None and np.any(diffuse):
        raise ValueError(
            "The model has an exact diffuse start, which has no density. Initialize it as approximate diffuse, such as "
            "by model.ssm.initialize_approximate_diffuse()."
        )
    parts = {}
    for name in names:
        value = np.asarray(getattr(found, name), dtype=float)
        if value.shape[-1] != 1 and not np.array_equal(value, np.broadcast_to(value[..., :1], value.shape)):
            raise _varies(name, value.shape)
        parts[name] = value[..., 0]
    selection = parts["selection"]
    fields = {
        "transition": parts["transition"],
        "emission": parts["design"],
        "process_covariance": selection @ parts["state_cov"] @ selection.T,
        "observation_covariance": parts["obs_cov"],
        "initial_mean": np.asarray(found.initial_state, dtype=float),
        "initial_covariance": np.asarray(found.initial_state_cov, dtype=float),
        "state_offset": parts["state_intercept"],
        "observation_offset": parts["obs_intercept"],
    }
    return {name: value[None] for name, value in fields.items()}


class Exchanged:
    """Conversion of `LDSs` from the models of other libraries."""

    concat: Any

    def __init__(self, **fields: Any) -> None:
        raise NotImplementedError

    @classmethod
    def from_pykalman(cls, models: Any) -> Self:
        """Convert ``KalmanFilter`` of pykalman, one or a list, also of different state dimensions.

        Matrices that change over time are not supported.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import mercer as mc
        >>> # such as pykalman.KalmanFilter(transition_covariance=[[0.1]])
        >>> walk = SimpleNamespace(
        ...     transition_matrices=None, transition_covariance=[[0.1]],
        ...     observation_matrices=None, observation_covariance=None,
        ...     transition_offsets=None, observation_offsets=None,
        ...     initial_state_mean=None, initial_state_covariance=None,
        ...     n_dim_state=1, n_dim_obs=1,
        ... )
        >>> mc.LDSs.from_pykalman([walk, walk]).process_covariance.ravel().tolist()
        [0.1, 0.1]
        """
        return joined(models, lambda model: cls(**_from_pykalman(model)), cls.concat)

    @classmethod
    def from_statsmodels(cls, models: Any) -> Self:
        """Convert fitted state-space models of statsmodels, one or a list of results, also of different state sizes.

        Accepts what ``fit``, ``filter`` or ``smooth`` of a state-space model return, such as `UnobservedComponents`,
        `SARIMAX` or `DynamicFactor`. Matrices that change over time, such as regressors, and exact diffuse starts are
        not supported.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np, mercer as mc
        >>> one = np.ones((1, 1, 1))  # the last axis is time
        >>> found = SimpleNamespace(  # such as UnobservedComponents(x, "local level").fit()
        ...     design=one, obs_cov=one, obs_intercept=0 * one[0],
        ...     transition=one, selection=one, state_cov=0.1 * one,
        ...     state_intercept=0 * one[0], initial_state=[0.0], initial_state_cov=[[1e6]],
        ...     initial_diffuse_state_cov=None,
        ... )
        >>> models = mc.LDSs.from_statsmodels(SimpleNamespace(filter_results=found))
        >>> models.process_covariance.tolist()
        [[[0.1]]]
        """
        return joined(models, lambda model: cls(**_from_statsmodels(model)), cls.concat)
