"""The document of ``simverify audit`` on code."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from simverify.results.common import (
    Certificate,
    Judged,
    Meta,
    NamedFaults,
    Struct,
    Suspect,
    Test,
    Verdict,
)

# The counterexample of a failure: rows, an output, or a call of a drafter.


class Instance(Struct, frozen=True):
    """A small target and draft: rows by prefix, "" the empty one, "0,2" after tokens 0 and 2.

    Rows are lists of numbers, or of fractions as strings where they are rational.
    ``earlier_calls``: calls of another generation, then a reset, before the output begins.
    ``eos``: the token that ends a generation; null where none does.
    ``prompt``: tokens that come before all prefixes. ``parents``: the shape of the draft trees,
    each node's parent, -1 for the root, and ``scheme`` how siblings are drafted; null where a
    single block is drafted.
    """

    name: str
    vocab_size: int
    gamma: int
    target_probs: dict[str, tuple[float | str, ...]]
    draft_probs: dict[str, tuple[float | str, ...]]
    earlier_calls: int = 0
    eos: int | None = None
    prompt: tuple[int, ...] = ()
    parents: tuple[int, ...] | None = None
    scheme: str | None = None


class Branch(Struct, frozen=True):
    """Probability that an output begins with ``sequence``: as emitted, and as due."""

    sequence: tuple[int, ...]
    probability_emitted: float
    probability_expected: float


class DraftCall(Struct, frozen=True):
    """A call of a drafter: for ``asked`` siblings after ``prefix``, of the instance's draft row.

    ``reported``: the row that the tokens are said to come from. ``share``: the probability that
    the call reports it and returns so many tokens as the counterexample has, after ``before``,
    what the calls before it returned.
    """

    prefix: tuple[int, ...]
    asked: int
    reported: tuple[float, ...]
    share: float
    before: tuple[tuple[int, ...], ...] = ()


class Counterexample(Struct, frozen=True):
    """The smallest failing instance found, and the output sequence that deviates most on it.

    ``sequence``: the first tokens of a completed output. ``tree``: every token that could stand
    at each place of ``sequence``, after what comes before it there. ``call``: of a drafter, whose
    ``sequence`` are the siblings that it returned, and whose probabilities are of them among the
    answers that report the same row and as many tokens; null where code emits.
    """

    instance: Instance
    sequence: tuple[int, ...]
    probability_emitted: float
    probability_expected: float
    max_abs_deviation: float
    tv: float
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
    parents: tuple[int, ...] | None = None


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
    calls: int | UnsetType = UNSET


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
    paths: int
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
    tv: float
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
    vocab_size: int
    gamma: int
    paths: int
    max_abs_deviation: float
    tv: float
    expected_accepted: float | None
    optimum: float | None
    failed: bool
    left_out: float | None = None


class ClockStop(Struct, frozen=True):
    """What the exact tier had judged when the clock stopped it.

    ``judged`` of ``instances``, after ``seconds``; ``next``: the first that it did not come to.
    A machine that is faster or slower judges more or fewer of them.
    """

    seconds: float
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
    vocab_size: int
    gamma: int
    samples: int
    detect: float
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
    pass.
    """

    samples: int
    looks: int
    alpha: float
    detect: float
    power: float
    tests: tuple[Test, ...]
    detectable: float | None
    certificate: Certificate | None
    optimality: str | None
    findings: tuple[Finding, ...]
    instances: tuple[SampledModel, ...]
    faults: NamedFaults | None = None
    localisation: Suspect | None = None


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
    is code in another language.
    """

    schema_version: Literal[1]
    spec: str
    contract: Literal["verify", "step", "tree", "draft"]
    seed: int
    gamma: int
    vocab_size: int
    tolerance: float
    dtype: str | None = None
    verdict: Verdict
    tier: Literal["exact", "sampled"]
    paths: int = 0
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
    scheme: str | None = None
    tree: str | None = None
    pair: Pair | None = None
    bridge: Bridge | None = None

    @property
    def checkout(self) -> str | None:
        """The checkout that an engine was loaded from, if one was named."""
        return self.engine_path
