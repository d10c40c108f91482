"""An audit in a child process: code that ends, kills or blocks its process is a finding."""

import os
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, Literal

import msgspec

from simverify import results
from simverify.auditing.calling import calling_of
from simverify.auditing.exact.company.batches import placed
from simverify.auditing.exact.company.places import FIRST, place_of
from simverify.auditing.exact.generations.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.probes.gpu import GpuLost
from simverify.auditing.probes.run import try_out
from simverify.auditing.process.child import Died, in_child
from simverify.auditing.replay.breach import replay_breach
from simverify.auditing.replay.coins import explain_coins, replay_broken, replay_line
from simverify.auditing.replay.drafts import explain_draft
from simverify.auditing.replay.paths import Explanation, explain
from simverify.auditing.replay.trial_replay import replay_trial
from simverify.auditing.run import audit, broken_document
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject
from simverify.battery.judgement import stamped
from simverify.engines.bridge.protocol import ON_THE_LINE
from simverify.errors import SimverifyError
from simverify.symbolic.guards.containment import Shared, contained
from simverify.symbolic.guards.watchdog import Expired, deadline, doing

_TRIAL_SECONDS = 2.0

Conduct = Callable[..., results.AuditRun]
"""An audit of a subject, with keywords ``settings`` and ``progress``."""


def supervised_audit(
    load: Callable[[], Subject],
    contract: Contract | None,
    settings: AuditSettings,
    *,
    spec: str,
    reproduce: str | None = None,
    conduct: Conduct | None = None,
    progress: Callable[[str], None] | None = None,
) -> results.AuditRun:
    """As :func:`~simverify.auditing.run.audit` of what ``load`` returns, in a child process.

    ``conduct`` takes the place of that audit, and then ``reproduce`` is the command that
    repeats it. A child that dies is a FAIL that says how and where. Raises ``SimverifyError``
    if it dies while ``load`` runs, and as ``load`` and the audit do. After a probe that ends the
    use of the GPU the audit begins again in another child, without that probe.
    """
    say = progress or (lambda _line: None)
    stamp = stamped()

    def work(told: Callable[[str], None]) -> results.AuditRun:
        shared = Shared()
        subject = load()
        try:
            with closing(subject):
                if conduct is not None:
                    return conduct(subject, settings=settings, progress=told)
                return audit(subject, contract, settings, reproduce=reproduce, progress=told)
        except SimverifyError:
            raise
        except Exception:
            # A module that replaces a shared name when it is loaded may mean well.
            changed = shared.restore()
            if not changed:
                raise
            return again(broken_document(changed, spec, contract or "verify", settings, stamp()))

    def again(run: results.AuditRun) -> results.AuditRun:
        if conduct is None or reproduce is None:
            return run
        return msgspec.structs.replace(run, reproduce=reproduce)

    run: results.AuditRun | Died
    while True:
        try:
            run = in_child(work, say)
            break
        except GpuLost as found:
            before = {one.name for one in settings.lost}
            if found.process == os.getpid() or found.probe in before:
                raise
            say(f"again: the probe {found.probe!r} ended the use of the GPU by its process")
            outcome: Literal["warning", "violation"]
            outcome = "warning" if found.grade == "warning" else "violation"
            probe = results.Probe(name=found.probe, outcome=outcome, message=found.text)
            settings = replace(settings, lost=(*settings.lost, probe))
    if not isinstance(run, Died):
        return run
    if not run.place:
        what = spec if conduct is None else f"{spec}, or what it runs on,"
        raise SimverifyError(f"{what} fails to load: {run.how}")
    return again(_crashed(run, spec, contract or "verify", settings, stamp()))


def supervised_explain(
    load: Callable[[], Subject],
    contract: Contract,
    found: results.Counterexample,
    *,
    spec: str,
    batch: int | None = None,
    company: str | None = None,
) -> Explanation:
    """As :func:`~simverify.auditing.replay.paths.explain` of a counterexample, in a child process.

    Batched code, of ``batch`` blocks a call, is shown on a single block, as it was enumerated.

    Raises ``SimverifyError`` if the child dies, or if the code cannot be followed any more.
    """

    def work(_: Callable[[str], None]) -> Explanation:
        subject = _alone(load(), batch, company, found.instance.name)
        if found.instance.eos is not None and contract == "verify":
            subject = subject.ended_by(found.instance.eos)
        try:
            with closing(subject), contained():
                if subject.coin_bits is not None:
                    return explain_coins(subject, found.instance, found.sequence)
                if found.call is not None:
                    return explain_draft(subject.rule, found)
                return explain(subject.generator_rule(), contract, found.instance, found.sequence)
        except (CannotEnumerate, OutOfTime, TooManyPaths) as error:
            raise SimverifyError(f"{spec} is not the code of the audit any more: {error}") from None

    explanation: Explanation = _in_child(work, spec)
    return explanation


