"""Answers of a server as they come, in the order of their requests, and a file that keeps them."""

import errno
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from simverify.emitted.reading.chat import Prompt, prompt_fields
from simverify.emitted.reading.requests import Request, read_objects, request_iv
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

_BEGINS = (b'{"prompt": ', b'{"messages": ')
"""How our lines begin."""


class Kept(ABC):
    """Answers so far, ``count`` of them, and those that came before their turn, ``ahead``.

    With ``keep`` each is a line of that file once it has come and all before it, with what was
    asked for beside it. A file that is there is gone on with: its lines are the first answers, and
    nothing but lines is added. A last line that was being written when a run was killed is
    dropped, which ``say`` is told. What comes before its turn is kept beside it, in a file that
    is gone when its turn has come.

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
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._keep = keep
        self._file: BinaryIO | None = None
        self.count = 0
        self.ahead: dict[int, dict[str, Any]] = {}
        if keep is None:
            return
        self._beside = keep.with_name(f"{keep.name}.ahead")
        if keep.exists():
            if not keep.is_file():
                raise UsageError(f"keep: {keep} is no file: name one, or a new one")
            whole, half = _lines(keep)
            for number, (where, value) in enumerate(read_objects(keep, "keep", whole)):
                _same_iv(value, where, prompts[number % len(prompts)], asked)
                self._take(value, where)
            if half:
                _drop(keep, whole)
                say(f"keep: the last line of {keep} was half written: dropped, and asked anew")
            self.ahead = _ahead(self._beside, self.count, prompts, asked)
        if not self.ahead:
            self._forget()  # of a file that is gone, or all in their turn by now
        try:
            self._file = keep.open("ab", buffering=0)
        except OSError as error:
            raise UsageError(f"keep: {keep} cannot be written: {error.strerror}") from None

    def __enter__(self) -> Self:
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
            if self.ahead.pop(self.count, None) is not None and not self.ahead:
                self._forget()
        self._take(value, where)

    def add_early(self, number: int, value: dict[str, Any]) -> None:
        """Keep an answer whose turn has not come."""
        if self._keep is None or number in self.ahead or number < self.count:
            return
        self.ahead[number] = value
        line = json.dumps({"number": number, "answer": value}).encode() + b"\n"
        try:
            with self._beside.open("ab", buffering=0) as file:
                self._write(file, line)
        except OSError as error:
            raise UsageError(
                f"keep: {self._beside} cannot be written: {error.strerror}; {self.fate}"
            ) from None

    @property
    def fate(self) -> str:
        """What became of the answers where no more will come."""
        n = self.count
        if self._keep is None:
            return f"{n:,} answers are lost: name --keep FILE to keep them" if n else ""
        return f"{n:,} answers are kept in {self._keep}: the same command goes on from there"

    @abstractmethod
    def _read(self, value: dict[str, Any], where: str) -> None:
        """Read an answer; ``UsageError`` for one that cannot be judged."""

    def _take(self, value: dict[str, Any], where: str) -> None:
        self._read(value, where)
        self.count += 1

    def _forget(self) -> None:
        with suppress(OSError):
            self._beside.unlink(missing_ok=True)

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


class Answers(Kept):
    """Answers so far as requests with their ids, ``requests``, of ``tokens`` tokens.

    A kept line is as :func:`read_requests` reads it. ``overlong``: answers that were cut at
    ``max_tokens``; ``unlike``: those whose ids do not spell their text.
    """

    def __init__(
        self,
        keep: Path | None,
        prompts: Sequence[Prompt],
        asked: dict[str, Any],
        pair: TransformerPair,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._pair = pair
        self.requests: list[Request] = []
        self.tokens = self.overlong = self.unlike = 0
        super().__init__(keep, prompts, asked, say)

    def _read(self, value: dict[str, Any], where: str) -> None:
        request = request_iv(value, where, self._pair)
        self.requests.append(request)
        self.tokens += len(request.tokens)
        self.overlong += "cut" in value
        self.unlike += "unlike" in value


def _ahead(
    path: Path, count: int, prompts: Sequence[Prompt], asked: dict[str, Any]
) -> dict[int, dict[str, Any]]:
    """Return the answers that came before their turn, as far as they answer these requests."""
    found: dict[int, dict[str, Any]] = {}
    try:
        content = path.read_bytes()
    except OSError:
        return found
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        _drop(path, whole)
    for line in content[:whole].split(b"\n")[:-1]:
        try:
            entry = json.loads(line)
            number, value = entry["number"], entry["answer"]
            _same_iv(value, "", prompts[number % len(prompts)], asked)
        except (ValueError, RecursionError, TypeError, KeyError, UsageError):
            continue  # asked anew
        if number >= count:
            found[number] = value
    return found


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
