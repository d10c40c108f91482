"""Laws that an engine may follow where it was asked for another, and the rows of each.

The hidden ones, of an engine that applies a parameter on some rows of a drafted block alone, are
followed by the forward algorithm: where a block stands is not seen, only how likely each place is
after the tokens so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.emitted.law import Law
from simverify.emitted.reading.requests import Request

Outcome = Literal["honoured", "dropped", "one side", "first row only", "last row only",
                  "wrong order", "other"]  # fmt: skip


class Seen:
    """A request with its logits float32 (n, V), of the target and of a draft, None without one."""

    def __init__(
        self,
        request: Request,
        target: npt.NDArray[np.float32],
        draft: npt.NDArray[np.float32] | None,
    ) -> None:
        self.request, self.target, self.draft = request, target, draft
        self._known: dict[tuple[str, Law], Floats] = {}

    def p(self, law: Law) -> Floats:
        """Rows (n, V) of the target by a law."""
        return self._rows("p", law, self.target)

    def q(self, law: Law) -> Floats:
        """Rows (n, V) of the draft by a law."""
        assert self.draft is not None
        return self._rows("q", law, self.draft)

    def of(self, rows: Floats) -> Floats:
        """The emitted tokens' own entries of rows (n, V), float64 (n,)."""
        found: Floats = rows[np.arange(len(rows)), np.array(self.request.tokens)]
        return found

    def _rows(self, side: str, law: Law, logits: npt.NDArray[np.float32]) -> Floats:
        if (side, law) not in self._known:
            found = law.after(logits, self.request.prompt, self.request.tokens)
            self._known[side, law] = found
        return self._known[side, law]


@dataclass(frozen=True, eq=False)
class Way:
    """A law that an engine may follow: what it is called, and what it gives.

    ``rows``: float64 (n, V), where every row is the same law's; None where a token's place in a
    block is hidden, and then ``chances``, float64 (n,), has those of the emitted tokens alone.
    """

    outcome: Outcome
    words: str
    rows: Callable[[Seen], Floats] | None = None
    chances: Callable[[Seen], Floats] | None = None


def by(outcome: Outcome, words: str, law: Law) -> Way:
    """Return the way of an engine that follows ``law`` on every row."""
    return Way(outcome, words, lambda seen: seen.p(law))


def but_the_first(words: str, law: Law, without: Law) -> Way:
    """Return the way of one that applies ``law`` to a request's first token alone."""

    def rows(seen: Seen) -> Floats:
        return np.concatenate([seen.p(law)[:1], seen.p(without)[1:]])

    return Way("dropped", words, rows)


def counting_answer(words: str, law: Law) -> Way:
    """Return the way of one whose penalties count no prompt."""
    return Way("other", words, lambda s: law.after(s.target, (), s.request.tokens))


def counting_prompt(words: str, law: Law) -> Way:
    """Return the way of one whose penalties count the prompt as if it had been emitted."""

    def rows(seen: Seen) -> Floats:
        prompt, tokens = seen.request.prompt, seen.request.tokens
        return law.after(seen.target, (), (*prompt, *tokens), first=len(prompt))

    return Way("other", words, rows)


def counting_last(words: str, law: Law, window: int) -> Way:
    """Return the way of one whose penalties count the last ``window`` tokens, prompt and all."""

    def rows(seen: Seen) -> Floats:
        whole = (*seen.request.prompt, *seen.request.tokens)
        found = np.empty(seen.target.shape)
        for row in range(len(found)):
            end = len(seen.request.prompt) + row
            last = whole[max(end - window, 0) : end]
            found[row] = law.after(seen.target[row : row + 1], last, last, first=len(last))[0]
        return found

    return Way("other", words, rows)


KEPT = (0.3, 0.6, 0.85)
"""Chances that a drafted token is kept, where no draft says them."""