def supervised_breach(load: Callable[[], Subject], run: results.AuditRun) -> tuple[str, ...]:
    """As :func:`~simverify.auditing.replay.breach.replay_breach`, of ``run.breach``, in a child.

    Raises ``SimverifyError`` if the child dies, or if the code cannot be followed any more.
    """
    assert run.breach is not None
    found = run.breach

    def work(_: Callable[[str], None]) -> tuple[str, ...]:
        subject = _alone(load(), run.batch, run.company, found.instance.name)
        if found.instance.eos is not None and run.contract == "verify":
            subject = subject.ended_by(found.instance.eos)
        try:
            with closing(subject), contained():
                if subject.coin_bits is not None:
                    return replay_broken(subject, found)
                return replay_breach(subject.generator_rule(), run.contract, found)
        except (CannotEnumerate, OutOfTime, TooManyPaths) as error:
            raise SimverifyError(
                f"{run.spec} is not the code of the audit any more: {error}"
            ) from None

    texts: tuple[str, ...] = _in_child(work, run.spec)
    return texts


def supervised_trial(load: Callable[[], Subject], run: results.AuditRun) -> str:
    """Replay ``run.trial`` in a child process.

    As :func:`~simverify.auditing.replay.trial_replay.replay_trial` does in this one.

    Raises ``SimverifyError`` if the child dies.
    """
    assert run.trial is not None
    found = run.trial

    def work(_: Callable[[str], None]) -> str:
        subject = load()
        settings = AuditSettings(scheme=run.scheme, tree=run.tree)
        if run.contract in ("tree", "draft"):
            settings = replace(settings, gamma=run.gamma)
        calling = calling_of(subject, subject, run.contract, settings)
        with closing(subject), contained():
            rule = calling.whole.generator_rule()
            return replay_trial(rule, calling.contract, found, seed=run.seed, batch=run.batch)

    text: str = _in_child(work, run.spec)
    return text


def supervised_line(load: Callable[[], Subject], run: results.AuditRun) -> str:
    """As :func:`~simverify.auditing.replay.coins.replay_line`, of the run's line, in a child."""

    def work(_: Callable[[str], None]) -> str:
        assert run.bridge is not None
        assert run.bridge.line is not None
        subject = load()
        with closing(subject), contained():
            return replay_line(subject, run.bridge.line)

    text: str = _in_child(work, run.spec)
    return text


def _alone(subject: Subject, batch: int | None, company: str | None, instance: str) -> Subject:
    """Return batched code as the rule on one block that was enumerated."""
    if company:
        return placed(subject, place_of(instance))
    return subject.one_row() if batch else subject


def _in_child(work: Callable[[Callable[[str], None]], Any], spec: str) -> Any:
    result = in_child(work, lambda _line: None)
    if isinstance(result, Died):
        raise SimverifyError(f"{spec} ends the replay: {result.how}")
    return result


def crash(subject: Subject, contract: Contract, settings: AuditSettings) -> results.AuditRun | None:
    """Call the code a few times in a child process; the FAIL of code that it does not survive.

    For an audit that has to share its process, as a test's does. None where all is well, or
    where a process cannot be forked: off Linux, or with a GPU in use.
    """
    torch = sys.modules.get("torch")
    if sys.platform != "linux" or "jax" in sys.modules or (torch and torch.cuda.is_initialized()):
        return None
    stamp, settings = stamped(), settings.for_subject(subject)

    def work(_: Callable[[str], None]) -> None:
        doing("a first call")
        # What an exception says is the audit's to find out.
        with contained(), deadline(_TRIAL_SECONDS), suppress(Expired, Exception):
            one = subject.one_row() if settings.batch else subject
            if settings.batch_mix:
                one = placed(subject, FIRST)
            calling = calling_of(subject, one, contract, settings)
            try_out(calling.one.rule, calling.contract)

    died = in_child(work, lambda _line: None)
    # A lock that another thread held at the fork may block a child: that is nobody's fault.
    if not isinstance(died, Died) or died.hung:
        return None
    return _crashed(died, subject.name, contract, settings, stamp())


def _crashed(
    died: Died, spec: str, contract: Contract, settings: AuditSettings, meta: results.Meta
) -> results.AuditRun:
    """Return the FAIL of code that took the process of its audit down."""
    kind = "hangs" if died.hung else "ends the process"
    place, asked, line = died.place.partition(f", {ON_THE_LINE}")
    finding = f"{kind}: {died.how}, in {place}"
    run = broken_document(finding, spec, contract, settings, meta)
    if not asked or run.bridge is None:
        return run
    bridge = msgspec.structs.replace(run.bridge, line=line)
    return msgspec.structs.replace(run, bridge=bridge, notes=(f"asked when it broke: {line}",))
