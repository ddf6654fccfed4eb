"""Features of a kernel, for linear models."""

from __future__ import annotations

from typing import Any, ClassVar

from mercer._parameters import Rules
from mercer.kernels.landmarks import Landmarks


class Features(Landmarks):
    """Features of a kernel, as a matrix for linear models, trees and plots.

    They are the kernel's own explicit features if it has some: exact, with names that tell words, states, symbols and
    parameters. Kernels without explicit features get approximate ones from `Landmarks`.

    Parameters
    ----------
    kernel : Kernel
        The kernel; its parameters are ``kernel__...`` in a search.
    n_components : int, default=100
        Number of landmarks, for kernels without explicit features.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the choice of landmarks.

    Attributes
    ----------
    kernel_ : Kernel
        The fitted kernel; with landmarks, see `Landmarks`.
    explicit_ : bool
        Whether the features are the kernel's own, which are exact.
    error_ : float or None
        Relative error of landmarks on held-out objects; 0 for explicit features.

    See Also
    --------
    Landmarks : More choices, and landmarks for kernels with many explicit features.

    Examples
    --------
    >>> import mercer as mc
    >>> words = mc.Features(mc.Spectrum(2, normalize=False))
    >>> words.fit_transform(["ACCA", "CACA"])
    array([[0., 1., 1., 1.],
           [0., 1., 2., 0.]])
    >>> list(words.get_feature_names_out())
    ['AA', 'AC', 'CA', 'CC']
    """

    # What `Landmarks` lets users choose is fixed here.
    _parameters: ClassVar[Rules] = dict.fromkeys(("method", "explicit", "held_out"))
    method = "uniform"
    explicit: Any = "prefer"
    held_out = 100

    def __init__(self, kernel: Any, n_components: int = 100, random_state: Any = 0) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
