"""Requests as another engine answered them: JSONL with a prompt and token ids, or text."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from simverify.arrays import Floats
from simverify.emitted.law import Law, as_law
from simverify.emitted.reading.asked import asked_law
from simverify.emitted.reading.chat import chat_ids, chat_iv
from simverify.emitted.reading.logprobs import stated_logprobs, unread_logprobs
from simverify.emitted.reading.responses import expanded
from simverify.errors import UsageError
from simverify.models.real.prompts import unicode_iv
from simverify.models.real.transformer import TransformerPair

STOPPED = ("stop", "tool_calls", "function_call")
"""Reasons of a request that ended by itself, with a call of a tool or without."""

_REASONS = (None, "length", *STOPPED)
_STOPS = ("stop_reason", "matched_stop")
"""What stopped a request: vLLM's name for it and SGLang's; a string, or the token's id."""


Differs = Literal["told", "untold"]
"""A server's prompt has other tokens than here: it told them, or their number alone."""


@dataclass(frozen=True)
class Request:
    """A prompt and what was emitted after it, as token ids.

    ``tokens`` ends with the end-of-sequence token where the engine drew one; ``restored``:
    whether it, or another token that ended the request, was put back because the engine said
    that it stopped there. ``from_text``: the
    ids are the tokenizer's for a text; ``round_trips``: they give that text again.
    ``unfinished``: neither an end-of-sequence token nor a reason why it ends. ``law``: what its
    line says that it was asked for, None where it says nothing. ``slots``: each token's place in
    the draft that it was judged with, from 0, or -1; None where nothing says. ``logprobs``: what
    the engine says that the first tokens' log probabilities were, if it does. ``differs``: whether
    the server's prompt has other tokens than are made of it here; those that it told are taken.
    ``unread``: what cannot be right of its log probabilities.
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
    differs: Differs | None = None
    unread: str | None = None

    def judged_by(self, pair: TransformerPair) -> Law:
        """The law of its line; where that says nothing, the declared one."""
        return as_law(pair.sampling) if self.law is None else self.law

    def rows(self, logits: npt.ArrayLike, pair: TransformerPair) -> Floats:
        """Rows of its first tokens under its law, float64 (n, V), from logits (n, V)."""
        return self.judged_by(pair).after(logits, self.prompt, self.tokens)


def read_requests(path: Path, pair: TransformerPair) -> tuple[Request, ...]:
    """Read a JSONL file, one object a request, or a server's answers as they came.

    An object has ``prompt`` or ``messages``, and ``tokens`` or ``text``; of answers see
    :func:`expanded`. ``prompt`` is text or a list of ids, ``tokens`` a list of ids, which are taken
    where a ``text`` stands beside them. ``finish_reason`` "stop" says that the engine drew an
    end-of-sequence token, unless ``stop_reason`` (or ``matched_stop``) is a string, or the id
    of the token that it drew. ``temperature``, ``min_p`` and the like are what was asked for, and
    ``asked``, which --keep writes, is all of it. ``slots``, a list as long as ``tokens``, says
    where in its draft each token stood, from 0. Other fields are not looked at; a byte order mark
    is none.

    Raises
    ------
    UsageError
        If the file cannot be read or holds no request, a line is no such object, an id is
        outside the vocabulary, a request does not fit into the context, or ended by anything
        but a stop or the limit of its length.
    """
    found = [
        request_iv(own, at, pair)
        for where, value in read_objects(path, "outputs")
        for at, own in expanded(value, where, pair)
    ]
    if not found:
        raise UsageError(f"outputs: {path} holds no request: expected one JSON object a line")
    return tuple(found)


def read_objects(path: Path, kind: str, size: int | None = None) -> Iterator[tuple[str, Any]]:
    """Yield what the lines of a JSONL file hold, each with words for where it stands.

    ``size``: bytes that are read; None: all.
    """
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


def request_iv(value: Any, where: str, pair: TransformerPair) -> Request:
    """Return the request of an object as :func:`read_requests` takes it; ``UsageError`` if none."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no object: expected prompt, and tokens or text")
    prompt, differs = _prompt(value, where, pair)
    round_trips, from_text = True, value.get("tokens") is None
    if not from_text:
        tokens = _ids_iv(value["tokens"], f"{where}: tokens", pair)
    elif isinstance(value.get("text"), str):
        tokens, round_trips = _retokenised(unicode_iv(value["text"], f"{where}: text"), pair)
    elif value.get("parsed"):
        raise UsageError(
            f"{where} has calls of tools, or reasoning, that the server cut out of its text: their "
            f"tokens are not told: ask for token ids"
        )
    else:
        raise UsageError(f"{where} has neither tokens, a list of ids, nor text, a string")
    slots = None if from_text else _slots_iv(value.get("slots"), where, len(tokens))
    stated = None if from_text else stated_logprobs(value)
    unread = None if from_text else unread_logprobs(value, len(tokens))
    if stated is not None and len(stated) != len(tokens):
        stated = None
    left_out = _left_out(value, tokens, from_text, where, pair)
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
        prompt, tokens, bool(left_out), from_text, round_trips,
        unfinished=tokens[-1] not in pair.eos and value.get("finish_reason") is None,
        law=asked_law(value, where, pair),
        slots=None if slots is None else slots + (-1,) * len(left_out),
        differs=differs,
        logprobs=None if stated is None else tuple(stated),
        unread=unread,
    )  # fmt: skip


