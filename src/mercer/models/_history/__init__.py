"""Two data under one hidden chain or tree: sums over the history that they share (MK-3, MK-4, MK-6)."""
