"""Answers collected from a server, in the order of their requests, and the log that keeps them."""

import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Generic, Self, TypeVar

from simverify.errors import UsageError
from simverify.models.transformer import Sampling, TransformerPair
from simverify.served.client import (
    ProgressThrottle,
    ServerFailure,
    Transport,
    api_key_from_environment,
    check_concurrency,
    run_in_order,
)
from simverify.served.requests import (
    Prompt,
    Request,
    check_request,
    file_errors,
    prompt_fields,
    read_objects,
)
from simverify.served.server import Endpoint, Server

T = TypeVar("T")

_LINE_STARTS = (b'{"prompt": ', b'{"messages": ')  # how lines of a kept file begin


class AnswerClient(Generic[T]):
    """A server and its ``answers`` so far, each as ``read`` returns it; use it in a ``with``.

    With ``keep`` an answer becomes a line of that file once all before it are there, with the
    request beside it. An existing file is continued: its lines are the first answers. A last line
    that was half written when a run was killed is dropped, and ``say`` reports it. ``ahead``:
    answers that came before their turn; they are kept in a second file until then. ``marks``: how
    many answers have a field, by its name. ``UsageError`` if the server does not answer, the file
    cannot be read or written, or it holds anything but answers to these ``prompts`` in turn.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        pair: TransformerPair | Sampling,
        prompts: Sequence[Prompt],
        keep: Path | None,
        read: Callable[[dict[str, Any], str], T],
        say: Callable[[str], None],
    ) -> None:
        self._url, self._prompts, self._keep, self._read = endpoint.url, prompts, keep, read
        self._say = say
        self._file: BinaryIO | None = None
        self.answers: list[T] = []
        self.marks = Counter[str]()
        self.ahead: dict[int, dict[str, Any]] = {}
        self.transport = Transport(api_key_from_environment(), say, endpoint.timeout)
        try:
            self.server = Server(endpoint, pair, self.transport)
        except ServerFailure as failure:
            raise UsageError(str(failure)) from None

    def __enter__(self) -> Self:
        keep, prompts = self._keep, self._prompts
        if keep is None:
            return self
        self._beside = keep.with_name(f"{keep.name}.ahead")
        if keep.exists():
            if not keep.is_file():
                raise UsageError(f"keep: {keep} is no file: name one, or a new one")
            whole, half = _scan_lines(keep)
            for number, (where, value) in enumerate(read_objects(keep, "keep", whole)):
                self._check_same_request(value, where, prompts[number % len(prompts)])
                self._take(value, where)
            if half:
                _truncate_file(keep, whole)
                self._say(f"keep: the last line of {keep} was half written: dropped, asked again")
            self._read_early_answers()
        if not self.ahead:
            self._forget()  # left by a file that is gone, or by answers whose turn has come
        with file_errors(f"keep: {keep} cannot be written"):
            self._file = keep.open("ab", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def ask(self, number: int) -> dict[str, Any]:
        """Return the answer of this number: one that came early, or a new one."""
        value = self.ahead.get(number)
        prompt = self._prompts[number % len(self._prompts)]
        return self.server.complete(number, prompt) if value is None else value

    def add(self, value: dict[str, Any]) -> None:
        """Keep the next answer, then read it.

        One that cannot be judged is kept too: if it were asked for again, what was drawn would
        choose what is judged.
        """
        number = len(self.answers)
        if self._file is not None:
            self._write(self._file, json.dumps(value).encode() + b"\n")
            if self.ahead.pop(number, None) is not None and not self.ahead:
                self._forget()
        self._take(value, f"{self._url}: answer {number}")

    def add_early(self, number: int, value: dict[str, Any]) -> None:
        """Keep an answer whose turn has not come."""
        if self._keep is None or number in self.ahead or number < len(self.answers):
            return
        self.ahead[number] = value
        line = json.dumps({"number": number, "answer": value}).encode() + b"\n"
        words = f"keep: {self._beside} cannot be written"
        with file_errors(words, f"; {self.fate}"), self._beside.open("ab", buffering=0) as file:
            self._write(file, line)

    @property
    def fate(self) -> str:
        """Say what became of the answers if no more come."""
        n = len(self.answers)
        if self._keep is None:
            return f"{n:,} answers are lost: name --keep FILE to keep them" if n else ""
        return f"{n:,} answers are kept in {self._keep}: the same command goes on from there"

    def _take(self, value: dict[str, Any], where: str) -> None:
        self.answers.append(self._read(value, where))
        self.marks.update(value.keys())

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

    def _read_early_answers(self) -> None:
        try:
            content = self._beside.read_bytes()
        except OSError:
            return
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            _truncate_file(self._beside, whole)
        for line in content[:whole].split(b"\n")[:-1]:
            try:
                entry = json.loads(line)
                number, value = entry["number"], entry["answer"]
                self._check_same_request(value, "", self._prompts[number % len(self._prompts)])
            except (ValueError, RecursionError, TypeError, KeyError, UsageError):
                continue  # it is asked again
            if number >= len(self.answers):
                self.ahead[number] = value

    def _check_same_request(self, value: Any, where: str, prompt: Prompt) -> None:
        asked = self.server.asked
        given = value.get("asked") if isinstance(value, dict) else None
        if not isinstance(given, dict):
            raise UsageError(f"{where} does not say what was asked: name a file that --keep made")
        if any(value.get(name) != field for name, field in prompt_fields(prompt).items()):
            raise UsageError(f"{where} answers another prompt: name another file, or those prompts")
        for name in sorted(given.keys() | asked.keys()):
            if given.get(name) != asked.get(name):
                raise UsageError(
                    f"{where} was asked with {name} {json.dumps(given.get(name))[:40]}, now it is "
                    f"{json.dumps(asked.get(name))[:40]}: name another file, or ask as before"
                )


@contextmanager
def report_failures(*clients: AnswerClient[Any]) -> Iterator[None]:
    """Turn a failure of a server into a ``UsageError`` that says where its answers are."""
    try:
        yield
    except ServerFailure as failure:
        fates = [client.fate for client in clients if client.fate]
        raise UsageError("; ".join([str(failure), *fates])) from failure
    finally:
        for client in clients:
            client.transport.leave()


def _scan_lines(keep: Path) -> tuple[int, bool]:
    """Return the bytes of a file's whole lines, and whether a part of one of ours follows."""
    with file_errors(f"keep: cannot read {keep}"):
        content = keep.read_bytes()
    whole = content.rfind(b"\n") + 1
    rest = content[whole:]
    if rest and not any(rest.startswith(start) or start.startswith(rest) for start in _LINE_STARTS):
        raise UsageError(
            f"keep: the last line of {keep} is not whole, and --keep did not write it: delete it "
            f"to continue the file, or name another file"
        )
    return whole, bool(rest)


