"""The edge probes of a subject: what comes before every tier of an audit."""

import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
from msgspec.structs import replace

from simverify.auditing.exact.generations.drafts import takes
from simverify.auditing.probes import cases, gpu, plain
from simverify.auditing.probes.calls import Contract, Line, Rule, caller, probe
from simverify.auditing.probes.drafts import probe_drafter
from simverify.auditing.probes.edges import Forced, edge_uniforms, forced, repeated_calls
from simverify.auditing.probes.named_lines import finding
from simverify.auditing.probes.plain import Plain, batch_rows
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import UsageError
from simverify.results import Finding, Probe
from simverify.symbolic.guards.watchdog import doing, in_a_child

SECONDS = 3.0

WARM_UP = 3.0
"""The first call may compile and import: as many times the seconds of a probe."""

_MAY_HANG = ("zero rows", "NaN rows", "u = 0", "u = 1 - ulp")
"""Rows that are no laws are nobody's contract, and a draw at its edge for ever never comes: a
correct rejection loop may wait for ever.
"""

_WAITING = 1 / 3
"""Part of a probe's seconds for these: to wait longer would say no more."""

_NO_LAWS = ("zero rows", "NaN rows", "p = q = 0 at a draft token")
"""Probes of what the contract rules out: to raise there is no violation."""

_SPARED = (*_NO_LAWS, "u = 0", "u = 1 - ulp")
"""Probes that are not made with a GPU that others need: right code may end its use by them."""

Body = Callable[[Line], str]


def run_probes(
    rule: Rule,
    contract: Contract,
    *,
    seconds: float = SECONDS,
    eos: int | None = None,
    batched: Rule | None = None,
    rows: int | None = None,
    lost: Sequence[Probe] = (),
) -> tuple[Probe, ...]:
    """Probe ``rule`` at the edges of its contract.

    A violation is a broken contract, or an event of probability above 1e-6 a draw; a warning
    is an event at u = 0, at u = 1 - ulp, or on inputs that the contract rules out (a draft
    that neither model can emit, rows that are no distributions).

    Parameters
    ----------
    rule
        A ``verify`` function, or a ``step`` function, class or factory.
    contract
        Which of the two.
    eos
        The token at which a decoding loop ends a generation of a step rule.
    batched, rows
        The code with its batch axis, of which ``rule`` is one row, and the rows of a call.
    seconds
        Limit of each probe: processor seconds, or the wall clock where the code waits; a third
        where to wait for ever is no violation. A call that takes over half of it when it ends
        is a hang, a violation, unless the calls that returned are slow too; after a hang
        nothing more is run.
    lost
        What came of probes that ended the use of the GPU in another process. After one that is a
        violation nothing more is run.

    Returns
    -------
    tuple of Probe
        One for each probe, also for those not run, always in the same order.

    Raises
    ------
    ValueError
        ``seconds`` is not positive, or the step rule cannot be built anew for every trial.
    GpuLost
        A probe ended the use of the GPU by this process; those in which right code may do so are
        not run but in a child, which may be lost.
    """
    _run_probes_iv(contract, seconds)
    call = caller(rule, contract, eos)
    honest = Plain(call, contract)
    lines: list[Probe] = []
    hung = ""
    took = 0.0

    def run(name: str, body: Body, limit: float = seconds) -> None:
        nonlocal hung, took
        if hung:
            lines.append(_not_run(name, f"the code hangs, see {hung!r}"))
            return
        if (known := gpu.from_before(name, lines, lost)) is not None:
            lines.append(known)
            return
        if name in _SPARED and gpu.in_use() and not in_a_child():
            lines.append(_not_run(name, "it may end this process's use of the GPU"))
            return
        doing(f"the probe {name!r}")
        if name in _MAY_HANG:
            limit *= _WAITING
        line = Line(took)
        try:
            found = probe(name, body, limit, line)
        except gpu.GpuLost as error:
            grade = error.grade or ("warning" if name in _NO_LAWS else "violation")
            raise gpu.GpuLost(error.text, name, grade) from None
        took = line.took
        if found.hung and name in _MAY_HANG:
            found = Probe(name=name, outcome="warning", message=found.message)
        lines.append(found)
        hung = name if found.hung else ""

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(np.errstate(all="ignore"))
        stack.enter_context(plain.states_kept())
        _one_torch_thread(stack)
        run("output", lambda line: plain.output_type(line, honest), WARM_UP * seconds)
        _one_torch_thread(stack)  # the code may have imported it only now
        for name, body in _plain_probes(honest).items():
            run(name, body)
        # The twins stand in only from here on: an import under them would draw from us.
        with forced(rule) as (source, generator):
            kept = Forced(call, contract, source, generator)
            run("u = 0", lambda line: edge_uniforms(line, kept, "first"))
            run("u = 1 - ulp", lambda line: edge_uniforms(line, kept, "last"))
            run("repeated calls", lambda line: repeated_calls(line, kept))
        if batched is not None and rows is not None:
            run("batch rows", lambda line: batch_rows(line, batched, rows, plain.seeded))
    return tuple(lines)


