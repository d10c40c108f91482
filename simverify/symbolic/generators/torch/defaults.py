"""torch's default generators, one a device, and the functions that seed and keep them."""

from collections.abc import Callable
from typing import Any

import torch

from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.torch.state import Streams, SymbolicTorchGenerator
from simverify.symbolic.streams import Stream


class DefaultGenerator(SymbolicTorchGenerator):
    """What stands for ``torch.default_generator``."""

    def __init__(self, device: Any = "cpu") -> None:
        """Nothing is seeded by it."""

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
        for name in torch.random.__all__
        if name not in written_in_python
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


def _functions_of(default: "DefaultGenerator", streams: Streams) -> dict[str, Any]:
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
