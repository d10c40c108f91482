"""Lines that what the code raised on comes from, read off a path on which it raises again."""

from collections.abc import Sequence

import msgspec

from simverify.auditing.replay.blame.steps import Steps
from simverify.auditing.replay.blame.suspects import Way, suspects
from simverify.auditing.replay.breach import broken_paths
from simverify.auditing.replay.runs import STOPS
from simverify.auditing.subject import Contract, Subject
from simverify.results import Breach, Finding
from simverify.symbolic.whose import lines_in, portable

RAISES = "raises"
"""What is broken where code raises, in a finding."""


def with_sources(
    findings: Sequence[Finding], subject: Subject, contract: Contract, found: Breach | None
) -> list[Finding]:
    """Return the findings, those of code that raised on ``found`` with the lines behind it."""
    raised = [one.line for one in findings if one.broke == RAISES and one.line is not None]
    if found is None or not raised or subject.coin_bits is not None:
        return list(findings)
    at, behind = _behind(subject, contract, found)
    return [
        msgspec.structs.replace(one, sources=behind)
        if behind and one.broke == RAISES and one.line == at
        else one
        for one in findings
    ]


def _behind(subject: Subject, contract: Contract, found: Breach) -> tuple[str, tuple[str, ...]]:
    """Return the line that raises, and the statements that it depends on."""
    steps = Steps()
    try:
        with steps.following():
            broken = broken_paths(subject.rule, contract, found, steps)
    except STOPS:
        return "", ()
    for leaf in broken:
        for at in lines_in(leaf.broke)[:1]:
            ran = [i for i, step in enumerate(leaf.steps) if portable(step.at) == at]
            if ran:
                named = map(portable, suspects([Way(leaf.steps, ran[-1])]))
                return at, tuple(named)
    return "", ()
