"""Code under audit in a mixed batch: its law in every slot of each kind, and what its seeds do."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from simverify import results as doc
from simverify.arrays import Floats
from simverify.auditing.blame import locate_deviation
from simverify.auditing.enumeration import accepts_arguments
from simverify.auditing.exact_tier import (
    ExactTier,
    instance_document,
    make_breach,
    make_counterexample,
    run_exact_tier,
)
from simverify.auditing.instances import SmallModel, instances_for
from simverify.auditing.sampled_runs import SampledInstance, default_sampled_instances
from simverify.auditing.sampled_tier import SampledAudit, sample_callable
from simverify.auditing.settings import (
    BATCH_SIZE,
    SLOT_SEPARATOR,
    AuditSettings,
    BatchSlot,
    batch_slots,
    parse_batch_mixes,
)
from simverify.auditing.subject import Subject
from simverify.auditing.verdict import audit_findings, exact_tier_limit, is_complete
from simverify.battery.battery import start_meta
from simverify.engines.adapt import MixedRequests
from simverify.errors import OptionError
from simverify.symbolic.outcomes import describe_exception
from simverify.symbolic.watchdog import DeadlineExpired, deadline

# The batch around a request under test: its neighbours' rows hold one token each.
#
# So their tokens are certain and add no paths; all that is random is the request's own.


ExpectedTokens = list[list[int] | None]

_PADDING_COLUMNS = 2
"""Columns behind the vocabulary."""

_PADDING_VALUE = 0.25
"""What stands in them where they are not masked."""


class NeighbourError(Exception):
    """A request whose rows hold one token each emitted something else."""


def embed_in_batch(subject: Subject, place: BatchSlot) -> Subject:
    """Return batched code as a ``verify`` rule on the request at ``place``.

    The code is ``verify(batch, rng)`` with a :class:`~simverify.engines.adapt.MixedRequests`
    and returns an ``Emitted``, (tokens, num_emitted), or B rows of tokens padded with -1.
    """

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        batch, expected = make_batch(place, target_probs, draft_probs, draft_tokens)
        rows = tokens_per_request(subject.rule(batch, rng), BATCH_SIZE)
        for b, (row, right) in enumerate(zip(rows, expected, strict=True)):
            if right is not None and row != right:
                raise NeighbourError(
                    f"request {b + 1} of {BATCH_SIZE} emits {row}: its rows hold one token each, "
                    f"and {right} is due"
                )
        return rows[place.request]

    return subject.around(verify)


def make_batch(
    place: BatchSlot, target: Any, draft: Any, tokens: Any
) -> tuple[MixedRequests, ExpectedTokens]:
    """Return the batch with a block at ``place``: rows (gamma+1, V), (gamma, V) and ids (gamma,).

    And the tokens that each neighbour must emit; None for the block itself.
    """
    gamma, vocab = len(tokens) + place.longer, np.shape(target)[1]
    certain, columns = np.eye(vocab), np.arange(gamma + 1)
    # What stands behind the end of a draft: -1, or ids that an earlier call left.
    behind = columns[:-1] % vocab if place.kind == "stale" else np.full(gamma, -1)

    def soften(rows: Floats) -> Floats:
        """Return rows whose likeliest token, which a greedy request emits, is the same."""
        return np.asarray((rows + 1 / vocab) / 2)

    def neighbour(k: int, length: int, refused: int) -> tuple[Any, ...]:
        """Return a request whose drafts before ``refused`` are all accepted."""
        right = (columns + k + 1) % vocab
        shown, ids = right.copy(), behind.copy()
        shown[length + 1 :] = (right[length + 1 :] + 1) % vocab
        ids[:length] = right[:length]
        if 0 <= refused < length:
            ids[refused] = (right[refused] + 1) % vocab
        else:
            refused = length
        rows, drafts = certain[shown], certain[np.where(ids < 0, 0, ids)]
        greedy = place.kind in ("greedy", "mixed") and not place.greedy and k != 1
        expected = right[: refused + 1].tolist()
        return ids, soften(rows) if greedy else rows, drafts, length, greedy, expected

    def pad(rows: Floats) -> Floats:
        """Return the rows with what stands behind the vocabulary in this kind."""
        if place.kind not in ("padded", "unmasked", "mixed"):
            return rows
        fill = _PADDING_VALUE if place.kind == "unmasked" else 0.0
        return np.concatenate([rows, np.full((*rows.shape[:-1], _PADDING_COLUMNS), fill)], axis=-1)

    lengths = [gamma] * 3
    if place.kind in ("ragged", "stale", "placeholder", "mixed"):
        lengths = [gamma, 0, gamma - 1]
    # All accepted, the first rejected, the last rejected.
    blocks = [
        neighbour(k, lengths[k], refused) for k, refused in enumerate((-1, 0, lengths[2] - 1))
    ]
    n, ids, rows = len(tokens), behind.copy(), certain[columns % vocab]
    drafts = rows[:gamma].copy()
    ids[:n], drafts[:n] = tokens, np.asarray(draft, dtype=np.float64)
    own = np.asarray(target, dtype=np.float64)
    rows[: n + 1] = soften(own) if place.greedy else own
    blocks.insert(place.request, (ids, rows, drafts, n, place.greedy, None))
    all_ids, all_rows, all_drafts, counts, greedy, expected = zip(*blocks, strict=True)
    batch = MixedRequests(
        np.stack(all_ids),
        pad(np.stack(all_rows)),
        None if place.kind == "one-hot" else pad(np.stack(all_drafts)),
        np.array([gamma] * len(blocks) if place.kind == "placeholder" else counts, dtype=np.int64),
        greedy=np.array(greedy),
        vocab=vocab,
    )
    return batch, list(expected)


def tokens_per_request(result: Any, size: int) -> list[list[int]]:
    """Return the tokens of each request, without padding.

    Raises ``ValueError`` where they are not ``size`` rows, or counted in another way.
    """
    count = None
    if hasattr(result, "num_emitted"):
        result, count = result.tokens, result.num_emitted
    elif isinstance(result, tuple) and len(result) == 2 and hasattr(result[1], "tolist"):
        result, count = result
    rows = [_as_list(row, "tokens of a request") for row in _as_list(result, "rows of tokens")]
    if len(rows) != size:
        raise ValueError(f"returned {len(rows)} rows of tokens for {size} requests")
    if count is None:
        return [row[: max((i for i, x in enumerate(row, 1) if x != -1), default=0)] for row in rows]
    counts = _as_list(count, "numbers of tokens")
    if len(counts) != size:
        raise ValueError(f"returned {len(counts)} numbers of tokens for {size} requests")
    for row, number in zip(rows, counts, strict=True):
        if int(number) != number or not 0 <= number <= len(row):
            raise ValueError(f"returned {number} for the number of tokens in a row of {len(row)}")
    return [row[: int(number)] for row, number in zip(rows, counts, strict=True)]


def _as_list(values: Any, what: str) -> list[Any]:
    entries = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(entries, str | bytes | dict) or not hasattr(entries, "__iter__"):
        raise ValueError(
            f"returned {type(values).__name__} instead of {what}: return a row for each "
            "request, padded with -1, or (tokens, number of tokens)"
        )
    return list(entries)


_INSTANCE_NAMES = ("plain, V=3, gamma=1", "plain, V=2, gamma=2", "plain, V=3, gamma=2")
"""Instances at each place, where they are no larger than asked for."""

_NEIGHBOUR_TRIALS = 64
"""Batches whose requests are repeated with other neighbours."""

ReportProgress = Callable[[str], None]


@dataclass
class SlotResult:
    """What came of one place: its tier."""

    place: BatchSlot
    subject: Subject
    tier: ExactTier


@dataclass
class MixedBatchResult:
    """The result of all kinds.

    ``tried``: the places in order, up to one at which the clock ran out. ``seeds``: what is wrong
    with seeds, in words; ``open``: why they could not be tried. ``sampled``: places that could not
    be followed, and batches of requests with seeds of their own.
    """

    tried: list[SlotResult] = field(default_factory=list)
    seeds: str = ""
    open: str = ""
    sampled: tuple[SampledAudit, ...] = ()

    @property
    def failed(self) -> SlotResult | None:
        """The first place that failed, if any."""
        return next((x for x in self.tried if x.tier.failure is not None), None)

    @property
    def caught(self) -> bool:
        """Whether anything failed so far."""
        return bool(self.seeds) or any(audit_findings(x.tier, ()) for x in self.tried)

    @property
    def late(self) -> list[SlotResult]:
        """The places that sampling makes up for no more: out of time, or without an instance."""
        return [
            x
            for x in self.tried
            if x.tier.aborted is not None
            or not (x.tier.judged or x.tier.skipped or x.tier.not_enumerable)
        ]


def try_mixed_batches(
    subject: Subject, kinds: tuple[str, ...], settings: AuditSettings, say: ReportProgress
) -> MixedBatchResult:
    """Judge ``subject`` at every place of mixed batches of these kinds.

    What the exact tier cannot follow is sampled, unless something has failed by then.
    """
    trial = MixedBatchResult()
    for place in (place for kind in kinds for place in batch_slots(kind)):
        say(f"mixed batch: {place.name}")
        tier = run_exact_tier(
            placement := embed_in_batch(subject, place),
            "verify",
            list(_slot_models(place, settings)),
            tolerance=settings.tolerance or subject.tolerance,
            budget=settings.budget_for(subject),
            seed=settings.seed,
            searching=False,
        )
        trial.tried.append(SlotResult(place, placement, tier))
        if tier.aborted is not None:  # the next place would only take as long
            return trial
    if "seeds" in kinds:
        say("mixed batch: seeds")
        seconds = settings.seconds
        try:
            with deadline(seconds):
                trial.seeds = find_neighbour_dependence(subject, settings.seed)
        except DeadlineExpired:
            trial.open = f"seeds: {_NEIGHBOUR_TRIALS} batches take longer than {seconds:g} s"
    if not trial.caught and not trial.open:
        late = trial.late
        open_ = [x for x in trial.tried if x not in late and not is_complete(x.tier)]
        trial.sampled = tuple(_sample_slots(subject, open_, kinds, settings, say))
    return trial


def _slot_models(place: BatchSlot, settings: AuditSettings) -> Iterator[SmallModel]:
    known = {m.name: m for m in instances_for("verify", settings.gamma, settings.vocab, 0)}
    for name in _INSTANCE_NAMES:
        if name not in known:
            continue
        model = replace(known[name], name=f"{name}{SLOT_SEPARATOR}{place.name}", core=True)
        vocab = model.vocab_size
        one_hot = [tuple(row) for row in np.eye(vocab, dtype=int).tolist()]
        if place.greedy:
            certain = tuple(one_hot[row.index(max(row))] for row in model.targets)
            model = replace(model, targets=certain)
        if place.kind != "one-hot":
            yield model
            continue
        # A drafter that is certain: the law is due after every token that it may draft.
        for shift in range(vocab):
            drafts = tuple(one_hot[(i + shift) % vocab] for i in range(len(model.drafts)))
            shifted = f"{name}, drafts {shift + 1}{SLOT_SEPARATOR}{place.name}"
            yield replace(model, drafts=drafts, name=shifted)


def _as_seeded_rule(subject: Subject) -> Callable[..., Any]:
    """Return batched code as a rule with a batch axis; its requests get seeds drawn from rng."""

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        size = len(draft_tokens)
        seeds = rng.integers(2**62, size=size)
        batch = _make_requests(draft_tokens, target_probs, draft_probs, seeds)
        return tokens_per_request(subject.rule(batch, rng), size)

    return subject.around(verify).rule


def _make_requests(tokens: Any, target: Any, draft: Any, seeds: Any) -> MixedRequests:
    size, gamma = tokens.shape
    return MixedRequests(tokens, target, draft, np.full(size, gamma, dtype=np.int64), seeds=seeds)


def find_neighbour_dependence(subject: Subject, seed: int) -> str:
    """Repeat requests, with their seeds, in another batch; say which one answers differently.

    Empty if none does: a request's tokens must follow from its rows and its seed.
    """
    rng = np.random.default_rng([seed, 1])
    for _ in range(_NEIGHBOUR_TRIALS):
        target, draft = (rng.dirichlet(np.ones(4), (BATCH_SIZE, n)) for n in (3, 2))
        tokens, seeds = rng.integers(4, size=(BATCH_SIZE, 2)), rng.integers(2**62, size=BATCH_SIZE)
        try:
            first = _call_batch(subject, target, draft, tokens, seeds, rng)
        except Exception as error:
            return f"seeds: raises {describe_exception(error)}"
        for b in range(BATCH_SIZE):
            # The request moves to the other end of a batch of strangers.
            at = BATCH_SIZE - 1 - b
            p, q, x = (np.roll(rows, 1, axis=0) for rows in (target, draft, tokens))
            strangers = rng.integers(2**62, size=BATCH_SIZE)
            p[at], q[at], x[at], strangers[at] = target[b], draft[b], tokens[b], seeds[b]
            again = _call_batch(subject, p, q, x, strangers, rng)[at]
            if again != first[b]:
                return (
                    f"seeds, request {b + 1} of {BATCH_SIZE}: with the same rows and the same "
                    f"seed it emits {first[b]}, and {again} as request {at + 1} beside others"
                )
    return ""


def _call_batch(
    subject: Subject, target: Any, draft: Any, tokens: Any, seeds: Any, rng: Any
) -> Any:
    batch = _make_requests(tokens.copy(), target.copy(), draft.copy(), seeds.copy())
    result = subject.rule(batch, np.random.default_rng(rng.integers(2**62)))
    return tokens_per_request(result, BATCH_SIZE)


def _sample_slots(
    subject: Subject,
    places: list[SlotResult],
    kinds: tuple[str, ...],
    settings: AuditSettings,
    say: ReportProgress,
) -> Iterator[SampledAudit]:
    """Sample the request under test at these places, and whole batches if seeds are asked for.

    The runs share the false-alarm rate. Each kind has the time of a tier.
    """
    runs: list[tuple[Callable[..., Any], tuple[SampledInstance, ...], int | None, float]] = []
    if places:
        first, *others = (x for tried in places for x in _sampled_instances(tried, settings))
        # A row of another request is a large deviation, and there are many places.
        at_places = (first, *(replace(x, coarse=True) for x in others))
        seconds = settings.seconds * len({tried.place.kind for tried in places})
        runs.append((subject.rule, at_places, None, seconds))
    if "seeds" in kinds:
        sizes = min(settings.gamma, 2), min(settings.vocab, 3)
        instances = default_sampled_instances(*sizes)
        runs.append((_as_seeded_rule(subject), instances, BATCH_SIZE, settings.seconds))
    for rule, instances, batch, seconds in runs:
        yield sample_callable(
            rule,
            "verify",
            instances=instances,
            batch=batch,
            say=say,
            **settings.sampling() | {"alpha": settings.alpha / len(runs), "seconds": seconds},
        )


def _sampled_instances(tried: SlotResult, settings: AuditSettings) -> Iterator[SampledInstance]:
    """Yield the largest instances of a place, for the sampled tier."""
    models = list(_slot_models(tried.place, settings))
    size = models[-1].gamma, models[-1].vocab_size
    for model in models:
        if (model.gamma, model.vocab_size) == size:
            label = model.name.partition(", gamma=")[0]
            named = replace(model, name=f"{tried.place.name}: {label}")
            yield SampledInstance(named, model.gamma, rule=tried.subject.rule)


# The document of an audit in mixed batches: a failure names the kind of batch and the slot.


def audit_mixed_batches(
    subject: Subject, settings: AuditSettings, reproduce: str | None, say: Callable[[str], None]
) -> doc.AuditRun:
    """Judge batched code among the kinds of requests named; edge probes are of one block."""
    assert settings.batch_mix is not None
    stamp = start_meta()
    trial = try_mixed_batches(subject, parse_batch_mixes(settings.batch_mix), settings, say)
    findings = list(_batch_findings(trial))
    why = _inconclusive_reason(trial)
    verdict: doc.Verdict = "FAIL" if findings else "INCONCLUSIVE" if why else "PASS"
    failed, sampled = trial.failed, _merge_sampled_tiers([x.tier for x in trial.sampled])
    failures = failed.tier.failures if failed is not None else []
    shown = next((judged for judged in failures if judged.deviates), None)
    violated = next((judged for judged in failures if judged.violated), None)
    every = (x.tier.held for x in trial.tried if x.tier.held)
    held = max(every, key=lambda h: h.tolerance, default=None)
    command = settings.command(subject.name, "verify")
    refused = next((x for x in trial.tried if x.tier.not_enumerable is not None), None)
    return settings.document(
        subject.name,
        "verify",
        held,
        verdict=verdict,
        tier="exact" if sampled is None else "sampled",
        paths=sum(x.tier.paths for x in trial.tried),
        instances=tuple(instance_document(j) for x in trial.tried for j in x.tier.judged),
        not_enumerable=None
        if refused is None
        else _with_slot(refused, exact_tier_limit(refused.tier)),
        inconclusive=why if verdict == "INCONCLUSIVE" else None,
        sampled=sampled,
        counterexample=make_counterexample(shown, "verify") if shown else None,
        localisation=locate_deviation(failed.subject, "verify", shown, settings.tolerance)
        if failed is not None and shown
        else None,
        findings=tuple(findings),
        reproduce=reproduce if reproduce and failures else command,
        notes=tuple(f"sampled: {x.hurried}" for x in trial.sampled if x.hurried),
        meta=stamp(),
        breach=make_breach(violated, "verify") if violated else None,
        company=settings.batch_mix,
    )


def _with_slot(tried: SlotResult, text: str) -> str:
    return f"{tried.place.name}: {text}"


def _batch_findings(trial: MixedBatchResult) -> Iterator[doc.Finding]:
    for attempt in trial.tried:
        for finding in audit_findings(attempt.tier, ()):
            yield msgspec.structs.replace(finding, text=_with_slot(attempt, finding.text))
    if trial.seeds:
        yield doc.Finding(kind="contract", text=trial.seeds)
    for sampled in trial.sampled:
        for finding in sampled.tier.findings:
            broke = finding.kind == "contract" and sampled.trial is not None
            where = f"{sampled.trial.instance.name}: " if broke and sampled.trial else ""
            yield msgspec.structs.replace(finding, text=where + finding.text)


def _merge_sampled_tiers(tiers: list[doc.SampledTier]) -> doc.SampledTier | None:
    """Return one sampled tier of several that shared the false-alarm rate; None of none."""
    if len(tiers) < 2:
        return tiers[0] if tiers else None
    deviations = [tier.detectable for tier in tiers]
    bounds = [tier.certificate for tier in tiers]
    held = [x for x in bounds if x is not None]
    worst = max(held, key=lambda x: x.bound) if len(held) == len(bounds) else None
    return msgspec.structs.replace(
        tiers[0],
        samples=sum(tier.samples for tier in tiers),
        looks=max(tier.looks for tier in tiers),
        alpha=sum(tier.alpha for tier in tiers),
        detect=max(tier.detect for tier in tiers),
        tests=tuple(test for tier in tiers for test in tier.tests),
        detectable=None if None in deviations else max(x for x in deviations if x is not None),
        certificate=worst and msgspec.structs.replace(worst, delta=sum(x.delta for x in held)),
        optimality="; ".join(tier.optimality for tier in tiers if tier.optimality) or None,
        findings=tuple(finding for tier in tiers for finding in tier.findings),
        instances=tuple(one for tier in tiers for one in tier.instances),
        faults=None,
        localisation=next((tier.localisation for tier in tiers if tier.localisation), None),
    )


def _inconclusive_reason(trial: MixedBatchResult) -> str | None:
    """Say why what was not seen to fail does not pass either; None where it does."""
    for late in trial.late:
        return _with_slot(late, exact_tier_limit(late.tier))
    if trial.open:
        return trial.open
    for sampled in trial.sampled:
        if sampled.verdict != "PASS":
            return sampled.reason or "the promised power was not reached"
    return None


# Code that takes no batch is refused.


_CALL_SIGNATURES = {
    "batch": ("verify(target_probs, draft_probs, draft_tokens, rng), each with a batch axis", 4),
    "batch_mix": ("verify(batch, rng)", 2),
}
"""How code is called with each option, and with how many arguments."""


def with_batch_mix(subject: Subject, settings: AuditSettings) -> tuple[Subject, AuditSettings]:
    """Return the subject and the settings as ``--batch-mix`` asks for.

    An engine's adapter knows the kinds that the engine takes, "all" of them. Raises ``OptionError``
    for other kinds. Other subjects stay as they are.
    """
    known = getattr(subject.rule, "company", None)
    if settings.batch_mix is None or not isinstance(known, str):
        return subject, settings
    kinds = parse_batch_mixes(known)
    selection = (
        kinds if settings.batch_mix.strip() == "all" else parse_batch_mixes(settings.batch_mix)
    )
    if other := [kind for kind in selection if kind not in kinds]:
        name = subject.name.replace("{", "{{").replace("}", "}}")
        raise OptionError(
            f"{name} takes no requests of the kind {', '.join(other)}: {{company}} is one or more "
            f"of {', '.join(kinds)}, or all"
        )
    rule: Any = subject.rule
    beside = replace(subject, rule=rule.in_company, one_block=False)
    return beside, replace(settings, batch_mix=",".join(selection))


def check_takes_batch(subject: Subject, settings: AuditSettings) -> None:
    """Raise ``UsageError`` where a batch is asked for of code that takes none.

    Built-in rules, and what ``as_verify`` returns, judge one block a call unless ``takes_batches``
    is set on them. Of other code only the number of its arguments is known.
    """
    from simverify.faults import CONTROLS, FAULTS
    from simverify.verifiers import VERIFIERS

    option = "batch" if settings.batch else "batch_mix" if settings.batch_mix else None
    if option is None:
        return
    name = subject.name.replace("{", "{{").replace("}", "}}")
    signature, count = _CALL_SIGNATURES[option]
    # A built-in rule may also be passed as a function.
    built_in: list[Any] = [*VERIFIERS.values(), *CONTROLS.values()]
    built_in += [fault for fault in FAULTS.values() if fault.batch is None]
    one_block = subject.one_block or any(subject.rule is x.rule for x in built_in)
    declared = getattr(subject.rule, "takes_batches", None)
    if one_block if declared is None else not declared:
        raise OptionError(
            f"{name} judges one block a call: leave {{{option}}} out, or name code that takes "
            "batches"
        )
    try:
        # A call meets the parameters of a decorator.
        parameters = inspect.signature(subject.rule, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    if not accepts_arguments(parameters, count):
        taken = f"({', '.join(parameters.parameters)})"
        raise OptionError(f"{name} takes {taken}: with {{{option}}} it is called as {signature}")
