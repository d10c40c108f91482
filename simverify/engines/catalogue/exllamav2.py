"""ExLlamaV2: ``_gen_single_token_speculative`` of its streaming generator: a token a call.

It drafts greedily, and keeps the draft and the target's rows between calls: a rule with state.
Its sampler is C++ and is given ``random.random()``; an inverse distribution function stands for it.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import SAMPLING_SETTINGS, CoinSampler, load_function
from simverify.engines.fake_models import PositionedCache, PositionedCacheModel, make_prompt

EXLLAMAV2_METHOD, EXLLAMAV2_CLASS = "_gen_single_token_speculative", "ExLlamaV2StreamingGenerator"
EXLLAMAV2_NONE_ATTRIBUTES = (
    "future_tokens",
    "future_logits",
    "input_mask",
    "position_offsets",
    "tokenizer",
    "active_loras",
    "current_blocked_tokens",
    "filters",
    "filter_prefer_eos",
)
EXLLAMAV2_ZERO_ATTRIBUTES = (
    "total_draft_tokens",
    "accepted_draft_tokens",
    "total_tokens",
    "return_top_tokens",
    "speculative_prob_threshold",
)
"""What the method finds in its generator at the start."""


def load_exllamav2(path: Path) -> Callable[..., Any]:
    """Return what builds the rule."""
    call = load_function(
        path, f"{EXLLAMAV2_CLASS}.{EXLLAMAV2_METHOD}", ExLlamaV2Sampler=CoinSampler
    )

    class Rule:
        """The generator's state, of one generation."""

        def reset(self) -> None:
            self.state = SimpleNamespace(
                **dict.fromkeys(EXLLAMAV2_NONE_ATTRIBUTES),
                **dict.fromkeys(EXLLAMAV2_ZERO_ATTRIBUTES, 0),
            )

        def step(self, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
            state, ids = self.state, make_prompt(prefix)
            if not hasattr(state, "cache"):
                seen = ids[0, :-1].tolist()  # The prompt but its end is cached.
                state.cache, state.draft_cache = map(PositionedCache, [seen, seen])
            state.model, state.draft_model = (
                PositionedCacheModel(of, prefix) for of in (target, draft)
            )
            state.sequence_ids, state.num_speculative_tokens = ids, gamma
            return [int(call(state, SAMPLING_SETTINGS)[0])]

    return Rule


ENGINES = (
    Engine(
        name="exllamav2",
        package="exllamav2",
        source="generator/streaming.py",
        function=f"{EXLLAMAV2_CLASS}.{EXLLAMAV2_METHOD}",
        **LOOP_DEFAULTS,
        loader=load_exllamav2,
        versions=">=0.3.2,<0.4",
        parameters=("gen_settings",),
    ),
)
