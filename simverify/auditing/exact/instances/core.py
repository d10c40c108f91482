"""Which instances a verdict needs, and which may take the paths of all others."""

from simverify.auditing.exact.instances.made import SmallModel

CORE = frozenset(
    {
        "plain, V=2, gamma=1",
        "plain, V=3, gamma=1",
        "wide residual, V=3, gamma=1",
        "plain, V=2, gamma=2",
        "plain, V=3, gamma=2",
        "plain, V=3, gamma=3",
    }
)
"""Names of the instances that expose every catalogued fault which shows in the law of a call or
of a generation; under the step contract the last one exposes none that the others do not.
Smaller ones stand first, and a fault that shows at two tokens needs no larger one.
"""


def is_core(model: SmallModel) -> bool:
    """Whether a verdict needs ``model``; the others may be left out, and are named then."""
    return model.name in CORE


def is_small(model: SmallModel) -> bool:
    """Whether ``model`` gets as many paths as there are; larger ones get a part of them."""
    return is_core(model) or (model.vocab_size <= 3 and model.gamma <= 2)
