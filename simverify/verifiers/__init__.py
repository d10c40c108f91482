"""Verification rules, one per file: citation, readable rule, closed form.

The compiled rules and the loops over blocks are in ``simverify.simulators``.
"""

__simverify_role__ = "under test"

from simverify.checks import pick
from simverify.verifiers.base import Verifier
from simverify.verifiers.block import BLOCK
from simverify.verifiers.greedy import GREEDY
from simverify.verifiers.match import MATCH
from simverify.verifiers.temperature_zero import TEMPERATURE_ZERO
from simverify.verifiers.token import TOKEN

VERIFIERS = {v.name: v for v in (TOKEN, BLOCK, GREEDY, MATCH, TEMPERATURE_ZERO)}

__all__ = ["VERIFIERS", "Verifier", "get_verifier"]


def get_verifier(name: str) -> Verifier:
    """Return the built-in verifier called ``name``.

    Raises ``UsageError`` that names the nearest verifier when there is none.
    """
    return VERIFIERS[pick(name, VERIFIERS, "verifier")]