def _truncate_file(keep: Path, whole: int) -> None:
    with file_errors(f"keep: {keep} cannot be written"):
        os.truncate(keep, whole)


# Completions from a server that speaks OpenAI's ``/v1/completions``.


MAX_ANSWERS = 1 << 40


@dataclass(frozen=True)
class CollectedAnswers:
    """A server's answers in order, and remarks; ``spent``: the budget ended too early."""

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
    """Ask for completions of the prompts in turn, until there are ``tokens``.

    ``samples``: completions of each prompt at most. ``keep``: file of the answers, which a later
    call continues. Token ids are taken if the server gives them, then the tokens of its logprobs,
    then the text; ``text_alone`` is called before any more is asked for if the first answer has
    only text. ``concurrency``: requests in flight; as one is answered the next is sent. ``budget``:
    tokens that the server may emit in all; a request is sent if its longest answer fits.
    ``enough``: called with all answers so far, says whether to stop. The key of SIMVERIFY_API_KEY
    or OPENAI_API_KEY is sent along. An interrupt waits for no request.

    ``UsageError`` if the server does not answer, answers with an error or no completion; if
    ``keep`` holds other answers; if the budget is below one answer.
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

    read = partial(check_request, pair=pair)

    def length(value: dict[str, Any]) -> int:
        try:
            return len(read(value, "").tokens)
        except UsageError:
            return 0  # reported in its turn

    client = AnswerClient(endpoint, pair, prompts, keep, read, say)
    with client:
        requests, total = client.answers, sum(len(r.tokens) for r in client.answers)
        if requests:
            say(f"kept: {len(requests):,} answers of {total:,} tokens")
        pending = {number: length(value) for number, value in client.ahead.items()}
        # The first answer finds out how to ask.
        tried, done = False, enough is not None and bool(requests) and enough(requests)

        def more(under_way: int) -> bool:
            known = total + sum(pending.values())
            # Those under way will do if they are as long as those before.
            each = known / max(len(requests) + len(pending), 1)
            return (
                known + under_way * each < tokens
                and (under_way == 0 or tried)
                and (budget is None or known + (under_way + 1) * endpoint.max_tokens <= budget)
            )

        def early(number: int, value: dict[str, Any]) -> None:
            pending[number] = length(value)
            client.add_early(number, value)

        last = MAX_ANSWERS if samples is None else samples * len(prompts)
        numbers = range(len(requests), 0 if done else last)
        window = run_in_order(client.ask, numbers, width, say.waiting, more=more, early=early)
        with report_failures(client), closing(window):
            for number, value in window:
                pending.pop(number, None)
                client.add(value)
                total += len(requests[-1].tokens)
                say.now_and_then(f"{number + 1:,} answered: {total:,} of {tokens:,} tokens")
                if not tried and requests[-1].from_text and text_alone is not None:
                    text_alone(requests[-1])
                tried = True
                if enough is not None and enough(requests):
                    break
    spent = budget is not None and total + endpoint.max_tokens > budget and total < tokens
    return CollectedAnswers(tuple(requests), tuple(_answer_notes(client, keep)), spent)


def _answer_notes(client: AnswerClient[Request], keep: Path | None) -> Iterator[str]:
    if client.server.unsampled:
        yield (
            "this is transformers serve, which draws only if its own field says so, whatever the "
            "temperature, and then keeps 50 tokens: ask with --extra-body "
            """'{"generation_config": "{\\"do_sample\\": true, \\"top_k\\": 0}"}'"""
        )
    elif not client.server.known:
        yield (
            "the server does not say what it is: parameters that were not asked for, such as "
            "top-k, min-p or penalties, are its own defaults or those of the model's "
            "generation_config, which may cause a deviation"
        )
    if unlike := client.marks["unlike"]:
        yield (
            f"{unlike:,} answers have token ids that do not spell the text beside them: the text "
            f"was taken; does the server have the tokenizer of --target?"
        )
    if overlong := client.marks["cut"]:
        yield (
            f"{overlong:,} answers are longer than the limit that was asked for, and were cut "
            f"there: the server may not heed the temperature and top-p of a request either"
        )
    if keep is None:
        yield (
            "the server will answer otherwise next time: --keep FILE keeps its answers, for a "
            "command that reproduces this run"
        )
