"""Drafting on real models: prompt lookup, n-grams, a draft model, EasySpec.

``method`` makes drafters by name, ``fuzzy`` runs groups of layers at once, ``time_model`` predicts
what drafting costs.
"""

__simverify_role__ = "shared"


from typing import TYPE_CHECKING, Any

from simverify.drafting.groups import layer_groups

if TYPE_CHECKING:
    from simverify.drafting.fuzzy import fuzzy_logits

__all__ = ["fuzzy_logits", "layer_groups"]


def __getattr__(name: str) -> Any:
    # torch is loaded by those who use it.
    if name == "fuzzy_logits":
        from simverify.drafting.fuzzy import fuzzy_logits

        return fuzzy_logits
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
