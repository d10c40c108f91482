"""Symbolic draws: runs code on every path of its own random choices.

``Enumeration`` is the engine. The other modules hold its draws (``draw``, ``scalar``, ``integers``,
``races``), their arrays and tensors, the twins that stand in for numpy's, Python's and torch's
generators (``sampler``, ``patching``), and the checks around a path (``outcomes``, ``watchdog``).
"""

__simverify_role__ = "machinery"


from simverify.symbolic.engine import Budget, Enumeration
from simverify.symbolic.outcomes import ExactLaw
from simverify.symbolic.promotion import Float64Promotion
from simverify.symbolic.provenance import CannotEnumerate, Finding, OutOfTime

__all__ = [
    "Budget",
    "CannotEnumerate",
    "Enumeration",
    "ExactLaw",
    "Finding",
    "Float64Promotion",
    "OutOfTime",
]
