"""Two samples under one hidden chain or tree: sums over their shared hidden states (MK-3, MK-4, MK-6)."""
