"""A comparison in words that the terminal and the reports share: verdicts, models, speed, advice.

*Lossless* is about the tokens, *acceptance* about whether the kernel accepts as the declared
rule does. A result's verdict is the worse of both, so the words always say which one it was.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simverify import results
from simverify.reports.view import Block, Cell, Command, Fact, On, Prose, Table
from simverify.reports.words import (
    capitalize,
    join_names,
    limits_table,
    make_table,
    number_cell,
    pluralize,
    sampling_words,
    truncate_line,
)
from simverify.simulators.latency import Load, predicted_speedup
from simverify.trees import TreeShape
from simverify.verifiers import VERIFIERS

# The decoding of real models.


def decoding_table(decoding: results.Decoding, drafter: str) -> Table:
    """Return all that is known of how the blocks were made; ``drafter``: empty where plain."""
    prompts = decoding.prompts or "bundled, or texts from Python"
    source = "each verifier" if decoding.trace is None else "the recording, by token verification"
    rows = [
        ("target", decoding.target),
        ("draft", decoding.draft or "none: texts alone"),
        *([("drafter", drafter)] if drafter else []),
        ("sampling", sampling_words(decoding.temperature, decoding.top_k, decoding.top_p)),
        ("computed in", f"{decoding.dtype} on {decoding.device}"),
        ("prompts", f"{prompts}, sha256 {decoding.prompts_sha256}"),
        (
            "tokens",
            f"{decoding.tokens:,} of {source}, {decoding.lanes} requests side by side, of "
            f"{decoding.request_tokens:,} tokens at most",
        ),
    ]
    if (method := decoding.drafter) is not None:
        words = method.name
        if method.layer_parallel is not None:
            mended = "with" if method.calibration else "without"
            words += f", {method.layer_parallel} layers a group, {mended} calibration"
        rows.insert(2, ("drafter", words))
    if decoding.trace is not None:
        rows.append(("trace", f"{decoding.trace}, sha256 {decoding.trace_sha256}"))
    caption = "How it was decoded" if decoding.trace is None else "How the blocks were recorded"
    return replace(limits_table(rows, caption), on=On.DETAIL)


def optimum_words(run: results.CompareRun) -> str:
    """Return on which blocks E[tau] and its optimum were taken; empty for simulated models."""
    if run.decoding is None:
        return ""
    source = "each verifier's own" if run.decoding.trace is None else "the recorded"
    words = f"E[tau] and its optimum are of {source} blocks."
    stateful = dict.fromkeys(row.verifier for row in run.results if row.optimum.name == "coupling")
    if stateful:
        words += (
            f" For {', '.join(stateful)} they are of first calls, which attain the bound; measured "
            "and block efficiency are of whole generations, in which its debt is paid."
        )
    return words


# Names of models where one pair drafts in several ways: the way is never cut off.


_MAX_METHOD_NAME = 40


def draft_method_name(model: results.ModelInfo) -> str:
    """Return how the model's drafts were made, as its name ends; empty where they are plain."""
    drafter = model.drafter
    if drafter is None:
        return ""
    if drafter.layer_parallel is None:
        return truncate_line(drafter.name, _MAX_METHOD_NAME)
    without = "" if drafter.calibration else ", no-calibration"
    return truncate_line(f"{drafter.name}({drafter.layer_parallel}{without})", _MAX_METHOD_NAME)


def pair_name(model: results.ModelInfo) -> str:
    """Return the name without the way of drafting."""
    return model.name.removesuffix(draft_method_name(model)).rstrip()


def model_name(model: results.ModelInfo, longest: int) -> str:
    """Return the name, cut at ``longest`` characters, and behind it the way of drafting."""
    return f"{truncate_line(pair_name(model), longest)} {draft_method_name(model)}".rstrip()


