"""How code is called where its paths are not followed: at the edges and in the sampled tier.

A rule for draft trees then drafts them itself, as a step rule does; all others are called as
they are.
"""

from dataclasses import dataclass
from typing import Literal

from simverify.auditing.exact.instances.hinted import Hints
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
    """``whole`` is the code with its batch axis, if it has one, and ``one`` takes one block."""

    whole: Subject
    one: Subject
    contract: Literal["verify", "step"]


def calling_of(
    whole: Subject, one: Subject, contract: Contract, settings: AuditSettings
) -> Calling:
    """Return how code of ``contract`` is called; raises as :func:`scheme_of`."""
    if contract != "tree":
        return Calling(whole, one, contract)
    scheme = scheme_of(one, contract, settings.scheme)
    assert scheme is not None, "the tree contract has a scheme"
    shapes = [shape for shape in _shapes(settings) if one.fits(shape)]
    if not shapes:
        raise UsageError(f"{one.name} does not take the tree {settings.tree}: name another one")
    itself = one.drafting_itself(Drafting(shapes[0], scheme))
    return Calling(itself, itself, "step")


def _shapes(settings: AuditSettings) -> list[TreeShape]:
    """Return the shapes of which one is drafted where code drafts itself, the best first."""
    if settings.shape is not None:
        return [settings.shape]
    return [shape_of_levels(levels[: settings.gamma]) for levels in _USUAL]


def scheme_of(subject: Subject, contract: Contract, scheme: str | None) -> Scheme | None:
    """Return how siblings are drafted under the tree contract; None under the others.

    Raises ``UsageError`` where the tree contract has no scheme, or another one has one.
    """
    if contract != "tree":
        if scheme is not None:
            raise UsageError(f"--scheme {scheme} is for draft trees: name --contract tree too")
        return None
    name = scheme or subject.scheme
    if name is None:
        raise UsageError(
            f"--contract tree needs --scheme, how siblings are drafted: {', '.join(SCHEMES)}"
        )
    return get_scheme(name)


def instances_of(
    subject: Subject,
    contract: Contract,
    scheme: Scheme | None,
    settings: AuditSettings,
    hints: Hints,
) -> list[SmallModel]:
    """Return the instances of the exact tier."""
    gamma, vocab, seed = settings.gamma, settings.vocab_size, settings.seed
    if scheme is not None:
        models = tree_instances(scheme, gamma, vocab, seed, settings.shape)
        return [m for m in models if m.drafting is not None and subject.fits(m.drafting.shape)]
    assert contract != "tree", "the tree contract has a scheme"
    models = instances_for(contract, gamma, vocab, seed, settings.eos)
    return models + hints.models(contract, settings.eos)
