"""The project's own rules as fused Triton kernels."""

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapting.gpu import compiled_on_gpu
from simverify.engines.base import Engine
from simverify.engines.own.rules import contract, engine
from simverify.engines.tiles import load_tiles, tl


def load(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule as a ``verify`` callable, its kernels run without a GPU."""
    fused = importlib.import_module("simverify.backends.fused")
    names = ("sum_tiles", "weigh", "sum_laws", "draw")
    kernels = load_tiles(path.with_name("kernels.py"), names)
    known = {name: getattr(fused, name) for name in ("verify_iv", "Verified", "UsageError")}
    launch = load_tiles(
        path,
        ["verify"],
        **known,
        _kernels=lambda device: kernels,
        _running=lambda device: nullcontext(),
        _triton_dtype=lambda kind: getattr(tl, str(kind).removeprefix("torch.")),
    )
    return contract(path).torch_rule(rule, launch=launch.verify)  # type: ignore[no-any-return]


def load_compiled(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule that takes its coins, compiled for the GPU."""
    return contract(path).fused_coins(rule)  # type: ignore[no-any-return]


def _engine(rule: str) -> Engine:
    without = engine(f"triton-{rule}", "fused", partial(load, rule))
    return compiled_on_gpu(without, partial(load_compiled, rule))


ENGINES = (_engine("token"), _engine("block"))