def model_names(models: Iterable[results.ModelInfo], most: int, longest: int) -> str:
    """Return the first names, the ways of one pair behind it: deep easyspec(1), easyspec(4).

    Each is cut at ``longest`` characters; that of a pair, which stands once, at twice as many.
    """
    ways: dict[str, list[str]] = {}
    for model in models:
        ways.setdefault(pair_name(model), []).append(draft_method_name(model))
    words = [
        f"{truncate_line(name, 2 * longest)} {join_names([way or 'plain' for way in made], most)}"
        if any(made)
        else truncate_line(name, longest)
        for name, made in ways.items()
    ]
    return join_names(words, most, max(map(len, words), default=1))


def _result_name(run: results.CompareRun, row: results.CompareResult, longest: int) -> str:
    """Return verifier and model, cut at ``longest`` characters, and the way of drafting."""
    model = next((model for model in run.models if model.name == row.model), None)
    if model is None or model.drafter is None:
        return truncate_line(f"{row.verifier} on {row.model}", longest)
    return (
        f"{truncate_line(f'{row.verifier} on {pair_name(model)}', longest)} "
        f"{draft_method_name(model)}"
    )


# Comparisons on draft trees: what is said beside that of a single draft.


_MIN_SHOWN_GAP = 5e-4
"""Difference that three decimals show."""


OPTIMUM_METHOD_WORDS = {
    "closed-form": "in closed form",
    "linear-programme": "by a linear program",
    "coupling": "at most, by the coupling bound",
    "counting": "at most, by counting the texts that a tree can hold",
}
"""How the best rule without state for a tree was found."""


def tree_words(trees: results.DraftTrees) -> str:
    """Return the tree and the scheme of its siblings."""
    shape = TreeShape(trees.parents)
    levels = shape.words().removesuffix(" children per level")
    if shape.is_chain:
        return f"one draft, {trees.scheme}"
    first = len(shape.children[-1])
    if len(shape) == first * shape.depth and levels == ",".join(["1"] * shape.depth).replace(
        "1", str(first), 1
    ):
        return f"{first} drafts, {trees.scheme}"
    # The parents of a tree that has no such numbers stand in the run file.
    how = f", {levels}" if levels != shape.words() else ""
    return f"tree of {pluralize(len(shape), 'node')}{how}, {trees.scheme}"


def optimality_gap_words(row: results.CompareResult) -> str:
    """Return how far a rule is from its optimum."""
    gap = row.optimum.expected_accepted * (1 - row.optimality)
    sign = "at most " if row.optimum.bound else ""
    name = row.optimum.name if row.optimum.name != "memoryless" else "the best rule for the trees"
    return f"{sign}{gap:.3g} ({1 - row.optimality:.1%} of {name})"


def tree_load_words(run: results.CompareRun) -> Iterator[str]:
    """Yield what the optimum of draft trees is, and how the latency model counts rows."""
    if run.drafting is not None:
        ways = dict.fromkeys(row.optimum.by for row in run.results if row.optimum.by is not None)
        how = ", or ".join(OPTIMUM_METHOD_WORDS[way] for way in ways)
        yield (
            f"The optimum is E[tau] of the best rule without state for these trees: {how}. "
            "Rules for a single draft have block verification's."
        )
    load = run.results[0].speedup
    if load.free_rows is not None:
        yield (
            f"Predicted speed-up: a call on {load.batch_size:,} sequences of r rows each takes "
            f"max(1, {load.batch_size:,} r / {load.free_rows:g}) times what one of few rows takes "
            "(--batch-size, --free-rows), of target and draft alike; the target has a row after "
            "the prefix and one after each drafted token."
        )


def _best_line(rows: Sequence[results.CompareResult], coupling: results.Expected) -> str:
    """Return which rule gives most tokens, how many the best one could, and which is fastest."""
    first = max(rows, key=lambda row: row.block_efficiency)
    fastest = max(rows, key=lambda row: row.speedup.predicted)
    words = f"most tokens: {first.verifier}, {first.block_efficiency:.3f} a call"
    of_trees = [row for row in rows if not row.one_draft]
    if of_trees:
        # On real models the optimum is of each rule's own calls.
        best = of_trees[0].optimum if first.one_draft else first.optimum
        words += f"; the best rule for these trees: {best.expected_accepted + 1:.3f}"
        words += " at most" if best.bound else ""
        # What carried state, or more than the tree, could add: one call alone.
        exact = coupling.confidence is None
        if exact and not best.bound and coupling.upper - best.expected_accepted > _MIN_SHOWN_GAP:
            words += f", in one call with state {coupling.upper + 1:.3f}"
    if fastest.verifier != first.verifier:
        words += f"; fastest: {fastest.verifier}, {fastest.speedup.predicted:.2f}x"
    return words


