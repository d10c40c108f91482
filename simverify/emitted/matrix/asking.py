"""The server of a matrix, cell by cell: what it refuses, and what is left when it breaks off."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from simverify.emitted.matrix.cells import Cell
from simverify.emitted.reading.chat import Prompt
from simverify.emitted.reading.requests import Request
from simverify.emitted.serving.endpoint import ask
from simverify.emitted.serving.server import Endpoint
from simverify.emitted.serving.transport import Failure, Refused, Transport, key_of_environment
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

PATIENCE = 60.0
"""Seconds in which a server that broke off may come back, before the rest is left."""

_PAUSE = 2.0
_NOT_TAKEN = (400, 422, 501)
"""Statuses by which a server says that it does not take a parameter."""


@dataclass(frozen=True)
class Unanswered:
    """Why a cell has no answers, in the server's words: ``refused``, or it broke off."""

    words: str
    refused: bool


@dataclass
class Asker:
    """Asks an endpoint for the answers of each cell, ``keep`` a folder for them or None.

    A server that ends in a cell costs that cell alone, if it comes back. With ``keep`` a mark lies
    beside the cell's answers, by which a later run asks such cells last.
    """

    endpoint: Endpoint
    prompts: Sequence[Prompt]
    pair: TransformerPair
    keep: Path | None
    say: Callable[[str], None]
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._answered, self._broke, self._away = False, "", False

    def in_turn(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells as they are asked: last those in which the server broke off before."""
        return sorted(cells, key=self._broke_before)

    def answers(self, cell: Cell, tokens: int) -> tuple[Request, ...] | Unanswered:
        """Answers of a cell; why there are none."""
        pair = replace(self.pair, sampling=cell.law)
        body = {**self.endpoint.extra_body, **cell.body}
        endpoint = replace(self.endpoint, extra_body=body)
        samples = None
        if cell.law.min_tokens:
            # As many as it takes where it is honoured: without it answers may be of one token.
            samples = -(-tokens // (cell.law.min_tokens * len(self.prompts)))
        return self.ask(cell.name, endpoint, self.prompts, pair, tokens, samples)

    def ask(
        self, name: str, endpoint: Endpoint, prompts: Sequence[Prompt], pair: TransformerPair,
        tokens: int, samples: int | None,
    ) -> tuple[Request, ...] | Unanswered:  # fmt: skip
        """Answers to ``prompts``, which are kept under ``name``.

        Raises
        ------
        UsageError
            If the server fails before it answered any cell, wants another key, or gives what cannot
            be judged.
        """
        if self._away or (self._broke and not self._back()):
            self._away = True
            return Unanswered(f"not asked: the server was gone since the cell {self._broke}", False)
        file, mark = self._file(name), self._mark(name)
        try:
            found = ask(endpoint, prompts, pair, tokens, samples, keep=file, progress=self.say)
        except UsageError as error:
            why = error.__cause__
            if isinstance(why, Refused) and why.code in _NOT_TAKEN:
                self._answered = True
                return Unanswered(str(error), True)
            lost = isinstance(why, Failure) and not (
                isinstance(why, Refused) and why.code in (401, 403)
            )
            if lost and mark is not None:
                mark.write_text(f"{error}\n")
            if not lost or not self._answered:
                raise
            self._broke = name
            self.say(f"{error}; the cell {name} is left, and the next is asked")
            return Unanswered(f"no answer: {error}", False)
        self._answered, self._broke = True, ""
        if mark is not None:
            mark.unlink(missing_ok=True)
        self.notes.update(dict.fromkeys(found.notes))
        return found.requests

    def _back(self) -> bool:
        """Wait for a server that broke off, for a while; whether it is there."""
        end, told = time.monotonic() + PATIENCE, False
        while True:
            transport = Transport(key_of_environment(), lambda _: None, self.endpoint.timeout)
            try:
                transport.call(self.endpoint.at("models"), None)
            except Failure:
                if transport.reached:
                    return True  # it answers, if with an error
            else:
                return True
            if time.monotonic() >= end:
                return False
            if not told:
                self.say(f"the server is gone since the cell {self._broke}: waiting for it")
                told = True
            time.sleep(_PAUSE)

    def _broke_before(self, cell: Cell) -> bool:
        mark = self._mark(cell.name)
        return mark is not None and mark.exists()

    def _file(self, name: str) -> Path | None:
        return None if self.keep is None else self.keep / f"{name.replace(' ', '-')}.jsonl"

    def _mark(self, name: str) -> Path | None:
        return None if self.keep is None else self.keep / f"{name.replace(' ', '-')}.broke"
