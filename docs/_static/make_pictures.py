"""Run the code of pages and keep the pictures that they show. Run: python docs/_static/make_pictures.py [PAGE ...]."""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

STATIC = Path(__file__).resolve().parent
PAGES = ("plot.md", "tutorials/dynamics.md", "tutorials/streams.md")


def main(pages: tuple[str, ...]) -> None:
    for page in pages:
        text = (STATIC.parent / page).read_text(encoding="utf-8")
        shown = re.findall(r"!\[[^]]*\]\((?:\.\./)*_static/([\w.]+)\)", text)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            names: dict[str, object] = {}
            for code in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
                if ">>> " not in code:  # doctests draw nothing
                    exec(code, names)
            for picture in shown:
                shutil.copy(picture, STATIC / picture)
            os.chdir(STATIC)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or PAGES)
