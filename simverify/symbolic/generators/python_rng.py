"""The ``random`` module, made symbolic.

Its functions are methods of one hidden ``Random`` that call ``random``, ``_randbelow`` and
``getrandbits``; those are replaced on the classes, so bound methods that the code imported
earlier follow. The ones written in C are replaced by name as well.
"""

import random
import secrets
from collections.abc import Callable, Hashable
from typing import Any

from simverify.symbolic.draws.integers import FEW_CELLS
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.uniforms import Uniform
from simverify.symbolic.generators.numpy_rng import seed_key
from simverify.symbolic.generators.sampler import wide_integer
from simverify.symbolic.source import Source, Stream

_GLOBAL: Any = random._inst


class _Streams:
    """The stream of every ``Random`` instance seen."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._streams: dict[int, tuple[Any, Stream]] = {}

    def of(self, instance: Any) -> Stream:
        if id(instance) not in self._streams:
            self._streams[id(instance)] = (instance, Stream())
        stream = self._streams[id(instance)][1]
        if stream.epoch != self.source.epoch:
            stream.key, stream.position, stream.epoch = None, 0, self.source.epoch
        return stream


def patched_methods(source: Source) -> list[tuple[Any, str, Callable[..., Any]]]:
    """``(class, name, method)`` to set on ``random.Random`` and ``SystemRandom``."""
    methods = _methods(source)
    return [
        (owner, name, method)
        for owner in (random.Random, random.SystemRandom)
        for name, method in methods.items()
    ]


def patched_functions(source: Source) -> dict[str, Callable[..., Any]]:
    """Return replacements by name for the module's functions that never reach a method."""
    methods = _methods(source)

    def bound(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: method(_GLOBAL, *args, **kwargs)

    public = ("random", "getrandbits", "seed", "expovariate", "getstate", "setstate", "randbytes")
    return {name: bound(methods[name]) for name in public}


def patched_secrets(source: Source) -> dict[str, Callable[..., Any]]:
    """Return replacements for what :mod:`secrets` bound to its own generator at import."""
    system: Any = secrets.SystemRandom()
    below = _methods(source)["_randbelow"]

    def refusal(name: str) -> Callable[..., Any]:
        return lambda *args: source.refuse(f"secrets.{name}")

    return {
        "randbits": lambda k: below(system, 2**k),
        **{name: refusal(name) for name in ("token_bytes", "token_hex", "token_urlsafe")},
    }


def _methods(source: Source) -> dict[str, Callable[..., Any]]:
    streams = _streams_of(source)

    def draw(self: Any) -> Any:
        return source.uniform(streams.of(self))

    def below(self: Any, n: int) -> Any:
        u = draw(self)
        if n > FEW_CELLS:
            return wide_integer(n, u)
        cuts = [i / n for i in range(1, n)]
        return u.locate(cuts) if isinstance(u, Uniform) else sum(u >= c for c in cuts)

    def getrandbits(self: Any, k: int) -> Any:
        return below(self, 2**k)

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        source.seed(streams.of(self), _key(a))

    def expovariate(self: Any, lambd: float = 1.0) -> Any:
        return source.exponential(streams.of(self)) / lambd

    def refusal(name: str) -> Callable[..., Any]:
        def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
            return source.refuse(f"random.{name}")

        return refuse

    return {
        "random": draw,
        "_randbelow": below,
        "getrandbits": getrandbits,
        "seed": seed,
        "expovariate": expovariate,
        **{name: refusal(name) for name in ("getstate", "setstate", "randbytes")},
    }


def _streams_of(source: Source) -> _Streams:
    if source.python_streams is None:
        source.python_streams = _Streams(source)
    streams: _Streams = source.python_streams
    return streams


def _key(seed: Any) -> Hashable:
    if isinstance(seed, Draw):
        return seed_key(seed, "random")
    return None if seed is None else ("random", repr(seed), ())
