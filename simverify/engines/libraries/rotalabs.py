"""rotalabs-accel: ``rejection_sample``, a token a call, and the loop ``verify_tokens``.

Both take the target's rows and, of the draft, the probability of the drafted token alone.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import load_function, load_names
from simverify.engines.loading.rows_model import BOS
from simverify.engines.loading.stubs import Anything, torch

LOGITS = Signature(arrays="torch", logits=True, batched=False)


def load_sample(path: Path) -> Verify:
    """Return ``rejection_sample``, called until it rejects; the bonus token is drawn here."""
    rule = load_function(path, "rejection_sample")

    def sample(draft_tokens: Any, target: Any, draft: Any) -> list[int]:
        tokens: list[int] = []
        for token, p, q in zip(draft_tokens, target, draft, strict=False):
            accepted, kept = rule(p.softmax(-1)[token], q.exp()[token], token, p)
            tokens.append(int(kept))
            if not accepted:
                return tokens
        return [*tokens, int(torch.multinomial(target[-1].softmax(-1), 1))]

    return as_verify(sample, LOGITS)


def load_core(path: Path) -> Verify:
    """Return ``verify_tokens`` on a target that gives the block's rows, and no cache."""
    drawing = load_names(path.parent / "sampling.py", ["sample_from_logits"])
    rule = load_function(path, "verify_tokens", **drawing, DynamicCache=Anything("cache").Cache)

    def sample(draft_tokens: Any, target: Any, draft: Any) -> Any:
        out = SimpleNamespace(logits=target[None], past_key_values=None)
        drafted = draft.exp().gather(1, draft_tokens[:, None])[:, 0]
        last = torch.tensor([[BOS]])
        return rule(lambda *_, **__: out, last, draft_tokens, drafted, None, top_p=1.0)[0]

    return as_verify(sample, LOGITS)


def _engine(name: str, file: str, function: str, loader: Callable[[Path], Verify]) -> Engine:
    taken = {
        "rejection_sample": ("target_prob", "draft_prob", "draft_token", "target_logits"),
        "verify_tokens": ("model", "input_ids", "draft_tokens", "draft_probs", "top_p"),
    }
    return Engine(
        name=name,
        package="rotalabs_accel",
        source=f"speculative/{file}.py",
        function=function,
        **BLOCK,
        loader=loader,
        distribution="rotalabs-accel",
        versions=">=1.1.1,<1.2",
        parameters=taken[function],
    )


ENGINES = (
    _engine("rotalabs", "sampling", "rejection_sample", load_sample),
    _engine("rotalabs-core", "core", "verify_tokens", load_core),
)