def compare_advice(run: results.CompareRun) -> str:
    """Return in a few sentences what to do with what was compared."""
    lossy = _unsettled_results(run, lossless="FAIL")
    strange = [row for row in _unsettled_results(run, acceptance="FAIL") if row not in lossy]
    undecided = _unsettled_results(run, lossless="INCONCLUSIVE")
    unsure = _unsettled_results(run, lossless="PASS", acceptance="INCONCLUSIVE")
    runner, samples, remedy = _kind_words(run)
    parts = []
    if lossy:
        those = _named_results(lossy, run, "any of the")
        parts.append(
            f"Do not ship {those}: the output does not follow the target. Next: "
            f"{_audit_command(run, lossy[0])}, which shows a smallest instance and the lines."
        )
    if strange:
        parts.append(
            f"Look at {_named_results(strange, run)}: the {runner} accepts otherwise than the "
            "declared rule, which by itself says nothing against losslessness."
        )
    if undecided:
        parts.append(
            f"Do not decide on this run about {_named_results(undecided, run, 'any of the')}: too "
            f"few {samples} to say that the output follows the target: {remedy}."
        )
    if unsure:
        parts.append(
            f"Lossless passed for {_named_results(unsure, run)}; too few blocks to say that "
            f"the {runner} accepts as the declared rule: {remedy}."
        )
    if parts:
        return " ".join(parts)
    where = "on the models tried" if run.decoding is None else "in the emitted tokens"
    words = f"No deviation was found {where}"
    if all(row.lossless.tier == "exact" for row in run.results):
        words = "Every rule's exact distribution is its target's, and its kernel shows no deviation"
    return f"{words} (error rates below): this run gives no reason not to ship them."


def _audit_command(run: results.CompareRun, row: results.CompareResult) -> str:
    """Return the command that audits a rule alone."""
    words = ["simverify", "audit", row.verifier]
    if run.drafting is not None and not row.one_draft:
        words += ["--contract", "tree", "--scheme", run.drafting.scheme]
    return shlex.join(words)


def _kind_words(run: results.CompareRun) -> tuple[str, str, str]:
    """Return what accepts, what there may be too few of, and what to do about that.

    On real models no kernel runs, but the verifier's own function.
    """
    if run.decoding is None:
        return "kernel", "blocks", "raise --blocks or --detect"
    if run.decoding.trace is None:
        return "verifier", "tokens", "raise --tokens or --detect"
    return "verifier", "tokens", "record more, or raise --detect"


def open_reason(run: results.CompareRun, row: results.CompareResult) -> str:
    """Return why a result that did not fail did not pass either."""
    runner, samples, _ = _kind_words(run)
    part: results.Lossless | results.Acceptance = row.lossless
    words = f"too few {samples} to decide on losslessness"
    if part.verdict != "INCONCLUSIVE":
        part = row.acceptance
        words = (
            f"lossless passed; too few blocks to say that the {runner} accepts as the declared rule"
        )
    size = detectable_words(part.detectable)
    return f"{words}: {part.deviation}: {size}, asked from {run.detect:g} on"


def detectable_words(detectable: float | None) -> str:
    """Return from which size on a deviation is found with the run's power."""
    return "not found at any size" if detectable is None else f"found from {detectable:.3g} on"


def _model_description(model: results.ModelInfo) -> str:
    """Return a model with all that tells it from others of its name, but for hashes."""
    words = [f"V = {model.vocab_size:,}"]
    if model.draft_distance is not None:
        words.append(f"draft distance {model.draft_distance:g}")
    if model.temperature is not None:
        words.append(f"temperature {model.temperature:g}")
    if model.file_sha256 is not None:
        words.append(f"from {truncate_line(model.given or '', 40)}")
    return f"{model_name(model, 24)} ({', '.join(words)})"


