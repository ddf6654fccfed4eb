"""Average base kernels between windows of two sequences: counts for symbols, loops or random features for vectors."""
