"""Run the code of pages and keep the pictures that they show: ``python docs/pictures.py [PAGE ...]``.

A page shows the picture ``_static/NAME`` and its code saves ``NAME``. Without arguments all such pages run, some
minutes; name pages, such as ``kernels/fisher.md``, to draw only theirs.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib
from cycler import cycler

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

from mercer.plot.style import COLORS

DOCS = Path(__file__).resolve().parent
STATIC = DOCS / "_static"
STYLE = {
    "savefig.dpi": 170,  # about two dots per pixel of the page
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLORS),
    "lines.linewidth": 1.6,
}
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(text: str) -> list[str]:
    """Return the names of the pictures that a page both saves and shows."""
    saved = re.findall(r"savefig\(\"([\w.]+)\"", text)
    return [name for name in re.findall(r"_static/([\w.]+)\)", text) if name in saved]


def draw(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, plt.rc_context(STYLE):
        os.chdir(folder)
        names: dict[str, object] = {"__name__": "page"}
        for not_run, code in BLOCK.findall(text):
            if ">>> " in code:  # what later blocks need of a doctest: its statements
                code = "\n".join(line[4:] for line in code.splitlines() if line.startswith((">>> ", "... ")))
            if not not_run:
                run(code, names)
        for picture in shown(text):
            shrink(Path(picture), STATIC / picture)
            print(f"{picture}: {(STATIC / picture).stat().st_size // 1024} kB")
        os.chdir(DOCS)
    plt.close("all")


def run(code: str, names: dict[str, object]) -> None:
    try:
        exec(code, names)
    except Exception:
        if "savefig" in code:
            raise  # others may show an error on purpose


def shrink(source: Path, target: Path) -> None:
    """Write a PNG with a palette of 256 colors, a third of the size."""
    if source.suffix == ".png":
        image = Image.open(source).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        image.save(target, optimize=True)
    else:
        target.write_bytes(source.read_bytes())


if __name__ == "__main__":
    chosen = [DOCS / name for name in sys.argv[1:]] or sorted(
        path for path in DOCS.rglob("*.md") if shown(path.read_text(encoding="utf-8"))
    )
    for page in chosen:
        draw(page)
