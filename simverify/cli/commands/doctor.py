"""``simverify doctor``: what a bug report needs, and what to do about what is missing."""

import importlib.util
import locale
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version

from rich.table import Table
from rich.text import Text

from simverify.cli.common import output_console

_ANSWER = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
"""First block of Philox 4x32-10 at key and counter 0 (Salmon et al. 2011, Random123)."""


def doctor() -> int:
    """Say what this installation has, and check the random generator and the kernels."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for what, found in [*_machine(), *_packages(), *_caches()]:
        table.add_row(what, Text(found))
    sound = _philox_is_sound()
    wrong = "WRONG known answer: no result can be trusted; empty the cache folder, reinstall"
    table.add_row("random generator", "known answer reproduced" if sound else wrong)
    output_console().print(table)
    return 0 if sound else 4


def _machine() -> Iterator[tuple[str, str]]:
    from simverify.folders import find_package
    from simverify.record.machine import memory, memory_words, processor, system
    from simverify.simulators.run import default_threads

    yield "simverify", f"{version('simverify')} in {find_package('simverify')}"
    yield "python", f"{platform.python_version()} at {sys.executable}"
    yield "system", system()
    yield "processor", processor()
    yield "cores", f"{default_threads()} usable of {os.cpu_count()}"
    yield "memory", memory_words(memory())
    yield "encoding", f"output {sys.stdout.encoding}, locale {locale.getpreferredencoding(False)}"


def _packages() -> Iterator[tuple[str, str]]:
    from simverify.record.machine import installed_version

    for package in ("numpy", "scipy", "statsmodels", "numba", "hypothesis"):
        yield (
            package,
            installed_version(package) or "not installed: pip install --force-reinstall simverify",
        )
    yield (
        "torch",
        installed_version("torch") or "not installed; to audit torch code: pip install torch",
    )
    yield (
        "transformers",
        installed_version("transformers")
        or "not installed; to audit its sampler: pip install torch transformers",
    )
    yield (
        "triton",
        installed_version("triton") or "not installed; for kernels on a GPU: pip install triton",
    )
    yield "GPU", _gpu()


def _caches() -> Iterator[tuple[str, str]]:
    from simverify.folders import cache_folder
    from simverify.simulators import kernels

    folder = cache_folder("kernels-" + kernels.source_hash())
    none = "none can be written, so every run compiles anew: set SIMVERIFY_CACHE_DIR to a folder"
    if named := os.environ.get("SIMVERIFY_CACHE_DIR"):
        none = f"SIMVERIFY_CACHE_DIR, {named}, cannot be written, so every run compiles anew"
    yield "cache folder", none if folder is None else str(folder.parent)
    compiled = kernels.compiled_before()
    yield "kernels", "compiled" if compiled else "to be compiled on first use, some 15 seconds"
    trained = folder is not None and any((folder.parent / "ngram").glob("*.npz"))
    yield "ngram", "trained" if trained else "to be trained on first use, some seconds"


def _gpu() -> str:
    if importlib.util.find_spec("torch") is None:
        return "not looked for without torch; none is needed"
    try:
        import torch

        from simverify.record.machine import gpu_names

        names = gpu_names()
        if not names:
            return "none that torch can use; none is needed"
        return f"{', '.join(names)} (CUDA {torch.version.cuda})"
    except Exception as error:  # a broken torch is what a doctor is asked about
        return f"torch does not load ({type(error).__name__}: {error}): reinstall it"


def _philox_is_sound() -> bool:
    import numpy as np

    from simverify.simulators import kernels

    words = kernels.philox.philox(*(np.uint64(0) for _ in range(6)))
    return tuple(int(word) for word in words) == _ANSWER
