"""All faults by name, their parameters read from the name, and how far each is from the target."""

import inspect
import re
from collections.abc import Callable

from simverify.checks import pick
from simverify.errors import UsageError
from simverify.faults.base import Control, Fault
from simverify.faults.controls import CONTROLS
from simverify.faults.families.acceptances import ACCEPTANCE_FAULTS, scaled_acceptance
from simverify.faults.families.batches import BATCH_FAULTS
from simverify.faults.families.blocks import BLOCK_FAULTS
from simverify.faults.families.company import COMPANY_FAULTS, CompanyFault, in_company
from simverify.faults.families.declared import (
    DECLARED_FAULTS,
    draft_leak,
    entropy_scaled,
    forced_top,
    lenient,
    relaxed_acceptance,
)
from simverify.faults.families.drafters import DRAFTER_FAULTS
from simverify.faults.families.randomness import RANDOMNESS_FAULTS
from simverify.faults.families.residuals import RESIDUAL_FAULTS, floored_residual, top_k_residual
from simverify.faults.families.rows import (
    DRAFT_FAULTS,
    ROW_FAULTS,
    draft_temperature,
    target_temperature,
)
from simverify.faults.families.siblings import SIBLING_FAULTS
from simverify.faults.families.trees import TREE_FAULTS
from simverify.faults.families.ways import WAY_FAULTS

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
        *DECLARED_FAULTS,
        *SIBLING_FAULTS,
        *TREE_FAULTS,
        *WAY_FAULTS,
        *DRAFTER_FAULTS,
    )
}
"""The catalogue; a fault with a parameter is listed with the values named here."""

COMPANY = {
    **COMPANY_FAULTS,
    "in-company": CompanyFault(
        "in-company", in_company, "the right twin: each request by the token rule", "all"
    ),
}
"""Rules for batches of requests that differ; all but ``in-company`` are wrong."""

FAMILIES: dict[str, Callable[..., Fault]] = {
    "lenient": lenient,
    "draft-leak": draft_leak,
    "relaxed-acceptance": relaxed_acceptance,
    "entropy-scaled": entropy_scaled,
    "forced-top": forced_top,
    "scaled-acceptance": scaled_acceptance,
    "draft-temperature": draft_temperature,
    "target-temperature": target_temperature,
    "floored-residual": floored_residual,
    "top-k-residual": top_k_residual,
}
"""The faults with parameters: :func:`get_fault` takes any value, as in ``lenient(0.7)``."""


def get_fault(name: str) -> Fault:
    """Return the fault called ``name``, such as ``reused-uniform`` or ``lenient(0.7)``.

    Raises ``UsageError`` that names the nearest fault when there is none, or says what the
    parameter must be.
    """
    if name not in FAULTS and (match := re.fullmatch(r"([\w-]+)\((.*)\)", name)):
        family = FAMILIES[pick(match[1], FAMILIES, "fault with a parameter")]
        values = match[2].split(",")
        expected = len(inspect.signature(family).parameters)
        if len(values) != expected:
            raise UsageError(f"{name}: got {len(values)} numbers, expected {expected}")
        return family(*(_number(name, value) for value in values))
    return FAULTS[pick(name, FAULTS, "fault")]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name}: {text!r} is no number, as in lenient(0.9)") from None


def get_control(name: str) -> Control:
    """Return the must-pass control called ``name``; ``UsageError`` names the nearest."""
    return CONTROLS[pick(name, CONTROLS, "control")]


COMPACT_TV = {
    "residual-row-zero": 0.124373,
    "wrong-bonus-row": 0.040461,
    "one-hot-residual": 0.101808,
    "softmax-residual": 0.159492,
    "target-residual": 0.145689,
    "unnormalised-residual": 0.055363,
    "floored-residual(1e-05)": 0.000022,
    "top-k-residual(1)": 0.094907,
    "count-all-accepts": 0.146016,
    "inverted-ratio": 0.402860,
    "double-chance": 0.078740,
    "zero-mass-accept": 0.0,
    "scaled-acceptance(1.1)": 0.052604,
    "scaled-acceptance(1.01)": 0.005182,
    "scaled-acceptance(1.0001)": 0.000052,
    "swapped-rows": 0.257928,
    "previous-row": 0.180411,
    "next-row": 0.237269,
    "target-temperature(0.9)": 0.024625,
    "naive-block": 0.290975,
    "naive-block-stealth": 0.049493,
    "greedy-no-state": 0.090741,
    "reused-uniform": 0.081349,
    "one-uniform": 0.074074,
    "shared-noise": 0.032201,
    "draft-uniform-as-coin": 0.207176,
    "repeated-stream": 0.167927,
    "argmax-draft-soft-q": 0.486111,
    "truncated-draft-soft-q": 0.139773,
    "rounded-q": 0.000543,
    "one-sided-penalty": 0.033538,
    "draft-temperature(0.9)": 0.016816,
    "lenient(0.9)": 0.058556,
    "typical-acceptance": 0.475694,
    "draft-leak(0.01)": 0.003272,
    "relaxed-acceptance(2,0.25)": 0.350694,
    "entropy-scaled(0.1)": 0.041250,
    "forced-top(2)": 0.231481,
}
"""TV distance from the target on the compact model at gamma 3, to 5e-7, by fault: of one
call's tokens completed with target samples (gamma+1 in all); for repeated-stream, which has
state, of the first gamma+1 tokens from ``reset``. seeded-per-call and seeded-per-request are
missing: their output depends on numpy's stream, and a rule without randomness is far off
whatever the seed. So are the faults of whole batches, and those of draft trees and of drafters."""
