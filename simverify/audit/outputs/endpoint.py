"""Completions from a server that speaks OpenAI's ``/v1/completions``."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from itertools import count, islice
from typing import Any
from urllib.parse import urlsplit

from simverify.audit.outputs.requests import Request, request_iv
from simverify.errors import UsageError
from simverify.models.transformer import TransformerPair

TOGETHER = 8
"""Requests under way at a time: requests that share a stream must meet to show it."""

MAX_TOKENS = 128

_EXTRAS = {"logprobs": 1, "return_token_ids": True, "return_tokens_as_token_ids": True}
"""What gets token ids from servers that have them; one that refuses it is asked without."""

_ID = "token_id:"
_SECONDS = 300.0


@dataclass(frozen=True)
class Endpoint:
    """A server: ``url`` up to or without ``/v1/completions``; ``model`` None asks for its first.

    ``max_tokens``: limit of one completion.
    """

    url: str
    model: str | None = None
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            whole = False
        if not whole:
            raise UsageError(f"endpoint is {self.url!r}: expected http://HOST:PORT")
        if self.max_tokens < 1:
            raise UsageError(f"max tokens is {self.max_tokens}: expected 1 or more")

    def at(self, path: str) -> str:
        """Return the address of ``path``, such as completions."""
        base = self.url.rstrip("/").removesuffix("/completions").removesuffix("/v1")
        return f"{base}/v1/{path}"


def ask(
    endpoint: Endpoint,
    prompts: Sequence[str],
    pair: TransformerPair,
    tokens: int,
    samples: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[Request, ...]:
    """Ask for completions, the prompts in turn, until ``tokens`` are there.

    ``samples``: completions of each prompt at most. Token ids are taken where the server gives
    them, then the tokens of its logprobs, then the text.

    Raises
    ------
    UsageError
        If the server does not answer, answers with an error, or with no such completion.
    """
    if samples is not None and samples < 1:
        raise UsageError(f"samples is {samples}: expected 1 or more")
    server = _Server(endpoint, pair)
    say = progress or (lambda _: None)
    numbers = count() if samples is None else iter(range(samples * len(prompts)))
    found: list[Request] = []
    got = 0
    with ThreadPoolExecutor(TOGETHER) as pool:
        while got < tokens:
            batch = list(islice(numbers, TOGETHER))
            if not batch:
                break
            answers = pool.map(lambda i: server.complete(i, prompts[i % len(prompts)]), batch)
            for request in answers:
                found.append(request)
                got += len(request.tokens)
            say(f"asked {len(found):,} requests: {got:,} of {tokens:,} tokens")
    return tuple(found)


class _Server:
    """One server, and what it was found to understand."""

    def __init__(self, endpoint: Endpoint, pair: TransformerPair) -> None:
        self._endpoint, self._pair = endpoint, pair
        self._model = endpoint.model or self._first_model()
        self._extras = True
        self._pieces = cache(self._vocabulary)

    def complete(self, number: int, prompt: str) -> Request:
        """Return the completion of one prompt."""
        address, where = self._endpoint.at("completions"), f"{self._endpoint.url}: answer {number}"
        try:
            answer = _call(address, self._body(prompt, extras=self._extras))
        except _Refused as refused:
            if not self._extras or refused.code not in (400, 422):
                raise UsageError(str(refused)) from None
            try:
                answer = _call(address, self._body(prompt, extras=False))
            except _Refused as again:
                raise UsageError(str(again)) from None
            self._extras = False
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
            raise UsageError(f"{where} has no choices: expected those of OpenAI's completions")
        choice = choices[0]
        value = {"prompt": prompt, "finish_reason": choice.get("finish_reason")}
        ids = self._ids(choice)
        value |= {"text": choice.get("text")} if ids is None else {"tokens": ids}
        return request_iv(value, where, self._pair)

    def _body(self, prompt: str, *, extras: bool) -> dict[str, Any]:
        law = self._pair.sampling
        body: dict[str, Any] = {
            "prompt": self._pair.encode(prompt) if extras else prompt,
            "max_tokens": self._endpoint.max_tokens,
            "temperature": law.temperature,
            "top_p": 1.0 if law.top_p is None else law.top_p,
        }
        if law.top_k is not None:
            body["top_k"] = law.top_k
        if self._model is not None:
            body["model"] = self._model
        return body | _EXTRAS if extras else body

    def _ids(self, choice: dict[str, Any]) -> Any:
        """Token ids of a choice, however the server gives them; None where it does not."""
        if choice.get("token_ids") is not None:
            return choice["token_ids"]
        logprobs = choice.get("logprobs")
        pieces = logprobs.get("tokens") if isinstance(logprobs, dict) else None
        if not (isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces)):
            return None
        if all(piece.startswith(_ID) and piece[len(_ID) :].isdigit() for piece in pieces):
            return [int(piece[len(_ID) :]) for piece in pieces]
        known = self._pieces()
        ids = [known.get(piece) for piece in pieces]
        return None if None in ids else ids

    def _vocabulary(self) -> dict[str, int | None]:
        """Each token's own text; those of which two have the same tell nothing."""
        found: dict[str, int | None] = {}
        for token in range(self._pair.vocab_size):
            text = self._pair.tokenizer.decode([token], clean_up_tokenization_spaces=False)
            found[text] = None if text in found else token
        return found

    def _first_model(self) -> str | None:
        """Name of the first model that the server lists; None where it lists none."""
        try:
            listed = _call(self._endpoint.at("models"), None)
        except _Refused:
            return None
        entries = listed.get("data") if isinstance(listed, dict) else None
        first = entries[0] if isinstance(entries, list) and entries else None
        name = first.get("id") if isinstance(first, dict) else None
        return name if isinstance(name, str) else None


class _Refused(Exception):
    """The server answered with an error: its status and its words."""

    def __init__(self, address: str, code: int, words: str) -> None:
        super().__init__(f"{address} answers {code}: {words}")
        self.code = code


def _call(address: str, body: dict[str, Any] | None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            content = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            raise _Refused(address, error.code, _words(error)) from None
    except urllib.error.URLError as error:
        raise UsageError(f"{address} cannot be reached: {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise UsageError(f"{address} breaks off: {error or type(error).__name__}") from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        start = content[:60].decode(errors="replace")
        raise UsageError(f"{address} answers no JSON, but {start!r}: is it right?") from None


def _words(error: urllib.error.HTTPError) -> str:
    """What a server says of its error, on a line."""
    try:
        text = error.read(2000).decode(errors="replace")
    except (OSError, HTTPException):
        text = ""
    return " ".join(text.split())[:200] or str(error.reason)
