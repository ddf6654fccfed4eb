"""Files are always whole: two that save to one path, modes, links, full disks."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import mercer as mc
from mercer import _atomic
from mercer._atomic import replacing

posix = pytest.mark.skipif(os.name == "nt", reason="modes, links and locks of POSIX")
PROFILES = mc.ProfileHMM(alphabet="dna").fit(["ACG-T", "ACGGT", "AC--T"]).model_
WRITERS = {
    "save": lambda n, path: mc.save(mc.RBF(gamma=float(n)), path, metadata={"long": "ab" * 20_000}),
    "batch": lambda n, path: mc.Poissons(rate=np.full((20_000, 1), float(n))).save(path),
    "gram": lambda n, path: mc.gram.save(path, np.full((200, 200), float(n))),
    "hmmer": lambda n, path: mc.models.write_hmmer(mc.models.ProfileHMMs.concat([PROFILES] * 40 * n), path),
    "report": lambda n, path: mc.Report(str(n) * 100_000, "", []).save(path),
}
READERS = {
    "save": lambda path: mc.load(path).gamma,
    "batch": lambda path: mc.load(path).rate[-1, 0],
    "gram": lambda path: mc.load(path).K[-1, -1],
    "hmmer": lambda path: len(mc.models.read_hmmer(path).match) / 40,
    "report": lambda path: float(path.read_text()[-1]) if len(path.read_text()) == 100_000 else 0,
}


def partials(folder):
    return sorted(path.name for path in folder.glob("*.partial"))


@pytest.mark.parametrize("kind", WRITERS)
def test_two_threads_that_save_to_one_path(tmp_path, kind):
    path, errors = tmp_path / "x", []

    def save(n):
        try:
            WRITERS[kind](n, path)
        except BaseException as error:
            errors.append(error)

    for _ in range(10):
        threads = [threading.Thread(target=save, args=(n,)) for n in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert READERS[kind](path) in (1, 2)
    assert errors == []
    assert os.listdir(tmp_path) == ["x"]


def test_two_at_once_with_one_process_id(tmp_path):
    with replacing(tmp_path / "x") as one, replacing(tmp_path / "x") as other:
        one.write(b"one" * 10_000)
        other.write(b"other" * 10_000)
    assert (tmp_path / "x").read_bytes() == b"one" * 10_000  # the last one that is complete
    assert os.listdir(tmp_path) == ["x"]


@posix
class TestExisting:
    @pytest.mark.parametrize("kind", WRITERS)
    def test_mode(self, tmp_path, kind):
        before = os.umask(0o022)
        try:
            WRITERS[kind](1, tmp_path / "x")
            assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o644
            for mode in (0o600, 0o666):
                (tmp_path / "x").chmod(mode)
                WRITERS[kind](2, tmp_path / "x")
                assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == mode
        finally:
            os.umask(before)

    @pytest.mark.parametrize("kind", WRITERS)
    @pytest.mark.parametrize("exists", [True, False])
    def test_symbolic_link(self, tmp_path, kind, exists):
        (tmp_path / "far").mkdir()
        (tmp_path / "x").symlink_to(Path("far") / "real")
        if exists:
            (tmp_path / "far" / "real").write_text("old")
        WRITERS[kind](2, tmp_path / "x")
        assert (tmp_path / "x").is_symlink()
        assert READERS[kind](tmp_path / "far" / "real") == 2
        assert sorted(os.listdir(tmp_path)) == ["far", "x"]

    def test_pipe(self, tmp_path):
        os.mkfifo(tmp_path / "x")
        reader = threading.Thread(target=lambda: found.append((tmp_path / "x").read_bytes()))
        found = []
        reader.start()
        with replacing(tmp_path / "x") as file:
            file.write(b"through")
        reader.join()
        assert found == [b"through"]
        assert os.listdir(tmp_path) == ["x"]

    def test_long_name(self, tmp_path):
        mc.save(mc.RBF(gamma=2.0), tmp_path / ("ä" * 125))
        assert mc.load(tmp_path / ("ä" * 125)).gamma == 2.0


@pytest.mark.parametrize("kind", WRITERS)
def test_full_disk(kind):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match=r"^/dev/full was not written because the disk is full; .*Free space") as caught:
        WRITERS[kind](1, "/dev/full")
    assert caught.value.errno == errno.ENOSPC


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import test_atomic
path = test_atomic.Path(sys.argv[2])
for kind, write in test_atomic.WRITERS.items():
    write(1, path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, resource.RLIM_INFINITY))
    try:
        write(2, path)
    except OSError as error:
        assert str(error).startswith(f"{path} cannot be written (File too large). Choose"), error
    else:
        raise AssertionError(kind)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert test_atomic.READERS[kind](path) == 1, kind
    assert test_atomic.os.listdir(path.parent) == [path.name]
"""


