"""What an answer says against itself, or against what was asked: its ends, counts, ids, values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simverify.models.distribution import flat_request
from simverify.models.transformer import TransformerPair

_FAULTS = {
    "vocabulary": "hold ids that are no tokens of the target",
    "end": "go on after their end-of-sequence token",
    "stop": "go on after their stop string",
    "short": "ended by finish_reason length before the max_tokens that were asked for",
    "long": "are longer than the max_tokens that were asked for",
    "usage": "hold another number of tokens than their usage counts",
    "nan": "have a log probability that is not a number",
}
"""Kinds that no right server has, each with what it says of answers."""

_OPEN = {
    "end?": (
        "go on after an end-of-sequence token, and nothing says what was asked for: write "
        "ignore_eos true in lines that asked for it"
    ),
    "unended?": (
        "have fewer tokens than max_tokens, no end-of-sequence token and no finish_reason: write "
        "how each ended"
    ),
    "stop?": (
        "ended by finish_reason stop, and their ids show neither the end-of-sequence token nor a "
        "stop that was asked for: keep all ids and the stop_reason"
    ),
    "usage?": (
        "have fewer log probabilities than their usage counts tokens, as llama.cpp's leave out "
        "parts of characters: ask for all ids (return_tokens and verbose, or return_token_ids)"
    ),
    "short?": (
        "ended by finish_reason length at the same number of tokens, below max_tokens: a limit "
        "of the server's own, or one token too early; ask for fewer max_tokens"
    ),
}
"""Kinds that a right server may have, so that there is no verdict."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict")

_LAST_BLOCK = 32
"""Tokens from a stop string to the end, at most, where that string ended the answer: vLLM looks for
it once a step and keeps all that the step emitted."""


class AnswerFault(NamedTuple):
    """A ``kind`` of fault of one answer, with its place in ``words``.

    ``length``: tokens of the answer, ``total`` with those of its prompt.
    """

    kind: str
    words: str
    length: int = 0
    total: int = 0


