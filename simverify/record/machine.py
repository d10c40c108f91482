"""The machine that a run is on, and what is installed there: of a bug report and of the record."""

import importlib.util
import os
import platform
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "scipy", "statsmodels", "numba", "hypothesis", "torch", "transformers",
            "triton", "dask", "distributed")  # fmt: skip
"""What numbers may depend on, and who counted them."""

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Machine:
    """A machine and its packages, as they are recorded.

    ``cores``: usable by the process. ``memory``: in bytes; null where the system does not say.
    ``gpu``: those that the process has used. ``packages``: versions by name.
    """

    host: str
    system: str
    processor: str
    cores: int
    memory: int | None
    gpu: str
    packages: dict[str, str] = field(default_factory=dict)


def machine() -> Machine:
    """Return the machine of this process; nothing is imported, and no GPU is woken, for it."""
    from simverify.simulators.run import default_threads

    found = {name: installed_version(name) for name in PACKAGES}
    return Machine(
        host=socket.gethostname(),
        system=system(),
        processor=processor(),
        cores=default_threads(),
        memory=memory(),
        gpu=_gpu_in_use(),
        packages={name: told for name, told in found.items() if told is not None},
    )


def system() -> str:
    """Return the operating system with its release."""
    return platform.platform(terse=True)


def processor() -> str:
    """Return the model of the processor, or its kind where nothing says more."""
    with suppress(OSError):
        for line in _CPUINFO.read_text(errors="replace").splitlines():
            name, _, told = line.partition(":")
            if name.strip() == "model name" and told.strip():
                return " ".join(told.split())
    return platform.processor() or platform.machine()


def memory() -> int | None:
    """Return the bytes of memory of the machine; None where the system does not say."""
    try:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    return pages * page if pages > 0 and page > 0 else None


def memory_words(size: int | None) -> str:
    """Return a memory in words."""
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"


def gpu_names() -> list[str]:
    """Return the GPUs that torch can use; torch is imported."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _gpu_in_use() -> str:
    torch = sys.modules.get("torch")
    try:
        return ", ".join(gpu_names()) if torch is not None and torch.cuda.is_initialized() else ""
    except Exception:  # a broken torch is no reason to lose a record
        return ""


def installed_version(package: str) -> str | None:
    """Return the version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None if importlib.util.find_spec(package) is None else "unknown version"
