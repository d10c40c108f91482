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
from typing import Any

import numpy as np
from msgspec.structs import replace

from simverify import results as doc
from simverify import stats
from simverify.battery import battery
from simverify.checks import check_comparison
from simverify.comparing import documents
from simverify.comparing.custom_rules import CERTIFICATE_DELTA
from simverify.comparing.sampled import NOT_JUDGED
from simverify.comparing.trees import tree_rules
from simverify.drafting.groups import layer_groups
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.trace import Trace, open_trace
from simverify.models.transformer import TransformerPair
from simverify.simulators.decoding import job as jobs
from simverify.simulators.decoding import loop
from simverify.simulators.decoding import trees as tree_decoding
from simverify.simulators.decoding.replayed import (
    STATELESS_RULES,
    finish_replays,
    start_replays,
    trace_blocks,
)
from simverify.simulators.latency import predicted_speedup
from simverify.trees import Drafting, get_scheme, shape_of_levels
from simverify.verifiers import Verifier, get_verifier
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier

# The row of one rule on real models, from what its run recorded: on single drafts or draft trees.


REAL_MODEL_DETECT = 0.04
"""Deviation that a run on real models is to find: they are too slow for a simulation's .01."""

REFUTED_LOG_EVALUE = float(np.log(1.0 / (1.0 - documents.POWER)))


@dataclass(frozen=True)
class RowSettings:
    """What every row is judged by: its share of alpha, the deviation to find, a cost ratio."""

    alpha: float
    detect: float
    cost_ratio: float


def decoded_row(
    model: Any,
    rule: Verifier | TreeVerifier,
    run: jobs.DecodedRun,
    promise: RowSettings | documents.ComparisonSettings,
    *,
    drafting: Drafting | None = None,
    baseline: jobs.DecodedRun | None = None,
) -> doc.CompareResult:
    """Judge one rule's tokens and acceptance; ``model`` has a name and a vocabulary size.

    E[tau] follows from the rows of the blocks or trees where the rule's law is known, else it is
    the measured one. The optimum is of the same calls. ``baseline``: the run of the
    token rule, on whose blocks rules for a single draft are paired.
    """
    gamma, detect, tau = run.gamma, promise.detect, run.tau
    lossless = documents.lossless_document(
        battery.judge_output(run.features, promise.alpha),
        detect,
        "output",
        certificate=lambda: battery.certify_output(run.features, CERTIFICATE_DELTA),
    )
    alpha = battery.output_shares(promise.alpha)["acceptance"]
    parts: dict[str, Any] = {}
    rows = part = None
    if isinstance(run, tree_decoding.DecodedTrees):
        assert drafting is not None
        # The named faults are of rules for a single draft.
        lossless = replace(lossless, faults=None)
        report = _test_steps(run, alpha)
        optimum = tree_optimum_document(drafting, run)
        part, rows = tree_decoding.RULE_PART if run.known else None, len(drafting.shape) + 1
        parts["node_counts"] = doc.NodeCounts(run.worth.blocks, tuple(run.nodes.tolist()))
    else:
        assert isinstance(run, jobs.DecodedBlocks)
        report, part = _test_taus(run, alpha), loop.RULES.index(rule.name)
        kind, best = ("coupling", "greedy") if rule.contract == "step" else ("block", "block")
        optimum = doc.Optimum(kind, run.interval(loop.RULES.index(best)).mean)  # type: ignore[arg-type]
        if baseline is not None and rule.name != "token":
            parts["paired"] = _paired_document(baseline, rule)
    expected, bounds = tau, None
    if part is not None:
        expected = run.interval(part)
        levels = [run.interval(part, level) for level in range(gamma)]
        bounds = [level.low for level in levels], [level.high for level in levels]
    # The debt of a rule with state is paid in later calls, so its whole generation counts.
    accepted = tau.mean if rule.contract == "step" else expected.mean
    shape = None if drafting is None else drafting.shape
    method = "measured" if part is None else "rao-blackwell"
    speedup = predicted_speedup(accepted, gamma, promise.cost_ratio, shape=shape)
    return documents.result_document(
        model,
        rule.name,
        gamma,
        lossless,
        documents.acceptance_document(report, detect),
        optimum,
        accepted,
        first_call=expected.mean,
        expected_accepted=documents.interval_document(expected.low, expected.high, method, gamma),
        measured=doc.Measured(
            tau.mean, max(tau.low, 0.0), min(tau.high, gamma), jobs.CONFIDENCE, run.worth.blocks
        ),
        acceptance_ccdf=documents.curve_document(run.accepted, bounds),
        speedup=doc.Speedup(cost_ratio=promise.cost_ratio, predicted=speedup, rows=rows),
        **parts,
    )


