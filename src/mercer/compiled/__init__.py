"""All compiled code: each recursion once, instantiated for the SIMD lanes of this machine.

No other room compiles. The files of this room import Numba, so other rooms import them inside the functions that need
them: importing mercer compiles nothing and imports no Numba.

======================  ==============================================================================
`mercer.compiled.code`  the decorator `compiled`: one set of options, a cache on disk that is never stale
`~.machine`             SIMD width and number of vector registers of this machine
`~.lanes`               explicit SIMD instructions for the innermost loops
`~.chain_steps`         one step of coupled chains (PPK-4.2), blocked to fit the registers
`~.chains`              coupled chains of given lengths; `~.chains_discounted`: of all lengths;
                        `~.chains_ranged`: in numbers of unlimited range
`~.gaussians`           log determinants and quadratic forms of pairs of Gaussians
======================  ==============================================================================
"""