def _unsettled_results(
    run: results.CompareRun,
    lossless: results.Verdict | None = None,
    acceptance: results.Verdict | None = None,
) -> list[results.CompareResult]:
    return [
        row
        for row in run.results
        if lossless in (None, row.lossless.verdict) and acceptance in (None, row.acceptance.verdict)
    ]


def _named_results(
    rows: Sequence[results.CompareResult], run: results.CompareRun, every: str = "all"
) -> str:
    if len(rows) == len(run.results) > 1:
        return f"{every} {pluralize(len(rows), 'result')}"
    return join_names((_result_name(run, row, 48) for row in rows), 5, 90)


def compare_facts(run: results.CompareRun) -> Iterator[Fact]:
    """Yield what was judged, how many passed, and the error rates of the run."""
    for name, things, verdicts in (
        ("Lossless", _kind_words(run)[1], [row.lossless.verdict for row in run.results]),
        (
            "Accepts as the declared rule",
            "blocks",
            [row.acceptance.verdict for row in run.results if row.acceptance.tests],
        ),
    ):
        total = pluralize(len(verdicts), "result")
        outcomes = [f"{verdicts.count('PASS')} of {total} passed"]
        outcomes += [f"{n} failed"] if (n := verdicts.count("FAIL")) else []
        outcomes += [f"{n} with too few {things}"] if (n := verdicts.count("INCONCLUSIVE")) else []
        yield Fact(name, ", ".join(outcomes), On.DETAIL)
    models = join_names(map(_model_description, run.models), 4, 120)
    law = ""
    if (real := run.decoding) is not None:
        law = f", at {sampling_words(real.temperature, real.top_k, real.top_p)}"
    drafts = "" if run.drafting is None else f", {tree_words(run.drafting)}"
    judged = f"gamma {run.gamma}{drafts}, on {models}{law}, seed {run.seed}"
    yield Fact("Judged", judged, On.DETAIL)
    yield Fact("Rests on", _basis_words(run), On.DETAIL)
    yield Fact(
        "False alarms",
        f"with probability {run.alpha:g} at most this run reports a fault where there is none",
        On.DETAIL,
    )
    yield Fact("Power", _power_words(run), On.DETAIL)
    # Beside a FAIL, or a run that was too short, a bound would only mislead.
    passed = [row.lossless for row in run.results if row.lossless.verdict == "PASS"]
    bounds = [lossless.certificate.bound for lossless in passed if lossless.certificate]
    if bounds:
        where = "" if len(passed) == len(run.results) else ", where lossless passed"
        yield Fact(
            "Certified",
            f"mean one-token TV at most {max(bounds):.3g}{where}, by the assumption beside each "
            "certificate",
            On.DETAIL,
        )


def _power_words(run: results.CompareRun) -> str:
    """Return what the run finds, and on which models if that differs."""
    models: dict[str, dict[str, None]] = {}
    for row in run.results:
        models.setdefault(row.lossless.deviation, {})[row.model] = None
    kinds = [
        truncate_line(kind, 120) + (f" ({join_names(names, 4, 24)})" if len(models) > 1 else "")
        for kind, names in models.items()
    ]
    # The second verdict of a row, on its acceptance, waits for the same power.
    kinds += dict.fromkeys(row.acceptance.deviation for row in run.results if row.acceptance.tests)
    return (
        f"{run.power:g} against each of these of {run.detect:g}, or the verdict is INCONCLUSIVE: "
        f"{'; '.join(kinds[:4])}"
    )


