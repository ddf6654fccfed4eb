"""Other names of formulas: the public methods of a family, and those of one coordinate of earlier versions.

A subclass may write `natural_parameters`, say, in place of the formula `natural`; the formula is then made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Formulas = Mapping[str, tuple[str, Callable[..., Any]]]
"""Name that a subclass may use -> formula that it stands for, and that formula in terms of it."""


def _parameters(self: Any, mu: Any) -> tuple[Any, ...]:
    member = self.with_mean_parameters(mu)
    return tuple(getattr(member, name) for name in self._arrays)


PUBLIC: Formulas = {
    "natural_parameters": ("natural", lambda self: self.natural_parameters),
    "log_partition": ("partition", lambda self, theta: self.log_partition(theta)),
    "statistics": ("statistic", lambda self, x: self.statistics(x)),
    "log_base": ("base", lambda self, x: self.log_base(x)),
    "mean_parameters": ("moments", lambda self: self.mean_parameters),
    "with_mean_parameters": ("from_moments", _parameters),
    "dual": ("legendre", lambda self, mu: self.dual(mu)),
    "fisher_information": ("information", lambda self: self.fisher_information()),
}
TERMS: Formulas = {
    "term_natural": ("natural", lambda self: self.term_natural(self._parameter)),
    "term_partition": ("partition", lambda self, theta: self.term_partition(theta)),
    "term_mean": ("moments", lambda self: self.term_mean(self._parameter)),
    "term_from_mean": ("from_moments", lambda self, mu: self.term_from_mean(mu)),
    "term_dual": ("legendre", lambda self, mu: self.term_dual(mu)),
    "term_variance": ("information", lambda self: self.term_variance(self._parameter)),
    "term_statistics": ("statistic", lambda self, x: self.term_statistics(x)),
    "term_log_base": ("base", lambda self, x: self.term_log_base(x)),
    "term_log_prob": ("log_density", lambda self, x: self.term_log_prob(x, self._parameter)),
    "term_product": ("product", lambda self, q, rho: self.term_product(self._parameter, q._parameter, rho=rho)),
    "term_divergence": ("divergence", lambda self, q: self.term_divergence(self._parameter, q._parameter)),
    "term_kl": ("relative_entropy", lambda self, q: self.term_kl(self._parameter, q._parameter)),
    "term_sample": ("draw", lambda self, rng, shape: self.term_sample(rng, np.broadcast_to(self._parameter, shape))),
}


def adopt(cls: Any, base: type, names: Formulas = PUBLIC) -> None:
    """Make the formulas that a class writes under another name, unless it, or a parent, has them under their own."""
    for name, (formula, made) in names.items():
        if vars(cls).get(name) is not None and getattr(cls, formula) is getattr(base, formula):
            setattr(cls, formula, made)
