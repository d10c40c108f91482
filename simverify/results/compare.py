"""The documents of ``simverify compare`` and ``simverify plan``."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta as Limits

from simverify.results.common import (
    ROUNDING,
    Certificate,
    Cosine,
    Count,
    DraftingTime,
    Judged,
    Meta,
    NamedFaults,
    NonNegative,
    Parents,
    Positive,
    Probability,
    Rate,
    Run,
    Struct,
    Suspect,
    Test,
    Verdict,
    check_length,
    check_parents,
    check_tests,
    check_verdict,
    overall,
)
from simverify.results.registry import Kind, register_kind

# Acceptance: expected and measured tokens, the optimum, speed.


class Expected(Struct, frozen=True):
    """Exact E[tau] of one call.

    ``exact``: null for a statistical interval and for ``counting``, an upper bound alone, and
    for ``measured``, where nobody knows the law; with ``dp`` the middle of the certain bounds.
    ``fraction``: the same number as "a/b" where it is rational. ``lower``, ``upper``:
    enclosing bounds; certain, unless ``confidence`` says with what probability they hold.
    """

    exact: float | None
    fraction: str | None
    lower: float
    upper: float
    method: Literal[
        "enumeration",
        "closed-form",
        "dp",
        "rao-blackwell",
        "linear-programme",
        "counting",
        "measured",
    ]
    confidence: Rate | None = None


class Measured(Struct, frozen=True):
    """A mean over blocks with a two-sided confidence interval.

    Of simulated blocks it is valid at any n; of real models' by Student's t over lanes,
    approximate.
    """

    mean: float
    ci_low: float
    ci_high: float
    confidence: Rate
    blocks: Count


class Optimum(Struct, frozen=True):
    """What the rule is measured against: ``block`` without state, ``coupling`` with it.

    On draft trees ``memoryless``: the best rule without state for the tree and its scheme.
    ``by``: how that was found; ``coupling`` and ``counting`` are bounds on it. ``bound``: no rule
    may reach ``expected_accepted``, and ``optimality`` is the least that it can be.
    """

    name: Literal["block", "coupling", "memoryless"]
    expected_accepted: float
    by: Literal["closed-form", "linear-programme", "coupling", "counting"] | None = None
    bound: bool = False


class Curve(Struct, frozen=True):
    """Pr(tau >= l) for l = 1..gamma: bounds (equal where exact) and measured frequencies."""

    exact: tuple[Probability, ...] | None
    lower: tuple[Probability, ...]
    upper: tuple[Probability, ...]
    measured: tuple[Probability, ...]


class Speedup(Struct, frozen=True):
    """Latency model: (E[tau] + 1) / (gamma cost_ratio + 1), target calls costing 1.

    ``cost_ratio``: as given. What was measured on real models is :class:`Latency`. A call of
    ``batch_size`` sequences and ``rows`` each costs max(1, batch_size rows / ``free_rows``), of
    the draft's calls too, and so does one without a draft; null: all rows are free.
    """

    cost_ratio: Annotated[float, Limits(ge=0, le=1e9)]
    predicted: NonNegative
    batch_size: Positive = 1
    free_rows: Annotated[float, Limits(ge=1)] | None = None
    rows: int | None = None


class AfterCalls(Struct, frozen=True):
    """Tokens out after ``calls`` calls, judged under ``acceptance`` where ``exact`` is known."""

    calls: Count
    exact: float | None
    fraction: str | None
    measured: Measured


class Paired(Struct, frozen=True):
    """E[tau] on the drafted blocks of another rule's run, less that rule's, block by block.

    Both are what the rows let expect, so the coins drop out of the difference; the interval is
    by Student's t over lanes, approximate.
    """

    baseline: str
    difference: float
    ci_low: float
    ci_high: float
    confidence: Rate
    blocks: Count


# Drafts by layers in groups (EasySpec).


class LayerSimilarity(Struct, frozen=True):
    """Mean cosine similarities, in -1 to 1, of one layer in a fuzzy pass and in the exact one.

    Each is the mean over tokens of the cosine of two vectors, with all heads in one vector. In a
    document these are the tokens that a phase drafts fuzzily.

    ``layer``: its number, from 0. ``hidden``: what its attention block reads, before the norm; in
    a group the group's input. ``attention``: what the block gives, before it is added to the
    hidden state. ``q``, ``k``, ``v``: queries, keys and values as projected; rotary positions
    turn both passes alike and change no cosine.
    """

    layer: int
    hidden: Cosine
    attention: Cosine
    q: Cosine
    k: Cosine
    v: Cosine


class Loss(Struct, frozen=True):
    """By what share fewer tokens are kept than of plain drafts; below 0 where more are."""

    mean: float
    ci_low: float
    ci_high: float


class DraftAcceptance(Struct, frozen=True):
    """E[tau] of recursive rejection on trees of ``width`` drafts; at 1 it is the token rule.

    The first level has ``width`` children, the others one each. ``calibration``: whether fuzzy
    entries of the cache were replaced; null for plain drafts. ``loss``: against plain drafts on
    trees as wide, an interval at the confidence of ``expected_accepted``; null for those.
    ``blocks``: calls that it is the mean over.
    """

    width: Positive
    calibration: bool | None
    expected_accepted: Expected
    blocks: Count
    loss: Loss | None


class LayerParallel(Struct, frozen=True):
    """How drafts fare whose layers run in groups of ``layer_parallel``.

    ``groups``: the layers of each group. ``layers``: one a layer. ``acceptance``: with and without
    calibration, by width.
    """

    layer_parallel: Positive
    groups: tuple[tuple[int, ...], ...]
    layers: Annotated[tuple[LayerSimilarity, ...], Limits(min_length=1)]
    acceptance: tuple[DraftAcceptance, ...]


class ExactCheck(Struct, frozen=True):
    """The rule's own law against the target's. ``arithmetic``: rational or float64.

    ``method`` steps: of a rule that walks down draft trees, each step's law.
    """

    method: Literal["paths", "tree law", "steps"]
    arithmetic: Literal["rational", "float64"]
    scope: str
    max_abs_deviation: float
    tv: NonNegative


class Power(Struct, frozen=True):
    """A kind of deviation, and the smallest of it that is found with the run's power."""

    deviation: str
    detectable: float | None