def _basis_words(run: results.CompareRun) -> str:
    if run.decoding is not None:
        how = "while it decoded" if run.decoding.trace is None else "on the recorded blocks"
        return (
            f"tests of the tokens that each verifier emitted {how}, each token against its own "
            "target row"
        )
    exact = sum(row.lossless.tier == "exact" for row in run.results)
    both = "the rule's exact distribution and sampled tests of its kernel"
    if any(not row.lossless.tests for row in run.results):
        both += ", where it has one"
    if exact == len(run.results):
        return both
    if not exact:
        return "sampled tests of the kernels alone"
    return f"{both} for {exact} of {len(run.results)} results, sampled tests alone for the others"


# A comparison in short: at most two lines under a table, and one sentence at the end.


MAX_SUMMARY_LINES = 2

_EXACT_BASIS = {
    "exact": "exact: the rule's distribution is the target's, and its kernel passed every test",
    "sampled": "sampled: its kernel passed every test",
    "output": "output: the tokens that it emitted passed every test",
}


def model_notes(
    run: results.CompareRun, model: results.ModelInfo, rows: Sequence[results.CompareResult]
) -> list[str]:
    """Return what a reader must know of one model's table: what failed, or what it rests on."""
    failed = list(_failed_lines(rows))
    if failed:
        more = len(failed) - (MAX_SUMMARY_LINES - 1)
        if more <= 1:
            return failed[:MAX_SUMMARY_LINES]
        return [
            *failed[: MAX_SUMMARY_LINES - 1],
            f"{pluralize(more, 'failure')} more: see --verbose",
        ]
    passed = {row.lossless.tier for row in rows if row.lossless.verdict == "PASS"}
    lines = ["; ".join(words for tier, words in _EXACT_BASIS.items() if tier in passed)]
    without = [row.verifier for row in rows if not row.lossless.tests]
    if without and lines[0]:
        lines[0] += f" (no compiled code: {join_names(without, 3, 30)})"
    if run.drafting is not None:
        return [line for line in (*lines, _best_line(rows, model.bounds.coupling)) if line]
    coupling = model.bounds.coupling
    most = (coupling.lower + coupling.upper) / 2 if coupling.exact is None else coupling.exact
    if coupling.method == "counting":
        most = coupling.upper
    lines.append(
        f"no rule can keep more than {most:.4g} of {run.gamma} draft tokens in a first call"
        f"{coupling_bound_words(model.bounds)}"
    )
    return [line for line in lines if line]


def verdict_sentence(run: results.CompareRun) -> str:
    """Return the verdict with its error rate; of a PASS, with what it would have found."""
    rate = f"lossless verifiers fail a run with probability at most {run.alpha:g}."
    if run.verdict == "FAIL":
        return f"FAIL: {compare_advice(run)} {capitalize(rate)}"
    if run.verdict == "INCONCLUSIVE":
        return f"INCONCLUSIVE: {compare_advice(run)}"
    n = len(run.results)
    total = "the result follows" if n == 1 else f"all {n} results follow"
    return (
        f"PASS: {total} the target's distribution. A deviation of {run.detect:g} (total variation "
        f"of a token) is found with probability {run.power:g}{_detection_limits(run)}; {rate}"
    )


def _detection_limits(run: results.CompareRun) -> str:
    """Say where a deviation is promised to be found only if it has a certain shape."""
    names = {row.model for row in run.results if row.lossless.deviation != results.ANY_DEVIATION}
    shaped = [model for model in run.models if model.name in names]
    if not shaped:
        return ""
    return f" (on {model_names(shaped, 3, 24)}: of the shapes that --verbose names)"


def _failed_lines(rows: Sequence[results.CompareResult]) -> Iterator[str]:
    for row in rows:
        faults, suspect = row.lossless.faults, row.lossless.localisation
        like = f"; it looks like the fault {faults.best.fault}" if faults and faults.best else ""
        part = f"; suspect: {suspect.part}" if suspect and suspect.part and not like else ""
        if row.lossless.findings:
            yield f"FAIL {row.verifier}: {row.lossless.findings[0]}{like}{part}"
        elif row.acceptance.findings:
            yield f"FAIL {row.verifier}, {row.acceptance.words}: {row.acceptance.findings[0]}"


