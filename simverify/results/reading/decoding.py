"""A result document from its bytes: those of earlier versions too, and what broken ones hold."""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from simverify.results import Document

Plain = dict[str, Any]
"""A JSON object."""


def decode(data: bytes) -> Document:
    """Return the document in ``data``, which may be older than the kinds of findings.

    Raises ``msgspec.DecodeError`` if it is broken or of another version.
    """
    try:
        document: Document = msgspec.json.decode(data, type=Document)
    except msgspec.ValidationError:
        older = msgspec.json.decode(data)
        if not (isinstance(older, dict) and older.get("command") == "audit"):
            raise
        document = msgspec.convert(with_kinds(older), Document)
    return document


def with_kinds(run: Plain) -> Plain:
    """Return an audit's document, as plain JSON, with a kind for every finding that has none.

    They were texts, and those of the probes that failed came first.
    """
    probes = run.get("probes")
    failed = [p for p in probes if _failed(p)] if isinstance(probes, list) else []
    tier = run.get("sampled")
    of_tests = tier.get("findings") if isinstance(tier, dict) else None
    told = of_tests if isinstance(of_tests, list) else []

    def kind(place: int, text: str) -> str:
        return "probe" if place < len(failed) else "tests" if text in told else "other"

    new = run | {"findings": _named(run.get("findings"), kind)}
    if isinstance(tier, dict):
        new["sampled"] = tier | {"findings": _named(of_tests, lambda _place, _text: "tests")}
    return new


def _failed(probe: Any) -> bool:
    return isinstance(probe, dict) and (
        probe.get("failed") is True or probe.get("outcome") == "violation"
    )


def _named(findings: Any, kind: Callable[[int, str], str]) -> Any:
    if not isinstance(findings, list):
        return findings
    return [
        {"kind": kind(i, found), "text": found} if isinstance(found, str) else found
        for i, found in enumerate(findings)
    ]


def not_finite(data: bytes) -> Iterator[str]:
    """Name each field of a JSON text that holds NaN or an infinity.

    A strict reader says no more than the byte at which it stopped. Yields nothing where the
    text is broken in another way.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    left: list[tuple[str, object]] = [("", document)]
    while left:
        where, value = left.pop()
        if isinstance(value, dict):
            parts = [(f"{where}.{key}" if where else key, part) for key, part in value.items()]
            left += reversed(parts)
        elif isinstance(value, list):
            left += reversed([(f"{where}[{i}]", part) for i, part in enumerate(value)])
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{where} is {value}: expected a finite number, or null where the schema has one"
