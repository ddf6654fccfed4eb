"""Draw the rooms of the package, for docs/architecture.md. Run: python docs/_static/make_rooms.py."""

from pathlib import Path

ROOMS = (
    ("core", ("arrays, batches,", "settings, threads"), "#e8edf2"),
    ("_native", ("recursions in", "SIMD lanes"), "#f4ecf7"),
    ("cuda", ("Triton kernels", "for GPUs"), "#f4ecf7"),
    ("data", ("Sequences,", "alphabets"), "#e8edf2"),
    ("families", ("Gaussian,", "Multinomial, ..."), "#dceaf7"),
    ("models", ("mixtures,", "HMMs"), "#dceaf7"),
    ("gram", ("the engine: tiles,", "memo, diagnosis"), "#fbe6d6"),
    ("kernels", ("what a user", "composes"), "#dff0dc"),
    ("embedding", ("HMMs in feature", "space"), "#dff0dc"),
    ("datasets", ("generators,", "loaders"), "#e8edf2"),
    ("cli, plot", ("stats, saving,", "testing, reports"), "#e8edf2"),
)
WIDTH, HEIGHT, GAP, TOP = 108, 84, 12, 66


def main() -> None:
    total = len(ROOMS) * (WIDTH + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} 268" font-family="Helvetica, sans-serif">',
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L10 5 L0 10 z" fill="#666"/></marker></defs>',
        f'<rect width="{total}" height="268" fill="#ffffff"/>',
    ]
    for i, (name, lines, color) in enumerate(ROOMS):
        x = left(i)
        parts.append(
            f'<rect x="{x}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" rx="7" fill="{color}" stroke="#8a97a5"/>'
        )
        parts.append(text(x + WIDTH / 2, TOP + 26, name, 15, bold=True))
        parts += [text(x + WIDTH / 2, TOP + 50 + 17 * j, line, 12) for j, line in enumerate(lines)]
    parts += arrow(left(0) + 4, left(len(ROOMS) - 1) + WIDTH - 4, 44, "data flow this way", 28)
    parts += arrow(
        left(len(ROOMS) - 1) + WIDTH - 4,
        left(0) + 4,
        176,
        "imports go this way; _native, cuda and gram import core only",
        196,
    )
    # The two conversations of the protocol page.
    parts += bracket(4, 5, 214, "couplings: leaves and models")
    parts += bracket(6, 7, 214, "tiles: engine and kernels")
    parts.append("</svg>")
    Path(__file__).with_name("rooms.svg").write_text("\n".join(parts) + "\n", encoding="utf-8")


def left(i: int) -> int:
    return GAP + i * (WIDTH + GAP)


def text(x: float, y: float, content: str, size: int, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{weight} text-anchor="middle" fill="#222">{content}</text>'


def arrow(start: float, end: float, y: float, label: str, label_y: float) -> list[str]:
    line = f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="#666" stroke-width="1.5" marker-end="url(#head)"/>'
    return [line, text((start + end) / 2, label_y, label, 13)]


def bracket(first: int, last: int, y: float, label: str) -> list[str]:
    a, b = left(first) + 4, left(last) + WIDTH - 4
    path = f'<path d="M{a} {y} v8 H{b} v-8" fill="none" stroke="#666" stroke-width="1.5"/>'
    return [path, text((a + b) / 2, y + 26, label, 13)]


if __name__ == "__main__":
    main()
