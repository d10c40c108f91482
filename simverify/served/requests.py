"""Requests that another engine answered: JSONL lines, a server's answers, texts, conversations."""

import json
import math
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.checks import MIN_ALPHA, MIN_DETECT, check_ranges
from simverify.errors import UsageError
from simverify.models.distribution import (
    NEUTRAL_VALUES,
    Law,
    as_law,
    flat_request,
    law_fields,
    request_parameters,
    request_seed,
)
from simverify.models.transformer import TransformerPair, check_prompt, check_unicode, read_prompts
from simverify.served.answer_faults import AnswerFault, AskedEnd, find_faults


def check_settings(settings: Any, **limits: tuple[Any, ...]) -> None:
    """Check rates, seed and numbers of ``settings``; a limit: least, largest, more words."""
    least = {"alpha": MIN_ALPHA, "detect": MIN_DETECT, "ball": 0.0}
    rules = []
    for name, value in vars(settings).items():
        if value is None and getattr(type(settings), name, name) is None:
            continue
        if name in least:
            fits = least[name] <= value < 1
            rules.append((name, value, fits, f"{least[name]:g} or more, below 1"))
        elif name in limits:
            low, high, *words = limits[name]
            rules.append(
                (
                    name,
                    value,
                    low <= value <= high,
                    "".join(
                        [f"{low} to {high:,}" if high >= 1_000_000 else f"{low} to {high}", *words]
                    ),
                )
            )
        elif name == "seed":
            rules.append((name, value, 0 <= value < 2**64, "0 to 2^64 - 1"))
    check_ranges(rules)


@contextmanager
def file_errors(words: str, more: str = "") -> Iterator[None]:
    """Turn an ``OSError`` into a ``UsageError``: ``words``, the system's reason, ``more``."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{words}: {error.strerror}{more}") from None


# The parameters that a line declares.


def declared_law(value: Mapping[str, Any], where: str, pair: TransformerPair) -> Law | None:
    """Return the law that a line declares, None where it declares none.

    ``asked`` holds all parameters of a request: what it does not name was not asked for. Fields of
    the line itself change the law of ``pair``. No line names a mask or an order. Raises
    ``UsageError`` for what is no number or out of range.
    """
    request, declared = value.get("asked"), as_law(pair.sampling)
    whole = isinstance(request, dict)
    masked = declared.mask is not None
    parameters: dict[str, Any] = {}
    for named in (request, value):
        if isinstance(named, Mapping):
            parameters |= request_parameters(named, where, masked=masked)
    if not parameters:
        return None
    base = Law(mask=declared.mask, order=declared.order) if whole else declared
    fields = law_fields(parameters, where, pair)
    try:
        return replace(base, **fields)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def contradictions(laws: Sequence[Law | None], given: Mapping[str, Any]) -> Iterator[str]:
    """Say which of the ``given`` parameters, by their names here, the lines contradict."""
    for name, value in given.items():
        if value is None:
            continue
        expected = None if NEUTRAL_VALUES.get(name) == value else value
        other = Counter(
            getattr(law, name) for law in laws if law is not None and getattr(law, name) != expected
        )
        for actual, count in other.items():
            yield (
                f"--{name.replace('_', '-')} {_value_text(value)} contradicts the file: {count:,} "
                f"requests were asked with {_value_text(actual)}, and are judged by that"
            )


def _value_text(value: Any) -> str:
    if value in (None, (), 0):
        return "none"
    return f"{value:g}" if isinstance(value, (int, float)) else f"{len(value)} entries"


# Conversations: messages and tools, and the prompt that a chat template makes of them.


CHAT_FIELDS = ("messages", "tools", "chat_template_kwargs")
"""The fields of a request that a chat template is given."""


@dataclass(frozen=True)
class Chat:
    """A conversation that waits for its next turn, as the JSON of its fields."""

    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """``messages``, and ``tools`` and more if it has any, as in a request."""
        fields: dict[str, Any] = json.loads(self.text)
        return fields


Prompt = str | Chat


def prompt_fields(prompt: Prompt) -> dict[str, Any]:
    """Return the fields of a prompt, as in a line of a file or the body of a request."""
    return {"prompt": prompt} if isinstance(prompt, str) else prompt.fields


def prompt_ids(prompt: Prompt, pair: TransformerPair) -> tuple[int, ...]:
    """Return the ids that the target's tokenizer, and its chat template, make of a prompt."""
    if isinstance(prompt, Chat):
        return chat_ids(prompt, pair, "prompts")
    return tuple(pair.encode(prompt))


