"""Answers collected from a server, in the order of their requests, and the log that keeps them."""

import errno
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair
from simverify.served.client import (
    ProgressThrottle,
    ServerFailure,
    Transport,
    api_key_from_environment,
    check_concurrency,
    run_in_order,
)
from simverify.served.requests import Prompt, Request, check_request, prompt_fields, read_objects
from simverify.served.server import Endpoint, Server

_LINE_STARTS = (b'{"prompt": ', b'{"messages": ')  # How our lines begin


class AnswerLog(ABC):
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
            whole, half = _scan_lines(keep)
            for number, (where, value) in enumerate(read_objects(keep, "keep", whole)):
                _check_same_request(value, where, prompts[number % len(prompts)], asked)
                self._take(value, where)
            if half:
                _truncate_file(keep, whole)
                say(f"keep: the last line of {keep} was half written: dropped, and asked anew")
            self.ahead = _read_early_answers(self._beside, self.count, prompts, asked)
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


class RequestLog(AnswerLog):
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
        request = check_request(value, where, self._pair)
        self.requests.append(request)
        self.tokens += len(request.tokens)
        self.overlong += "cut" in value
        self.unlike += "unlike" in value


def _read_early_answers(
    path: Path, count: int, prompts: Sequence[Prompt], asked: dict[str, Any]
) -> dict[int, dict[str, Any]]:
    """Return the answers that came before their turn, as far as they answer these requests."""
    answers: dict[int, dict[str, Any]] = {}
    try:
        content = path.read_bytes()
    except OSError:
        return answers
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        _truncate_file(path, whole)
    for line in content[:whole].split(b"\n")[:-1]:
        try:
            entry = json.loads(line)
            number, value = entry["number"], entry["answer"]
            _check_same_request(value, "", prompts[number % len(prompts)], asked)
        except (ValueError, RecursionError, TypeError, KeyError, UsageError):
            continue  # asked anew
        if number >= count:
            answers[number] = value
    return answers


def _scan_lines(keep: Path) -> tuple[int, bool]:
    """Bytes of a file's whole lines, and whether more of what is ours stands behind them."""
    try:
        content = keep.read_bytes()
    except OSError as error:
        raise UsageError(f"keep: cannot read {keep}: {error.strerror}") from None
    whole = content.rfind(b"\n") + 1
    rest = content[whole:]
    ours = any(rest.startswith(begins) or begins.startswith(rest) for begins in _LINE_STARTS)
    if rest and not ours:
        raise UsageError(
            f"keep: the last line of {keep} is not whole, and none that --keep began: delete it "
            f"to go on, or name another file"
        )
    return whole, bool(rest)


def _truncate_file(keep: Path, whole: int) -> None:
    try:
        with keep.open("r+b") as file:
            file.truncate(whole)
    except OSError as error:
        raise UsageError(f"keep: {keep} cannot be written: {error.strerror}") from None


def _check_same_request(value: Any, where: str, prompt: Prompt, asked: dict[str, Any]) -> None:
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


# Completions from a server that speaks OpenAI's ``/v1/completions``.


MAX_ANSWERS = 1 << 40


@dataclass(frozen=True)
class CollectedAnswers:
    """What a server answered, in the order in which it was asked, and remarks on it.

    ``spent``: whether the budget ended before there was enough.
    """

    requests: tuple[Request, ...]
    notes: tuple[str, ...]
    spent: bool = False


