"""Puts torch's twins in place: its functions, its generators, and the mode that follows calls.

The generators include the default ones, one a device, and the functions that seed and keep them.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch

from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.torch import vmap
from simverify.symbolic.generators.torch.rng import SymbolicTorch
from simverify.symbolic.generators.torch.state import RealGenerator, Streams, SymbolicTorchGenerator
from simverify.symbolic.stand_ins.lift import Lift
from simverify.symbolic.streams import Stream


class DefaultGenerator(SymbolicTorchGenerator):
    """What stands for the default generator of a device.

    It does not touch the device: a GPU would be begun to be used, for half a second and hundreds
    of megabytes, and cannot be in a process forked from one that uses it.
    """

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return torch's own generator of the CPU, whatever device this one stands for."""
        return super().__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        """Nothing is seeded by it."""
        self._stands_on = torch.device(device)

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that it stands for."""
        return self._stands_on

    @property
    def stream(self) -> Stream:  # type: ignore[override]
        """The stream that functions without a generator draw from."""
        return self.streams.of(None, self.device.type)

    def manual_seed(self, seed: Any) -> Any:
        """Go to the draws after a seed, on this device alone."""
        self._seed_with(self.streams.name(seed))
        self.streams._initial = seed
        return self

    def seed(self) -> Any:
        """Go to fresh draws, and return what they follow."""
        number, _ = self.streams.fresh_seed()
        self.manual_seed(number)
        return number

    def initial_seed(self) -> Any:
        """Return what it was seeded with."""
        return self.streams.initial_seed()


def module_functions(source: Source, streams: Streams) -> list[tuple[Any, str, Any]]:
    """Return ``(module, name, function)`` for the functions that seed and keep states.

    Those that a later torch adds are refused.
    """
    ours = _functions_of(_default_of(streams, "cpu"), streams)
    written_in_python = {"fork_rng"}
    patches = [
        (torch.random, name, ours.get(name, _refused(source, name)))
        for name, value in list(vars(torch.random).items())
        # Torch 2.11 and older have no __all__ there.
        if isinstance(value, FunctionType) and value.__module__ == torch.random.__name__
        if not name.startswith("_") and name not in written_in_python
    ]
    patches += [(torch, name, new) for name, new in ours.items()]
    patches.append((torch.random, "default_generator", ours["default_generator"]))
    for device in ("cuda", "mps", "xpu"):
        module = getattr(torch, device, None)
        if module is None or not module.is_available():
            continue
        known = _functions_of(_default_of(streams, device), streams)
        for name in dir(module):
            if name.endswith(("seed", "seed_all", "rng_state", "rng_state_all")):
                new = known.get(name.removesuffix("_all") if "seed" in name else name)
                patches.append((module, name, new or _refused(source, f"{device}.{name}")))
    return patches


def _functions_of(default: DefaultGenerator, streams: Streams) -> dict[str, Any]:
    """Return the functions of a module that work on the default generator of a device."""

    def manual_seed(seed: Any) -> Any:
        streams.seed_all(seed)
        return default

    def set_rng_state(new_state: Any, device: Any = None) -> None:
        default.set_state(new_state)

    on_cpu = default.device.type == "cpu"
    return {
        "manual_seed": manual_seed if on_cpu else default.manual_seed,
        "seed": streams.seed_all_fresh if on_cpu else default.seed,
        "initial_seed": default.initial_seed,
        "get_rng_state": lambda device=None: default.get_state(),
        "set_rng_state": set_rng_state,
        **({"default_generator": default} if on_cpu else {}),
    }


def _default_of(streams: Streams, device: str) -> DefaultGenerator:
    kind = type("Generator", (DefaultGenerator,), {"streams": streams})
    default: DefaultGenerator = kind(device)
    return default


def _refused(source: Source, name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: source.refuse(f"torch.{name}")


class PlainTorch(SymbolicTorch):
    """Chooses the values of random functions; their tensors are torch's own.

    torch itself says dtype, device and shape, and what it refuses; the twin says the values. All
    other functions are torch's: nothing is followed here.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one torch call."""
        kwargs = kwargs or {}
        if self.closed:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        random = self._random.get(name)
        if random is None:
            self.must_not_draw(name, args, kwargs)
        shown = func(*args, **kwargs)
        if random is None:
            return shown
        value = self.drawing(random, args, kwargs)
        if name.endswith("_"):
            return shown  # in place: it holds the values by now
        if value.shape != shown.shape:
            self.source.refuse(f"torch.{name}, which torch gives the shape {tuple(shown.shape)}")
        return shown.copy_(value)


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

    mode: SymbolicTorch
    if plain:
        mode = PlainTorch(source, streams, lift)
    else:
        mode = SymbolicTorch(source, streams, lift)
        for name in ("from_numpy", "as_tensor", "asarray", "tensor"):
            swap(torch, name, mode.ops.converter(name, getattr(torch, name)))
    swap(vmap.OWNER, "vmap_impl", vmap.row_by_row(source, lambda: mode.drawn))
    source.on_begin.append(mode.shadows.clear)
    source.tensors = mode.shadows
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