def try_out(rule: Rule, contract: Contract) -> None:
    """Call ``rule`` on a few cases of different sizes; how the calls end is ignored."""
    honest, line = Plain(caller(rule, contract), contract), Line()
    with warnings.catch_warnings(), np.errstate(all="ignore"), plain.states_kept():
        warnings.simplefilter("ignore")
        for case in (cases.PLAIN, cases.SINGLE, cases.EQUAL, cases.DISJOINT, cases.large()):
            for seed in range(4):
                honest.run(line, case, seed)


def _plain_probes(honest: Plain) -> dict[str, Body]:
    def on(case: cases.Case, calls: int = plain.CALLS) -> Body:
        return lambda line: plain.honest(line, honest, case, calls)

    def needs_verify(body: Body, why: str) -> Body:
        def skip(line: Line) -> str:
            line.add("not run", why)
            return ""

        return body if honest.contract == "verify" else skip

    return {
        "gamma = 1": on(cases.SINGLE),
        "large vocabulary": on(cases.large(), calls=12),
        "ids 0 and V-1": lambda line: plain.ends(line, honest),
        "p = q": on(cases.EQUAL),
        "disjoint support": on(cases.DISJOINT),
        "one-hot drafts": on(cases.ONE_HOT_DRAFT),
        "one-hot targets": on(cases.ONE_HOT_TARGET),
        "p = q = 0 at a draft token": needs_verify(
            lambda line: plain.undrafted(line, honest), "the rule drafts its own tokens"
        ),
        "zero rows": lambda line: plain.malformed(line, honest, cases.ZERO_ROWS),
        "NaN rows": lambda line: plain.malformed(line, honest, cases.NAN_ROWS),
        "inputs": needs_verify(
            lambda line: plain.unmodified(line, honest),
            "rows are handed out fresh and the prefix is a tuple",
        ),
    }


def _one_torch_thread(stack: ExitStack) -> None:
    """Keep tiny tensors off a busy second core, which makes them many times slower."""
    torch = sys.modules.get("torch")
    if torch is not None:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)


def _not_run(name: str, why: str) -> Probe:
    return Probe(name=name, outcome="not run", message=why)


def _run_probes_iv(contract: Contract, seconds: float) -> None:
    if contract not in ("verify", "step"):
        raise ValueError(f"contract {contract!r}: pass 'verify' or 'step'")
    if not seconds > 0:
        raise ValueError(f"seconds={seconds}: pass a positive number")


def probes_of(
    whole: Subject,
    subject: Subject,
    contract: Contract,
    settings: AuditSettings,
    drafter: Rule | None = None,
) -> tuple[Probe, ...]:
    """Probe ``subject``, which of batched code is one row of ``whole``.

    ``drafter``: the code under audit where that is one, which ``subject`` puts to use.
    Raises ``UsageError`` if the code cannot be called under the contract at all.
    """
    if subject.coin_bits is not None:
        message = "the code takes its coins as arguments: no random source to force"
        return (Probe(name="edges", outcome="not run", message=message),)
    if contract == "verify":
        _signature_iv(subject)
    fatal = ("violation", "warning") if settings.strict_probes else ("violation",)
    try:
        probes = run_probes(
            subject.rule,
            contract,
            eos=settings.eos,
            batched=whole.rule if settings.batch else None,
            rows=settings.batch,
            lost=settings.lost,
        )
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from None
    if drafter is not None:
        probes = probe_drafter(drafter, probes, settings.lost)
    return tuple(replace(probe, failed=probe.outcome in fatal) for probe in probes)


def probe_findings(probes: Sequence[Probe]) -> list[Finding]:
    """What the probes that failed the audit found."""
    return [
        finding("probe", f"probe {probe.name}: {probe.message}") for probe in probes if probe.failed
    ]


def _signature_iv(subject: Subject) -> None:
    """Refuse code that cannot take the four arguments of ``verify``."""
    try:
        signature = inspect.signature(subject.rule)
    except (TypeError, ValueError):
        return
    if not takes(signature, 4):
        raise UsageError(
            f"{subject.name}{signature} cannot be called as verify(target_probs, draft_probs, "
            f"draft_tokens, rng){_looks_like(signature)}"
        )


def _looks_like(signature: inspect.Signature) -> str:
    if not takes(signature, 5):
        return ""
    if "parents" in signature.parameters:
        return "; it looks like a tree rule: --contract tree"
    return "; it looks like a step rule: --contract step"
