"""The document of a sweep, from the results of its cells; and what stands beside it."""

from collections.abc import Mapping

import msgspec

from simverify import results as doc
from simverify.results.reading.document import document_text
from simverify.sweeping.folder import DOCUMENT, META, Folder
from simverify.sweeping.spec import Spec
from simverify.sweeping.state import Result
from simverify.sweeping.versions import versions

POWER = 0.9


def document(spec: Spec, results: Mapping[int, Result]) -> doc.SweepRun:
    """Return the document of a sweep that is done."""
    found = [results[index] for index in sorted(results)]
    cells = tuple(one for one in found if isinstance(one, doc.SweepCell))
    audits = tuple(one for one in found if isinstance(one, doc.SweepAudit))
    return doc.SweepRun(
        schema_version=doc.SCHEMA_VERSION,
        blocks=spec.blocks,
        alpha=spec.alpha,
        alpha_each=spec.alpha_each,
        detect=spec.detect,
        power=POWER,
        verdict=doc.sweep_verdict(cells, audits),
        cells=cells,
        audits=audits,
        versions=versions(),
        reproduce=spec.command(),
    )


def write(folder: Folder, run: doc.SweepRun, meta: doc.Meta) -> None:
    """Write the document; times and machine, which differ, stand in a file of their own."""
    folder.replace(folder.path / DOCUMENT, document_text(run).encode())
    text = msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n"
    folder.replace(folder.path / META, text)
