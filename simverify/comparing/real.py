"""Comparisons on real models: a pair that decodes, or a trace of one.

Each verifier gets a row, and so does each rule for draft trees; each way of drafting gets a
document. Drafts by layers in groups (EasySpec) are compared in similarity, acceptance and time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from msgspec.structs import replace

from simverify import results as doc
from simverify import stats
from simverify.battery.battery import (
    certificate_document,
    certify_output,
    faults_document,
    finite_or_none,
    judge_output,
    output_shares,
    output_tokens,
    start_meta,
    suspect_document,
    test_document,
)
from simverify.checks import check_comparison
from simverify.comparing.documents import UNKNOWN_LAW_WORDS
from simverify.comparing.sampled import NOT_JUDGED_DEVIATION
from simverify.comparing.trees import tree_rules
from simverify.drafting.groups import layer_groups
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.trace import Manifest, Trace, open_trace
from simverify.models.transformer import TransformerPair
from simverify.simulators.decoding.job import (
    DEFAULT_LANES,
    MAX_REQUEST_TOKENS,
    DecodedRun,
    EmissionObserver,
    decoding_document,
    drafter_document,
    from_arrays,
    make_job,
)
from simverify.simulators.decoding.loop import (
    PLAIN_DRAFTING,
    RULES,
    Block,
    Clock,
    Interval,
    Job,
    LaneStatistics,
    block_curves,
    decode,
    decode_plain,
    verifier_factory,
)
from simverify.simulators.decoding.replayed import (
    STATELESS_RULES,
    finish_replays,
    start_replays,
    trace_blocks,
)
from simverify.simulators.decoding.trees import (
    COUPLING_PART,
    OPTIMUM_PART,
    RULE_PART,
    TAU_PART,
    DecodedTreeRun,
    StatelessTreeVerifier,
    TreeBlock,
    TreeEmissionObserver,
    TreeExpectation,
    decode_trees,
    min_inner_nodes,
    walk_steps,
)
from simverify.simulators.latency import predicted_speedup
from simverify.simulators.run import Features
from simverify.trees import Drafting, get_scheme, shape_of_levels
from simverify.verifiers import Verifier, get_verifier
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier

# The row of one verifier on real models, from what its run recorded.


CONFIDENCE = 0.999
POWER = 0.9
REAL_MODEL_DETECT = 0.04
"""Deviation that a run on real models is to find: they are too slow for a simulation's .01."""

_DELTA = 1e-3
REFUTED_LOG_EVALUE = float(np.log(1.0 / (1.0 - POWER)))
ACCEPTANCE_WORDS: dict[doc.Verdict, str] = {
    "PASS": "accepts as the declared rule does",
    "FAIL": "not the declared rule",
    "INCONCLUSIVE": "too few blocks to tell it from other rules",
}


def pair_row(
    model: str,
    vocab_size: int,
    rule: Verifier,
    seen: DecodedRun,
    *,
    share: float,
    detect: float,
    cost_ratio: float,
    baseline: DecodedRun | None,
) -> doc.CompareResult:
    """Judge one verifier's tokens and acceptance at level ``share``.

    ``baseline``: the run of the token rule, on whose blocks the rules are paired.
    """
    gamma = seen.gamma
    lossless = judge_tokens_lossless(seen.features, share, detect)
    acceptance = _judge_acceptance(seen, output_shares(share)["acceptance"], detect)
    expected = expected_accepted(seen, rule.name)
    coupling = rule.contract == "step"
    optimum = _expected_tau(seen, "greedy" if coupling else "block").mean
    tau = seen.worth.interval(_observation_weights(gamma, None), CONFIDENCE)
    curve = [
        seen.worth.interval(_observation_weights(gamma, rule.name, level), CONFIDENCE)
        for level in range(gamma)
    ]
    # The debt of a rule with state is paid in later calls, so its whole generation counts.
    accepted = tau.mean if coupling else _expected_tau(seen, rule.name).mean
    return doc.CompareResult(
        model=model,
        verifier=rule.name,
        gamma=gamma,
        vocab_size=vocab_size,
        verdict=doc.overall([lossless.verdict, acceptance.verdict]),
        expected_accepted=expected,
        measured=doc.Measured(
            mean=tau.mean,
            ci_low=max(tau.low, 0.0),
            ci_high=min(tau.high, gamma),
            confidence=CONFIDENCE,
            blocks=seen.worth.blocks,
        ),
        block_efficiency=accepted + 1.0,
        optimum=doc.Optimum(name="coupling" if coupling else "block", expected_accepted=optimum),
        optimality=_expected_tau(seen, rule.name).mean / optimum if optimum > 0 else 1.0,
        lossless=lossless,
        acceptance=acceptance,
        acceptance_ccdf=doc.Curve(
            exact=None,
            lower=tuple(max(level.low, 0.0) for level in curve),
            upper=tuple(min(level.high, 1.0) for level in curve),
            measured=tuple((seen.tails / seen.worth.blocks).tolist()),
        ),
        speedup=doc.Speedup(
            cost_ratio=cost_ratio, predicted=predicted_speedup(accepted, gamma, cost_ratio)
        ),
        calls=(),
        paired=None
        if baseline is None or rule.name == "token"
        else _paired_document(baseline, rule),
    )


