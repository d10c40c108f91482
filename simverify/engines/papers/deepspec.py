"""DeepSpec: ``verify_draft_tokens``, which asks the target itself.

Takes the draft's probabilities and computes in float32.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_names, load_pieces
from simverify.engines.loading.rows_model import BOS

FUNCTION, PROPOSAL = "verify_draft_tokens", "DraftProposal"
HELPERS = ("gather_token_probs", "logits_to_probs", "sample_from_probs", "sample_residual")


def load(path: Path) -> Verify:
    """Return the function as a ``verify`` callable."""
    given = load_names(path.parents[1] / "utils" / "sampling.py", HELPERS)
    pieces = load_pieces(path, [FUNCTION, PROPOSAL], **given)
    rule, proposal = getattr(pieces, FUNCTION), getattr(pieces, PROPOSAL)

    def verify(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        gamma = draft_tokens.shape[1]
        ids = draft_tokens.new_full((1, gamma + 1), BOS)
        ids[:, 1:] = draft_tokens
        return rule(
            target_model=lambda **_: SimpleNamespace(logits=target),
            proposal=proposal(gamma, ids, draft.exp()),
            position_ids=ids,
            start=0,
            past_key_values_target=None,
            temperature=1.0,
            max_proposal_tokens=gamma,
        ).committed_tokens

    return as_verify(verify, Signature(arrays="torch", logits=True))


ENGINES = (
    Engine(
        name="deepspec",
        package="deepspec",
        source="eval/base_evaluator.py",
        function=FUNCTION,
        **BLOCK,
        loader=load,
        repository="https://github.com/deepseek-ai/DeepSpec",
        commit="afdfa7c",
        parameters=("target_model", "proposal", "position_ids", "start",
                    "past_key_values_target", "temperature", "max_proposal_tokens"),
    ),
)  # fmt: skip
