"""Commands that only show: doctor, verifiers, models, faults, engines, schema."""

import importlib.util
import locale
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from simverify.cli.common import output_console, print_entries
from simverify.cli.streams import print_error
from simverify.options.option import ModelFormat

# ``simverify doctor``.


_PHILOX_ANSWER = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
"""First block of Philox 4x32-10 at key and counter 0 (Salmon et al. 2011, Random123)."""


def doctor() -> int:
    """Show what this installation has, and check the random generator and the kernels."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for what, found in [*_machine_lines(), *_package_lines(), *_cache_lines()]:
        table.add_row(what, Text(found))
    sound = _philox_is_sound()
    wrong = "WRONG known answer: no result can be trusted; empty the cache folder, reinstall"
    table.add_row("random generator", "known answer reproduced" if sound else wrong)
    output_console().print(table)
    return 0 if sound else 4


def _machine_lines() -> Iterator[tuple[str, str]]:
    from simverify.folders import find_package
    from simverify.history.record import memory_bytes, memory_words, processor_name, system_name
    from simverify.simulators.run import default_threads

    yield "simverify", f"{version('simverify')} in {find_package('simverify')}"
    yield "python", f"{platform.python_version()} at {sys.executable}"
    yield "system", system_name()
    yield "processor", processor_name()
    yield "cores", f"{default_threads()} usable of {os.cpu_count()}"
    yield "memory", memory_words(memory_bytes())
    yield "encoding", f"output {sys.stdout.encoding}, locale {locale.getpreferredencoding(False)}"


_PACKAGES = {
    **dict.fromkeys(
        ("numpy", "scipy", "statsmodels", "numba", "hypothesis"),
        "not installed: pip install --force-reinstall simverify",
    ),
    "torch": "not installed; to audit torch code: pip install torch",
    "transformers": "not installed; to audit its sampler: pip install torch transformers",
    "triton": "not installed; for kernels on a GPU: pip install triton",
}
"""Packages, and what to say where they are missing."""


def _package_lines() -> Iterator[tuple[str, str]]:
    from simverify.history.record import installed_version

    for package, missing in _PACKAGES.items():
        yield package, installed_version(package) or missing
    yield "GPU", _gpu_line()


def _cache_lines() -> Iterator[tuple[str, str]]:
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


def _gpu_line() -> str:
    if importlib.util.find_spec("torch") is None:
        return "not looked for without torch; none is needed"
    try:
        import torch

        from simverify.history.record import gpu_names

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
    return tuple(int(word) for word in words) == _PHILOX_ANSWER


def verifiers() -> int:
    """List the built-in verifiers, and the rules for draft trees."""
    from simverify.verifiers import VERIFIERS
    from simverify.verifiers.trees import TREE_VERIFIERS

    print_entries(
        (f"{v.name} ({v.contract} contract)", (v.summary, v.citation)) for v in VERIFIERS.values()
    )
    print_entries(
        (
            f"{v.name} (tree contract, {v.needs})",
            (v.summary, f"lossless on {', '.join(v.schemes)}", v.citation),
        )
        for v in TREE_VERIFIERS.values()
        if v.name not in VERIFIERS
    )
    return 0


_WRITE_HELP = "Write the bundled pair, target and draft, into this folder instead."
_FORMAT_HELP = (
    "Format of the written pair: Transformers' folders (hf), or what the engine's own converter "
    "makes of them."
)


def models(
    *,
    write: Annotated[Path | None, Parameter(help=_WRITE_HELP)] = None,
    format: Annotated[ModelFormat, Parameter(help=_FORMAT_HELP)] = "hf",  # noqa: A002
) -> int:
    """List the built-in models; trains ngram if it is not in the cache yet."""
    if write is not None:
        from simverify.models.writing import write_pair

        print_entries((part, (str(place),)) for part, place in write_pair(write, format).items())
        return 0
    from simverify.models import BUILT_IN_MODELS, REAL_MODELS
    from simverify.models.ngram import load_ngram

    ngram = load_ngram(announce=print_error)
    trained = (
        f"held-out perplexity per byte {ngram.target_perplexity:.2f} target, "
        f"{ngram.draft_perplexity:.2f} draft",
        f"corpus sha256 {ngram.corpus_sha256}",
    )
    print_entries(
        (name, (summary, *(trained if name == "ngram" else ())))
        for name, summary in BUILT_IN_MODELS.items()
    )
    print_entries(
        (name, (f"{summary}; compare takes it alone",)) for name, summary in REAL_MODELS.items()
    )
    print_entries([("FILE", ("your own pair, .json or .npz: see the README",))])
    return 0


def faults() -> int:
    """List the catalogue of faulty verifiers, and of correct ones that look faulty."""
    from simverify.faults import CONTROLS, FAULTS

    print("Faults, each with where it was seen:\n")
    print_entries(
        (
            f"{f.name} ({f.contract} contract{f', {f.scheme}' if f.scheme else ''})",
            (f.summary, f.seen_in),
        )
        for f in FAULTS.values()
    )
    print("\nMust pass, each with why it is right:\n")
    print_entries(
        (f"{c.name} ({c.contract} contract)", (c.summary, c.why)) for c in CONTROLS.values()
    )
    return 0


def engines() -> int:
    """List the engines whose functions can be audited, and which of them are installed."""
    from simverify.engines import installed_engines, unloaded_engine
    from simverify.errors import UsageError
    from simverify.served.launch import LOCAL_ENGINES

    for row in installed_engines():
        state = f"{row.version} installed" if row.version else "not installed"
        if row.version and row.missing:
            state += f", needs {', '.join(row.missing)}"
        engine = unloaded_engine(row.name)
        if row.version and engine.versions:
            state += f", adapter for {engine.versions}"
        source = (f"sha256 {row.sha256}",) if row.sha256 else (f"get it by: {engine.how_to_get}",)
        function = row.function.replace(":", ": ")  # where a long line may break
        print_entries([(row.name, (function, f"{state}; tier: {row.tier}", *source))])
    for local in LOCAL_ENGINES.values():
        try:
            state = f"{local.version()} installed".lstrip()
        except UsageError:
            state = f"not installed; get it by: {local.install}"
        drafts = ", ".join(local.speculation) or "none"
        print_entries(
            [
                (
                    local.name,
                    ("started by audit, and judged by its tokens", f"{state}; drafts: {drafts}"),
                )
            ]
        )
    return 0


def schema() -> int:
    """Print the JSON Schema of the result document."""
    from simverify.results.reading import shipped_schema

    sys.stdout.write(shipped_schema())
    return 0
