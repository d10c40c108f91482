"""Which catalogued fault a law resembles, and which ones a clean law refutes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.audit.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.audit.exact_tier import Examiner, Judged, as_step
from simverify.audit.instances import SmallModel, battery
from simverify.audit.spec import Contract
from simverify.faults import FAULTS
from simverify.results import Diagnosis

_SECONDS = 5.0


def resemble(judged: Judged, contract: Contract, *, most: int = 3) -> tuple[Diagnosis, ...]:
    """Return the catalogued faults whose law on the failing instance is nearest.

    ``distance`` is the TV distance of the completed outputs; faults that cannot be
    enumerated there are left out.
    """
    found = []
    for name in FAULTS:
        law = _law(name, contract, judged.model)
        if law is not None:
            distance = float(np.abs(law - judged.comparison.emitted).sum() / 2)
            found.append(Diagnosis(fault=name, distance=distance))
    return tuple(sorted(found, key=lambda d: (d.distance, d.fault))[:most])


def refuted(contract: Contract, models: list[SmallModel], tolerance: float) -> tuple[str, ...]:
    """Return the catalogued faults that the passed instances ``models`` would have shown."""
    # Rich ones first: most faults show on the first instance that is asked.
    telling = sorted(models, key=lambda m: (m.vocab_size != 3, -m.gamma, "plain" not in m.name))
    return tuple(
        name
        for name in FAULTS
        if any(_deviates(name, contract, model, tolerance) for model in telling[:3])
    )


def _deviates(name: str, contract: Contract, model: SmallModel, tolerance: float) -> bool:
    rule = _rule(name, contract)
    if rule is None:
        return False
    return Examiner(rule, contract, tolerance).fails(model)


def _law(name: str, contract: Contract, model: SmallModel) -> Any:
    rule = _rule(name, contract)
    if rule is None:
        return None
    try:
        return Examiner(rule, contract, 0.0).judge(model, _SECONDS).comparison.emitted
    except (CannotEnumerate, OutOfTime, TooManyPaths):
        return None


def _rule(name: str, contract: Contract) -> Callable[..., Any] | None:
    """Return the fault's rule under ``contract``, None if it has none there."""
    fault = FAULTS[name]
    if fault.contract == contract:
        return fault.rule
    return as_step(fault.rule) if contract == "step" else None


def instances_for(contract: Contract, max_gamma: int, max_vocab: int, seed: int) -> list[SmallModel]:
    """Return the battery for a contract: rules that draft themselves get V, gamma up to 3."""
    models = battery(max_gamma, max_vocab, seed=seed)
    if contract == "verify":
        return list(models)
    return [m for m in models if m.vocab_size <= 3 and m.gamma <= 3]