def read_prompts_and_chats(path: Path) -> tuple[Prompt, ...]:
    """Return the prompts of a file as :func:`read_prompts` does, conversations among them.

    A line of a ``.jsonl`` file with ``messages`` is a conversation: a list of objects with ``role``
    and ``content`` or ``tool_calls``, of which the last is not the assistant's. ``tools`` may stand
    beside it. ``UsageError`` for a file without prompts, and for wrong messages.
    """
    if path.suffix != ".jsonl":
        return read_prompts(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        return read_prompts(path)  # which says what is wrong
    prompts: list[Prompt] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and "messages" in value:
            prompts.append(check_chat(value, f"prompts: {where}"))
        elif text := check_prompt(where, line):
            prompts.append(text)
    return tuple(prompts) or read_prompts(path)


def check_chat(value: dict[str, Any], where: str) -> Chat:
    """Return the conversation of an object; ``UsageError`` if its messages are none."""
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{where}: messages is no list: expected one message or more")
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise UsageError(f"{where}: messages[{i}] has no role: expected user, or another")
        if not any(message.get(name) is not None for name in ("content", "tool_calls")):
            raise UsageError(f"{where}: messages[{i}] has neither content nor tool_calls")
    if messages[-1]["role"] == "assistant":
        raise UsageError(f"{where}: the last message is the assistant's: expected one to answer")
    if value.get("tools") is not None and not isinstance(value["tools"], list):
        raise UsageError(f"{where}: tools is {type(value['tools']).__name__}: expected a list")
    fields = {name: value[name] for name in CHAT_FIELDS if value.get(name)}
    text = json.dumps(fields, ensure_ascii=False)
    return Chat(check_unicode(text, where))


def chat_ids(chat: Chat, pair: TransformerPair, where: str) -> tuple[int, ...]:
    """Return the ids that the target's chat template makes; ``UsageError`` if it makes none."""
    fields = chat.fields
    tokenizer = pair.tokenizer
    if getattr(tokenizer, "chat_template", None) is None:
        raise UsageError(
            f"{where} has messages, and the tokenizer of {pair.target_name} has no chat template: "
            f"give prompt, the text or the ids that the server made of them"
        )
    more = fields.get("chat_template_kwargs") or {}
    messages = [_parse_tool_arguments(message) for message in fields["messages"]]
    try:
        text = tokenizer.apply_chat_template(
            messages, tools=fields.get("tools"), add_generation_prompt=True, tokenize=False, **more
        )
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UsageError(
            f"{where}: the chat template of {pair.target_name} refuses its messages: {words}"
        ) from None
    return tuple(tokenizer(text, add_special_tokens=False).input_ids)


def _parse_tool_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose tool calls have their arguments as objects, as templates want."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return message | {"tool_calls": [*map(_parse_call, calls)]}


def _parse_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call
    return call | {"function": function | {"arguments": arguments}}


# Token ids in a server's answer: where servers put them, and whether they match the text.


TEXT_ONLY, TOKEN_TEXTS, TOKEN_IDS = range(3)
"""What an answer holds: its text alone, the text of each token, or the id of each."""

_TOKEN_ID_PREFIX = "token_id:"


def token_id_support(answer: Any) -> int:
    """Return how much the first choice of an answer says of its tokens."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return TEXT_ONLY
    ids, pieces = raw_token_ids(choice, answer)
    return TOKEN_IDS if ids is not None else TEXT_ONLY if pieces is None else TOKEN_TEXTS


def raw_token_ids(choice: dict[str, Any], answer: dict[str, Any]) -> tuple[Any, list[str] | None]:
    """Return a choice's token ids as they stand there, or else the texts of its tokens."""
    if choice.get("token_ids") is not None:
        return choice["token_ids"], None
    verbose = answer.get("__verbose")
    if isinstance(verbose, dict) and verbose.get("tokens") and len(answer["choices"]) == 1:
        return verbose["tokens"], None  # llama.cpp: all, unlike beside its log probabilities
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None, None
    content = logprobs.get("content")
    pieces = logprobs.get("tokens")
    if isinstance(content, list) and content and all(isinstance(e, dict) for e in content):
        if all(type(entry.get("id")) is int for entry in content):
            return [entry["id"] for entry in content], None  # llama.cpp
        pieces = [entry.get("token") for entry in content]  # OpenAI's chat completions
    if isinstance(pieces, list) and all(type(piece) is int for piece in pieces):
        return pieces, None  # mlx-lm
    if not (isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces)):
        return None, None
    digits = [piece.removeprefix(_TOKEN_ID_PREFIX) for piece in pieces]
    if all(d != piece and d.isdigit() for d, piece in zip(digits, pieces, strict=True)):
        return [*map(int, digits)], None
    return None, pieces


