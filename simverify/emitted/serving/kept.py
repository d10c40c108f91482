"""Answers of a server as they come, in the order of their requests, and a file that keeps them."""

import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from simverify.emitted.reading.chat import Prompt, prompt_fields
from simverify.emitted.reading.requests import Request, read_objects, request_iv
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

_BEGINS = (b'{"prompt": ', b'{"messages": ')
"""How our lines begin."""


class Answers:
    """Answers so far, ``requests``, and how many tokens they have, ``tokens``.

    With ``keep`` each is a line of that file once it has come and all before it, as
    :func:`read_requests` reads it, with what was asked for beside it. A file that is there is
    gone on with: its lines are the first answers, and nothing but lines is added. A last line
    that was being written when a run was killed is dropped, which ``say`` is told.
    ``overlong``: answers that were cut at ``max_tokens``; ``unlike``: those whose ids do not
    spell their text.

    Raises
    ------
    UsageError
        If the file cannot be read or written, holds anything else, or answers to other
        requests than ``prompts`` in turn, asked as ``asked``.
    """

    def __init__(
        self,
        keep: Path | None,
        prompts: Sequence[Prompt],
        asked: dict[str, Any],
        pair: TransformerPair,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._keep, self._pair = keep, pair
        self._file: BinaryIO | None = None
        self.requests: list[Request] = []
        self.tokens = self.overlong = self.unlike = 0
        if keep is None:
            return
        if keep.exists():
            if not keep.is_file():
                raise UsageError(f"keep: {keep} is no file: name one, or a new one")
            whole, half = _lines(keep)
            for number, (where, value) in enumerate(read_objects(keep, "keep", whole)):
                _same_iv(value, where, prompts[number % len(prompts)], asked)
                self._count(value, where)
            if half:
                _drop(keep, whole)
                say(f"keep: the last line of {keep} was half written: dropped, and asked anew")
        try:
            self._file = keep.open("ab", buffering=0)
        except OSError as error:
            raise UsageError(f"keep: {keep} cannot be written: {error.strerror}") from None

    def __enter__(self) -> "Answers":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, value: dict[str, Any], where: str) -> None:
        """Keep the next answer, then read it.

        One that cannot be judged is kept too: were it asked for again, what was drawn would
        choose what is judged.
        """
        if self._file is not None:
            self._write(self._file, json.dumps(value).encode() + b"\n")
        self._count(value, where)

    @property
    def fate(self) -> str:
        """What became of the answers where no more will come."""
        n = len(self.requests)
        if self._keep is None:
            return f"{n:,} answers are lost: name --keep FILE to keep them" if n else ""
        return f"{n:,} answers are kept in {self._keep}: the same command goes on from there"

    def _count(self, value: dict[str, Any], where: str) -> None:
        request = request_iv(value, where, self._pair)
        self.requests.append(request)
        self.tokens += len(request.tokens)
        self.overlong += "cut" in value
        self.unlike += "unlike" in value

    def _write(self, file: BinaryIO, line: bytes) -> None:
        end = file.seek(0, os.SEEK_END)
        try:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            file.truncate(end)
            raise UsageError(
                f"keep: {self._keep} cannot be written: {error.strerror}; {self.fate}"
            ) from None


def _lines(keep: Path) -> tuple[int, bool]:
    """Bytes of a file's whole lines, and whether more of what is ours stands behind them."""
    try:
        content = keep.read_bytes()
    except OSError as error:
        raise UsageError(f"keep: cannot read {keep}: {error.strerror}") from None
    whole = content.rfind(b"\n") + 1
    rest = content[whole:]
    ours = any(rest.startswith(begins) or begins.startswith(rest) for begins in _BEGINS)
    if rest and not ours:
        raise UsageError(
            f"keep: the last line of {keep} is not whole, and none that --keep began: delete it "
            f"to go on, or name another file"
        )
    return whole, bool(rest)


def _drop(keep: Path, whole: int) -> None:
    try:
        with keep.open("r+b") as file:
            file.truncate(whole)
    except OSError as error:
        raise UsageError(f"keep: {keep} cannot be written: {error.strerror}") from None


def _same_iv(value: Any, where: str, prompt: Prompt, asked: dict[str, Any]) -> None:
    given = value.get("asked") if isinstance(value, dict) else None
    if not isinstance(given, dict):
        raise UsageError(f"{where} does not say what was asked: name a file that --keep made")
    if any(value.get(name) != own for name, own in prompt_fields(prompt).items()):
        raise UsageError(f"{where} answers another prompt: name another file, or those prompts")
    for name in sorted(given.keys() | asked.keys()):
        if given.get(name) != asked.get(name):
            raise UsageError(
                f"{where} was asked with {name} {json.dumps(given.get(name))[:40]}, now it is "
                f"{json.dumps(asked.get(name))[:40]}: name another file, or ask as before"
            )