def _test_taus(run: jobs.DecodedBlocks, alpha: float) -> battery.TestReport:
    """Test the tau of every block against its law given the rows and the drafts."""
    values, laws = np.arange(run.gamma + 1), run.laws
    sums = stats.score_sums_of_contexts(
        (values == run.taus[:, None]).astype(np.int64),
        laws / laws.sum(axis=1, keepdims=True),
        np.broadcast_to(values.astype(np.float64), laws.shape),
    )
    test = stats.score_test(sums, alpha=alpha, name="accepted tokens of a first call")
    findings = []
    if wrong := int((laws[np.arange(test.n), run.taus] == 0.0).sum()):
        findings.append(f"accepts what its rule cannot accept, in {wrong:,} of {test.n:,} blocks")
    if test.rejected:
        way = "more" if test.statistic > 0.0 else "fewer"
        findings.append(
            f"accepts {abs(test.statistic):.3g} tokens a call {way} than its rule would, on "
            f"{test.n:,} blocks"
        )
    # Without coins, as at temperature 0, one call that is off shows it.
    certain = sums.variance == 0.0
    each = REFUTED_LOG_EVALUE / test.n if certain else test.min_detectable / run.gamma
    return battery.TestReport((test,), tuple(findings), each, "shift of E[tau] / gamma")


def _test_steps(run: tree_decoding.DecodedTrees, alpha: float) -> battery.TestReport:
    """Test how often the rule went on at the nodes that it visited, where its step is known."""
    if not run.stepped:
        return NOT_JUDGED
    sums = stats.indicator_sums(run.went, run.chances)
    test = stats.indicator_test(sums, alpha=alpha, name="drafts kept at a node")
    findings = []
    wrong = int(np.where(run.went, run.chances == 0.0, run.chances == 1.0).sum())
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
    # Without coins, as at temperature 0, one node that is off shows it.
    each = REFUTED_LOG_EVALUE / sums.n if sums.variance == 0.0 else test.min_detectable
    deviation = "shift of the rate of drafts kept at a node"
    return battery.TestReport((test,), tuple(findings), each, deviation)


def _paired_document(baseline: jobs.DecodedRun, rule: Verifier | TreeVerifier) -> doc.Paired:
    weights = np.zeros((len(loop.RULES), baseline.gamma))
    weights[loop.RULES.index(rule.name)], weights[loop.RULES.index("token")] = 1.0, -1.0
    interval = baseline.worth.interval([*weights.ravel(), 0.0], jobs.CONFIDENCE)
    return doc.Paired(
        baseline="token",
        difference=interval.mean,
        ci_low=interval.low,
        ci_high=interval.high,
        confidence=jobs.CONFIDENCE,
        blocks=baseline.worth.blocks,
    )


def coupling_document(run: jobs.DecodedRun, drafting: Drafting | None = None) -> doc.Expected:
    """Return the bound that no rule exceeds in one call, on the calls of a run."""
    # On a single draft greedy's first call attains it (Sun et al. 2025, theorem 3).
    part = loop.RULES.index("greedy") if drafting is None else tree_decoding.COUPLING_PART
    interval = run.interval(part)
    if drafting is not None and tree_decoding.TreeExpectation(drafting).by == "counting":
        return documents.interval_document(0.0, interval.mean, "counting", run.gamma)
    return documents.interval_document(interval.low, interval.high, "rao-blackwell", run.gamma)