def coupling_bound_words(bounds: results.Bounds) -> str:
    """Return on which blocks the coupling bound was taken; empty for the model's own."""
    if bounds.blocks_of is None:
        return ""
    if bounds.blocks_of == "trace":
        return ", on the recorded blocks"
    return f", on the blocks of {bounds.blocks_of}"


# Shorter drafts: block efficiency and speed-up for gamma' up to gamma.
#
# Every built-in rule accepts the first l drafted tokens with a probability that what is drafted
# after them does not change: its closed form, ``tree_step``, knows no gamma. So the first
# gamma' terms of Pr(tau >= l) are the curve of a draft of gamma' tokens, and their sum is its
# E[tau] (of the first call, for a rule with state).


@dataclass(frozen=True)
class GammaResult:
    """One verifier at draft length ``gamma``: by its law, and by measured frequencies.

    ``accepted``: Pr(tau >= gamma).
    """

    gamma: int
    accepted: float
    measured_accepted: float
    block_efficiency: float
    speedup: float
    measured_efficiency: float
    measured_speedup: float


def acceptance_levels(result: results.CompareResult) -> tuple[float, ...]:
    """Return Pr(tau >= l), l = 1..gamma, exact or in the middle of its bounds."""
    ccdf = result.acceptance_ccdf
    if ccdf.exact is not None:
        return ccdf.exact
    return tuple((low + high) / 2 for low, high in zip(ccdf.lower, ccdf.upper, strict=True))


def results_by_gamma(result: results.CompareResult) -> tuple[GammaResult, ...]:
    """Return the result at every gamma' = 1..gamma.

    () for a rule that is not built in, or that judges several drafts.
    """
    rows = result.speedup.rows
    if result.verifier not in VERIFIERS or rows not in (None, result.gamma + 1):
        return ()
    cost = result.speedup.cost_ratio
    load = Load(result.speedup.batch_size, result.speedup.free_rows)
    law, measured = acceptance_levels(result), result.acceptance_ccdf.measured
    points = []
    for gamma in range(1, result.gamma + 1):
        expected, mean = sum(law[:gamma]), sum(measured[:gamma])
        points.append(
            GammaResult(
                gamma,
                law[gamma - 1],
                measured[gamma - 1],
                expected + 1,
                predicted_speedup(expected, gamma, cost, load),
                mean + 1,
                predicted_speedup(mean, gamma, cost, load),
            )
        )
    return tuple(points)


# Speed-ups on real models: predicted by the latency model, and measured.


def model_latencies(run: results.CompareRun, model: str) -> tuple[results.Latency, ...]:
    """Return what was timed on ``model``: nothing where it was simulated, or on a trace."""
    return tuple(latency for latency in run.meta.latencies if latency.model == model)


def speedup_words(run: results.CompareRun, model: str) -> Iterator[str]:
    """Yield which speed-up is which, in sentences; nothing for simulated models."""
    if run.decoding is None:
        return
    cost = f"{run.results[0].speedup.cost_ratio:g} as given (--cost-ratio)"
    block = f"a target call on {run.gamma + 1} tokens"
    if run.drafting is not None:
        block = f"a target call on the {len(run.drafting.parents) + 1} tokens of a tree"
    latencies = model_latencies(run, model)
    yield (
        f"Predicted speed-up: (E[tau] + 1) / (gamma c + 1), the latency model, if {block} takes as "
        f"long as one on a single token. c is the time of a drafted token over that of such "
        f"a call: {cost}" + (", or as measured." if latencies else ". A trace times no model.")
    )
    if latencies:
        yield (
            "Measured speed-up: time a token without a draft over that with it, all requests "
            f"together, by the wall clock; reading prompts is in neither. Block cost: time of "
            f"{block} over one on a single token, which the prediction takes for 1."
        )


