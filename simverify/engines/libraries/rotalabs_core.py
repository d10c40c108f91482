"""rotalabs-accel: ``verify_tokens``, the loop around its rule, which has the same residual.

It takes a target, and of the draft the probability of the drafted tokens alone.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Verify, as_verify
from simverify.engines.libraries.rotalabs import LOGITS, engine
from simverify.engines.loading.pieces import load_function, load_names
from simverify.engines.loading.rows_model import BOS
from simverify.engines.loading.stubs import Anything, torch

FUNCTION = "verify_tokens"


def load(path: Path) -> Verify:
    """Return ``verify_tokens`` on a target that gives the block's rows, and no cache."""
    drawing = load_names(path.parent / "sampling.py", ["sample_from_logits"])
    rule = load_function(path, FUNCTION, **drawing, DynamicCache=Anything("cache").Cache)

    def sample(draft_tokens: Any, target: Any, draft: Any) -> Any:
        out = SimpleNamespace(logits=target[None], past_key_values=None)
        drafted = draft.exp().gather(1, draft_tokens[:, None])[:, 0]
        last = torch.tensor([[BOS]])
        return rule(lambda *_, **__: out, last, draft_tokens, drafted, None, top_p=1.0)[0]

    return as_verify(sample, LOGITS)


TAKEN = ("model", "input_ids", "draft_tokens", "draft_probs", "top_p")
ENGINES = (engine("rotalabs-core", "core", FUNCTION, load, *TAKEN),)
