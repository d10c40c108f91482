"""Documents for the tests of reports: the committed examples, and hostile ones."""

import json

import msgspec

from simverify.reports.document import read_document
from simverify.reports.examples import FOLDER
from simverify.results import Document

HOSTILE = (
    "<script>alert(1)</script>\x1b[31m\u202e\u0000\"'`|*_[x](http://a.example) @octo ]]> ${{x}}"
)


def example(name):
    return read_document(FOLDER / name / "run.json")


def compare_run(models=1, verifiers=4, name="model {}"):
    """A comparison of so many models, each a copy of the one whose contexts do not repeat."""
    run = msgspec.to_builtins(example("compare"))
    rows = [row for row in run["results"] if row["model"] == "markov-5000"][:verifiers]
    info = next(model for model in run["models"] if model["name"] == "markov-5000")
    names = [name.format(i) for i in range(models)]
    run["models"] = [info | {"name": model} for model in names]
    run["results"] = [row | {"model": model} for model in names for row in rows]
    run["meta"]["timings"] = [
        {"model": model, "verifier": row["verifier"], "blocks_per_second": 1.0}
        for model in names
        for row in rows
    ]
    return msgspec.convert(run, Document)


def hostile_runs():
    """Both kinds of documents, with every text in them hostile."""
    for name in ("compare", "faulty-block"):
        run = json.loads((FOLDER / name / "run.json").read_text())
        yield msgspec.convert(spoilt(run), Document)
    audit = msgspec.to_builtins(example("faulty-block"))
    audit["spec"] += HOSTILE
    audit["notes"] = [HOSTILE + "x" * 10_000_000] * 2
    audit["findings"] = [HOSTILE] * 500
    yield msgspec.convert(audit, Document)


_FREE = {"spec", "name", "model", "verifier", "message", "words", "deviation", "method", "scope",
         "assumption", "fault", "why", "machine", "started", "version", "order", "reproduce",
         "not_enumerable", "inconclusive", "test", "measure", "dtype"}  # fmt: skip
_LISTS = {"findings", "notes", "refuted", "not_refuted"}
_CHOSEN = {"enumeration", "closed-form", "dp", "rao-blackwell", "paths", "tree law", "block",
           "coupling"}  # fmt: skip


def spoilt(value, key=""):
    """``value`` with hostile words after every text that may be any text."""
    if isinstance(value, dict):
        return {k: spoilt(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [
            HOSTILE + v if key in _LISTS and isinstance(v, str) else spoilt(v, key) for v in value
        ]
    if isinstance(value, str) and key in _FREE and value not in _CHOSEN:
        return value + HOSTILE
    return value
