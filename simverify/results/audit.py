"""The document of ``simverify audit`` on code."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec import Meta as Limits

from simverify.results.common import (
    Certificate,
    Count,
    Judged,
    Meta,
    NamedFaults,
    NonNegative,
    Parents,
    Positive,
    Probability,
    Rate,
    Struct,
    Suspect,
    Test,
    Verdict,
    check_length,
    check_parents,
    check_tests,
)
from simverify.results.registry import Kind, register_kind

# The counterexample of a failure: rows, an output, or a call of a drafter.


class Instance(Struct, frozen=True):
    """A small target and draft: rows by prefix, "" the empty one, "0,2" after tokens 0 and 2.

    Rows are lists of numbers, or of fractions as strings where they are rational.
    ``earlier_calls``: calls of another generation, then a reset, before the output begins.
    ``eos``: the token that ends a generation; null where none does.
    ``prompt``: tokens that come before all prefixes. ``parents``: the shape of the draft trees,
    each node's parent, -1 for the root, and ``scheme`` how siblings are drafted; null where a
    single block is drafted. ``expected_probs``: the rows that the output follows, where the code
    processes those of ``target_probs``, which it gets; null where it follows these.
    """

    name: str
    vocab_size: Positive
    gamma: Positive
    target_probs: Annotated[dict[str, tuple[float | str, ...]], Limits(min_length=1)]
    draft_probs: dict[str, tuple[float | str, ...]]
    earlier_calls: int = 0
    eos: int | None = None
    prompt: tuple[int, ...] = ()
    parents: Parents | None = None
    scheme: str | None = None
    expected_probs: dict[str, tuple[float | str, ...]] | None = None


class Branch(Struct, frozen=True):
    """Probability that an output begins with ``sequence``: as emitted, and as due."""

    sequence: tuple[int, ...]
    probability_emitted: Probability
    probability_expected: Probability


class DraftCall(Struct, frozen=True):
    """A call of a drafter: for ``asked`` siblings after ``prefix``, of the instance's draft row.

    ``reported``: the row that the tokens are said to come from. ``share``: the probability that
    the call reports it and returns so many tokens as the counterexample has, after ``before``,
    what the calls before it returned.
    """

    prefix: tuple[int, ...]
    asked: int
    reported: tuple[Probability, ...]
    share: Probability
    before: tuple[tuple[int, ...], ...] = ()


class Counterexample(Struct, frozen=True):
    """The smallest failing instance found, and the output sequence that deviates most on it.

    ``sequence``: the first tokens of a completed output. ``tree``: every token that could stand
    at each place of ``sequence``, after what comes before it there. ``call``: of a drafter, whose
    ``sequence`` are the siblings that it returned, and whose probabilities are of them among the
    answers that report the same row and as many tokens; null where code emits.
    """

    instance: Instance
    sequence: Annotated[tuple[int, ...], Limits(min_length=1)]
    probability_emitted: Probability
    probability_expected: Probability
    max_abs_deviation: float
    tv: NonNegative
    tree: tuple[Branch, ...] = ()
    call: DraftCall | None = None


class Breach(Struct, frozen=True):
    """The first instance on which a call of the code broke its contract, in ``message``.

    ``draft_tokens``: the drafted block of that call; null where the code drafts itself.
    ``parents``: where a tree is drafted, the parent of each token, -1 for the root.
    """

    instance: Instance
    draft_tokens: tuple[int, ...] | None
    message: str
    parents: Parents | None = None


# Coverage: the lines and branches of the code that ran.


class MissedLines(Struct, frozen=True):
    """Lines ``first`` to ``last`` of a file that no watched call reached.

    ``why``: the head of the arm that was not entered, as ``if vocab > 1000``; "" if it has none.
    """

    file: str
    first: int
    last: int
    why: str


class Coverage(Struct, frozen=True):
    """Which lines and branches of the code under audit ran, in the calls that were watched.

    Counted are the functions that the rule reaches by name, in its file's folder. A branch is an
    outcome of a test; ``not_taken`` tells in words those that never came, where no line of
    ``not_reached`` does. ``numbers``: those in the code that instances were made for.
    ``prefix``: the longest prefix that a rule which drafts itself was called on. ``calls``: of code
    that keeps something, or whose state cannot be read, the most calls between two resets, or all
    where there is none. What begins beyond them was not looked for.
    """

    lines: int
    lines_reached: int
    branches: int
    branches_reached: int
    not_reached: tuple[MissedLines, ...]
    not_taken: tuple[str, ...]
    numbers: tuple[float, ...] = ()
    prefix: int | UnsetType = UNSET
    calls: Count | UnsetType = UNSET


class FailingRows(Struct, frozen=True):
    """On what kind of rows the code fails, and where it is right.

    ``kinds``: those on which it fails: "plain" ones have no zeros and p and q differ; then p = q
    somewhere, zeros in p, in q, in both, and rows of which no token has both p > 0 and q > 0.
    ``instances``, ``paths``, ``max_abs_deviation``: of the instances without such rows, on which
    its law is the target's; 0 and null where it fails on plain rows. ``message``: in words; empty
    where the failure shown says it all.
    """

    kinds: tuple[
        Literal["plain", "equal", "zeros of p", "zeros of q", "zeros of both", "disjoint"], ...
    ]
    message: str
    instances: int
    paths: Count
    max_abs_deviation: float | None


class Localisation(Struct, frozen=True):
    """Where the law leaves the target first.

    ``position``: index of the token in the output. ``stage``: the kind of token that carries
    the deviation; null where the tokens do not tell. ``tv``: distance of the law up to there.
    ``lines``: where the code decides that token, as ``file:line``, three at most; empty where no
    line of it does, or its paths were not run again. ``alone``: they decide that token and none
    before it; false where no line does, and they decide the output up to it. ``sources``: lines
    that the numbers of that decision come from, as ``file:line``, the likeliest mistake first and
    twelve at most: it may lie in any of them; absent where none are known.
    """

    position: int
    stage: Literal["accepted", "residual", "bonus"] | None
    tv: NonNegative
    lines: tuple[str, ...] = ()
    alone: bool = True
    sources: tuple[str, ...] | UnsetType = UNSET


class Diagnosis(Struct, frozen=True):
    """A catalogued fault and the TV distance of its law from the one found, on the instance.

    Without an error rate: it says what the code resembles, not what it is.
    """

    fault: str
    distance: float


class Probe(Struct, frozen=True):
    """One edge probe. A violation fails the audit; a warning fails it under strict probes.

    ``failed``: whether it failed this audit. ``hung``: a call did not return, so that the code
    was called no more.
    """

    name: str
    outcome: Literal["ok", "warning", "violation", "not run"]
    message: str
    failed: bool = False
    hung: bool = False


class ExactInstance(Struct, frozen=True):
    """One instance of the exact tier: the law's deviation over all paths of the code.

    ``optimum``: E[tau] of block verification on chains of gamma tokens, which no lossless rule
    without state exceeds. Of code that drafts itself ``expected_accepted`` is the tokens of its
    first call, less one, and it may exceed the optimum where it drafts trees or picks its drafts.
    ``left_out``: the mass of paths that were not run, as those
    of a loop without end, or gave no tokens; ``max_abs_deviation`` counts it, and is above the
    tolerance for no other reason where ``failed`` is false. null in files before there was one.
    """

    name: str
    vocab_size: Positive
    gamma: Positive
    paths: Count
    max_abs_deviation: float
    tv: NonNegative
    expected_accepted: float | None
    optimum: float | None
    failed: bool
    left_out: float | None = None


class ClockStop(Struct, frozen=True):
    """What the exact tier had judged when the clock stopped it.

    ``judged`` of ``instances``, after ``seconds``; ``next``: the first that it did not come to.
    A machine that is faster or slower judges more or fewer of them.
    """

    seconds: NonNegative
    judged: int
    instances: int
    next: str


class Finding(Struct, frozen=True):
    """One thing that failed an audit.

    ``kind``: a "probe" at the edges; a call that broke its "contract"; the exact "law", which is
    not the target's; "tests" of the sampled tier; a "process" that code ended, or changed for
    everyone; lines that no call reached, under strict "coverage". "other" where the file was
    written before findings had kinds. ``text``: what failed, in words; ``str`` returns it.
    ``line``: the code's ``file:line`` that it is about, as where it raised; null where none is.
    ``broke``: of a contract, what of it was broken, such as "constant-seed"; absent elsewhere.
    ``callers``: where it raised, the lines of the code that called that one, from there outwards.
    ``sources``: lines that what it raised on comes from, the likeliest mistake first and twelve at
    most; of the instance on which it was run again. Both are absent where none are known.
    """

    kind: Literal["probe", "contract", "law", "tests", "process", "coverage", "other"]
    text: str
    line: str | None = None
    broke: str | UnsetType = UNSET
    callers: tuple[str, ...] | UnsetType = UNSET
    sources: tuple[str, ...] | UnsetType = UNSET

    def __str__(self) -> str:
        return self.text


class SampledModel(Struct, frozen=True):
    """An instance of the sampled tier: the sizes, and what the run says of them.

    ``samples``: calls. ``detect``: the mean one-token TV asked for on it; ``detectable``: the
    one found there with the run's power, null before the first look. ``bound``: the
    certificate's on this instance; all of them hold together but for its delta. Null where
    there is no PASS.
    """

    name: str
    vocab_size: Positive
    gamma: Positive
    samples: Count
    detect: Rate
    detectable: float | None
    bound: float | None


class SampledTier(Struct, frozen=True):
    """The sampled tier of an audit; ``power``, ``detect`` and ``alpha`` as promised before.

    ``instances``: all that it looked at. ``detectable`` is of those that are asked for
    ``detect``; the others, which few calls were spent on, say their own. ``certificate``: the
    largest bound of all instances.
    ``looks``: how often the tests were evaluated, as fixed beforehand. ``samples``: calls.
    ``tests``: of the last look; what earlier looks and the optimality verdict, which decides
    nothing, spend is the rest of ``alpha``. ``faults``: what all instances together say of the
    catalogue; null before the first look. ``localisation``: the part that failed; null on a
    pass. ``precision``: the sampler of few digits that the tokens of a failure are consistent with.
    """

    samples: Count
    looks: Count
    alpha: Rate
    detect: Rate
    power: Rate
    tests: tuple[Test, ...]
    detectable: float | None
    certificate: Certificate | None
    optimality: str | None
    findings: tuple[Finding, ...]
    instances: tuple[SampledModel, ...]
    faults: NamedFaults | None = None
    localisation: Suspect | None = None
    precision: str | None = None


class FailingTrial(Struct, frozen=True):
    """A trial of the sampled tier that shows what failed, by its address in the run.

    ``number``: the instance's. ``pilot``: whether it was made for the plan alone. ``trial``:
    counted from 0; of batched code, row ``trial`` mod batch of a call. ``emitted``: null where
    the call broke its contract. ``why``: what makes it the one to look at.
    """

    instance: Instance
    number: int
    pilot: bool
    trial: int
    emitted: tuple[int, ...] | None
    why: str


class Pair(Struct, frozen=True):
    """A drafter and a verifier, by their SPECs, that were audited together as one step rule.

    ``contract``: the verifier's. ``scheme``, ``tree``: how siblings are drafted, and children per
    level, as they were named; null where they were not, or where chains are drafted.
    """

    drafter: str
    verifier: str
    contract: Literal["verify", "tree"]
    scheme: str | None = None
    tree: str | None = None


class Bridge(Struct, frozen=True):
    """A verifier in another language: a program, or a function of a shared library.

    ``command``: the command line that starts it; ``library``: path:symbol; one of the two is null.
    ``coins``: coins that a call is given; null for gamma + 1. ``line``: what was asked, as JSON,
    when a call broke its contract in a way after which nothing more could be asked; null where
    none did.
    """

    command: str | None
    library: str | None
    coins: int | None = None
    line: str | None = None


class TargetProcessing(Struct, frozen=True):
    """What the code was said to do to the target's rows that it gets; null: nothing.

    Its output is held to the rows after that. ``order``: the steps, first to last.
    """

    order: tuple[str, ...]
    temperature: NonNegative = 1.0
    top_k: Positive | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class AuditRun(Judged, frozen=True, kw_only=True, tag_field="command", tag="audit"):
    """A ``simverify audit`` run.

    ``tier``: what the verdict rests on. ``not_enumerable``: why code, or part of it, went to the
    sampled tier: which call, which line. ``inconclusive``: why there is no verdict. ``refuted``:
    catalogued faults whose law differs from the one found. ``findings``: what failed. ``dtype``:
    the coarsest precision that met a draw or a probability, which sets the tolerance unless one
    was asked for. ``notes``: what does not decide: how far from optimal, what was left out.
    ``batch``: blocks per call of batched code. ``company``: kinds of requests that batched code was
    judged among, as they were named; an instance's name says which, and where among them.
    ``trial``: one of the sampled tier to look at, where that is what failed. ``breach``: a call of
    the exact tier that broke its contract, where one did. ``rows``: the kind of rows that a failure
    of the exact tier needs, where that was found out. ``coverage``: which of its lines ran; null
    where the code is not written in Python. ``stopped``: where the exact tier was stopped by the
    clock; null where counted budgets decided, so that its verdict is the same on any machine.
    ``scheme``: how the siblings of draft trees are drafted; null where blocks are. ``tree``:
    children per level of the one tree that the code takes. ``pair``: the two that ``spec`` names,
    where a drafter and a verifier were audited together. ``bridge``: what ``spec`` names, where it
    is code in another language. ``processing``: what makes the target of the rows that the code
    gets, where that was stated; null where the target is these rows. ``follows``: of a failure, the
    processing that its output does follow, on the failing instance and a few others; null where
    there is none of a temperature and one cut. ``code``: of a failure, the lines that it names, the
    first six, each as ``file:line`` and its text; of the function's first where it names none.
    """

    about: ClassVar[str] = "{0.spec}"

    spec: str
    contract: Literal["verify", "step", "tree", "draft"]
    seed: int
    gamma: Positive
    vocab_size: Positive
    tolerance: float
    dtype: str | None = None
    verdict: Verdict
    tier: Literal["exact", "sampled"]
    paths: Count = 0
    instances: tuple[ExactInstance, ...] = ()
    not_enumerable: str | None = None
    inconclusive: str | None = None
    sampled: SampledTier | None = None
    counterexample: Counterexample | None = None
    localisation: Localisation | None = None
    diagnosis: tuple[Diagnosis, ...] = ()
    refuted: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    reproduce: str
    meta: Meta
    batch: int | None = None
    company: str | None = None
    trial: FailingTrial | None = None
    breach: Breach | None = None
    rows: FailingRows | None = None
    engine_path: Annotated[
        str | None,
        msgspec.Meta(description="The checkout that an engine was loaded from, if one was named."),
    ] = None
    coverage: Coverage | None = None
    stopped: ClockStop | None = None
    left_out: Annotated[
        Count, msgspec.Meta(description="Instances that take more paths than the budget has left.")
    ] = 0
    scheme: str | None = None
    tree: str | None = None
    pair: Pair | None = None
    bridge: Bridge | None = None
    processing: TargetProcessing | None = None
    follows: TargetProcessing | None = None
    code: tuple[tuple[str, str], ...] = ()

    @property
    def checkout(self) -> str | None:
        """The checkout that an engine was loaded from, if one was named."""
        return self.engine_path

    @property
    def specs(self) -> tuple[str, ...]:
        """The SPEC, or those of a pair; none of code in another language."""
        if self.bridge is not None:
            return ()
        return (self.spec,) if self.pair is None else (self.pair.drafter, self.pair.verifier)


def _audit_complaints(run: AuditRun) -> Iterator[str]:
    if not run.reproduce.strip():
        yield "reproduce is empty: expected a command"
    for part in ("counterexample", "breach", "trial"):
        shown = getattr(run, part)
        if shown is not None:
            yield from _instance_complaints(shown.instance, f"{part}.instance")
    breach, example = run.breach, run.counterexample
    if breach is not None and breach.parents is not None:
        yield from check_parents(breach.parents, "breach.parents")
        nodes = len(breach.draft_tokens or ())
        yield from check_length("breach.parents", breach.parents, nodes, "as draft_tokens")
    if example is not None:
        yield from _output_tree_complaints(example)
        if example.call is not None:
            yield from _draft_call_complaints(example.call, example)


def _draft_call_complaints(call: DraftCall, example: Counterexample) -> Iterator[str]:
    """A call of a drafter is of its instance, and returns no more tokens than it is asked for."""
    where, instance = "counterexample.call", example.instance
    why = "as counterexample.instance.vocab_size"
    yield from check_length(f"{where}.reported", call.reported, instance.vocab_size, why)
    if call.asked < len(example.sequence):
        yield f"{where}.asked is {call.asked}: counterexample.sequence has {len(example.sequence)}"
    after = call.prefix[len(instance.prompt) :]
    if ",".join(map(str, after)) not in instance.draft_probs:
        yield f"{where}.prefix is {list(call.prefix)}, after which the instance has no draft row"


def _instance_complaints(instance: Instance, where: str) -> Iterator[str]:
    """Every prefix has both rows; the shape of trees comes with the scheme of their siblings."""
    if missing := set(instance.target_probs) - set(instance.draft_probs):
        first = min(missing)
        yield f"{where}.draft_probs has no row after {first!r}: expected one, as in target_probs"
    expected = instance.expected_probs
    if expected is not None and (missing := set(instance.target_probs) - set(expected)):
        first = min(missing)
        yield f"{where}.expected_probs has no row after {first!r}: expected one, as in target_probs"
    if (instance.parents is None) != (instance.scheme is None):
        yield f"{where} has one of parents and scheme: expected both, or neither"
    if instance.parents is not None:
        yield from check_parents(instance.parents, f"{where}.parents")


def _output_tree_complaints(example: Counterexample) -> Iterator[str]:
    """Branches leave the sequence at its last token at most, each of them once."""
    seen: dict[tuple[int, ...], int] = {}
    for i, branch in enumerate(example.tree):
        where, tokens = f"counterexample.tree[{i}].sequence", branch.sequence
        if not 1 <= len(tokens) <= len(example.sequence):
            yield f"{where} has {len(tokens)} tokens: expected 1 to {len(example.sequence)}"
        elif tokens[:-1] != example.sequence[: len(tokens) - 1]:
            yield f"{where} leaves counterexample.sequence before its last token"
        elif tokens in seen:
            yield f"{where} is that of counterexample.tree[{seen[tokens]}]: expected each once"
        else:
            seen[tokens] = i


def _audit_verdicts(run: AuditRun) -> Iterator[str]:
    if run.sampled is not None:
        yield from check_tests(run.sampled.tests, run.sampled.findings, "sampled")
        missing = [x.text for x in run.sampled.findings if x not in run.findings]
        if missing:
            yield f"findings has no {missing[0]!r}: expected it, as in sampled.findings"
    if run.verdict == "FAIL":
        if not run.findings:
            yield "verdict is FAIL and findings is empty: expected what failed"
    else:
        for field in _failure_fields(run):
            yield f"verdict is {run.verdict}: expected FAIL, by {field}"
    if run.verdict == "PASS" and run.sampled is None:
        for i, instance in enumerate(run.instances):
            # What was left out counts among the deviation, and what was run lacks it.
            left_out = instance.left_out
            if left_out is not None and instance.max_abs_deviation > run.tolerance + 2 * left_out:
                yield f"instances[{i}].max_abs_deviation is above what a PASS allows"
    if run.verdict == "INCONCLUSIVE" and run.inconclusive is None:
        yield "inconclusive is null: expected why the verdict is INCONCLUSIVE"
    if run.verdict != "INCONCLUSIVE" and run.inconclusive is not None:
        yield f"verdict is {run.verdict}: expected INCONCLUSIVE, by inconclusive"


def _failure_fields(run: AuditRun) -> Iterator[str]:
    """Yield the fields that speak against a verdict which is not FAIL."""
    if run.findings:
        yield "findings"
    for name in ("counterexample", "breach", "rows"):
        if getattr(run, name) is not None:
            yield name
    for i, instance in enumerate(run.instances):
        if instance.failed:
            yield f"instances[{i}].failed"
    for i, probe in enumerate(run.probes):
        if probe.outcome == "violation":
            yield f"probes[{i}].outcome, a violation"


register_kind(
    Kind(
        AuditRun,
        "an audit",
        ".audit:audit_report",
        check=_audit_complaints,
        verdicts=_audit_verdicts,
    )
)
