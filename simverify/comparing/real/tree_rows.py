"""What a comparison says of one rule for draft trees, from what its calls let see."""

import numpy as np
from msgspec.structs import replace

from simverify import results as doc
from simverify import stats
from simverify.battery.judgement import finite, test_document
from simverify.battery.shares import output_shares
from simverify.comparing.documents import UNKNOWN_LAW
from simverify.comparing.kernels.acceptance import NOT_JUDGED
from simverify.comparing.real.pair_rows import (
    CONFIDENCE,
    REFUTED,
    WORDS,
    lossless_of_tokens,
)
from simverify.simulators.decoding.trees.emitted import BEST, COUPLING, OWN, TAU, DecodedTrees
from simverify.simulators.decoding.trees.worth import TreeWorth
from simverify.simulators.latency import predicted_speedup
from simverify.trees import Drafting
from simverify.verifiers.trees import TreeVerifier


def tree_row(
    model: str,
    vocab_size: int,
    rule: TreeVerifier,
    drafting: Drafting,
    seen: DecodedTrees,
    *,
    share: float,
    detect: float,
    cost_ratio: float,
) -> doc.CompareResult:
    """Judge one rule's tokens and acceptance at level ``share``.

    E[tau] is what the rows of the trees let expect, by the closed form of the rule's steps at the
    nodes that it came by for instance; else it is what was measured. The optimum is of the same
    calls.
    """
    gamma = seen.gamma
    # The named faults are of rules for a single draft.
    lossless = replace(lossless_of_tokens(seen.features, share, detect), faults=None)
    acceptance = _acceptance(seen, output_shares(share)["acceptance"], detect)
    tau = seen.interval(TAU, CONFIDENCE)
    kept = seen.interval(OWN, CONFIDENCE) if seen.known else tau
    optimum = optimum_of(drafting, seen)
    best = optimum.expected_accepted
    return doc.CompareResult(
        model=model,
        verifier=rule.name,
        gamma=gamma,
        vocab_size=vocab_size,
        verdict=doc.overall([lossless.verdict, acceptance.verdict]),
        expected_accepted=doc.Expected(
            exact=None, fraction=None, lower=max(kept.low, 0.0), upper=min(kept.high, gamma),
            method="rao-blackwell" if seen.known else "measured", confidence=CONFIDENCE,
        ),
        measured=doc.Measured(
            mean=tau.mean, ci_low=max(tau.low, 0.0), ci_high=min(tau.high, gamma),
            confidence=CONFIDENCE, blocks=seen.worth.blocks,
        ),
        block_efficiency=kept.mean + 1.0,
        optimum=optimum,
        optimality=kept.mean / best if best > 0 else 1.0,
        lossless=lossless,
        acceptance=acceptance,
        acceptance_ccdf=_curve(seen),
        speedup=doc.Speedup(
            cost_ratio=cost_ratio,
            predicted=predicted_speedup(kept.mean, gamma, cost_ratio, shape=drafting.shape),
            rows=len(drafting.shape) + 1,
        ),
        calls=(),
        node_counts=doc.NodeCounts(calls=seen.worth.blocks, kept=tuple(seen.nodes.tolist())),
    )  # fmt: skip


def optimum_of(drafting: Drafting, seen: DecodedTrees) -> doc.Optimum:
    """Return what no rule without state exceeds on such trees, on the calls of a run."""
    by = TreeWorth(drafting).by
    return doc.Optimum(
        name="memoryless", expected_accepted=min(seen.interval(BEST, CONFIDENCE).mean, seen.gamma),
        by=by, bound=by == "counting",
    )  # fmt: skip


def coupling_bound(drafting: Drafting, seen: DecodedTrees) -> doc.Expected:
    """Return what no rule exceeds in one call on such trees, on the calls of a run."""
    found = seen.interval(COUPLING, CONFIDENCE)
    counted = TreeWorth(drafting).by == "counting"
    return doc.Expected(
        exact=None, fraction=None, lower=0.0 if counted else max(found.low, 0.0),
        upper=min(found.mean if counted else found.high, seen.gamma),
        method="counting" if counted else "rao-blackwell", confidence=CONFIDENCE,
    )  # fmt: skip


def _curve(seen: DecodedTrees) -> doc.Curve:
    rates = seen.tails / seen.worth.blocks
    if seen.known:
        levels = [seen.interval(OWN, CONFIDENCE, level) for level in range(seen.gamma)]
        lower, upper = [x.low for x in levels], [x.high for x in levels]
    else:
        low, high = stats.rate_interval(seen.tails, seen.worth.blocks, error=1.0 - CONFIDENCE)
        lower, upper = low.tolist(), high.tolist()
    return doc.Curve(
        exact=None,
        lower=tuple(max(x, 0.0) for x in lower),
        upper=tuple(min(x, 1.0) for x in upper),
        measured=tuple(rates.tolist()),
    )


def _acceptance(seen: DecodedTrees, alpha: float, detect: float) -> doc.Acceptance:
    """Test how often the rule went on at the nodes that it came by, where its step is known."""
    if not seen.stepped:
        return doc.Acceptance(
            verdict="PASS", words=UNKNOWN_LAW, tests=(), detectable=0.0, deviation=NOT_JUDGED,
            findings=(),
        )  # fmt: skip
    sums = stats.indicator_sums(seen.went, seen.chances)
    test = stats.indicator_test(sums, alpha=alpha, name="drafts kept at a node")
    # No coin decides, as at temperature 0: one node that is off shows it.
    each = REFUTED / sums.n if sums.variance == 0.0 else test.min_detectable
    findings = []
    wrong = int(np.where(seen.went, seen.chances == 0.0, seen.chances == 1.0).sum())
    if wrong:
        findings.append(
            f"goes on where its rule cannot, or stops, at {wrong:,} of {sums.n:,} nodes"
        )
    elif test.rejected:
        way = "more" if test.statistic > 0.0 else "less"
        findings.append(
            f"keeps a draft {way} often than its rule would, by {abs(test.statistic):.3g} of the "
            f"time at {test.n:,} nodes"
        )
    verdict: doc.Verdict = "FAIL" if findings else "PASS" if each <= detect else "INCONCLUSIVE"
    return doc.Acceptance(
        verdict=verdict,
        words=WORDS[verdict],
        tests=(test_document(test),),
        detectable=finite(each),
        deviation="shift of the rate of drafts kept at a node",
        findings=tuple(findings),
    )
