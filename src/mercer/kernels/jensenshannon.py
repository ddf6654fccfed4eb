"""Dual Jensen-Shannon ("generative") kernels of exponential families (Agarwal and Daumé 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mercer._array import Array, namespace
from mercer._batch import Batch
from mercer._coupling import Divergence
from mercer._notices import notify
from mercer._parameters import Rules, boolean, one_of, positive
from mercer._verdict import Verdict
from mercer.data import Alphabet
from mercer.data.segments import digest_order
from mercer.families.estimator import Context, Estimator
from mercer.families.fit import FamilyEstimator
from mercer.kernels._data import has_digests
from mercer.kernels._operands import WithScalar
from mercer.kernels.base.model import ModelKernel
from mercer.kernels.base.transformer import WIDE, Bounds

FORMS = ("exp", "inverse", "centering")


@dataclass(eq=False, repr=False)
class JensenShannon(ModelKernel):
    r"""Kernels based on the dual Jensen-Shannon divergence of exponential families.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a member of an exponential family to each sample. None compares batches of distributions.
    form : {"exp", "inverse", "centering"}, default="exp"
        How to turn the divergence into a kernel. "centering" uses the pooled mean parameter of the training data.
    t : float, default=1.0
        Scale of the forms "exp" and "inverse".
    check_psd : bool, default=True
        Whether to raise an error if the kernel is not positive semi-definite for the family, form and t; False warns
        instead.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    .. math:: \psi(\mu_1, \mu_2) = \tfrac12 (F(\mu_1) + F(\mu_2)) - F(\tfrac{\mu_1+\mu_2}2)

    in mean parameters, with F the dual of the log partition function (DJS-2, equation 5 of the source), and
    :math:`e^{-t\psi}`, :math:`1/(t+\psi)` or
    :math:`\psi(\mu_1,\mu_0)+\psi(\mu_2,\mu_0)-\psi(\mu_1,\mu_2)` (DJS-3). Psi is the classical
    Jensen-Shannon divergence only for multinomials. The source's claim that these kernels are positive semi-definite
    for every family is false; each family declares the values of t that are safe (DJS-5).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Multinomials([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    >>> mc.JensenShannon(form="inverse", t=1.0)(p).round(4)
    array([[1.    , 0.7426],
           [0.7426, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {"form": one_of(*FORMS), "t": positive(), "check_psd": boolean()}
    _smooth: ClassVar[Bounds] = {"t": WIDE}

    model: Any = None
    form: str = "exp"
    t: float = 1.0
    check_psd: bool = True
    normalize: bool = True
    on_zero: str = "raise"

    def _smooth_parameters(self) -> tuple[str, ...]:
        return () if self.form == "centering" else super()._smooth_parameters()  # centering has no t

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The values of "centering" can be negative, so they are not logarithms."""
        return "linear" if self.form == "centering" else "log"

    def _training(self, X: Any) -> Any:
        source = super()._training(X)
        self.__dict__.pop("center_", None)
        if self.form == "centering":
            self.center_ = (source[digest_order(source)] if has_digests(source) else source).pooled()
        return source

    def _source(self, X: Any) -> Any:
        batch = super()._source(X)
        self._check_family(batch)
        return batch

    @property
    def _needs_fit(self) -> str:
        return "form='centering' uses the pooled mean of the training data" if self.form == "centering" else ""

    def _learned(self) -> Any:
        return self._known_center().digests() if self.form == "centering" else None

    def _known_center(self) -> Any:
        if not hasattr(self, "center_"):
            raise NotFittedError("This JensenShannon was fitted with another form and has no center. Call fit again.")
        return self.center_

    def _check_family(self, batch: Batch) -> None:
        if not hasattr(batch, "dual_psd"):
            raise TypeError(
                f"JensenShannon needs an exponential family with a dual; {type(batch).__name__} is not one. Use a "
                "family such as Gaussians or Multinomials, or another kernel."
            )
        verdict = batch.dual_psd(self.form, self.t)
        if verdict != "no":
            return
        named = f"JensenShannon(form={self.form!r}, t={self.t})"
        sentence = f"{named} is not positive semi-definite for this family: {verdict.reason}."
        if self.check_psd:
            raise ValueError(f"{sentence} Set check_psd=False to use it anyway.")
        notify(sentence)

    def _prepare(self, source: Any) -> Any:
        operand = source.couple(Divergence())
        if self.form != "centering":
            return operand
        center = self._match(self._known_center(), source).couple(Divergence())
        numbers = operand.pair(center)[:, 0]
        xp, least = namespace(numbers), float(source._least_divergence)
        if bool(xp.any((numbers > least) & (numbers < 1e6 * least))):
            notify(
                f"Some {type(source).__name__} are so close to the center that rounding is more than 1e-6 of their "
                f"divergence from it (below {1e6 * least:.0e}). Use form='exp', or spread the data."
            )
        # A distance below rounding is zero: the object is at the center.
        return WithScalar(operand, xp.where(numbers > least, numbers, xp.zeros_like(numbers)))

    def _tile(self, a: Any, b: Any) -> Array:
        if self.form == "centering":
            return a.numbers[:, None] + b.numbers[None, :] - a.operand.pair(b.operand)
        return self._from_divergence(a.pair(b))

    def _self(self, a: Any) -> Array:
        if self.form == "centering":
            return 2 * a.numbers
        return self._from_divergence(a.alone())

    def _from_divergence(self, psi: Array) -> Array:
        xp = namespace(psi)
        psi = xp.clip(psi, 0.0, None)  # rounding
        return -self.t * psi if self.form == "exp" else -xp.log(self.t + psi)

    @property
    def psd(self) -> Verdict:
        """The verdict of the family; before fitting, only if it is the same in all dimensions."""
        return self._verdict(self.form)

    @property
    def infinitely_divisible(self) -> bool:  # type: ignore[override]
        """A power only changes t, and every t is safe if psi is CND, as is centering (Schoenberg)."""
        return self.form == "exp" and self._verdict("centering") == "always"

    def _verdict(self, form: str) -> Verdict:
        seen = getattr(self, "train_", None)
        if seen is not None:
            verdict: Verdict = seen.dual_psd(form, self.t)
            return verdict
        members = [_member(self.model, dimension) for dimension in (1, 2)]
        if all(hasattr(member, "dual_psd") for member in members):
            one, two = (member.dual_psd(form, self.t) for member in members)
            if (one, one.reason) == (two, two.reason):
                return one
        return Verdict(
            "conditional",
            "depends on the family and its dimension: multinomial, Poisson, Bernoulli and diagonal Gaussian always are "
            "(DJS-5)",
        )


def _member(model: Any, dimension: int) -> Any:
    """Return a member of the family that a model estimates, or None if the model is not a family."""
    context = Context(dimension=dimension, alphabet=Alphabet("ab"[:dimension]))
    if isinstance(model, FamilyEstimator):
        return model.template(context)
    points = {"symbols": np.zeros(1, dtype=int), "counts": np.ones((1, dimension))}
    if not isinstance(model, Estimator) or isinstance(getattr(model, "component", None), Estimator):
        return None
    if model.takes not in points:
        return None
    unshrunk = clone(model).set_params(prior=None)
    return unshrunk.fit_weighted(points[model.takes], np.ones((1, 1)), np.array([0, 1]), context)
