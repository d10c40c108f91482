"""Requests side by side: what is decoded, what a call of one lane was, and where each lane is."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from simverify.arrays import Floats, Ints
from simverify.simulators.decoding.judges import Judge


@dataclass(frozen=True)
class Job:
    """What is decoded.

    ``prompts``: token ids, one or more each. ``lanes``: requests side by side, ``lane_tokens``
    the tokens each lane emits, ``request_tokens`` the most of one request.
    """

    prompts: tuple[tuple[int, ...], ...]
    gamma: int
    lanes: int
    lane_tokens: int
    request_tokens: int
    seed: int


@dataclass(frozen=True, eq=False)
class Block:
    """One call for one lane: its rows, and what came of it.

    ``p``, ``q``: float64 (gamma+1, V), target and draft rows after 0..gamma of the ``drafts``;
    the verifier is given all but the last of q. ``tau``: accepted tokens. ``emitted``: the
    tokens that count, the block cut where its request or lane ended; ``position``: index of
    the first of them in the lane. ``first``: whether a request begins here.
    """

    lane: int
    position: int
    first: bool
    p: Floats
    q: Floats
    drafts: tuple[int, ...]
    tau: int
    emitted: tuple[int, ...]


@dataclass
class Clock:
    """Seconds of the wall clock by phase: drafting, the target's calls, the verifier.

    ``calls`` counts those of all lanes, ``rounds`` the batches that they were made in.
    ``prompt``: reading prompts, which costs as much without a draft and is no part of a token.
    """

    prompt: float = 0.0
    draft: float = 0.0
    score: float = 0.0
    verify: float = 0.0
    tokens: int = 0
    calls: int = 0
    rounds: int = 0
    drafted: int = 0

    @property
    def seconds_per_token(self) -> float:
        """Wall clock of all phases but the prompts' over emitted tokens, of all lanes together."""
        return (self.draft + self.score + self.verify) / self.tokens


@dataclass
class Lane:
    """A lane's place: its request's tokens so far, and what its models have not been fed."""

    number: int
    prompts: Sequence[Sequence[int]]
    judge: Judge | None
    next_prompt: int
    stride: int
    emitted: int = 0
    request: int = 0
    prefix: int = 0
    to_read: Sequence[int] = ()
    for_target: list[int] = field(default_factory=list)
    for_draft: list[int] = field(default_factory=list)

    def block(
        self, p: Floats, q: Floats, drafts: Ints, tau: int, emitted: tuple[int, ...]
    ) -> Block:
        """Return what a call made of ``drafts``, at the place where the lane is."""
        x = tuple(drafts.tolist())
        return Block(self.number, self.emitted, self.request == 0, p, q, x, tau, emitted)

    def begin(self) -> None:
        """Take the next prompt."""
        prompt = list(self.prompts[self.next_prompt % len(self.prompts)])
        self.next_prompt += self.stride
        self.request, self.prefix = 0, len(prompt)
        self.to_read = prompt[:-1]
        self.for_target = self.for_draft = prompt[-1:]
        if self.judge is not None:
            self.judge.reset()

    def go_on(self, blocks: Sequence[tuple[int, ...]], job: Job, eos: frozenset[int]) -> None:
        """Stand behind what calls before emitted; the models have read nothing of it."""
        text = [*self.to_read, *self.for_target]
        for emitted in blocks:
            text += emitted
            if self.advance(emitted, emitted[-1], job, eos):
                text = [*self.to_read, *self.for_target]
        self.to_read, self.for_target, self.for_draft = text[:-1], text[-1:], text[-1:]

    def advance(self, emitted: tuple[int, ...], last: int, job: Job, eos: frozenset[int]) -> bool:
        """Count what a call emitted; ``last``: the token that no model was fed.

        Returns whether the request ends there: the next one begins.
        """
        self.emitted += len(emitted)
        self.request += len(emitted)
        self.prefix += len(emitted)
        if self.request == job.request_tokens or emitted[-1] in eos:
            self.begin()
            return True
        self.for_target = self.for_draft = [last]
        return False
