"""What became of a request: same, near enough for rounding, ended early, or off, and where."""

from collections.abc import Sequence
from dataclasses import dataclass

from simverify.emitted.triage.reading import Answer
from simverify.emitted.triage.scoring import Path
from simverify.results import TriageClass, TriageSide


@dataclass(frozen=True)
class Outcome:
    """A request's class and why; ``None`` as ``kind`` for a token that is off, to be explained.

    ``fault``: whether it fails the run, None where nobody can tell. ``parted``: index of the first
    token that differs; ``at``, ``side``: of the token that is told.
    """

    number: int
    kind: TriageClass | None
    fault: bool | None
    why: str
    parted: int | None = None
    at: int | None = None
    side: TriageSide | None = None


def outcome(
    number: int, both: tuple[Answer, Answer], paths: tuple[Path, Path], radius: float,
    eos: frozenset[int],
) -> Outcome:  # fmt: skip
    """Judge one pair of answers, whose tokens may be off by ``radius``."""
    a, b = (answer.request for answer in both)
    common = agreeing(a.tokens, b.tokens)
    parted = common if common < min(len(a.tokens), len(b.tokens)) else None
    if a.prompt != b.prompt and a.tokens != b.tokens:
        return Outcome(number, "template", True, _prompts(a.prompt, b.prompt), parted, common)
    off = _first_off(both, paths, radius, common)
    if off is not None:
        at, side = off
        which = 1 if side == "b" else 0
        token, due = both[which].request.tokens[at], int(paths[which].top[at])
        if token in eos or due in eos:
            put_back = token in eos and both[which].request.restored
            return Outcome(
                number, "early stop", True, _end(token in eos, put_back), parted, at, side
            )
        if a.from_text or b.from_text:
            why = "its tokens are known by their text alone, which may be of others"
            return Outcome(number, "text", None, why, parted, at, side)
        return Outcome(number, None, None if side == "both" else True, "", parted, at, side)
    if parted is not None:
        return Outcome(
            number,
            "numerics",
            False,
            "both tokens are the target's, within rounding",
            parted,
            parted,
        )
    if len(a.tokens) == len(b.tokens) or _alike(both, common, eos):
        return Outcome(number, "same", False, "")
    fault, why = _shorter(both, eos)
    return Outcome(number, "early stop", fault, why, None, common)


def agreeing(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many first tokens are the same."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _first_off(
    both: tuple[Answer, Answer], paths: tuple[Path, Path], radius: float, common: int
) -> tuple[int, TriageSide] | None:
    """Return the first token that is no choice of the target's, and whose it is.

    Where both are off at the same place with tokens of their own, it is the one further behind.
    """
    places = [own.off(radius) for own in paths]
    if ended_alike(both):
        last = len(both[0].request.tokens) - 1
        places = [own[own < last] for own in places]
    first = [int(own[0]) if len(own) else None for own in places]
    at = min((place for place in first if place is not None), default=None)
    if at is None:
        return None
    if at < common and both[0].request.prompt == both[1].request.prompt:
        return at, "both"
    if first[0] == first[1]:
        return at, "a" if paths[0].gap[at] >= paths[1].gap[at] else "b"
    return at, "a" if first[0] == at else "b"


def ended_alike(both: tuple[Answer, Answer]) -> bool:
    """Whether both say that they stopped after the same tokens, and none shows what stopped it.

    The end of sequence that was put back may be none of the target's, where both were asked to stop
    at a string: that parts nobody.
    """
    a, b = (answer.request for answer in both)
    return a.restored and b.restored and a.tokens == b.tokens


def _prompts(a: Sequence[int], b: Sequence[int]) -> str:
    k = agreeing(a, b)
    return f"the prompts differ: {len(a):,} and {len(b):,} tokens, alike up to token {k:,}"


def _end(ended: bool, put_back: bool) -> str:
    if not ended:
        return "goes on where the target ends: its end of sequence is ignored or unknown there"
    if put_back:
        return "says that it stopped where the target goes on: a stop string, or another end token"
    return "ends where the target goes on"


def _alike(both: tuple[Answer, Answer], common: int, eos: frozenset[int]) -> bool:
    """Whether one log only drops the token that ended both."""
    short, long = sorted(both, key=lambda answer: len(answer.request.tokens))
    rest = long.request.tokens[common:]
    return short.reason is None and len(rest) == 1 and rest[0] in eos


def _shorter(both: tuple[Answer, Answer], eos: frozenset[int]) -> tuple[bool | None, str]:
    """Return whether it is a fault that one answer begins the other, and why it ends."""
    short = min(both, key=lambda answer: len(answer.request.tokens))
    which = "A" if short is both[0] else "B"
    n = len(short.request.tokens)
    if short.reason == "length":
        return False, f"{which} was cut at a limit of {n:,} tokens"
    if isinstance(short.stop, str):
        return True, f"{which} ends at the stop string {short.stop!r}, and the other does not"
    if short.request.tokens[-1] in eos:
        return True, f"{which} ends at the end of sequence, and the other goes on behind it"
    if short.stop is not None:
        return True, f"{which} ends at token {short.stop}, which ends nothing in the other"
    return None, f"{which} ends after {n:,} tokens and does not say why: log its finish_reason"
