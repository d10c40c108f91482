"""The joint law of a call over all draft trees, completed by the target, against the target's."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from simverify.auditing.exact.generations.trees import law_of_tree
from simverify.auditing.exact.judging.comparison import Comparison
from simverify.auditing.exact.judging.law import Rows, compare_laws
from simverify.symbolic import Enumeration, ExactLaw
from simverify.symbolic.enumeration.paths import TooManyPaths
from simverify.symbolic.errors import OutOfTime
from simverify.symbolic.guards.watchdog import Stopwatch
from simverify.trees import Drafting, law_of_trees

if TYPE_CHECKING:
    from simverify.symbolic.enumeration.endings import Tokens


class Drafted(Rows, Protocol):
    """A target and a draft of which trees are drafted."""

    @property
    def gamma(self) -> int:
        """Depth of the trees."""

    @property
    def drafting(self) -> Drafting | None:
        """Their shape and scheme; not None."""


def compare_trees(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    model: Drafted,
    *,
    tolerance: float | None = None,
    max_paths: int,
    seconds: float | None,
    enough: float | None = None,
) -> Comparison:
    """Compare as :func:`~.law.compare_blocks` does, with every tree that can be drafted a block.

    Each tree is verified exactly, and what it emits is completed with plain target samples to
    one token more than its depth.
    """
    assert model.drafting is not None
    watch, paths = Stopwatch(), 0
    trees = law_of_trees(model.drafting, model.draft, max_trees=max_paths)
    laws: list[tuple[Tokens, float, ExactLaw]] = []
    for tree, mass in trees:
        left = None if seconds is None else seconds - watch.seconds()
        if left is not None and left <= 0:
            raise OutOfTime(watch.seconds(), paths)
        most = max_paths - paths if enough is None else max(1, max_paths // len(trees))
        try:
            law = law_of_tree(
                enumeration, rule, tree, model.target, model.draft,
                max_paths=most, seconds=left, enough=enough,
            )  # fmt: skip
        except TooManyPaths:
            raise TooManyPaths(max_paths) from None
        paths += law.paths
        laws.append((tree.tokens, float(mass), law))
        if not law.complete:
            break
    found = compare_laws(laws, model, model.gamma, tolerance)
    for (tree, _), (*_, law) in zip(trees, laws, strict=False):
        if any(finding.severity == "violation" for finding in law.findings):
            return replace(found, broken_parents=tree.shape.parents)
    return found
