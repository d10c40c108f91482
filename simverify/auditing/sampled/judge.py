"""The tests of one instance's emissions at one look, and what they promise.

The battery, joint laws and independence judge losslessness, and so does a rule that accepts
more than the optimum. How far E[tau] is from the optimum is judged apart, and never decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.auditing.sampled.acceptance import (
    accepted_too_much,
    accepts_as_token,
    lossy_test,
    optimality,
)
from simverify.auditing.sampled.emissions import Emissions
from simverify.auditing.sampled.independence import independence_tests
from simverify.auditing.sampled.run import Contract
from simverify.auditing.sampled.tables import Tables
from simverify.battery.battery import Slot, certify, detectable, judge_tokens
from simverify.battery.fault_rows import FaultCounts, fault_counts, judged_rows, known_faults
from simverify.battery.judgement import rejections, shown
from simverify.battery.localise import Evidence
from simverify.battery.shares import callable_shares


@dataclass(frozen=True)
class Judgement:
    """``tests`` decide together with ``findings``; ``optimality`` never decides.

    ``detectable``: mean one-token TV, by position and rows, that is found with the run's
    power. ``evidence``: of where a fault sits, without the catalogue's part of it.
    """

    tests: tuple[stats.TestResult, ...]
    findings: tuple[str, ...]
    detectable: float
    optimality: str
    evidence: Evidence


@dataclass(frozen=True)
class Spending:
    """What a look at the first trials of a run may spend.

    It spends ``fraction`` of the instance's share ``alpha``; the e-process of the named faults
    spends its own share once for all looks, and their test of fixed size at the ``last``.
    """

    alpha: float
    fraction: float
    last: bool


def judge(
    tables: Tables,
    emissions: Emissions,
    contract: Contract,
    look: Spending,
    *,
    power: float,
    uniforms: Floats,
    rows: int | None,
) -> Judgement:
    """Test the emissions of one instance.

    ``uniforms`` (n,) in [0, 1) randomise the PITs; ``rows`` as in
    :func:`~simverify.auditing.sampled.tier.sample_callable`.
    """
    shares = callable_shares(look.alpha)
    here = {name: share * look.fraction for name, share in shares.items()}
    slots = by_position(tables, emissions)
    faults = by_slot(tables, emissions) if contract == "verify" else _directions(slots)
    found = judge_tokens(slots, faults, shares, fraction=look.fraction, last=look.last, power=power)
    joint = list(_joint_tests(tables, emissions, here["joint"]))
    pairs = list(independence_tests(tables, emissions, uniforms, rows, here["independence"]))
    tests = [*found.tests, *joint, *pairs]
    lossy = None
    if contract == "verify":
        lossy = lossy_test(tables, emissions, here["acceptance"])
        tests.append(lossy)
    prefix = f"{tables.instance.name}: "
    findings = [*found.violations, *rejections(x for x in tests if x is not lossy)]
    if lossy is not None and lossy.rejected:
        findings.append(
            f"lossy: Pr(tau >= {lossy.level}) is {lossy.statistic:.4f} above block "
            f"verification, which no lossless rule without state exceeds "
            f"(p = {shown(lossy.log_pvalue)})"
        )
    # An end of sequence cuts accepted tokens off: which token was accepted is not seen.
    apart = contract == "verify" and tables.instance.eos is None
    evidence = Evidence(
        independence=any(test.rejected for test in pairs),
        tokens=bool(found.violations) or any(test.rejected for test in (*found.tests, *joint)),
        lossy=lossy is not None and lossy.rejected,
        by_slot=found.by_slot,
        bonus=tables.instance.gamma if contract == "verify" else None,
        named=None,
        accepted_too_much=accepted_too_much(tables, emissions) if apart else None,
        accepts_as_token=accepts_as_token(tables, emissions) if apart else None,
    )
    words = optimality(tables, emissions, contract, here["optimality"])
    return Judgement(
        tuple(replace(test, name=prefix + test.name) for test in tests),
        tuple(prefix + finding for finding in findings),
        found.detectable,
        prefix + words,
        evidence,
    )


def by_position(tables: Tables, emissions: Emissions) -> list[Slot]:
    """Emitted tokens by position and context; completion tokens are not counted."""
    slots = []
    for position, (context, target, draft) in enumerate(tables.contexts):
        emitted = emissions.tokens[emissions.lengths > position]
        cell = context[tables.codes(emitted, position)] * tables.vocab_size + emitted[:, position]
        counts = np.bincount(cell, minlength=target.size).reshape(target.shape)
        slots.append(Slot(f"position {position + 1}", counts, target, draft))
    return slots


def by_slot(tables: Tables, emissions: Emissions) -> FaultCounts:
    """Tokens of first calls by whole prefix, and what every fault emits there."""
    size = tables.vocab_size
    reached = np.minimum(emissions.accepted + 1, emissions.lengths)
    parts = []
    for slot, (target, laws) in enumerate(zip(tables.target, tables.slot_laws, strict=True)):
        emitted = emissions.tokens[reached > slot]
        counts = np.bincount(tables.codes(emitted, slot + 1), minlength=target.size)
        parts.append((counts.reshape(-1, size), target, laws))
    return fault_counts(known_faults(prefix=True, first_row=True), parts)


def _directions(slots: list[Slot]) -> FaultCounts:
    """Tokens by position, tried against what faults emit in a judged slot.

    Code that drafts itself has no slots to be known by position: these are directions in
    which its tokens may leave the target, not laws that it would follow.
    """
    faults = known_faults(prefix=False, first_row=False)
    return fault_counts(
        faults,
        [(x.counts, x.target, judged_rows(faults, x.target, x.draft)) for x in slots],
    )


def predict_detectable(
    tables: Tables, pilot: Emissions, trials: int, look: Spending, *, power: float
) -> float:
    """Return the ``detectable`` of a run of ``trials``, from the contexts a pilot met."""
    slots = by_position(tables, pilot)
    scale = trials / len(pilot)
    totals = [np.rint(slot.counts.sum(axis=1) * scale).astype(np.int64) for slot in slots]
    parts = [
        stats.expected_g2(total, slot.target)
        for total, slot in zip(totals, slots, strict=True)
        if total.any()
    ]
    shares = callable_shares(look.alpha * look.fraction)
    return detectable(parts, slots, shares, power=power)


def certificate(tables: Tables, emissions: Emissions, *, delta: float) -> stats.Certificate:
    """Bound the mean one-token TV on this instance; see ``battery.certify``."""
    return certify(by_position(tables, emissions), delta=delta)


def _joint_tests(tables: Tables, emissions: Emissions, alpha: float) -> Iterator[stats.TestResult]:
    """Laws of the first tokens together: what depends on more of the past than the rows do."""
    for k in range(2, tables.length + 1):
        law = tables.joint(k)
        seen = np.bincount(tables.codes(emissions.tokens, k), minlength=law.size)
        g2 = stats.transition_g2(seen[None], law[None])
        if g2.df > 0:
            share = alpha / (tables.length - 1)
            test = stats.g2_test(g2, alpha=share, name=f"first {k} tokens")
            yield replace(test, deviation="joint TV")
