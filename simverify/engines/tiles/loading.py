"""A file's kernels and the function that launches them, without Triton and without a GPU."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from simverify.engines.loading.pieces import load_pieces
from simverify.engines.tiles.kernels import loop
from simverify.engines.tiles.language import tl, triton
from simverify.errors import SimverifyError


def load_tiles(path: Any, names: Sequence[str], **given: Any) -> ModuleType:
    """Return a module that holds the named functions of a file, whose kernels run here.

    Parameters
    ----------
    path
        A file that imports ``triton`` and ``triton.language as tl``.
    names
        Functions, kernels and constants of it; what they use of the file comes with them.
    given
        What stands in the place of other names that the file imports or defines.

    Raises ``SimverifyError`` with one line if the file uses what is not known here: a name of
    ``tl``, with its line, or an import that ``given`` does not have.
    """
    file = Path(path)
    if not file.is_file():
        raise SimverifyError(f"no file {file}: name the source of a Triton kernel")
    standing = {"tl": tl, "triton": triton, "range": loop, **given}
    module = load_pieces(file, names, **standing)
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    loaded = [
        x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef) and x.name in vars(module)
    ]
    _known_iv(file, loaded)
    return module


def _known_iv(file: Path, loaded: list[ast.FunctionDef]) -> None:
    """Look through the functions that were loaded for names of ``tl`` that are not known."""
    for node in loaded:
        for line, text in _unknown(node):
            raise SimverifyError(
                f"{file}:{line}: {node.name} uses {text}, which is not known here: without a GPU "
                "it runs in Triton's interpreter alone (TRITON_INTERPRET=1)"
            )


def _unknown(node: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            names = {"tl": tl, "triton": triton}.get(part.value.id)
            if names is not None and part.attr not in vars(names):
                yield part.lineno, f"{part.value.id}.{part.attr}"
