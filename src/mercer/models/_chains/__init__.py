"""Coupled chains: the joint recursion of two hidden Markov models, its adjoint and its operand."""
