"""."""

import numpy as np
from support.engine_doubles import check_double, checkout
from support.whole_laws import compare_verify

from simverify.engines import get_engine
from simverify.models.base import MarkovModel

DSPARK_MLX_DOUBLE = """
from types import SimpleNamespace

import mlx.core as mx
import numpy as np


def speculative_sample_accept(draft_tokens, draft_probs, base_probs, rng: mx.array):
    kept = []
    for token, p, q in zip(draft_tokens, base_probs, draft_probs):
        if rng.random() * q[token] >= p[token]:
            p = np.maximum(p - q, 0)
            break
        kept.append(int(token))
    else:
        p = base_probs[-1]
    last = rng.choice(len(p), p=p / p.sum())
    return SimpleNamespace(tokens=np.array([*kept, last]))
"""


def test_the_adapter_gives_the_law_of_what_it_loads_dspark_mlx(tmp_path):
    check_double("dspark-mlx", tmp_path, DSPARK_MLX_DOUBLE, "p = np.maximum(p - q, 0)", "p = q")


TIGHTWAD_DOUBLE = """
import random
from dataclasses import dataclass
from math import exp


@dataclass
class DraftToken:
    token_id: int
    logprob: float


@dataclass
class TargetLogprob:
    token_id: int
    logprob: float
    draft_token_logprob: float | None = None


@dataclass
class VerificationResult:
    accepted_tokens: list
    bonus_token: DraftToken | None = None
    resample_token: DraftToken | None = None


def verify_draft_tokens(draft_tokens, target_logprobs, temperature=0.0):
    assert temperature == 1
    kept = []
    for drafted, target in zip(draft_tokens, target_logprobs):
        if random.random() < exp(target.draft_token_logprob - drafted.logprob):
            kept.append(drafted)
            continue
        return VerificationResult(kept, resample_token=target)
    return VerificationResult(kept, bonus_token=target_logprobs[-1])
"""

# The engine is told no rows. Where what is left of p after q is the top token, and the rows after
# the first are one-hot, a rule needs none.
ROWS = np.array([[0.25, 0.75], [0.75, 0.25]])
MODEL = MarkovModel("told", ROWS[0], np.array([[0, 1], [0, 1.0]]), ROWS[1], ROWS)


def deviation(folder, text):
    verify = get_engine("tightwad").load(checkout(folder, "tightwad", text))
    return compare_verify(verify, MODEL, 1).max_abs_deviation


def test_the_adapter_gives_the_law_of_what_it_loads_tightwad(tmp_path):
    assert deviation(tmp_path / "right", TIGHTWAD_DOUBLE) < 1e-12
    wrong = TIGHTWAD_DOUBLE.replace("target.draft_token_logprob - drafted", "target")
    assert wrong != TIGHTWAD_DOUBLE
    assert deviation(tmp_path / "wrong", wrong) > 0.1


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
