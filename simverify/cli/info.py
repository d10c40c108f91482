"""Commands that only tell: verifiers, models, faults, engines, doctor, schema."""

import importlib.util
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from rich.table import Table

from simverify.cli.common import output_console


def verifiers() -> int:
    """List the built-in verifiers."""
    from simverify.verifiers import VERIFIERS

    table = _table("verifier", "contract", "what it does", "source")
    for verifier in VERIFIERS.values():
        table.add_row(verifier.name, verifier.contract, verifier.summary, verifier.citation)
    output_console().print(table)
    return 0


def models() -> int:
    """List the built-in models; trains ngram if it is not in the cache yet."""
    from simverify.models import BUILT_IN
    from simverify.models.ngram import load_ngram

    ngram = load_ngram(announce=lambda line: print(line, file=sys.stderr))
    table = _table("model", "what it is")
    for name, summary in BUILT_IN.items():
        table.add_row(name, summary)
    table.add_row("FILE", "your own pair, .json or .npz: see the README")
    output_console().print(table)
    print(
        f"ngram: held-out perplexity per byte {ngram.target_perplexity:.2f} target, "
        f"{ngram.draft_perplexity:.2f} draft; corpus sha256 {ngram.corpus_sha256}"
    )
    return 0


def faults() -> int:
    """List the catalogue of faulty verifiers, and of correct ones that look faulty."""
    from simverify.faults import CONTROLS, FAULTS

    table = _table("fault", "contract", "rule", "seen in")
    for fault in FAULTS.values():
        table.add_row(fault.name, fault.contract, fault.summary, fault.seen_in)
    output_console().print(table)
    print()
    table = _table("must pass", "contract", "rule", "why it is right")
    for control in CONTROLS.values():
        table.add_row(control.name, control.contract, control.summary, control.why)
    output_console().print(table)
    return 0


def engines() -> int:
    """List the engines whose functions can be audited, and what of them is installed."""
    from simverify.engines import installed_engines

    table = _table("engine", "function", "installed", "tier")
    for row in installed_engines():
        state = row.version or "absent"
        if row.version and row.missing:
            state += f", needs {', '.join(row.missing)}"
        table.add_row(row.name, row.function, state, row.tier)
    output_console().print(table)
    for row in installed_engines():
        if row.sha256 is not None:
            print(f"{row.name}: sha256 {row.sha256}")
    return 0


def doctor() -> int:
    """Say what this installation has, and check the random generator and the kernels."""
    import numpy as np

    from simverify.folders import cache_folder
    from simverify.simulators import kernels
    from simverify.simulators.run import default_threads

    table = _table("what", "found")
    table.add_row("simverify", version("simverify"))
    table.add_row("python", f"{platform.python_version()} on {platform.platform(terse=True)}")
    for package in ("numpy", "scipy", "numba", "torch", "transformers"):
        table.add_row(package, _version(package))
    table.add_row("processors", f"{default_threads()} usable of {os.cpu_count()}")
    folder = cache_folder("kernels-" + kernels.source_hash())
    table.add_row("cache folder", "none is writable" if folder is None else str(folder.parent))
    state = "compiled" if kernels.compiled_before() else "compiled on first use, some 15 seconds"
    table.add_row("kernels", state)
    words = kernels.philox.philox(*(np.uint64(0) for _ in range(6)))
    sound = [int(word) for word in words] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    table.add_row("philox", "known answer reproduced" if sound else "WRONG known answer")
    output_console().print(table)
    return 0 if sound else 4


def schema() -> int:
    """Print the JSON Schema of the result document."""
    from simverify.reports.schema import shipped_schema

    sys.stdout.write(shipped_schema())
    return 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed" if importlib.util.find_spec(package) is None else "unknown version"


def _table(*headers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for header in headers:
        table.add_column(header)
    return table
