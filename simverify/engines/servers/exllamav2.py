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

METHOD = "_gen_single_token_speculative"
CLASS = "ExLlamaV2StreamingGenerator"
GREEDY = SimpleNamespace(greedy=True)
SAMPLING = SimpleNamespace(greedy=False, greedy_clone=lambda: GREEDY)


class Sampler:
    """Takes the most likely token, or the one at ``u`` of the distribution function."""

    @staticmethod
    def sample(
        logits: Any, settings: Any, ids: Any, u: float, *_: Any, **__: Any
    ) -> tuple[Any, ...]:
        """Return the token (1, 1), nothing for the top tokens, a probability, and no end."""
        probs = logits.reshape(-1).exp().numpy()
        if settings.greedy:
            token = probs.argmax()
        else:
            token = np.searchsorted(np.cumsum(probs), u, side="right")
        return torch.tensor([[int(token)]]), None, None, 1.0, False


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
    call = load_function(path, f"{CLASS}.{METHOD}", ExLlamaV2Sampler=Sampler)

    class Rule:
        """The generator's state, of one generation."""

        def reset(self) -> None:
            self.state: Any = None

        def step(self, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
            self.state = self.state or _generator(prefix, gamma)
            self.state.model, self.state.draft_model = Model(target, prefix), Model(draft, prefix)
            self.state.sequence_ids = prompt(prefix)
            return [int(call(self.state, SAMPLING)[0])]

    return Rule


def _generator(prefix: Any, gamma: int) -> SimpleNamespace:
    """Return what the method finds in its generator at the start, the prompt but its end cached."""

    def cache() -> SimpleNamespace:
        return SimpleNamespace(tokens=[BOS, *prefix][:-1], current_seq_len=len(prefix))

    nothing = ("future_tokens", "future_logits", "input_mask", "position_offsets", "tokenizer",
               "active_loras", "current_blocked_tokens")  # fmt: skip
    zero = ("total_draft_tokens", "accepted_draft_tokens", "total_tokens", "return_top_tokens",
            "speculative_prob_threshold")  # fmt: skip
    return SimpleNamespace(
        **dict.fromkeys(nothing), **dict.fromkeys(zero, 0), num_speculative_tokens=gamma,
        cache=cache(), draft_cache=cache(), filters=[], filter_prefer_eos=False,
    )  # fmt: skip


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
