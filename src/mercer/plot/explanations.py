"""Plots of explanations: contributions along sequences, sequence logos, scores of channels, aligned sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import rel_entr
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer._batch import Batch
from mercer.plot._contributions import AGAINST, FOR, Shown, draw_image, mark_regions, shown_of
from mercer.plot.style import COLORS, MARKERS, axes, legend_above, texts

__all__ = ["alignments", "importance", "logo", "track"]

LETTERS = 80
"""Largest number of positions whose symbols are written under a track."""
NAMES = 24
"""Largest number of samples whose names are written."""
BARS = 300
"""Largest number of positions that are drawn as bars."""
LETTER, WIDEST = 0.2, 60.0
"""Width of a letter of a logo, and largest width of a logo, in inches."""
DNA = {"A": COLORS[2], "C": COLORS[0], "G": COLORS[1], "T": COLORS[5], "U": COLORS[5]}
CHEMISTRY = {COLORS[5]: "DE", COLORS[0]: "KRH", COLORS[2]: "GSTYC", COLORS[3]: "NQ", COLORS[7]: "AVLIPWFM"}
"""Acidic, basic, polar, neutral and hydrophobic residues, as in most protein logos."""
PROTEIN = {letter: color for color, letters in CHEMISTRY.items() for letter in letters}


def track(found: Any, samples: Any = None, ax: Any = None, *, output: Any = None, regions: Any = None) -> Any:
    """Plot the contributions along a sequence, or along several.

    Parameters
    ----------
    found : Explanation, array of shape (T,), or list of arrays of shape (T,)
        Result of `mercer.explain`, or contributions of the positions of one or several samples. Those of the channels
        of series are summed.
    samples : int, str or list of these, default=None
        Samples to draw, by number or id; None draws all of them.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    output : int, str or class, default=None
        The output, if the explanation has several; None is the class that is predicted for each sample.
    regions : dict, default=None
        Maps names to ranges of positions (first, last + 1), which are marked and labeled.

    Returns
    -------
    matplotlib Axes
        One sample is drawn as bars, with its symbols if there are at most 80; several as rows of an image, gray after
        the end of a sequence. Blue increases the decision, vermilion decreases it.

    Examples
    --------
    >>> import mercer as mc
    >>> ax = mc.plot.track([0.1, -0.3, 0.8, 0.2], regions={"motif": (2, 4)})
    >>> [text.get_text() for text in ax.texts]
    ['motif']
    """
    shown = shown_of(found, samples, output)
    ax = axes(ax)
    rows = [values.sum(axis=1) if values.ndim == 2 else values for values in shown.values]
    length = max(map(len, rows))
    if len(rows) == 1:
        _bars(ax, rows[0], shown.first)
        ax.set_ylabel(shown.label)
        if shown.names is not None and length <= LETTERS:
            ax.set_xticks(shown.first + np.arange(length), shown.names[0], parse_math=False)
            ax.tick_params(axis="x", length=0)
    else:
        image = np.full((len(rows), length), np.nan)
        for i, row in enumerate(rows):
            image[i, : len(row)] = row
        draw_image(ax, image, shown.label, shown.first)
        some = np.arange(0, len(rows), -(-len(rows) // NAMES))  # names that do not overlap
        ax.set_yticks(some, [shown.ids[i] for i in some], parse_math=False)
    ax.set(xlabel=shown.unit, xlim=(shown.first - 0.5, shown.first + length - 0.5))
    mark_regions(ax, regions, length, shaded=len(rows) == 1, start=shown.first)
    return ax


def logo(found: Any, sequences: Any = None, ax: Any = None, *, output: Any = None, colors: Any = None) -> Any:
    """Plot a sequence logo: letters that are as tall as their contributions, or as a profile's information about them.

    Parameters
    ----------
    found : Explanation, array of shape (T,), list of arrays of shape (T,), ProfileHMM, or ProfileHMMs of one profile
        Result of `mercer.explain` for symbols, or contributions. Of a profile, the letters of a match state share its
        information in bits, its relative entropy to the background, in proportion to their probabilities.
    sequences : int, str or list of these; or the sequences of ``found`` if that is not an Explanation
        Of an Explanation: the samples to draw, by number or id; None draws all of them. Else one string, or a list of
        strings. Several must have the same length: the letters at a position then show the mean contributions.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure, which is wider for longer sequences.
    output : int, str or class, default=None
        The output, if the explanation has several; None is the class that is predicted for each sample.
    colors : dict, default=None
        Maps symbols to colors; None uses a scheme for DNA and RNA, or for proteins by their chemistry.

    Returns
    -------
    matplotlib Axes
        Axes with a letter, or a stack of letters, per position, or per node of a profile from 1. Letters below the
        line decrease the decision.

    Examples
    --------
    >>> import mercer as mc
    >>> ax = mc.plot.logo([0.2, 0.9, -0.4], "TAC")
    >>> len(ax.patches)
    3
    >>> ax = mc.plot.logo(mc.ProfileHMM(alphabet="dna").fit(["ACGT", "ACGA"]))
    >>> ax.get_ylabel()
    'information (bits)'
    """
    if isinstance(found, BaseEstimator):
        check_is_fitted(found, "model_")
    profile = getattr(found, "model_", found)
    if isinstance(profile, Batch):
        heights, unit, label, first = _information(profile), "node", "information (bits)", 1
    else:
        words, shown = _symbols(found, sequences, output)
        heights = _heights(words, [np.asarray(values) for values in shown.values])
        unit, label, first = "position", shown.label, shown.first
    ax = axes(ax, (float(np.clip(1 + LETTER * len(heights), 6.4, WIDEST)), 3.0))
    palette = _palette({symbol for stack in heights for symbol in stack}) if colors is None else colors
    low, high = _stacks(ax, heights, palette, first)
    margin = 0.05 * (high - low or 1.0)
    ax.axhline(0, color="0.35", linewidth=0.8)
    ax.set(
        xlim=(first - 0.5, len(heights) + first - 0.5), ylim=(low - margin, high + margin), xlabel=unit, ylabel=label
    )
    return ax


def importance(found: Any, ax: Any = None) -> Any:
    """Plot the scores of a pipeline without each channel, and with each only, next to that with all.

    Parameters
    ----------
    found : ChannelImportance
        Result of `mercer.kernels.channel_importance`.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.

    Returns
    -------
    matplotlib Axes
        Axes with a row per channel: means over the folds with standard errors. A line is at the score of all channels.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> high, low = np.array([0.9, 0.8]), np.array([0.1, 0.2])
    >>> found = mc.kernels.ChannelImportance(
    ...     ("speed", "noise"), high, np.stack([low, high]), np.stack([high, low])
    ... )
    >>> ax = mc.plot.importance(found)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['speed', 'noise']
    """
    ax = axes(ax, (6.4, 1.4 + 0.3 * len(found.channels)))
    rows = np.arange(len(found.channels))
    ax.axvline(found.scores.mean(), color="0.6", linewidth=1, label="all channels")
    n = len(found.scores)
    for move, (label, scores) in enumerate((("without it", found.without), ("with it only", found.alone))):
        error = scores.std(axis=1, ddof=1) / n**0.5 if n > 1 else None
        ax.errorbar(
            scores.mean(axis=1), rows + 0.2 * move - 0.1, xerr=error,
            fmt=MARKERS[move], color=(AGAINST, FOR)[move], markersize=5, linewidth=1.2, label=label,
        )  # fmt: skip
    ax.set_yticks(rows, found.channels, parse_math=False)
    ax.set(xlabel="score", ylim=(len(rows) - 0.5, -0.5))
    legend_above(ax)
    return ax


def alignments(found: Any, ax: Any = None, *, names: Any = None) -> Any:
    """Plot one sequence over the training sequences that it is aligned with.

    Parameters
    ----------
    found : Alignments, or list of Matches with the same first sequence
        Result of `mercer.aligned`, or of ``model.matches(first, second)`` of a pair HMM.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    names : list of str, default=None
        Names of the rows below the first; None uses those of ``found``, or numbers.

    Returns
    -------
    matplotlib Axes
        The first sequence in the top row. Below, in each row, the symbols that are matched with it; the darker, the
        more probable the match. A dash is a symbol without a partner, a wedge marks inserted symbols.

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.AffinePairHMM((2, -3), alphabet="dna").fit(["ACGTACGT"]).model_
    >>> ax = mc.plot.alignments(
    ...     [model.matches("ACGTT", "ACGT"), model.matches("ACGTT", "AGTT")],
    ...     names=["a", "b"],
    ... )
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['', 'a', 'b']
    """
    matches = [getattr(item, "matches", item) for item in found] if hasattr(found, "__iter__") else []
    if not matches or not all(hasattr(item, "pairs") for item in matches):
        raise TypeError("found must be the result of mc.aligned, or a list of model.matches(first, second).")
    first = list(matches[0].first)
    if any(list(item.first) != first for item in matches):
        raise ValueError("All matches must have the same first sequence. Draw them one by one with mc.plot.matches.")
    known = [getattr(item, "name", i) for i, item in enumerate(found)]
    labels = texts(known if names is None else names, len(matches), "names", "matches")
    ax = axes(ax)
    image = np.full((len(matches) + 1, len(first)), np.nan)
    letters = len(first) <= 2 * LETTERS
    size = min(9.0, 72 * ax.get_window_extent().width / ax.figure.dpi / max(len(first), 1) * 1.1)
    for row, item in enumerate(matches, start=1):
        pairs, before = item.pairs(), -1
        for i, j, probability in [*pairs, (len(first), len(item.second), 0.0)]:
            if i < len(first):
                image[row, i] = probability
            if j > before + 1 and pairs:
                ax.plot(i - 0.5, row - 0.42, "v", color=AGAINST, markersize=3)
            before = j
        partner = {i: str(item.second[j]) for i, j, _ in pairs}
        for i in range(len(first)) if letters else ():
            dark = image[row, i] > 0.6
            ax.text(i, row, partner.get(i, "-"), ha="center", va="center", fontsize=size, family="monospace",
                    color="white" if dark else "0.25", parse_math=False)  # fmt: skip
    for i, symbol in enumerate(first) if letters else ():
        ax.text(i, 0, str(symbol), ha="center", va="center", fontsize=size, family="monospace", weight="bold",
                parse_math=False)  # fmt: skip
    shown = ax.imshow(image, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest", aspect="auto")
    ax.figure.colorbar(shown, ax=ax, label="probability of a match", fraction=0.03, pad=0.01)
    ax.set_yticks(np.arange(len(matches) + 1), ["", *labels], parse_math=False)
    ax.set(xlabel="position", xlim=(-0.5, len(first) - 0.5))
    ax.tick_params(axis="y", length=0)
    return ax


# -- letters and bars -------------------------------------------------------------------------------------------------


def _symbols(found: Any, sequences: Any, output: Any) -> tuple[list[Any], Shown]:
    """Return sequences of one length, and their contributions to one output."""
    if hasattr(found, "contributions"):
        shown = shown_of(found, sequences, output)
        words: list[Any] = list(shown.names or [])
        if shown.names is None:
            other = "heatmap" if found.kind == "series" else "track"
            raise ValueError(
                f"A logo is drawn of symbols; this is an explanation of {found.kind}. Use mc.plot.{other}."
            )
    else:
        shown = shown_of(found, None, output)
        if sequences is None:
            raise ValueError(
                "sequences must be the string, or the strings, that the contributions belong to; got None."
            )
        words = [sequences] if np.ndim(found[0]) == 0 else list(sequences)
        if [len(word) for word in words] != [len(values) for values in shown.values]:
            raise ValueError(
                f"Each sequence must have one contribution per symbol; got {[len(word) for word in words]} symbols "
                f"and {[len(values) for values in shown.values]} contributions."
            )
    lengths = {len(word) for word in words}
    if len(lengths) > 1:
        raise ValueError(
            f"A logo of several sequences needs equal lengths; got {min(lengths)} to {max(lengths)}. Cut them around a "
            "common position, or draw one, such as sequences=0."
        )
    return words, shown


def _bars(ax: Any, values: Floats, first: int) -> None:
    """Draw contributions as bars, or as areas if there are many."""
    at = first + np.arange(len(values))
    for sign, color in ((1, FOR), (-1, AGAINST)):
        part = np.where(np.sign(values) == sign, values, 0.0)
        if len(values) <= BARS:
            ax.bar(at, part, width=0.85, color=color)
        else:
            ax.fill_between(at, part, step="mid", color=color, linewidth=0)
    ax.axhline(0, color="0.35", linewidth=0.8)


def _heights(words: list[Any], values: list[Floats]) -> list[dict[str, float]]:
    """Return the height of every symbol at every position: the mean over sequences, zero where it does not occur."""
    stacks: list[dict[str, float]] = [{} for _ in words[0]]
    for word, row in zip(words, values, strict=True):
        for stack, symbol, value in zip(stacks, word, row, strict=True):
            stack[str(symbol)] = stack.get(str(symbol), 0.0) + float(value) / len(words)
    return stacks


def _information(profile: Any) -> list[dict[str, float]]:
    """Return the heights of the symbols at every node of a profile, in bits, without those too small to be seen."""
    if not hasattr(profile, "nodes") or profile.shape not in ((), (1,)):
        raise TypeError(
            f"A logo is drawn of one profile, such as ProfileHMM().fit(X) or profiles[3:4]; got {profile!r}."
        )
    p, background = profile.nodes(0)[0], profile.background.reshape(-1)
    heights = p * np.sum(rel_entr(p, background), axis=1, keepdims=True) / np.log(2)
    symbols, least = [str(s) for s in profile.alphabet.symbols], heights.max() / 500
    return [{s: float(h) for s, h in zip(symbols, row, strict=True) if h > least} for row in heights]


def _palette(symbols: set[str]) -> dict[str, str]:
    """Return the colors of nucleotides, of amino acids, or of any symbols."""
    for scheme, unknown in ((DNA, set("N")), (PROTEIN, set("XBZJUO"))):
        if symbols <= set(scheme) | unknown:
            return scheme
    return {symbol: COLORS[i % len(COLORS)] for i, symbol in enumerate(sorted(symbols))}


def _stacks(ax: Any, heights: list[dict[str, float]], palette: Any, first: int) -> tuple[float, float]:
    """Draw the letters of every position above and below the line; return the lowest and the highest end."""
    low = high = 0.0
    for t, stack in enumerate(heights, first):
        for sign in (1.0, -1.0):
            at = 0.0
            # The largest letter is farthest from the line, where it is seen first.
            for symbol, height in sorted(stack.items(), key=lambda item: abs(item[1])):
                if height * sign > 0:
                    ax.add_patch(_glyph(symbol, t, at if sign > 0 else at + height, abs(height), palette))
                    at += height
            low, high = min(low, at), max(high, at)
    return low, high


def _glyph(symbol: str, t: int, bottom: float, height: float, palette: Any) -> Any:
    """Return a letter as a patch that fills a cell of the logo."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    font = FontProperties(family="DejaVu Sans", weight="bold")
    path = TextPath((0, 0), symbol.replace("$", r"\$"), size=1, prop=font)
    box, usual = path.get_extents(), TextPath((0, 0), "A", size=1, prop=font).get_extents().width
    width = 0.9 * min(1.0, box.width / usual) if len(symbol) == 1 else 0.9  # a thin letter stays thin
    place = Affine2D().translate(-box.x0 - box.width / 2, -box.y0)
    place.scale(width / (box.width or 1.0), height / (box.height or 1.0)).translate(t, bottom)
    return PathPatch(place.transform_path(path), facecolor=palette.get(symbol, COLORS[6]), linewidth=0, gid=symbol)
