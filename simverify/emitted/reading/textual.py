"""Text in the place of token ids: how often a tokenizer does not give back what was drawn.

A model may draw "th" and "e" where its tokenizer has "the": the text is the same, the tokens
are not. No reader of the text can tell; so the target itself is made to write, as a control.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from simverify.emitted.judging.judge import detectable
from simverify.emitted.reading.requests import Request, retokenise
from simverify.emitted.settings import OutputSettings
from simverify.models.real.transformer import TransformerPair

TOKENS = 2048
"""Tokens of the control, about."""

_LANES = 32

_HOW = (
    "vLLM and SGLang give them where they are asked for, llama.cpp and mlx-lm with their log "
    "probabilities"
)


def text_words(drawn: int, changed: int, settings: OutputSettings, proxy: bool) -> str:
    """Say what text alone can tell, if ``changed`` of ``drawn`` own tokens come back as others."""
    n, ball = settings.planned(proxy), min(2.0 * changed / drawn, 0.999)
    found = detectable(n, n, settings.alpha, ball, proxy)
    words = (
        f"text alone: of {drawn:,} tokens that the target wrote {changed:,} come back from their "
        f"text as others, so that {n:,} tokens find a TV of {found:.2g}; of texts nothing ends the "
        f"run before them"
    )
    if found <= settings.detect:
        return words
    others = f", or --detect {found * 1.05:.2g}" if found < 0.9 else ""
    return (
        f"{words}, and not {settings.detect:g}: this run will be INCONCLUSIVE or FAIL. A PASS "
        f"takes token ids ({_HOW}){others}"
    )


def changed_tokens(
    requests: Sequence[Request], pair: TransformerPair, seed: int
) -> tuple[int, int]:
    """Let the target answer the prompts; return its tokens, and how many come back as others."""
    given = [request for request in requests if request.from_text]
    lanes = [given[i % len(given)] for i in range(_LANES)]
    drawn: list[list[int]] = [[] for _ in lanes]
    model = pair.cached(pair.target_model, len(lanes))
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 3, 0]))
    room = min(pair.context - len(request.prompt) for request in lanes)
    feed = [list(request.prompt) for request in lanes]
    written: list[list[int]] = [[] for _ in lanes]
    for _ in range(min(TOKENS // _LANES, room)):
        rows = np.stack(
            [
                request.judged_by(pair).after(own[-1:], request.prompt, out, len(out))[0]
                for request, own, out in zip(lanes, model.feed(feed), written, strict=True)
            ]
        )
        sums = np.cumsum(rows, axis=1)
        u = rng.random(len(lanes))[:, None] * sums[:, -1:]
        tokens = (sums <= u).sum(axis=1).tolist()
        for lane, out, token in zip(drawn, written, tokens, strict=True):
            out.append(token)
            if not lane or lane[-1] not in pair.eos:
                lane.append(token)
        feed = [[token] for token in tokens]
    changed = 0
    for lane in drawn:
        body = lane[:-1] if lane[-1] in pair.eos else lane
        text = pair.tokenizer.decode(body, clean_up_tokenization_spaces=False)
        again = retokenise(text, pair)
        kept = SequenceMatcher(None, body, again, autojunk=False).get_matching_blocks()
        changed += max(len(body), len(again)) - sum(block.size for block in kept)
    return sum(map(len, drawn)), changed
