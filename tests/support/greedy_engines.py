"""Engines that decode at temperature 0, right ones and ones with a planted fault, as log lines."""

import numpy as np
import torch

from simverify.models.transformer import BUNDLED, Sampling, load_pair, read_prompts

PROMPTS = read_prompts(BUNDLED / "prompts.jsonl")[:12]
SHORT = 24
"""Last tokens of a prompt that are read: enough to write by, and cheap."""

LENGTH = 20


def loaded(dtype="float32"):
    return load_pair("tiny-llama", "tiny-llama", sampling=Sampling(0.0), dtype=dtype)


class Lane:
    """A request while it is decoded: ``prompt`` as the engine reads it, and what was emitted."""

    def __init__(self, prompt):
        self.prompt, self.tokens = tuple(prompt), []

    @property
    def text(self):
        return (*self.prompt, *self.tokens)


def right(lanes, i, pair):
    """The context that lane i is to be read by."""
    return lanes[i].text


def best(i, row, lanes, pair):
    return int(row.argmax())


def rows_of(pair, contexts):
    """Logits after each context; one may be tokens and their positions."""
    if not isinstance(contexts[0][0], tuple):
        return [rows[-1] for rows in pair.cached(pair.target_model, len(contexts)).feed(contexts)]
    with torch.no_grad():
        return [
            pair.target_model(torch.tensor([ids]), position_ids=torch.tensor([places]))
            .logits[0, -1].float().numpy()
            for ids, places in contexts
        ]  # fmt: skip


def decoded(pair, *, read=right, choose=best, prompts=PROMPTS, length=LENGTH, logged=None):
    """Lines of a log: every step reads each lane's context anew, as ``read`` has it.

    ``logged``: prompt ids as they stand in the log, where the engine reads others.
    """
    lanes = [Lane(pair.encode(p)[-SHORT:] if isinstance(p, str) else p) for p in prompts]
    for _ in range(length):
        contexts = [read(lanes, i, pair) for i in range(len(lanes))]
        rows = rows_of(pair, contexts)
        chosen = [choose(i, rows[i], lanes, pair) for i in range(len(lanes))]
        for lane, token in zip(lanes, chosen, strict=True):
            lane.tokens.append(token)
    return [line(pair, own, lane.tokens) for own, lane in
            zip(logged or [lane.prompt for lane in lanes], lanes, strict=True)]  # fmt: skip


def line(pair, prompt, tokens):
    end = next((i for i, token in enumerate(tokens) if token in pair.eos), None)
    if end is None:
        return {"prompt": list(prompt), "tokens": tokens, "finish_reason": "length"}
    return {"prompt": list(prompt), "tokens": tokens[: end + 1], "finish_reason": "stop"}


def drafted(pair, text):
    return int(pair.draft(text).argmax())


def lenient(i, row, lanes, pair):
    """Keeps the draft's token where it is the target's second choice at every fourth place."""
    if len(lanes[i].tokens) % 4 == 3:
        draft = drafted(pair, lanes[i].text)
        if draft in np.argsort(-row)[:2]:
            return draft
    return int(row.argmax())


def third_choice(i, row, lanes, pair):
    """A residual that forgets the target: now and then the third choice."""
    return int(np.argsort(-row)[2 if len(lanes[i].tokens) % 10 == 9 else 0])


def row_before(lanes, i, pair):
    text = lanes[i].text
    return text[:-1] if len(lanes[i].tokens) % 7 == 6 else text


def row_after(lanes, i, pair):
    text = lanes[i].text
    if len(lanes[i].tokens) % 7 == 6:
        return (*text, int(pair.target(text).argmax()))
    return text


def neighbour(lanes, i, pair):
    other = i + 1 if len(lanes[i].tokens) % 6 == 5 and i + 1 < len(lanes) else i
    return lanes[other].text


def token_missing(lanes, i, pair):
    """The first emitted token never reached the cache."""
    lane = lanes[i]
    return (*lane.prompt, *lane.tokens[1:]) if len(lane.tokens) > 1 else lane.text


def stale_draft(lanes, i, pair):
    """A rejected draft's entry stays in the place of the token that was emitted, for one step."""
    lane = lanes[i]
    if len(lane.tokens) < 2:
        return lane.text
    text = lane.text
    draft = drafted(pair, text[:-2])
    return (*text[:-2], draft, text[-1])


def window(lanes, i, pair):
    return lanes[i].text[-16:]


def bos_added(lanes, i, pair):
    return (pair.tokenizer.bos_token_id, *lanes[i].text)


def counted_on(lanes, i, pair):
    """Two rejected drafts keep their positions: from the sixth token on all stand too far on."""
    lane = lanes[i]
    early = len(lane.prompt) + min(len(lane.tokens), 5)
    later = range(early + 2, early + 2 + len(lane.text) - early)
    return lane.text, (*range(early), *later)


def answer_back(lanes, i, pair):
    """The answer's first token stands where the prompt's last does."""
    lane, m = lanes[i], len(lanes[i].prompt)
    return lane.text, (*range(m), *range(m - 1, m - 1 + len(lane.tokens)))


FAULTS = {
    "lenient": ({"choose": lenient}, "verifier"),
    "third choice": ({"choose": third_choice}, "verifier"),
    "row before": ({"read": row_before}, "cache or rows"),
    "row after": ({"read": row_after}, "cache or rows"),
    "another request's row": ({"read": neighbour}, "cache or rows"),
    "a token missing": ({"read": token_missing}, "cache or rows"),
    "a window": ({"read": window}, "cache or rows"),
    "a rejected draft in the cache": ({"read": stale_draft}, "cache or rows"),
    "positions that rejected drafts keep": ({"read": counted_on}, "cache or rows"),
    "positions one back": ({"read": answer_back}, "cache or rows"),
    "a second BOS": ({"read": bos_added}, "template"),
}
"""Planted faults, and the class that each is of."""
