"""The project's own rules on tensors, audited like anyone else's."""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.backends.interpreter import load_triton
from simverify.engines.base import Engine
from simverify.errors import UsageError


def load_torch(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule in torch, on the CPU and in float64, as a ``verify`` callable."""
    return _contract(path).torch_rule(rule)  # type: ignore[no-any-return]


def load_fused(rule: str, path: Path) -> Callable[..., Any]:
    """Return a fused rule with its coins as arguments: on the GPU, or in Triton's interpreter.

    Raises ``SimverifyError`` if it is too late to choose the interpreter.
    """
    contract = _contract(path)
    _, device = load_triton(lambda: importlib.import_module("simverify.backends.kernels"))
    return contract.fused_coins(rule, device=device)  # type: ignore[no-any-return]


def _contract(path: Path) -> Any:
    module = importlib.import_module("simverify.backends.contract")
    if path.resolve().parent != Path(str(module.__file__)).resolve().parent:
        raise UsageError(f"simverify itself runs from {module.__file__}, not from {path}")
    return module


def _engine(name: str, source: str, tier: Any, loader: Any, *needs: str) -> Engine:
    return Engine(
        name=name,
        package="simverify",
        source=f"backends/{source}.py",
        function="verify",
        contract="verify",
        tier=tier,
        tolerance=1e-9,
        loader=loader,
        needs=("torch", *needs),
    )


ENGINES = (
    *(
        _engine(f"torch-{rule}", "rules", "exact", partial(load_torch, rule))
        for rule in ("token", "block", "match")
    ),
    *(
        _engine(f"triton-{rule}", "fused", "coins", partial(load_fused, rule), "triton")
        for rule in ("token", "block")
    ),
)
