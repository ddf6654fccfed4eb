"""Probability product kernels (Jebara, Kondor and Howard 2004)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.exceptions import NotFittedError

from mercer._array import Array, Indices
from mercer._batch import Batch
from mercer._coupling import PowerProduct
from mercer._parameters import Rules, boolean, one_of, rho, seed, whole
from mercer._verdict import Verdict
from mercer.kernels._switches import MarginalPowers, SampledPowers, SwitchingKernel
from mercer.kernels.base.hooks import Bounds
from mercer.models.discount import Discounted, check_lengths
from mercer.models.powers import require_whole


class ProbabilityProduct(SwitchingKernel):
    r"""Probability product kernel: the integral of :math:`p^\rho q^\rho`.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a distribution to each sample, as ``model.fit_each``. None compares batches of
        distributions.
    rho : float, default=0.5
        The power: 1/2 gives the Bhattacharyya kernel, 1 the expected likelihood kernel.
    length : int, Discounted or None, default=10
        Length of the compared sequences, for sequence models, or ``mc.Discounted(d)`` for a discounted sum over all
        lengths; families ignore it, and so do `ProfileHMMs`, which end by themselves. `path` computes many lengths in
        one sweep.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.
    marginal : bool, default=False
        For models with hidden variables h: whether to take powers of the marginal p(x), for whole rho, or of the joint
        p(x, h), for any rho. The two agree at rho = 1 and for models without hidden variables. For `SwitchingLDSs`, any
        power of the marginal is estimated from samples, as by `Sampled`.
    time : {"joint", "independent"}, default="joint"
        For models of series: whether to compare the joint distributions over time, or to treat time steps as
        independent and multiply the kernels of the distributions at each step. "independent" is the form of the source
        for `LDSs`, which only they support.
    switches : {"joint", "expected"}, default="joint"
        For `SwitchingLDSs`: whether to take powers of the probabilities of regimes too, as of all hidden variables, or
        to average the kernels of pairs of regime paths, as in the source. The two agree at rho = 1.
    n_paths : int, default=50
        For `SwitchingLDSs`: number of regime paths that are drawn from each model. Models with at most this number of
        paths are exact.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the paths and of the samples; None means 0.
    n_samples : int, default=1000
        For `SwitchingLDSs` with ``marginal=True``: number of series that are sampled from the average of the training
        models.

    Notes
    -----
    .. math:: k_\rho(p, q) = \int p(x)^\rho\, q(x)^\rho\, dx

    (PPK-1, definition 1 of the source). With hidden variables (PPK-4.0) this is ``marginal=True``, computed with rho
    copies of the hidden variables; ``marginal=False`` is
    :math:`\tilde k_\rho(p, q) = \int \sum_h p(x, h)^\rho \sum_{h'} q(x, h')^\rho\, dx`.
    The kernel is positive semi-definite if the self-kernels are finite. At rho = 1/2 they always are, but with hidden
    variables and ``marginal=False`` they can differ from 1.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Poissons(rate=[[1.0], [4.0]])
    >>> mc.ProbabilityProduct(rho=0.5)(p).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> kernel = mc.ProbabilityProduct(mc.Categorical(alphabet="dna"), rho=1.0)
    >>> kernel(["ACGT", "AACC"]).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])

    Splitting a component in two does not change the density; only the joint power differs:

    >>> bumps = mc.Gaussians(
    ...     mean=[[[0.0], [3.0], [3.0]]] * 2, covariance=[[1.0, 1.0, 1.0]] * 2
    ... )
    >>> p = mc.Mixtures([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]], bumps)
    >>> mc.ProbabilityProduct(rho=2.0)(p).round(3)
    array([[1.  , 0.95],
           [0.95, 1.  ]])
    >>> mc.ProbabilityProduct(rho=2.0, marginal=True)(p).round(3)
    array([[1., 1.],
           [1., 1.]])
    """

    _parameters: ClassVar[Rules] = {
        "rho": rho(),
        "marginal": boolean("True takes powers of p(x), False of p(x, h), with h hidden."),
        "time": one_of("joint", "independent"),
        "switches": one_of("joint", "expected"),
        "n_paths": whole(1, cure="It is the number of regime paths that are drawn from each model."),
        "random_state": seed(),
        "n_samples": whole(1),
    }
    _smooth: ClassVar[Bounds] = {"rho": (0.05, 5.0)}

    psd = Verdict("always", "an inner product of p^rho in L2, if its norm is finite (PPK-1)")

    def __init__(
        self,
        model: Any = None,
        rho: float = 0.5,
        length: int | Discounted | None = 10,
        normalize: bool = True,
        on_zero: str = "raise",
        marginal: bool = False,
        time: str = "joint",
        switches: str = "joint",
        n_paths: int = 50,
        random_state: Any = 0,
        n_samples: int = 1000,
    ) -> None:
        self.model = model
        self.rho = rho
        self.length = length
        self.normalize = normalize
        self.on_zero = on_zero
        self.marginal = marginal
        self.time = time
        self.switches = switches
        self.n_paths = n_paths
        self.random_state = random_state
        self.n_samples = n_samples

    def _smooth_parameters(self) -> tuple[str, ...]:
        return () if self.marginal else super()._smooth_parameters()  # rho is then a whole number

    def _coupling(self) -> PowerProduct:
        return PowerProduct(float(self.rho), bool(self.marginal), self._switches(self.switches == "expected"))

    def _prepare(self, source: Any) -> Any:
        if self.time == "joint" and self._by_samples(source):
            return self._sampled(source)
        operand = super()._prepare(source)
        if self.switches == "expected" and not hasattr(operand, "errors"):
            raise TypeError(
                f"switches='expected' averages over regime paths, which {type(source).__name__} do not have. Use "
                "switches='joint', or mc.models.SwitchingLDSs."
            )
        return operand

    def _check_parameters(self) -> None:
        super()._check_parameters()
        # Before all models are fitted.
        if self.marginal and self.model is not None and self.model.has_hidden and not self._by_samples(self.model):
            require_whole(float(self.rho), f"{type(self.model).__name__}s")

    # -- powers of the marginal of switching systems -------------------------------------------------------

    def _by_samples(self, models: Any) -> bool:
        """Whether the kernel of models, or of an estimator's, is estimated from samples."""
        return bool(self.marginal) and self.rho != 1 and hasattr(models, "n_regimes")

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self.__dict__.pop("_powers", None)
        if self._by_samples(X if isinstance(X, Batch) else self.model):
            models = self._source(X)
            self._train_side.keep("models", models)
            self._powers = MarginalPowers(models, int(self.n_samples), self._seed)

    def _training(self, X: Any) -> Any:
        models = self._train_side.spend("models")
        return super()._training(X) if models is None else models

    def _take(self, index: Indices, weights: Any = None) -> Self:
        kernel = super()._take(index, weights)
        if hasattr(self, "_powers"):
            kernel._powers = self._powers.taken(index, self._lengths())
        return kernel

    def _learned(self) -> Any:
        powers = getattr(self, "_powers", None)
        return super()._learned(), None if powers is None else powers.digests()

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), *(("n_samples",) if hasattr(self, "_powers") else ()))

    def _cheap_pairs(self, source: Any) -> bool:
        return self._by_samples(source)

    def _sampled(self, source: Any) -> SampledPowers:
        """Return the powers of the densities of models at the samples of ``fit``."""
        if self.switches == "expected":
            raise ValueError(
                "switches='expected' takes powers of densities given the regimes, marginal=True of densities without "
                "them. Use one of the two."
            )
        if not hasattr(self, "_powers"):
            raise NotFittedError(
                "The power of a marginal density is estimated at samples of the training models, which fit has not "
                "drawn: rho or marginal was changed after it. Call fit again."
            )
        lengths = self._lengths()
        check_lengths(lengths)
        if isinstance(lengths, Discounted):
            raise ValueError(
                f"length must be a number of observations for switching linear dynamical systems; got {lengths!r}. Use "
                "length=10, for example."
            )
        return self._powers.operand(source, float(self.rho), lengths)

    def _features(self, a: Any) -> Array:
        if isinstance(a, SampledPowers) and self._path is None:
            return a.features[0].values
        return super()._features(a)
