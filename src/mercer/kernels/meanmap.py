"""Generative mean map kernels (Mehta and Gray 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._coupling import Coupling, Smoothed
from mercer._parameters import NONE, Rules, gamma, one_of, seed, whole
from mercer._verdict import Verdict
from mercer.families import Multinomials
from mercer.families.characteristic import emits_sequences, random_features
from mercer.kernels._counts import CountSmoothed
from mercer.kernels._laplace import LaplaceSmoothed
from mercer.kernels._operands import Rows
from mercer.kernels._random_features import RandomFeatures, check_precision
from mercer.kernels.base.model import CoupledKernel
from mercer.kernels.base.transformer import WIDE, Bounds
from mercer.models.discount import Discounted, check_lengths
from mercer.models.switching import OverPaths, SwitchingLDSs


@dataclass(eq=False, repr=False)
class MeanMap(RandomFeatures, CoupledKernel):
    r"""Generative mean map kernel: the expected base kernel between a draw from p and a draw from q.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a distribution to each sample, as ``model.fit_each``. None compares batches of
        distributions.
    gamma : float, default=1.0
        Parameter of the base kernel. Symbols are one-hot encoded, so that a mismatch has the value ``exp(-2 gamma)``.
    length : int, Discounted or None, default=10
        Length of the compared sequences, for sequence models, or ``mc.Discounted(d)`` for a discounted sum over all
        lengths; families ignore it. `path` computes many lengths in one sweep.
    time : {"joint", "independent"}, default="joint"
        For models of series: whether to compare the joint distributions over time, or to treat time steps as
        independent and multiply the kernels of the distributions at each step. "independent" is the form of the source
        for `LDSs`, which only they support.
    n_components : int or None, default=None
        Number of random frequencies of explicit features in place of the exact kernel, for distributions with a known
        characteristic function: `Gaussians`, `Categoricals`, `Poissons`, `Multinomials` of one trial or with
        ``base="counts"``,
        `Mixtures` of these, `KDEs`, and for `HMMs` of these, `MarkovChains` and `LDSs`. For models of sequences, a
        relative error of more than 10 % raises, and the message has the number of frequencies needed.
    base : {"rbf", "laplace", "counts"}, default="rbf"
        The base kernel: the Gaussian kernel ``exp(-gamma |x - y|^2)`` as of `RBF`, or ``exp(-gamma |x - y|_1)``, with
        the sum of the absolute differences of the coordinates, as of `Laplace`. The second has a closed form for
        Gaussians with diagonal or isotropic covariances and `KDEs` (GMMK-2a), for symbols, for which the two are equal,
        and for mixtures, `HMMs` and `MarkovChains` of these. "counts" is the Gaussian kernel of the vectors of counts
        of `Multinomials`, whose trials may differ on the two sides (GMMK-10a); "rbf" aligns their tokens.
    n_paths : int, default=50
        Number of regime paths that are drawn from each model of `SwitchingLDSs`; models with at most this number of
        paths are exact. Other distributions ignore it.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the frequencies and of the paths; None draws a new one in every fit.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    .. math:: k(p, q) = \iint p(x)\, q(y)\, \kappa(x, y)\, dx\, dy, \qquad
              \kappa(x, y) = e^{-\gamma\|x-y\|^2} \text{ or } e^{-\gamma\|x-y\|_1}

    (GMMK-0). For sequences the base kernel is the product over time. That of multinomial counts averages over all
    alignments of the tokens (GMMK-10c), or with ``base="counts"`` is the one above, by products of polynomials in two
    variables, one of each word (GMMK-10a). Switching systems are compared by all pairs of regime paths, or of
    ``n_paths`` paths that are drawn once from each model (GMMK-9): an average over paths of mean embeddings.

    Random features are characteristic functions at F frequencies (MM-2):

    .. math:: k(p, q) = E_w\, \varphi_p(w)\, \overline{\varphi_q(w)}, \qquad
              \varphi_p(w) = E_{x \sim p}\, e^{i \langle w, x\rangle}

    with coordinates of w from :math:`\mathcal N(0, 2\gamma)`, or from the Cauchy distribution of scale
    :math:`\gamma` for the Laplace kernel. The matrix is positive semi-definite for every F, and its
    error decreases as :math:`1/\sqrt F`. `standard_errors` estimates it; the estimate is infinite if too few
    frequencies contribute. For sequences, w has one vector per time step, and :math:`\varphi` is a product of one
    matrix per step. Their mean maps are small, so the error of a pair is stated relative to
    :math:`\sqrt{k(p,p)\,k(q,q)}`; it is at most :math:`(r_p r_q)^{1/4} F^{-1/2}` with
    :math:`r_p = E|\varphi_p|^4 / (E|\varphi_p|^2)^2 \le 1/k(p,p)`.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Gaussians(mean=[[0.0], [2.0]], covariance=[0.0, 0.0])  # two points
    >>> mc.MeanMap(gamma=0.5)(p).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {
        "gamma": gamma(),
        "n_components": whole(1, cure="It is the number of random frequencies; None computes the exact kernel.") | NONE,
        "n_paths": whole(1, cure="It is the number of regime paths that are drawn from each switching system."),
        "random_state": seed(),
        "time": one_of("joint", "independent"),
        "base": one_of("rbf", "laplace", "counts"),
    }
    _smooth: ClassVar[Bounds] = {"gamma": WIDE}
    _with_features: ClassVar[str] = "Categoricals and Multinomials of one trial"
    _other_features: ClassVar[str] = "Set n_components=1000 for random features. "

    model: Any = None
    gamma: float = 1.0
    length: int | Discounted | None = 10
    time: str = "joint"
    n_components: int | None = None
    base: str = "rbf"
    n_paths: int = 50
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

    def _coupling(self) -> Coupling:
        kinds: dict[str, Any] = {"rbf": Smoothed, "laplace": LaplaceSmoothed, "counts": CountSmoothed}
        coupling: Coupling = kinds[self.base](float(self.gamma))
        return coupling

    def _match(self, source: Any, reference: Any) -> Any:
        if self.base == "counts" and isinstance(source, Multinomials) and isinstance(reference, Multinomials):
            trials = source.trials  # which may differ
            return source._replaced(trials=reference.trials).matched(reference)._replaced(trials=trials)
        return super()._match(source, reference)

    def _coupling_of(self, source: Any) -> Any:
        base = self._coupling()
        if not isinstance(source, SwitchingLDSs):
            return base
        if not isinstance(base, Smoothed):
            raise TypeError(f"MeanMap(base={self.base!r}) has no closed form for SwitchingLDSs. Use base='rbf'.")
        return OverPaths(base, 1.0, int(self.n_paths), self._seed)

    def _learned(self) -> Any:
        return self._seed  # of drawn paths, too

    def standard_errors(self, X: Any, Y: Any = None) -> Floats:  # noqa: D102
        _, a, b = self.operands(X, Y)
        if any(getattr(side.operand, "drawn", False) for side in (a, a if b is None else b)):
            raise ValueError(
                f"There are more than n_paths={self.n_paths} regime paths, and the error of drawn paths is not "
                "estimated. Compare the kernel for several values of random_state, or raise n_paths."
            )
        return super().standard_errors(X, Y)

    # -- random features --------------------------------------------------------------------------------

    @property
    def _why_zero(self) -> str:  # type: ignore[override]
        if self.n_components is None:
            return ""
        return " (its features underflow at all frequencies: use a smaller gamma, or n_components=None)"

    def _prepare(self, source: Any) -> Any:
        if self.n_components is None:
            return super()._prepare(source)
        arguments = float(self.gamma), int(self.n_components), self._seed
        if not emits_sequences(source):
            return Rows(random_features(source, *arguments, base=self.base))
        rows = random_features(source, *arguments, self._one_length(), self.base)
        check_precision(to_numpy(rows), self._log_selves(source))
        return Rows(rows)

    def _one_length(self) -> int:
        """Return the length of sequences that random features compare."""
        if self.time != "joint":
            raise ValueError(
                f"Random features compare joint distributions over time; got time={self.time!r}. Use time='joint', or "
                "n_components=None."
            )
        lengths = self._lengths()
        check_lengths(lengths)
        if isinstance(lengths, Discounted) or len(lengths) > 1:
            raise ValueError(
                f"Random features have one length; got {self.length if self._path is None else list(lengths)}. Use a "
                "single number, or n_components=None."
            )
        return int(lengths[0])

    def _log_selves(self, source: Any) -> Floats | None:
        """Return the logarithms of the exact self-kernels of models of sequences; None if there is no closed form."""
        try:
            operand = CoupledKernel._prepare(self, source)
            return np.asarray(to_numpy(self._single(operand, operand.alone())), dtype=float)
        except (TypeError, ValueError):
            return None

    def _features(self, a: Any) -> Array:
        if self.n_components is not None:
            return a.dense()
        return super()._features(a)

    def _feature_names(self, width: int) -> list[str]:
        exact = self.n_components is None
        return super()._feature_names(width) if exact else [f"meanmap{i}" for i in range(width)]

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        if self.n_components is not None:
            return Verdict("always", "an inner product of explicit features, for every number of them (MM-2)")
        return Verdict("always", "an inner product of mean embeddings, for every PSD base kernel (MM-1, GMMK-0)")
