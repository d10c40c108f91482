"""superconductor-vae: ``SpeculativeDecoder._speculative_sampling``.

It is told the drafts' own log probabilities and not the draft's rows. After a full acceptance it
leaves the next token to a forward pass of its caller, which is drawn here.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.stubs import torch

METHOD = "_speculative_sampling"
DECODER = SimpleNamespace(temperature=1.0)


def load(path: Path) -> Verify:
    """Return the method as a ``verify`` callable."""
    rule = load_function(path, f"SpeculativeDecoder.{METHOD}", PAD_IDX=-1)

    def verify(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        chances = draft.gather(2, draft_tokens[:, :, None])[:, :, 0]
        kept, counts, last = rule(DECODER, draft_tokens, chances, target[:, :-1])
        tokens = kept[0, : int(counts[0])].tolist()
        if len(tokens) == draft_tokens.shape[1]:
            last = torch.multinomial(target[:, -1].exp(), 1)[:, 0]
        return [[*tokens, int(last[0])]]

    return as_verify(verify, Signature(arrays="torch", logits=True))


ENGINES = (
    Engine(
        name="superconductor",
        package="superconductor",
        source="models/speculative_decoder.py",
        function=f"SpeculativeDecoder.{METHOD}",
        **BLOCK,
        loader=load,
        repository="https://github.com/jamesconde/superconductor-vae",
        commit="046cf0c",
        parameters=("draft_tokens", "draft_log_probs", "target_logits"),
    ),
)