def collect_answers(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    pair: TransformerPair,
    tokens: int,
    samples: int | None = None,
    *,
    keep: Path | None = None,
    progress: Callable[[str], None] | None = None,
    text_alone: Callable[[Request], None] | None = None,
    concurrency: int | None = None,
    budget: int | None = None,
    enough: Callable[[Sequence[Request]], bool] | None = None,
) -> CollectedAnswers:
    """Ask for completions, the prompts in turn, until ``tokens`` are there.

    ``samples``: completions of each prompt at most. ``keep``: file that each answer is written
    to as soon as those before it are there, and that a later call goes on with. Token ids are
    taken where the server gives them, then the tokens of its logprobs, then the text, of which
    ``text_alone`` is told before any more is asked for. ``concurrency``: requests under way at a
    time; as one is answered the next is sent. ``budget``: tokens that the server may emit in all;
    a request is sent only if its longest answer fits. ``enough``, told all answers so far, says
    whether to stop asking. The key of SIMVERIFY_API_KEY or OPENAI_API_KEY is sent along. An
    interrupt waits for no request.

    Raises
    ------
    UsageError
        If the server does not answer, answers with an error, or with no such completion; if
        ``keep`` holds other than answers to these requests; if the budget is below one answer.
    """
    if samples is not None and samples < 1:
        raise UsageError(f"samples is {samples}: expected 1 or more")
    width = check_concurrency(concurrency)
    if budget is not None and budget < endpoint.max_tokens:
        raise UsageError(
            f"max tokens total is {budget:,}: expected {endpoint.max_tokens:,} or more, the limit "
            f"of one completion"
        )
    say = ProgressThrottle(progress or (lambda _: None))
    transport = Transport(api_key_from_environment(), say, endpoint.timeout)
    try:
        server = Server(endpoint, pair, transport)
    except ServerFailure as failure:
        raise UsageError(str(failure)) from None
    with RequestLog(keep, prompts, server.asked, pair, say) as answers:
        if answers.requests:
            say(f"kept: {len(answers.requests):,} answers of {answers.tokens:,} tokens")
        waiting = _PendingAnswers(answers, pair)
        stopped = enough is not None and answers.count > 0 and enough(answers.requests)

        def more(under_way: int) -> bool:
            known = answers.tokens + waiting.tokens
            # Those under way will do if they are as long as those before.
            each = known / max(answers.count + waiting.count, 1)
            return (
                known + under_way * each < tokens
                and (under_way == 0 or waiting.tried)
                and (budget is None or known + (under_way + 1) * endpoint.max_tokens <= budget)
            )

        def work(number: int) -> dict[str, Any]:
            early = answers.ahead.get(number)
            return (
                server.complete(number, prompts[number % len(prompts)]) if early is None else early
            )

        last = MAX_ANSWERS if samples is None else samples * len(prompts)
        numbers = range(len(answers.requests), 0 if stopped else last)
        try:
            window = run_in_order(work, numbers, width, say.waiting, more=more, early=waiting.add)
            with closing(window):
                for number, value in window:
                    waiting.drop(number)
                    answers.add(value, f"{endpoint.url}: answer {number}")
                    say.now_and_then(
                        f"{number + 1:,} answered: {answers.tokens:,} of {tokens:,} tokens"
                    )
                    last_one = answers.requests[-1]
                    if not waiting.tried and last_one.from_text and text_alone is not None:
                        text_alone(last_one)
                    waiting.tried = True
                    if enough is not None and enough(answers.requests):
                        break
        except ServerFailure as failure:
            fate = f"; {answers.fate}" if answers.fate else ""
            raise UsageError(f"{failure}{fate}") from failure
        finally:
            transport.leave()
        spent = budget is not None and answers.tokens + endpoint.max_tokens > budget
    notes = tuple(_answer_notes(server, answers, keep))
    return CollectedAnswers(tuple(answers.requests), notes, spent and answers.tokens < tokens)


_UNSAMPLED_NOTE = (
    "draws only where it is told to, whatever the temperature, and keeps 50 tokens then: ask with "
    """--extra-body '{"generation_config": "{\\"do_sample\\": true, \\"top_k\\": 0}"}'"""
)


class _PendingAnswers:
    """Answers that came before their turn: kept, and their ``tokens`` counted.

    ``tried``: whether the first, which finds out how to ask, was answered.
    """

    def __init__(self, answers: RequestLog, pair: TransformerPair) -> None:
        self._answers, self._pair, self._lengths = answers, pair, dict[int, int]()
        self.tried = False
        for number, value in answers.ahead.items():
            self._lengths[number] = self._length(value)

    @property
    def tokens(self) -> int:
        return sum(self._lengths.values())

    @property
    def count(self) -> int:
        return len(self._lengths)

    def add(self, number: int, value: dict[str, Any]) -> None:
        """Keep an answer that came early."""
        self._lengths[number] = self._length(value)
        self._answers.add_early(number, value)

    def drop(self, number: int) -> None:
        """Count an answer no more, as its turn has come."""
        self._lengths.pop(number, None)

    def _length(self, value: dict[str, Any]) -> int:
        try:
            return len(check_request(value, "", self._pair).tokens)
        except UsageError:
            return 0  # an error in its turn


def _answer_notes(server: Server, answers: RequestLog, keep: Path | None) -> Iterator[str]:
    if server.unsampled:
        yield f"this is transformers serve, which {_UNSAMPLED_NOTE}"
    elif not server.known:
        yield (
            "the server does not say what it is: what was not asked for, such as top-k, min-p or "
            "penalties, is as its own defaults or the model's generation_config have it, and a "
            "deviation may come from there"
        )
    if answers.unlike:
        yield (
            f"{answers.unlike:,} answers have token ids that do not spell the text beside "
            f"them: the text was taken; does the server have the tokenizer of --target?"
        )
    if answers.overlong:
        yield (
            f"{answers.overlong:,} answers are longer than the limit that was asked for, and were "
            f"cut there: the server may not heed the temperature and top-p of a request either"
        )
    if keep is None:
        yield (
            "asked again the server answers otherwise: --keep FILE keeps its answers, for a "
            "command that reproduces this run"
        )
