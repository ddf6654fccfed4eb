"""Multinomials of all 7,674 Reuters R8 documents, sparse: whole kernels against SciPy's product of the same rows.

Run: MERCER_DATA=... python benchmarks/bench_text.py
"""

from __future__ import annotations

from _measure import best

import mercer as mc
from mercer.datasets import fetch_r8


def main() -> None:
    counts = fetch_r8().data
    documents = mc.Multinomial().fit_each(counts)
    rows = documents.probability.power(0.5).to_scipy()
    scipy_seconds = best(lambda: rows @ rows.T, repeat=5)
    print(f"{counts.shape[0]} documents, {counts.shape[1]} words: SciPy's P @ P.T takes {scipy_seconds:.3f} s")
    kernels = {
        "ProbabilityProduct(rho=0.5)": mc.ProbabilityProduct(rho=0.5),
        "JensenShannon(form='exp')": mc.JensenShannon(form="exp"),
        "JensenShannon(form='inverse')": mc.JensenShannon(form="inverse"),
        "MeanMap(gamma=1)": mc.MeanMap(gamma=1.0),
    }
    for name, kernel in kernels.items():
        for threads in (1, 2):
            with mc.config(n_jobs=threads):
                seconds = best(lambda k=kernel: k(documents), repeat=3)
            print(f"  {name:30s} {threads} thread(s): {seconds:.3f} s = {seconds / scipy_seconds:.2f}x SciPy")


if __name__ == "__main__":
    main()
