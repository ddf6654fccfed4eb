"""The page: one file that needs no network and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files

from mercer._report.drawing import markers, text


def page(title: str, lead: str, body: str, hover: dict[str, list[str]], provenance: Iterable[str]) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        The title.
    lead : str
        HTML below it.
    body : str
        HTML of the sections.
    hover : dict
        Texts of the points of charts, by the name of the data.
    provenance : iterable of str
        Plain lines of the footer.
    """
    style, script = (files("mercer._report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing is loaded, and no script runs but this one, whatever the data contain.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    data = "".join(
        f'<script type="application/json" id="{name}">{_json(texts)}</script>' for name, texts in hover.items()
    )
    footer = "<br>".join(text(line) for line in provenance)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head><body>'
        f'{markers()}<header><h1>{text(title)}</h1><button id="theme" type="button" hidden></button></header>'
        f'<main>{lead}{body}</main><footer>{footer}</footer><div id="tip" hidden></div>'
        f'<div id="said" aria-live="polite"></div>{data}<script>{script}</script>'
        "</body></html>\n"
    )


def _json(texts: list[str]) -> str:
    """Return JSON that cannot end the element that it is in."""
    return json.dumps(texts).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
