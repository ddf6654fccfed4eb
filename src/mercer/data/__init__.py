"""Data at the border: alphabets, sequences of symbols or vectors, and opaque objects."""

from mercer.data.alphabet import Alphabet
from mercer.data.objects import objects
from mercer.data.sequences import Sequences

__all__ = ["Alphabet", "Sequences", "objects"]
