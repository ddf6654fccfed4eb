"""Probabilities of single sequences under pair HMMs with affine gaps, and their gradients (MK-5b, MK-5d)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled


@compiled(contract=True)
def single_expected(
    values: Any, offsets: Any, match: Floats, insertion: Floats, o: float, e: float, c: float, log_prob: Floats,
    events: Floats, matched: Floats, letters: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute the log probability of every sequence, and its gradients in every parameter as a free weight.

    ``events (S, 3)``: in c, o and e; ``matched``, ``letters (S, codes)``: in the probability of a code as a match, and
    as an insertion. Multiplied by its parameter, each is an expected count. Arrays without rows are skipped. The two
    states of a position depend on the same two of the previous one, so that one scale for both is enough.
    """
    stay, leave = 1.0 - o, 1.0 - e
    keep = len(events) > 0
    for r in range(len(offsets) - 1):
        begin, length = offsets[r], offsets[r + 1] - offsets[r]
        forward, scale = np.zeros((length + 1, 2)), np.ones(length + 1)
        forward[0, 0], logs = 1.0, 0.0
        for i in range(1, length + 1):
            code = values[begin + i - 1]
            at, inside = forward[i - 1, 0], forward[i - 1, 1]
            a, x = c * match[code] * (stay * at + leave * inside), insertion[code] * (o * at + e * inside)
            size = a + x
            if size == 0.0:
                logs = -np.inf
                break
            forward[i, 0], forward[i, 1], scale[i] = a / size, x / size, size
            logs += np.log(size)
        end = (1.0 - c) * (stay * forward[length, 0] + leave * forward[length, 1])
        log_prob[r] = logs + np.log(end) if end > 0.0 and logs > -np.inf else -np.inf
        if not keep or log_prob[r] == -np.inf:
            continue
        # Products of backward and forward values sum to 1 at every position.
        b0, b1 = (1.0 - c) * stay / end, (1.0 - c) * leave / end
        for i in range(length, 0, -1):
            code = values[begin + i - 1]
            at, inside = forward[i - 1, 0], forward[i - 1, 1]
            mix = (stay * at + leave * inside) / scale[i] * b0
            run = b1 / scale[i]
            events[r, 0] += match[code] * mix
            matched[r, code] += c * mix
            events[r, 1] += insertion[code] * at * run
            events[r, 2] += insertion[code] * inside * run
            letters[r, code] += (o * at + e * inside) * run
            to_match, to_run = c * match[code] * b0 / scale[i], insertion[code] * run
            b0, b1 = stay * to_match + o * to_run, leave * to_match + e * to_run


@compiled
def _states(forward: Floats, i: int) -> tuple[float, float, float, float, float]:  # pragma: no cover - compiled
    return forward[i, 0], forward[i, 1], forward[i, 2], forward[i, 3], forward[i, 4]


@compiled(contract=True)
def local_expected(
    values: Any, offsets: Any, match: Floats, insertion: Floats, rates: Floats, log_prob: Floats, events: Floats,
    matched: Floats, letters: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Do the same for local alignments; ``rates``: open, extend, continuation, open and extend of flanks.

    ``events (S, 6)``: in c, o, e and open and extend of flanks, and the probability of no match. A position has four
    states: the flank before the first match, match, insertion between matches, the flank after the last one.
    """
    o, e, c, fo, fe = rates[0], rates[1], rates[2], rates[3], rates[4]
    keep = len(events) > 0
    for r in range(len(offsets) - 1):
        begin, length = offsets[r], offsets[r + 1] - offsets[r]
        forward, scale = np.zeros((length + 1, 5)), np.ones(length + 1)
        forward[0, 4], logs = 1.0, 0.0  # the last one is the start
        for i in range(1, length + 1):
            code = values[begin + i - 1]
            head, at, inside, tail, start = _states(forward, i - 1)
            q = insertion[code]
            before = (1.0 - fo) * start + (1.0 - fe) * head + (1.0 - o) * at + (1.0 - e) * inside
            f, a = q * (fo * start + fe * head), c * match[code] * before
            x, g = q * (o * at + e * inside), q * ((1.0 - c) * fo * at + fe * tail)
            size = f + a + x + g
            if size == 0.0:
                logs = -np.inf
                break
            forward[i, 0], forward[i, 1], forward[i, 2], forward[i, 3] = f / size, a / size, x / size, g / size
            scale[i] = size
            logs += np.log(size)
        head, at, inside, tail, start = _states(forward, length)
        end = (1.0 - c) * ((1.0 - fo) * (start + at) + (1.0 - fe) * head) + (1.0 - fe) * tail
        log_prob[r] = logs + np.log(end) if end > 0.0 and logs > -np.inf else -np.inf
        if not keep or log_prob[r] == -np.inf:
            continue
        events[r, 5] = (1.0 - c) * ((1.0 - fo) * start + (1.0 - fe) * head) / end
        b0, b1 = (1.0 - c) * (1.0 - fe) / end, (1.0 - c) * (1.0 - fo) / end
        b2, b3 = 0.0, (1.0 - fe) / end
        for i in range(length, 0, -1):
            code = values[begin + i - 1]
            head, at, inside, tail, start = _states(forward, i - 1)
            q = insertion[code] / scale[i]
            before = (1.0 - fo) * start + (1.0 - fe) * head + (1.0 - o) * at + (1.0 - e) * inside
            to_match = match[code] * b1 / scale[i]
            events[r, 0] += before * to_match
            matched[r, code] += c * before * b1 / scale[i]
            events[r, 1] += at * q * b2
            events[r, 2] += inside * q * b2
            events[r, 3] += q * (start * b0 + (1.0 - c) * at * b3)
            events[r, 4] += q * (head * b0 + tail * b3)
            entered = (fo * start + fe * head) * b0 + (o * at + e * inside) * b2
            letters[r, code] += (entered + ((1.0 - c) * fo * at + fe * tail) * b3) / scale[i]
            to_match *= c
            b0, b1, b2, b3 = (
                (1.0 - fe) * to_match + fe * q * b0,
                (1.0 - o) * to_match + q * (o * b2 + (1.0 - c) * fo * b3),
                (1.0 - e) * to_match + e * q * b2,
                fe * q * b3,
            )
