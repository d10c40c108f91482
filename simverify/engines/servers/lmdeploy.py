"""LMDeploy: ``DefaultRejectionSamplingImpl.forward`` of its PyTorch engine.

Takes the target's logits and the draft's probabilities, with the bonus token ready drawn by the
caller; draws from torch's global generator. Rejected slots are -1.
"""

from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.adapting.flat import bonus_of
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_pieces
from simverify.engines.loading.stubs import torch

CLASS = "DefaultRejectionSamplingImpl"


def load(path: Path) -> Verify:
    """Return the method as a ``verify`` callable; the bonus token is drawn here, as its caller."""
    rule = load_pieces(path, [CLASS], RejectionSamplingImpl=object, PLACEHOLDER_TOKEN_ID=-1)
    impl = getattr(rule, CLASS)()

    def sample(tokens: Any, target: Any, draft: Any, draft_len: Any, batch: Any) -> Any:
        bonus = bonus_of(target[:, -1].softmax(-1), batch)[:, 0]
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
        function=f"{CLASS}.forward",
        **BLOCK,
        loader=load,
        versions=">=0.18,<0.19",
        parameters=("target_logits", "draft_token_ids", "is_greedy", "draft_probs"),
    ),
)
