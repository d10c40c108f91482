"""``simverify.audit``: any verifier on trial, named or handed over."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simverify.api.code.bridges import bridge_of
from simverify.api.code.bridges import loader as load_bridge
from simverify.api.code.bridges import name_of as name_of_bridge
from simverify.api.code.subjects import subject_of
from simverify.api.pairs import audit_pair, loader, name_of, pair_of
from simverify.api.real import BUNDLED, RealModels
from simverify.auditing.process.supervised import supervised_audit
from simverify.auditing.settings import AuditSettings
from simverify.errors import OptionError, UsageError, quoted
from simverify.options.audit import (
    CODE,
    AuditOptions,
    PairOptions,
    ProgramOptions,
    RealModelOptions,
    SelfTestOptions,
    TraceOptions,
    UsualOptions,
)
from simverify.options.modes import keywords
from simverify.options.option import Code, Options
from simverify.options.parts import DRAFTERS
from simverify.results import AuditRun
from simverify.trees import parse_levels

if TYPE_CHECKING:
    from simverify.auditing.real.live import Live
    from simverify.drafting.method import DraftMethod

_COARSER = (0.02, 0.03, 0.05)
"""What slow code is sampled for, in place of a deviation that nobody asked for by name."""


@keywords(UsualOptions, *CODE)
def audit(options: Options) -> AuditRun:
    """Put a verifier on trial: say whether its output is the target's distribution.

    The keywords below are what most audits need; those of
    :class:`~simverify.options.audit.AuditOptions` are taken too. So are those of other modes: a
    pair of real models (``target``), a recorded trace (``trace``), a drafter with its verifier
    (``drafter``, ``verifier``), a program or a library (``command``, ``library``). In the place of
    keywords an object of a mode is taken, such as ``audit(AuditOptions(verify, batch=8))``.

    Returns
    -------
    AuditRun
        ``run.verdict``, ``run.passed``, ``run.counterexample``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        An option out of range or of another mode, a name that does not exist, code that cannot be
        called under the contract.
    SimverifyError
        Code that fails to load.
    """
    return run_audit(options)


def run_audit(options: Options, *, reproduce: str | None = None) -> AuditRun:
    """Audit code in a child process, where a process can be forked.

    ``reproduce``: the command that shows a failure again; by default the audit itself.
    """
    if isinstance(options, PairOptions):
        return _audit_pair(options, reproduce)
    if isinstance(options, ProgramOptions):
        bridge = bridge_of(options)
        settings = settings_of(options, bridge=bridge)
        return supervised_audit(
            load_bridge(bridge, settings.seconds),
            options.contract,
            settings,
            spec=name_of_bridge(bridge),
            reproduce=reproduce,
            progress=options.progress,
        )
    assert isinstance(options, AuditOptions | TraceOptions | RealModelOptions)
    settings = settings_of(options)
    live = _live(options) if isinstance(options, RealModelOptions) else None
    name, load = subject_of(_named(options.rule), settings.checkout, seconds=settings.seconds)
    conduct: partial[AuditRun] | None = None
    if isinstance(options, TraceOptions):
        from simverify.auditing.real.recorded import audit_recorded, recorded_command

        folder = Path(options.trace or "")
        reproduce = recorded_command(name, folder, settings)
        conduct = partial(audit_recorded, folder=folder)
    elif live is not None:
        from simverify.auditing.real.live import audit_live

        reproduce = live.command(name, settings)
        conduct = partial(audit_live, live=live)
    return supervised_audit(
        load,
        options.contract,
        settings,
        spec=name,
        reproduce=reproduce,
        conduct=conduct,
        progress=options.progress,
    )


def _named(rule: Code | None) -> Code:
    if rule is None:
        raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
    return rule


def _audit_pair(options: PairOptions, reproduce: str | None) -> AuditRun:
    pair = pair_of(options)
    settings = settings_of(options, pair=pair)
    name = name_of(pair)
    again = reproduce or settings.command(name, "step")
    return supervised_audit(
        loader(pair, settings.checkout),
        None,
        settings,
        spec=name,
        reproduce=reproduce,
        conduct=partial(audit_pair, pair=pair, reproduce=again),
        progress=options.progress,
    )


def _live(options: RealModelOptions) -> "Live":
    """Return the pair of real models that the options name, and how code decodes on it."""
    from simverify.auditing.real.live import Live

    if options.drafter is not None and options.drafter not in DRAFTERS:
        raise OptionError(
            f"{{drafter}} is {quoted(options.drafter)}: real models draft by one of "
            f"{', '.join(DRAFTERS)}; code is audited on small instances, with {{verifier}} and "
            "without {target}"
        )
    real = RealModels.of(options)
    real.complete()
    gamma = options.gamma
    if gamma is None and options.tree is not None:
        gamma = parse_levels(options.tree).depth
    own: dict[str, Any] = {
        "gamma": gamma,
        "contract": options.contract,
        "scheme": options.scheme,
        "tree": options.tree,
        "tokens": real.tokens,
        "device": real.device,
        "dtype": real.dtype,
        "threads": real.threads,
        "method": _method(real),
    }
    assert real.target is not None
    return Live(
        target=real.target,
        draft=real.draft or (BUNDLED if real.target == BUNDLED and not real.from_texts else None),
        prompts=real.prompts,
        sampling=real.sampling(),
        **{name: value for name, value in own.items() if value is not None},
    )


def _method(real: RealModels) -> "DraftMethod":
    methods = real.methods()
    if len(methods) > 1:
        raise OptionError("{layer_parallel} is one number here: an audit drafts in one way")
    return methods[0]


_JUDGED = ("rule", "contract")
"""What is judged is no setting of how."""

_DRAFTED = ("gamma", "scheme", "tree")
"""Of real models: how they draft, which is no size of an instance."""


def settings_of(options: Options, **more: Any) -> AuditSettings:
    """Return the settings of an audit with these options; ``more``: settings that are no options.

    Raises ``UsageError`` for what is out of range.
    """
    names = set(type(options).names()) & set(AuditSettings.names()) - set(_JUDGED)
    if isinstance(options, RealModelOptions):
        names -= set(_DRAFTED)
    elif isinstance(options, PairOptions):
        names -= {"scheme", "tree"}
    values = {name: getattr(options, name) for name in names}
    if values["detect"] is None:
        del values["detect"]
        if not isinstance(options, SelfTestOptions):
            more["coarser"] = _COARSER
    return AuditSettings(**values, **more)
