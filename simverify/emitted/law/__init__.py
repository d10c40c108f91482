"""The law that an engine was asked to sample: what each parameter does to a row, in which order.

``law`` is the whole as a value, ``stages`` does to rows what a parameter says, ``masks`` calls a
mask function, ``words`` reads values as users write them; ``reach`` says how far rounding may be
from keeping a token that is cut off.
"""

from simverify.emitted.law.law import CUTS, NEUTRAL, ORDERS, STAGES, Law, as_law
from simverify.emitted.law.masks import Mask

__all__ = ["CUTS", "NEUTRAL", "ORDERS", "STAGES", "Law", "Mask", "as_law"]
