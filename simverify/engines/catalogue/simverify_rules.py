"""The project's own rules on tensors: in torch, and as fused Triton kernels."""

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapt import compiled_on_gpu
from simverify.engines.base import Engine
from simverify.engines.declare import make_engine
from simverify.errors import UsageError
from simverify.triton_cpu import load_tiles, tl


def _contract_module(path: Path) -> Any:
    """Return the module that makes the rules of ``path`` callables, which is the running one's."""
    module = importlib.import_module("simverify.backends.rules")
    if path.resolve().parent != Path(str(module.__file__)).resolve().parent:
        raise UsageError(f"simverify itself runs from {module.__file__}, not from {path}")
    return module


def _load_torch_rule(rule: str, path: Path) -> Any:
    return _contract_module(path).torch_rule(rule)


def _make_engine(name: str, source: str, loader: Callable[[Path], Callable[..., Any]]) -> Engine:
    place = f"simverify/backends/{source}.py:verify"
    return make_engine(name, place, "simverify", "", loader, tolerance=1e-9)


TORCH_ENGINES = tuple(
    _make_engine(f"torch-{rule}", "rules", partial(_load_torch_rule, rule))
    for rule in ("token", "block", "match")
)


def _load_fused(rule: str, path: Path) -> Any:
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
    return _contract_module(path).torch_rule(rule, launch=launch.verify)


def load_fused_compiled(rule: str, path: Path) -> Any:
    """Return a rule that takes its coins, compiled for the GPU."""
    return _contract_module(path).fused_coin_rule(rule)


FUSED_ENGINES = tuple(
    compiled_on_gpu(
        _make_engine(f"triton-{rule}", "fused", partial(_load_fused, rule)),
        partial(load_fused_compiled, rule),
    )
    for rule in ("token", "block")
)