class PitCurve(Struct, frozen=True):
    """Randomised PITs of ``n`` emitted tokens in one order, all positions together.

    ``differences``: their empirical distribution function less u, at equal steps from u = 0
    to 1; a lossless kernel stays within +-``band`` everywhere with probability
    ``confidence``. A picture of the PIT tests, which judge every position by itself.
    """

    order: str
    n: Count
    differences: Annotated[tuple[Cosine, ...], Limits(min_length=2)]
    band: NonNegative
    confidence: Rate


ANY_DEVIATION = "mean one-token TV"
"""``Lossless.deviation`` of a promise that holds for a deviation of any shape."""


class Lossless(Struct, frozen=True):
    """How losslessness was judged. ``tier`` is the strongest that the verdict rests on.

    ``exact``: null where the rule's law is too large to write out, and of real models.
    ``tests``: of the compiled kernel, or of the tokens that real models emitted. ``detectable``:
    smallest deviation, of the kind named in ``deviation``, found with the run's power; the
    verdict is INCONCLUSIVE if it exceeds the run's ``detect``. ``certificate``: of a PASS alone.
    ``beside``: what is found of further kinds; no verdict waits for it. ``findings``: what failed,
    in words. ``pits``: empty where contexts repeat and are counted, and in tier ``output``: tokens
    that real models emitted, each against its own target row.
    """

    verdict: Verdict
    tier: Literal["exact", "sampled", "output"]
    max_abs_deviation: float | None
    tv: NonNegative | None
    exact: ExactCheck | None
    tests: tuple[Test, ...]
    detectable: float | None
    deviation: str
    beside: tuple[Power, ...]
    certificate: Certificate | None
    findings: tuple[str, ...]
    faults: NamedFaults | None = None
    localisation: Suspect | None = None
    pits: tuple[PitCurve, ...] = ()


class Acceptance(Struct, frozen=True):
    """Whether the kernel accepts as the declared rule does; says nothing about losslessness.

    On real models no kernel runs, but the verifier itself.

    ``tests``: tau of the first call against the rule's own law, and the tokens after calls
    where they are known exactly; none where the law is not known, and then nothing is said.
    ``detectable``, ``deviation``, ``findings`` as in :class:`Lossless`. ``words``: the verdict as
    a sentence.
    """

    verdict: Verdict
    words: str
    tests: tuple[Test, ...]
    detectable: float | None
    deviation: str
    findings: tuple[str, ...]


