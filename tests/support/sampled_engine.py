"""Answers of an engine that samples by any rows, a token at a time."""

import numpy as np
from support.emitted_tokens import PROMPTS

from simverify.served.requests import Request

LANES = 64


def sampled_answers(pair, rows, tokens, *, length=32, seed=0, prompts=PROMPTS):
    """Requests of ``tokens`` tokens or more, to the prompts in turn from a random one on.

    ``rows``: those of :meth:`Law.after`, or such as take what it does; it is given the last two.
    """
    rng = np.random.Generator(np.random.Philox(key=seed))
    ids = [tuple(pair.encode(text)) for text in prompts]
    start, answers, n = int(rng.integers(len(ids))), [], 0
    while n < tokens:
        count = min(LANES, -(-(tokens - n) // length))
        asked = [ids[(start + len(answers) + i) % len(ids)] for i in range(count)]
        model, out = pair.cached(pair.target_model, count), [[] for _ in asked]
        seen, feed = [[] for _ in asked], [list(prompt) for prompt in asked]
        for _ in range(length):
            for lane, (logits, prompt) in enumerate(zip(model.feed(feed), asked, strict=True)):
                own = out[lane]
                feed[lane] = own[-1:]
                if own and own[-1] in pair.eos:
                    continue
                seen[lane].append(logits[-1])
                row = rows(np.array(seen[lane][-2:]), prompt, own, max(len(own) - 1, 0))[-1]
                own.append(int(rng.choice(len(row), p=row / row.sum())))
                feed[lane] = own[-1:]
        answers += [Request(prompt, tuple(own)) for prompt, own in zip(asked, out, strict=True)]
        n = sum(len(request.tokens) for request in answers)
    return answers
