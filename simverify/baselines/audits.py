"""Two audits of one verifier."""

from collections.abc import Iterator

from simverify.baselines.fits import alike
from simverify.baselines.items import Item
from simverify.baselines.verdicts import certificate_items, verdict_item
from simverify.results import AuditRun, ExactInstance


def audit_items(old: AuditRun, new: AuditRun) -> Iterator[Item]:
    """Yield the verdict, the certificate and the exact E[tau] of instances that both have."""
    promised = old.sampled.detect if old.sampled is not None else None
    found = new.sampled.detectable if new.sampled is not None else None
    yield verdict_item(new.spec, "lossless", old.verdict, new.verdict, promised, found)
    before = old.sampled.certificate if old.sampled is not None else None
    now = new.sampled.certificate if new.sampled is not None else None
    if not (now is None and new.sampled is None and new.verdict == "PASS"):
        yield from certificate_items(new.spec, before, now, new.verdict)
    yield from _acceptance(old, new)


def _acceptance(old: AuditRun, new: AuditRun) -> Iterator[Item]:
    """Yield one item of the instances on which fewer tokens are kept, and one of the others.

    An instance is the same where its name, its sizes and its optimum are: those that are drawn, or
    made for a number in the code, may differ under one name.
    """
    slack = 2 * max(old.tolerance, new.tolerance)
    known = {_key(instance): instance for instance in old.instances}
    drops: list[tuple[float, float, float, str]] = []
    rises: list[tuple[float, float, float, str]] = []
    same = 0
    for instance in new.instances:
        earlier = known.get(_key(instance))
        if earlier is None or not _one(earlier, instance):
            continue
        a, b = earlier.expected_accepted, instance.expected_accepted
        assert a is not None
        assert b is not None
        moved = b - a if abs(b - a) > slack * instance.gamma and not alike(a, b) else 0.0
        if moved:
            (drops if moved < 0.0 else rises).append((abs(moved), a, b, instance.name))
        else:
            same += 1
    total = len(drops) + len(rises) + same
    for outcome, moves in (("worse", drops), ("better", rises)):
        if moves:
            _, a, b, name = max(moves)
            note = f"exact, on {len(moves)} of {total} instances, most on {name}"
            yield Item(new.spec, "E[tau]", f"{a:.6f}", f"{b:.6f}", outcome, note=note)  # type: ignore[arg-type]
    if not total and any(instance.expected_accepted is not None for instance in old.instances):
        # Code that can no longer be enumerated would be no worse than anything.
        note = "no instance of the baseline is in the run, or none with its law"
        yield Item(new.spec, "E[tau]", "exact", "unknown", "too short", note=note)
    if same and not drops and not rises:
        note = f"exact, equal on {same} instances"
        yield Item(new.spec, "E[tau]", "exact", "exact", "same", note=note)


def _key(instance: ExactInstance) -> tuple[str, int, int]:
    return instance.name, instance.vocab_size, instance.gamma


def _one(old: ExactInstance, new: ExactInstance) -> bool:
    numbers = (old.optimum, new.optimum, old.expected_accepted, new.expected_accepted)
    return None not in numbers and alike(old.optimum or 0.0, new.optimum or 0.0)