class NodeCounts(Struct, frozen=True):
    """How many of ``calls`` calls kept the way through each node of the run's draft tree."""

    calls: Count
    kept: tuple[int, ...]


class CompareResult(Struct, frozen=True):
    """One verifier on one model; ``verdict`` is the worse of its two.

    ``nodes``: Pr(the way kept goes through it) for each node of the run's draft tree, exact;
    null where that is not known. ``node_counts``: the same in calls that were made, the first ones
    of the run. Of equal siblings the first is meant that has the kept tokens below it.
    ``one_draft``: judged on a single draft of gamma tokens beside
    the rules for the run's draft tree.
    """

    model: str
    verifier: str
    gamma: Positive
    vocab_size: Positive
    verdict: Verdict
    expected_accepted: Expected
    measured: Measured
    block_efficiency: NonNegative
    optimum: Optimum
    optimality: float
    lossless: Lossless
    acceptance: Acceptance
    acceptance_ccdf: Curve
    speedup: Speedup
    calls: tuple[AfterCalls, ...]
    paired: Paired | None = None
    nodes: tuple[float, ...] | None = None
    node_counts: NodeCounts | None = None
    one_draft: bool = False


class Bounds(Struct, frozen=True):
    """Bounds no rule beats. ``coupling``: ideal full information, one iteration.

    ``blocks_of``: whose blocks of real models it is the mean over, a verifier's or ``trace``;
    null where it is the model's own.
    """

    coupling: Expected
    blocks_of: str | None = None


class Drafter(Struct, frozen=True):
    """How drafts of real models were made, where not token by token with the draft model.

    Of easyspec the layers a group, and whether fuzzy entries of the cache were replaced.
    """

    name: str
    layer_parallel: Positive | None
    calibration: bool | None


class ModelInfo(Struct, frozen=True):
    """A model of the run. Perplexities and corpus belong to trained models.

    ``given``: what names it in ``--models``, for a file its path; null for a model that was
    made in Python. ``file_sha256``: of that file. ``draft_distance``, ``temperature``: the
    knobs of markov-V. ``drafter``: null where drafts are plain, and of simulated models.
    """

    name: str
    given: str | None
    vocab_size: Positive
    bounds: Bounds
    file_sha256: str | None
    draft_distance: Probability | None
    temperature: NonNegative | None
    corpus_sha256: str | None
    target_perplexity: float | None
    draft_perplexity: float | None
    drafter: Drafter | None = None


class Decoding(Struct, frozen=True):
    """How real models were run: ``target`` and ``draft`` as given to the command line.

    ``draft``: null where drafts came from the texts alone. ``drafter``: of a recording, how its
    drafts were made; null where that was plain, and where every verifier decoded by itself, for
    then ``models`` say it.
    ``prompts``: path, null for the bundled ones or for texts from Python; ``prompts_sha256``:
    of all prompts. ``tokens``: emitted by each verifier, over ``lanes`` side by side, at most
    ``request_tokens`` a request. ``top_k``, ``top_p``: null keeps all tokens. ``trace``: the
    folder of a recording whose blocks every verifier was called on, and the hash of its
    manifest; null where every verifier decoded by itself.
    """

    target: str
    draft: str | None
    prompts: str | None
    prompts_sha256: str
    tokens: int
    lanes: int
    request_tokens: int
    temperature: NonNegative
    top_k: int | None
    top_p: float | None
    device: str
    dtype: str
    trace: str | None = None
    trace_sha256: str | None = None
    drafter: Drafter | None = None


class DraftTrees(Struct, frozen=True):
    """The tree that is drafted: the parent of each node, -1 for the root, parents first.

    ``scheme``: how siblings are drafted.
    """

    parents: Parents
    scheme: str


