"""Input data: alphabets, sequences, file readers, transformers of sequences, and opaque objects."""

from mercer.data.alignment import read_alignment
from mercer.data.alphabet import Alphabet
from mercer.data.fasta import fasta_blocks, read_fasta
from mercer.data.gaps import FillGaps
from mercer.data.identical import identical_groups
from mercer.data.objects import objects
from mercer.data.sequences import Sequences
from mercer.data.standardize import Clock, Lengths, Resample, Standardize
from mercer.data.svmlight import read_svmlight
from mercer.data.table import read_table
from mercer.data.text import Records
from mercer.data.timeseries import read_ts, read_ucr
from mercer.data.transformers import Derivatives, PerStep, Windows

__all__ = [
    "Alphabet",
    "Clock",
    "Derivatives",
    "FillGaps",
    "Lengths",
    "PerStep",
    "Records",
    "Resample",
    "Sequences",
    "Standardize",
    "Windows",
    "fasta_blocks",
    "identical_groups",
    "objects",
    "read_alignment",
    "read_fasta",
    "read_svmlight",
    "read_table",
    "read_ts",
    "read_ucr",
]
