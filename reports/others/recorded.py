"""A recorded run as lines for a terminal: what is known of it beside its document."""

from collections.abc import Iterator

from simverify.record.entry import Entry
from simverify.record.machine import memory_words


def entry_lines(entry: Entry) -> list[str]:
    """Return all that is known of a run, a fact a line; nothing of what is not known."""
    return [f"{name}: {value}" for name, value in _facts(entry) if value]


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    yield "run", str(entry.id)
    yield "command line", entry.words
    yield "started", entry.started
    yield "version", entry.version
    yield "machine", f"{entry.machine}, Python {entry.python}"
    yield "host", entry.host or ""
    yield "system", entry.system or ""
    cores = "" if entry.cores is None else f", {entry.cores} cores"
    memory = "" if entry.memory is None else f", {memory_words(entry.memory)} of memory"
    yield "processor", f"{entry.processor}{cores}{memory}" if entry.processor else ""
    yield "GPU", entry.gpu or ""
    yield "packages", ", ".join(f"{name} {told}" for name, told in entry.packages.items())
    yield "seed", "" if entry.seed is None else str(entry.seed)
    for code in entry.code:
        yield "code", code.spec
        yield "  of", code.package
        yield "  commit", code.commit or ""
        yield "  SHA-256", code.sha256 or "its file was not found"
    yield "sources of simverify", entry.sources_sha256 or ""
    yield "document", entry.document_sha256
