"""One server: the requests to it, and how its answers are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from simverify.errors import UsageError
from simverify.models.distribution import FULL_WINDOW, Law, as_law
from simverify.models.transformer import Sampling, TransformerPair
from simverify.served.client import DEFAULT_TIMEOUT, ServerFailure, ServerRefusal, Transport
from simverify.served.requests import (
    END_FIELDS,
    TOKEN_IDS,
    Prompt,
    answer_fields,
    prompt_fields,
    token_id_support,
)

MAX_TOKENS = 128

_COMPLETION_EXTRAS: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"logprobs": 1, "return_token_ids": True, "return_tokens_as_token_ids": True}, True),
    ({"return_token_ids": True}, True),
    ({"logprobs": 1, "return_tokens_as_token_ids": True}, True),
    ({"logprobs": 1}, True),
    ({"logprobs": True}, True),
    ({"logprobs": 1}, False),
    ({"logprobs": True}, False),
    ({}, False),
)
"""Fields by which servers return token ids, and whether the prompt is sent as ids."""

_CHAT_EXTRAS: tuple[dict[str, Any], ...] = (
    {"logprobs": True, "return_token_ids": True, "return_tokens_as_token_ids": True},
    {"return_token_ids": True},
    {"logprobs": True, "return_tokens_as_token_ids": True},
    {"logprobs": True},
    {},
)
"""The same for conversations, whose prompt the server makes."""

_MAX_TIMEOUT = 86_400.0  # seconds for one answer

_TRANSFORMERS_REFUSAL = "Unexpected fields in the request"
"""How ``transformers serve`` refuses a field: the only way to recognise it."""

_REFUSAL_STATUSES = (400, 404, 422, 500, 501)
"""Statuses of servers that do not know a field, or take no prompt of ids."""

_NO_PENALTIES = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
_VLLM_NEUTRAL = _NO_PENALTIES | {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_NEUTRAL_FIELDS: dict[str, dict[str, Any]] = {
    "vllm": _VLLM_NEUTRAL,
    "sglang": _VLLM_NEUTRAL,
    "simverify": {},
    "llamacpp": _NO_PENALTIES | {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
}
"""By ``owned_by`` of a model: fields that keep a server from applying defaults of its own.