def speedup_table(run: results.CompareRun, model: str) -> Table | None:
    """Return predicted and measured speed-ups side by side, or None where nothing was timed."""
    latencies = model_latencies(run, model)
    if not latencies:
        return None
    given = {row.verifier: row.speedup for row in run.results if row.model == model}
    cost = next(iter(given.values())).cost_ratio
    return make_table(
        f"Speed-up over the target alone, which takes {time_words(latencies[0].plain)} a token",
        f"verifier | measured | predicted, c = {cost:g} | predicted, measured c | measured c | "
        "block cost | a token | draft | target | verifier's own",
        (
            (
                each.verifier,
                *(
                    Cell(f"{x:.2f}x", x)
                    for x in (each.measured, given[each.verifier].predicted, each.predicted)
                ),
                number_cell(each.cost_ratio, 2),
                number_cell(each.block_cost, 2),
                Cell(time_words(each.speculative), each.speculative),
                *(
                    Cell(f"{part / each.speculative:.0%}", part / each.speculative)
                    for part in (each.draft, each.score, each.verify)
                ),
            )
            for each in latencies
        ),
        names=frozenset({0}),
        narrow=f"0:\nverifier | 1:\nmeasured | 2:predicted\nc={cost:g} | 3:predicted\nown c | "
        "4:own\nc | 5:block\ncost | 6:a\ntoken | 7:\ndraft | 8:\ntarget | 9:\nverify",
        on=On.DETAIL,
    )


def time_words(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} us"


# The command that reproduces a comparison.


TREE_FILE = "tree.json"


def reproduce_blocks(run: results.CompareRun) -> Iterator[Block]:
    """Yield the command with what it needs, or why there is none."""
    if run.decoding is not None:
        yield from _decoding_blocks(run, run.decoding)
        return
    unnamed = [model.name for model in run.models if not _has_model_name(model)]
    if unnamed:
        yield Prose(
            f"No command line gives this run again: it was made in Python, by simverify.compare, "
            f"with models that no name or plain path leads to: {join_names(unnamed)}."
        )
        return
    yield Command(compare_command(run))
    yield from _tree_file_blocks(run)
    for model in run.models:
        if model.file_sha256 is not None:
            yield Prose(
                f"It reads the file {model.given}: the same file has sha256 {model.file_sha256}."
            )
        if model.corpus_sha256 is not None:
            yield Prose(
                f"{model.name} is trained on this Python's own text; another Python's gives other "
                f"numbers. The same text has sha256 {model.corpus_sha256}."
            )
    yield Prose("It gives the same document, whatever the threads, but for the object meta.")


def _decoding_blocks(run: results.CompareRun, decoding: results.Decoding) -> Iterator[Block]:
    """The command of a run on real models; the length of its requests is the default."""
    cost = _number_text(run.results[0].speedup.cost_ratio)
    if decoding.trace is not None:
        verifiers = ",".join(row.verifier for row in run.results)
        given = {"--trace": decoding.trace, "--verifiers": verifiers, "--cost-ratio": cost}
        yield Command(_command_line(run, given))
        yield Prose(
            f"The trace has sha256 {decoding.trace_sha256}; it gives the same document, but for "
            "the object meta."
        )
        return
    if decoding.prompts is None and decoding.target != "tiny-llama":
        yield Prose("No command line gives this run again: its prompts were given in Python.")
        return
    drafters = [model.drafter for model in run.models]
    if len({one and (one.name, one.calibration) for one in drafters}) > 1:
        yield Prose("No command line gives this run again: its drafters were mixed in Python.")
        return
    options = {
        "--gamma": str(run.gamma),
        **_tree_options(run),
        "--target": decoding.target,
        "--draft": decoding.draft,
        **_drafter_options(run),
        "--prompts": decoding.prompts,
        "--verifiers": _verifier_names(run),
        "--tokens": _tokens_option(run, decoding),
        "--lanes": str(decoding.lanes),
        "--temperature": _number_text(decoding.temperature),
        "--top-k": "" if decoding.top_k is None else str(decoding.top_k),
        "--top-p": _number_text(decoding.top_p),
        "--device": decoding.device,
        "--dtype": decoding.dtype,
        "--cost-ratio": cost,
    }
    mended = not any(one and one.calibration is False for one in drafters)
    yield Command(_command_line(run, options) + ("" if mended else " --no-calibration"))
    yield from _tree_file_blocks(run)
    yield Prose(
        f"The prompts together have sha256 {decoding.prompts_sha256}. Another machine or torch may "
        f"round logits otherwise and emit other tokens; the verdict stands on those that it does."
    )


