"""Completions from a server that speaks OpenAI's ``/v1/completions``."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TypeVar

from simverify.emitted.reading.chat import Prompt
from simverify.emitted.reading.requests import Request
from simverify.emitted.serving.kept import Answers
from simverify.emitted.serving.pace import EVERY, Pace
from simverify.emitted.serving.server import Endpoint, Server
from simverify.emitted.serving.transport import Failure, Transport, key_of_environment
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

TOGETHER = 8
"""Requests under way at a time: requests that share a stream must meet to show it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What a server answered, in the order in which it was asked, and remarks on it."""

    requests: tuple[Request, ...]
    notes: tuple[str, ...]


def ask(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    pair: TransformerPair,
    tokens: int,
    samples: int | None = None,
    *,
    keep: Path | None = None,
    progress: Callable[[str], None] | None = None,
    text_alone: Callable[[Request], None] | None = None,
) -> Asked:
    """Ask for completions, the prompts in turn, until ``tokens`` are there.

    ``samples``: completions of each prompt at most. ``keep``: file that each answer is written
    to as soon as those before it are there, and that a later call goes on with. Token ids are
    taken where the server gives them, then the tokens of its logprobs, then the text, of which
    ``text_alone`` is told before any more is asked for. The key of SIMVERIFY_API_KEY or
    OPENAI_API_KEY is sent along. An interrupt waits for no request.

    Raises
    ------
    UsageError
        If the server does not answer, answers with an error, or with no such completion; if
        ``keep`` holds other than answers to these requests.
    """
    if samples is not None and samples < 1:
        raise UsageError(f"samples is {samples}: expected 1 or more")
    most = None if samples is None else samples * len(prompts)
    say = Pace(progress or (lambda _: None))
    transport = Transport(key_of_environment(), say)
    try:
        server = Server(endpoint, pair, transport)
    except Failure as failure:
        raise UsageError(str(failure)) from None
    with Answers(keep, prompts, server.asked, pair, say) as answers:
        if answers.requests:
            say(f"kept: {len(answers.requests):,} answers of {answers.tokens:,} tokens")
        try:
            together = 1  # the first finds out how to ask
            while answers.tokens < tokens and (
                batch := _next(len(answers.requests), most, together)
            ):
                found = _side_by_side(
                    lambda i: server.complete(i, prompts[i % len(prompts)]), batch, say.waiting
                )
                for number, value in zip(batch, found, strict=True):
                    answers.add(value, f"{endpoint.url}: answer {number}")
                    say.now_and_then(
                        f"{number + 1:,} answered: {answers.tokens:,} of {tokens:,} tokens"
                    )
                if together == 1 and answers.requests[-1].from_text and text_alone is not None:
                    text_alone(answers.requests[-1])
                together = TOGETHER
        except Failure as failure:
            fate = f"; {answers.fate}" if answers.fate else ""
            raise UsageError(f"{failure}{fate}") from failure
        finally:
            transport.leave()
    return Asked(tuple(answers.requests), tuple(_notes(server.known, answers, keep)))


def _next(first: int, most: int | None, together: int) -> range:
    last = first + together
    return range(first, last if most is None else min(last, most))


def _side_by_side(
    work: Callable[[int], T],
    numbers: Sequence[int],
    waiting: Callable[[], None] = lambda: None,
) -> Iterator[T]:
    """Do ``work`` on all numbers at once; yield what it comes to, in their order.

    The threads are nobody's to wait for: whoever stops listening, or is interrupted, leaves at
    once, however long a server takes. ``waiting`` is called every so often where it does.
    """
    futures: list[Future[T]] = [Future() for _ in numbers]

    def do(number: int, future: Future[T]) -> None:
        try:
            future.set_result(work(number))
        except BaseException as error:
            future.set_exception(error)

    for given in zip(numbers, futures, strict=True):
        Thread(target=do, args=given, daemon=True).start()
    for future in futures:
        while not wait([future], EVERY).done:
            waiting()
        yield future.result()


def _notes(known: bool, answers: Answers, keep: Path | None) -> Iterator[str]:
    if not known:
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
