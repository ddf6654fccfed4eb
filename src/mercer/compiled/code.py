"""The decorator of all compiled functions, with a disk cache that is never stale and safe under parallel workers.

Numba's own cache checks the file of the function only: after an edit of a helper in another file, callers of the
helper keep the old machine code. It also numbers its data files, so that two processes that compile two instances of
one function at the same time can write both to the same file, and a later process runs the wrong instance. Here an
entry is one file, named by a digest of everything that determines its machine code: the sources of the function's file
and of all files of this package that it imports, the signature, the closure, and the processor.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit
from numba.core import caching, config, serialize
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.types.misc import unliteral

from mercer._config import settings
from mercer._notices import notify
from mercer.compiled.machine import MACHINE

_ROOM = Path(__file__).parent
_IMPORT = re.compile(r"^\s*from mercer\.compiled(?:\.(\w+))? import (.+)$", re.MULTILINE)


def compiled(function: Callable[..., Any] | None = None, *, contract: bool = False, inline: bool = False) -> Any:
    """Compile a function with Numba: no GIL, NumPy's division by zero, cached on disk.

    Parameters
    ----------
    function : callable
        The function to compile. If None, a decorator with these options is returned.
    contract : bool
        Allow a multiplication and an addition to become one instruction (FMA), which rounds once. Infinities and NaN
        keep their meaning; no other option of "fastmath" is used.
    inline : bool
        Inline the function into its callers before type inference, so that it may take functions as arguments.
    """
    if function is None:
        return functools.partial(compiled, contract=contract, inline=inline)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "inline": "always" if inline else "never"}
    if contract:
        options["fastmath"] = {"contract"}
    described = repr(sorted(options.items(), key=str))
    # Numba numbers functions in the order in which a process meets them. Functions of one name that two processes have
    # numbered alike have the same symbol, and a third process that loads both would run the first of them for both.
    function.__qualname__ += "_" + hashlib.sha256((function_key(function) + described).encode()).hexdigest()[:16]
    with _switched_on():
        dispatcher = njit(**options)(function)
    dispatcher._cache = _cache_of(function, described)
    dispatcher.get_call_template = _without_literals(dispatcher.get_call_template)
    if config.DISABLE_JIT:
        dispatcher.compile = _always(dispatcher.compile)
    return dispatcher


def _without_literals(template: Callable[..., Any]) -> Callable[..., Any]:
    """Let callers pass constants as numbers: otherwise Numba compiles a function again for every constant."""

    def plain(args: Any, kws: Any) -> Any:
        return template(tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()})

    return plain


# -- NUMBA_DISABLE_JIT and forks -----------------------------------------------------------------------


@contextmanager
def _switched_on() -> Iterator[None]:
    """Switch Numba on for a moment where the user has switched it off: vector instructions exist only compiled."""
    with global_compiler_lock:
        before = config.DISABLE_JIT
        config.DISABLE_JIT = 0
        try:
            yield
        finally:
            config.DISABLE_JIT = before


def _always(compile_: Callable[..., Any]) -> Callable[..., Any]:
    def compile_anyway(signature: Any) -> Any:
        with _switched_on():
            return compile_(signature)

    return compile_anyway


if hasattr(os, "register_at_fork"):
    # A process that is forked while another thread compiles would find LLVM in the middle of something.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


def is_compiled(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a function is compiled for arguments of these types, in this process or on disk."""
    kinds = tuple(function.typeof_pyval(argument) for argument in arguments)
    return kinds in function.overloads or (isinstance(function._cache, _Cache) and function._cache.has(kinds, function))


@functools.cache
def announce() -> None:
    """Tell the user, once, why the first call takes long; as progress bars, on a terminal only or where asked for."""
    shown = settings().progress
    if shown or (shown is None and sys.stderr is not None and sys.stderr.isatty()):
        print("mercer: compiling, once per machine, about 10 s (mercer warmup does it in advance)", file=sys.stderr)


def stored() -> tuple[Path | None, int, int]:
    """Return the folder of compiled code, the number of functions in it, and their bytes."""
    folder = _folder()
    sizes = [file.stat().st_size for file in folder.glob("*.nbc")] if folder is not None else []
    return folder, len(sizes), sum(sizes)


# -- the cache on disk ---------------------------------------------------------------------------------


