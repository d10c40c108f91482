"""Formulas as MathML, which browsers show by themselves: no script, no network, no TeX.

docutils translates LaTeX to MathML; Sphinx's own HTML writer lacks only this renderer.
"""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_LOG = logging.getLogger(__name__)


def _mathml(node: Any, *, block: bool) -> str:
    try:
        return str(tex2mathml(node.astext(), as_block=block))
    except MathError as error:
        _LOG.warning("formula is not understood: %s (%s)", error, node.astext(), location=node)
        return ""


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name that ``conf.py`` chooses."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
