"""Time to import mercer against the time to import sklearn.svm, each in fresh interpreters.

Run: python benchmarks/bench_import.py
"""

from __future__ import annotations

import subprocess
import sys

CODE = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"


def seconds(module: str, repeat: int = 7) -> float:
    code = CODE.format(module=module)
    command = [sys.executable, "-c", code]
    return min(float(subprocess.check_output(command, text=True)) for _ in range(repeat))


def main() -> None:
    ours, theirs = seconds("mercer"), seconds("sklearn.svm")
    print(f"import mercer {ours:.2f} s, import sklearn.svm {theirs:.2f} s: {ours / theirs:.2f}x")


if __name__ == "__main__":
    main()
