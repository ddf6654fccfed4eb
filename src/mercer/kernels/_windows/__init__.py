"""Average base kernels between the windows of two sequences: of symbols by counts, of vectors by loops or at random."""