def on_some_rows(law: Law, without: Law, gammas: Sequence[int], drafted: bool) -> list[Way]:
    """Return the ways of engines that apply ``law`` on the first row of a block, or its last."""
    found = []
    for gamma in gammas:
        for kept in (None,) if drafted else KEPT:
            own = "" if kept is None else f", {kept:g} kept"
            choices: tuple[tuple[Outcome, Law, Law, Law], ...] = (
                ("first row only", law, without, without),
                ("last row only", without, without, law),
            )
            for outcome, first, rest, last in choices:
                own_rows = _Blocks(law, first, rest, last, gamma, kept)
                found.append(Way(outcome, f"gamma {gamma}{own}", chances=own_rows))
    return found


@dataclass(frozen=True)
class _Blocks:
    """Chances of tokens from an engine whose blocks apply a law of their own on each row."""

    start: Law
    first: Law
    rest: Law
    last: Law
    gamma: int
    kept: float | None

    def __call__(self, seen: Seen) -> Floats:
        first, rest = self._place(seen, self.first), self._place(seen, self.rest)
        ends = seen.of(seen.p(self.last))
        places = [first, *[rest] * (self.gamma - 1), (np.zeros_like(ends), ends)]
        return forward(places, seen.of(seen.p(self.start)))

    def _place(self, seen: Seen, law: Law) -> tuple[Floats, Floats]:
        p = seen.of(seen.p(law))
        kept = self.kept * p if self.kept is not None else np.minimum(p, seen.of(seen.q(law)))
        return kept, p - kept


_NO_MASS = 1e-12

SIDES = (
    ("the draft draws by it, and no row that judges", ("with", "raw", "raw", "raw")),
    ("the draft draws without it, and is judged as if it had", ("raw", "with", "with", "with")),
    ("the draft draws by it, and is judged as if it had not", ("with", "raw", "with", "with")),
    ("the acceptance alone, not what replaces a rejected token", ("raw", "raw", "with", "raw")),
    ("what replaces a rejected token alone, not the acceptance", ("raw", "raw", "raw", "with")),
)
"""What of a verifier has the parameter: the draw, the row it is judged by, acceptance, residual."""


def on_one_side(law: Law, without: Law, gammas: Sequence[int]) -> list[Way]:
    """Return the ways of engines that apply ``law`` to a part of the verification alone."""

    def found(which: tuple[str, ...], gamma: int) -> Callable[[Seen], Floats]:
        def chances(seen: Seen) -> Floats:
            laws = [law if name == "with" else without for name in which]
            drawn, judged = seen.q(laws[0]), seen.q(laws[1])
            accept, residual = seen.p(laws[2]), seen.p(laws[3])
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(judged > 0.0, accept / judged, np.where(accept > 0.0, 1.0, 0.0))
            kept = drawn * np.minimum(ratio, 1.0)
            left = np.maximum(residual - judged, 0.0)
            total = left.sum(axis=1)
            new = np.where(total > _NO_MASS, seen.of(left) / np.maximum(total, _NO_MASS),
                           seen.of(residual))  # fmt: skip
            ends = new * np.maximum(1.0 - kept.sum(axis=1), 0.0)
            bonus = seen.of(residual)
            places = [(seen.of(kept), ends)] * gamma + [(np.zeros_like(bonus), bonus)]
            return forward(places, seen.of(seen.p(law)))

        return chances

    return [
        Way("one side", f"{words}, gamma {gamma}", chances=found(which, gamma))
        for words, which in SIDES
        for gamma in gammas
    ]


def forward(places: Sequence[tuple[Floats, Floats]], start: Floats) -> Floats:
    """Return each token's chance given all before it, where its place in a block is hidden.

    Parameters
    ----------
    places
        For each row of a block float64 (n,) twice: the mass of the token where it is a draft that
        is kept, after which the next row comes, and where it ends the block.
    start
        Chances float64 (n,), of which the first is that of a request's first token, after which a
        block begins.
    """
    found = start.copy()
    kept, ends = (np.array(side) for side in zip(*places, strict=True))
    weights = np.eye(len(places))[0]
    for i in range(1, len(start)):
        after = np.append((weights * ends[:, i]).sum(), (weights * kept[:, i])[:-1])
        found[i] = total = after.sum()
        weights = after / total if total > 0.0 else np.eye(len(places))[0]
    return found