class CompareRun(Judged, frozen=True, tag_field="command", tag="compare"):
    """A ``simverify compare`` run.

    ``alpha``: probability that a run in which every verifier is right reports a fault.
    ``detect``, ``power``: a deviation of this size, of the kind named in ``deviation``, is
    found with this probability, or the verdict is INCONCLUSIVE. ``blocks``: simulated blocks
    per verifier that were asked for; null for as many as the promised power needs.
    ``decoding``: null where models were simulated. ``drafting``: null for a single draft.
    ``layer_parallel``: of drafts by layers in groups, one for each number of layers a group.
    """

    seed: int
    gamma: Positive
    blocks: Count | None
    alpha: Rate
    detect: Rate
    power: Rate
    eos: int | None
    verdict: Verdict
    results: Annotated[tuple[CompareResult, ...], Limits(min_length=1)]
    models: tuple[ModelInfo, ...]
    meta: Meta
    decoding: Decoding | None = None
    drafting: DraftTrees | None = None
    layer_parallel: tuple[LayerParallel, ...] = ()

    @property
    def headline(self) -> str:
        """The rules and the models."""
        rules = dict.fromkeys(row.verifier for row in self.results)
        models = dict.fromkeys(row.model for row in self.results)
        return f"{', '.join(rules)} on {', '.join(models)}, gamma {self.gamma}"

    @property
    def specs(self) -> tuple[str, ...]:
        """The rules, each once."""
        return tuple(sorted({row.verifier for row in self.results}))


# Checks of a comparison, beginning with its ways to draft.


GROUPED_DRAFTER = "easyspec"
"""The drafter whose layers run in groups."""


def _drafting_complaints(run: CompareRun) -> Iterator[str]:
    decoding = run.decoding
    trace = None if decoding is None else decoding.trace
    numbers = [entry.layer_parallel for entry in run.layer_parallel]
    for i, model in enumerate(run.models):
        if model.drafter is not None:
            yield from _drafter_complaints(run, model.drafter, f"models[{i}].drafter")
    if decoding is not None and decoding.drafter is not None and trace is None:
        yield "decoding.drafter stands beside no trace: expected null"
    if run.layer_parallel and decoding is None:
        yield "layer_parallel stands beside simulated models: expected it empty"
    of_models = [m.drafter.layer_parallel for m in run.models if m.drafter is not None]
    for i, entry in enumerate(run.layer_parallel):
        where = f"layer_parallel[{i}]"
        if entry.layer_parallel in numbers[:i]:
            yield f"{where}.layer_parallel is {entry.layer_parallel} again: expected each N once"
        if entry.layer_parallel not in of_models:
            expected = "expected that of a drafter in models"
            yield f"{where}.layer_parallel is {entry.layer_parallel}: {expected}"
        yield from _group_complaints(entry, where)
        yield from _draft_acceptance_complaints(entry.acceptance, run.gamma, f"{where}.acceptance")
        if _plain_acceptances(entry) != _plain_acceptances(run.layer_parallel[0]):
            yield f"{where}.acceptance has other plain drafts than layer_parallel[0]: expected them"
    timed = [time.layer_parallel for time in run.meta.drafting]
    if timed != numbers:
        yield f"meta.drafting is of N = {timed}: expected {numbers}, as layer_parallel"
    for i, time in enumerate(run.meta.drafting):
        yield from _time_complaints(time, run.gamma, f"meta.drafting[{i}]")


def _drafter_complaints(run: CompareRun, drafter: Drafter, where: str) -> Iterator[str]:
    if run.decoding is None:
        yield f"{where} stands beside simulated models: expected null"
    for name in ("layer_parallel", "calibration"):
        value = getattr(drafter, name)
        if (value is None) == (drafter.name == GROUPED_DRAFTER):
            shown = "null" if value is None else str(value).lower()
            expected = f"expected it of {GROUPED_DRAFTER}, and of that alone"
            yield f"{where}.{name} is {shown} for {drafter.name!r}: {expected}"
    if run.decoding is not None and run.decoding.trace is not None:
        if drafter != run.decoding.drafter:
            yield f"{where} is not decoding.drafter: expected the recording's"
    elif drafter.layer_parallel not in (None, *(x.layer_parallel for x in run.layer_parallel)):
        yield f"{where}.layer_parallel is {drafter.layer_parallel}, which is not in layer_parallel"


def _group_complaints(entry: LayerParallel, where: str) -> Iterator[str]:
    """Every layer stands in one group, in order, and no group has more than N."""
    layers = [layer for group in entry.groups for layer in group]
    if layers != list(range(len(entry.layers))):
        last = len(entry.layers) - 1
        expected = f"expected 0 to {last}, each once and in order, as layers"
        yield f"{where}.groups holds the layers {layers}: {expected}"
    for k, group in enumerate(entry.groups):
        if not 1 <= len(group) <= entry.layer_parallel:
            expected = f"expected 1 to {entry.layer_parallel}, as layer_parallel"
            yield f"{where}.groups[{k}] has {len(group)} layers: {expected}"
    for k, layer in enumerate(entry.layers):
        yield from check_verdict(f"{where}.layers[{k}].layer", layer.layer, k, "its place")


