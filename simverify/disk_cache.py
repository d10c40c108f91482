"""Results that depend on simverify's own sources alone, kept on disk for later processes.

An audit asks the same of the catalogue and of Hypothesis as the audit before it did, and runs in a
process that ends with it. What an audit computes is written when the code under audit has left the
process as it was. Where no folder can be written, or a file is damaged, the result is computed.
"""

__simverify_role__ = "shared"


import hashlib
import os
import pickle
import platform
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import lru_cache, wraps
from importlib.metadata import version
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from simverify.folders import cache_folder, simverify_sources_sha256

P = ParamSpec("P")
T = TypeVar("T")

_MISSING = object()
_pending: dict[Path, object] = {}
"""What this process has computed, and not written yet."""


def cached_on_disk(
    key: Callable[P, Hashable | None],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that keeps what a function returns: here, and by :func:`write_results`.

    ``key(*args, **kwargs)``: what tells the calls apart, of plain values whose ``repr`` shows them
    whole; None for a call that must not be kept on disk.
    """

    def decorate(compute: Callable[P, T]) -> Callable[P, T]:
        def read_or_compute(*args: P.args, **kwargs: P.kwargs) -> T:
            name = key(*args, **kwargs)
            path = None if name is None else _path(f"{compute.__qualname__}: {name!r}")
            if path is None:
                return compute(*args, **kwargs)
            if (kept := _read(path)) is not _MISSING:
                return cast("T", kept)
            _pending[path] = result = compute(*args, **kwargs)
            return result

        return cast("Callable[P, T]", lru_cache(maxsize=1024)(wraps(compute)(read_or_compute)))

    return decorate


def _path(name: str) -> Path | None:
    folder = cache_folder(f"results-{_stamp()}")
    return None if folder is None else folder / hashlib.sha256(name.encode()).hexdigest()


@lru_cache(maxsize=1)
def _stamp() -> str:
    """Return what changes when a result may: our sources, Python, and what computes in them."""
    versions = [version(name) for name in ("numpy", "scipy", "hypothesis")]
    parts = simverify_sources_sha256(), platform.python_version(), platform.machine(), *versions
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _read(path: Path) -> object:
    # Missing, half written by a disk that was full, or of a class that has moved.
    with suppress(OSError, EOFError, AttributeError, ImportError, pickle.UnpicklingError):
        return pickle.loads(path.read_bytes())
    return _MISSING


def write_results(*, trusted: bool) -> None:
    """Write what was computed since the last call; drop it if the process is not ``trusted``.

    What cannot be pickled, such as a law whose rows are asked for, stays in its process.
    """
    for path, result in _pending.items() if trusted else ():
        with suppress(OSError, AttributeError, TypeError, pickle.PicklingError):
            data = pickle.dumps(result)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(data)
            part.replace(path)
    _pending.clear()
