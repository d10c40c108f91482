"""Completions from a server that speaks OpenAI's ``/v1/completions``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simverify.emitted.reading.chat import Prompt
from simverify.emitted.reading.requests import Request, request_iv
from simverify.emitted.serving.kept import Answers
from simverify.emitted.serving.pace import Pace
from simverify.emitted.serving.server import Endpoint, Server
from simverify.emitted.serving.transport import Failure, Transport, key_of_environment
from simverify.emitted.serving.window import in_window, together_iv
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

MOST_ANSWERS = 1 << 40


@dataclass(frozen=True)
class Asked:
    """What a server answered, in the order in which it was asked, and remarks on it.

    ``spent``: whether the budget ended before there was enough.
    """

    requests: tuple[Request, ...]
    notes: tuple[str, ...]
    spent: bool = False


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
    concurrency: int | None = None,
    budget: int | None = None,
    enough: Callable[[Sequence[Request]], bool] | None = None,
) -> Asked:
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
    width = together_iv(concurrency)
    if budget is not None and budget < endpoint.max_tokens:
        raise UsageError(
            f"max tokens total is {budget:,}: expected {endpoint.max_tokens:,} or more, the limit "
            f"of one completion"
        )
    say = Pace(progress or (lambda _: None))
    transport = Transport(key_of_environment(), say, endpoint.timeout)
    try:
        server = Server(endpoint, pair, transport)
    except Failure as failure:
        raise UsageError(str(failure)) from None
    with Answers(keep, prompts, server.asked, pair, say) as answers:
        if answers.requests:
            say(f"kept: {len(answers.requests):,} answers of {answers.tokens:,} tokens")
        waiting = _Waiting(answers, pair)
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

        last = MOST_ANSWERS if samples is None else samples * len(prompts)
        numbers = range(len(answers.requests), 0 if stopped else last)
        try:
            window = in_window(work, numbers, width, say.waiting, more=more, early=waiting.add)
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
        except Failure as failure:
            fate = f"; {answers.fate}" if answers.fate else ""
            raise UsageError(f"{failure}{fate}") from failure
        finally:
            transport.leave()
        spent = budget is not None and answers.tokens + endpoint.max_tokens > budget
    notes = tuple(_notes(server, answers, keep))
    return Asked(tuple(answers.requests), notes, spent and answers.tokens < tokens)


_UNSAMPLED = (
    "draws only where it is told to, whatever the temperature, and keeps 50 tokens then: ask with "
    """--extra-body '{"generation_config": "{\\"do_sample\\": true, \\"top_k\\": 0}"}'"""
)


class _Waiting:
    """Answers that came before their turn: kept, and their ``tokens`` counted.

    ``tried``: whether the first, which finds out how to ask, was answered.
    """

    def __init__(self, answers: Answers, pair: TransformerPair) -> None:
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
            return len(request_iv(value, "", self._pair).tokens)
        except UsageError:
            return 0  # an error in its turn


def _notes(server: Server, answers: Answers, keep: Path | None) -> Iterator[str]:
    if server.unsampled:
        yield f"this is transformers serve, which {_UNSAMPLED}"
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
