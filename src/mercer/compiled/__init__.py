"""All compiled code: each recursion once, instantiated for the SIMD lanes of this machine.

No other room compiles. The files of this room import Numba, so other rooms import them inside the functions that need
them: importing mercer compiles nothing and imports no Numba.

============================  ===========================================================================
"""
