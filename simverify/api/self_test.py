"""``simverify.self_test``: the audit on trial, on every fault of the catalogue."""

from simverify.api.audit import Say, settings_of
from simverify.api.options import AuditOptions
from simverify.results import SelfTestRun


def self_test(
    *,
    gamma: int | None = None,
    vocab: int | None = None,
    seed: int = 0,
    progress: Say | None = None,
) -> SelfTestRun:
    """Turn the audit on every catalogued fault and every must-pass control.

    ``gamma``, ``vocab``: largest sizes of the instances. ``run.passed``: every fault was caught
    and every control passed. Raises ``UsageError`` if a size is out of range.
    """
    return self_test_of(AuditOptions(gamma=gamma, vocab=vocab, seed=seed), progress=progress)


def self_test_of(options: AuditOptions, *, progress: Say | None = None) -> SelfTestRun:
    """As :func:`self_test`, with any settings of an audit."""
    from simverify.auditing.self_test import self_test as run

    return run(settings_of(options, "self-test"), progress=progress)
