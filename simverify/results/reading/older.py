"""Audits that were saved before findings had kinds: their findings are texts, the probes' first."""

from collections.abc import Callable
from typing import Any

Plain = dict[str, Any]
"""A JSON object."""


def with_kinds(run: Plain) -> Plain:
    """Return an audit's document, as plain JSON, with a kind for every finding that has none."""
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
