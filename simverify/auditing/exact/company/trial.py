"""Code on trial in company: its law at every place of each kind, and what its seeds do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simverify.auditing.exact.battery import ExactTier
from simverify.auditing.exact.company.batches import placed, rows_of
from simverify.auditing.exact.company.places import BETWEEN, SIZE, Place, places_of
from simverify.auditing.exact.instances.made import SmallModel, instances_for
from simverify.auditing.exact.tier import examine
from simverify.auditing.sampled.tables import SampledInstance, default_instances
from simverify.auditing.sampled.tier import SampledAudit, sample_callable
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.auditing.verdict import findings_of, is_whole
from simverify.engines.adapting.requests import Requests
from simverify.symbolic.enumeration.endings import what_was_raised
from simverify.symbolic.guards.watchdog import Expired, deadline

_NAMES = ("plain, V=3, gamma=1", "plain, V=2, gamma=2", "plain, V=3, gamma=2")
"""Instances at each place, where they are no larger than asked for."""

_TRIALS = 64
"""Calls whose requests are asked again with other neighbours."""

Say = Callable[[str], None]


@dataclass
class Tried:
    """What came of one place: its tier."""

    place: Place
    subject: Subject
    tier: ExactTier


@dataclass
class CompanyTrial:
    """What came of all kinds.

    ``tried``: the places in order, up to one at which the clock ran out. ``seeds``: what is wrong
    with them, in words. ``open``: why they could not be tried. ``sampled``: places that could not
    be followed, and many batches of requests with seeds of their own.
    """

    tried: list[Tried] = field(default_factory=list)
    seeds: str = ""
    open: str = ""
    sampled: tuple[SampledAudit, ...] = ()

    @property
    def failed(self) -> Tried | None:
        """The first place that failed, if any."""
        return next((x for x in self.tried if x.tier.failure is not None), None)

    @property
    def caught(self) -> bool:
        """Whether anything failed so far."""
        return bool(self.seeds) or any(findings_of(x.tier, ()) for x in self.tried)

    @property
    def not_followed(self) -> list[Tried]:
        """The places that have instances whose paths could not be followed, for all the time."""
        return [x for x in self.tried if x not in self.late and not is_whole(x.tier)]

    @property
    def late(self) -> list[Tried]:
        """The places that sampling makes up for no more: out of time, or without an instance."""
        return [x for x in self.tried if x.tier.aborted is not None or _is_empty(x.tier)]


def _is_empty(tier: ExactTier) -> bool:
    return not tier.judged and not tier.skipped and tier.not_enumerable is None


def try_company(
    subject: Subject, kinds: tuple[str, ...], settings: AuditSettings, say: Say
) -> CompanyTrial:
    """Judge ``subject`` in company of these kinds, at every place of each.

    What the exact tier cannot follow is sampled, if nothing failed by then.
    """
    trial = CompanyTrial()
    for place in (place for kind in kinds for place in places_of(kind)):
        say(f"in company: {place.name}")
        tier = examine(
            here := placed(subject, place),
            "verify",
            list(_models(place, settings)),
            tolerance=settings.tolerance or subject.tolerance,
            max_paths=settings.paths_for(subject),
            seconds=settings.seconds,
            seed=settings.seed,
            searching=False,
        )
        trial.tried.append(Tried(place, here, tier))
        if tier.aborted is not None:  # the next place would only take as long
            return trial
    if "seeds" in kinds:
        say("in company: seeds")
        try:
            with deadline(settings.seconds):
                trial.seeds = neighbours_matter(subject, settings.seed)
        except Expired:
            trial.open = f"seeds: {_TRIALS} batches take longer than {settings.seconds:g} s"
    if not trial.caught and not trial.open:
        trial.sampled = tuple(_sampled(subject, trial.not_followed, kinds, settings, say))
    return trial


def _models(place: Place, settings: AuditSettings) -> Iterator[SmallModel]:
    known = {m.name: m for m in instances_for("verify", settings.gamma, settings.vocab, 0)}
    for name in _NAMES:
        if name not in known:
            continue
        model = replace(known[name], name=f"{name}{BETWEEN}{place.name}", core=True)
        vocab = model.vocab_size
        if place.greedy:
            certain = tuple(_certain(row.index(max(row)), vocab) for row in model.targets)
            model = replace(model, targets=certain)
        if place.kind == "one-hot":
            # A drafter that is certain: the law is due after every token that it may draft.
            for shift in range(vocab):
                drafts = tuple(
                    _certain((i + shift) % vocab, vocab) for i in range(len(model.drafts))
                )
                shifted = f"{name}, drafts {shift + 1}{BETWEEN}{place.name}"
                yield replace(model, drafts=drafts, name=shifted)
            continue
        yield model


def _certain(token: int, vocab: int) -> tuple[int, ...]:
    return tuple(int(x == token) for x in range(vocab))


def seeded(subject: Subject) -> Callable[..., Any]:
    """Return batched code as a rule with a batch axis; its requests get seeds drawn from rng."""
    batched = subject.rule

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        size = len(draft_tokens)
        seeds = rng.integers(2**62, size=size)
        batch = _requests(draft_tokens, target_probs, draft_probs, seeds)
        return rows_of(batched(batch, rng), size)

    verify.__wrapped__ = batched  # type: ignore[attr-defined]
    return verify


def _requests(tokens: Any, target: Any, draft: Any, seeds: Any) -> Requests:
    size, gamma = tokens.shape
    return Requests(tokens, target, draft, np.full(size, gamma, dtype=np.int64), seeds=seeds)


def neighbours_matter(subject: Subject, seed: int) -> str:
    """Ask requests again, with their seeds, elsewhere among others; say which answered otherwise.

    Empty where none did. A request's tokens are a function of its rows and its seed.
    """
    rng = np.random.default_rng([seed, 1])
    for _ in range(_TRIALS):
        target, draft = rng.dirichlet(np.ones(4), (SIZE, 3)), rng.dirichlet(np.ones(4), (SIZE, 2))
        tokens, seeds = rng.integers(4, size=(SIZE, 2)), rng.integers(2**62, size=SIZE)
        try:
            first = _ask(subject, target, draft, tokens, seeds, rng)
        except Exception as error:
            return f"seeds: raises {what_was_raised(error)}"
        for b in range(SIZE):
            # The request goes on at the other end of a batch of strangers.
            at = SIZE - 1 - b
            other = (
                np.roll(target, 1, axis=0),
                np.roll(draft, 1, axis=0),
                np.roll(tokens, 1, axis=0),
            )
            strangers = rng.integers(2**62, size=SIZE)
            for array, value in zip(other, (target[b], draft[b], tokens[b]), strict=True):
                array[at] = value
            strangers[at] = seeds[b]
            again = _ask(subject, *other, strangers, rng)[at]
            if again != first[b]:
                return (
                    f"seeds, request {b + 1} of {SIZE}: with the same rows and the same seed it "
                    f"emits {first[b]}, and {again} as request {at + 1} beside others"
                )
    return ""


def _ask(subject: Subject, target: Any, draft: Any, tokens: Any, seeds: Any, rng: Any) -> Any:
    batch = _requests(tokens.copy(), target.copy(), draft.copy(), seeds.copy())
    return rows_of(subject.rule(batch, np.random.default_rng(rng.integers(2**62))), SIZE)


def _sampled(
    subject: Subject, places: list[Tried], kinds: tuple[str, ...], settings: AuditSettings, say: Say
) -> Iterator[SampledAudit]:
    """Sample the request under test at these places, and whole batches where seeds are asked for.

    They share the false-alarm rate. Each kind has the time of a tier.
    """
    runs: list[tuple[Callable[..., Any], tuple[SampledInstance, ...], int | None, float]] = []
    if places:
        first, *others = (x for tried in places for x in _instances(tried, settings))
        # A row of another request is a large deviation, and there are many places.
        at_places = (first, *(replace(x, coarse=True) for x in others))
        seconds = settings.seconds * len({tried.place.kind for tried in places})
        runs.append((subject.rule, at_places, None, seconds))
    if "seeds" in kinds:
        sizes = min(settings.gamma, 2), min(settings.vocab, 3)
        runs.append((seeded(subject), default_instances(*sizes), SIZE, settings.seconds))
    for rule, instances, batch, seconds in runs:
        yield sample_callable(
            rule,
            "verify",
            instances=instances,
            seed=settings.seed,
            alpha=settings.alpha / len(runs),
            detect=settings.detect,
            coarser=settings.coarser,
            max_samples=settings.max_samples,
            seconds=seconds,
            batch=batch,
            say=say,
        )


def _instances(tried: Tried, settings: AuditSettings) -> Iterator[SampledInstance]:
    """Yield the largest instances of a place, for the sampled tier."""
    models = list(_models(tried.place, settings))
    size = models[-1].gamma, models[-1].vocab_size
    for model in models:
        if (model.gamma, model.vocab_size) == size:
            told = model.name.partition(", gamma=")[0]
            named = replace(model, name=f"{tried.place.name}: {told}")
            yield SampledInstance(named, model.gamma, rule=tried.subject.rule)