def _draft_acceptance_complaints(
    entries: Sequence[DraftAcceptance], gamma: int, where: str
) -> Iterator[str]:
    plain = {one.width: one for one in entries if one.calibration is None}
    if not plain:
        yield f"{where} has no plain drafts: expected those of every width"
    seen = set()
    for k, one in enumerate(entries):
        path, key = f"{where}[{k}]", (one.width, one.calibration)
        if key in seen:
            yield f"{path} has the width and the calibration of one before it: expected each once"
        seen.add(key)
        lower, upper = one.expected_accepted.lower, one.expected_accepted.upper
        # Of few lanes an interval may end above gamma.
        if not 0.0 <= lower <= min(upper, gamma):
            expected = f"expected bounds in order, the lower of 0 to {gamma}"
            yield f"{path}.expected_accepted is {lower:g} to {upper:g}: {expected}"
        if one.calibration is None:
            if one.loss is not None:
                yield f"{path}.loss stands beside plain drafts: expected null"
        elif one.width not in plain:
            yield f"{path}.width is {one.width}, of which there are no plain drafts"
        elif one.loss is not None:
            yield from _loss_complaints(one.loss, one, plain[one.width], f"{path}.loss")
        elif plain[one.width].expected_accepted.lower > 0.0:
            yield f"{path}.loss is null: expected it, against plain drafts as wide"
    calibrations = {one.calibration for one in entries}
    if len(seen) < len(plain) * len(calibrations):
        yield f"{where} lacks a width with or without calibration: expected all of them of each"


def _loss_complaints(
    loss: Loss, one: DraftAcceptance, plain: DraftAcceptance, where: str
) -> Iterator[str]:
    if not loss.ci_low <= loss.mean <= loss.ci_high:
        interval = f"{loss.ci_low:g} to {loss.ci_high:g}"
        yield f"{where}.mean is {loss.mean:g}: expected {interval}, its interval"
    a, b = one.expected_accepted, plain.expected_accepted
    # Where a bound was cut off at 0 the mean is not in the middle.
    if a.lower > 0.0 and b.lower > 0.0:
        expected = 1.0 - (a.lower + a.upper) / (b.lower + b.upper)
        if abs(loss.mean - expected) > ROUNDING * max(1.0, abs(expected)):
            yield f"{where}.mean is {loss.mean:g}: expected {expected:g}, by expected_accepted"


def _time_complaints(time: DraftingTime, gamma: int, where: str) -> Iterator[str]:
    if not 1 <= time.workers <= time.group_size <= time.layer_parallel:
        yield (
            f"{where} has workers, group_size and layer_parallel of {time.workers}, "
            f"{time.group_size} and {time.layer_parallel}: expected 1 or more, in this order"
        )
    if any(one.devices >= two.devices for one, two in pairwise(time.predicted)):
        yield f"{where}.predicted names devices out of order, or twice"
    for k, on in enumerate(time.predicted):
        if abs(on.per_token * gamma - on.iteration) > ROUNDING * abs(on.iteration):
            expected = f"expected {on.iteration / gamma:g}, by iteration"
            yield f"{where}.predicted[{k}].per_token is {on.per_token:g}: {expected}"


def _plain_acceptances(entry: LayerParallel) -> list[DraftAcceptance]:
    return [one for one in entry.acceptance if one.calibration is None]


# Checks of a comparison on draft trees: its nodes and its optimum.


_BOUNDING_METHODS = ("coupling", "counting")
"""Ways to the optimum that only bound it."""


def _tree_complaints(run: CompareRun, row: CompareResult, where: str) -> Iterator[str]:
    """Name each field of ``row`` that the run's draft tree contradicts; its parents make one."""
    yield from _optimum_complaints(run, row, where)
    if run.drafting is None or row.one_draft:
        for name in ("nodes", "node_counts"):
            if getattr(row, name) is not None:
                yield f"{where}.{name} stands beside a single draft: expected null"
        if run.drafting is None and row.one_draft:
            yield f"{where}.one_draft is true without drafting: expected false"
        nodes = run.gamma
    else:
        nodes = len(run.drafting.parents)
        yield from _node_complaints(run.drafting.parents, row, where)
    if row.speedup.rows not in (None, nodes + 1):
        yield f"{where}.speedup.rows is {row.speedup.rows}: expected {nodes + 1}, or null"


