"""ExLlamaV2: ``_gen_single_token_speculative`` of its streaming generator: a token a call.

It drafts greedily, and keeps the draft and the target's rows between calls: a rule with state.
Its sampler is C++ and is given ``random.random()``; an inverse distribution function stands for it.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.rows_model import BOS, RowsModel, prompt
from simverify.engines.loading.stubs import torch

METHOD, CLASS = "_gen_single_token_speculative", "ExLlamaV2StreamingGenerator"
GREEDY = SimpleNamespace(greedy=True)
SAMPLING = SimpleNamespace(greedy=False, greedy_clone=lambda: GREEDY)
NOTHING = ("future_tokens", "future_logits", "input_mask", "position_offsets", "tokenizer",
           "active_loras", "current_blocked_tokens", "filters", "filter_prefer_eos")  # fmt: skip
ZERO = ("total_draft_tokens", "accepted_draft_tokens", "total_tokens", "return_top_tokens",
        "speculative_prob_threshold")  # fmt: skip
"""What the method finds in its generator at the start."""


def sample(logits: Any, settings: Any, ids: Any, u: float, *_: Any, **__: Any) -> tuple[Any, ...]:
    """Return the likeliest token (1, 1), or the one at ``u``, no top tokens, 1, and no end."""
    probs = logits.reshape(-1).exp().numpy()
    found = probs.argmax() if settings.greedy else np.searchsorted(np.cumsum(probs), u, "right")
    return torch.tensor([[int(found)]]), None, None, 1.0, False


class Model(RowsModel):
    """A model whose cache is a list of tokens and a place in it."""

    def forward(self, ids: Any, cache: Any, **_: Any) -> Any:
        """Return the logits (1, L, V) of new ids (1, L)."""
        first = cache.current_seq_len
        # The draft's cache has a hole after a draft that was kept whole: its last token.
        cache.tokens += [BOS] * (first - len(cache.tokens))
        cache.current_seq_len += ids.shape[1]
        return self.continued(cache.tokens, ids, first)


def load(path: Path) -> Callable[..., Any]:
    """Return what builds the rule."""
    sampler = SimpleNamespace(sample=sample)
    call = load_function(path, f"{CLASS}.{METHOD}", ExLlamaV2Sampler=sampler)

    class Rule:
        """The generator's state, of one generation."""

        def reset(self) -> None:
            unset = dict.fromkeys(NOTHING) | dict.fromkeys(ZERO, 0)
            self.state = SimpleNamespace(**unset, num_speculative_tokens=None)

        def step(self, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
            state, ids = self.state, prompt(prefix)
            if state.num_speculative_tokens is None:
                # The prompt but its end is cached.
                state.cache, state.draft_cache = (_cache(ids[0, :-1].tolist()) for _ in range(2))
            state.model, state.draft_model = Model(target, prefix), Model(draft, prefix)
            state.sequence_ids, state.num_speculative_tokens = ids, gamma
            return [int(call(state, SAMPLING)[0])]

    return Rule


def _cache(tokens: list[int]) -> SimpleNamespace:
    return SimpleNamespace(tokens=tokens, current_seq_len=len(tokens))


ENGINES = (
    Engine(
        name="exllamav2",
        package="exllamav2",
        source="generator/streaming.py",
        function=f"{CLASS}.{METHOD}",
        **LOOP,
        loader=load,
        versions=">=0.3.2,<0.4",
        parameters=("gen_settings",),
    ),
)
