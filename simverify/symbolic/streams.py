"""Streams: which draws follow which state of a generator.

A generator is a place in a sequence of words. Where two generators stand at the same place (the
same seed, a copy, a state put back), the draws that follow are the same draws, provided that
they are asked for in the same way; where they are asked for in another way (a uniform here, an
integer there, from the same words), nothing here knows how the two depend on each other, and
that is refused. Most generators never come back to a place: their streams have no name, and
nothing is kept of them.
"""

from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn, Protocol
from weakref import ref

from simverify.symbolic.provenance import CannotEnumerate, Finding, Severity, current_user_line

STREAM_HORIZON = 2**48
"""Words within which a stream that draws in unknown steps may reach another one's words."""


EQUAL_STREAMS = "equal-streams"
"""The finding that two generators yield the same numbers. A rule may mean it, so no violation."""

REUSED_BITS = "reused-bits"
"""The kind of what is found where code asks twice for the same bits of a key: a cause, no fault."""

MAX_REWIND = 2**64
"""Words before its beginning within which a sequence is meant to be wound back."""


class GeneratorSeed(NamedTuple):
    """What a generator is seeded with.

    ``key`` names the sequence that follows (None: entropy of the system, which nobody has
    again). ``shown`` is the constant that it goes back to, in words; None if it is random.
    ``built``: it comes from a seed sequence that the rule made when it was built.
    """

    key: Hashable
    shown: str | None = None
    built: bool = False


FRESH_SEED = GeneratorSeed(None)


class StreamOrigin(NamedTuple):
    """A constant that a stream goes back to, and the place in its sequence."""

    key: Hashable
    start: int
    shown: str


class StreamState(NamedTuple):
    """A place in a sequence: what a generator's state says, for one path."""

    key: Hashable
    position: int
    origin: StreamOrigin | None
    epoch: int
    name: str


class SharedStart(NamedTuple):
    """Where a generator stood before the audit, in a sequence that another one follows too.

    ``holder``: what holds its ``state`` of then; ``upcoming``: the uniform that it yielded next;
    ``name``: what it is called in the code, with the line that made it.
    """

    key: Hashable
    position: int
    name: str
    holder: Any
    upcoming: float
    state: Any


SHARED_STARTS: ContextVar[Mapping[int, SharedStart] | None] = ContextVar("starts", default=None)
"""By the identity of what holds the state: a bit generator, or a generator without one."""


def shared_start(holder: Any) -> SharedStart | None:
    """Return where a generator stood whose numbers another one yields too; None for most."""
    return (SHARED_STARTS.get() or {}).get(id(holder))


class Stream:
    """A cursor into a sequence of draws; without a ``key`` there is no way back to it.

    ``position`` counts words; after a draw that takes an unknown number of them the sequence is
    another one, which is named after the place where it was left. ``outside``: its generator is
    there before the call and after it. ``name``: its generator, in words; empty if it has no key.
    """

    __slots__ = ("__weakref__", "epoch", "key", "name", "origin", "outside", "position")

    def __init__(self, *, outside: bool = False) -> None:
        self.outside = outside
        self.key: Hashable = None
        self.position = 0
        self.origin: StreamOrigin | None = None
        self.epoch = -1
        self.name = ""

    def forget(self) -> None:
        """Continue with fresh draws."""
        self.key = self.origin = None
        self.position = 0


def sequence_of(key: Hashable) -> Hashable:
    """Return the sequence in which a stream began, before draws of an unknown number of words."""
    while isinstance(key, tuple) and key[0] == "after":
        key = key[1]
    return key


class _Source(Protocol):
    epoch: int
    findings: dict[str, Finding]
    seed_once: bool
    cut: bool
    draws: list[Any]
    failure: CannotEnumerate | None

    def refuse(self, call: str) -> NoReturn: ...
    def find(self, kind: str, severity: Severity, message: str) -> None: ...


