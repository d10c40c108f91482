"""A server's raw answers, as they came: JSON with choices, and what was asked beside it or not."""

from collections.abc import Iterator
from typing import Any

from simverify.emitted.reading.chat import FIELDS
from simverify.emitted.reading.ids import ids_of, spells, stated_ids
from simverify.emitted.reading.logprobs import stated_logprobs, unread_logprobs
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

_ENDS = ("finish_reason", "stop_reason", "matched_stop")
_PROMPT = ("prompt", *FIELDS)


def expanded(value: Any, where: str, pair: TransformerPair | None) -> Iterator[tuple[str, Any]]:
    """Yield a line as one object for each request that it answers; others as they are.

    A raw answer has ``choices``, at the top or under ``response`` (and its ``body``); ``request``
    beside it is what was asked. A prompt that is not there is taken from ``prompt_token_ids``.
    ``pair`` None: nothing is scored, and choices are as :func:`unread_fields` has them.

    Raises
    ------
    UsageError
        If it is a part of a stream, answers with an error, or nothing says what was asked.
    """
    answer = _answer(value)
    if answer is None:
        yield where, value
        return
    if str(answer.get("object", "")).endswith(".chunk"):
        raise UsageError(f"{where} is a piece of a stream: expected whole answers")
    choices = answer.get("choices")
    whole = isinstance(choices, list) and all(isinstance(one, dict) for one in choices)
    if not whole or not choices:
        raise UsageError(f"{where} is an answer without choices: expected those of a completion")
    request = value.get("request")
    request = request if isinstance(request, dict) else {}
    if request.get("echo"):
        raise UsageError(f"{where} was asked with echo: its text holds the prompt, too")
    asked = {name: own for name, own in request.items() if name not in _PROMPT}
    outer = {name: own for name, own in value.items() if name not in _OUTER}
    for place, choice in enumerate(choices):
        at = where if len(choices) == 1 else f"{where}, choice {place}"
        shown = {name: own for name, own in (request | outer).items() if name in _PROMPT}
        prompts = shown.get("prompt")
        if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int):
            each = max(len(choices) // len(prompts), 1)
            shown["prompt"] = prompts[min(place // each, len(prompts) - 1)]
        single = len(choices) == 1 or not isinstance(prompts, list)
        found = outer | shown
        found |= (
            unread_fields(answer, choice) if pair is None
            else answer_fields(answer, choice, pair, alone=single)
        )  # fmt: skip
        if not shown and "prompt_token_ids" not in found:
            raise UsageError(
                f"{at} is an answer, and nothing says to what: put the request beside it, as "
                f'{{"request": ..., "response": ...}}, or ask for return_token_ids'
            )
        yield at, found | ({"asked": asked} if asked else {})


def answer_fields(
    answer: dict[str, Any], choice: dict[str, Any], pair: TransformerPair, *, alone: bool = True
) -> dict[str, Any]:
    """Return what a choice says, as a line of a file of outputs does.

    ``tokens`` or ``text``, ``unlike`` for ids that do not spell the text beside them, how it
    ended, ``logprobs``; of the prompt its ids, or their number where a request is ``alone``.
    """
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    text = choice.get("text", message.get("content"))
    ids = ids_of(choice, answer, pair)
    found = {name: choice[name] for name in _ENDS if choice.get(name) is not None}
    calls = any(message.get(name) for name in ("tool_calls", "reasoning_content", "reasoning"))
    if isinstance(ids, list) and (calls or not isinstance(text, str) or spells(ids, text, pair)):
        found["tokens"] = ids
        stated = stated_logprobs(choice)
        if stated is not None and len(stated) == len(ids):
            found["logprobs"] = stated
        elif unread_logprobs(choice, len(ids)) is not None:
            found["logprobs"] = choice["logprobs"]
    elif ids is not None and isinstance(text, str):
        found |= {"text": text, "unlike": ids}
    elif ids is not None:
        found["tokens"] = ids
    elif calls:
        found["parsed"] = True
    else:
        found["text"] = text
    prompt = choice.get("prompt_token_ids", answer.get("prompt_token_ids"))
    usage = answer.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if isinstance(prompt, list):
        found["prompt_token_ids"] = prompt
    elif alone and type(count) is int:
        found["prompt_tokens"] = count
    return found


def unread_fields(answer: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    """Return ids, texts of tokens, text, as far as a choice has them, and how it ended."""
    ids, pieces = stated_ids(choice, answer)
    found = {name: choice[name] for name in _ENDS if choice.get(name) is not None}
    if isinstance(ids, list):
        found["tokens"] = ids
    if pieces is not None:
        found["pieces"] = pieces
    message = choice.get("message")
    text = choice.get("text", message.get("content") if isinstance(message, dict) else None)
    if isinstance(text, str):
        found["text"] = text
    return found


_OUTER = ("request", "response", "choices", "usage", "object", "id", "created", "model",
          "prompt_token_ids", "prompt_logprobs")  # fmt: skip


def _answer(value: Any) -> dict[str, Any] | None:
    """The answer in a line, wherever it stands; None where the line is none."""
    if not isinstance(value, dict):
        return None
    inner = value.get("response")
    if isinstance(inner, dict):
        body = inner.get("body")
        return body if isinstance(body, dict) else inner
    return value if "choices" in value else None
