"""Which catalogued fault a law resembles, and which ones a clean law refutes."""

from typing import Any

import numpy as np

from simverify.audit.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.audit.exact_tier import Examiner, Judged, as_step
from simverify.audit.instances import SmallModel, battery
from simverify.audit.spec import Contract, Subject
from simverify.faults import FAULTS
from simverify.results import Diagnosis

_SECONDS = 5.0


def resemble(
    subject: Subject, judged: Judged, contract: Contract, *, most: int = 3
) -> tuple[Diagnosis, ...]:
    """Return the catalogued faults whose laws are nearest to the subject's.

    On the failing instance, and on a rich one that tells more faults apart if the subject can
    be enumerated there. ``distance`` is the larger TV distance of the completed outputs;
    faults that cannot be enumerated are left out.
    """
    laws = [(judged.model, judged.comparison.emitted)]
    rich = _rich(contract)
    if (law := _law(subject, contract, rich)) is not None:
        laws.append((rich, law))
    found = []
    for name in FAULTS:
        fault = _subject(name, contract)
        if fault is None:
            continue
        distances = [
            float(np.abs(other - law).sum() / 2)
            for model, law in laws
            if (other := _law(fault, contract, model)) is not None
        ]
        if len(distances) == len(laws):
            found.append(Diagnosis(fault=name, distance=max(distances)))
    return tuple(sorted(found, key=lambda d: (d.distance, d.fault))[:most])


def _rich(contract: Contract) -> SmallModel:
    name = "plain, V=3, gamma=2" if contract == "verify" else "plain, V=2, gamma=2"
    return next(model for model in battery(3, 3) if model.name == name)


def refuted(contract: Contract, models: list[SmallModel], tolerance: float) -> tuple[str, ...]:
    """Return the catalogued faults that the passed instances ``models`` would have shown."""
    # Rich ones first: most faults show on the first instance that is asked.
    telling = sorted(models, key=lambda m: (m.vocab_size != 3, -m.gamma, "plain" not in m.name))
    return tuple(
        name
        for name in FAULTS
        if any(_deviates(name, contract, model, tolerance) for model in telling[:2])
    )


def _deviates(name: str, contract: Contract, model: SmallModel, tolerance: float) -> bool:
    subject = _subject(name, contract)
    return subject is not None and Examiner(subject, contract, tolerance).fails(model)


def _law(subject: Subject, contract: Contract, model: SmallModel) -> Any:
    try:
        return Examiner(subject, contract, tolerance=0.0).judge(model, _SECONDS).comparison.emitted
    except (CannotEnumerate, OutOfTime, TooManyPaths):
        return None


def _subject(name: str, contract: Contract) -> Subject | None:
    """Return the fault under ``contract``, None if it has no form there.

    The faults of whole batches are right on every single block.
    """
    fault = FAULTS[name]
    if fault.batch is not None:
        return None
    if fault.contract == contract:
        return Subject(name, fault.rule, contract)
    return Subject(name, as_step(fault.rule), contract) if contract == "step" else None
