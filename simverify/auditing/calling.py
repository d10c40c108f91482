"""How code is called where its paths are not followed: at the edges and in the sampled tier.

A rule for draft trees then drafts them itself, as a step rule does, and what a drafter drafts is
judged by the rule that is right for it; all others are called as they are.
"""

from dataclasses import dataclass
from typing import Literal

from simverify.auditing.exact.generations.drafts import takes_draft_arguments
from simverify.auditing.exact.generations.trees import takes_tree_arguments
from simverify.auditing.exact.instances.drafts import draft_instances
from simverify.auditing.exact.instances.hinted import Hints
from simverify.auditing.exact.instances.hinted_trees import hinted_trees
from simverify.auditing.exact.instances.made import SmallModel, instances_for
from simverify.auditing.exact.instances.trees import tree_instances
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject
from simverify.errors import UsageError
from simverify.trees import (
    SCHEMES,
    Drafting,
    Scheme,
    TreeShape,
    get_scheme,
    shape_of_levels,
)

_USUAL = ((2, 1), (2,), (1, 1))
"""Children per level where no tree is named."""


@dataclass(frozen=True)
class Calling:
    """``whole`` is the code with its batch axis, if it has one, and ``one`` takes one block.

    ``scheme``: how the siblings of draft trees are drafted; None for all other code.
    """

    whole: Subject
    one: Subject
    contract: Literal["verify", "step"]
    scheme: Scheme | None = None


def calling_of(
    whole: Subject, one: Subject, contract: Contract, settings: AuditSettings
) -> Calling:
    """Return how code of ``contract`` is called.

    Raises ``UsageError`` where the tree contract has no scheme, or another one has one, and for
    a tree that the code does not take. A drafter's siblings are independent where nothing is said.
    """
    if contract == "verify" or contract == "step":
        if settings.scheme is not None:
            raise UsageError(
                f"--scheme {settings.scheme} is for draft trees: name --contract tree too"
            )
        return Calling(whole, one, contract)
    if contract == "draft":
        _draft_iv(one, settings)
    else:
        _tree_iv(one)
    name = settings.scheme or one.scheme or (None if contract == "tree" else "iid")
    if name is None:
        raise UsageError(
            f"--contract tree needs --scheme, how siblings are drafted: {', '.join(SCHEMES)}"
        )
    scheme = get_scheme(name)
    shapes = [shape for shape in _shapes(settings) if one.fits(shape)]
    if not shapes:
        raise UsageError(f"{one.name} does not take the tree {settings.tree}: name another one")
    itself = one.drafting_itself(Drafting(shapes[0], scheme), contract)
    return Calling(itself, itself, "step", scheme)


def _draft_iv(subject: Subject, settings: AuditSettings) -> None:
    """Refuse code that is no drafter, and what no drafter has."""
    if settings.eos is not None:
        raise UsageError("--eos is for code that emits: a drafter goes on as it is asked")
    try:
        takes_draft_arguments(subject.rule)
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from None


def _tree_iv(subject: Subject) -> None:
    """Refuse code that judges no draft trees."""
    try:
        takes_tree_arguments(subject.rule)
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from None


def _shapes(settings: AuditSettings) -> list[TreeShape]:
    """Return the shapes of which one is drafted where code drafts itself, the best first."""
    if settings.shape is not None:
        return [settings.shape]
    return [shape_of_levels(levels[: settings.gamma]) for levels in _USUAL]


def instances_of(
    subject: Subject,
    contract: Contract,
    scheme: Scheme | None,
    settings: AuditSettings,
    hints: Hints,
) -> list[SmallModel]:
    """Return the instances of the exact tier."""
    gamma, vocab, seed = settings.gamma, settings.vocab, settings.seed
    if scheme is not None and contract == "draft":
        models = draft_instances(scheme, gamma, vocab, seed, settings.shape)
        return models + hinted_trees(hints, scheme, contract, settings.shape)
    if scheme is not None:
        models = tree_instances(scheme, gamma, vocab, seed, settings.shape)
        models += hinted_trees(hints, scheme, "tree", settings.shape)
        return [m for m in models if m.drafting is not None and subject.fits(m.drafting.shape)]
    assert contract == "verify" or contract == "step", "the others have a scheme"
    models = instances_for(contract, gamma, vocab, seed, settings.eos)
    return models + hints.models(contract, settings.eos)
