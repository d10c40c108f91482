"""``simverify.self_test``: the audit on trial, on every fault of the catalogue."""

from simverify.api.audit import settings_of
from simverify.options.audit import SelfTestOptions
from simverify.options.modes import keywords
from simverify.results import SelfTestRun


@keywords(SelfTestOptions)
def self_test(options: SelfTestOptions) -> SelfTestRun:
    """Turn the audit on every catalogued fault and every must-pass control.

    ``run.passed``: every fault was caught and every control passed.

    Returns
    -------
    SelfTestRun
        ``run.passed``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A size out of range.
    """
    return self_test_of(options)


def self_test_of(options: SelfTestOptions) -> SelfTestRun:
    """As :func:`self_test`, whose errors name options as the command line does."""
    from simverify.auditing.self_test import self_test as run

    return run(settings_of(options), progress=options.progress)