def _command_line(run: results.CompareRun, options: Mapping[str, str | None]) -> str:
    """Return a command with the options that have a value, and those of every run."""
    rates = {
        "--alpha": _number_text(run.alpha),
        "--detect": _number_text(run.detect),
        "--seed": str(run.seed),
    }
    words = ["simverify", "compare"]
    for name, value in {**options, **rates}.items():
        if value:
            # A path that begins with a hyphen would be taken for an option.
            words += [f"{name}={value}"] if value.startswith("-") else [name, value]
    return shlex.join(words)


def _verifier_names(run: results.CompareRun) -> str:
    return ",".join(dict.fromkeys(row.verifier for row in run.results))


def _drafter_options(run: results.CompareRun) -> dict[str, str]:
    """Return the options of a drafter, the same but for the layers a group on all models."""
    drafters = [model.drafter for model in run.models if model.drafter is not None]
    if not drafters:
        return {}
    numbers = [str(one.layer_parallel) for one in drafters if one.layer_parallel is not None]
    return {"--drafter": drafters[0].name, "--layer-parallel": ",".join(numbers)}


def _tokens_option(run: results.CompareRun, decoding: results.Decoding) -> str:
    """Return how many tokens were asked for; nothing where that was left to the default.

    Acceptance by tree width then has a number of its own, a fifth or less of the verifiers'; else
    it has theirs.
    """
    studied = [one for entry in run.layer_parallel for one in entry.acceptance]
    if studied:
        emitted = studied[0].blocks * (1.0 + studied[0].expected_accepted.upper)
        if emitted < decoding.tokens / 2:
            return ""
    return str(decoding.tokens)


def _tree_file_blocks(run: results.CompareRun) -> Iterator[Block]:
    if run.drafting is not None and _levels_option(run.drafting) == TREE_FILE:
        parents = ", ".join(map(str, run.drafting.parents))
        yield Prose(f'{TREE_FILE} is a file that holds {{"parents": [{parents}]}}.')


def _tree_options(run: results.CompareRun) -> dict[str, str]:
    """Return the options of draft trees."""
    if run.drafting is None:
        return {}
    return {"--tree": _levels_option(run.drafting), "--scheme": run.drafting.scheme}


def compare_command(run: results.CompareRun) -> str:
    """Return the command line of a run all of whose models have names."""
    knobs = [model for model in run.models if model.temperature is not None]
    load = run.results[0].speedup
    options = {
        "--gamma": str(run.gamma),
        **_tree_options(run),
        "--verifiers": _verifier_names(run),
        "--models": ",".join(model.given or "" for model in run.models),
        "--blocks": "" if run.blocks is None else str(run.blocks),
        "--calls": str(max(len(row.calls) for row in run.results)) if not run.drafting else "",
        "--eos": "" if run.eos is None else str(run.eos),
        "--cost-ratio": _number_text(load.cost_ratio),
        "--batch-size": str(load.batch_size) if load.batch_size > 1 else "",
        "--free-rows": _number_text(load.free_rows),
        "--draft-distance": _number_text(knobs[0].draft_distance) if knobs else "",
        "--temperature": _number_text(knobs[0].temperature) if knobs else "",
    }
    return _command_line(run, options)


def _levels_option(trees: results.DraftTrees) -> str:
    """Return children per level where that says the tree, or the name of a file to write."""
    words = TreeShape(trees.parents).words()
    levels = words.removesuffix(" children per level")
    return levels if levels != words else TREE_FILE


def _has_model_name(model: results.ModelInfo) -> bool:
    """Whether ``--models``, whose names are split at commas and stripped, can name the model."""
    given = model.given or ""
    return given != "" and given == given.strip() and "," not in given and given.isprintable()


def _number_text(value: float | None) -> str:
    """The shorter of two ways to write a number that give it back to the last bit."""
    if value is None:
        return ""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
