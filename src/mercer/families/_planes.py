"""Small dense algebra on planes: every matrix entry is an (I, J) array over pairs.

A Cholesky factorisation written as a loop over d, each step on whole planes, is several times faster than batched
LAPACK for the d below 32 that users have, needs no (I, J, d, d) array, and runs on any array library.
"""

from __future__ import annotations

from mercer._array import Array, namespace


def log_det_and_quadratic(entry: list[list[Array]], difference: list[Array]) -> tuple[Array, Array]:
    """Compute log|M| and v' M^{-1} v for a symmetric matrix of planes.

    Parameters
    ----------
    entry : list of lists of arrays
        ``entry[i][j]`` for j <= i, the lower triangle, each of shape ``(..., I, J)``. Overwritten.
    difference : list of arrays
        The d planes of v. Overwritten.

    Returns
    -------
    log_det, quadratic : arrays of shape (..., I, J)
    """
    d = len(difference)
    xp = namespace(difference[0])
    log_det = quadratic = None
    # A right-looking L D L' factorisation: no square roots, and v is carried along as one more row.
    for k in range(d):
        pivot = entry[k][k]
        inverse = 1.0 / pivot
        scaled = [entry[i][k] * inverse for i in range(k + 1, d)]
        v = difference[k]
        term = v * v * inverse
        quadratic = term if quadratic is None else quadratic + term
        log_det = xp.log(pivot) if log_det is None else log_det + xp.log(pivot)
        for i in range(k + 1, d):
            factor = scaled[i - k - 1]
            for j in range(k + 1, i + 1):
                entry[i][j] = entry[i][j] - factor * entry[j][k]
            difference[i] = difference[i] - factor * v
    return log_det, quadratic
