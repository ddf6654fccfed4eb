"""Sequences under a profile HMM: log odds and Fisher scores, in cells (symbols x nodes) per second.

Everything is scored in float64, without filters. HMMER's search is much faster: it discards most sequences with 8-bit
arithmetic, and computes the rest in float32 vectors; mercer needs expected counts of every sequence.

Run: python benchmarks/bench_profile_scores.py
"""

from __future__ import annotations

import numpy as np
from _measure import best

import mercer as mc

NODES, COUNT, LENGTH = 200, 200, 350


def main() -> None:
    rng = np.random.default_rng(0)
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    ancestor = rng.choice(letters, NODES)
    rows = ["".join(np.where(rng.random(NODES) < 0.6, ancestor, rng.choice(letters, NODES))) for _ in range(20)]
    profile = mc.ProfileHMM().fit(rows).model_
    X = mc.Sequences(["".join(rng.choice(letters, LENGTH)) for _ in range(COUNT)], alphabet="protein")
    cells = COUNT * LENGTH * NODES
    for threads in (1, 2):
        with mc.config(n_jobs=threads):
            for mode in ("local", "uniglocal"):
                p = profile.configure(mode=mode)
                seconds = best(lambda p=p: p.log_odds(X))
                print(f"log odds, {mode}, {threads} threads: {cells / seconds / 1e6:.0f} million cells/s")
            seconds = best(lambda: profile.sequence_scores(X))
            print(f"Fisher scores, {threads} threads: {cells / seconds / 1e6:.0f} million cells/s")
            seconds = best(lambda: [profile.viterbi(X)])
            print(f"best paths, {threads} threads: {cells / seconds / 1e6:.0f} million cells/s")


if __name__ == "__main__":
    main()
