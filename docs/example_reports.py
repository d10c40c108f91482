"""The example reports: ``python docs/example_reports.py [FOLDER]`` makes them again.

One comparison of the project's verifiers, one of rules for draft trees, one audit of a real
function that passes, one of a faulty block rule, and four of served engines. Their ``meta`` is
fixed, so that a run of the same code gives the same files; tests compare them with what the code
makes. The table of engines is ``docs/engine_table.py``'s.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent))

from example_served import SERVED

import simverify
from simverify.auditing.run import supervised_audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import load_subject
from simverify.reports.present import RUN_FILE, write_reports
from simverify.results import Document

FOLDER = Path(__file__).parents[1] / "reports" / "examples"


def compare_verifiers() -> Document:
    """Compare the project's verifiers where contexts repeat, and where they do not."""
    return simverify.compare(
        ["compact", "markov-64", "markov-2048"],
        ["token", "block", "greedy", "match"],
        gamma=4,
        detect=0.02,
    )


def compare_trees() -> Document:
    """Compare rules for draft trees, with block verification on one draft beside them."""
    return simverify.compare(
        ["compact"],
        ["block", "recursive", "k-seq", "traversal"],
        tree="2,2",
        batch_size=8,
        free_rows=64,
        detect=0.02,
    )


def audit(spec: str, name: str) -> Document:
    """Audit a function by its name, reproduced from the example's own run file."""
    settings = AuditSettings()
    return supervised_audit(
        partial(load_subject, spec, None),
        None,
        settings,
        spec=spec,
        reproduce=f"simverify replay reports/examples/{name}/{RUN_FILE}#0",
    )


EXAMPLES: dict[str, Callable[[], Document]] = {
    "compare": compare_verifiers,
    "draft-trees": compare_trees,
    "transformers": partial(audit, "transformers", "transformers"),
    "faulty-block": partial(audit, "naive-block", "faulty-block"),
}


def fixed(run: Document) -> Document:
    """Return ``run`` as if it were made at no time and on no machine."""
    timings = tuple(
        msgspec.structs.replace(timing, blocks_per_second=0.0) for timing in run.meta.timings
    )
    meta = msgspec.structs.replace(
        run.meta,
        version="example",
        started="2026-01-01T00:00:00+00:00",
        seconds=0.0,
        machine="example",
        python="example",
        threads=1,
        timings=timings,
    )
    return msgspec.structs.replace(run, meta=meta)


def main() -> None:
    """Write every example to its own folder below the one named, or below ``FOLDER``."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, make in (EXAMPLES | SERVED).items():
        write_reports(fixed(make()), folder / name)
        print(folder / name)


if __name__ == "__main__":
    main()
