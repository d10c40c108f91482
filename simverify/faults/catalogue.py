"""All faults by name, their parameters read from the name."""

import re

from simverify.errors import UsageError
from simverify.faults.base import Control, Fault
from simverify.faults.controls import CONTROLS
from simverify.faults.families.acceptances import ACCEPTANCE_FAULTS, scaled_acceptance
from simverify.faults.families.batches import BATCH_FAULTS
from simverify.faults.families.blocks import BLOCK_FAULTS
from simverify.faults.families.drafts import DRAFT_FAULTS, draft_temperature
from simverify.faults.families.lossy import LOSSY_RULES, draft_leak, lenient
from simverify.faults.families.randomness import RANDOMNESS_FAULTS
from simverify.faults.families.residuals import RESIDUAL_FAULTS, floored_residual, top_k_residual
from simverify.faults.families.rows import ROW_FAULTS, target_temperature
from simverify.names import pick

FAULTS = {
    fault.name: fault
    for fault in (
        *RESIDUAL_FAULTS,
        *ACCEPTANCE_FAULTS,
        *ROW_FAULTS,
        *BLOCK_FAULTS,
        *RANDOMNESS_FAULTS,
        *BATCH_FAULTS,
        *DRAFT_FAULTS,
        *LOSSY_RULES,
    )
}
"""The catalogue; a fault with a parameter is listed with the values named here."""

FAMILIES = {
    "lenient": lenient,
    "draft-leak": draft_leak,
    "scaled-acceptance": scaled_acceptance,
    "draft-temperature": draft_temperature,
    "target-temperature": target_temperature,
    "floored-residual": floored_residual,
    "top-k-residual": top_k_residual,
}
"""The faults with a parameter: :func:`get_fault` takes any value, as in ``lenient(0.7)``."""


def get_fault(name: str) -> Fault:
    """Return the fault called ``name``, such as ``reused-uniform`` or ``lenient(0.7)``.

    Raises ``UsageError`` that names the nearest fault when there is none, or says what the
    parameter must be.
    """
    if name not in FAULTS and (match := re.fullmatch(r"([\w-]+)\((.*)\)", name)):
        family = FAMILIES[pick(match[1], FAMILIES, "fault with a parameter")]
        try:
            value = float(match[2])
        except ValueError:
            raise UsageError(f"{name}: {match[2]!r} is no number, as in {match[1]}(0.9)") from None
        return family(value)
    return FAULTS[pick(name, FAULTS, "fault")]


def get_control(name: str) -> Control:
    """Return the must-pass control called ``name``; ``UsageError`` names the nearest."""
    return CONTROLS[pick(name, CONTROLS, "control")]
