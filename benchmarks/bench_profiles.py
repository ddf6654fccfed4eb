"""Probability products of profile HMMs: all pairs of random protein profiles of 200 nodes, in node pairs per second.

The symmetric half is counted once, with the whole time. Compared with this machine's matrix product, and with a NumPy
version that computes one row of nodes of all pairs of a profile at once, with one scale per row (which is not safe for
profiles of very different sizes).

Run: python benchmarks/bench_profiles.py
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from _measure import best, matmul_rate, peak_bytes

from mercer.models._profile.product import ProfileOperand

COUNT, NODES, LETTERS = 64, 200, 20
FLOPS = {True: 2 * (LETTERS + 1 + 33) + 1, False: 2 * (4 * (LETTERS + 1) + 33) + 1}
"""Operations of a pair of nodes: one or four emission products, 33 fused multiply-adds, a division."""


def profiles(count: int, nodes: int, seed: int = 0, same: bool = False) -> ProfileOperand:
    """Return random profiles with rare gaps; their insert states are the same, as is usual, or differ."""
    rng = np.random.default_rng(seed)
    gaps = np.tile([0.97, 0.015, 0.015, 0.6, 0.4, 0.6, 0.4], (count, nodes + 1, 1))
    gaps[:, -1] = [0.985, 0.015, 0.0, 0.6, 0.4, 1.0, 0.0]
    match = rng.dirichlet(np.full(LETTERS, 0.3), count * nodes)
    insert = rng.dirichlet(np.full(LETTERS, 5.0), count * (nodes + 1))
    if same:
        insert[:] = insert[0]
    return ProfileOperand.of(match, insert, gaps.reshape(-1, 7), np.full(count, nodes), rho=1.0)


def numpy_products(p: ProfileOperand, others: ProfileOperand) -> np.ndarray:
    """Return log products of one profile with J others of one size: row by row, columns in a loop."""
    nodes = int(others.sizes[0])
    own, theirs = (side.nodes.nodes.reshape(-1, nodes, 2 * LETTERS + 9)[side.members] for side in (p, others))
    e, t = own[0, :, :-7].reshape(nodes, 2, -1), own[0, :, -7:]
    f = theirs[..., :-7].reshape(len(others), nodes, 2, -1).transpose(1, 2, 3, 0)
    u = theirs[..., -7:].transpose(1, 2, 0)
    above, scale = np.zeros((nodes, 6, len(others))), np.zeros(len(others))
    for i in range(nodes):
        psi = np.einsum("xa,jyaN->jyxN", e[i], f)
        mm, im, dm, md, dd, mi, ii = t[i]
        line = np.zeros((6, len(others)))
        line[0] = i == 0  # into the begin
        for j in range(nodes):
            a_m, a_i, b_m, b_i, e_m, e_i = line
            f_mm, f_im, f_mi, f_ii, d_m, d_i = above[j]
            v = u[j]
            new_mm = psi[j, 0, 0] * (v[0] * a_m + v[1] * a_i + v[2] * e_m)
            new_im = psi[j, 0, 1] * (v[0] * b_m + v[1] * b_i + v[2] * e_i)
            to_m, to_i = mm * f_mm + im * f_im + dm * d_m, mm * f_mi + im * f_ii + dm * d_i
            new_mi = psi[j, 1, 0] * (v[5] * to_m + v[6] * to_i)
            new_bm = mi * new_mm + ii * new_im
            loop = psi[j, 1, 1] / (1 - psi[j, 1, 1] * ii * v[6])
            new_ii = loop * (v[5] * new_bm + v[6] * mi * new_mi)
            above[j] = new_mm, new_im, new_mi, new_ii, md * f_mm + dd * d_m, md * f_mi + dd * d_i
            line = np.stack(
                [to_m, to_i, new_bm, mi * new_mi + ii * new_ii, v[3] * a_m + v[4] * e_m, v[3] * b_m + v[4] * e_i]
            )
        top = above.max(axis=(0, 1))
        above /= top
        scale += np.log(top)
    return np.log(above[-1, 0]) + scale


def half(some: ProfileOperand, threads: int, side: int = 32) -> None:
    """Compute the tiles of the symmetric half."""
    tiles = [(a, b) for a in range(0, len(some), side) for b in range(a, len(some), side)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda tile: some[tile[0] : tile[0] + side].pair(some[tile[1] : tile[1] + side]), tiles))


def main() -> None:
    flops = matmul_rate()
    print(f"matrix product, 1 thread: {flops / 1e9:.1f} GFLOP/s")
    tiles = COUNT // 32
    cells = tiles * (tiles + 1) // 2 * 32**2 * NODES**2
    rates = {}
    for same in (True, False):
        some = profiles(COUNT, NODES, same=same)
        for threads in (1, 2):
            rate = rates[same, threads] = cells / best(lambda n=threads, some=some: half(some, n), repeat=1)
            print(
                f"insert states {'of one distribution' if same else 'that differ'}, {threads} thread(s): "
                f"{rate / 1e6:.0f} million pairs of nodes per second, "
                f"{100 * FLOPS[same] * rate / flops / threads:.0f} % of the matrix product; 1,000 profiles in "
                f"{1000 * 1001 / 2 * NODES**2 / rate:.0f} s"
            )
    few = some[:16]
    theirs = 16 * NODES**2 / best(lambda: numpy_products(few[:1], few), repeat=1)
    apart = np.abs(few[:1].pair(few)[0] - numpy_products(few[:1], few)).max()
    print(f"NumPy, 16 pairs at once: {theirs / 1e6:.2f} million per second; ours is {rates[False, 1] / theirs:.0f}x")
    print(f"largest difference of logarithms: {apart:.1e}")
    tall = profiles(8, 1000)
    rate = 64 * 1000**2 / best(lambda: tall.pair(tall), repeat=1)
    held = peak_bytes(lambda: tall.pair(tall)) / 1e6
    print(f"8 x 8 pairs of 1,000 nodes: {rate / 1e6:.0f} million per second, {held:.0f} MB")
    rate = 64 * NODES**2 / best(lambda: some[:8].pair(some[:8], ranged=True), repeat=1)
    print(f"in numbers of unlimited range: {rate / 1e6:.1f} million per second")


if __name__ == "__main__":
    main()
