"""Parameters as requests and options write them, read into the fields of a law."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from simverify.emitted.law.law import ORDERS, STAGES
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

ALIASES = {"repeat_penalty": "repetition_penalty", "min_new_tokens": "min_tokens"}
"""Other names that servers have for a parameter."""

NUMBERS = (
    "temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty",
)  # fmt: skip
WHOLE = ("top_k", "min_tokens")
NAMES = (*NUMBERS, *WHOLE, "logit_bias", "bad_words")
"""What a law has, by the names that requests use."""

_WINDOW = "repeat_last_n"

EVERY = 1 << 17
"""Last tokens that llama.cpp is told to count: more than anybody asks for. -1, which stood for all
of them once, its newer servers refuse."""


def said_in(request: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the parameters that a request names, by their names here.

    Raises
    ------
    UsageError
        If one is given twice, or counts a window of tokens that no law here has.
    """
    found: dict[str, Any] = {}
    for name in (*NAMES, *ALIASES):
        value, own = request.get(name), ALIASES.get(name, name)
        if value is None:
            continue
        if own in found and found[own] != value:
            raise UsageError(f"{where} says {own} twice, as {name} too: expected one of them")
        if name == "repeat_penalty" and value != 1 and not _counts_all(request.get(_WINDOW)):
            raise UsageError(
                f"{where} was asked with {name} {json.dumps(value)[:40]}, which counts the last 64 "
                f"tokens alone: ask with {_WINDOW} {EVERY}, which counts all of them"
            )
        found[own] = value
    return found


def _counts_all(window: object) -> bool:
    return type(window) is int and (window == -1 or window >= EVERY)


def fields_of(said: Mapping[str, Any], where: str, pair: TransformerPair) -> dict[str, Any]:
    """Return the fields of a :class:`Law` for parameters by name, each checked.

    Raises
    ------
    UsageError
        If a value is no number, a bias or a word is of no token.
    """
    found: dict[str, Any] = {}
    for name in (*NUMBERS, *WHOLE):
        value = said.get(name)
        if value is None:
            continue
        kinds = (int,) if name in WHOLE else (int, float)
        if type(value) not in kinds or not math.isfinite(value):
            raise UsageError(f"{where} says {name} {json.dumps(value)[:40]}: expected a number")
        found[name] = value if name in WHOLE else float(value)
    if found.get("top_k", 1) <= 0:
        found["top_k"] = None  # servers take 0 or -1 for all tokens
    if found.get("top_p") == 1.0:
        found["top_p"] = None
    if said.get("logit_bias") is not None:
        found["logit_bias"] = _bias_iv(said["logit_bias"], where, pair)
    if said.get("bad_words") is not None:
        found["bad_words"] = _words_iv(said["bad_words"], where, pair)
    if found.get("min_tokens"):
        found["ends"] = tuple(sorted(pair.eos))
    return found


def order_iv(text: str) -> tuple[str, ...]:
    """Return all stages in the order that ``text`` asks for.

    An engine's name, or some stages, comma-separated: those change places among themselves.
    """
    if text in ORDERS:
        return ORDERS[text]
    named = [part.strip().replace("_", "-") for part in text.split(",")]
    known = set(named) <= set(STAGES) and len(set(named)) == len(named) >= 2
    if not known:
        raise UsageError(
            f"order is {text!r}: expected one of {', '.join(ORDERS)}, or two or more of "
            f"{', '.join(STAGES)}, first to last"
        )
    rest = iter(named)
    return tuple(next(rest) if stage in named else stage for stage in STAGES)


def object_iv(text: str, name: str, kind: type[Any]) -> Any:
    """Return the JSON of an option that holds an object or a list."""
    shape = '{"5": -100}' if kind is dict else '["word", [5, 6]]'
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise UsageError(f"{name} is {text[:40]!r}: expected JSON such as {shape}")
    return value


def _bias_iv(value: Any, where: str, pair: TransformerPair) -> tuple[tuple[int, float], ...]:
    pairs = list(value.items()) if isinstance(value, dict) else value
    shape = isinstance(pairs, list) and all(
        isinstance(p, (list, tuple)) and len(p) == 2 for p in pairs
    )
    if not shape:
        raise UsageError(
            f'{where} says logit_bias {json.dumps(value)[:40]}: expected {{"id": addend}}'
        )
    found: dict[int, float] = {}
    for token, addend in pairs:
        try:
            number = int(token)
        except (TypeError, ValueError):
            number = -1
        if not 0 <= number < pair.vocab_size or isinstance(token, (bool, float)):
            raise UsageError(
                f"{where} says logit_bias of {json.dumps(token)[:40]}: expected an id of "
                f"{pair.target_name}, 0 to {pair.vocab_size - 1}"
            )
        if type(addend) not in (int, float) or not math.isfinite(addend):
            raise UsageError(
                f"{where} says logit_bias {json.dumps(addend)[:40]} of {number}: expected a number"
            )
        found[number] = found.get(number, 0.0) + float(addend)
    return tuple(sorted((token, own) for token, own in found.items() if own))


def _words_iv(value: Any, where: str, pair: TransformerPair) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where} says bad_words {json.dumps(value)[:40]}: expected a list")
    found: list[tuple[int, ...]] = []
    for word in value:
        if isinstance(word, str) and word.strip():
            found += _spelt(word, lambda text: pair.tokenizer(text, add_special_tokens=False))
        elif (
            isinstance(word, list) and word
            and all(type(t) is int and 0 <= t < pair.vocab_size for t in word)
        ):  # fmt: skip
            found.append(tuple(word))
        else:
            raise UsageError(
                f"{where} says the bad word {json.dumps(word)[:40]}: expected text, or ids of "
                f"{pair.target_name}"
            )
    return tuple(sorted(set(found)))


def _spelt(word: str, read: Callable[[str], Any]) -> list[tuple[int, ...]]:
    """Ids of a word, and of the same after a blank where that is another first token."""
    bare = tuple(read(word.lstrip()).input_ids)
    spaced = tuple(read(" " + word.lstrip()).input_ids)
    both = spaced[0] != bare[0] and len(spaced) == len(bare)
    return [bare, spaced] if both else [bare]
