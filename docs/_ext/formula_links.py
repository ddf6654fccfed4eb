"""Link formula ids such as PPK-3.1, in pages and docstrings, to their entry on the page of formulas."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.util import logging

PAGE = "formulas"
ENTRY = re.compile(r"^([A-Z]+-\w+(?:\.\w+)?), .*\n: ", re.MULTILINE)  # a term of a definition list
ID = re.compile(r"\b[A-Z]+-(?:\d+[a-z]?(?:\.\d+[a-z]?)?|FB)\b")
IN_MATH = re.compile(r"\\text\{\(?([A-Z]+-[\w.]+)\)?\}")
KEPT = (
    *(nodes.literal, nodes.literal_block, nodes.math, nodes.math_block),
    *(nodes.reference, nodes.title, nodes.raw, nodes.image),
)

logger = logging.getLogger(__name__)


def anchor(formula: str) -> str:
    return "formula-" + formula.lower().replace(".", "-")


def read_entries(app) -> None:
    text = (Path(app.srcdir) / f"{PAGE}.md").read_text(encoding="utf-8")
    app.config.formula_ids = set(ENTRY.findall(text))
    app.config.formula_kinds = {formula.partition("-")[0] for formula in app.config.formula_ids}


def add_anchors(app, doctree) -> None:
    """Give every entry of the page of formulas an anchor; the first one counts where two share an id."""
    if app.env.docname != PAGE:
        return
    seen = set()
    for term in doctree.findall(nodes.term):
        found = ID.match(term.astext())
        if found and found[0] not in seen:
            seen.add(found[0])
            term["ids"].append(anchor(found[0]))


def link(app, doctree, docname) -> None:
    if app.builder.format != "html":
        return
    address = "" if docname == PAGE else app.builder.get_relative_uri(docname, PAGE)
    for node in list(doctree.findall(nodes.Text)):
        if not any(isinstance(parent, KEPT) for parent in parents(node)):
            if docname == PAGE and isinstance(node.parent, nodes.term):
                continue  # the entry itself
            new = split(app, str(node), address, docname)
            if len(new) > 1:
                node.parent.replace(node, new)
    for node in doctree.findall(nodes.math_block):  # an equation that ends with its id
        text = IN_MATH.sub(
            lambda m: rf"\href{{{address}#{anchor(m[1])}}}{{{m[0]}}}" if m[1] in app.config.formula_ids else m[0],
            node.astext(),
        )
        node.children = [nodes.Text(text)]


def parents(node):
    while node.parent is not None:
        node = node.parent
        yield node


def split(app, text, address, docname):
    out, last = [], 0
    for found in ID.finditer(text):
        if found[0] not in app.config.formula_ids:
            if found[0].partition("-")[0] in app.config.formula_kinds - {"C"}:
                logger.warning("%s is cited but is not on the page of formulas", found[0], location=docname)
            continue
        target = nodes.reference("", found[0], internal=True, refuri=f"{address}#{anchor(found[0])}")
        target["classes"].append("formula")
        out += [nodes.Text(text[last : found.start()]), target]
        last = found.end()
    return [*out, nodes.Text(text[last:])]


def setup(app):
    app.add_config_value("formula_ids", set(), "")
    app.add_config_value("formula_kinds", set(), "")
    app.connect("builder-inited", read_entries)
    app.connect("doctree-read", add_anchors)
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
