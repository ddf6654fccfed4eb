"""Ship MathJax with the pages, and see that no page loads anything from the network."""

import importlib.util
import re
import shutil
from pathlib import Path

from sphinx.errors import ExtensionError
from sphinx.util import logging

SCRIPT = "tex-chtml-full.js"  # every TeX extension inside, so that it loads nothing but its fonts
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["'](?:https?:)?//[^"']+""")

logger = logging.getLogger(__name__)


def source() -> Path:
    """Return the folder of the MathJax that the package sphinx-mathjax-offline holds."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise ExtensionError("MathJax is not installed. Run pip install -e '.[docs]'.")
    return Path(spec.origin).parent / "static" / "mathjax"


def copy_mathjax(app, exception) -> None:
    """Copy the script and its fonts, 2 MB of the 24 MB that the package holds."""
    if exception is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / "mathjax"
        fonts = Path("output") / "chtml" / "fonts" / "woff-v2"
        shutil.copytree(source() / fonts, target / fonts, dirs_exist_ok=True)
        shutil.copy(source() / SCRIPT, target / SCRIPT)


def check_pages(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):
            for found in LOADED.findall(page.read_text(encoding="utf-8")):
                logger.warning("%s loads from the network: %s", page.relative_to(app.outdir), found)


def setup(app):
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", check_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
