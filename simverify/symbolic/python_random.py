"""The ``random`` module, made symbolic.

Its functions are methods of one hidden ``Random`` that call ``random``, ``_randbelow`` and
``getrandbits``; those are replaced on the classes, so bound methods that the code imported
earlier follow. The ones written in C are replaced by name as well. A method that is not known
here, as one that a later Python adds, is refused.
"""

__simverify_role__ = "stand-in"


import random
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.symbolic.compiled import seed_of
from simverify.symbolic.numpy_random import legacy_constant_seed
from simverify.symbolic.provenance import names
from simverify.symbolic.sampler import (
    MIN_COMPILED_SEEDS,
    StatePlaceholder,
    draw_integer,
    make_seed,
    put_state,
    state_placeholder,
)
from simverify.symbolic.source import RandomSource, refusing_call
from simverify.symbolic.streams import GeneratorSeed, Stream, shared_start

_GLOBAL_RANDOM: Any = random._inst
_C_RANDOM: Any = random.Random.__mro__[1]
_REAL_SEED: Any = random.Random.seed

DERIVED_METHODS = names("choice choices paretovariate randint randrange sample shuffle uniform")
"""Methods written in Python on top of those that are replaced; their draws are ours."""

_NON_METHODS = {"VERSION"}


class _RandomStreams:
    """The stream of every ``Random`` instance seen on a path.

    ``compiled``: what numba compiles is run, where ``random`` has a generator of its own.
    """

    def __init__(self, source: RandomSource) -> None:
        self.source = source
        self._streams: dict[int, tuple[Any, Stream]] = {}
        self._epoch = -1
        self.compiled = False

    def of(self, instance: Any) -> Stream:
        if self._epoch != self.source.epoch:
            self._streams.clear()
            self._epoch = self.source.epoch
        place = 0 if self.compiled and instance is _GLOBAL_RANDOM else id(instance)
        if place not in self._streams:
            stream = Stream(outside=instance is _GLOBAL_RANDOM)
            if place and (start := shared_start(instance)) is not None:
                self.source.sequences.join(stream, start)
            self._streams[place] = (instance, stream)
        return self._streams[place][1]


def method_patches(source: RandomSource) -> list[tuple[Any, str, Callable[..., Any]]]:
    """``(class, name, method)`` to set on ``random.Random`` and ``SystemRandom``."""
    methods = _symbolic_methods(source)
    system = {"seed": lambda self, *args, **kwargs: None}
    system |= dict.fromkeys(("getstate", "setstate"), _unsupported_method)
    return [
        *((random.Random, name, method) for name, method in methods.items()),
        *((random.SystemRandom, name, method) for name, method in (methods | system).items()),
        # Python's own hashes the seed, which may be a draw; __init__ seeds it anyway.
        (random.Random, "__new__", staticmethod(lambda cls, *_, **__: _C_RANDOM.__new__(cls))),
    ]


def function_patches(source: RandomSource) -> dict[str, Callable[..., Any]]:
    """Return replacements by name for the module's functions that never reach a method."""
    methods = _symbolic_methods(source)

    def bound(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: method(_GLOBAL_RANDOM, *args, **kwargs)

    return {
        name: bound(method) for name, method in methods.items() if callable(vars(random).get(name))
    }


def secrets_patches(source: RandomSource) -> dict[str, Callable[..., Any]]:
    """Return replacements for what :mod:`secrets` bound to its own generator at import."""
    system: Any = secrets.SystemRandom()
    bits = _symbolic_methods(source)["getrandbits"]

    followed = {"choice", "randbelow", "randbits", "SystemRandom", "compare_digest"}
    return {
        "randbits": lambda k: bits(system, k),
        **{x: refusing_call(source, f"secrets.{x}") for x in secrets.__all__ if x not in followed},
    }


def _unsupported_method(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("System entropy source does not have state.")


def _symbolic_methods(source: RandomSource) -> dict[str, Callable[..., Any]]:
    streams: _RandomStreams = source.python_streams or _RandomStreams(source)
    source.python_streams = streams

    def draw(self: Any) -> Any:
        return source.uniform(streams.of(self))

    def refuse_beyond_a_float(bits: int) -> None:
        if bits > 1000:
            source.refuse(f"a random integer of {bits:,} bits")

    def below(self: Any, n: int) -> Any:
        # Python draws as many bits as n - 1 has, again and again.
        refuse_beyond_a_float(n.bit_length())
        u = source.uniform(streams.of(self), ("integer", n), one_word=False, among=n)
        return draw_integer(n, u)

    def getrandbits(self: Any, k: int) -> Any:
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        refuse_beyond_a_float(k)
        n = 2**k
        u = source.uniform(streams.of(self), ("bits", k), one_word=False, among=n)
        return draw_integer(n, u)

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if streams.compiled and self is _GLOBAL_RANDOM:
            # numba seeds it as it seeds numpy's.
            number = seed_of(a) if issubclass(type(a), int | np.integer) else a
            seeded = make_seed(source, number, legacy_constant_seed, MIN_COMPILED_SEEDS)
            source.sequences.seed(streams.of(self), seeded)
            return
        constant = lambda x: _constant_seed(x, version)  # noqa: E731
        source.sequences.seed(streams.of(self), make_seed(source, a, constant))

    def expovariate(self: Any, lambd: float = 1.0) -> Any:
        return source.exponential(streams.of(self)) / lambd

    def getstate(self: Any) -> Any:
        inside = StatePlaceholder(
            source, "Python's random", source.sequences.state(streams.of(self))
        )
        return (3, inside, None)

    def setstate(self: Any, state: Any) -> None:
        inside = state_placeholder(state)
        if inside is None:
            _C_RANDOM().setstate(state[1])
        elif inside.family != "Python's random":
            raise ValueError("state vector must be of Python's random")
        put_state(source, streams.of(self), state, "Python's random")

    known: dict[str, Callable[..., Any]] = {
        "random": draw,
        "_randbelow": below,
        "getrandbits": getrandbits,
        "seed": seed,
        "expovariate": expovariate,
        "getstate": getstate,
        "setstate": setstate,
    }
    others = {name for name in dir(random.Random) if not name.startswith("_")}
    others -= known.keys() | DERIVED_METHODS | _NON_METHODS
    return known | {name: refusing_call(source, f"random.{name}") for name in others}


def _constant_seed(seed: Any, version: int) -> GeneratorSeed:
    """Name what follows a constant: by Python's own seeding, so that equal seeds are equal."""
    instance = _C_RANDOM.__new__(random.Random)
    _REAL_SEED(instance, seed, version)
    words = _C_RANDOM.getstate(instance)[:16]
    return GeneratorSeed(("random", words), f"Python's random is seeded with the constant {seed!r}")
