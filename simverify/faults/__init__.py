"""Named faulty verifiers, each citing where it was seen, and correct ones that look faulty.

The faults prove that an audit can reject, the controls that it does not reject too much.
"""

__simverify_role__ = "under test"


from simverify.faults.base import Control, Fault
from simverify.faults.catalogue import (
    COMPACT_TV,
    CONTROLS,
    FAULT_FAMILIES,
    FAULTS,
    MIXED_BATCH_RULES,
    get_control,
    get_fault,
)

__all__ = [
    "COMPACT_TV",
    "CONTROLS",
    "FAULTS",
    "FAULT_FAMILIES",
    "MIXED_BATCH_RULES",
    "Control",
    "Fault",
    "get_control",
    "get_fault",
]
