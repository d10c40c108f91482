"""How far from optimal a lossless rule is: notes, which never change the verdict."""

from collections.abc import Sequence
from functools import lru_cache

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.examiner import Judged
from simverify.auditing.sampled.tables import SampledInstance, Tables
from simverify.verifiers import VERIFIERS

_ALIKE = ("token", "match")

_ROUNDING = 1e-9


@lru_cache(maxsize=1024)
def accepted_by(name: str, model: SmallModel) -> float:
    """E[tau] of the built-in rule ``name`` on ``model``, from its acceptance curve."""
    return float(_tables(model).curve(VERIFIERS[name]).sum())


def optimum(model: SmallModel) -> float:
    """E[tau] of block verification: the most that a lossless rule without state accepts.

    Sun et al. 2025, Theorem 2.
    """
    return accepted_by("block", model)


def optimality_notes(judged: Sequence[Judged], tolerance: float) -> list[str]:
    """Say where the rule, whose law was right on all of ``judged``, accepts too little.

    Rules that draft themselves have no notes: the tokens do not tell how many drafts of a
    position a call weighs, and a rule that weighs two may well accept more than block does.
    """
    rounding = max(_ROUNDING, tolerance)
    found = {x.model: x.comparison.expected_accepted for x in judged}
    accepted = {model: tau for model, tau in found.items() if tau is not None}
    below = {m: tau for m, tau in accepted.items() if tau < optimum(m) - rounding * m.gamma}
    if not below:
        return []
    worst = min(below, key=lambda model: below[model] / optimum(model))
    best = optimum(worst)
    if all(not x.comparison.bonus for x in judged) and any(map(_may_accept_all, accepted)):
        return [
            "never emits a bonus token after gamma accepted drafts, so a call emits fewer tokens "
            f"than it could: on {worst.name} {below[worst] + 1:.4g} tokens, E[tau] "
            f"{below[worst]:.4g}; block verification emits {best + 1:.4g}, E[tau] {best:.4g}"
        ]
    alike = [
        name
        for name in _ALIKE
        if all(abs(tau - accepted_by(name, m)) <= rounding * m.gamma for m, tau in accepted.items())
    ]
    like = f", as the {alike[0]} rule" if alike else ""
    return [
        f"accepts less than the optimum on {len(below)} of {len(accepted)} instances{like}: on "
        f"{worst.name} E[tau] is {below[worst]:.4g}, {below[worst] / best:.1%} of block "
        f"verification's {best:.4g}"
    ]


def _may_accept_all(model: SmallModel) -> bool:
    return bool(_tables(model).curve(VERIFIERS["token"])[-1] > _ROUNDING)


@lru_cache(maxsize=1024)
def _tables(model: SmallModel) -> Tables:
    return Tables(SampledInstance(model, model.gamma), model.gamma + 1)