def tree_optimum_document(drafting: Drafting, run: jobs.DecodedRun) -> doc.Optimum:
    """Return the bound that no rule without state exceeds on such trees, on the calls of a run."""
    by, best = (
        tree_decoding.TreeExpectation(drafting).by,
        run.interval(tree_decoding.OPTIMUM_PART).mean,
    )
    return doc.Optimum("memoryless", min(best, run.gamma), by, by == "counting")


# All rules on one pair of real models that drafts in one way.


@dataclass(frozen=True, eq=False)
class DecodedRules:
    """The run and the clock of every rule on the drafts of one method, by the rule's name."""

    pair: TransformerPair
    method: DraftMethod
    rules: Sequence[Verifier | TreeVerifier]
    drafting: Drafting | None
    runs: dict[str, jobs.DecodedRun]
    clocks: dict[str, loop.Clock]

    @property
    def name(self) -> str:
        """What tables call the pair, drafting so."""
        return self.method.on(self.pair)

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return self.pair.vocab_size

    def rows(self, promise: RowSettings) -> list[doc.CompareResult]:
        """Judge every rule."""
        rows = []
        for rule in self.rules:
            run = self.runs[rule.name]
            if isinstance(rule, TreeVerifier):
                rows.append(decoded_row(self, rule, run, promise, drafting=self.drafting))
                continue
            row = decoded_row(self, rule, run, promise, baseline=self.runs.get("token"))
            rows.append(replace(row, one_draft=self.drafting is not None))
        return rows

    def document(self) -> doc.ModelInfo:
        """Return the document's entry of the pair, with the bound that no rule beats in a call."""
        names = [rule.name for rule in self.rules]
        if self.drafting is not None:
            blocks_of = next(r.name for r in self.rules if isinstance(r, TreeVerifier))
        else:
            # Greedy's first calls attain the bound: on its own blocks no row contradicts it.
            blocks_of = "greedy" if "greedy" in names else names[0]
        bounds = doc.Bounds(coupling_document(self.runs[blocks_of], self.drafting), blocks_of)
        return documents.model_document(self, bounds, drafter=jobs.drafter_document(self.method))


