"""superconductor-vae: ``SpeculativeDecoder._speculative_sampling``.

It is told the drafts' own log probabilities and not the draft's rows. After a full acceptance it
leaves the next token to a forward pass of its caller, which is drawn here.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_function, torch

SUPERCONDUCTOR_METHOD = "_speculative_sampling"
SUPERCONDUCTOR_DECODER_SETTINGS = SimpleNamespace(temperature=1.0)


def load_superconductor(path: Path) -> VerifyFunction:
    """Return the method as a ``verify`` callable."""
    rule = load_function(path, f"SpeculativeDecoder.{SUPERCONDUCTOR_METHOD}", PAD_IDX=-1)

    def verify(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        chances = draft.gather(2, draft_tokens[:, :, None])[:, :, 0]
        accepted, counts, last = rule(
            SUPERCONDUCTOR_DECODER_SETTINGS, draft_tokens, chances, target[:, :-1]
        )
        tokens = accepted[0, : int(counts[0])].tolist()
        if len(tokens) == draft_tokens.shape[1]:
            last = torch.multinomial(target[:, -1].exp(), 1)[:, 0]
        return [[*tokens, int(last[0])]]

    return as_verify(verify, Signature(arrays="torch", logits=True))


ENGINES = (
    Engine(
        name="superconductor",
        package="superconductor",
        source="models/speculative_decoder.py",
        function=f"SpeculativeDecoder.{SUPERCONDUCTOR_METHOD}",
        **BLOCK_DEFAULTS,
        loader=load_superconductor,
        repository="https://github.com/jamesconde/superconductor-vae",
        commit="046cf0c",
        parameters=("draft_tokens", "draft_log_probs", "target_logits"),
    ),
)
