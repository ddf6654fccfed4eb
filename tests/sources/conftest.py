"""What the tests of all sources use."""

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Return the same random numbers for every test, whichever tests run."""
    return np.random.default_rng(0)
