"""Two servers asked the same prompts in pairs, side by side, so that time tells nothing of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simverify.emitted.against.answers import Answer, answer_iv
from simverify.emitted.reading.chat import Prompt
from simverify.emitted.serving.kept import Kept
from simverify.emitted.serving.pace import Pace
from simverify.emitted.serving.server import Endpoint, Server
from simverify.emitted.serving.transport import Failure, Transport, key_of_environment
from simverify.emitted.serving.window import in_window, together_iv
from simverify.errors import UsageError
from simverify.models.real.sampling import Sampling


@dataclass(frozen=True)
class AskedBoth:
    """Answers of two servers, each in the order in which it was asked, and remarks on them."""

    first: tuple[Answer, ...]
    second: tuple[Answer, ...]
    notes: tuple[str, ...]


def beside(keep: Path) -> Path:
    """Return the file that keeps the second server's answers, beside that of the first."""
    return keep.with_name(f"{keep.stem}.against{keep.suffix}")


def ask_both(
    endpoints: tuple[Endpoint, Endpoint],
    prompts: Sequence[Prompt],
    law: Sampling,
    *,
    seed: int = 0,
    concurrency: int | None = None,
    keep: Path | None = None,
    before: AskedBoth | None = None,
    progress: Callable[[str], None] | None = None,
) -> AskedBoth:
    """Ask two servers the prompts in turn, in pairs; one that stands there often is asked often.

    Which of a pair is sent first is drawn by ``seed``. ``concurrency``: requests under way at a
    time, of both together. ``keep``: file of the first server's answers; :func:`beside` it lies
    that of the second. Files that are there are gone on with; where none are kept, so are the
    answers ``before``.

    Raises
    ------
    UsageError
        If a server does not answer, answers with an error, or with no completion; if a kept file
        holds other than answers to these requests.
    """
    width = together_iv(concurrency)
    say = Pace(progress or (lambda _: None))
    transports = [Transport(key_of_environment(), say, own.timeout) for own in endpoints]
    try:
        servers = [
            Server(endpoint, law, transport)
            for endpoint, transport in zip(endpoints, transports, strict=True)
        ]
    except Failure as failure:
        raise UsageError(str(failure)) from None
    files = (None, None) if keep is None else (keep, beside(keep))
    total = len(prompts)
    known = (None, None) if keep is not None or before is None else (before.first, before.second)
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 4, 0]))
    swapped = rng.integers(0, 2, total)
    with (
        KeptAnswers(files[0], prompts, servers[0].asked, say, known[0]) as first,
        KeptAnswers(files[1], prompts, servers[1].asked, say, known[1]) as second,
    ):
        sides = (first, second)
        for side, own in zip(("first", "second"), sides, strict=True):
            if own.count and before is None:
                say(f"kept: {own.count:,} answers of the {side}")

        def owner(slot: int) -> int:
            return (slot % 2) ^ int(swapped[slot // 2])

        def work(slot: int) -> dict[str, Any]:
            pair, own = slot // 2, owner(slot)
            ahead = sides[own].ahead.get(pair)
            if ahead is not None:
                return ahead
            return servers[own].complete(pair, prompts[pair])

        def taken(slot: int, value: dict[str, Any]) -> None:
            own = owner(slot)
            sides[own].add(value, f"{endpoints[own].url}: answer {slot // 2}")
            say.now_and_then(f"{first.count + second.count:,} of {2 * total:,} answers are there")

        def early(slot: int, value: dict[str, Any]) -> None:
            sides[owner(slot)].add_early(slot // 2, value)

        done = [own.count for own in sides]
        todo = [
            slot for slot in range(2 * min(done), 2 * total) if slot // 2 >= done[owner(slot)]
        ]  # fmt: skip
        try:
            # The first of either finds out how to ask, alone.
            for each in (0, 1):
                head = next((slot for slot in todo if owner(slot) == each), None)
                if head is not None:
                    todo.remove(head)
                    taken(head, work(head))
            window = in_window(work, todo, width, say.waiting, early=early)
            with closing(window):
                for slot, value in window:
                    taken(slot, value)
        except Failure as failure:
            fates = "; ".join(own.fate for own in sides if own.fate)
            raise UsageError(f"{failure}{'; ' if fates else ''}{fates}") from None
        finally:
            for transport in transports:
                transport.leave()
    notes = tuple(_notes(servers, sides, keep))
    return AskedBoth(tuple(first.answers), tuple(second.answers), notes)


class KeptAnswers(Kept):
    """Answers so far, as far as a server says what they are, ``answers``."""

    def __init__(
        self,
        keep: Path | None,
        prompts: Sequence[Prompt],
        asked: dict[str, Any],
        say: Callable[[str], None],
        known: Sequence[Answer] | None = None,
    ) -> None:
        self.answers: list[Answer] = []
        super().__init__(keep, prompts, asked, say)
        if known is not None:
            self.answers, self.count = list(known), len(known)

    def _read(self, value: dict[str, Any], where: str) -> None:
        self.answers.append(answer_iv(value, where))


def _notes(
    servers: Sequence[Server], sides: Sequence[KeptAnswers], keep: Path | None
) -> Iterator[str]:
    unknown = [
        name for name, own in zip(("first", "second"), servers, strict=True) if not own.known
    ]
    if unknown:
        yield (
            f"the {' and the '.join(unknown)} does not say what it is: what was not asked for, "
            f"such as top-k, is as its own defaults have it, and a difference may come from there"
        )
    if keep is None:
        yield (
            "asked again they answer otherwise: --keep FILE keeps all answers, for a command that "
            "reproduces this run"
        )
