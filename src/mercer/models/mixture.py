"""Batches of mixtures of any family: densities, responsibilities, sampling, and couplings of two mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from array_api_compat import is_array_api_obj

from mercer._array import Array, Floats, logsumexp, namespace, safe_log, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, FieldOperand, Operand
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer.data import Sequences
from mercer.data.segments import n_observed
from mercer.families.categorical import Categoricals
from mercer.families.characteristic import log_average
from mercer.models.hidden import HiddenChain
from mercer.models.summaries import described, headed, kind_of
from mercer.models.verbs import HasCriteria, n_common

if TYPE_CHECKING:
    from mercer.models.mixture_estimator import Mixture

TABLE = 1 << 20
"""Maximum number of pairs of components in memory at once when self-kernels are computed."""


class Mixtures(HasCriteria, Batch):
    r"""A batch of mixtures of one family.

    Parameters
    ----------
    weights : array of shape (..., m)
        Mixing weights; rows sum to one.
    components : family batch of shape (..., m)
        The components.

    Notes
    -----
    Probability product (PPK-4.1) :math:`\tilde k = \sum_{ij} (w_i w'_j)^\rho k_\rho(f_i, f'_j)` and mean map (GMMK-3)
    :math:`\sum_{ij} w_i w'_j k(f_i, f'_j)`. The two mixtures may have different numbers of components.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Mixtures(
    ...     [[0.5, 0.5]], mc.Gaussians(mean=[[[0.0], [4.0]]], covariance=[[1.0, 1.0]])
    ... )
    >>> p.log_prob(np.array([[0.0]])).round(4)
    array([[-1.6118]])
    """

    _arrays: ClassVar[dict[str, int]] = {"weights": 1}
    _parts: ClassVar[dict[str, int]] = {"components": 1}

    weights: Array
    components: Any

    def __init__(self, weights: Any, components: Any) -> None:
        weights = checked_probability(weights, "weights")
        if not isinstance(components, Batch):
            raise TypeError(
                f"components must be a batch of a family, such as mc.Gaussians(...); got a {type(components).__name__}."
            )
        if components.shape != tuple(weights.shape):
            raise ValueError(
                f"components must have one component per weight, shape {tuple(weights.shape)}; got shape "
                f"{components.shape}."
            )
        self._freeze(weights=weights, components=components)

    @property
    def dimension(self) -> int:
        """Number of coordinates of the components."""
        return int(self.components.dimension)

    @property
    def n_parameters(self) -> Floats:
        """Number of free parameters of each mixture; a full covariance that all components share counts once."""
        m = int(self.weights.shape[-1])
        return m - 1 + m * int(self.components.n_parameters) - (m - 1) * n_common(self.components)

    def _total_log_prob(self, X: Any) -> tuple[Floats, int]:
        x = X.values if isinstance(X, Sequences) else X
        logs = to_numpy(self.log_prob(x)).sum(axis=-1)  # first, since it says what points must be
        points = x if is_array_api_obj(x) or hasattr(x, "indptr") else to_numpy(x)
        return logs, n_observed(points, getattr(self.components, "alphabet", None))

    def summary(self) -> str:
        """Return one mixture as text: the weights of its components, and what they are.

        Examples
        --------
        >>> import mercer as mc
        >>> p = mc.Mixtures([[0.25, 0.75]], mc.Gaussians([[[0.0], [4.0]]], [[1.0, 1.0]]))
        >>> print(p.summary())
        Mixture of 2 Gaussians of isotropic covariance, 5 free parameters
        component  weight  distribution
                0    0.25  0 ± 1
                1    0.75  4 ± 1
        """
        self._require_one()
        rows = [["component", "weight", "distribution"]]
        for k, weight in enumerate(to_numpy(self.weights)[0]):
            rows.append([str(k), f"{weight:.2f}", described(self.components[0, k])])
        return headed(f"Mixture of {len(rows) - 1} {kind_of(self.components)}", self.n_parameters, rows)

    def _check_alike(self, other: Batch) -> None:
        """Raise if the components differ in family or dimension; their numbers may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        self.components._check_alike(other.components)  # type: ignore[attr-defined]

    def estimator(self) -> Mixture:
        """Return an estimator that accepts the samples of these mixtures."""
        from mercer.models.mixture_estimator import Mixture

        return Mixture(self.components.estimator(), n_components=int(self.weights.shape[-1]))

    @classmethod
    def from_sklearn(cls, models: Any) -> Mixtures:
        """Convert a scikit-learn ``GaussianMixture`` of any covariance type, or a list of them of equal size.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> from sklearn.mixture import GaussianMixture
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> mc.Mixtures.from_sklearn(
        ...     GaussianMixture(2, covariance_type="tied", random_state=0).fit(x)
        ... )
        Mixtures(shape=(1,), components=Gaussians)
        """
        from mercer.models._interop import gaussian_mixture, joined

        found: Mixtures = joined(models, gaussian_mixture, cls.concat)
        return found

    @classmethod
    def concat(cls, batches: Sequence[Self]) -> Self:
        """Concatenate batches of mixtures with the same number of components."""
        cls._check_batches(batches)
        sizes = sorted({int(batch.weights.shape[-1]) for batch in batches})
        if len(sizes) > 1:
            raise ValueError(
                f"The mixtures of a batch must have the same number of components; got {sizes[0]} and {sizes[-1]}. "
                "Keep two batches and compare them by kernel(p, q)."
            )
        return super().concat(batches)

    def log_prob(self, x: Any) -> Array:
        """Log density of each point, ``(*B, n) x (*B, T, *event) -> (*B, n, T)``."""
        return logsumexp(self._log_joint(x), axis=-2)

    def responsibilities(self, x: Any) -> Array:
        """Posterior probabilities of the components at each point, ``(*B, m, T)``."""
        joint = self._log_joint(x)
        xp = namespace(joint)
        total = logsumexp(joint, axis=-2)
        impossible = np.argwhere(to_numpy(total) == -np.inf)
        if len(impossible):
            raise ValueError(
                f"Point {int(impossible[0][-1])} has probability zero under the mixture, so it has no posterior or "
                "score. Fit the mixture with a prior, or leave the point out."
            )
        return xp.exp(joint - total[..., None, :])

    def _log_joint(self, x: Any) -> Array:
        """Compute log weight plus log density, ``(*B, m, T)``; all members get the same points."""
        axes = 1 if isinstance(self.components, Categoricals) else 2
        if getattr(x, "ndim", 0) > axes:  # the first one would align with the components
            raise ValueError(
                f"x must be the points of all mixtures, of shape (T, d), or codes of shape (T,); got shape {x.shape}."
            )
        xp = namespace(self.weights)
        flat = self.components.reshape(-1)
        table = xp.reshape(flat.log_prob(x), (*self.components.shape, -1))
        return table + safe_log(self.weights)[..., None]

    def hidden_chain(self) -> HiddenChain | None:
        """Return the components of one model as states that do not depend on one another; None of whole sequences."""
        if hasattr(self.components, "sequence_scores"):
            return None
        return HiddenChain.of(self.weights, None, self.components)

    def score_names(self) -> list[str]:
        """Return the names of the columns of the Fisher scores."""
        m, inner = int(self.weights.shape[-1]), self.components.score_names()
        return [f"weights[{k}]" for k in range(m)] + [f"components[{k}].{name}" for k in range(m) for name in inner]

    def fisher_scores(self, x: Any, parametrization: str = "logit") -> Array:
        """Scores of each point, ``(*B, T, P)``: of the weights, and of the components times posteriors (FK-5)."""
        from mercer.models._scores.scores import mixture_scores  # here, because it imports the HMMs, which import this

        return mixture_scores(self, x, parametrization)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` points from each member, ``(*B, size, *event)``."""
        size = whole_size(size)
        rng = random_generator(random_state)
        upper = np.cumsum(to_numpy(self.weights), axis=-1)
        chosen = drawn(upper[..., None, :], rng.random((*self.shape, size)))
        points = self.components.sample(size, random_state=rng)  # (*B, m, size, *event)
        points = np.moveaxis(points, self.ndim, self.ndim + 1)  # (*B, size, m, *event)
        index = chosen.reshape(*chosen.shape, 1, *(1,) * (points.ndim - self.ndim - 2))
        return np.take_along_axis(points, index, axis=self.ndim + 1)[(slice(None),) * (self.ndim + 1) + (0,)]

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling: powered weights and coupled components."""
        leaf = self._possible_components().couple(coupling, lengths)
        return MixtureOperand(coupling.power * safe_log(self.weights), leaf)

    def _possible_components(self) -> Any:
        """Return the components; those of weight zero are replaced by the heaviest, as their powers may be infinite."""
        weights = to_numpy(self.weights)
        if np.all(weights > 0):
            return self.components
        m = weights.shape[-1]
        members = np.where(weights > 0, np.arange(m), weights.argmax(axis=-1)[..., None])
        index = np.arange(math.prod(self.shape))[:, None] * m + members.reshape(-1, m)
        return self.components.reshape(-1)[index.reshape(-1)].reshape(*self.components.shape)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i <w, x>) at each row w of ``frequencies (F, d)``, each ``(*B, F)``."""
        return log_average(safe_log(self.weights), *self.components.log_characteristic(frequencies))

    def shared_history(self, X: Any) -> Operand:
        """Prepare samples for `Marginalization`: the probability that two have the same hidden components (MK-3).

        Parameters
        ----------
        X : matrix, Sequences, or anything that converts to them
            Rows are points. Sequences must have equal lengths, and each position has a hidden component of its own. If
            the components are models with hidden variables themselves, a whole sample has one component.

        Returns
        -------
        operand
            Its ``pair(other)`` returns the log kernel of all pairs.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> coins = mc.Mixtures(
        ...     [[0.5, 0.5]], mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="HT")
        ... )
        >>> # .41 for two equal letters, .09 for two different ones
        >>> operand = coins.shared_history(["HHT", "HTT"])
        >>> np.exp(operand.pair(operand)).round(4)
        array([[0.0689, 0.0151],
               [0.0151, 0.0689]])
        """
        from mercer.models._history.from_models import independent_history, one_of_several

        several = hasattr(self.components, "shared_history") and not isinstance(self.components, Mixtures)
        return one_of_several(self, X) if several else independent_history(self, X)


@dataclass(eq=False)
class MixtureOperand(FieldOperand):
    """Log weights, times the coupling's power, and coupled components: computes tiles by PPK-4.1."""

    log_weights: Array
    leaf: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.log_weights.shape[:-1])

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile that fits into the caches, given the number of components."""
        m = max(int(self.log_weights.shape[-1]), 1)
        return max(min(8, 512 // m), 1, int(self.leaf.tile_hint) // m)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        m = self.log_weights.shape[-1]
        return type(self)(
            namespace(self.log_weights).reshape(self.log_weights, (*shape, m)), self.leaf.reshape(*shape, m)
        )

    def pair(self, other: Self) -> Array:
        """Compute the log kernel of all pairs, ``(*B, n) x (*B, m) -> (*B, n, m)``."""
        lead, (n, a), (m, b) = self.shape[:-1], self.log_weights.shape[-2:], other.log_weights.shape[-2:]
        xp = namespace(self.log_weights)
        log_psi = self.leaf.reshape(*lead, n * a).pair(other.leaf.reshape(*lead, m * b))
        log_psi = xp.reshape(log_psi, (*lead, n, a, m, b))
        log_weights = self.log_weights[..., :, :, None, None] + other.log_weights[..., None, None, :, :]
        return logsumexp(log_psi + log_weights, axis=(-3, -1))

    def alone(self) -> Array:
        """Compute the log self-kernel of each member, in chunks: each needs a table of all pairs of its components."""
        xp, count, m = namespace(self.log_weights), math.prod(self.shape), int(self.log_weights.shape[-1])
        single, step = self.reshape(count, 1), max(1, TABLE // max(m * m, 1))
        chunks = [single] if count <= step else [single[i : min(i + step, count)] for i in range(0, count, step)]
        return xp.reshape(xp.concat([part.pair(part)[:, 0, 0] for part in chunks]), self.shape)
