"""Which explanations fit an off token: by it alone, by all that follow, by the whole answer.

An explanation that stays, as a prompt that was read otherwise does, has to give every token of the
answer, and those that it leaves as they are too: the more of them it would have changed, the less
likely it fits by chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simverify.arrays import Floats, Ints
from simverify.emitted.triage.choices import Text, choices, takes_positions
from simverify.emitted.triage.contexts import Context, contexts, shared_beginning
from simverify.emitted.triage.reading import Answer
from simverify.emitted.triage.scoring import Path
from simverify.models.real.transformer import TransformerPair
from simverify.results import TriageClass

DRAFTED = "the draft's own token is kept"

REACHES = ("", ", and all that follows", ", and the whole answer")
"""What an explanation gives: the off token, what is behind it too, and what is before it."""

_NEIGHBOURS = 4


@dataclass(frozen=True, eq=False)
class Log:
    """One log: its answers, their paths, and the draft's choices at each place, None for none."""

    answers: Sequence[Answer]
    paths: Sequence[Path]
    drafts: Sequence[Ints] | None

    def shared(self, number: int) -> int:
        """Return how much of a prompt one of the answers before has, in the order of the log."""
        texts = ((*own.request.prompt, *own.request.tokens) for own in self.answers[:number])
        return shared_beginning(self.answers[number].request.prompt, texts)


@dataclass(frozen=True, eq=False)
class Spot:
    """A token: of which log and answer, where, and what is to be explained there.

    ``shared``: tokens of the prompt that may have come from another request's cache.
    """

    log: Log
    number: int
    at: int
    token: int
    shared: int

    @property
    def prompt(self) -> tuple[int, ...]:
        """The tokens of the prompt."""
        return self.log.answers[self.number].request.prompt

    @property
    def tokens(self) -> tuple[int, ...]:
        """The answer's tokens."""
        return self.log.answers[self.number].request.tokens

    @property
    def path(self) -> Path:
        """The answer beside the target's choices."""
        return self.log.paths[self.number]

    @property
    def text(self) -> tuple[int, ...]:
        """All tokens before the one that is to be explained."""
        return (*self.prompt, *self.tokens[: self.at])


@dataclass(frozen=True)
class Fit:
    """Whether an explanation gives a token: alone, with what follows, with the whole answer.

    ``reaches``: for each of ``REACHES``, None where that is no explanation: a prompt that was read
    otherwise is not for one token alone, and what is lost behind it touches nothing before.
    """

    kind: TriageClass
    reaches: tuple[bool | None, ...]

    def joined(self, other: "Fit | None") -> "Fit":
        """Return the fit of one of both."""
        if other is None:
            return self
        both = zip(self.reaches, other.reaches, strict=True)
        return Fit(self.kind, tuple(None if a is None else a or b for a, b in both))


def fits(
    spots: Sequence[Spot], pair: TransformerPair, radius: float, wanted: set[str] | None = None
) -> list[dict[str, Fit]]:
    """Return for each spot the explanations, of those ``wanted``, and whether they fit."""
    jobs: list[tuple[int, Context, Text]] = []
    found: list[dict[str, Fit]] = []
    placed = takes_positions(pair)
    for i, spot in enumerate(spots):
        found.append(_kept(_at_hand(spot), wanted))
        drafts = None if spot.log.drafts is None else spot.log.drafts[spot.number].tolist()
        made = contexts(
            spot.prompt, spot.tokens, spot.at, int(spot.path.top[spot.at]), drafts, pair,
            spot.shared,
        )  # fmt: skip
        for context in made:
            if context.positions is not None and not placed:
                continue
            whole = (*context.tokens, *spot.tokens[spot.at :])
            if len(whole) <= pair.context and (wanted is None or named(context) in wanted):
                jobs.append((i, context, Text.of(whole, context.positions)))
    given = choices(list(dict.fromkeys(text for *_, text in jobs)), pair)
    for i, context, text in jobs:
        own = _fit(spots[i], context, *given[text], radius)
        found[i][named(context)] = own.joined(found[i].get(named(context)))
    return found


def named(context: Context) -> str:
    """Return the name by which a context is counted: its family's, if it has one."""
    return context.family or context.name


def _fit(spot: Spot, context: Context, top: Ints, behind: Floats, radius: float) -> Fit:
    row = len(context.tokens) - 1
    hit = int(top[row]) == spot.token
    # The last row is of what comes behind the answer.
    follows = hit and bool((behind[row + 1 : -1] <= radius).all())
    if not context.whole:
        return Fit(context.kind, (hit, follows))
    before = behind[max(row - spot.at, 0) : row]
    return Fit(context.kind, (None, follows, follows and bool((before <= radius).all())))


def _at_hand(spot: Spot) -> dict[str, Fit]:
    """Explanations that take no model: other requests' rows at the same place, and the draft."""
    found = {}
    paths = spot.log.paths
    for k in range(-_NEIGHBOURS, _NEIGHBOURS + 1):
        other = spot.number + k
        if k and 0 <= other < len(paths) and spot.at < len(paths[other].top):
            side = "before" if k < 0 else "after"
            far = "" if abs(k) == 1 else f"{abs(k)} "
            hit = int(paths[other].top[spot.at]) == spot.token
            found[f"the row of the request {far}{side}"] = Fit("cache or rows", (hit,))
    if spot.log.drafts is not None:
        hit = int(spot.log.drafts[spot.number][spot.at]) == spot.token
        found[DRAFTED] = Fit("verifier", (hit,))
    return found


def _kept(own: Mapping[str, Fit], wanted: set[str] | None) -> dict[str, Fit]:
    return {name: fit for name, fit in own.items() if wanted is None or name in wanted}
