"""tightwad: ``speculation.verify_draft_tokens`` at temperature 1.

Takes no rows: of the target a server tells its top token, and the logarithm of the probability of
the drafted one. The last target row has no draft; its top token is what follows the block.
"""

import math
from pathlib import Path
from typing import Any

from simverify.engines.adapt import VerifyFunction
from simverify.engines.base import Engine
from simverify.engines.extract import load_pieces

TIGHTWAD_FUNCTION = "verify_draft_tokens"


def load_tightwad(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable: the rows are cut to what a server tells."""
    rule = load_pieces(path, [TIGHTWAD_FUNCTION, "DraftToken", "TargetLogprob"])

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> list[int]:
        tokens = [int(token) for token in draft_tokens]
        drafts = [
            rule.DraftToken(token, _log_probability(row[token]))
            for token, row in zip(tokens, draft_probs, strict=True)
        ]
        targets = [
            rule.TargetLogprob(
                int(row.argmax()), _log_probability(row.max()), _log_probability(row[token])
            )
            for token, row in zip([*tokens, 0], target_probs, strict=True)
        ]
        result = rule.verify_draft_tokens(drafts, targets, temperature=1.0)
        last = result.resample_token or result.bonus_token
        return [*(token.token_id for token in result.accepted_tokens), last.token_id]

    return verify


def _log_probability(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


ENGINES = (
    Engine(
        name="tightwad",
        package="tightwad",
        source="speculation.py",
        function=TIGHTWAD_FUNCTION,
        contract="verify",
        tier="exact",
        loader=load_tightwad,
        versions=">=0.5.4,<0.6",
        parameters=("draft_tokens", "target_logprobs", "temperature"),
    ),
)
