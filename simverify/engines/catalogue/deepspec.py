"""DeepSpec: ``verify_draft_tokens``, which asks the target itself.

Takes the draft's probabilities and computes in float32.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_names, load_pieces
from simverify.engines.fake_models import BOS_TOKEN

DEEPSPEC_FUNCTION, DEEPSPEC_PROPOSAL_CLASS = "verify_draft_tokens", "DraftProposal"
DEEPSPEC_HELPERS = ("gather_token_probs", "logits_to_probs", "sample_from_probs", "sample_residual")


def load_deepspec(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable."""
    given = load_names(path.parents[1] / "utils" / "sampling.py", DEEPSPEC_HELPERS)
    pieces = load_pieces(path, [DEEPSPEC_FUNCTION, DEEPSPEC_PROPOSAL_CLASS], **given)
    rule, proposal = getattr(pieces, DEEPSPEC_FUNCTION), getattr(pieces, DEEPSPEC_PROPOSAL_CLASS)

    def verify(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        gamma = draft_tokens.shape[1]
        ids = draft_tokens.new_full((1, gamma + 1), BOS_TOKEN)
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
        function=DEEPSPEC_FUNCTION,
        **BLOCK_DEFAULTS,
        loader=load_deepspec,
        repository="https://github.com/deepseek-ai/DeepSpec",
        commit="afdfa7c",
        parameters=(
            "target_model",
            "proposal",
            "position_ids",
            "start",
            "past_key_values_target",
            "temperature",
            "max_proposal_tokens",
        ),
    ),
)
