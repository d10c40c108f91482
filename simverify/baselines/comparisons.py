"""Two comparisons: rows that both have, with all tests of them sharing one false-alarm rate."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from simverify.baselines.estimates import (
    Tokens,
    blocks_needed,
    detectable,
    mean_interval,
    mean_pvalue,
    rate_interval,
    rate_pvalue,
    real_tokens,
    simulated_tokens,
)
from simverify.baselines.fits import ROUNDING
from simverify.baselines.items import Check, Item, Outcome
from simverify.baselines.verdicts import certificate_items, verdict_item
from simverify.results import CompareResult, CompareRun, Expected

_SPEED = "speed is judged within one run only: two runs met two loads of a machine"


@dataclass(frozen=True)
class Pair:
    """A row and what it was; ``subject``: what both are called."""

    subject: str
    old: CompareResult
    new: CompareResult


@dataclass(frozen=True)
class Rows:
    """What became of rows; ``tests``, ``blocks`` and ``both`` as a check has them."""

    items: tuple[Item, ...]
    tests: int
    blocks: int | None
    both: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Tested:
    """A test that waits for its share: the level of tau, or 0 for the mean."""

    subject: str
    level: int
    old: Tokens
    new: Tokens
    pvalue: float
    exact: bool


def comparison_check(old: CompareRun, new: CompareRun, alpha: float, detect: float) -> Check:
    """Return the check of two comparisons that fit each other."""
    before = {(row.verifier, row.model, row.one_draft): row for row in old.results}
    lanes = tuple(None if run.decoding is None else run.decoding.lanes for run in (old, new))
    pairs: list[Pair] = []
    notes: list[str] = []
    for row in new.results:
        earlier = before.get((row.verifier, row.model, row.one_draft))
        subject = f"{row.verifier} on {row.model}" + (", one draft" if row.one_draft else "")
        if earlier is None:
            notes.append(f"{subject}: not in the baseline, and not judged")
        else:
            pairs.append(Pair(subject, earlier, row))
    found = judged_rows(pairs, old.detect, alpha, detect, lanes)
    speeds = list(_speeds(old, new))
    notes += found.notes
    if speeds:
        notes.append(_SPEED)
    if old.seed == new.seed:
        notes.append("both runs have one seed, and shared draws: differences are no larger for it")
    return Check(
        (*found.items, *speeds), alpha, detect, found.tests, found.blocks, found.both, tuple(notes),
        old.alpha + new.alpha,
    )  # fmt: skip


def judged_rows(
    pairs: Iterable[Pair],
    promised: float,
    alpha: float,
    detect: float,
    lanes: tuple[int | None, ...] = (None, None),
) -> Rows:
    """Hold rows against those that they were; all tests share ``alpha``.

    ``promised``: the deviation that the old run was asked to find. ``lanes``: of the old run and
    the new one, of texts that real models decoded at a time; None where blocks were simulated.
    """
    items: list[Item] = []
    tested: list[_Tested] = []
    notes: list[str] = []
    for pair in pairs:
        subject, earlier, row = pair.subject, pair.old, pair.new
        items += _stated(subject, earlier, row, promised)
        # What is exact is the declared rule's: the kernel's own where it passed as that rule.
        exact = all(
            _certain(one.expected_accepted) and one.acceptance.verdict == "PASS"
            for one in (earlier, row)
        )
        tokens = _tokens(lanes[0], earlier), _tokens(lanes[1], row)
        if tokens[0] is None or tokens[1] is None:
            note = "3 lanes or more tell how sure a mean over real texts is"
            was, now = (f"{one.measured.mean:.4f}" for one in (earlier, row))
            outcome: Outcome = "same" if exact else "too short"
            items.append(Item(subject, "E[tau], measured", was, now, outcome, note=note))
            continue
        tested += _tests(subject, tokens[0], tokens[1], exact)
        if tokens[0].counts is None:
            notes.append(f"{subject}: blocks of real texts depend on each other: no test by level")
    judged, blocks, both = _judged(tested, alpha, detect)
    return Rows((*items, *judged), len(tested), blocks, both, tuple(notes))


def _stated(
    subject: str, old: CompareResult, new: CompareResult, promised: float
) -> Iterator[Item]:
    was, now = old.lossless, new.lossless
    yield verdict_item(subject, "lossless", was.verdict, now.verdict, promised, now.detectable)
    yield verdict_item(subject, "acceptance", old.acceptance.verdict, new.acceptance.verdict)
    yield from certificate_items(
        subject, old.lossless.certificate, new.lossless.certificate, new.lossless.verdict
    )
    a, b = old.expected_accepted, new.expected_accepted
    if _certain(a) and _certain(b):
        slack = ROUNDING * max(1.0, a.upper)
        outcome: Outcome = "same"
        if b.upper < a.lower - slack:
            outcome = "worse"
        elif b.lower > a.upper + slack:
            outcome = "better"
        yield Item(subject, "E[tau], exact", _middle(a), _middle(b), outcome)


def _certain(told: Expected) -> bool:
    return told.exact is not None and told.confidence is None


def _middle(told: Expected) -> str:
    return f"{(told.lower + told.upper) / 2.0:.7f}"


def _tokens(lanes: int | None, row: CompareResult) -> Tokens | None:
    if lanes is not None:
        return real_tokens(row, lanes)
    return simulated_tokens(row, f"{row.verifier} on {row.model}")


def _tests(subject: str, old: Tokens, new: Tokens, exact: bool) -> Iterator[_Tested]:
    yield _Tested(subject, 0, old, new, mean_pvalue(old, new), exact)
    for level, (a, b) in enumerate(zip(old.counts or (), new.counts or (), strict=True), start=1):
        p = rate_pvalue(a, old.blocks, b, new.blocks)
        yield _Tested(subject, level, old, new, p, exact)


def _judged(
    tested: list[_Tested], alpha: float, detect: float
) -> tuple[list[Item], int | None, bool]:
    """Return an item for each test, adjusted by Holm, and the blocks that are missing."""
    if not tested:
        return [], None, False
    # Half a second, which nothing else has to wait for.
    from statsmodels.stats.multitest import multipletests

    share = alpha / len(tested)
    rejected, adjusted, _, _ = multipletests([t.pvalue for t in tested], alpha, method="holm")
    items, needed, both = [], 0, False
    for test, found, p in zip(tested, rejected, adjusted, strict=True):
        item = _item(test, share)
        moved = float(item.new) - float(item.old)
        drop = detect * test.old.mean
        if found:
            item = replace(item, outcome="worse" if moved < 0.0 else "better")
        elif test.level == 0 and not test.exact and detectable(test.old, test.new, share) > drop:
            if test.old.mean == 0.0:
                item = replace(item, note="nothing was kept before: there is nothing to lose")
            else:
                blocks, two = blocks_needed(test.old, test.new, share, drop)
                item = replace(item, outcome="too short")
                needed, both = max(needed, blocks), both or two
        items.append(replace(item, pvalue=float(p)))
    return items, needed or None, both


def _item(test: _Tested, share: float) -> Item:
    """Return the item of a test, still without a judgement; its numbers read back exactly."""
    if test.level == 0:
        low, high = mean_interval(test.old, test.new, share)
        what, a, b = "E[tau], measured", test.old.mean, test.new.mean
    else:
        assert test.old.counts is not None
        assert test.new.counts is not None
        k, j = test.old.counts[test.level - 1], test.new.counts[test.level - 1]
        low, high = rate_interval(k, test.old.blocks, j, test.new.blocks, share)
        what, a, b = f"Pr(tau >= {test.level})", k / test.old.blocks, j / test.new.blocks
    return Item(test.subject, what, repr(a), repr(b), "same", low=low, high=high)


def _speeds(old: CompareRun, new: CompareRun) -> Iterator[Item]:
    before = {(t.verifier, t.model): t.blocks_per_second for t in old.meta.timings}
    for told in new.meta.timings:
        was = before.get((told.verifier, told.model))
        if was is not None:
            a, b = (f"{value / 1e6:.3g}" for value in (was, told.blocks_per_second))
            subject = f"{told.verifier} on {told.model}"
            yield Item(subject, "speed, million blocks a second", a, b, "shown")
