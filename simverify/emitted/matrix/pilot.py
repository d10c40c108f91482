"""What the target says of the prompts, by which the values of the cells are chosen."""

from collections.abc import Iterator, Sequence

from simverify.emitted.law import Law
from simverify.emitted.law.words import fields_of
from simverify.emitted.matrix.cells import Pilot
from simverify.emitted.matrix.ways import Seen
from simverify.emitted.reading.chat import Prompt, prompt_ids
from simverify.emitted.reading.requests import Request
from simverify.emitted.rescoring import logits_before
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

_PILOT = 12
"""Prompts whose rows choose the values."""

_BANNED = 8
"""Words of the cell that bans some."""


def pilot_of(prompts: Sequence[Prompt], pair: TransformerPair) -> Pilot:
    """Rows on the later halves of the first prompts, and the likeliest words there."""
    ids = [prompt_ids(prompt, pair) for prompt in prompts[:_PILOT]]
    requests = [Request(own[: max(len(own) // 2, 1)], own[max(len(own) // 2, 1) :]) for own in ids]
    requests = [request for request in requests if request.tokens]
    if not requests:
        raise UsageError("prompts: all are of one token: expected some of two or more")
    found = logits_before(pair, pair.target_model, requests)
    seen = [Seen(r, rows, None) for r, rows in zip(requests, found, strict=True)]
    mean = sum(own.p(Law()).sum(axis=0) for own in seen)
    special = {*pair.eos, *getattr(pair.tokenizer, "all_special_ids", ())}
    ranked = [int(t) for t in (-mean).argsort() if int(t) not in special]
    return Pilot(
        seen,
        tuple(ranked[:50]),
        tuple(sorted(pair.eos)),
        tuple(dict.fromkeys(_words(ranked, pair))),
    )


def _words(ranked: Sequence[int], pair: TransformerPair) -> Iterator[tuple[int, ...]]:
    """Yield the ids of the likeliest words that a server reads from their texts as one token."""
    found = 0
    for token in ranked[:200]:
        text = pair.tokenizer.decode([token]).strip()
        if not text or "\ufffd" in text:
            continue
        words = fields_of({"bad_words": [text]}, "matrix", pair)["bad_words"]
        if (token,) in words:
            yield from words
            found += 1
        if found == _BANNED:
            return
