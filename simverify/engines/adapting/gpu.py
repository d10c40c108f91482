"""Engines of Triton kernels, which are audited in another way where there is a GPU."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from simverify.engines.base import Engine
from simverify.engines.tiles import ON_CPU


def compiled_on_gpu(
    engine: Engine, loader: Callable[[Path], Callable[..., Any]], **fields: Any
) -> Engine:
    """Return an engine that runs on :mod:`~simverify.engines.tiles` unless there is a GPU.

    On one its kernels are compiled by ``loader``, and its coins, which are arguments then, are
    bisected. ``fields``: what else is other than in ``engine`` there.
    """
    needs = (*engine.needs, "triton")
    compiled = replace(engine, tier="coins", loader=loader, needs=needs, **fields)
    return replace(engine, note=ON_CPU, on_gpu=compiled)
