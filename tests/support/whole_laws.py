"""The law of a rule on one instance, or on one prompt, with an enumeration of its own."""

from simverify.auditing.comparison import compare_blocks
from simverify.auditing.enumeration import Generation, StepEnumeration, enumerate_tokens
from simverify.symbolic import Enumeration


def compare_verify(verify, model, gamma, *, prune=1e-12, **options):
    """The joint law of a call over all drafted blocks, completed, against the target."""
    with Enumeration(verify, prune=prune) as enumeration:
        return compare_blocks(enumeration, verify, model, gamma, **options)


def enumerate_step(rule, target, draft, **options):
    """The law of the first ``length`` tokens that a step rule emits; ``gamma`` is an option too."""
    with StepEnumeration(rule) as enumeration:
        return enumerate_tokens(enumeration, rule, Generation(target, draft, **options))