def decode_rules(
    pair: TransformerPair,
    job: loop.Job,
    rules: Sequence[Verifier | TreeVerifier],
    drafting: Drafting | None,
    method: DraftMethod,
    say: Callable[[str], None],
) -> DecodedRules:
    """Decode ``job`` with every rule, one after the other."""
    decoded = DecodedRules(pair, method, rules, drafting, {}, {})
    calls = -(-job.lane_tokens // (job.gamma + 1))
    for rule in rules:
        say(f"{decoded.name}: {rule.name}")
        seen: jobs.EmissionObserver | tree_decoding.TreeEmissionObserver
        if isinstance(rule, TreeVerifier):
            assert drafting is not None
            nodes = tree_decoding.min_inner_nodes(drafting.shape, job.lane_tokens)
            seen = tree_decoding.TreeEmissionObserver(
                job.lanes, job.seed, drafting, rule, nodes=nodes
            )
            judge = partial(tree_decoding.StatelessTreeVerifier, rule.rule)
            clock = tree_decoding.decode_trees(pair, job, drafting, judge, seen, method)
        else:
            seen = jobs.EmissionObserver(job, rule, calls=calls)
            clock = loop.decode(pair, job, loop.verifier_factory(rule), seen, method=method)
        decoded.clocks[rule.name], decoded.runs[rule.name] = clock, seen.decoded
    return decoded


def _latency_document(row: doc.CompareResult, clock: loop.Clock, alone: loop.Clock) -> doc.Latency:
    """Return the wall clock of a rule; ``alone``: that of the target without a draft."""
    ratio = clock.draft / clock.drafted * (clock.calls / clock.score)
    return doc.Latency(
        model=row.model,
        verifier=row.verifier,
        plain=alone.seconds_per_token,
        speculative=clock.seconds_per_token,
        draft=clock.draft / clock.tokens,
        score=clock.score / clock.tokens,
        verify=clock.verify / clock.tokens,
        cost_ratio=ratio,
        predicted=predicted_speedup(row.block_efficiency - 1.0, row.gamma, ratio),
        measured=alone.seconds_per_token / clock.seconds_per_token,
        block_cost=clock.score / clock.calls * alone.calls / alone.score,
    )


# Drafts by layers in groups against plain ones: similarity, acceptance and its loss, time.


DEFAULT_WIDTHS = (1, 2, 4)  # drafts side by side at the first level of the trees

LAYER_PARALLEL_TOKENS = 4_000
"""Emitted tokens of each run by default, where the verifiers' own have their promise to keep."""

MAX_COMPARED_TOKENS = 64  # most tokens of a prompt on which passes are compared


def compare_layer_groups(
    pair: TransformerPair,
    job: loop.Job,
    numbers: Sequence[int],
    *,
    tokens: int,
    widths: Sequence[int] = DEFAULT_WIDTHS,
    say: Callable[[str], None],
) -> tuple[doc.LayerParallel, ...]:
    """Return similarities and acceptance for each number of layers a group.

    Prompts, gamma, lanes and seed are those of ``job``; every run emits ``tokens``. Plain drafts
    run once for each width, as the baseline of the losses. Widths above 1 need models that take
    the masks of draft trees.
    """
    try:
        pair.check_tree_attention()
    except UsageError:
        widths = [width for width in widths if width == 1]
    job = replace_fields(job, lane_tokens=-(-tokens // job.lanes))
    say(f"{pair.name}: acceptance of plain drafts by width")
    plain = {
        width: _expected_tau_by_lane(pair, job, width, loop.PLAIN_DRAFTING) for width in widths
    }
    layers = pair.draft_model.config.num_hidden_layers
    results = []
    for number in numbers:
        say(f"{pair.name}: acceptance in groups of {number}, by width")
        groups = layer_groups(layers, number)
        grouped = any(len(group) > 1 for group in groups)
        acceptance = []
        for calibration in (None, True, False) if grouped else (None,):  # None: plain drafts
            for width in widths:
                worth, loss = plain[width], None
                if calibration is not None:
                    method = DraftMethod("easyspec", number, calibration)
                    worth = _expected_tau_by_lane(pair, job, width, method)
                    loss = _loss_document(worth, plain[width])
                mean, blocks = worth.interval([1.0], jobs.CONFIDENCE), worth.blocks
                expected = documents.interval_document(mean.low, mean.high, "rao-blackwell")
                acceptance.append(doc.DraftAcceptance(width, calibration, expected, blocks, loss))
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
    pair: TransformerPair, job: loop.Job, clocks: Mapping[int, loop.Clock]
) -> tuple[doc.DraftingTime, ...]:
    """Return the times of passes, and those that the time model predicts.

    ``clocks``: for each number of layers a group the clock of a rule that decoded.
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
                share=clock.draft / clock.decoding,
                tokens_per_second=clock.tokens / clock.decoding,
            )
        )
    return tuple(results)


def _expected_tau_by_lane(
    pair: TransformerPair, job: loop.Job, width: int, method: DraftMethod
) -> loop.LaneStatistics:
    """Decode; return per lane the expected tau by the rows of each call."""
    worth = loop.LaneStatistics(job.lanes, 1)
    if width == 1:
        token = loop.RULES.index("token")

        def chain(block: loop.Block) -> None:
            worth.add(block.lane, [float(loop.block_curves(block)[token].sum())])

        loop.decode(pair, job, loop.verifier_factory(get_verifier("token")), chain, method=method)
        return worth
    shape = shape_of_levels([width] + [1] * (job.gamma - 1))
    drafting, rule = Drafting(shape, get_scheme("iid")), TREE_VERIFIERS["recursive"]

    def tree(call: tree_decoding.TreeBlock) -> None:
        steps = tree_decoding.walk_steps(rule, drafting, call.drawn, call.output)
        assert steps is not None, "recursive rejection on independent siblings has a closed form"
        worth.add(call.block.lane, [sum(chance for chance, _ in steps)])

    tree_decoding.decode_trees(
        pair, job, drafting, partial(tree_decoding.StatelessTreeVerifier, rule.rule), tree, method
    )
    return worth


def _loss_document(worth: loop.LaneStatistics, plain: loop.LaneStatistics) -> doc.Loss | None:
    """Return 1 - worth / plain with its interval, from how far lanes are off that ratio.

    A lane has the same prompts and uniforms in both runs, which makes their acceptance alike: so
    lanes are compared one by one (the delta method).
    """
    mean, baseline = float(worth.means[0]), float(plain.means[0])
    if baseline <= 0.0:
        return None
    ratio = mean / baseline
    ours, others = (
        (run.sums - run.means * run.counts[:, None]) / (run.counts.mean() * baseline)
        for run in (worth, plain)
    )
    off = ours - ratio * others
    # Deviations of lanes sum to 0: they are those of a mean over a block a lane.
    interval = loop.LaneStatistics.of(off, np.ones(len(off))).interval([1.0], jobs.CONFIDENCE)
    half = interval.high - interval.mean
    return doc.Loss(mean=1.0 - ratio, ci_low=1.0 - ratio - half, ci_high=1.0 - ratio + half)


def _similarity_documents(
    pair: TransformerPair, job: loop.Job, number: int
) -> tuple[doc.LayerSimilarity, ...]:
    """Compare passes on the prompts' beginnings, whose last gamma tokens are read fuzzily."""
    from simverify.drafting.easyspec import layer_similarities

    length = min(int(median(map(len, job.prompts))), MAX_COMPARED_TOKENS)
    texts = [prompt[:length] for prompt in job.prompts if len(prompt) >= length]
    exact = max(length - job.gamma, 0)
    return tuple(layer_similarities(pair.draft_model, np.array(texts), number, exact_tokens=exact))


# A comparison on a pair of real models: every verifier decodes, is judged and timed.
#
# On draft trees, rules for trees may run with rules for a single draft of the same depth.


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
    lanes: int = jobs.DEFAULT_LANES,
    request_tokens: int = jobs.MAX_REQUEST_TOKENS,
    cost_ratio: float = 0.1,
    alpha: float = 1e-6,
    detect: float = REAL_MODEL_DETECT,
    seed: int = 0,
    prompts_file: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.CompareRun:
    """Decode the prompts with every verifier, judge the tokens, and time it against no draft.

    Options that are not named here are those of :func:`simverify.compare`; the result names the
    kind of the deviation to ``detect``. Lanes take the ``prompts`` in turn, over and over.

    Parameters
    ----------
    pair
        As :func:`~simverify.models.transformer.load_pair` returns it.
    verifiers
        Some of token, block, greedy and match. On draft trees, some of the rules for trees, and
        token and block beside them; None: all that are lossless there.
    drafting
        The trees that are drafted, of depth ``gamma``; None: a single draft.
    methods
        How drafts are made, one after the other; rows and bounds name theirs.
    tokens
        Emitted tokens a verifier; by default as many as the promised power needs.
    lanes, request_tokens
        Requests decoded side by side, 2 or more; most new tokens of one, fewer where the context
        is short.
    seed
        Of all draws. Batches of another size round differently and may emit other tokens.
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
    if len(set(methods)) < len(methods):
        raise UsageError("a drafter is named twice: name each way of drafting once")
    if drafting is not None:
        for method in methods:
            method.check_tree_attention()
    share = alpha / (len(rules) * len(methods))
    wanted = max(battery.output_tokens(detect, share), DEFAULT_TOKENS) if tokens is None else tokens
    job = jobs.make_job(
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
    say, stamp = progress or (lambda _: None), battery.start_meta()
    say(f"{Path(pair.target_name).name}: the target alone")
    alone = loop.decode_plain(pair, job)
    promise = RowSettings(share, detect, cost_ratio)
    rows, models, speeds, times = [], [], [], []
    clocks: dict[int, loop.Clock] = {}
    for method in methods:
        decoded = decode_rules(pair, job, rules, drafting, method, say)
        models.append(decoded.document())
        for row, clock in zip(decoded.rows(promise), decoded.clocks.values(), strict=True):
            rows.append(row)
            speeds.append(doc.Timing(row.model, row.verifier, clock.calls / clock.decoding))
            times.append(_latency_document(row, clock, alone))
        if method.name == "easyspec":
            clocks.setdefault(method.layer_parallel, next(iter(decoded.clocks.values())))
    layer_parallel: tuple[doc.LayerParallel, ...] = ()
    drafting_time: tuple[doc.DraftingTime, ...] = ()
    if clocks:
        studied = min(wanted, LAYER_PARALLEL_TOKENS) if tokens is None else tokens
        layer_parallel = compare_layer_groups(pair, job, list(clocks), tokens=studied, say=say)
        drafting_time = drafting_times(pair, job, clocks)
    return documents.run_document(
        rows,
        models,
        drafting=drafting,
        seed=seed,
        gamma=gamma,
        alpha=alpha,
        detect=detect,
        eos=min(pair.eos) if pair.eos else None,
        decoding=jobs.decoding_document(pair, job, prompts, prompts_file, methods),
        layer_parallel=layer_parallel,
        meta=replace(
            stamp(), timings=tuple(speeds), latencies=tuple(times), drafting=drafting_time
        ),
    )


def _check_rules(
    names: Sequence[str] | None, drafting: Drafting | None
) -> list[Verifier | TreeVerifier]:
    if drafting is None:
        for name in names or ():
            if get_verifier(name).name not in loop.RULES:
                raise UsageError(
                    f"verifier {name!r} has no expected acceptance on real models: expected one of "
                    f"{', '.join(loop.RULES)} (for temperature 0, set the temperature)"
                )
        return [get_verifier(name) for name in names or ()]
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
    """Call every verifier on every block of the trace in ``folder``, and judge its tokens.

    Options are those of :func:`simverify.compare`. ``folder``: as written by
    :func:`~simverify.comparing.capture.capture`. ``verifiers``: some of token, block and match.
    ``gamma``: that of the trace, or None. ``seed``: of the verifiers' coins; None: that of the
    recording, which statistics cannot change.

    Raises ``UsageError`` if the trace is damaged, of another gamma, or too short, or a verifier
    carries state.
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
    say, stamp = progress or (lambda _: None), battery.start_meta()
    say(f"{made.name}: {made.blocks:,} recorded blocks")
    if made.kind == "rows":
        decoded, speeds = _replay_rules(trace, rules, seed)
    else:
        if seed != made.seed:
            raise UsageError(
                f"seed is {seed}: the statistics in {folder} were made with seed {made.seed}"
            )
        decoded, speeds = _stored_runs(trace, rules), {}
    promise, baseline = RowSettings(alpha / len(rules), detect, cost_ratio), decoded.get("token")
    rows = [
        decoded_row(made, rule, decoded[rule.name], promise, baseline=baseline) for rule in rules
    ]
    bounds = doc.Bounds(coupling_document(decoded[rules[0].name]), "trace")
    timings = [doc.Timing(made.name, rule.name, speeds.get(rule.name, 0.0)) for rule in rules]
    return documents.run_document(
        rows,
        [documents.model_document(made, bounds, drafter=made.decoding.drafter)],
        seed=seed,
        gamma=made.gamma,
        alpha=alpha,
        detect=detect,
        decoding=replace(made.decoding, trace=str(folder), trace_sha256=made.sha256),
        meta=replace(stamp(), timings=tuple(timings)),
    )


def _replay_rules(
    trace: Trace, rules: Sequence[Verifier], seed: int
) -> tuple[dict[str, jobs.DecodedBlocks], dict[str, float]]:
    """Return the run of each rule, and its calls a second."""
    made = trace.manifest.decoding
    runs = start_replays(
        rules, gamma=trace.manifest.gamma, lanes=made.lanes, tokens=made.tokens, seed=seed
    )
    for block in trace_blocks(trace):
        for run in runs.values():
            run.replay(block)
    decoded = finish_replays(runs)
    return decoded, {name: run.replay.calls / run.replay.seconds for name, run in runs.items()}


def _stored_runs(trace: Trace, rules: Sequence[Verifier]) -> dict[str, jobs.DecodedBlocks]:
    made = trace.manifest
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
            decoded[rule.name] = jobs.from_arrays(rule_arrays)
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
