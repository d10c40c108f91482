"""Verdicts and certificates of two runs, side by side."""

from collections.abc import Iterator

from simverify.baselines.items import Item, Outcome
from simverify.results import Certificate, Verdict

_BOTH_HOLD = "both bounds hold, each with its own delta: one does not refute the other"


def verdict_item(
    subject: str,
    what: str,
    old: Verdict,
    new: Verdict,
    promised: float | None = None,
    found: float | None = None,
) -> Item:
    """Return what a change of verdict means.

    FAIL where there was none is worse, also where the baseline was INCONCLUSIVE: a fault was
    found. INCONCLUSIVE where there was a PASS is a run that is too short; so is one where neither
    run could tell, since what came between them would not show; and so is a PASS that promises less
    than the baseline did. ``promised``: the deviation that the baseline was asked to
    find; ``found``: the smallest that the run finds; null where one of them says none.
    """
    outcome: Outcome
    weaker = promised is not None and found is not None and found > promised
    if old == new == "PASS" and weaker:
        outcome = "too short"
        of = f"it finds deviations of {found:.3g}, the baseline of {promised:g}"
        note = f"{of}: give both one --detect"
    elif old == new == "INCONCLUSIVE":
        outcome, note = "too short", "neither run could tell"
    elif old == new:
        outcome, note = "same", "it failed before too" if new == "FAIL" else ""
    elif new == "FAIL":
        outcome, note = "worse", "a fault was found"
    elif new == "INCONCLUSIVE" and old == "PASS":
        outcome, note = "too short", "too few tokens: without --blocks a run takes what it needs"
    else:
        outcome, note = "better" if old == "FAIL" and new == "PASS" else "same", ""
    return Item(subject, what, old, new, outcome, note=note)


def certificate_items(
    subject: str, old: Certificate | None, new: Certificate | None, verdict: Verdict
) -> Iterator[Item]:
    """Yield what became of a certificate.

    It stands beside a PASS alone, so that a lost one is a verdict's matter too. Its bound is an
    upper one and falls with the size of a run: a larger one is no worse rule, and is shown.
    """
    if old is None and new is None:
        return
    said = [f"{bound.bound:.6f}" if bound is not None else "none" for bound in (old, new)]
    outcome: Outcome = "shown" if old is not None else "better"
    note = _BOTH_HOLD if old is not None and new is not None else ""
    if new is None:
        # Where there is a PASS without one, the exact law alone carries the verdict.
        outcome = {"FAIL": "worse", "INCONCLUSIVE": "too short", "PASS": "shown"}[verdict]  # type: ignore[assignment]
        note = "the certificate is lost"
    yield Item(subject, "certificate", said[0], said[1], outcome, note=note)
