"""Symbolic draws: run code on every path of its own random choices.

``Enumeration`` is the engine; the other modules are its draws, its arrays and the twins
that stand in for numpy's, Python's and torch's generators while it runs.
"""

__simverify_role__ = "machinery"


from simverify.symbolic.bindings import Float64Promotion
from simverify.symbolic.engine import Enumeration
from simverify.symbolic.outcomes import ExactLaw
from simverify.symbolic.provenance import CannotEnumerate, Finding, OutOfTime

__all__ = ["CannotEnumerate", "Enumeration", "ExactLaw", "Finding", "Float64Promotion", "OutOfTime"]
