"""Mutated files of everything that can be saved end in a value or in one sentence that names the file."""

from __future__ import annotations

import io
import re
import sys
import zipfile

import numpy as np
import pytest
from scipy import sparse
from tests.saving import mutated, savable

import mercer as mc


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of memory need POSIX")
def test_no_mutant_crashes_hangs_or_takes_all_memory(tmp_path):
    savable.write_all(tmp_path)
    found, bad = mutated.run(tmp_path, 3000)
    assert not bad, "\n".join(bad)
    assert sum(found.values()) == 3000
    assert min(found["used"], found["refused"]) > 500  # the mutants are neither all sound nor all refused


@pytest.mark.slow
def test_files_of_all_public_classes_are_mutated(tmp_path):
    savable.write_all(tmp_path)
    named = set()
    for path in tmp_path.glob("*.mercer"):
        with np.load(path) as archive:
            named |= set(re.findall(r"\w+", bytes(archive["header"]).decode()))
    assert savable.public_classes().keys() <= named


def changed(path, member, change):
    """Change one array of a file."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    array = np.lib.format.read_array(io.BytesIO(content[f"{member}.npy"])).copy()
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(change(array)))
    content[f"{member}.npy"] = file.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in content.items():
            archive.writestr(name, raw)


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


def rows(count=12, width=6):
    return sparse.csr_matrix(np.random.default_rng(0).poisson(2.0, (count, width)) + np.eye(count, width))


def refused(path):
    for read in (mc.load, mc.Multinomials.load, mc.models.KDEs.load, mc.models.ProfileHMMs.load):
        with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is damaged \(.*\)\. Copy or write it again\.$"):
            read(path)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indices", put(30, 2**31 - 1)),
        ("indices", put(30, -1)),
        ("indices", put(30, 6)),
        ("indices", lambda x: x[::-1]),
        ("indices", lambda x: x.astype(float)),
        ("indices", lambda x: x[:-1]),
        ("indptr", put(3, 10_000)),
        ("indptr", put(3, 2**31 - 1)),
        ("indptr", put(3, -(2**31))),
        ("indptr", put(0, -1)),
        ("indptr", put(-1, 3)),
        ("indptr", lambda x: x[None]),
        ("indptr", lambda x: x[:0]),
        ("data", lambda x: x[:-1]),
        ("data", lambda x: x.astype(int)),
        ("data", lambda x: -x),
        ("columns", lambda _: 3),
        ("columns", lambda _: -1),
        ("columns", lambda _: 6.0),
        ("columns", lambda _: [6, 6]),
        ("columns", lambda _: True),
    ],
)
def test_sparse_rows_of_batches_are_checked(tmp_path, part, change):
    path = tmp_path / "rows.mercer"
    mc.Multinomial().fit_each(rows()).save(path)
    changed(path, f"probability/{part}", change)
    refused(path)


def test_absurd_numbers_of_columns_take_no_memory(tmp_path):
    path = tmp_path / "rows.mercer"
    mc.Multinomial().fit_each(rows()).save(path)
    changed(path, "probability/columns", lambda _: 2**40)
    with pytest.raises(
        MemoryError, match=r"A dense matrix of 12 rows and 1099511627776 columns needs .* TiB of memory"
    ):
        mc.load(path).log_prob(rows())


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indptr", put(1, 100)),
        ("indptr", put(1, 10_000)),
        ("indptr", put(1, -1)),
        ("indptr", put(1, 10**9)),
        ("indptr", put(1, 2**31)),
        ("indptr", put(1, 0)),  # a set without points
        ("indptr", put(-1, 2**62)),
        ("indptr", lambda x: x.astype(float)),
        ("indptr", lambda x: x[:, None]),
        ("data", lambda x: x[:-1]),
        ("data", lambda x: x[:, :0]),
        ("data", lambda x: x.ravel()),
        ("data", put((0, 0), np.nan)),
        ("data", put((0, 0), np.inf)),
        ("single", lambda _: True),
    ],
)
def test_points_of_batches_are_checked(tmp_path, part, change):
    path = tmp_path / "points.mercer"
    mc.KDE().fit_each([np.random.default_rng(k).normal(size=(4 + k, 2)) for k in range(5)]).save(path)
    changed(path, f"points/{part}", change)
    refused(path)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("match/indptr", put(1, 2)),
        ("insert/indptr", put(1, 10**9)),
        ("transitions/indptr", put(-1, -1)),
        ("match/data", lambda x: np.full((len(x), 5), 0.2)),
        ("transitions/data", lambda x: x[:, :6]),
        ("match/single", lambda _: True),
        ("annotations/data", put(0, 0)),
        ("annotations/data", lambda x: np.frombuffer(b"[" + b" " * (len(x) - 2) + b"]", np.uint8)),
        ("annotations/indptr", put(1, 1)),
    ],
)
def test_nodes_of_profiles_are_checked(tmp_path, field, change):
    path = tmp_path / "profiles.mercer"
    profile = mc.ProfileHMM(alphabet="dna").fit(["ACGT", "ACGA"]).model_
    both = mc.models.ProfileHMMs.concat([profile, profile])
    (profile if "annotations/data" in field else both).save(path)
    changed(path, field, change)
    refused(path)


def test_codes_below_zero_are_refused(tmp_path):
    kernel = mc.Spectrum(2).fit(["ACGT", "GGTA"])
    mc.save(kernel, tmp_path / "kernel.mercer")
    with np.load(tmp_path / "kernel.mercer") as archive:
        name = next(name for name in archive.files if archive[name].tolist() == [0, 1, 2, 3, 2, 2, 3, 0])
    changed(tmp_path / "kernel.mercer", name, put(3, -1))
    with pytest.raises(ValueError, match=r"kernel\.mercer is damaged \(sequences have codes outside of their alphabet"):
        mc.load(tmp_path / "kernel.mercer")