@pytest.mark.slow
@posix
def test_a_write_that_fails_keeps_the_old_file(tmp_path):
    subprocess.run([sys.executable, "-c", LIMITED, str(Path(__file__).parent), str(tmp_path / "x")], check=True)


def test_a_body_that_fails_keeps_the_old_file(tmp_path):
    (tmp_path / "x").write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "x"):
        raise ZeroDivisionError
    assert (tmp_path / "x").read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("mercer._atomic.open", refuse, raising=False)  # root may write anywhere
    with pytest.raises(PermissionError, match=r"x cannot be written \(Permission denied\)\. Choose another name"):
        mc.save(mc.RBF(), tmp_path / "x")


KILLED = """
import os, signal, sys
from mercer._atomic import new_folder, replacing
with replacing(sys.argv[1]) as file, new_folder(sys.argv[1] + ".zarr") as folder:
    file.write(b"half" * 10_000)
    file.flush()
    (folder / "part").write_bytes(b"half")
    print("begun", flush=True)
    sys.stdin.read() or os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
class TestKilled:
    def test_what_a_killed_process_left_is_removed(self, tmp_path):
        for _ in range(2):
            done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "x")], stdin=subprocess.DEVNULL)
            assert done.returncode == -9
        assert len(partials(tmp_path)) == 2  # the second process has removed those of the first one
        mc.save(mc.RBF(gamma=2.0), tmp_path / "y")
        assert os.listdir(tmp_path) == ["y"]

    def test_what_a_living_process_writes_is_kept(self, tmp_path):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "x")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"begun\n"
            mc.save(mc.RBF(gamma=2.0), tmp_path / "y")
            assert len(partials(tmp_path)) == 2
            process.communicate(b"go on")
        assert process.returncode == 0
        assert (tmp_path / "x").read_bytes() == b"half" * 10_000
        assert sorted(os.listdir(tmp_path)) == ["x", "x.zarr", "y"]
        assert os.listdir(tmp_path / "x.zarr") == ["part"]

    def test_files_of_others_are_kept(self, tmp_path):
        others = ["a.partial", f"a.{'0' * 16}.partial", f"a.{'x' * 20}.partial", f"a.{'0' * 20}.partial.txt"]
        for name in others:
            (tmp_path / name).write_text("mine")
        mc.save(mc.RBF(), tmp_path / "y")
        assert sorted(os.listdir(tmp_path)) == sorted([*others, "y"])

    def test_a_partial_file_that_is_taken_before_it_is_locked(self, tmp_path, monkeypatch):
        """Another process may take a file for that of a killed one in the moment before it is locked."""
        real, taken = _atomic._lock, []

        def lock(path, **options):
            if path.name.endswith(".partial") and not taken:
                taken.append(path)
                path.unlink()
                path.touch()
                number = real(path, **options)
                path.unlink()
                return number
            return real(path, **options)

        monkeypatch.setattr(_atomic, "_lock", lock)
        mc.save(mc.RBF(gamma=2.0), tmp_path / "y")
        assert taken
        assert mc.load(tmp_path / "y").gamma == 2.0
        assert os.listdir(tmp_path) == ["y"]