Without them vLLM and SGLang use the model's ``generation_config``, and llama.cpp a top-k of 40.
Other servers may refuse fields that they do not know, so they get none.
"""


@dataclass(frozen=True)
class Endpoint:
    """A server: ``url`` up to or without ``/v1/completions``; ``model`` None asks for its first.

    ``max_tokens``: limit of one completion. ``extra_body``: further fields of every request.
    ``timeout``: seconds that one answer may take.
    """

    url: str
    model: str | None = None
    max_tokens: int = MAX_TOKENS
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = DEFAULT_TIMEOUT

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            whole = False
        if not whole:
            raise UsageError(f"endpoint is {self.url!r}: expected http://HOST:PORT")
        if "@" in parts.netloc:
            raise UsageError(
                "endpoint has a user or a password in its address, which documents would show: "
                "put a key into SIMVERIFY_API_KEY"
            )
        if self.max_tokens < 1:
            raise UsageError(f"max tokens is {self.max_tokens}: expected 1 or more")
        if not 0.0 < self.timeout <= _MAX_TIMEOUT:
            raise UsageError(
                f"timeout is {self.timeout:g}: expected seconds, above 0, {_MAX_TIMEOUT:g} at most"
            )

    def at(self, path: str) -> str:
        """Return the address of ``path``, such as completions."""
        base = self.url.rstrip("/").removesuffix("/completions").removesuffix("/chat")
        base = base.removesuffix("/v1")
        return f"{base}/v1/{path}"


class Server:
    """A server, and which requests it understands.

    ``pair``: the target, or the law alone if nothing is scored: answers then hold whatever the
    server says of its tokens. ``asked``: the fields of every request beside its prompt. ``known``:
    whether it says what it is, so that it was told to apply no defaults. ``unsampled``: whether it
    is ``transformers serve`` and did not get the field of its own by which it samples from all
    tokens.
    """

    def __init__(
        self, endpoint: Endpoint, pair: TransformerPair | Sampling, transport: Transport
    ) -> None:
        law = pair if isinstance(pair, Sampling) else pair.sampling
        self._pair = None if isinstance(pair, Sampling) else pair
        self._endpoint, self._transport = endpoint, transport
        name, owner = self._listed()
        self.known, self.unsampled = owner in _NEUTRAL_FIELDS, False
        self.asked = law_request_fields(as_law(law), endpoint, owner, self._pair)
        if name is not None:
            self.asked["model"] = name
        self._variants: dict[str, int] = {}

    def complete(self, number: int, prompt: Prompt) -> dict[str, Any]:
        """Return the completion of a prompt as an object of a file of outputs.

        A conversation goes to ``/v1/chat/completions``. Ids beyond ``max_tokens`` are cut, and
        ``cut`` says how many: whether they are there may depend on how many draft tokens were
        accepted. Ids that do not spell the text beside them are not taken; ``unlike`` holds them.
        The first call of either kind finds out how to ask: make it alone.
        """
        path = "completions" if isinstance(prompt, str) else "chat/completions"
        if path in self._variants:
            answer = self._ask(path, prompt, self._variants[path])
        else:
            answer = self._first(path, prompt)
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
            where = f"{self._endpoint.url}: answer {number}"
            raise ServerFailure(f"{where} has no choices: expected those of OpenAI's completions")
        fields = answer_fields(answer, choices[0], self._pair)
        if "pieces" in fields:
            fields["pieces"] = fields["pieces"][: self._endpoint.max_tokens]
        return self._cut(prompt_fields(prompt) | fields) | {"asked": self.asked}

    def _ask(self, path: str, prompt: Prompt, variant: int) -> Any:
        if isinstance(prompt, str):
            extras, as_ids = _COMPLETION_EXTRAS[variant]
            shown = self._pair.encode(prompt) if as_ids and self._pair is not None else prompt
            body: dict[str, Any] = {"prompt": shown}
        else:
            extras, body = _CHAT_EXTRAS[variant], prompt_fields(prompt)
        return self._transport.call(self._endpoint.at(path), body | self.asked | extras)

    def _first(self, path: str, prompt: Prompt) -> Any:
        """Try each variant until one gives ids; keep the one that gave most.

        Whether ids are there depends on the variant and not on what was drawn, so the answers to
        other variants may be dropped.
        """
        best: tuple[int, Any] | None = None
        variants = len(_COMPLETION_EXTRAS if isinstance(prompt, str) else _CHAT_EXTRAS)
        for variant in range(variants):
            try:
                answer = self._ask(path, prompt, variant)
            except ServerRefusal as refused:
                if refused.code not in _REFUSAL_STATUSES or (variant + 1 == variants and not best):
                    raise
                if _TRANSFORMERS_REFUSAL in str(refused):
                    self.unsampled = "generation_config" not in self.asked
                continue
            support = token_id_support(answer)
            if best is None or support > best[0]:
                best, self._variants[path] = (support, answer), variant
            if support == TOKEN_IDS:
                break
        assert best is not None
        return best[1]

    def _cut(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Cut off ids beyond the limit, and with them what is said about the end."""
        ids, most = fields.get("tokens"), self._endpoint.max_tokens
        if not isinstance(ids, list) or len(ids) <= most:
            return fields
        fields = {name: value for name, value in fields.items() if name not in END_FIELDS}
        if "logprobs" in fields:
            fields["logprobs"] = fields["logprobs"][:most]
        return fields | {"tokens": ids[:most], "finish_reason": "length", "cut": len(ids) - most}

    def _listed(self) -> tuple[str | None, str | None]:
        """Return the model's name, by default the first listed, and its owner; None if not said."""
        name = self._endpoint.model
        try:
            listed = self._transport.call(self._endpoint.at("models"), None)
        except ServerRefusal as refused:
            if refused.code in (401, 403):
                raise
            return name, None
        except ServerFailure:
            if not self._transport.reached:
                raise
            return name, None  # a server that cannot list its models may have one all the same
        entries = listed.get("data") if isinstance(listed, dict) else None
        models = [m for m in entries if isinstance(m, dict)] if isinstance(entries, list) else []
        model = next((m for m in models if name in (None, m.get("id"))), {})
        named, owner = model.get("id"), model.get("owned_by")
        first = named if isinstance(named, str) else None
        return name or first, owner if isinstance(owner, str) else None


def law_request_fields(
    law: Law, endpoint: Endpoint, owner: str | None, pair: TransformerPair | None
) -> dict[str, Any]:
    """Return the fields of a request that ask a server for ``law``, and nothing else.

    A parameter that changes nothing is left out, unless the server would apply a default of its
    own. Bad words are sent as texts, as vLLM takes them.
    """
    fields = _NEUTRAL_FIELDS.get(owner or "", {}) | {
        "max_tokens": endpoint.max_tokens,
        "temperature": law.temperature,
        "top_p": 1.0 if law.top_p is None else law.top_p,
    }
    for name in _LAW_FIELDS:
        if getattr(law, name) is not None:
            fields[name] = getattr(law, name)
    penalised = [name for name in _PENALTY_FIELDS if getattr(law, name) is not None]
    if owner == "llamacpp":
        # Its log probabilities leave out tokens that end in the middle of a character.
        fields |= {"return_tokens": True, "verbose": True}
    if owner == "llamacpp" and penalised:
        fields["repeat_last_n"] = FULL_WINDOW  # for all three; the default is 64
        if "repetition_penalty" in penalised:
            fields["repeat_penalty"] = fields.pop("repetition_penalty")
    if law.logit_bias:
        fields["logit_bias"] = {str(token): value for token, value in law.logit_bias}
    if law.bad_words:
        assert pair is not None  # only a target declares words
        texts = [pair.tokenizer.decode(list(word)).strip() for word in law.bad_words]
        fields["bad_words"] = list(dict.fromkeys(texts))
    if law.min_tokens:
        fields["min_new_tokens" if owner == "sglang" else "min_tokens"] = law.min_tokens
    return fields | dict(endpoint.extra_body)


_PENALTY_FIELDS = ("repetition_penalty", "presence_penalty", "frequency_penalty")
_LAW_FIELDS = ("top_k", "min_p", "typical_p", *_PENALTY_FIELDS)