def judge_tokens_lossless(found: Features, share: float, detect: float) -> doc.Lossless:
    """Judge emitted tokens, each against its own target row, at level ``share``."""
    judged = judge_output(found, share)
    verdict = judged.verdict(detect)
    bound = certificate_document(certify_output(found, _DELTA)) if verdict == "PASS" else None
    return doc.Lossless(
        verdict=verdict,
        tier="output",
        max_abs_deviation=None,
        tv=None,
        exact=None,
        tests=tuple(test_document(test) for test in judged.tests),
        detectable=finite_or_none(judged.detectable),
        deviation=judged.deviation,
        beside=(),
        certificate=bound,
        faults=faults_document(judged.named),
        localisation=suspect_document(judged.located),
        findings=judged.findings,
    )


def _judge_acceptance(seen: DecodedRun, alpha: float, detect: float) -> doc.Acceptance:
    """Test the tau of every block against its law, which coins alone leave open."""
    values, laws = np.arange(seen.gamma + 1), seen.laws
    sums = stats.score_sums_of_contexts(
        (values == seen.taus[:, None]).astype(np.int64),
        laws / laws.sum(axis=1, keepdims=True),
        np.broadcast_to(values.astype(np.float64), laws.shape),
    )
    test = stats.score_test(sums, alpha=alpha, name="accepted tokens of a first call")
    each = test.min_detectable / seen.gamma
    if sums.variance == 0.0:
        # No coin decides, as at temperature 0: one call that is off shows it.
        each = REFUTED_LOG_EVALUE / test.n
    findings = []
    if wrong := int((laws[np.arange(test.n), seen.taus] == 0.0).sum()):
        findings.append(f"accepts what its rule cannot accept, in {wrong:,} of {test.n:,} blocks")
    if test.rejected:
        way = "more" if test.statistic > 0.0 else "fewer"
        findings.append(
            f"accepts {abs(test.statistic):.3g} tokens a call {way} than its rule would, on "
            f"{test.n:,} blocks"
        )
    verdict: doc.Verdict = "FAIL" if findings else "PASS" if each <= detect else "INCONCLUSIVE"
    return doc.Acceptance(
        verdict=verdict,
        words=ACCEPTANCE_WORDS[verdict],
        tests=(test_document(test),),
        detectable=finite_or_none(each),
        deviation="shift of E[tau] / gamma",
        findings=tuple(findings),
    )


def _observation_weights(gamma: int, rule: str | None, level: int | None = None) -> list[float]:
    """Weights of what an emission observer keeps: a rule's curve, one level, or tau (None)."""
    weights = np.zeros(len(RULES) * gamma + 1)
    if rule is None:
        weights[-1] = 1.0
        return weights.tolist()
    first = RULES.index(rule) * gamma
    weights[first : first + gamma] = 1.0
    if level is not None:
        weights[first : first + gamma] = np.arange(gamma) == level
    return weights.tolist()


def _expected_tau(seen: DecodedRun, rule: str) -> Interval:
    """E[tau] of a rule on the blocks of a run."""
    return seen.worth.interval(_observation_weights(seen.gamma, rule), CONFIDENCE)


def _paired_document(baseline: DecodedRun, rule: Verifier) -> doc.Paired:
    weights = np.subtract(
        _observation_weights(baseline.gamma, rule.name),
        _observation_weights(baseline.gamma, "token"),
    )
    interval = baseline.worth.interval(weights, CONFIDENCE)
    return doc.Paired(
        baseline="token",
        difference=interval.mean,
        ci_low=interval.low,
        ci_high=interval.high,
        confidence=CONFIDENCE,
        blocks=baseline.worth.blocks,
    )


def expected_accepted(seen: DecodedRun, rule: str) -> doc.Expected:
    """Return the document's entry of E[tau] of ``rule`` on the blocks of a run."""
    interval = _expected_tau(seen, rule)
    return doc.Expected(
        exact=None,
        fraction=None,
        lower=max(interval.low, 0.0),
        upper=min(interval.high, seen.gamma),
        method="rao-blackwell",
        confidence=CONFIDENCE,
    )


# The row of one rule for draft trees, from what its calls recorded.


