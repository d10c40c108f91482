"""The document of ``simverify compare``."""

from typing import Literal

from simverify.results.accepted import (
    AfterCalls,
    Curve,
    Expected,
    Measured,
    Optimum,
    Paired,
    Speedup,
)
from simverify.results.common import (
    Certificate,
    Meta,
    NamedFaults,
    Struct,
    Suspect,
    Test,
    Verdict,
)
from simverify.results.drafting import LayerParallel
from simverify.results.run import Judged


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
