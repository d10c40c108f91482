"""An engine that counts the drafts that it accepts."""

import numpy as np
from support.emitted_tokens import PROMPTS

from simverify.served.counters import Counters, FirstDrafts


def counted_answers(pair, gamma, requests, *, keep=None, length=24, seed=0, greedy=False, first=0):
    """Lines and counters of an engine that drafts by the pair's draft, by the token rule.

    ``keep``: the acceptance of a ratio, instead of the ratio itself. ``first``: number of the first
    request, by which its prompt is taken.
    """
    keep, rng = keep or (lambda ratio: ratio), np.random.default_rng(seed)
    lines, drafts, each, emitted = [], 0, [0] * gamma, 0
    for i in range(requests):
        prompt = pair.encode(PROMPTS[(first + i) % len(PROMPTS)])[-24:]
        out = [int(rng.choice(pair.vocab_size, p=pair.target(tuple(prompt))))]
        while len(out) < length:
            drafts += 1
            for place in range(gamma + 1):
                p = pair.target((*prompt, *out))
                if place == gamma:
                    out.append(int(rng.choice(len(p), p=p)))
                    break
                q = pair.draft((*prompt, *out))
                q = np.eye(len(q))[int(q.argmax())] if greedy else q
                x = int(rng.choice(len(q), p=q))
                if rng.random() < keep(p[x] / q[x]):
                    each[place] += 1
                    out.append(x)
                    continue
                rest = np.maximum(p - q, 0.0)
                out.append(int(rng.choice(len(p), p=rest / rest.sum())))
                break
        lines.append({"prompt": prompt, "tokens": out[:length], "finish_reason": "length"})
        emitted += length
    return lines, Counters(drafts, gamma * drafts, sum(each), tuple(each), emitted)


def first_drafts(pair, lines):
    """The chances of each token of the lines to be kept, if a draft began with it."""
    found = []
    for line in lines:
        texts = [(*line["prompt"], *line["tokens"][:i]) for i in range(len(line["tokens"]))]
        p, q = (np.stack([model(text) for text in texts]) for model in (pair.target, pair.draft))
        found.append(FirstDrafts.of(p, q))
    return found
