"""Verification rules, one per file: citation, readable rule, closed form, and where its parts are.

The compiled rules and the loops over blocks are in ``simverify.simulators``.
"""

__simverify_role__ = "under test"


from typing import TYPE_CHECKING

from simverify.checks import pick_name
from simverify.errors import UsageError
from simverify.verifiers.base import Verifier, declared

if TYPE_CHECKING:
    from simverify.verifiers.trees import TreeVerifier

VERIFIERS = declared(
    __name__, __path__, Verifier, ("token", "block", "greedy", "match", "temperature-0")
)
"""Rules for a single draft by name, in the order in which they are listed."""

__all__ = ["VERIFIERS", "Verifier", "get_verifier", "register"]


def get_verifier(name: str) -> Verifier:
    """Return the verifier called ``name``.

    Raises ``UsageError`` that names the nearest verifier when there is none.
    """
    return VERIFIERS[pick_name(name, VERIFIERS, "verifier")]


def register(rule: "Verifier | TreeVerifier") -> None:
    """Add your own rule: ``simverify.compare`` and ``simverify.audit`` then take its name.

    It is known to this process alone. Raises ``UsageError`` where another rule has its name.
    """
    from simverify.verifiers.trees import TREE_VERIFIERS

    if rule.name in VERIFIERS or rule.name in TREE_VERIFIERS:
        raise UsageError(f"there is a rule called {rule.name!r} already: choose another name")
    if isinstance(rule, Verifier):
        VERIFIERS[rule.name] = rule
    else:
        TREE_VERIFIERS[rule.name] = rule