def _prompt(
    value: dict[str, Any], where: str, pair: TransformerPair
) -> tuple[tuple[int, ...], Differs | None]:
    """Ids of the prompt, and how what the server made of it differs from what is made here."""
    told = value.get("prompt_token_ids")
    own: tuple[int, ...] | None = None
    if "messages" in value:
        own = None if told is not None and not _has_template(pair) else chat_ids(
            chat_iv(value, where), pair, where
        )  # fmt: skip
    elif isinstance(value.get("prompt"), str):
        own = tuple(pair.encode(unicode_iv(value["prompt"], f"{where}: prompt")))
    elif "prompt" in value:
        own = _ids_iv(value["prompt"], f"{where}: prompt", pair)
    elif told is None:
        raise UsageError(f"{where} has no prompt: expected the text or the token ids before it")
    found = own if told is None else _ids_iv(told, f"{where}: prompt_token_ids", pair)
    assert found is not None
    if not found:
        raise UsageError(f"{where}: prompt is empty: a causal model needs one token or more")
    if told is not None:
        return found, None if own in (None, found) else "told"
    count = value.get("prompt_tokens")
    return found, "untold" if type(count) is int and count != len(found) else None


def _has_template(pair: TransformerPair) -> bool:
    return getattr(pair.tokenizer, "chat_template", None) is not None


def first_tokens(requests: Sequence[Request], most: int) -> list[Request]:
    """Return the first requests, the last one cut, so that they hold ``most`` tokens or all."""
    kept, room = [], most
    for request in requests:
        if not room:
            break
        cut = replace(request, tokens=request.tokens[:room])
        if len(cut.tokens) < len(request.tokens):
            cut = replace(cut, unfinished=False)
        kept.append(cut)
        room -= len(cut.tokens)
    return kept


def retokenise(text: str, pair: TransformerPair) -> tuple[int, ...]:
    """Return the tokenizer's ids for a text that follows a prompt."""
    return tuple(pair.tokenizer(text, add_special_tokens=False).input_ids)


def _retokenised(text: str, pair: TransformerPair) -> tuple[tuple[int, ...], bool]:
    tokens = retokenise(text, pair)
    again = pair.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)
    return tokens, again == text


def _left_out(
    value: dict[str, Any], tokens: tuple[int, ...], from_text: bool, where: str,
    pair: TransformerPair,
) -> tuple[int, ...]:  # fmt: skip
    """Return the token that ended a request and is not among its tokens, if there is one."""
    reason = value.get("finish_reason")
    if reason not in _REASONS:
        raise UsageError(
            f"{where} ended by {json.dumps(reason)[:40]}: expected stop or length, as otherwise "
            f"what it holds may depend on what was drawn"
        )
    if reason not in STOPPED or (tokens and tokens[-1] in pair.eos):
        return ()
    stop = next((value[name] for name in _STOPS if value.get(name) is not None), None)
    if stop is None:
        return (_end(where, pair),)
    if not isinstance(stop, str):
        (token,) = _ids_iv([stop], f"{where}: stop_reason", pair)
        return () if tokens and tokens[-1] == token else (token,)
    if from_text:
        raise UsageError(
            f"{where} ended at the stop string {json.dumps(stop)[:40]}, whose tokens its text "
            f"does not tell: give token ids, or ask without stop strings"
        )
    return ()


def _slots_iv(value: Any, where: str, n: int) -> tuple[int, ...] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != n
        or not all(type(slot) is int and -1 <= slot < 1 << 20 for slot in value)
    ):
        raise UsageError(
            f"{where}: slots is no list of {n} places in a draft: expected one a token, from 0"
        )
    return tuple(value)


def _end(where: str, pair: TransformerPair) -> int:
    if len(pair.eos) != 1:
        known = f"{len(pair.eos)} such tokens" if pair.eos else "no such token"
        raise UsageError(
            f"{where} stopped without its end-of-sequence token, and {pair.target_name} has "
            f"{known}: write token ids that end with the one that was drawn"
        )
    return min(pair.eos)


def _ids_iv(value: Any, where: str, pair: TransformerPair) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where} is {type(value).__name__}: expected a list of token ids")
    for i, token in enumerate(value):
        if type(token) is not int or not 0 <= token < pair.vocab_size:
            raise UsageError(
                f"{where}[{i}] is {json.dumps(token)[:40]}: expected an id of "
                f"{pair.target_name}, 0 to {pair.vocab_size - 1}"
            )
    return tuple(value)
