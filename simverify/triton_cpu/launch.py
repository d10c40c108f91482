"""A file's kernels and the function that launches them, loaded without Triton and without a GPU."""

import ast
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from simverify.engines.extract import load_pieces
from simverify.errors import SimverifyError
from simverify.triton_cpu.language import kernel_range, tl, triton

# Kernels launched vLLM's way: by a decorator.


def dispatcher(kernel: Any, warmup_inputs: Any = None) -> Callable[..., Any]:
    """Return the decorator that launches ``kernel`` as the decorated function says.

    The function returns grid and constants. The kernel's other arguments are the call's, whose
    names lack the kernel's ``_ptr``. Nothing is warmed up.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def launch(*args: Any, **named: Any) -> None:
            grid, constants = function(*args, **named)
            given = {**inspect.signature(function).bind(*args, **named).arguments, **constants}
            kernel[grid](**{n: given[n.removesuffix("_ptr")] for n in kernel.arg_names})

        return launch

    return decorate


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
    standing = {"tl": tl, "triton": triton, "range": kernel_range, **given}
    module = load_pieces(file, names, **standing)
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    loaded = [
        x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef) and x.name in vars(module)
    ]
    for node, part in ((x, part) for x in loaded for part in ast.walk(x)):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            module_names = {"tl": tl, "triton": triton}.get(part.value.id)
            if module_names is not None and part.attr not in vars(module_names):
                raise SimverifyError(
                    f"{file}:{part.lineno}: {node.name} uses {part.value.id}.{part.attr}, which is "
                    "not known here: without a GPU it runs in Triton's interpreter alone "
                    "(TRITON_INTERPRET=1)"
                )
    return module
