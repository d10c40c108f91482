"""The project's own rules on tensors: in torch, and as fused Triton kernels."""

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapt import compiled_on_gpu
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.errors import UsageError
from simverify.triton_cpu import load_tiles, tl

# In torch, on the CPU and in float64.


def load_contract_module(path: Path) -> Any:
    """Return the module that makes the rules of ``path`` callables, which is the running one's."""
    module = importlib.import_module("simverify.backends.rules")
    if path.resolve().parent != Path(str(module.__file__)).resolve().parent:
        raise UsageError(f"simverify itself runs from {module.__file__}, not from {path}")
    return module


def load_torch_rules(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule as a ``verify`` callable."""
    return load_contract_module(path).torch_rule(rule)  # type: ignore[no-any-return]


def make_torch_rules_engine(
    name: str, source: str, loader: Callable[[Path], Callable[..., Any]]
) -> Engine:
    """Return an engine of the function ``verify`` of a file."""
    return Engine(
        name=name,
        package="simverify",
        source=f"backends/{source}.py",
        function="verify",
        **BLOCK_DEFAULTS,
        tolerance=1e-9,
        loader=loader,
    )


ENGINES: tuple[Engine, ...] = tuple(
    make_torch_rules_engine(f"torch-{rule}", "rules", partial(load_torch_rules, rule))
    for rule in ("token", "block", "match")
)


def load_fused(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule as a ``verify`` callable, its kernels run without a GPU."""
    fused = importlib.import_module("simverify.backends.fused")
    names = ("sum_tiles", "weigh", "sum_laws", "draw")
    kernels = load_tiles(path.with_name("kernels.py"), names)
    known = {name: getattr(fused, name) for name in ("check_verify", "Verified", "UsageError")}
    launch = load_tiles(
        path,
        ["verify"],
        **known,
        _kernels=lambda device: kernels,
        _running=lambda device: nullcontext(),
        _triton_dtype=lambda kind: getattr(tl, str(kind).removeprefix("torch.")),
    )
    return load_contract_module(path).torch_rule(rule, launch=launch.verify)  # type: ignore[no-any-return]


def load_fused_compiled(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule that takes its coins, compiled for the GPU."""
    return load_contract_module(path).fused_coin_rule(rule)  # type: ignore[no-any-return]


def _make_fused_engine(rule: str) -> Engine:
    without = make_torch_rules_engine(f"triton-{rule}", "fused", partial(load_fused, rule))
    return compiled_on_gpu(without, partial(load_fused_compiled, rule))


ENGINES += (_make_fused_engine("token"), _make_fused_engine("block"))
