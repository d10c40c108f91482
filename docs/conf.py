"""Sphinx's settings. ``sphinx-build -W -b html docs build/docs`` builds the pages."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "simverify"
author = "the simverify authors"
version = release = installed("simverify")

extensions = ["myst_parser", "mathml", "generated"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_all_links_external = False

nitpicky = True
html_theme = "furo"
html_title = f"simverify {version}"
html_static_path = ["_static"]
# Formulas are MathML: a page needs no script and no network to show them.
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
