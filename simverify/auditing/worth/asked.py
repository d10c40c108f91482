"""What code is asked on a model, and under which contract."""

import inspect
from dataclasses import dataclass
from typing import Literal

from simverify.auditing.subject import Subject
from simverify.errors import UsageError
from simverify.models import Model
from simverify.trees import Drafting

Verifying = Literal["verify", "step", "tree"]


@dataclass(frozen=True)
class Asked:
    """What the code is asked on ``model``: drafts of ``gamma`` tokens, or trees by ``drafting``.

    ``calls``: how many calls are counted, ``tokens``: how many of the tokens are judged; both are
    fixed beforehand, and calls are made until both are full.
    """

    model: Model
    gamma: int
    calls: int
    tokens: int
    seed: int
    drafting: Drafting | None = None


def contract_of(subject: Subject) -> Verifying:
    """Return the contract that the code says, or that its parameters tell.

    Raises ``UsageError`` where they tell none, and for code that only drafts or takes batches.
    """
    if subject.contract == "draft":
        raise UsageError(f"{subject.name} is a drafter: expected a verifier")
    if subject.batch or subject.company:
        raise UsageError(f"{subject.name} takes whole batches: expected one block a call")
    if subject.contract is not None:
        return subject.contract
    if inspect.isclass(subject.rule):
        return "tree" if callable(getattr(subject.rule, "tree", None)) else "step"
    try:
        parameters = inspect.signature(subject.rule).parameters.values()
    except (TypeError, ValueError):
        raise UsageError(
            f"{subject.name} does not say what it takes: expected a function with parameters"
        ) from None
    if not parameters:
        return "step"  # what builds an object
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    due = [p for p in parameters if p.default is p.empty and p.kind in named]
    if len(due) == 4 and due[0].name == "prefix":
        raise UsageError(f"{subject.name} is a drafter: expected a verifier")
    if len(due) == 4:
        return "verify"
    if len(due) == 5:
        return "tree" if "parents" in due[3].name else "step"
    raise UsageError(
        f"{subject.name} takes {len(due)} arguments: expected verify(target_probs, draft_probs, "
        "draft_tokens, rng), step(prefix, target, draft, gamma, rng) or tree(target_probs, "
        "draft_probs, tokens, parents, rng)"
    )
