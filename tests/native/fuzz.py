"""Random calls of the native library, none of which may crash, whatever the numbers are.

Calls of its functions are recorded while public calls run: the cases of tests/native/bits.py and tests/reference, and
models of random sizes. Every random call repeats one of them with other numbers: zeros, NaN, infinities, huge, tiny and
negative ones. Integers are indices and sizes, which mercer makes itself, and stay.

Run: python -m tests.native.fuzz 10000     (with a library that was built with --sanitize, to find more)
"""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import numpy as np

import mercer as mc
from mercer import _native

ODD = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-300, 5e-324, 0.5]
MOST_NUMBERS = 20_000
"""Calls with larger arrays are not repeated."""
MOST_CALLS = 40
"""Number of calls of a function that are kept, evenly over all that were recorded."""
SECONDS = 60.0

Calls = dict[str, list[dict[str, Any]]]


@contextlib.contextmanager
def recording(calls: Calls) -> Iterator[None]:
    """Add all calls of the library to a table: name of the function -> arguments before the call."""
    real = _native.Prepared.__init__

    def prepare(self: Any, name: str, **arguments: Any) -> None:
        arguments = _native.flat(name, arguments)
        arrays = [np.asarray(value) for value in arguments.values() if value is not None]
        if sum(array.size for array in arrays) <= MOST_NUMBERS:
            calls[name].append({key: _copied(value) for key, value in arguments.items()})
        real(self, name, **arguments)

    with mock.patch.object(_native.Prepared, "__init__", prepare):
        yield


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def models(rng: np.random.Generator) -> None:
    """Compute kernels of a few models and sequences of random sizes."""
    n, count, length = (int(rng.integers(1, most)) for most in (8, 12, 9))
    emission = mc.Categoricals(rng.dirichlet(np.ones(4), (count, n)), "ACGT")
    hmms = mc.HMMs(rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n)), emission)
    strings = ["".join(rng.choice(list("ACGT"), k)) for k in rng.integers(1, 30, count)]
    d = int(rng.integers(1, 7))
    points = [rng.normal(size=(int(k), d)) for k in rng.integers(2, 12, count)]
    with mc.config(n_jobs=1, memo_bytes=0, cache_bytes=0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mc.ProbabilityProduct(rho=0.5, length=length).log(hmms)
        mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.8)).log(hmms)
        hmms[:1].log_prob(strings)
        mc.Marginalization(hmms[:1]).log(["".join(rng.choice(list("ACGT"), length)) for _ in range(count)])
        mc.Marginalization(mc.AffinePairHMM(substitution=(2, -3), alphabet="dna")).fit(strings).log(strings)
        mc.HMM(min(n, 3), mc.Gaussian(), n_iter=2).fit(points)
        mc.EmpiricalMeanMap(gamma=0.5)(points)


def recorded(seed: int, cases: Iterable[Callable[[], Any]], draws: int = 20) -> Calls:
    """Run public calls and return what they called."""
    calls: Calls = defaultdict(list)
    work = [*cases, *(lambda i=i: models(np.random.default_rng([seed, i])) for i in range(draws))]
    for run in work:
        with recording(calls):
            run()
    return {name: some[:: -(-len(some) // MOST_CALLS)] for name, some in calls.items()}


def changed(rng: np.random.Generator, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with other numbers in some of the arrays that are read."""
    found = {key: _copied(value) for key, value in arguments.items()}
    for field in _native.signatures()[name]:
        value = found[field.name]
        if field.written or value is None or rng.random() < 0.5:
            continue
        if field.dtype is None:
            if field.code == "d":
                found[field.name] = float(rng.choice(ODD))
        elif field.dtype.kind == "f":
            array = np.array(value, dtype=field.dtype)
            share = rng.choice([1 / max(array.size, 1), 0.1, 1.0])
            with np.errstate(over="ignore"):
                array[rng.random(array.shape) < share] = np.asarray(rng.choice(ODD)).astype(field.dtype)
            found[field.name] = array
    return found


def run(number: int, calls: Calls, seed: int = 0) -> Counter[str]:
    """Make random calls; return how many of each function."""
    names, made = sorted(calls), Counter[str]()
    for i in range(number):
        rng = np.random.default_rng([seed, i])
        name = names[i % len(names)]
        arguments = changed(rng, name, calls[name][int(rng.integers(len(calls[name])))])
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        with contextlib.suppress(MemoryError):  # some sizes follow from numbers
            _native.call(name, **arguments)
        made[name] += 1
    faulthandler.cancel_dump_traceback_later()
    return made


def main() -> None:
    """Record all cases, and make as many random calls as asked."""
    from tests.native import bits
    from tests.reference.cases import CASES

    faulthandler.enable()
    few = [lambda name=name: bits.check(name) for name in bits.CASES]
    calls = recorded(0, [*few, *(case.compute for case in CASES.values())])
    made = run(int(sys.argv[1]), calls)
    print(", ".join(f"{name} {count}" for name, count in sorted(made.items())))
    missing = sorted(set(_native.signatures()) - set(made))
    if missing:
        sys.exit(f"No public call reached {', '.join(missing)}: add a case to tests/native/bits.py.")


if __name__ == "__main__":
    main()