def tree_row(
    model: str,
    vocab_size: int,
    rule: TreeVerifier,
    drafting: Drafting,
    seen: DecodedTreeRun,
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
    lossless = replace(judge_tokens_lossless(seen.features, share, detect), faults=None)
    acceptance = _judge_tree_acceptance(seen, output_shares(share)["acceptance"], detect)
    tau = seen.interval(TAU_PART, CONFIDENCE)
    accepted = seen.interval(RULE_PART, CONFIDENCE) if seen.known else tau
    optimum = tree_optimum_document(drafting, seen)
    best = optimum.expected_accepted
    return doc.CompareResult(
        model=model,
        verifier=rule.name,
        gamma=gamma,
        vocab_size=vocab_size,
        verdict=doc.overall([lossless.verdict, acceptance.verdict]),
        expected_accepted=doc.Expected(
            exact=None,
            fraction=None,
            lower=max(accepted.low, 0.0),
            upper=min(accepted.high, gamma),
            method="rao-blackwell" if seen.known else "measured",
            confidence=CONFIDENCE,
        ),
        measured=doc.Measured(
            mean=tau.mean,
            ci_low=max(tau.low, 0.0),
            ci_high=min(tau.high, gamma),
            confidence=CONFIDENCE,
            blocks=seen.worth.blocks,
        ),
        block_efficiency=accepted.mean + 1.0,
        optimum=optimum,
        optimality=accepted.mean / best if best > 0 else 1.0,
        lossless=lossless,
        acceptance=acceptance,
        acceptance_ccdf=_tree_curve_document(seen),
        speedup=doc.Speedup(
            cost_ratio=cost_ratio,
            predicted=predicted_speedup(accepted.mean, gamma, cost_ratio, shape=drafting.shape),
            rows=len(drafting.shape) + 1,
        ),
        calls=(),
        node_counts=doc.NodeCounts(calls=seen.worth.blocks, kept=tuple(seen.nodes.tolist())),
    )


def tree_optimum_document(drafting: Drafting, seen: DecodedTreeRun) -> doc.Optimum:
    """Return what no rule without state exceeds on such trees, on the calls of a run."""
    by = TreeExpectation(drafting).by
    return doc.Optimum(
        name="memoryless",
        expected_accepted=min(seen.interval(OPTIMUM_PART, CONFIDENCE).mean, seen.gamma),
        by=by,
        bound=by == "counting",
    )


def tree_coupling_document(drafting: Drafting, seen: DecodedTreeRun) -> doc.Expected:
    """Return what no rule exceeds in one call on such trees, on the calls of a run."""
    interval = seen.interval(COUPLING_PART, CONFIDENCE)
    counted = TreeExpectation(drafting).by == "counting"
    return doc.Expected(
        exact=None,
        fraction=None,
        lower=0.0 if counted else max(interval.low, 0.0),
        upper=min(interval.mean if counted else interval.high, seen.gamma),
        method="counting" if counted else "rao-blackwell",
        confidence=CONFIDENCE,
    )


def _tree_curve_document(seen: DecodedTreeRun) -> doc.Curve:
    rates = seen.tails / seen.worth.blocks
    if seen.known:
        levels = [seen.interval(RULE_PART, CONFIDENCE, level) for level in range(seen.gamma)]
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


def _judge_tree_acceptance(seen: DecodedTreeRun, alpha: float, detect: float) -> doc.Acceptance:
    """Test how often the rule went on at the nodes that it came by, where its step is known."""
    if not seen.stepped:
        return doc.Acceptance(
            verdict="PASS",
            words=UNKNOWN_LAW_WORDS,
            tests=(),
            detectable=0.0,
            deviation=NOT_JUDGED_DEVIATION,
            findings=(),
        )
    sums = stats.indicator_sums(seen.went, seen.chances)
    test = stats.indicator_test(sums, alpha=alpha, name="drafts kept at a node")
    # No coin decides, as at temperature 0: one node that is off shows it.
    each = REFUTED_LOG_EVALUE / sums.n if sums.variance == 0.0 else test.min_detectable
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
        words=ACCEPTANCE_WORDS[verdict],
        tests=(test_document(test),),
        detectable=finite_or_none(each),
        deviation="shift of the rate of drafts kept at a node",
        findings=tuple(findings),
    )


# All rules on one pair of real models that drafts in one way.


@dataclass(frozen=True)
class RowSettings:
    """What every row is judged by: its ``share`` of alpha, what is to be found, a cost ratio."""

    share: float
    detect: float
    cost_ratio: float


