from support.engine_doubles import check_double

DOUBLE = """
import functools

import mlx.core as mx
import mlx.nn as nn
from transformers import PreTrainedTokenizer

from .models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache

generation_stream = mx.new_thread_local_stream(mx.default_device())


def speculative_generate_step(prompt, model: nn.Module, draft_model: nn.Module,
                              stream=generation_stream, *, num_draft_tokens=2, max_tokens=256,
                              sampler=None, prompt_cache=None):
    cache, draft_cache = make_prompt_cache(model), make_prompt_cache(draft_model)
    assert can_trim_prompt_cache(cache)

    def sampled(model, ids, cache):
        logits = model(ids[None], cache=cache)[0]
        return sampler(logits - mx.logsumexp(logits, axis=-1, keepdims=True))

    count, y = 0, prompt.astype(mx.uint32)
    with mx.stream(stream):
        model(y[:-1][None], cache=cache)
        draft_model(y[:-1][None], cache=draft_cache)
        y = y[-1:]
        while count < max_tokens:
            drafts, last = [], y
            for _ in range(min(max_tokens - count, num_draft_tokens)):
                last = sampled(draft_model, last, draft_cache)
                drafts += last.tolist()
            ids = mx.concatenate([y, mx.array(drafts, mx.uint32)])
            tokens = sampled(model, ids, cache).tolist()
            mx.eval(tokens)
            n = 0
            while n < len(drafts) and tokens[n] == drafts[n] and count < max_tokens:
                yield tokens[n], None, True
                n, count = n + 1, count + 1
            if count < max_tokens:
                yield tokens[n], None, False
                count += 1
            return
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("mlx-lm", tmp_path, DOUBLE, "yield tokens[n], None, False",
                 "yield drafts[n] if n < len(drafts) else 0, None, False", gamma=1)  # fmt: skip
