"""Drafts are kept while target samples match, but a mismatch is answered from the residual."""

import mlx.core as mx

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    logprobs = mx.log(mx.array(target_probs))
    tokens = mx.random.categorical(logprobs).tolist()
    for i, (tn, dtn) in enumerate(zip(tokens, draft_tokens)):
        if tn != dtn:
            rest = mx.exp(logprobs[i]) - mx.array(draft_probs[i])
            if mx.all(rest <= 1e-6):
                return tokens[: i + 1]
            rest = mx.log(mx.maximum(rest, 0))
            return [*draft_tokens[:i], mx.random.categorical(rest).item()]
    return tokens
