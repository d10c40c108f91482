"""Puts torch's twins in place: its functions, its generators, and the mode that follows calls."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.torch import vmap
from simverify.symbolic.generators.torch.defaults import module_functions
from simverify.symbolic.generators.torch.rng import SymbolicTorch
from simverify.symbolic.generators.torch.state import RealGenerator, Streams, SymbolicTorchGenerator
from simverify.symbolic.stand_ins.lift import Lift


@contextmanager
def torch_intercepted(
    source: Source,
    swap: Callable[[Any, str, Any], None],
    lift: Lift | None,
    *,
    plain: bool = False,
) -> Iterator[Callable[[Any], Any]]:
    """Follow torch until left, on one thread; yields what stands for a kept generator.

    ``swap(owner, name, new)`` replaces a name for the duration; ``lift``: types that count as
    float64; ``plain``: draws are numbers, and nothing has to be followed.
    """
    streams = Streams(source)
    twin: Any = type("Generator", (SymbolicTorchGenerator,), {"streams": streams})
    for owner, name, new in module_functions(source, streams):
        swap(owner, name, new)
    swap(torch, "Generator", twin)

    if plain:
        from simverify.symbolic.plain.torch_plain import PlainTorch

        mode: SymbolicTorch = PlainTorch(source, streams, lift)
    else:
        mode = SymbolicTorch(source, streams, lift)
        for name in ("from_numpy", "as_tensor", "asarray", "tensor"):
            swap(torch, name, mode.ops.converter(name, getattr(torch, name)))
    swap(vmap.OWNER, "vmap_impl", vmap.row_by_row(source, lambda: mode.drawn))
    source.on_begin.append(mode.shadows.clear)
    threads = torch.get_num_threads()

    twins: dict[int, tuple[Any, Any]] = {}

    def kept(value: Any) -> Any:
        if type(value) is not RealGenerator:
            return None
        if id(value) not in twins:
            twins[id(value)] = (value, twin.unseeded())
        return twins[id(value)][1]

    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, threads)
        torch.set_num_threads(1)
        if lift == "single":
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float64)
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        swap(threading.Thread, "_bootstrap_inner", _in_threads(mode))
        stack.callback(setattr, mode, "closed", True)
        stack.enter_context(mode)
        yield kept


def _in_threads(mode: SymbolicTorch) -> Callable[[Any], None]:
    """Return what threads run: torch keeps its modes by thread."""
    original: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def run(thread: Any) -> None:
        with mode:
            original(thread)

    return run
