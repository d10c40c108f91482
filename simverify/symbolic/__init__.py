"""Symbolic draws: run code on every path of its own random choices.

``Enumeration`` is the engine; the other modules are its draws, its arrays and the twins
that stand in for numpy's, Python's and torch's generators while it runs.
"""

__simverify_role__ = "machinery"

from simverify.symbolic.enumeration.endings import ExactLaw
from simverify.symbolic.enumeration.engine import Enumeration
from simverify.symbolic.errors import CannotEnumerate, Finding, OutOfTime
from simverify.symbolic.stand_ins.lift import Lift

__all__ = ["CannotEnumerate", "Enumeration", "ExactLaw", "Finding", "Lift", "OutOfTime"]
