"""limei1221/speculative_decoding: a round of ``SpeculativeDecoder``, its two methods in a row.

Caches are written in place by the model; here a cache is a list of the tokens in it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_pieces
from simverify.engines.fake_models import RowsModel, loop_as_step

LIMEI_CLASS, LIMEI_CONFIG_CLASS = "SpeculativeDecoder", "SpeculativeConfig"


class LimeiModel(RowsModel):
    """A model that appends what it is fed to the cache that it is handed."""

    def __call__(self, ids: Any, past_key_values: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of the ids (1, L), in a tuple."""
        return (self.continued(past_key_values, ids),)


def load_limei(path: Path) -> Callable[..., Any]:
    """Return a round as a ``step`` callable."""
    pieces = load_pieces(path, [LIMEI_CLASS, LIMEI_CONFIG_CLASS], truncate_kv=None)
    make, configure = getattr(pieces, LIMEI_CLASS), getattr(pieces, LIMEI_CONFIG_CLASS)

    def loop(target: Any, draft: Any, ids: Any, gamma: int) -> Any:
        config = configure(gamma=gamma, temperature=1.0, top_p=1.0, top_k=0)
        decoder = make(target, draft, None, config, "cpu")
        decoder.next_token = ids[:, -1:]
        decoder.draft_kv_cache, decoder.target_kv_cache = (ids[0, :-1].tolist() for _ in range(2))
        accepted, _, token = decoder._verify_draft_tokens(*decoder._generate_draft_tokens())
        return [*accepted[0].tolist(), token.item()]

    return loop_as_step(loop, LimeiModel)


ENGINES = (
    Engine(
        name="limei",
        package="",
        source="speculative_decoding.py",
        function=f"{LIMEI_CLASS}._verify_draft_tokens",
        **LOOP_DEFAULTS,
        loader=load_limei,
        repository="https://github.com/limei1221/speculative_decoding",
        commit="42f2bd1",
        parameters=("draft_tokens", "draft_token_probs"),
    ),
)
