"""rotalabs-accel: ``rejection_sample``, a token a call.

It takes the target's rows and, of the draft, the probability of the drafted token alone.
:mod:`.rotalabs_core` is the loop that the package has around it.
"""

from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function
from simverify.engines.loading.stubs import torch

FUNCTION = "rejection_sample"
LOGITS = Signature(arrays="torch", logits=True, batched=False)


def load(path: Path) -> Verify:
    """Return ``rejection_sample``, called until it rejects; the bonus token is drawn here."""
    rule = load_function(path, FUNCTION)

    def sample(draft_tokens: Any, target: Any, draft: Any) -> list[int]:
        tokens: list[int] = []
        for token, p, q in zip(draft_tokens, target, draft, strict=False):
            accepted, kept = rule(p.softmax(-1)[token], q.exp()[token], token, p)
            tokens.append(int(kept))
            if not accepted:
                return tokens
        return [*tokens, int(torch.multinomial(target[-1].softmax(-1), 1))]

    return as_verify(sample, LOGITS)


def engine(name: str, file: str, function: str, loader: Any, *parameters: str) -> Engine:
    """Return an engine of a function of one of its files."""
    return Engine(
        name=name,
        package="rotalabs_accel",
        source=f"speculative/{file}.py",
        function=function,
        **BLOCK,
        loader=loader,
        distribution="rotalabs-accel",
        versions=">=1.1.1,<1.2",
        parameters=parameters,
    )


TAKEN = ("target_prob", "draft_prob", "draft_token", "target_logits")
ENGINES = (engine("rotalabs", "sampling", FUNCTION, load, *TAKEN),)
