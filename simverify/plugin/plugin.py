"""The pytest plugin: the ``simverify_audit`` fixture and the marker ``distribution``.

Loaded with every pytest run of its environment, so nothing heavy is imported before an audit.
Settings and where they come from: :mod:`simverify.plugin.settings`.
"""

import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

from simverify.errors import SimverifyError, UsageError
from simverify.plugin.settings import (
    AUDIT_SETTINGS,
    MARKER_NAME,
    RUN_OPTIONS,
    call_settings,
    option_flag,
    run_settings,
    settings_for_tests,
)

if TYPE_CHECKING:
    from simverify.auditing.settings import AuditSettings
    from simverify.auditing.subject import Contract, Subject
    from simverify.results import AuditRun

_REPORT_PROPERTY = "simverify"
_SETTINGS_KEY = pytest.StashKey[dict[str, Any]]()


class InconclusiveWarning(UserWarning):
    """An audit ended INCONCLUSIVE under ``--simverify-inconclusive=warn``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add one ``--simverify-`` option per setting."""
    group = parser.getgroup("simverify", "simverify: audits of speculative-decoding verifiers")
    for name, setting in RUN_OPTIONS.items():
        group.addoption(option_flag(name), metavar=name.upper(), help=setting.help)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and read the settings, so that a wrong one ends the run at once."""
    arguments = ", ".join(f"{name}=" for name in AUDIT_SETTINGS)
    config.addinivalue_line(
        "markers",
        f"{MARKER_NAME}({arguments}): a test of an emitted distribution, with audit settings",
    )
    config.stash[_SETTINGS_KEY] = run_settings(config)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class) -> Generator[None, Any, Any]:
    """Check the marker's arguments where a wrong one is a collection error of its module."""
    made = yield
    for item in made if isinstance(made, list) else ():
        if isinstance(item, pytest.Item):
            try:
                settings_for_tests(item)
            except UsageError as error:
                raise collector.CollectError(f"{item.nodeid}: {error}") from None
    return made


@pytest.fixture
def simverify_audit(request: pytest.FixtureRequest) -> Callable[..., "AuditRun"]:
    """Put a verifier on trial: ``simverify_audit(verify, gamma=4)`` fails unless it passes.

    Takes a callable or, as ``simverify audit`` does, a SPEC. ``contract`` is what the code
    itself declares, else "verify"; say "step" for a step rule. What the
    command line has of instances, budget and error rates is an argument too, such as ``gamma``,
    and so is ``tolerance``. Returns the :class:`simverify.results.AuditRun`.

    The audit runs in the test's own process. A loop in Python that does not end is a finding,
    and so is code that ends its process: it is tried in a child first, on Linux. A call into
    compiled code that never returns is not ended here; ``simverify audit``, which runs all of
    it in a child, ends it and says where.
    """

    def run_audit(
        rule_or_spec: Callable[..., Any] | str, *, contract: "Contract | None" = None, **given: Any
    ) -> "AuditRun":
        from msgspec.structs import replace

        from simverify.auditing.run import audit, find_crash
        from simverify.auditing.settings import AuditSettings

        try:
            chosen = request.config.stash[_SETTINGS_KEY] | settings_for_tests(request.node)
            inconclusive = chosen.pop("inconclusive", "fail")
            settings = AuditSettings(**chosen | call_settings(given))
            subject = _find_subject(rule_or_spec, request)
            judged_as = contract or subject.contract or "verify"
            # Its own process may not die with the code; a call in a child shows it first.
            run = find_crash(subject, judged_as, settings) or audit(subject, judged_as, settings)
            run = replace(run, reproduce=_reproduce_command(subject, judged_as, settings, request))
        except SimverifyError as error:
            raise pytest.fail.Exception(f"simverify: {error}", pytrace=False) from None
        request.node.user_properties.append((_REPORT_PROPERTY, f"{run.verdict} {run.spec}"))
        if run.verdict == "INCONCLUSIVE" and inconclusive == "warn":
            head, *_ = str(run).split("\n\n")
            warnings.warn(InconclusiveWarning(head), stacklevel=2)
        elif run.verdict != "PASS":
            pytest.fail(str(run), pytrace=False)
        return run

    return run_audit


def _find_subject(rule: Callable[..., Any] | str, request: pytest.FixtureRequest) -> "Subject":
    """Return the code under audit, named by a SPEC wherever one can name it."""
    from simverify.api.audit import find_spec
    from simverify.auditing.subject import Subject, load_subject

    if isinstance(rule, str):
        return load_subject(rule)
    if not callable(rule):
        raise UsageError(f"got {rule!r}: expected a callable or a SPEC")
    spec = find_spec(rule, request.config.invocation_params.dir, beside=(request.module,))
    return Subject(str(spec or getattr(rule, "__qualname__", type(rule).__name__)), rule, None)


def _reproduce_command(
    subject: "Subject",
    contract: "Contract",
    settings: "AuditSettings",
    request: pytest.FixtureRequest,
) -> str:
    """Return the command that repeats the audit from any folder, or the test itself."""
    name, config = subject.name, request.config
    if ":" not in name and subject.contract is None:
        file, separator, test = request.node.nodeid.partition("::")
        return shlex.join(["pytest", f"{config.rootpath / file}{separator}{test}"])
    place, colon, attribute = name.rpartition(":")
    if place.endswith(".py"):
        name = f"{config.invocation_params.dir / place}{colon}{attribute}"
    return settings.command(name, contract)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many audits ran; xdist's workers send theirs with the reports of the tests."""
    verdicts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            # The last of a test's reports has the audits of all its phases.
            if getattr(report, "when", None) == "teardown":
                verdicts.update(
                    value.split()[0]
                    for name, value in report.user_properties
                    if name == _REPORT_PROPERTY
                )
    if verdicts:
        total = verdicts.total()
        counts = [f"{verdicts[v]} {v}" for v in ("PASS", "FAIL", "INCONCLUSIVE") if verdicts[v]]
        plural = "" if total == 1 else "s"
        terminalreporter.write_line(f"simverify: {total} audit{plural}: {', '.join(counts)}")
