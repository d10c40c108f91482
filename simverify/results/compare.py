"""The documents of ``simverify compare`` and ``simverify plan``."""

from typing import Literal

from simverify.results.common import (
    Certificate,
    Judged,
    Meta,
    NamedFaults,
    Run,
    Struct,
    Suspect,
    Test,
    Verdict,
)

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
    confidence: float | None = None


class Measured(Struct, frozen=True):
    """A mean over blocks with a two-sided confidence interval.

    Of simulated blocks it is valid at any n; of real models' by Student's t over lanes,
    approximate.
    """

    mean: float
    ci_low: float
    ci_high: float
    confidence: float
    blocks: int


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

    exact: tuple[float, ...] | None
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    measured: tuple[float, ...]


class Speedup(Struct, frozen=True):
    """Latency model: (E[tau] + 1) / (gamma cost_ratio + 1), target calls costing 1.

    ``cost_ratio``: as given. What was measured on real models is :class:`Latency`. A call of
    ``batch_size`` sequences and ``rows`` each costs max(1, batch_size rows / ``free_rows``), of
    the draft's calls too, and so does one without a draft; null: all rows are free.
    """

    cost_ratio: float
    predicted: float
    batch_size: int = 1
    free_rows: float | None = None
    rows: int | None = None


class AfterCalls(Struct, frozen=True):
    """Tokens out after ``calls`` calls, judged under ``acceptance`` where ``exact`` is known."""

    calls: int
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
    confidence: float
    blocks: int


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
    hidden: float
    attention: float
    q: float
    k: float
    v: float


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

    width: int
    calibration: bool | None
    expected_accepted: Expected
    blocks: int
    loss: Loss | None


class LayerParallel(Struct, frozen=True):
    """How drafts fare whose layers run in groups of ``layer_parallel``.

    ``groups``: the layers of each group. ``layers``: one a layer. ``acceptance``: with and without
    calibration, by width.
    """

    layer_parallel: int
    groups: tuple[tuple[int, ...], ...]
    layers: tuple[LayerSimilarity, ...]
    acceptance: tuple[DraftAcceptance, ...]


class ExactCheck(Struct, frozen=True):
    """The rule's own law against the target's. ``arithmetic``: rational or float64.

    ``method`` steps: of a rule that walks down draft trees, each step's law.
    """

    method: Literal["paths", "tree law", "steps"]
    arithmetic: Literal["rational", "float64"]
    scope: str
    max_abs_deviation: float
    tv: float


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
    n: int
    differences: tuple[float, ...]
    band: float
    confidence: float


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
    tv: float | None
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

    calls: int
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
    gamma: int
    vocab_size: int
    verdict: Verdict
    expected_accepted: Expected
    measured: Measured
    block_efficiency: float
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
    layer_parallel: int | None
    calibration: bool | None


class ModelInfo(Struct, frozen=True):
    """A model of the run. Perplexities and corpus belong to trained models.

    ``given``: what names it in ``--models``, for a file its path; null for a model that was
    made in Python. ``file_sha256``: of that file. ``draft_distance``, ``temperature``: the
    knobs of markov-V. ``drafter``: null where drafts are plain, and of simulated models.
    """

    name: str
    given: str | None
    vocab_size: int
    bounds: Bounds
    file_sha256: str | None
    draft_distance: float | None
    temperature: float | None
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
    temperature: float
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

    parents: tuple[int, ...]
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

    schema_version: Literal[1]
    seed: int
    gamma: int
    blocks: int | None
    alpha: float
    detect: float
    power: float
    eos: int | None
    verdict: Verdict
    results: tuple[CompareResult, ...]
    models: tuple[ModelInfo, ...]
    meta: Meta
    decoding: Decoding | None = None
    drafting: DraftTrees | None = None
    layer_parallel: tuple[LayerParallel, ...] = ()


# The document of ``simverify plan``.


class PlanLine(Struct, frozen=True):
    """One test or certificate of a plan.

    ``level``: its share of alpha; beta or delta where it refutes or certifies. ``samples``
    find ``deviation``, the kind named in ``measure``, with the plan's power; null: none do.
    """

    test: str
    level: float
    samples: float | None
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

    schema_version: Literal[1]
    seed: int
    alpha: float
    power: float
    vocab_size: int
    gamma: int
    contexts: int
    asked: Literal["deviation", "samples", "seconds"]
    deviation: float | None
    samples: int | None
    seconds: float | None
    tokens_per_block: float
    rows: tuple[PlanLine, ...]
    meta: PlanMeta
