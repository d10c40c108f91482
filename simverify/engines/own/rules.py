"""The project's own rules in torch, on the CPU and in float64."""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import BLOCK, Engine
from simverify.errors import UsageError


def contract(path: Path) -> Any:
    """Return the module that makes the rules of ``path`` callables, which is the running one's."""
    module = importlib.import_module("simverify.backends.contract")
    if path.resolve().parent != Path(str(module.__file__)).resolve().parent:
        raise UsageError(f"simverify itself runs from {module.__file__}, not from {path}")
    return module


def load(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule as a ``verify`` callable."""
    return contract(path).torch_rule(rule)  # type: ignore[no-any-return]


def engine(name: str, source: str, loader: Callable[[Path], Callable[..., Any]]) -> Engine:
    """Return an engine of the function ``verify`` of a file."""
    return Engine(
        name=name,
        package="simverify",
        source=f"backends/{source}.py",
        function="verify",
        **BLOCK,
        tolerance=1e-9,
        loader=loader,
    )


ENGINES = tuple(
    engine(f"torch-{rule}", "rules", partial(load, rule)) for rule in ("token", "block", "match")
)