def source_digest(path: Path) -> str:
    """Return a digest of the source in ``path`` and of all files of this package that it imports, directly or not."""
    seen: dict[str, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file.stem in seen or not file.exists():
            continue
        source = seen[file.stem] = file.read_text(encoding="utf-8")
        for module, names in _IMPORT.findall(source):
            waiting += [_ROOM / f"{name}.py" for name in ([module] if module else re.findall(r"\w+", names))]
    return hashlib.sha256(repr(sorted(seen.items())).encode()).hexdigest()


_digest_of_file = functools.cache(source_digest)


def _cache_of(function: Any, options: str) -> Any:
    """Return the cache of a function; a cache that stores nothing if no folder is writable."""
    file = Path(function.__code__.co_filename)
    folder = _folder()
    if folder is None or not file.exists():
        return caching.NullCache()
    return _Cache(function, file, folder, options)


@functools.cache
def _folder() -> Path | None:
    """Return the first writable folder: NUMBA_CACHE_DIR or next to the sources, the user's cache, a temporary folder.

    Warns of a temporary folder, which may not last, and if there is none.
    """
    chosen = Path(config.CACHE_DIR) if config.CACHE_DIR else _ROOM / "__pycache__"
    makers: list[Callable[[], Path]] = [lambda: chosen, lambda: Path.home() / ".cache" / "mercer", _temporary_folder]
    for make in makers:
        try:
            folder = make()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, RuntimeError):  # RuntimeError: there is no home
            continue
        if make is _temporary_folder:
            notify(
                f"mercer stores compiled code in {folder}, because neither the folder of the package nor the home "
                "folder is writable. Set NUMBA_CACHE_DIR to a folder that stays."
            )
        return folder
    notify(
        "mercer cannot store compiled code: no cache folder is writable, so every process compiles again. Set "
        "NUMBA_CACHE_DIR to a writable folder."
    )
    return None


def _temporary_folder() -> Path:
    """Return a folder that only this user can write: compiled code that others have planted would be run."""
    if not hasattr(os, "getuid"):  # on Windows, every user has a temporary folder
        return Path(tempfile.gettempdir()) / "mercer-compiled"
    folder = Path(tempfile.gettempdir()) / f"mercer-compiled-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} belongs to others")
    return folder


class _Cache(caching.FunctionCache):
    """One file per compiled instance, named by a digest of everything that determines its machine code."""

    def __init__(self, function: Any, file: Path, folder: Path, options: str) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _Implementation(function)
        self._cache_path = str(folder)
        self._folder, self._options, self._file = folder, options, file
        self._prefix = f"{file.stem}.{function.__name__}"
        self.enable()

    def _path(self, signature: Any, codegen: Any) -> Path:
        code = function_key(self._py_func)
        versions = numba.__version__, llvmlite.__version__, sys.version_info[:2]
        what = (str(signature), codegen.magic_tuple(), MACHINE, code, self._options, versions)
        stamp = _digest_of_file(self._file)
        digest = hashlib.sha256(repr((what, stamp)).encode()).hexdigest()
        return self._folder / f"{self._prefix}.{stamp[:8]}.{digest[:32]}.nbc"

    def has(self, signature: Any, dispatcher: Any) -> bool:
        """Whether an instance is on disk."""
        return self._path(signature, dispatcher.targetctx.codegen()).exists()

    def _load_overload(self, signature: Any, target_context: Any) -> Any:
        path = self._path(signature, target_context.codegen())
        try:
            data = path.read_bytes()
        except OSError:
            announce()
            return None
        return self._impl.rebuild(target_context, caching.pickle.loads(data))

    def _save_overload(self, signature: Any, data: Any) -> None:
        if not self._impl.check_cachable(data):
            return
        path, partial = self._path(signature, data.codegen), None
        try:
            for old in self._folder.glob(f"{self._prefix}.*.nbc"):  # instances from older sources
                if not old.name.startswith(".".join(path.name.split(".")[:3])):
                    old.unlink(missing_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                partial = Path(file.name)
                file.write(serialize.dumps(self._impl.reduce(data)))
            partial.replace(path)  # atomic, also for other processes
        except OSError as error:
            if partial is not None:
                partial.unlink(missing_ok=True)
            notify(
                f"mercer could not store compiled code in {self._folder} ({error}). The next process compiles again."
            )

    def flush(self) -> None:
        """Remove all instances of this function."""
        for old in self._folder.glob(f"{self._prefix}.*.nbc"):
            old.unlink(missing_ok=True)


class _Implementation(caching.CompileResultCacheImpl):
    """Numba's conversion of compiled functions to bytes and back, without its choice of folder."""

    def __init__(self, function: Any) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = types.SimpleNamespace(_py_file=function.__code__.co_filename)


def function_key(function: Any) -> str:
    """Describe a function by its source and closure, so that closures may contain compiled functions of other files."""
    code = function.__code__
    cells = [_cell_key(cell.cell_contents) for cell in function.__closure__ or ()]
    source = _digest_of_file(Path(code.co_filename))
    return repr((function.__module__, code.co_qualname, code.co_firstlineno, source, cells))


def _cell_key(value: Any) -> str:
    if isinstance(value, Dispatcher):
        return function_key(value.py_func)
    if isinstance(value, types.FunctionType):
        return function_key(value)
    if hasattr(value, "_defn"):  # an intrinsic
        return function_key(value._defn)
    return hashlib.sha256(serialize.dumps(value)).hexdigest()