def _optimum_complaints(run: CompareRun, row: CompareResult, where: str) -> Iterator[str]:
    best, accepted = row.optimum, row.block_efficiency - 1
    of_tree = run.drafting is not None and not row.one_draft
    if (best.name == "memoryless") != of_tree:
        expected = "memoryless, of a draft tree" if of_tree else "block or coupling"
        yield f"{where}.optimum.name is {best.name}: expected {expected}"
    if (best.by is None) == of_tree:
        yield f"{where}.optimum.by is {best.by}: expected it on draft trees, and there alone"
    if best.bound != (best.by in _BOUNDING_METHODS):
        yield f"{where}.optimum.bound is {str(best.bound).lower()}: expected otherwise, as by says"
    if of_tree and best.expected_accepted > 0:
        share = accepted / best.expected_accepted
        if abs(row.optimality * best.expected_accepted - accepted) > ROUNDING * run.gamma:
            yield f"{where}.optimality is {row.optimality:g}: expected {share:g}, by the optimum"


def _node_complaints(parents: tuple[int, ...], row: CompareResult, where: str) -> Iterator[str]:
    depths: list[int] = []
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            return  # said of the tree itself
        depths.append(1 if parent < 0 else depths[parent] + 1)
    if max(depths) != row.gamma:
        yield f"{where}.gamma is {row.gamma}: expected {max(depths)}, the depth of drafting.parents"
        return
    if row.nodes is not None:
        exact = row.acceptance_ccdf.exact
        known = exact if exact is not None and len(exact) == row.gamma else ()
        yield from _mass_complaints(parents, depths, row.nodes, known, f"{where}.nodes")
    if row.node_counts is not None:
        calls, path = row.node_counts.calls, f"{where}.node_counts"
        if not 0 < calls <= row.measured.blocks:
            expected = f"expected 1 to {row.measured.blocks:,}, as measured.blocks"
            yield f"{path}.calls is {calls:,}: {expected}"
        else:
            shares = [n / calls for n in row.node_counts.kept]
            yield from _mass_complaints(parents, depths, shares, (), f"{path}.kept")


def _mass_complaints(
    parents: tuple[int, ...],
    depths: list[int],
    masses: Sequence[float],
    levels: Sequence[float],
    where: str,
) -> Iterator[str]:
    """Name what is no share of calls by node, or adds up to something else than ``levels``."""
    if len(masses) != len(parents):
        yield from check_length(where, masses, len(parents), "one a node")
        return
    for node, mass in enumerate(masses):
        above = 1.0 if parents[node] < 0 else masses[parents[node]]
        if not -ROUNDING <= mass <= above + ROUNDING:
            yield f"{where}[{node}] is {mass:g}: expected 0 to {above:g}, as its parent has"
    for level, expected in enumerate(levels, 1):
        total = sum(m for m, depth in zip(masses, depths, strict=True) if depth == level)
        if abs(total - expected) > ROUNDING:
            why = f"expected {expected:g}, as acceptance_ccdf.exact"
            yield f"{where} add up to {total:g} at level {level}: {why}"


# Checks of a whole comparison, and of its verdicts.


def _comparison_complaints(run: CompareRun) -> Iterator[str]:
    if run.drafting is not None:
        yield from check_parents(run.drafting.parents, "drafting.parents")
    names = [model.name for model in run.models]
    timed = {(timing.model, timing.verifier) for timing in run.meta.timings}
    for i, row in enumerate(run.results):
        where = f"results[{i}]"
        if row.model not in names:
            yield f"{where}.model is {row.model!r}, which is not in models"
        if (row.model, row.verifier) not in timed:
            yield f"meta.timings has no entry for {where}, {row.verifier!r} on {row.model!r}"
        yield from check_verdict(f"{where}.gamma", row.gamma, run.gamma, "as gamma")
        yield from result_complaints(row, where)
        yield from _tree_complaints(run, row, where)
    for i, model in enumerate(run.models):
        if model.name not in {row.model for row in run.results}:
            yield f"models[{i}].name is {model.name!r}, which has no result"
        upper = model.bounds.coupling.upper
        yield from _accepted_complaints(f"models[{i}].bounds.coupling.upper", upper, run.gamma)
    if len({len(row.calls) for row in run.results}) > 1:
        yield "results have different numbers of calls: expected the same for all"
    yield from _drafting_complaints(run)