def choice_token_ids(choice: dict[str, Any], answer: dict[str, Any], pair: TransformerPair) -> Any:
    """Return the token ids of a choice, however it gives them; None where it gives none."""
    ids, pieces = raw_token_ids(choice, answer)
    if ids is not None or pieces is None:
        return ids
    known = _token_by_text(pair.tokenizer, pair.vocab_size)
    tokens = [known.get(piece) for piece in pieces]
    return None if None in tokens else tokens


@lru_cache(maxsize=2)
def _token_by_text(tokenizer: Any, vocab_size: int) -> dict[str, int | None]:
    """The token of each text; None for a text that two tokens have."""
    vocabulary: dict[str, int | None] = {}
    for token in range(vocab_size):
        text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
        vocabulary[text] = None if text in vocabulary else token
    return vocabulary


def ids_match_text(ids: Any, text: str, pair: TransformerPair) -> bool:
    """Return whether a server's text may be that of its ids; wrong ids are refused elsewhere.

    Servers differ in blanks, special tokens and characters that are cut in two: these do not count.
    """
    if not isinstance(ids, list) or not all(
        type(token) is int and 0 <= token < pair.vocab_size for token in ids
    ):
        return True
    expected, decode = normalize_text(text), pair.tokenizer.decode
    return not expected or any(
        normalize_text(decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False))
        == expected
        for skip in (True, False)
    )


def normalize_text(text: str) -> str:
    """Return a text without what servers differ in: blanks, and marks of cut characters."""
    return "".join(text.replace("\ufffd", "").split())


# The log probabilities that an engine reports: where they stand, and how fine they are.


_FLOAT32_DECIMALS = 7  # a number of so many decimals may have all of float32's
_MAX_POSITIVE = 1e-3  # rounding can raise a certain token's log probability so far above 0


def choice_logprobs(choice: dict[str, Any]) -> list[float | None] | None:
    """Return one value for each token, None for a missing one; None if it is no such list."""
    values = _raw_logprobs(choice)
    if values is None or all(value is None for value in values):
        return None
    if not all(value is None or type(value) in (int, float) for value in values):
        return None
    return [None if v is None or not math.isfinite(v) else float(v) for v in values]


def logprobs_problem(choice: dict[str, Any], tokens: int) -> str | None:
    """Say what is wrong with a choice's values for so many tokens; None: nothing, or no values."""
    values = _raw_logprobs(choice)
    if not values:
        return None
    odd = next((v for v in values if v is not None and type(v) not in (int, float)), None)
    if odd is not None:
        return f"{reprlib.repr(odd)} is no number: expected a number or null for each token"
    if len(values) != tokens:
        return f"{len(values)} of {tokens} tokens: expected one a token"
    above = next((v for v in values if v is not None and v > _MAX_POSITIVE), None)
    return None if above is None else f"{above:g} is above 0: a log probability is 0 at most"


def _raw_logprobs(choice: dict[str, Any]) -> list[Any] | None:
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, list) or not isinstance(logprobs, dict):
        return logprobs if isinstance(logprobs, list) else None
    content = logprobs.get("content")
    if isinstance(content, list) and all(isinstance(entry, dict) for entry in content):
        return [entry.get("logprob") for entry in content]
    values = logprobs.get("token_logprobs")
    return values if isinstance(values, list) else None