class AskedEnd:
    """What a line says of how its answer was to end.

    ``limit``: the most tokens; None for no limit, which is llama.cpp's -1 too. ``stops``: stop
    strings. ``stop_ids``: tokens that end it. ``ignores_end``: whether the end-of-sequence token
    does not; ``heeds_end``: whether it says that it does. ``least``: tokens before any stop counts.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        asked = value.get("asked")
        fields = flat_request(value)
        if isinstance(asked, Mapping):
            fields = {**flat_request(asked), **fields}
        limits = [fields[name] for name in _LIMITS if type(fields.get(name)) is int]
        self.limit: int | None = min((n for n in limits if n >= 0), default=None)
        stop = fields.get("stop")
        listed = stop if isinstance(stop, list) else [stop]
        ended = [value.get("stop_reason"), value.get("matched_stop")]
        self.asked_stops = tuple(s for s in listed if isinstance(s, str) and s)
        self.stops = (*self.asked_stops, *(s for s in ended if isinstance(s, str) and s))
        ids = fields.get("stop_token_ids")
        self.stop_ids = tuple(ids) if isinstance(ids, list) else ()
        self.ignores_end = bool(fields.get("ignore_eos"))
        # Where all that was asked for stands in the line, it was not asked for more.
        self.heeds_end = isinstance(asked, Mapping) or fields.get("ignore_eos") is False
        least = fields.get("min_tokens", fields.get("min_new_tokens"))
        self.least = least if type(least) is int else 0

    def holds_stop(self, tokens: Sequence[int], pair: TransformerPair) -> bool:
        """Whether the text of tokens holds a stop string, with special tokens and without."""
        shown = list(tokens[self.least :])
        texts = [
            pair.tokenizer.decode(shown, skip_special_tokens=s, clean_up_tokenization_spaces=False)
            for s in (True, False)
        ]
        return any(all(stop in text for text in texts) for stop in self.stops)


def find_faults(
    value: Mapping[str, Any],
    where: str,
    prompt: Sequence[int],
    values: Sequence[Any] | None,
    pair: TransformerPair,
) -> tuple[int, tuple[AnswerFault, ...]]:
    """Return how many of an answer's ids can be judged, and its faults.

    ``values``: the log probabilities as they stand there. Ids from the first that is no token on,
    and those after an end-of-sequence token that ends the answer, are not judged.
    """
    ids, asked, found = value["tokens"], AskedEnd(value), []

    def note(kind: str, words: str) -> None:
        found.append(AnswerFault(kind, f"{where}: {words}", len(ids), len(prompt) + len(ids)))

    n = next((i for i, token in enumerate(ids) if not 0 <= token < pair.vocab_size), len(ids))
    if n < len(ids):
        note("vocabulary", f"id {ids[n]} is token {n + 1}, of a vocabulary of {pair.vocab_size:,}")
    whole = n == len(ids)
    end = next((i for i, token in enumerate(ids[:n]) if token in pair.eos), n)
    if end < len(ids) - 1 and not asked.ignores_end and end < n:
        kind = "end" if asked.heeds_end else "end?"
        note(kind, f"id {ids[end]} is token {end + 1} of {len(ids)}")
        n = end + 1
    ended = bool(ids) and ids[-1] in (*pair.eos, *asked.stop_ids)
    reason, cut = value.get("finish_reason"), "cut" in value
    before = ids[: -_LAST_BLOCK if reason == "stop" else -1]
    if whole and asked.stops and asked.holds_stop(before, pair):
        note("stop", f"{asked.stops[0]!r} ends before token {len(before)} of {len(ids)}")
    if asked.limit is not None and len(ids) > asked.limit and not cut:
        note("long", f"{len(ids)} tokens, {asked.limit} were asked for")
    short = asked.limit is not None and len(ids) < asked.limit and not ended
    if whole and short and len(prompt) + len(ids) < pair.context:
        if reason == "length":
            note("short", f"{len(ids)} tokens, {asked.limit} were asked for")
        elif reason is None and not asked.stops:
            note("unended?", f"{len(ids)} tokens, {asked.limit} were asked for")
    usage = value.get("usage")
    count = value.get("completion_tokens")
    if count is None and isinstance(usage, Mapping):
        count = usage.get("completion_tokens")
    if type(count) is int and not cut:
        # The end-of-sequence token may be counted and not shown, or shown and not counted.
        more = reason not in (None, "length") and not ended
        if not len(ids) - ended <= count <= len(ids) + more:
            kind = "usage"
            if count > len(ids) and more and asked.asked_stops:
                kind = "stop?"  # the ids may leave out those of the stop string
            elif count > len(ids) and value.get("ids_of") == "logprobs":
                kind = "usage?"
            note(kind, f"usage counts {count} tokens, there are {len(ids)}")
    if values is not None:
        odd = next((i for i, x in enumerate(values) if _is_nan(x)), None)
        if odd is not None:
            note("nan", f"{values[odd]} for token {odd + 1}")
    return n, tuple(found)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and (math.isnan(value) or value == math.inf)


_SINGULAR = {"hold": "holds", "go": "goes", "are": "is", "have": "has"}


def _singular(words: str) -> str:
    """Return words that begin with the verb of several answers for one of them."""
    verb, _, rest = words.partition(" ")
    return f"{_SINGULAR.get(verb, verb)} {rest.replace('their', 'its')}"


def describe_faults(
    faults: Sequence[Sequence[AnswerFault]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return findings on the faults of all answers, and what leaves no verdict, in words."""
    every = [fault for answer in faults for fault in answer]
    short = [fault for fault in every if fault.kind == "short"]
    # A server's own limit, of an answer or of its context, looks like this.
    limited = short and 1 in (len({f.length for f in short}), len({f.total for f in short}))
    kinds: dict[str, list[AnswerFault]] = {}
    for fault in every:
        kind = "short?" if fault.kind == "short" and limited else fault.kind
        kinds.setdefault(kind, []).append(fault)

    def words(table: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(
            f"answers: {len(kinds[kind]):,} of {len(faults):,} "
            f"{_singular(said) if len(kinds[kind]) == 1 else said} ({kinds[kind][0].words})"
            for kind, said in table.items()
            if kind in kinds
        )

    return words(_FAULTS), words(_OPEN)
