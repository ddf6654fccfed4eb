"""Pair HMMs with affine gaps: all pairs of 500 random protein sequences of length 200, in cells per second.

A cell is one (i, j) of one pair; the symmetric half is counted once, with the whole time. Compared with the matrix of
`Marginalization`: a NumPy version for one pair at a time, row by row, one for all pairs of a sequence at once (both
with one scale per row, which is not safe for very different lengths), this machine's matrix product, and, if it is
installed, the best alignment (not the sum over all) by Biopython's PairwiseAligner, in C.

Run: python benchmarks/bench_pair_hmm.py
"""

from __future__ import annotations

import importlib.util

import numpy as np
from _measure import best, matmul_rate, peak_bytes

import mercer as mc

COUNT, LENGTH = 500, 200
FLOPS = 7
"""Operations of a cell: a product, two fused multiply-adds, two sums."""


def proteins(count: int, length: int, seed: int = 0) -> mc.Sequences:
    codes = np.random.default_rng(seed).integers(0, 20, (count, length))
    return mc.Sequences.from_codes(codes, "protein")


def model() -> mc.models.AffinePairHMMs:
    """Return a joint distribution of 20 letters with the odds of a substitution matrix: 2 to 30 on the diagonal."""
    rng = np.random.default_rng(1)
    hidden = rng.random((20, 20)) ** 4 + 5 * np.eye(20)
    hidden /= hidden.sum(axis=0)
    joint = hidden @ hidden.T / 20
    return mc.models.AffinePairHMMs(
        [joint], [joint.sum(axis=0)], open=[0.03], extend=[0.6], continuation=[0.99], alphabet="protein"
    )


def numpy_kernels(p: mc.models.AffinePairHMMs, s: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Return log kernels of one sequence with J others of one length: row by row, runs of t by cumulative sums."""
    o, e, c = (float(x[0]) for x in (p.open, p.extend, p.continuation))
    r = p.insertion[0]
    match = c * (1 - o) ** 2 * p.joint[0] / np.outer(r, r) / e**2
    gap = o * (1 - e) / (1 - o) / e
    count, m = T.shape
    z, x = np.full((count, m + 1), gap), np.zeros((count, m + 1))
    z[:, 0], x[:, 0] = 1.0, gap
    u, scale = np.empty_like(z), np.zeros(count)
    for a in s:
        u[:, 0] = 0.0
        matched = match[a][T] * z[:, :-1]
        u[:, 1:] = matched
        u += x
        x[:, 1:] += gap * matched
        z[:, 1:] = u[:, 1:] + gap * np.cumsum(u[:, :-1], axis=1)
        z[:, 0] = u[:, 0]
        top = z.max(axis=1, keepdims=True)
        z /= top
        x /= top
        scale += np.log(top[:, 0])
    letters = np.log(r)[s].sum() + np.log(r)[T].sum(axis=1) + (len(s) + m) * np.log(e)
    return np.log((1 - c) * (1 - o) ** 2 * z[:, -1]) + scale + letters


def main() -> None:
    p, X = model(), proteins(COUNT, LENGTH)
    cells = COUNT * (COUNT + 1) // 2 * LENGTH**2
    codes = X.values.reshape(COUNT, LENGTH)
    flops = matmul_rate()
    print(f"matrix product, 1 thread: {flops / 1e9:.1f} GFLOP/s")
    rates, kernel = {}, mc.Marginalization(p, normalize=False)
    for threads in (1, 2):
        with mc.config(n_jobs=threads, memo_bytes=0):
            seconds = best(lambda: kernel.log(X), repeat=3)
        rate = rates[threads] = cells / seconds
        print(
            f"{threads} thread(s): {seconds:.3f} s, {rate / 1e9:.2f} giga cells per second, "
            f"{100 * FLOPS * rate / flops:.0f} % of one thread's matrix product"
        )
    ours = rates[1]
    flanks = mc.models.LocalPairHMMs(
        p.joint, p.insertion, p.open, p.extend, p.continuation, [0.98], [0.98], alphabet="protein"
    )
    some = X[:160]
    whole, local = (model.shared_history(some) for model in (p, flanks))
    seconds = [min(best(lambda a=a: a.pair(a), repeat=3) for _ in range(3)) for a in (whole, local)]
    print(f"local alignments, 1 thread: {seconds[1] / seconds[0]:.2f} times the time of global ones")
    one = LENGTH**2 / best(lambda: numpy_kernels(p, codes[0], codes[1:2]), repeat=20)
    all_of_one = COUNT * LENGTH**2 / best(lambda: numpy_kernels(p, codes[0], codes), repeat=3)
    for name, rate in (("one pair at a time", one), ("500 pairs at a time", all_of_one)):
        print(f"NumPy, row by row, {name}: {rate / 1e9:.4f} giga cells per second; ours is {ours / rate:.0f}x")
    operand = p.shared_history(X)
    apart = np.abs(operand[:1].pair(operand)[0] - numpy_kernels(p, codes[0], codes)).max()
    print(f"largest difference of logarithms from NumPy's: {apart:.1e}")
    for n, m in ((5000, 5000), (10, 5000)):
        left, right = (p.shared_history(proteins(8, size)) for size in (n, m))
        rate = 64 * n * m / best(lambda a=left, b=right: a.pair(b), repeat=3)
        held = peak_bytes(lambda a=left, b=right: a[:1].pair(b)) / 1e6
        print(
            f"8 x 8 pairs of {n} x {m}: {rate / 1e9:.2f} giga cells per second, {held:.1f} MB for eight pairs at once"
        )
    if importlib.util.find_spec("Bio") is None:
        print("Biopython is not installed")
        return
    from Bio.Align import PairwiseAligner, substitution_matrices

    aligner = PairwiseAligner(mode="global", open_gap_score=-11, extend_gap_score=-1)
    aligner.substitution_matrix = substitution_matrices.load("BLOSUM62")
    texts = [X[i] for i in range(41)]
    rate = 40 * LENGTH**2 / best(lambda: [aligner.score(texts[0], t) for t in texts[1:]], repeat=3)
    print(f"Biopython, score of the best alignment: {rate / 1e9:.3f} giga cells per second; ours is {ours / rate:.0f}x")


if __name__ == "__main__":
    main()
