"""All compiled code: each recursion once, instantiated for the SIMD lanes of this machine.

No other room compiles. The files of this room import Numba, so other rooms import them inside the functions that need
them: importing mercer compiles nothing and imports no Numba.

============================  ==================================================================================
`mercer.compiled.code`        the decorator `compiled`: one set of options, a cache on disk that is never stale
`~.machine`                   SIMD width and number of vector registers of this machine
`~.lanes`                     explicit SIMD instructions for the innermost loops
`~.layout`                    members in SIMD lanes, ragged sets in whole blocks
`~.ranged`                    numbers of unlimited range
`~.points`                    sums over all pairs of points of two sets
`~.windows`                   sums over all pairs of windows of two sequences
`~.forest`                    sums over the hidden states of a chain or tree that two samples share
`~.counts`                    sums over all vectors of counts
`~.csr`                       rows of sparse matrices
`~.pairs_affine`              pair HMMs with affine gaps: strips of columns in registers
`~.pairs_affine_ranged`       the same in numbers of unlimited range, forward and backward; single strings
`~.pairs_cell`                general pair HMMs: the cell of the recursion
`~.pairs_numbers`             its numbers: scaled, or of unlimited range
`~.pairs_general`             general pair HMMs: forward
`~.pairs_general_expected`    general pair HMMs: forward and backward, expected counts
`~.pairs_matches`             the alignment of maximum expected accuracy
`~.pairs_draws`               random trajectories of a pair HMM
============================  ==================================================================================
"""
