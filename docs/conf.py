"""Sphinx configuration. The build needs no network: ``sphinx-build -W -b html docs docs/_build/html``."""

import inspect
import os
import re
import sys
from pathlib import Path

import mercer

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "mercer"
author = "The mercer developers"
copyright = author
release = mercer.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "formula_links",
    "offline",
]
default_role = "py:obj"  # single backticks link to the API
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3  # so that pages can link to one another's sections

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings say more than the annotations
autodoc_default_options = {
    "members": True,
    # Made by scikit-learn for metadata routing; their text links into scikit-learn's own guide.
    "exclude-members": ", ".join(
        f"set_{method}_request" for method in ("fit", "partial_fit", "predict", "predict_proba", "score", "transform")
    ),
}
numpydoc_show_class_members = False  # autodoc lists them already

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "subsection_order": ["../examples/series", "../examples/strings", "../examples/sets", "../examples/graphs"],
    "filename_pattern": r"\.py$",  # every example runs, whatever its name
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 1e6,  # seconds: times depend on the machine of the build
    "write_computation_times": False,
}

# Links into NumPy, SciPy and scikit-learn need their inventories from the network, hence on request only.
if os.environ.get("MERCER_DOCS_LINKS"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_js_files = ["enlarge.js", "code_breaks.js"]
html_theme_options = {
    "logo": {"text": "mercer"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_start": ["navbar-logo", "version"],
    "navbar_end": ["source", "theme-switcher"],
    "show_toc_level": 2,
    "navigation_depth": 2,
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "which_kernel": []}  # no pages below them
mathjax_path = "mathjax/tex-chtml-full.js"
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # a copied doctest is a program
copybutton_prompt_is_regexp = True

# What is taken over as it stands: literals, roles, doctests.
_LITERAL = re.compile(r"(``.*?``|:\w+:`.*?`)")


def escape_norms(app, what, name, obj, options, lines):
    """Keep |x - y| in a docstring a norm: reStructuredText would look for a substitution of that name."""
    indent = None  # of a math directive
    for i, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if line.lstrip().startswith((".. math::", ">>>")):
            indent = depth
        elif indent is not None and line.strip() and depth <= indent and not line.lstrip().startswith("..."):
            indent = None
        if indent is None and "|" in line:
            parts = _LITERAL.split(line)
            lines[i] = "".join(part if j % 2 else part.replace("|", r"\|") for j, part in enumerate(parts))


def show_parameters(app, what, name, obj, options, signature, returned):
    """Show the parameters of a class: where a metaclass checks them first, autodoc sees only ``*args``."""
    if what != "class" or not (signature or "").startswith("(*args"):
        return None
    bare = [p.replace(annotation=p.empty) for p in inspect.signature(obj).parameters.values()]
    return str(inspect.Signature(bare)), returned


def setup(app):
    app.connect("autodoc-process-docstring", escape_norms)
    app.connect("autodoc-process-signature", show_parameters)
