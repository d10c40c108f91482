"""LMDeploy: ``DefaultRejectionSamplingImpl.forward`` of its PyTorch engine.

Takes the target's logits and the draft's probabilities, with the bonus token ready drawn by the
caller; draws from torch's global generator. Rejected slots are -1.
"""

from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify, draw_bonus
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import load_pieces, torch

LMDEPLOY_CLASS = "DefaultRejectionSamplingImpl"


def load_lmdeploy(path: Path) -> VerifyFunction:
    """Return the method as a ``verify`` callable; the bonus token is drawn here, as its caller."""
    rule = load_pieces(
        path, [LMDEPLOY_CLASS], RejectionSamplingImpl=object, PLACEHOLDER_TOKEN_ID=-1
    )
    impl = getattr(rule, LMDEPLOY_CLASS)()

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        bonus = draw_bonus(target[:, -1].softmax(-1), batch)[:, 0]
        greedy = torch.tensor(batch.greedy) if batch.greedy.any() else None
        rows = {"is_greedy": greedy, "draft_probs": None if draft is None else draft.exp()}
        return impl.forward(target[:, :-1], tokens, bonus, **rows)[0]

    signature = Signature(arrays="torch", logits=True, requests=True)
    return as_verify(sample, signature, "padded,greedy,one-hot")


ENGINES = (
    Engine(
        name="lmdeploy",
        package="lmdeploy",
        source="pytorch/backends/default/rejection_sampling.py",
        function=f"{LMDEPLOY_CLASS}.forward",
        **BLOCK_DEFAULTS,
        loader=load_lmdeploy,
        versions=">=0.18,<0.19",
        parameters=("target_logits", "draft_token_ids", "is_greedy", "draft_probs"),
    ),
)
