"""Coupled chains: the recursion of two hidden Markov models, its forms, its adjoint and its operand."""
