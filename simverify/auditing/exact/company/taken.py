"""Whether code takes a batch at all: what judges one block a call is refused, not judged."""

import inspect
from dataclasses import replace
from typing import Any

from simverify.auditing.exact.company.places import kinds_of
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import OptionError

_CALLS = {
    "batch": ("verify(target_probs, draft_probs, draft_tokens, rng), each with a batch axis", 4),
    "batch_mix": ("verify(batch, rng)", 2),
}
"""How code is called with each option, and with how many arguments."""


def in_company(subject: Subject, settings: AuditSettings) -> tuple[Subject, AuditSettings]:
    """Return a subject as ``--batch-mix`` judges it, and the settings: an adapter knows its kinds.

    The rule of an engine whose adapter hands it whole batches takes one, and "all" are the kinds
    that the engine takes. Raises ``OptionError`` for others. Other subjects stay as they are.
    """
    known = getattr(subject.rule, "company", None)
    if settings.batch_mix is None or not isinstance(known, str):
        return subject, settings
    kinds = kinds_of(known)
    asked = kinds if settings.batch_mix.strip() == "all" else kinds_of(settings.batch_mix)
    if other := [kind for kind in asked if kind not in kinds]:
        name = subject.name.replace("{", "{{").replace("}", "}}")
        raise OptionError(
            f"{name} takes no requests of the kind {', '.join(other)}: {{company}} is "
            f"{', '.join(kinds)} here, or all of them by all"
        )
    rule: Any = subject.rule
    beside = replace(subject, rule=rule.in_company, one_block=False)
    return beside, replace(settings, batch_mix=",".join(asked))


def takes_batch_iv(subject: Subject, settings: AuditSettings) -> None:
    """Raise ``UsageError`` where a batch is asked for of code that takes none.

    Code that is known by its name, and what ``as_verify`` returns, judges one block a call unless
    it has an attribute ``takes_batches``. Of other code it is known only with how many arguments
    it can be called.
    """
    option = "batch" if settings.batch else "batch_mix" if settings.batch_mix else None
    if option is None:
        return
    name = subject.name.replace("{", "{{").replace("}", "}}")
    due, count = _CALLS[option]
    if _one_block(subject):
        raise OptionError(
            f"{name} judges one block a call: leave {{{option}}} out, or name code that takes "
            "batches"
        )
    if taken := _cannot_bind(subject.rule, count):
        raise OptionError(f"{name} takes {taken}: with {{{option}}} it is called as {due}")


def _one_block(subject: Subject) -> bool:
    declared = getattr(subject.rule, "takes_batches", None)
    if declared is not None:
        return not declared
    return subject.one_block or any(subject.rule is rule for rule in _rules_of_one_block())


def _rules_of_one_block() -> list[Any]:
    """Return the built-in rules, which are found again where they are handed over themselves."""
    from simverify.faults import CONTROLS, FAULTS
    from simverify.verifiers import VERIFIERS

    one_block: list[Any] = [fault for fault in FAULTS.values() if fault.batch is None]
    return [x.rule for x in (*VERIFIERS.values(), *CONTROLS.values(), *one_block)]


def _cannot_bind(rule: Any, count: int) -> str:
    """Return the parameters of code that cannot be called with so many arguments; "" if it can."""
    try:
        # A decorator's own parameters are what a call meets.
        signature = inspect.signature(rule, follow_wrapped=False)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*range(count))
    except TypeError:
        return f"({', '.join(signature.parameters)})"
    return ""
