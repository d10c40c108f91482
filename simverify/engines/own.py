"""The project's own rules on tensors, audited like anyone else's."""

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import Engine
from simverify.engines.tiles import ON_CPU, load_tiles, tl
from simverify.errors import UsageError


def load_torch(rule: str, path: Path) -> Callable[..., Any]:
    """Return a rule in torch, on the CPU and in float64, as a ``verify`` callable."""
    return _contract(path).torch_rule(rule)  # type: ignore[no-any-return]


def load_fused(rule: str, path: Path) -> Callable[..., Any]:
    """Return a fused rule as a ``verify`` callable, its kernels run without a GPU."""
    contract = _contract(path)
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
    return contract.torch_rule(rule, launch=launch.verify)  # type: ignore[no-any-return]


def load_compiled(rule: str, path: Path) -> Callable[..., Any]:
    """Return a fused rule that takes its coins, compiled for the GPU."""
    return _contract(path).fused_coins(rule)  # type: ignore[no-any-return]


def _contract(path: Path) -> Any:
    module = importlib.import_module("simverify.backends.contract")
    if path.resolve().parent != Path(str(module.__file__)).resolve().parent:
        raise UsageError(f"simverify itself runs from {module.__file__}, not from {path}")
    return module


def _engine(name: str, source: str, loader: Callable[[Path], Callable[..., Any]]) -> Engine:
    return Engine(
        name=name,
        package="simverify",
        source=f"backends/{source}.py",
        function="verify",
        contract="verify",
        tier="exact",
        tolerance=1e-9,
        loader=loader,
        needs=("torch",),
    )


def _fused(rule: str) -> Engine:
    engine = _engine(f"triton-{rule}", "fused", partial(load_fused, rule))
    compiled = replace(
        engine, tier="coins", loader=partial(load_compiled, rule), needs=("torch", "triton")
    )
    return replace(engine, note=ON_CPU, on_gpu=compiled)


ENGINES = (
    *(
        _engine(f"torch-{rule}", "rules", partial(load_torch, rule))
        for rule in ("token", "block", "match")
    ),
    _fused("token"),
    _fused("block"),
)
