"""rotalabs-accel: ``rejection_sample``, a token a call, and ``verify_tokens``, the loop around it.

The first takes the target's rows and, of the draft, the probability of the drafted token alone.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import StubModule, load_function, load_names, torch
from simverify.engines.fake_models import BOS_TOKEN

FUNCTION = "rejection_sample"
LOGITS_SIGNATURE = Signature(arrays="torch", logits=True, batched=False)


def load_rule(path: Path) -> VerifyFunction:
    """Return ``rejection_sample``, called until it rejects; the bonus token is drawn here."""
    rule = load_function(path, FUNCTION)

    def sample(draft_tokens: Any, target: Any, draft: Any) -> list[int]:
        tokens: list[int] = []
        for token, p, q in zip(draft_tokens, target, draft, strict=False):
            accepted, result = rule(p.softmax(-1)[token], q.exp()[token], token, p)
            tokens.append(int(result))
            if not accepted:
                return tokens
        return [*tokens, int(torch.multinomial(target[-1].softmax(-1), 1))]

    return as_verify(sample, LOGITS_SIGNATURE)


def make_engine(name: str, file: str, function: str, loader: Any, *parameters: str) -> Engine:
    """Return an engine of a function of one of its files."""
    return Engine(
        name=name,
        package="rotalabs_accel",
        source=f"speculative/{file}.py",
        function=function,
        **BLOCK_DEFAULTS,
        loader=loader,
        distribution="rotalabs-accel",
        versions=">=1.1.1,<1.2",
        parameters=parameters,
    )


ARGUMENTS = ("target_prob", "draft_prob", "draft_token", "target_logits")
ENGINES: tuple[Engine, ...] = (
    make_engine("rotalabs", "sampling", FUNCTION, load_rule, *ARGUMENTS),
)


# ``verify_tokens``, the loop around the rule, which has the same residual.
#
# It takes a target, and of the draft the probability of the drafted tokens alone.


CORE_FUNCTION = "verify_tokens"


def load_core(path: Path) -> VerifyFunction:
    """Return ``verify_tokens`` on a target that gives the block's rows, and no cache."""
    drawing = load_names(path.parent / "sampling.py", ["sample_from_logits"])
    rule = load_function(path, CORE_FUNCTION, **drawing, DynamicCache=StubModule("cache").Cache)

    def sample(draft_tokens: Any, target: Any, draft: Any) -> Any:
        out = SimpleNamespace(logits=target[None], past_key_values=None)
        drafted = draft.exp().gather(1, draft_tokens[:, None])[:, 0]
        last = torch.tensor([[BOS_TOKEN]])
        return rule(lambda *_, **__: out, last, draft_tokens, drafted, None, top_p=1.0)[0]

    return as_verify(sample, LOGITS_SIGNATURE)


CORE_ARGUMENTS = ("model", "input_ids", "draft_tokens", "draft_probs", "top_p")
ENGINES += (
    make_engine(
        "rotalabs-core",
        "core",
        CORE_FUNCTION,
        load_core,
        *CORE_ARGUMENTS,
    ),
)
