"""Linear dynamical systems: inference, expectation maximization, starts and coupled systems."""