@dataclass(frozen=True, eq=False)
class DecodedRules:
    """What every rule made of the drafts of one method, by its name."""

    method: DraftMethod
    rules: Sequence[Verifier | TreeVerifier]
    drafting: Drafting | None
    runs: dict[str, DecodedRun]
    of_trees: dict[str, DecodedTreeRun]
    clocks: dict[str, Clock]


def decode_rules(
    pair: TransformerPair,
    job: Job,
    rules: Sequence[Verifier | TreeVerifier],
    drafting: Drafting | None,
    method: DraftMethod,
    say: Callable[[str], None],
) -> DecodedRules:
    """Decode ``job`` with every rule, one after the other."""
    runs: dict[str, DecodedRun] = {}
    of_trees: dict[str, DecodedTreeRun] = {}
    clocks = {}
    calls = -(-job.lane_tokens // (job.gamma + 1))
    for rule in rules:
        say(f"{method.on(pair)}: {rule.name}")
        if isinstance(rule, TreeVerifier):
            assert drafting is not None
            nodes = min_inner_nodes(drafting.shape, job.lane_tokens)
            seen = TreeEmissionObserver(job.lanes, job.seed, drafting, rule, nodes=nodes)
            judge = partial(StatelessTreeVerifier, rule.rule)
            clocks[rule.name] = decode_trees(pair, job, drafting, judge, seen, method)
            of_trees[rule.name] = seen.decoded
        else:
            emitted = EmissionObserver(job, rule, calls=calls)
            clocks[rule.name] = decode(pair, job, verifier_factory(rule), emitted, method=method)
            runs[rule.name] = emitted.decoded
    return DecodedRules(method, rules, drafting, runs, of_trees, clocks)


def judge_rows(
    pair: TransformerPair, found: DecodedRules, promise: RowSettings
) -> list[doc.CompareResult]:
    """Judge what every rule made."""
    rows = []
    name, vocab_size = found.method.on(pair), pair.vocab_size
    for rule in found.rules:
        if isinstance(rule, TreeVerifier):
            assert found.drafting is not None
            row = tree_row(
                name,
                vocab_size,
                rule,
                found.drafting,
                found.of_trees[rule.name],
                share=promise.share,
                detect=promise.detect,
                cost_ratio=promise.cost_ratio,
            )
        else:
            row = pair_row(
                name,
                vocab_size,
                rule,
                found.runs[rule.name],
                share=promise.share,
                detect=promise.detect,
                cost_ratio=promise.cost_ratio,
                baseline=found.runs.get("token"),
            )
            row = msgspec.structs.replace(row, one_draft=found.drafting is not None)
        rows.append(row)
    return rows


def pair_document(pair: TransformerPair, found: DecodedRules) -> doc.ModelInfo:
    """Return the document's entry of the pair, drafting as it did."""
    method = found.method
    return doc.ModelInfo(
        name=method.on(pair),
        given=None,
        vocab_size=pair.vocab_size,
        bounds=_bounds_document(found),
        file_sha256=None,
        draft_distance=None,
        temperature=None,
        corpus_sha256=None,
        target_perplexity=None,
        draft_perplexity=None,
        drafter=drafter_document(method),
    )


def timing_documents(rows: Sequence[doc.CompareResult], found: DecodedRules) -> list[doc.Timing]:
    """Return how fast each rule's calls were."""
    return [
        doc.Timing(
            model=row.model,
            verifier=row.verifier,
            blocks_per_second=clock.calls / (clock.draft + clock.score + clock.verify),
        )
        for row, clock in zip(rows, found.clocks.values(), strict=True)
    ]


def latency_documents(
    rows: Sequence[doc.CompareResult], found: DecodedRules, alone: Clock
) -> list[doc.Latency]:
    """Return the wall clock of each rule; ``alone``: of the target without a draft."""
    return [
        _latency_document(row, clock, alone)
        for row, clock in zip(rows, found.clocks.values(), strict=True)
    ]


def _latency_document(row: doc.CompareResult, clock: Clock, alone: Clock) -> doc.Latency:
    each = [part / clock.tokens for part in (clock.draft, clock.score, clock.verify)]
    rounds = clock.calls / clock.score
    ratio = clock.draft / clock.drafted * rounds
    return doc.Latency(
        model=row.model,
        verifier=row.verifier,
        plain=alone.seconds_per_token,
        speculative=clock.seconds_per_token,
        draft=each[0],
        score=each[1],
        verify=each[2],
        cost_ratio=ratio,
        predicted=predicted_speedup(row.block_efficiency - 1.0, row.gamma, ratio),
        measured=alone.seconds_per_token / clock.seconds_per_token,
        block_cost=clock.score / clock.calls * alone.calls / alone.score,
    )


def _bounds_document(found: DecodedRules) -> doc.Bounds:
    """Return the bound that no rule beats in one call."""
    if found.drafting is not None:
        name, seen = next(iter(found.of_trees.items()))
        return doc.Bounds(coupling=tree_coupling_document(found.drafting, seen), blocks_of=name)
    # Greedy's first calls attain the bound: on its own blocks no row contradicts it.
    blocks_of = "greedy" if "greedy" in found.runs else found.rules[0].name
    return doc.Bounds(
        coupling=expected_accepted(found.runs[blocks_of], "greedy"), blocks_of=blocks_of
    )


# Drafts by layers in groups against plain ones: similarity, acceptance and its loss, time.


DEFAULT_WIDTHS = (1, 2, 4)
"""Drafts side by side at the first level of the trees."""

LAYER_PARALLEL_TOKENS = 4_000
"""Emitted tokens of each run by default, where the verifiers' own have their promise to keep."""

MAX_COMPARED_TOKENS = 64
"""Most tokens of a prompt on which passes are compared."""


def compare_layer_groups(
    pair: TransformerPair,
    job: Job,
    numbers: Sequence[int],
    *,
    tokens: int,
    widths: Sequence[int] = DEFAULT_WIDTHS,
    say: Callable[[str], None],
) -> tuple[doc.LayerParallel, ...]:
    """Return similarities and acceptance for each number of layers a group.

    ``job``: its prompts, gamma, lanes and seed are taken; every run emits ``tokens``. Plain drafts
    are run for each width once, as what the others lose against. Widths above 1 need models that
    take the masks of draft trees.
    """
    widths = [width for width in widths if width == 1 or _supports_trees(pair)]
    job = replace_fields(job, lane_tokens=-(-tokens // job.lanes))
    say(f"{pair.name}: acceptance of plain drafts by width")
    plain = {width: _expected_tau_by_lane(pair, job, width, PLAIN_DRAFTING) for width in widths}
    layers = pair.draft_model.config.num_hidden_layers
    results = []
    for number in numbers:
        say(f"{pair.name}: acceptance in groups of {number}, by width")
        acceptance = [_acceptance_document(plain[width], width, None, None) for width in widths]
        groups = layer_groups(layers, number)
        if any(len(group) > 1 for group in groups):
            acceptance += [
                _acceptance_document(
                    _expected_tau_by_lane(
                        pair, job, width, DraftMethod("easyspec", number, calibration)
                    ),
                    width,
                    calibration,
                    plain[width],
                )
                for calibration in (True, False)
                for width in widths
            ]
        results.append(
            doc.LayerParallel(
                layer_parallel=number,
                groups=tuple(map(tuple, groups)),
                layers=_similarity_documents(pair, job, number),
                acceptance=tuple(acceptance),
            )
        )
    return tuple(results)


def drafting_times(
    pair: TransformerPair, job: Job, clocks: Mapping[int, Clock]
) -> tuple[doc.DraftingTime, ...]:
    """Return what passes take, and what the time model predicts.

    ``clocks``: of each number of layers a group the clock of a rule that decoded.
    """
    from simverify.drafting.easyspec import group_devices, measure_blocks
    from simverify.drafting.time_model import fit_time_model, predict_drafting

    context = int(median(map(len, job.prompts))) + job.request_tokens // 2
    results = []
    for number, clock in clocks.items():
        measured = measure_blocks(
            pair.draft_model,
            number,
            lanes=job.lanes,
            context=context,
            devices=group_devices(pair.draft_model.device),
        )
        times = fit_time_model(measured)
        whole = clock.draft + clock.score + clock.verify
        results.append(
            doc.DraftingTime(
                layer_parallel=number,
                attention=measured.attention,
                mlp=measured.mlp,
                group=measured.group,
                group_size=measured.group_size,
                workers=measured.workers,
                exact_pass=measured.exact_pass,
                fuzzy_pass=measured.fuzzy_pass,
                rest=times.rest,
                added=times.added,
                predicted=tuple(predict_drafting(times, job.gamma)),
                per_token=clock.draft / (job.gamma * clock.rounds),
                share=clock.draft / whole,
                tokens_per_second=clock.tokens / whole,
            )
        )
    return tuple(results)


def _expected_tau_by_lane(
    pair: TransformerPair, job: Job, width: int, method: DraftMethod
) -> LaneStatistics:
    """Decode; return per lane what the rows of each call let expect of tau."""
    worth = LaneStatistics(job.lanes, 1)
    if width == 1:
        token = RULES.index("token")

        def chain(block: Block) -> None:
            worth.add(block.lane, [float(block_curves(block)[token].sum())])

        decode(pair, job, verifier_factory(get_verifier("token")), chain, method=method)
        return worth
    shape = shape_of_levels([width] + [1] * (job.gamma - 1))
    drafting, rule = Drafting(shape, get_scheme("iid")), TREE_VERIFIERS["recursive"]

    def tree(call: TreeBlock) -> None:
        steps = walk_steps(rule, drafting, call.drawn, call.found)
        assert steps is not None, "recursive rejection on independent siblings has a closed form"
        worth.add(call.block.lane, [sum(chance for chance, _ in steps)])

    decode_trees(pair, job, drafting, partial(StatelessTreeVerifier, rule.rule), tree, method)
    return worth


def _supports_trees(pair: TransformerPair) -> bool:
    try:
        pair.check_tree_attention()
    except UsageError:
        return False
    return True


def _acceptance_document(
    worth: LaneStatistics, width: int, calibration: bool | None, plain: LaneStatistics | None
) -> doc.DraftAcceptance:
    interval = worth.interval([1.0], CONFIDENCE)
    return doc.DraftAcceptance(
        width=width,
        calibration=calibration,
        expected_accepted=doc.Expected(
            exact=None,
            fraction=None,
            lower=max(interval.low, 0.0),
            upper=interval.high,
            method="rao-blackwell",
            confidence=CONFIDENCE,
        ),
        blocks=worth.blocks,
        loss=None if plain is None else _loss_document(worth, plain),
    )


def _loss_document(worth: LaneStatistics, plain: LaneStatistics) -> doc.Loss | None:
    """Return 1 - worth / plain with its interval, from how far lanes are off that ratio.

    A lane has the same prompts and the same uniforms in both runs, so that what it keeps in one
    goes with what it keeps in the other: lanes are compared one by one (the delta method).
    """
    mean, baseline = float(worth.means[0]), float(plain.means[0])
    if baseline <= 0.0:
        return None
    ratio = mean / baseline
    of_lanes = [
        (own.sums - own.means * own.counts[:, None]) / (own.counts.mean() * baseline)
        for own in (worth, plain)
    ]
    off = of_lanes[0] - ratio * of_lanes[1]
    # Deviations of lanes sum to 0: they are those of a mean over a block a lane.
    interval = LaneStatistics.of(off, np.ones(len(off))).interval([1.0], CONFIDENCE)
    half = interval.high - interval.mean
    return doc.Loss(mean=1.0 - ratio, ci_low=1.0 - ratio - half, ci_high=1.0 - ratio + half)


def _similarity_documents(
    pair: TransformerPair, job: Job, number: int
) -> tuple[doc.LayerSimilarity, ...]:
    """Compare passes on the prompts' beginnings, whose last gamma tokens are read fuzzily."""
    from simverify.drafting.easyspec import layer_similarities

    length = min(int(median(map(len, job.prompts))), MAX_COMPARED_TOKENS)
    texts = [prompt[:length] for prompt in job.prompts if len(prompt) >= length]
    exact = max(length - job.gamma, 0)
    return tuple(layer_similarities(pair.draft_model, np.array(texts), number, exact_tokens=exact))


# A comparison on a pair of real models: every verifier decodes, is judged and timed.
#
# On draft trees, the rules that judge trees stand beside those for a single draft of the same
# depth.


DEFAULT_TOKENS = 20_000
"""Fewest emitted tokens a verifier by default: enough for the acceptance test as well."""


def compare_pair(
    pair: TransformerPair,
    prompts: Sequence[str],
    verifiers: Sequence[str] | None = ("token", "block", "greedy"),
    *,
    gamma: int,
    drafting: Drafting | None = None,
    methods: Sequence[DraftMethod] = (DraftMethod(),),
    tokens: int | None = None,
    lanes: int = DEFAULT_LANES,
    request_tokens: int = MAX_REQUEST_TOKENS,
    cost_ratio: float = 0.1,
    alpha: float = 1e-6,
    detect: float = REAL_MODEL_DETECT,
    seed: int = 0,
    prompts_file: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.CompareRun:
    """Decode the prompts with every verifier, judge the tokens, and time it against no draft.

    Parameters
    ----------
    pair
        Target, draft, tokenizer and sampling, as
        :func:`~simverify.models.transformer.load_pair` returns them.
    prompts
        Texts; lanes take them in turn, over and over.
    verifiers
        Of token, block, greedy and match. On draft trees of those that judge such, with token
        and block beside them; None: all that are lossless there.
    gamma
        Draft length; the depth of the trees.
    drafting
        The trees that are drafted; None: a single draft.
    methods
        How drafts are made, each in its turn; rows and bounds stand for each by its name.
    tokens
        Emitted tokens a verifier; by default as many as the promised power needs.
    lanes
        Requests decoded side by side, 2 or more.
    request_tokens
        Most new tokens of one request; fewer where the context is short.
    cost_ratio
        Time of a draft token over that of a target call, for the model of the result; what
        was measured stands beside it.
    alpha, detect
        As in :func:`simverify.compare`; the deviation is of the kind that the result names.
    seed
        Of all draws. Batches of another size round otherwise and may emit other tokens.
    prompts_file
        Path of the prompts, for the document.

    Raises
    ------
    UsageError
        If a value is out of range, a verifier is unknown, or a prompt is too long.
    """
    check_comparison(
        verifiers or (), gamma=gamma, cost_ratio=cost_ratio, alpha=alpha, detect=detect, seed=seed
    )
    rules = _check_rules(verifiers, drafting)
    _check_methods(methods, drafting)
    share = alpha / (len(rules) * len(methods))
    wanted = max(output_tokens(detect, share), DEFAULT_TOKENS) if tokens is None else tokens
    job = make_job(
        pair,
        prompts,
        gamma=gamma,
        tokens=wanted,
        lanes=lanes,
        request_tokens=request_tokens,
        seed=seed,
    )
    if drafting is not None:
        pair.check_tree_attention()
    for method in methods:
        method.make(pair, 1)  # what does not fit the model is said before anything runs
    say, stamp = progress or (lambda _: None), start_meta()
    say(f"{Path(pair.target_name).name}: the target alone")
    alone = decode_plain(pair, job)
    promise = RowSettings(share, detect, cost_ratio)
    rows, models, speeds, times = [], [], [], []
    clocks: dict[int, Clock] = {}
    for method in methods:
        decoded = decode_rules(pair, job, rules, drafting, method, say)
        method_rows = judge_rows(pair, decoded, promise)
        rows += method_rows
        models.append(pair_document(pair, decoded))
        speeds += timing_documents(method_rows, decoded)
        times += latency_documents(method_rows, decoded, alone)
        if method.name == "easyspec":
            clocks.setdefault(method.layer_parallel, next(iter(decoded.clocks.values())))
    layer_parallel: tuple[doc.LayerParallel, ...] = ()
    drafting_time: tuple[doc.DraftingTime, ...] = ()
    if clocks:
        studied = min(wanted, LAYER_PARALLEL_TOKENS) if tokens is None else tokens
        layer_parallel = compare_layer_groups(pair, job, list(clocks), tokens=studied, say=say)
        drafting_time = drafting_times(pair, job, clocks)
    return doc.CompareRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=seed,
        gamma=gamma,
        blocks=None,
        alpha=alpha,
        detect=detect,
        power=POWER,
        eos=min(pair.eos) if pair.eos else None,
        verdict=doc.overall([row.verdict for row in rows]),
        results=tuple(rows),
        models=tuple(models),
        decoding=decoding_document(pair, job, prompts, prompts_file, methods),
        drafting=None
        if drafting is None
        else doc.DraftTrees(parents=drafting.shape.parents, scheme=drafting.scheme.name),
        layer_parallel=layer_parallel,
        meta=msgspec.structs.replace(
            stamp(), timings=tuple(speeds), latencies=tuple(times), drafting=drafting_time
        ),
    )


def _check_rules(
    names: Sequence[str] | None, drafting: Drafting | None
) -> "list[Verifier | TreeVerifier]":
    if drafting is None:
        return [_check_rule(get_verifier(name)) for name in names or ()]
    rules: list[Verifier | TreeVerifier] = [
        rule
        for rule in tree_rules(names, drafting, {}).values()
        if isinstance(rule, Verifier | TreeVerifier)
    ]
    if not any(isinstance(rule, TreeVerifier) for rule in rules):
        raise UsageError(
            f"there is no rule for draft trees among {', '.join(rule.name for rule in rules)}: "
            "name one, or ask for a single draft"
        )
    return rules


def _check_methods(methods: Sequence[DraftMethod], drafting: Drafting | None) -> None:
    if len(set(methods)) < len(methods):
        raise UsageError("a drafter is named twice: name each way of drafting once")
    for method in methods:
        if drafting is not None:
            method.check_tree_attention()


def _check_rule(rule: Verifier) -> Verifier:
    if rule.name not in RULES:
        raise UsageError(
            f"verifier {rule.name!r} has no expected acceptance on real models: expected one of "
            f"{', '.join(RULES)} (for temperature 0, set the temperature)"
        )
    return rule


# A comparison on a trace: every rule on the same recorded blocks, without the models.


def compare_trace(
    folder: Path,
    verifiers: Sequence[str] = STATELESS_RULES,
    *,
    gamma: int | None = None,
    cost_ratio: float = 0.1,
    alpha: float = 1e-6,
    detect: float = REAL_MODEL_DETECT,
    seed: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.CompareRun:
    """Call every verifier on every block of the trace in ``folder``, and judge what it emits.

    Parameters
    ----------
    folder
        As :func:`~simverify.comparing.capture.capture` wrote it.
    verifiers
        Of token, block and match.
    gamma
        The trace's own, or None.
    cost_ratio, alpha, detect
        As in :func:`simverify.compare`.
    seed
        Of the verifiers' coins; that of the recording if None. Statistics have theirs.
    progress
        Receives lines.

    Raises
    ------
    UsageError
        If the trace is damaged, of another gamma, or too short, or a verifier carries state.
    """
    trace = open_trace(folder)
    made = trace.manifest
    if gamma is not None and gamma != made.gamma:
        raise UsageError(f"gamma is {gamma}: {folder} was drafted with gamma {made.gamma}")
    rules = [_check_trace_rule(get_verifier(name)) for name in verifiers]
    seed = made.seed if seed is None else seed
    check_comparison(
        verifiers, gamma=made.gamma, cost_ratio=cost_ratio, alpha=alpha, detect=detect, seed=seed
    )
    say, stamp = progress or (lambda _: None), start_meta()
    say(f"{made.name}: {made.blocks:,} recorded blocks")
    if made.kind == "rows":
        decoded, speeds = _replay_rules(trace, rules, seed)
    else:
        if seed != made.seed:
            raise UsageError(
                f"seed is {seed}: the statistics in {folder} were made with seed {made.seed}"
            )
        decoded, speeds = _stored_runs(trace, rules), {}
    rows = [
        pair_row(
            made.name,
            made.vocab_size,
            rule,
            decoded[rule.name],
            share=alpha / len(rules),
            detect=detect,
            cost_ratio=cost_ratio,
            baseline=decoded.get("token"),
        )
        for rule in rules
    ]
    coupling = expected_accepted(decoded[rules[0].name], "greedy")
    info = doc.ModelInfo(
        name=made.name,
        given=None,
        vocab_size=made.vocab_size,
        bounds=doc.Bounds(coupling=coupling, blocks_of="trace"),
        file_sha256=None,
        draft_distance=None,
        temperature=None,
        corpus_sha256=None,
        target_perplexity=None,
        draft_perplexity=None,
        drafter=made.decoding.drafter,
    )
    timings = [
        doc.Timing(model=made.name, verifier=r.name, blocks_per_second=speeds.get(r.name, 0.0))
        for r in rules
    ]
    return doc.CompareRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=seed,
        gamma=made.gamma,
        blocks=None,
        alpha=alpha,
        detect=detect,
        power=POWER,
        eos=None,
        verdict=doc.overall([row.verdict for row in rows]),
        results=tuple(rows),
        models=(info,),
        decoding=msgspec.structs.replace(
            made.decoding, trace=str(folder), trace_sha256=made.sha256
        ),
        meta=msgspec.structs.replace(stamp(), timings=tuple(timings)),
    )


def _replay_rules(
    trace: Trace, rules: Sequence[Verifier], seed: int
) -> tuple[dict[str, DecodedRun], dict[str, float]]:
    """What each rule emits, and its calls a second."""
    made = trace.manifest.decoding
    runs = start_replays(
        rules, gamma=trace.manifest.gamma, lanes=made.lanes, tokens=made.tokens, seed=seed
    )
    for block in trace_blocks(trace):
        for run in runs.values():
            run.replayed(block)
    decoded = finish_replays(runs)
    return decoded, {name: run.replayed.calls / run.replayed.seconds for name, run in runs.items()}


def _stored_runs(trace: Trace, rules: Sequence[Verifier]) -> dict[str, DecodedRun]:
    made: Manifest = trace.manifest
    missing = [rule.name for rule in rules if rule.name not in made.rules]
    if missing:
        raise UsageError(
            f"{trace.folder} holds statistics of {', '.join(made.rules)}, not of {missing[0]}"
        )
    arrays = trace.statistics()
    decoded = {}
    for rule in rules:
        rule_arrays = {
            name.removeprefix(f"{rule.name}."): array
            for name, array in arrays.items()
            if name.startswith(f"{rule.name}.")
        }
        try:
            decoded[rule.name] = from_arrays(rule_arrays)
        except ValueError as error:
            raise UsageError(f"trace: the statistics of {rule.name}: {error}") from None
    return decoded


def _check_trace_rule(rule: Verifier) -> Verifier:
    if rule.name not in STATELESS_RULES:
        why = (
            "carries state along tokens of its own, which a trace of other tokens has no rows for"
            if rule.contract == "step"
            else "has no expected acceptance on real models"
        )
        raise UsageError(
            f"verifier {rule.name!r} {why}: expected some of {', '.join(STATELESS_RULES)}"
        )
    return rule
