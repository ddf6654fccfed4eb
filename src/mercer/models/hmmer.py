"""Files of profile hidden Markov models in HMMER's text format."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from mercer._atomic import replacing
from mercer._files import check_path, check_target
from mercer.data import Alphabet
from mercer.data.text import Source, read_text
from mercer.models._profile.hmmer_text import ALPHABETS, Profile, Reader, check_notes, lines_of, word_of
from mercer.models.profile_hmm import ProfileHMMs


def read_hmmer(path: Source) -> ProfileHMMs:
    """Read all profile hidden Markov models of a file in HMMER3's text format, such as Pfam's.

    Parameters
    ----------
    path : str, path or open file
        A plain or gzipped file with one or more profiles of one alphabet (amino, DNA or RNA).

    Returns
    -------
    ProfileHMMs of shape (N,)
        Names, accessions, consensus, cutoffs and statistics are in its ``annotations``. Rows of probabilities are
        divided by their sums, since numbers in files have five digits.

    See Also
    --------
    write_hmmer : Write profiles.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import mercer as mc
    >>> profiles = mc.ProfileHMM(alphabet="dna").fit(["ACG-T", "ACGGT", "AC--T"]).model_
    >>> with TemporaryDirectory() as folder:
    ...     mc.models.write_hmmer(profiles, Path(folder, "tiny.hmm"))
    ...     mc.models.read_hmmer(Path(folder, "tiny.hmm"))
    ProfileHMMs(shape=(1,), 4 nodes, alphabet=Alphabet.of('dna'), mode='local')
    """
    text = read_text(path, "HMMER3", "profile")
    found = list(Reader(text).profiles())
    kinds = list(dict.fromkeys(profile.alphabet for profile in found))  # in the order of the file
    if len(kinds) > 1:
        first, other = map(word_of, kinds[:2])
        raise ValueError(
            f"{text.name} has profiles of two alphabets, {first} and {other}. Split it into one file per alphabet."
        )
    return ProfileHMMs(
        match=[profile.match for profile in found],
        insert=[profile.insert for profile in found],
        transitions=[profile.transitions for profile in found],
        alphabet=found[0].alphabet,
        annotations=[profile.annotations for profile in found],
    )


def write_hmmer(profiles: ProfileHMMs, path: str | os.PathLike[str]) -> None:
    """Write profile hidden Markov models to a file in HMMER3's text format (HMMER3/f).

    HMMER's programs read the file. Those that report E-values need the STATS lines of a file that HMMER wrote, which
    are kept; of other profiles, ``hmmbuild`` or pyhmmer can calibrate them.

    Parameters
    ----------
    profiles : ProfileHMMs
        Profiles of proteins, DNA or RNA. The format has no place for the mode, the length and the background.
    path : str or path
        The file to write; gzipped if it ends in ``.gz``. An existing file is replaced when the new one is complete.

    See Also
    --------
    read_hmmer : Read profiles.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import mercer as mc
    >>> profiles = mc.ProfileHMM().fit(["MK-LW", "MRYLW"]).model_
    >>> with TemporaryDirectory() as folder:
    ...     mc.models.write_hmmer(profiles, Path(folder, "tiny.hmm"))
    ...     print(Path(folder, "tiny.hmm").read_text()[:53])
    HMMER3/f [mercer]
    NAME  profile_0
    LENG  5
    ALPH  amino
    """
    if not isinstance(profiles, ProfileHMMs):
        raise TypeError(f"profiles must be ProfileHMMs; got {profiles!r}. Use the model_ of a fitted ProfileHMM.")
    check_path(path)
    check_target(Path(path), os.fspath(path))
    if not len(profiles.match):
        raise ValueError("profiles must have at least one profile; got none, and HMMER reads no empty file.")
    if profiles.alphabet not in map(Alphabet.of, ALPHABETS.values()):
        raise ValueError(
            f"HMMER's format is for proteins, DNA and RNA; got the alphabet {profiles.alphabet.describe()}. Use "
            "mc.save."
        )
    names, consensus = profiles.names, profiles.consensus
    lines: list[str] = []
    for i, notes in enumerate(profiles.annotations.dictionaries()):
        notes = {"consensus": consensus[i]} | notes | {"name": names[i]}  # HMMER's programs need both
        match, insert, transitions = profiles.nodes(i)
        check_notes(notes, len(match))
        lines += lines_of(Profile(match, insert, transitions, profiles.alphabet, notes))
    raw = ("\n".join(lines) + "\n").encode()
    with replacing(path) as file:
        file.write(gzip.compress(raw) if os.fspath(path).endswith(".gz") else raw)
