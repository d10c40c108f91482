"""Whether two audits found one law, and where they did not."""

import math
from typing import Literal

from simverify.results import AuditRun, ExactInstance, InstanceLaw, LawDifference

What = Literal["verdict", "law"]

_SEARCHED = ("found", "around")
"""How the names of instances begin that were made for the code at hand, and are another's not."""


def differences(before: AuditRun, after: AuditRun) -> tuple[LawDifference, ...] | None:
    """Return the instances on which two audits found different laws, the largest first.

    A law is known here by its deviation from the target's, the TV distance and E[tau]; what both
    audits call rounding makes no difference. None if no instance was followed in both.
    """
    rounding = max(before.tolerance, after.tolerance)
    theirs = {_key(one): one for one in after.instances if not _searched(one)}
    common = [(one, theirs[_key(one)]) for one in before.instances if _key(one) in theirs]
    if not common:
        return None
    found = [
        (size, one, other)
        for one, other in common
        if (size := _distance(one, other)) > rounding + (one.left_out or 0) + (other.left_out or 0)
    ]
    found.sort(key=lambda entry: -entry[0])
    return tuple(
        LawDifference(
            instance=one.name, vocab_size=one.vocab_size, gamma=one.gamma,
            before=_law(one), after=_law(other),
        )
        for _, one, other in found
    )  # fmt: skip


def changed(before: AuditRun, after: AuditRun, what: What) -> bool | str:
    """Return whether ``after`` differs; a string says why that cannot be told."""
    for run in (before, after):
        if run.verdict == "INCONCLUSIVE":
            return f"inconclusive: {run.inconclusive}"
    if before.verdict != after.verdict:
        return True
    if what == "verdict":
        return False
    found = differences(before, after)
    if found is None:
        return "no instance was followed in both audits: compare verdicts alone, --what verdict"
    return bool(found)


def words(before: AuditRun, after: AuditRun) -> str:
    """Return in a sentence how ``after`` differs."""
    parts = []
    if before.verdict != after.verdict:
        parts.append(f"{before.verdict} becomes {after.verdict}")
    found = differences(before, after)
    if found:
        most = found[0]
        one, other = most.before, most.after
        moved = abs(one.max_abs_deviation - other.max_abs_deviation)
        if moved > max(before.tolerance, after.tolerance):
            parts.append(
                f"on {most.instance} the law deviates by {other.max_abs_deviation:.3g}, before by "
                f"{one.max_abs_deviation:.3g}"
            )
        elif one.expected_accepted is not None and other.expected_accepted is not None:
            parts.append(
                f"on {most.instance} E[tau] is {other.expected_accepted:.6g}, before "
                f"{one.expected_accepted:.6g}"
            )
    elif after.findings and before.verdict != after.verdict:
        parts.append(after.findings[0].text)
    return "; ".join(parts)


def _key(one: ExactInstance) -> tuple[str, int, int, float | None]:
    # Instances of one name and another optimum have other rows.
    optimum = None if one.optimum is None else round(one.optimum, 9)
    return one.name, one.vocab_size, one.gamma, optimum


def _searched(one: ExactInstance) -> bool:
    return one.name.startswith(_SEARCHED)


def _distance(one: ExactInstance, other: ExactInstance) -> float:
    sizes = [abs(one.max_abs_deviation - other.max_abs_deviation), abs(one.tv - other.tv)]
    if one.expected_accepted is not None and other.expected_accepted is not None:
        sizes.append(abs(one.expected_accepted - other.expected_accepted) / one.gamma)
    return max(size for size in sizes if not math.isnan(size))


def _law(one: ExactInstance) -> InstanceLaw:
    return InstanceLaw(
        max_abs_deviation=one.max_abs_deviation, tv=one.tv,
        expected_accepted=one.expected_accepted,
    )  # fmt: skip
