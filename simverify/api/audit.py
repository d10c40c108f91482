"""``simverify.audit``, ``self_test`` and ``replay``: any verifier, by name or as a callable."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from simverify.api.real import BUNDLED_MODEL, RealModelOptions
from simverify.api.verdict_cache import VerdictRecorder
from simverify.auditing import run as auditing
from simverify.auditing.coins import MAX_COINS, MAX_REPORTED_COINS
from simverify.auditing.enumeration import takes_draft_arguments
from simverify.auditing.replay import render_explanation
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject, load_subject, module_key_of
from simverify.auditing.trees import pair_as_step
from simverify.engines.bridge import COMMAND_CALL_SECONDS, CommandVerify, LibraryVerify
from simverify.errors import OptionError, UsageError, escape_braces
from simverify.options.audit import (
    CODE,
    AuditOptions,
    PairOptions,
    ProgramOptions,
    SelfTestOptions,
    TargetOptions,
    TraceOptions,
    UsualOptions,
)
from simverify.options.audit import RealModelOptions as AuditRealModelOptions
from simverify.options.modes import keywords
from simverify.options.option import DRAFTERS, Options
from simverify.results import AuditRun, Bridge, Pair, SelfTestRun
from simverify.trees import SCHEMES, Drafting, TreeShape, get_scheme, parse_levels, shape_of_levels

if TYPE_CHECKING:
    from simverify.auditing.real_models import LiveModels


# Verifiers in other languages: what the options name, and how it is loaded.


def bridge_from_options(options: ProgramOptions) -> Bridge:
    """Return the program or the library that the options name; raises ``UsageError`` for both."""
    if options.command is not None and options.library is not None:
        raise OptionError("{command} and {library} are two ways: name one")
    name, most = "command", MAX_REPORTED_COINS
    if options.command is None:
        name, most = "library", MAX_COINS
    if options.coins is not None and not 1 <= options.coins <= most:
        raise OptionError(f"{{coins}} is {options.coins}: expected 1 to {most} with {{{name}}}")
    library = None if options.library is None else str(options.library)
    return Bridge(options.command, library, options.coins)


def bridge_name(bridge: Bridge) -> str:
    """Return its name in reports: the command, or path:symbol."""
    return str(bridge.library if bridge.command is None else bridge.command)


def bridge_loader(bridge: Bridge, seconds: float | None = None) -> Callable[[], Subject]:
    """Return what starts or loads it; ``seconds``: the limit of a tier, of which a call has half.

    What is returned raises ``UsageError`` for what is not there, ``SimverifyError`` for what is
    there and does not load.
    """
    limit = COMMAND_CALL_SECONDS if seconds is None else min(COMMAND_CALL_SECONDS, seconds / 2)
    return partial(_load_bridge, bridge, limit)


def _load_bridge(bridge: Bridge, limit: float) -> Subject:
    rule: CommandVerify | LibraryVerify
    if bridge.command is not None:
        rule = CommandVerify(bridge.command, seconds=limit)
    elif bridge.library is not None:
        rule = LibraryVerify(bridge.library, seconds=limit)
    else:
        raise UsageError("the run names neither a command nor a library")
    return Subject(
        bridge_name(bridge),
        rule,
        "verify",
        rule.tolerance,
        rule.bits,
        bridge.coins,
        one_block=True,
        close=rule.close,
    )


# What Python code audits: a SPEC, or a callable with the name that finds it again.


_LIVE_CALLABLES: dict[str, Callable[..., Any]] = {}
"""Callables by the names under which they were audited: a replay calls them again."""


def resolve_subject(
    rule: Callable[..., Any] | str,
    checkout: str | None = None,
    *,
    seconds: float = 0.0,
    taken: str | None = None,
) -> tuple[str, Callable[[], Subject]]:
    """Return the name of the code under audit, and what loads it.

    ``taken``: a name that other code has. Raises ``UsageError`` for what is not callable.
    """
    if isinstance(rule, str):
        _LIVE_CALLABLES.pop(rule, None)
        return rule, partial(load_subject, rule, checkout, seconds=seconds)
    if not callable(rule):
        raise UsageError(f"got {rule!r}: expected a callable or a SPEC")
    if checkout is not None:
        raise OptionError("a checkout is of an engine: name that engine as the SPEC")
    name = find_spec(rule, Path.cwd()) or str(getattr(rule, "__qualname__", type(rule).__name__))
    if name == taken and _LIVE_CALLABLES.get(name) is not rule:
        name += " (the other)"
    _LIVE_CALLABLES[name] = rule
    return name, partial(Subject, name, rule, None)


def subject_loader(
    spec: str, checkout: str | None, modules: dict[str, Any] | None = None
) -> Callable[[], Subject]:
    """Return what loads the callable that was audited, or its SPEC; ``modules``: loaded already."""
    if spec in _LIVE_CALLABLES:
        return partial(Subject, spec, _LIVE_CALLABLES[spec], None)
    return partial(load_subject, spec, checkout, modules=modules)


def find_spec(rule: Callable[..., Any], folder: Path, beside: Iterable[object] = ()) -> str | None:
    """Return a SPEC that a new process can load: a name at the top of a module's file, or None.

    Files are named from ``folder``; ``beside``: modules to look in, after the rule's own.
    """
    home = sys.modules.get(getattr(rule, "__module__", None) or "")
    for module in (home, *beside):
        if not isinstance(module, ModuleType):
            continue
        file, name = getattr(module, "__file__", None), _path_in_module(module, rule)
        if name is None or file is None or not file.endswith(".py"):
            continue
        return f"{os.path.relpath(file, folder)}:{name}"
    return None


def _path_in_module(module: ModuleType, rule: Callable[..., Any]) -> str | None:
    """Return the path of ``rule`` from the top of ``module``, if it has one."""
    qualified = str(getattr(rule, "__qualname__", ""))
    found: object = module
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if found is rule:
        return qualified
    return next((name for name, value in vars(module).items() if value is rule), None)


# A drafter and a verifier audited together: what each is, and how they are loaded.


DEFAULT_TREE = "2,1"
"""Children per level where none are named."""


def pair_from_options(options: PairOptions) -> Pair:
    """Return the pair that the options name.

    Raises ``UsageError`` for half a pair, and for options that do not go together.
    """
    if options.drafter is None:
        raise OptionError("{verifier} is half of a pair: name {drafter} too")
    if options.verifier is None:
        raise OptionError("{drafter} is half of a pair: name {verifier} too")
    contract = options.contract or "verify"
    if contract == "step" or contract == "draft":
        raise OptionError(
            f"{{contract}} is the verifier's, verify or tree: got {contract} with {{verifier}}"
        )
    if contract != "tree":
        for name in ("scheme", "tree"):
            if getattr(options, name) is not None:
                raise OptionError(f"{{{name}}} is for draft trees: name {{contract}} tree too")
    scheme = None if options.scheme is None else get_scheme(options.scheme).name
    drafter, _ = resolve_subject(options.drafter)
    verifier, _ = resolve_subject(options.verifier, taken=drafter)
    return Pair(drafter, verifier, contract, scheme, options.tree)


def load_pair(pair: Pair, checkout: str | None = None) -> Subject:
    """Load both, and return them as one step rule.

    Raises ``UsageError`` for code that is no drafter, or no verifier of that contract.
    """
    modules, before = dict[str, Any](), set(sys.modules)
    drafter = subject_loader(pair.drafter, None, modules)()
    if drafter.contract not in (None, "draft"):
        raise UsageError(
            f"{pair.drafter} has the {drafter.contract} contract: --drafter takes one of the draft "
            "contract"
        )
    try:
        takes_draft_arguments(drafter.rule)
    except ValueError as error:
        raise UsageError(f"--drafter {pair.drafter}: {error}") from None
    _share_module(pair.verifier, before, modules)
    verifier = subject_loader(pair.verifier, checkout, modules)()
    if verifier.contract not in (None, pair.contract):
        raise UsageError(_wrong_contract(pair, verifier))
    if verifier.batch or verifier.company:
        raise UsageError(f"{pair.verifier} takes whole batches: a pair drafts one block a call")
    drafting = None
    if pair.contract == "tree":
        levels = pair.tree or DEFAULT_TREE
        shape: TreeShape = shape_of_levels([int(count) for count in levels.split(",")])
        if not verifier.fits(shape):
            raise UsageError(f"{pair.verifier} does not take the tree {levels}: name another one")
        # The scheme is the drafter's to keep.
        drafting = Drafting(shape, SCHEMES[pair.scheme or verifier.scheme or "iid"])
    rule = pair_as_step(drafter.rule, verifier.generator_rule(), pair.contract, drafting)
    tolerances = [x.tolerance for x in (drafter, verifier) if x.tolerance is not None]
    return Subject(pair_name(pair), rule, "step", max(tolerances, default=None))


def _share_module(spec: str, before: set[str], modules: dict[str, Any]) -> None:
    """Note the module of ``spec`` where the drafter has imported it, lest there be two of it."""
    place = Path(spec.rpartition(":")[0])
    found = sys.modules.get(place.stem)
    file = getattr(found, "__file__", None)
    if place.stem not in before and file is not None and Path(file) == place.resolve():
        modules.setdefault(module_key_of(str(place)), found)


def audit_pair(
    subject: Subject,
    *,
    pair: Pair,
    settings: AuditSettings,
    reproduce: str | None,
    progress: Callable[[str], None],
) -> AuditRun:
    """Audit what :func:`load_pair` returned; where it fails, a note says which of the two it is."""
    run = auditing.audit(subject, None, settings, reproduce=reproduce, progress=progress)
    if run.verdict != "FAIL":
        return run
    modules: dict[str, Any] = {}
    alone = replace(settings, pair=None, gamma=min(settings.gamma, 2), vocab=3)
    words, verdicts = [], []
    tried: tuple[tuple[str, str, Contract], ...] = (
        ("drafter", pair.drafter, "draft"),
        ("verifier", pair.verifier, pair.contract),
    )
    for role, spec, contract in tried:
        progress(f"the {role} alone")
        code = subject_loader(spec, settings.checkout if role == "verifier" else None, modules)()
        scheme = pair.scheme or code.scheme
        if contract == "tree" and scheme is None:
            continue  # its scheme is not known
        mine = replace(alone, scheme=scheme if contract != "verify" else None, tree=pair.tree)
        if role == "drafter":
            unset: dict[str, Any] = dict.fromkeys(TargetOptions.names())
            mine = replace(mine, **unset)
        found = auditing.audit(code, contract, mine, progress=progress)
        verdicts.append(found.verdict)
        again = f"is {found.verdict} too: {mine.command(spec, contract)}"
        words.append(f"alone the {role} {'passes' if found.verdict == 'PASS' else again}")
    if verdicts == ["PASS", "PASS"]:
        words = ["each passes alone: what they share is wrong, such as random numbers"]
    return msgspec.structs.replace(run, notes=(*words, *run.notes))


def pair_name(pair: Pair) -> str:
    """Return what the pair is called in reports."""
    return f"{pair.drafter} with {pair.verifier}"


def _wrong_contract(pair: Pair, verifier: Subject) -> str:
    has = f"{pair.verifier} has the {verifier.contract} contract"
    if verifier.contract == "step":
        return f"{has}: it drafts itself, so audit it alone"
    if verifier.contract == "draft":
        return f"{has}: --verifier takes one of the verify or tree contract"
    return f"{has}: name --contract {verifier.contract}"


_COARSER_DETECT = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
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


def run_audit(options: Options, *, reproduce: str | None = None, keep: bool = False) -> AuditRun:
    """Audit code in a child process, where a process can be forked.

    ``reproduce``: the command that shows a failure again; by default the audit itself. ``keep``:
    keep the verdict of code that this process has not loaded, for the next audit.
    """
    auditor: partial[AuditRun] | None = None
    contract: Contract | None = None
    load: Callable[[], Subject]
    if isinstance(options, PairOptions):
        pair = pair_from_options(options)
        settings = audit_settings(options, pair=pair)
        name, load = pair_name(pair), partial(load_pair, pair, settings.checkout)
        again = reproduce or settings.command(name, "step")
        auditor = partial(audit_pair, pair=pair, reproduce=again)
    elif isinstance(options, ProgramOptions):
        bridge, contract = bridge_from_options(options), options.contract
        settings = audit_settings(options, bridge=bridge)
        name, load = bridge_name(bridge), bridge_loader(bridge, settings.seconds)
    else:
        assert isinstance(options, AuditOptions | TraceOptions | AuditRealModelOptions)
        settings, contract = audit_settings(options), options.contract
        live = _real_model_decoding(options) if isinstance(options, AuditRealModelOptions) else None
        if options.rule is None:
            raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
        name, load = resolve_subject(options.rule, settings.checkout, seconds=settings.seconds)
        if isinstance(options, TraceOptions):
            from simverify.auditing.real_models import audit_on_trace, trace_audit_command

            folder = Path(options.trace or "")
            reproduce = trace_audit_command(name, folder, settings)
            auditor = partial(audit_on_trace, folder=folder)
        elif live is not None:
            from simverify.auditing.real_models import audit_on_models

            reproduce = live.command(name, settings)
            auditor = partial(audit_on_models, live=live)
    return auditing.supervised_audit(
        load,
        contract,
        settings,
        spec=name,
        reproduce=reproduce,
        auditor=auditor,
        progress=options.progress,
        record=partial(VerdictRecorder, options, reproduce)
        if keep and isinstance(options, AuditOptions)
        else None,
    )


def _real_model_decoding(options: AuditRealModelOptions) -> "LiveModels":
    """Return the pair of real models that the options name, and how code decodes on it."""
    from simverify.auditing.real_models import LiveModels

    if options.drafter is not None and options.drafter not in DRAFTERS:
        raise OptionError(
            f"{{drafter}} is {escape_braces(options.drafter)}: real models draft by one of "
            f"{', '.join(DRAFTERS)}; code is audited on small instances, with {{verifier}} and "
            "without {target}"
        )
    real = RealModelOptions.of(options)
    real.complete()
    gamma = options.gamma
    if gamma is None and options.tree is not None:
        gamma = parse_levels(options.tree).depth
    shared = ("contract", "scheme", "tree", "tokens", "device", "dtype", "threads")
    own: dict[str, Any] = {
        **{name: getattr(options, name) for name in shared},
        "gamma": gamma,
        "method": real.method("an audit drafts in one way"),
    }
    assert real.target is not None
    return LiveModels(
        target=real.target,
        draft=real.draft
        or (BUNDLED_MODEL if real.target == BUNDLED_MODEL and not real.from_texts else None),
        prompts=real.prompts,
        sampling=real.sampling(),
        **{name: value for name, value in own.items() if value is not None},
    )


def audit_settings(options: Options, **more: Any) -> AuditSettings:
    """Return the settings of an audit with these options; ``more``: settings that are no options.

    Raises ``UsageError`` for what is out of range.
    """
    # What is judged is no setting of how.
    names = set(type(options).names()) & set(AuditSettings.names()) - {"rule", "contract"}
    if isinstance(options, AuditRealModelOptions):
        # How they draft is no size of an instance, and they make their rows themselves.
        names -= {"gamma", "scheme", "tree", *TargetOptions.names()}
    elif isinstance(options, PairOptions):
        names -= {"scheme", "tree"}
    values = {name: getattr(options, name) for name in names}
    if values["detect"] is None:
        del values["detect"]
        if not isinstance(options, SelfTestOptions):
            more["coarser"] = _COARSER_DETECT
    return AuditSettings(**values, **more)


# ``simverify.self_test``: the audit of every fault and control of the catalogue.


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
    return auditing.self_test(audit_settings(options), progress=options.progress)


# ``simverify.replay``: one failing path or trial of an audit, run again.


class ReplayText(str):
    """The text of a replay, which a Python prompt and a notebook show as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def replay(run: AuditRun, number: int = 0, *, name: str = "the run") -> ReplayText:
    """Run one failing path or trial of an audit again, and show every draw and branch.

    Parameters
    ----------
    run
        What :func:`simverify.audit` or :func:`simverify.load` returned. Its code is called
        again: the callable itself in the session that audited it, else what its SPEC names.
    number
        Of the path, the heaviest first, from 0; a failing trial of sampled calls is 0.
    name
        What an error calls the run.

    Raises
    ------
    UsageError
        If nothing failed, or there is no path of that number.
    SimverifyError
        If the code cannot be loaded, or is not the code of the audit any more.
    """
    load = _replay_loader(run)
    if run.counterexample is not None:
        explanation = auditing.supervised_explain(load, run)
        count = len(explanation.trails)
        if count == number == 0:
            # The code never emits what is due: the rows and the two probabilities are all there is.
            return ReplayText(render_explanation(explanation))
        if not 0 <= number < count:
            raise UsageError(
                f"{name} has {count} paths to the output, numbered from 0: got {number}"
            )
        return ReplayText(render_explanation(explanation, only=number))
    if run.breach is not None:
        texts = auditing.supervised_breach(load, run)
        if not 0 <= number < len(texts):
            raise UsageError(
                f"{name} has {len(texts)} paths that break the contract, numbered from 0: "
                f"got {number}"
            )
        return ReplayText(texts[number])
    if run.trial is None and (run.bridge is None or run.bridge.line is None):
        raise UsageError(
            f"{name}: the audit found no counterexample and no failing trial to replay"
        )
    if number != 0:
        raise UsageError(f"{name} has one failing trial, number 0: got {number}")
    return ReplayText(
        (auditing.supervised_line if run.trial is None else auditing.supervised_trial)(load, run)
    )


def _replay_loader(run: AuditRun) -> Callable[[], Subject]:
    """Return what loads the code of a run again."""
    if run.bridge is not None:
        return bridge_loader(run.bridge)
    if run.pair is not None:
        return partial(load_pair, run.pair, run.checkout)
    return subject_loader(run.spec, run.checkout)
