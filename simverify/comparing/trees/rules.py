"""Which rules a comparison on draft trees is of."""

from collections.abc import Mapping, Sequence

from simverify.checks import pick
from simverify.comparing.own import OwnRule
from simverify.errors import UsageError
from simverify.trees import Drafting
from simverify.verifiers import VERIFIERS, Verifier
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier

ONE_DRAFT = ("token", "block")
"""Rules for a single draft that stand beside those for trees, where they are asked for."""


def tree_rules(
    names: Sequence[str] | None, drafting: Drafting, own: Mapping[str, OwnRule]
) -> dict[str, Verifier | TreeVerifier | OwnRule]:
    """Return the rules called ``names``; by default all that are lossless on such trees.

    ``own``: those that are nobody's built-in rule, by name.

    Raises ``UsageError`` for a name that is unknown, or a rule that does not fit.
    """
    if names is None:
        return {
            rule.name: rule for rule in TREE_VERIFIERS.values() if _misfit(rule, drafting) is None
        }
    return {name: own.get(name) or _rule(name, drafting) for name in names}


def _rule(name: str, drafting: Drafting) -> Verifier | TreeVerifier:
    if name in ONE_DRAFT:
        return VERIFIERS[name]
    if name in VERIFIERS and name not in TREE_VERIFIERS:
        raise UsageError(
            f"{name} is for a single draft: on draft trees take {' or '.join(ONE_DRAFT)}, which "
            f"are judged on one draft, or one of {', '.join(TREE_VERIFIERS)}"
        )
    rule = TREE_VERIFIERS[pick(name, (*TREE_VERIFIERS, *ONE_DRAFT), "rule for draft trees")]
    if (why := _misfit(rule, drafting)) is not None:
        raise UsageError(why)
    return rule


def _misfit(rule: TreeVerifier, drafting: Drafting) -> str | None:
    scheme = drafting.scheme.name
    if scheme not in rule.schemes:
        return (
            f"{rule.name} is not lossless on siblings drafted by {scheme}: it takes "
            f"{' or '.join(rule.schemes)}"
        )
    if not rule.fits(drafting.shape):
        return f"{rule.name} takes {rule.needs}: got a tree of {drafting.shape.words()}"
    return None