def result_complaints(row: CompareResult, where: str) -> Iterator[str]:
    """Name each field of one row that another contradicts, but for its verdicts."""
    for name in ("exact", "lower", "upper", "measured"):
        values = getattr(row.acceptance_ccdf, name)
        if values is not None:
            path = f"{where}.acceptance_ccdf.{name}"
            yield from check_length(path, values, row.gamma, "one for each l")
    parts = {
        "expected_accepted": ("exact", "lower", "upper"),
        "measured": ("mean", "ci_low", "ci_high"),
        "optimum": ("expected_accepted",),
    }
    for part, fields in parts.items():
        for name in fields:
            value = getattr(getattr(row, part), name)
            yield from _accepted_complaints(f"{where}.{part}.{name}", value, row.gamma)


def _accepted_complaints(where: str, value: float | None, gamma: int) -> Iterator[str]:
    if value is not None and not -ROUNDING <= value <= gamma + ROUNDING:
        yield f"{where} is {value:g}: expected 0 to {gamma:g}"


def _comparison_verdicts(run: CompareRun) -> Iterator[str]:
    for i, row in enumerate(run.results):
        yield from result_verdicts(row, run.detect, f"results[{i}]")
    if run.results:
        worst = overall([row.verdict for row in run.results])
        yield from check_verdict("verdict", run.verdict, worst, "the worst of its results")


def result_verdicts(row: CompareResult, detect: float, where: str) -> Iterator[str]:
    """Name each verdict of one row that its findings and tests contradict."""
    for name in ("lossless", "acceptance"):
        part, path = getattr(row, name), f"{where}.{name}"
        yield from check_tests(part.tests, part.findings, path)
        reached = part.detectable is not None and part.detectable <= detect
        expected: Verdict = "FAIL" if part.findings else "PASS" if reached else "INCONCLUSIVE"
        why = "by its findings" if part.findings or reached else "as detectable is above detect"
        yield from check_verdict(f"{path}.verdict", part.verdict, expected, why)
    worse = overall([row.lossless.verdict, row.acceptance.verdict])
    yield from check_verdict(f"{where}.verdict", row.verdict, worse, "the worse of its two")


register_kind(
    Kind(
        CompareRun,
        "a comparison",
        ".compare:compare_report",
        check=_comparison_complaints,
        verdicts=_comparison_verdicts,
    )
)

# The document of ``simverify plan``.


class PlanLine(Struct, frozen=True):
    """One test or certificate of a plan.

    ``level``: its share of alpha; beta or delta where it refutes or certifies. ``samples``
    find ``deviation``, the kind named in ``measure``, with the plan's power; null: none do.
    """

    test: str
    level: Rate
    samples: NonNegative | None
    unit: Literal["tokens", "blocks"]
    deviation: float | None
    measure: str


class PlanMeta(Meta, frozen=True, kw_only=True):
    """What the plan's times rest on.

    ``row_seconds``: for each row of ``rows``, how long its samples take at the speed in
    ``timings``; null where no number of samples will do.
    """

    row_seconds: tuple[float | None, ...]


class PlanRun(Run, frozen=True, tag_field="command", tag="plan"):
    """What a claim costs, or what a budget detects.

    ``asked``: which of the three was given. ``deviation`` is null in a plan from a budget,
    ``samples`` (emitted tokens) in a plan from a deviation; ``seconds`` is null unless it was
    the budget, and then ``samples`` and the rows follow from this machine's speed.
    ``contexts``: prefixes that repeat, over all slots, whose transitions are counted.
    ``tokens_per_block``: measured, on the model in ``meta.timings``.
    """

    seed: int
    alpha: Rate
    power: Rate
    vocab_size: Positive
    gamma: Positive
    contexts: int
    asked: Literal["deviation", "samples", "seconds"]
    deviation: float | None
    samples: Count | None
    seconds: NonNegative | None
    tokens_per_block: float
    rows: tuple[PlanLine, ...]
    meta: PlanMeta


def _plan_complaints(run: PlanRun) -> Iterator[str]:
    yield from check_length(
        "meta.row_seconds", run.meta.row_seconds, len(run.rows), "one for each row"
    )
    if not run.meta.timings:
        yield "meta.timings is empty: expected the speed that the times rest on"
    if getattr(run, run.asked) is None:
        yield f"{run.asked} is null: expected a number, as asked says"


register_kind(Kind(PlanRun, "a plan", ".surveys:plan_report", check=_plan_complaints))
