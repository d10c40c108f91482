"""As in mlx-lm: a sampler draws from every target row, and drafts are kept while they match."""

import mlx.core as mx

CONTRACT = "verify"


def make_sampler(temp=1.0):
    def sampler(logprobs):
        return mx.random.categorical(logprobs * (1 / temp))

    return sampler


def verify(target_probs, draft_probs, draft_tokens, rng):
    sampler = make_sampler()
    logits = mx.log(mx.array(target_probs))
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    tokens = sampler(logprobs)
    mx.eval(tokens)
    tokens = tokens.tolist()
    n = 0
    while n < len(draft_tokens):
        tn, dtn = tokens[n], draft_tokens[n]
        if tn != dtn:
            break
        n += 1
    return tokens[: n + 1]
