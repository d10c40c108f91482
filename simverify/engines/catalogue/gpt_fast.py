"""gpt-fast: ``speculative_decode``, one block drafted and verified.

At this commit it does not run: its ``sample`` keeps the batch axis, and drafts of shape (k, 1) do
not join the current token. ``gpt-fast-as-is`` is that; ``gpt-fast`` drops the axis, for the rule.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_pieces
from simverify.engines.fake_models import BlockMask, PositionedModel, loop_as_step

GPT_FAST_FUNCTION = "speculative_decode"


class GptFastModel(PositionedModel):
    """Called with the mask before the ids, as its drafts are, or without, as its target is."""

    max_seq_length = 64

    def __call__(self, *given: Any) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V)."""
        return super().__call__(*given[-2:])


def load_gpt_fast(path: Path, *, flat: bool) -> Callable[..., Any]:
    """Return the function as a ``step`` callable; ``flat`` takes the batch axis off its drafts."""
    pieces = load_pieces(path, [GPT_FAST_FUNCTION], create_block_mask=lambda *_, **__: BlockMask())
    rule, drafting = getattr(pieces, GPT_FAST_FUNCTION), pieces.decode_n_tokens

    def flattened(*given: Any, **options: Any) -> Any:
        return [[x.view(-1) for x in each] for each in drafting(*given, **options)]

    if flat:
        vars(pieces)["decode_n_tokens"] = flattened

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        return rule(target, draft, ids[0, -1], ids.shape[1] - 1, gamma)

    return loop_as_step(loop, GptFastModel)


GPT_FAST_AS_IS_ENGINE = Engine(
    name="gpt-fast-as-is",
    package="",
    source="generate.py",
    function=GPT_FAST_FUNCTION,
    **LOOP_DEFAULTS,
    loader=partial(load_gpt_fast, flat=False),
    repository="https://github.com/meta-pytorch/gpt-fast",
    commit="6ecad9b",
    parameters=("model", "draft_model", "cur_token", "input_pos", "speculate_k"),
)
GPT_FAST_NOTE = (
    "the adapter takes the batch axis off its drafts, or it would not run: see gpt-fast-as-is"
)
ENGINES = (
    replace(
        GPT_FAST_AS_IS_ENGINE,
        name="gpt-fast",
        loader=partial(load_gpt_fast, flat=True),
        note=GPT_FAST_NOTE,
    ),
    GPT_FAST_AS_IS_ENGINE,
)