def logprob_resolution(values: Sequence[float]) -> float:
    """Return by how much reported values may be off, as they are written or were computed.

    Values of few decimals are off by half of the last; those in half precision by half a unit in
    the last place.
    """
    x = np.array([value for value in values if value not in (0.0, None)], float)
    if not len(x):
        return 0.0
    for decimals in range(1, _FLOAT32_DECIMALS):
        if np.allclose(x, np.round(x, decimals), rtol=0, atol=1e-12):
            return 0.5 * 10.0**-decimals
    bits = x.astype(np.float32).view(np.uint32)
    sizes = float(np.abs(x).max())
    for dropped in (16, 13):  # bfloat16, float16
        if np.allclose(x, x.astype(np.float32), rtol=1e-9) and not (bits % (1 << dropped)).any():
            return sizes * 2.0 ** (dropped - 24)
    return sizes * 2.0**-24


# A server's answers as they came: JSON with choices, with or without the request.


END_FIELDS = ("finish_reason", "stop_reason", "matched_stop")
_PROMPT_FIELDS = ("prompt", *CHAT_FIELDS)
_ANSWER_FIELDS = ("choices", "usage", "object", "id", "created", "model")
_ENVELOPE_FIELDS = (*_ANSWER_FIELDS, "request", "response", "prompt_token_ids", "prompt_logprobs")


