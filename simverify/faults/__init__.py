"""Named faulty verifiers, each citing where it was seen, and correct ones that look faulty.

The faults prove that an audit can reject, the controls that it does not reject too much.
"""

__simverify_role__ = "under test"

from simverify.faults.base import Control, Fault
from simverify.faults.catalogue import (
    COMPACT_TV,
    COMPANY,
    FAMILIES,
    FAULTS,
    get_control,
    get_fault,
)
from simverify.faults.controls import CONTROLS

__all__ = [
    "COMPACT_TV",
    "COMPANY",
    "CONTROLS",
    "FAMILIES",
    "FAULTS",
    "Control",
    "Fault",
    "get_control",
    "get_fault",
]
