"""The kinds of company that a request is judged in, and its places among the others."""

from collections.abc import Iterator
from dataclasses import dataclass

from simverify.checks import pick
from simverify.errors import UsageError

SIZE = 4
"""Requests of a batch: neighbours on either side of one in the middle, and both ends."""

PLACES = (0, 1, 3)
"""First, in the middle, last."""

KINDS = {
    "ragged": "draft lengths differ; -1 stands behind the shorter drafts",
    "stale": "draft lengths differ; ids of an earlier call stand behind the shorter drafts",
    "placeholder": "one length is told for all; a -1 ends a draft before it",
    "padded": "columns behind the vocabulary hold zeros",
    "unmasked": "columns behind the vocabulary hold numbers that are no probabilities",
    "greedy": "greedy requests and random ones in one batch",
    "one-hot": "no draft probabilities: each draft is certain",
    "mixed": "ragged, padded, and greedy neighbours at once",
    "seeds": "each request has a seed of its own",
}


def kinds_of(text: str) -> tuple[str, ...]:
    """Return the kinds that ``text`` names, such as "ragged,padded", or "all", in our order.

    Raises ``UsageError`` for a kind that does not exist, with the nearest.
    """
    named = [word.strip() for word in text.split(",") if word.strip()]
    if not named:
        raise UsageError(f"got no kind of company: name some of {', '.join(KINDS)}, or all")
    if named == ["all"]:
        return tuple(KINDS)
    for word in named:
        pick(word, KINDS, "kind of company")
    return tuple(kind for kind in KINDS if kind in named)


@dataclass(frozen=True)
class Place:
    """Where the request under test stands.

    ``request``: its index among :data:`SIZE`. ``longer``: so many tokens more does the longest of
    its neighbours draft. ``greedy``: it is the greedy one; else some of its neighbours are, in
    the kinds that have them.
    """

    kind: str
    request: int
    longer: int = 0
    greedy: bool = False

    @property
    def name(self) -> str:
        """The place in words, from which :func:`place_of` finds it again."""
        how = " (others draft more)" if self.longer else ""
        how += " (greedy itself)" if self.greedy else ""
        return f"{self.kind}{how}, request {self.request + 1} of {SIZE}"


def places_of(kind: str) -> Iterator[Place]:
    """Yield the places of one kind; none of "seeds", which no law of one call shows."""
    if kind == "seeds":
        return
    ragged = kind in ("ragged", "stale", "mixed")
    for request in PLACES:
        if kind == "placeholder":
            yield Place(kind, request, 1)
            continue
        yield Place(kind, request)
        if ragged:
            yield Place(kind, request, 1)
        if kind == "greedy":
            yield Place(kind, request, greedy=True)


_BY_NAME = {place.name: place for kind in KINDS for place in places_of(kind)}
FIRST = Place("padded", 0)
BETWEEN = " among others: "


def place_of(instance: str) -> Place:
    """Return the place that an instance's name ends with."""
    return _BY_NAME[instance.rpartition(BETWEEN)[2]]