def expand_choices(
    value: Any, where: str, pair: TransformerPair | None
) -> Iterator[tuple[str, Any]]:
    """Yield a line as one object for each request that it answers; other lines as they are.

    A server's answer has ``choices``, at the top or under ``response`` (and its ``body``); the
    ``request`` may stand beside it. A missing prompt is taken from ``prompt_token_ids``. Choices
    are as :func:`answer_fields` has them. ``UsageError`` for a piece of a stream, for an error, and
    if nothing says what was asked.
    """
    answer = _find_answer(value)
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
        raise UsageError(f"{where} was asked with echo: its text includes the prompt")
    parameters = {name: v for name, v in request.items() if name not in _PROMPT_FIELDS}
    seed = request_seed(request, where)
    outer = {name: v for name, v in value.items() if name not in _ENVELOPE_FIELDS}
    for place, choice in enumerate(choices):
        at = where if len(choices) == 1 else f"{where}, choice {place}"
        shown = {name: v for name, v in (request | outer).items() if name in _PROMPT_FIELDS}
        prompts = shown.get("prompt")
        if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int):
            each = max(len(choices) // len(prompts), 1)
            shown["prompt"] = prompts[min(place // each, len(prompts) - 1)]
        single = len(choices) == 1 or not isinstance(prompts, list)
        fields = outer | shown | answer_fields(answer, choice, pair, alone=single)
        if not shown and "prompt_token_ids" not in fields:
            raise UsageError(
                f"{at} is an answer, and nothing says to what: put the request beside it, as "
                f'{{"request": ..., "response": ...}}, or ask for return_token_ids'
            )
        if seed is not None and len(choices) > 1:  # as vLLM seeds the choices of a request
            parameters = parameters | {"seed": seed + place}
        yield at, fields | ({"asked": parameters} if parameters else {})


def answer_fields(
    answer: dict[str, Any],
    choice: dict[str, Any],
    pair: TransformerPair | None,
    *,
    alone: bool = True,
) -> dict[str, Any]:
    """Return what a choice says, as a line of a file of outputs does.

    ``tokens`` or ``text``, ``unlike`` for ids that do not spell the text beside them, how it
    ended, ``logprobs``; the ids of the prompt, or their number if a request is ``alone``. With
    ``pair`` None nothing is scored, and it is what :func:`raw_fields` returns.
    """
    if pair is None:
        return raw_fields(answer, choice)
    message, text, fields = _choice_parts(choice)
    ids = choice_token_ids(choice, answer, pair)
    calls = any(message.get(name) for name in ("tool_calls", "reasoning_content", "reasoning"))
    if isinstance(ids, list) and (
        calls or not isinstance(text, str) or ids_match_text(ids, text, pair)
    ):
        fields["tokens"] = ids
        logprobs = choice_logprobs(choice)
        if logprobs is not None and len(logprobs) == len(ids):
            fields["logprobs"] = _raw_logprobs(choice)
        elif logprobs_problem(choice, len(ids)) is not None:
            fields["logprobs"] = choice["logprobs"]
    elif ids is not None:
        fields |= {"text": text, "unlike": ids} if isinstance(text, str) else {"tokens": ids}
    elif calls:
        fields["parsed"] = True
    else:
        fields["text"] = text
    prompt = choice.get("prompt_token_ids", answer.get("prompt_token_ids"))
    usage = answer.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    emitted = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if len(answer["choices"]) == 1 and type(emitted) is int and "tokens" in fields:
        fields["completion_tokens"] = emitted
        if choice.get("token_ids") is None and not answer.get("__verbose"):
            fields["ids_of"] = "logprobs"
    if isinstance(prompt, list):
        fields["prompt_token_ids"] = prompt
    elif alone and type(count) is int:
        fields["prompt_tokens"] = count
    return fields


def raw_fields(answer: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    """Return a choice's ids, texts of tokens and text, where it has them, and how it ended."""
    ids, pieces = raw_token_ids(choice, answer)
    _, text, ends = _choice_parts(choice)
    fields = {"tokens": (ids, list), "pieces": (pieces, list), "text": (text, str)}
    return ends | {name: x for name, (x, kind) in fields.items() if isinstance(x, kind)}


def _choice_parts(choice: dict[str, Any]) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Return the message of a choice, its text, and the fields that say how it ended."""
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    ends = {name: choice[name] for name in END_FIELDS if choice.get(name) is not None}
    return message, choice.get("text", message.get("content")), ends


def _find_answer(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    inner = value.get("response")
    if isinstance(inner, dict):
        body = inner.get("body")
        return body if isinstance(body, dict) else inner
    return value if "choices" in value else None


STOP_REASONS = ("stop", "tool_calls", "function_call")
"""Reasons of a request that ended by itself, with a tool call or without."""

PromptMismatch = Literal["told", "untold"]
"""A server's prompt has other tokens than here: it gave the ids, or only their number."""


@dataclass(frozen=True)
class Request:
    """A prompt and what was emitted after it, as token ids.

    ``tokens`` ends with the end-of-sequence token if the engine drew one; ``restored``: whether
    that token, or another that ended the request, was put back because the engine said that it
    stopped there. ``from_text``: the ids are the tokenizer's for a text; ``round_trips``: they
    decode to that text. ``unfinished``: it has neither an end-of-sequence token nor a reason for
    its end. ``law``: what its line declares, None for nothing. ``slots``: each token's place in its
    draft, from 0, or -1; None if unknown. ``logprobs``: what the engine reports for the first
    tokens. ``differs``: whether the server's prompt has other tokens than here; if it gave them,
    they are taken. ``unread``: what is wrong with its log probabilities. ``seed``: that it was
    asked with, None for none. ``faults``: what it says against itself, or against what was asked;
    tokens behind such a place are left out. ``logprobs_mode``: the kind of log probabilities that
    the line states, "raw" or "processed".
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    restored: bool = False
    from_text: bool = False
    round_trips: bool = True
    unfinished: bool = False
    law: Law | None = None
    slots: tuple[int, ...] | None = None
    logprobs: tuple[float | None, ...] | None = None
    differs: PromptMismatch | None = None
    unread: str | None = None
    seed: int | None = None
    faults: tuple[AnswerFault, ...] = ()
    logprobs_mode: str | None = None

    def judged_by(self, pair: TransformerPair) -> Law:
        """Return the law of its line, or else that of ``pair``."""
        return as_law(pair.sampling) if self.law is None else self.law

    def rows(self, logits: npt.ArrayLike, pair: TransformerPair) -> Floats:
        """Return the rows of its first tokens, float64 (n, V), from logits (n, V)."""
        return self.judged_by(pair).after(logits, self.prompt, self.tokens)


def read_requests(path: Path, pair: TransformerPair) -> tuple[Request, ...]:
    """Read a JSONL file, one object a request, or a server's answers as they came.

    An object has ``prompt`` (text or ids) or ``messages``, and ``tokens`` (ids) or ``text``; if it
    has both, ``tokens`` counts. For answers see :func:`expand_choices`. ``finish_reason`` "stop"
    says that the engine drew an end-of-sequence token, unless ``stop_reason`` (or ``matched_stop``)
    is a string, or the id of the token that it drew. ``temperature``, ``min_p`` and the like are
    what was asked for; ``asked``, which --keep writes, is all of it. ``slots`` gives each token's
    place in its draft, from 0. Other fields and a byte order mark are ignored.

    ``UsageError`` if the file cannot be read or holds no request, a line is no such object, an id
    is outside the vocabulary, a request does not fit into the context, or ended by anything but a
    stop or the limit of its length.
    """
    requests = [
        check_request(fields, at, pair)
        for where, value in read_objects(path, "outputs")
        for at, fields in expand_choices(value, where, pair)
    ]
    if not requests:
        raise UsageError(f"outputs: {path} holds no request: expected one JSON object a line")
    return tuple(requests)


def read_objects(path: Path, kind: str, size: int | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the lines of a JSONL file, each with its place in words; ``size``: of so many bytes."""
    try:
        text = path.read_bytes()[:size].decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{kind}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{kind}: {path} is not UTF-8 text (byte {error.start})") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{kind}: {path}, line {number}"
            try:
                yield where, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{where} is no JSON: {error}") from None


def check_request(value: Any, where: str, pair: TransformerPair) -> Request:
    """Return the request of an object as :func:`read_requests` takes it; ``UsageError`` if none."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no object: expected prompt, and tokens or text")
    value = _with_plain_reason(value)
    prompt, differs = _prompt_and_mismatch(value, where, pair)
    round_trips, from_text = True, value.get("tokens") is None
    slots = logprobs = unread = None
    faults: tuple[AnswerFault, ...] = ()
    judged = 0
    if not from_text:
        tokens = _check_integers(value["tokens"], f"{where}: tokens", pair)
        judged, faults = find_faults(value, where, prompt, _raw_logprobs(value), pair)
        slots, n = value.get("slots"), len(tokens)
        if slots is not None and not (
            isinstance(slots, list)
            and len(slots) == n
            and all(type(slot) is int and -1 <= slot < 1 << 20 for slot in slots)
        ):
            raise UsageError(
                f"{where}: slots is no list of {n} places in a draft: expected one a token, from 0"
            )
        logprobs, unread = choice_logprobs(value), logprobs_problem(value, n)
    elif isinstance(value.get("text"), str):
        text = check_unicode(value["text"], f"{where}: text")
        tokens = retokenise(text, pair)
        round_trips = pair.tokenizer.decode(tokens, clean_up_tokenization_spaces=False) == text
    elif value.get("parsed"):
        raise UsageError(
            f"{where} has tool calls or reasoning that the server cut out of its text, whose "
            f"tokens are unknown: ask for token ids"
        )
    else:
        raise UsageError(f"{where} has neither tokens, a list of ids, nor text, a string")
    if logprobs is not None and len(logprobs) != len(tokens):
        logprobs = None
    left_out: tuple[int, ...] = ()
    if not from_text and judged < len(tokens):
        check_finish_reason(value.get("finish_reason"), where)
        if not judged:
            _check_ids(value["tokens"], f"{where}: tokens", pair)
        tokens, slots = tokens[:judged], slots and slots[:judged]
        logprobs = logprobs and logprobs[:judged]
    else:
        left_out = _omitted_end_token(value, tokens, from_text, where, pair)
        if left_out == _UNKNOWN_END:
            left_out, faults = (), (*faults, AnswerFault("stop?", where))
    tokens += left_out
    if not tokens:
        raise UsageError(
            f'{where} emitted nothing: keep its end-of-sequence token, or finish_reason "stop"'
        )
    if len(prompt) + len(tokens) > pair.context:
        raise UsageError(
            f"{where} has {len(prompt)} + {len(tokens)} tokens: the context of "
            f"{pair.target_name} holds {pair.context}"
        )
    return Request(
        prompt,
        tokens,
        bool(left_out),
        from_text,
        round_trips,
        unfinished=tokens[-1] not in pair.eos and value.get("finish_reason") is None,
        law=declared_law(value, where, pair),
        slots=None if slots is None else (*slots, *(-1 for _ in left_out)),
        differs=differs,
        logprobs=None if logprobs is None else tuple(logprobs),
        unread=unread,
        seed=_declared_seed(value, where),
        faults=faults,
        logprobs_mode=None if logprobs is None else _stated_logprobs(value),
    )


_LOGPROBS_MODES = {"raw_logprobs": "raw", "processed_logprobs": "processed"}
"""vLLM's modes of log probabilities, and their kind here."""


def _stated_logprobs(value: Mapping[str, Any]) -> str | None:
    asked = value.get("asked")
    fields = {**flat_request(asked if isinstance(asked, Mapping) else {}), **value}
    return _LOGPROBS_MODES.get(str(fields.get("logprobs_mode")))


def _declared_seed(value: Mapping[str, Any], where: str) -> int | None:
    """Return the seed that a line was asked with; its own field comes before ``asked``."""
    asked = value.get("asked")
    seed = request_seed(value, where)
    return request_seed(asked, where) if seed is None and isinstance(asked, dict) else seed


@dataclass(frozen=True)
class IndependentRequests:
    """The first request of each seed, and all without one; what is left out shares its draws.

    ``left_out``: requests with the seed of an earlier one; ``changed``: those of them whose answer
    is another, though prompt and parameters are the same too.
    """

    requests: tuple[Request, ...]
    left_out: int
    changed: int

    @property
    def note(self) -> str | None:
        """Say what was left out, and why; None where nothing was."""
        if not self.left_out:
            return None
        words = (
            f"{self.left_out:,} requests were asked with the seed of an earlier one, and an engine "
            f"that heeds it draws them by the same random numbers: the first of each seed is judged"
        )
        if self.changed:
            words += (
                f"; {self.changed:,} of the others repeat its prompt and its parameters too and "
                f"answer otherwise: the seed is not heeded, or the engine does not compute alike"
            )
        return words


def independent_requests(requests: Sequence[Request], pair: TransformerPair) -> IndependentRequests:
    """Leave out requests whose seed an earlier one has; what was drawn does not matter to it."""
    first: dict[int, Request] = {}
    kept, changed = [], 0
    for request in requests:
        seed = request.seed
        if seed is None or request.judged_by(pair).temperature == 0.0:
            kept.append(request)
        elif seed not in first:
            first[seed] = request
            kept.append(request)
        else:
            known = first[seed]
            shared = common_prefix_length(known.tokens, request.tokens)
            same = (known.prompt, known.law) == (request.prompt, request.law)
            changed += same and shared < min(len(known.tokens), len(request.tokens))
    return IndependentRequests(tuple(kept), len(requests) - len(kept), changed)


def _prompt_and_mismatch(
    value: dict[str, Any], where: str, pair: TransformerPair
) -> tuple[tuple[int, ...], PromptMismatch | None]:
    """Return the ids of the prompt, and how the server's differ from those made here."""
    reported_ids = value.get("prompt_token_ids")
    encoded: tuple[int, ...] | None = None
    if "messages" in value:
        if reported_ids is None or getattr(pair.tokenizer, "chat_template", None) is not None:
            encoded = chat_ids(check_chat(value, where), pair, where)
    elif isinstance(value.get("prompt"), str):
        encoded = tuple(pair.encode(check_unicode(value["prompt"], f"{where}: prompt")))
    elif "prompt" in value:
        encoded = _check_ids(value["prompt"], f"{where}: prompt", pair)
    elif reported_ids is None:
        raise UsageError(f"{where} has no prompt: expected the text or the token ids before it")
    ids = encoded
    if reported_ids is not None:
        ids = _check_ids(reported_ids, f"{where}: prompt_token_ids", pair)
    if not ids:
        raise UsageError(f"{where}: prompt is empty: a causal model needs one token or more")
    if reported_ids is not None:
        return ids, None if encoded in (None, ids) else "told"
    count = value.get("prompt_tokens")
    return ids, "untold" if type(count) is int and count != len(ids) else None


def limit_tokens(requests: Sequence[Request], most: int) -> list[Request]:
    """Return the first requests, the last one cut, so that they hold ``most`` tokens or all."""
    selected, room = [], most
    for request in requests:
        if not room:
            break
        whole = len(request.tokens) <= room
        cut = replace(request, tokens=request.tokens[:room], unfinished=False)
        selected.append(request if whole else cut)
        room -= len(selected[-1].tokens)
    return selected


def common_prefix_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many first tokens are the same."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def retokenise(text: str, pair: TransformerPair) -> tuple[int, ...]:
    """Return the tokenizer's ids for a text that follows a prompt."""
    return tuple(pair.tokenizer(text, add_special_tokens=False).input_ids)


def _omitted_end_token(
    value: dict[str, Any],
    tokens: tuple[int, ...],
    from_text: bool,
    where: str,
    pair: TransformerPair,
) -> tuple[int, ...]:
    reason = value.get("finish_reason")
    check_finish_reason(reason, where)
    if reason not in STOP_REASONS or (tokens and tokens[-1] in pair.eos):
        return ()
    stops = (value.get(name) for name in ("stop_reason", "matched_stop"))  # vLLM's, SGLang's
    stop = next((stop for stop in stops if stop is not None), None)
    asked = AskedEnd(value)
    if stop is None and (asked.asked_stops or asked.stop_ids):
        if from_text:
            raise UsageError(
                f"{where} was asked with stop strings, and does not say whether one ended it: give "
                f"token ids and the server's stop_reason, or ask without stop strings"
            )
        known_end = tokens and (tokens[-1] in asked.stop_ids or asked.holds_stop(tokens, pair))
        return () if known_end else _UNKNOWN_END
    if stop is None and len(pair.eos) != 1:
        known = f"{len(pair.eos)} such tokens" if pair.eos else "no such token"
        raise UsageError(
            f"{where} stopped without its end-of-sequence token, and {pair.target_name} has "
            f"{known}: write token ids that end with the one that was drawn"
        )
    if stop is None:
        return tuple(pair.eos)
    if not isinstance(stop, str):
        (token,) = _check_ids([stop], f"{where}: stop_reason", pair)
        return () if tokens and tokens[-1] == token else (token,)
    if from_text:
        raise UsageError(
            f"{where} ended at the stop string {json.dumps(stop)[:40]}, whose tokens its text "
            f"does not show: give token ids, or ask without stop strings"
        )
    return ()


def _with_plain_reason(value: dict[str, Any]) -> dict[str, Any]:
    """Return a line in which SGLang's own finish_reason, an object, is in OpenAI's words."""
    reason = value.get("finish_reason")
    if not isinstance(reason, dict) or not isinstance(reason.get("type"), str):
        return value
    return {"matched_stop": reason.get("matched"), **value, "finish_reason": reason["type"]}


_UNKNOWN_END = (-1,)
"""In the place of the token that ended an answer, if it may have been a stop string too."""


def check_finish_reason(reason: Any, where: str) -> None:
    """Raise ``UsageError`` for a reason other than a stop or the limit; None is no reason."""
    if reason not in (None, "length", *STOP_REASONS):
        raise UsageError(
            f"{where} ended by {json.dumps(reason)[:40]}: expected stop or length, as otherwise "
            f"what it holds may depend on what was drawn"
        )


def _check_integers(value: Any, where: str, pair: TransformerPair) -> tuple[int, ...]:
    """Return the ids of an answer, which may hold some that are no tokens."""
    whole = isinstance(value, list) and all(type(token) is int for token in value)
    return tuple(value) if whole else _check_ids(value, where, pair)


def _check_ids(value: Any, where: str, pair: TransformerPair) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where} is {type(value).__name__}: expected a list of token ids")
    for i, token in enumerate(value):
        if type(token) is not int or not 0 <= token < pair.vocab_size:
            raise UsageError(
                f"{where}[{i}] is {json.dumps(token)[:40]}: expected an id of "
                f"{pair.target_name}, 0 to {pair.vocab_size - 1}"
            )
    return tuple(value)