class DrawSequences:
    """The draws of one path, by the place that they follow.

    ``entropies``: entropy of the system that was handed out as a number, with the seed that it
    stands for; ``values``: of how many values a draw is one, where it is no plain uniform.
    ``building``: the rule is being built, and may seed itself with a constant, once.
    """

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._first_seen: dict[StreamOrigin, int] = {}
        self._named = 0
        self._start()

    def begin(self) -> None:
        """Start a path, after a look at where the one before left what it did not make."""
        if not self._source.cut and self._source.failure is None:
            for stream, beginning in self._outside:
                place = (stream.key, stream.position)
                again = [place, *(self._ahead.get(place, ()) if place == beginning else ())]
                if not self._drawn.keys().isdisjoint(again):
                    self._source.find(
                        "repeated-draws",
                        "violation",
                        "a generator that stays from call to call is left where it was before it "
                        "drew (it was copied or its state was put back), so the draws repeat",
                    )
        self._start()

    def _start(self) -> None:
        self._outside: list[tuple[Stream, tuple[Hashable, int] | None]] = []
        self._ahead: dict[tuple[Hashable, int], list[tuple[Hashable, int]]] = {}
        self._drawn: dict[tuple[Hashable, int], tuple[Hashable, Any, Stream, str]] = {}
        self._unknown_steps: dict[Hashable, list[int]] = {}
        self._entered: dict[Hashable, list[int]] = {}
        self._times_seeded: dict[StreamOrigin, int] = {}
        self.building = self._source.seed_once
        self._seeded: list[ref[Stream]] = []
        self._looked_at = False
        self.entropies: list[tuple[Any, GeneratorSeed]] = []
        self.values: dict[int, int] = {}

    def is_built(self) -> None:
        """Note that the rule is built: from now on a constant seed is one too many."""
        self.building = False

    def remembers(self) -> bool:
        """Whether a draw of this path may come again, or a generator stands at a place."""
        standing = [known() for known in self._seeded]
        named = [stream for stream in standing if stream is not None and stream.key is not None]
        ahead = {sequence_of(stream.key) for stream in named if self.only_goes_on(stream)}
        if self._entered or len(ahead) < len(named):
            return True
        return any(sequence_of(key) not in ahead for key, _ in self._drawn)

    def only_goes_on(self, stream: Stream) -> bool:
        """Whether all that a stream draws from now on is new, as if nothing had been drawn.

        So it is where the rule was seeded with a constant when it was built, nobody looked at the
        state of a generator, and whatever was drawn of the sequence lies behind.
        """
        once = stream.origin is not None and self._times_seeded.get(stream.origin) == 1
        if not once or self._looked_at or self._entered or stream.epoch != self._source.epoch:
            return False
        behind, key, position = dict[Hashable, int](), stream.key, stream.position
        while isinstance(key, tuple) and key[0] == "after":
            behind[key] = position
            _, key, position = key
            position += 1
        behind[key] = position
        return all(
            sequence_of(drawn) != key or at < behind.get(drawn, 0) for drawn, at in self._drawn
        )

    def fresh(self) -> Hashable:
        """Return a name that no other sequence has."""
        self._named += 1
        return ("fresh", self._named)

    def seed(self, stream: Stream, seed: GeneratorSeed, start: int = 0) -> None:
        """Set a stream to the draws after a seed, or ``start`` words further."""
        stream.key, stream.position = seed.key, start
        stream.epoch = self._source.epoch
        stream.origin = None
        if seed.key is None:
            return
        self._seeded.append(ref(stream))
        if seed.shown is not None:
            stream.origin = StreamOrigin(seed.key, start, seed.shown)
            stream.name = current_user_line()
            times = self._times_seeded.get(stream.origin, 0)
            # While the rule is built, to its first reset, two generators may get one seed: the law
            # says what comes of it. What every reset seeds, the second one shows.
            more = 1 if seed.built else 2
            self._times_seeded[stream.origin] = max(times, 1) if self.building else times + more
        if start:
            self._enter(stream.key, start)

    def join(self, stream: Stream, start: SharedStart) -> None:
        """Set the stream of a generator that was there before to where it stood."""
        self.seed(stream, GeneratorSeed(start.key), start.position)
        stream.name = start.name

    def state(self, stream: Stream) -> StreamState:
        """Return the place at which a stream stands, and remember its draws from now on."""
        self._looked_at = True
        if stream.key is None or stream.epoch != self._source.epoch:
            stream.forget()
            stream.key, stream.epoch = self.fresh(), self._source.epoch
            if stream.outside:
                # Where nothing was drawn so far, this is where the call found it.
                beginning = None if self._source.draws else (stream.key, 0)
                self._outside.append((stream, beginning))
        return StreamState(stream.key, stream.position, stream.origin, stream.epoch, stream.name)

    def put(self, stream: Stream, state: StreamState) -> None:
        """Set a stream to a place: the draws that followed it follow again."""
        if state.epoch != self._source.epoch:
            self._source.refuse("a generator's state that an earlier call kept")
        stream.key, stream.position, stream.origin, stream.epoch, stream.name = state

    def moved(
        self, state: StreamState, how: str, to: Callable[[int], int], period: int
    ) -> StreamState:
        """Return the place ``to(words so far)``; the sequence repeats after ``period`` words."""
        if isinstance(state.key, tuple) and state.key[0] == "after":
            self._source.refuse(f"{how} after draws that take an unknown number of words")
        position = to(state.position) % period
        if (
            isinstance(state.key, tuple)
            and state.key[0] == "fresh"
            and 0 < -position % period < MAX_REWIND
        ):
            self._source.refuse(f"{how} back to draws from before the state was looked at")
        self._enter(state.key, position)
        place = (state.key, state.position)
        self._ahead.setdefault(place, []).append((state.key, position))
        return state._replace(position=position)

    def next(
        self, stream: Stream, kind: Hashable, new: Callable[[], Any], *, one_word: bool
    ) -> Any:
        """Return a stream's next draw, of this ``kind`` of numbers, which may take ``one_word``."""
        if stream.epoch != self._source.epoch:
            # Kept from an earlier path: by now it stands at an unknown place.
            stream.forget()
            return new()
        self.blame_constant(stream)
        place = (stream.key, stream.position)
        if place not in self._drawn:
            if not one_word:
                self._unknown_steps.setdefault(stream.key, []).append(stream.position)
                self._apart(stream.key)
            self._drawn[place] = (kind, new(), stream, _in_words(stream))
        was, draw, first, name = self._drawn[place]
        # A constant that is set again and again is told as such.
        if first is not stream and stream.origin not in self.constants():
            self._note_equal_streams(name, _in_words(stream))
        if was != kind:
            kinds = ", ".join(str(x[0] if isinstance(x, tuple) else x) for x in (was, kind))
            self._source.refuse(f"one seed used for draws of two kinds ({kinds})")
        if one_word:
            stream.position += 1
        else:
            stream.key, stream.position = ("after", *place), 0
        return draw

    def constants(self) -> frozenset[StreamOrigin]:
        """Return the constants that generators were seeded with in a call, or twice."""
        return frozenset(x for x, times in self._times_seeded.items() if times > 1)

    def _enter(self, key: Hashable, position: int) -> None:
        """Note that a stream begins inside a sequence."""
        self._entered.setdefault(key, []).append(position)
        self._apart(key)

    def _apart(self, key: Hashable) -> None:
        for at in self._unknown_steps.get(key, ()):
            if any(at < entered < at + STREAM_HORIZON for entered in self._entered.get(key, ())):
                self._source.refuse("streams of one generator that may overlap")

    def blame_constant(self, stream: Stream) -> None:
        """Note a draw from a stream, which repeats from call to call if it goes back to a seed."""
        if stream.origin is not None:
            self._blame(stream.origin, stream.name)

    def _note_equal_streams(self, first: str, second: str) -> None:
        if EQUAL_STREAMS not in self._source.findings:
            pair = f"{first} and {second}" if first != second else f"{first} and one like it"
            self._source.find(EQUAL_STREAMS, "warning", f"{pair} yield the same numbers")

    def _blame(self, origin: StreamOrigin, where: str) -> None:
        # A seed from the clock, or one that was drawn and is a number on replay, changes.
        again = self._first_seen.setdefault(origin, self._source.epoch) != self._source.epoch
        # Only the first of a kind is kept.
        reported = "constant-seed" in self._source.findings
        if again and not reported and self._times_seeded.get(origin, 0) > 1:
            self._source.find(
                "constant-seed",
                "violation",
                f"{origin.shown} inside the call, so its draws repeat from call to call ({where})",
            )


def _in_words(stream: Stream) -> str:
    """Return which generator draws from a stream."""
    if stream.origin is not None:
        return f"the generator seeded at {stream.name}"
    return stream.name or "a generator"
