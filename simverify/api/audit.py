"""``simverify.audit``: any verifier on trial, named or handed over."""

from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simverify.api.code.bridges import bridge_of
from simverify.api.code.bridges import loader as load_bridge
from simverify.api.code.bridges import name_of as name_of_bridge
from simverify.api.code.subjects import subject_of
from simverify.api.options import AuditOptions
from simverify.api.pairs import audit_pair, loader, name_of, named, pair_of
from simverify.api.real import BUNDLED, RealModels
from simverify.api.ways import Way, called_from_python, chosen_way
from simverify.auditing.process.supervised import Conduct, supervised_audit
from simverify.auditing.settings import AuditSettings
from simverify.errors import OptionError
from simverify.results import AuditRun
from simverify.trees import parse_levels

if TYPE_CHECKING:
    from simverify.drafting.method import DraftMethod

Say = Callable[[str], None]

_COARSER = (0.02, 0.03, 0.05)
"""What slow code is sampled for, in place of a deviation that nobody asked for by name."""


def audit(
    rule: Callable[..., Any] | str | None = None,
    *,
    drafter: Callable[..., Any] | str | None = None,
    verifier: Callable[..., Any] | str | None = None,
    command: str | None = None,
    library: str | PathLike[str] | None = None,
    coins: int | None = None,
    contract: Literal["verify", "step", "tree", "draft"] | None = None,
    scheme: str | None = None,
    tree: str | None = None,
    gamma: int | None = None,
    vocab: int | None = None,
    strict_probes: bool = False,
    strict_coverage: bool = False,
    batch: int | None = None,
    company: str | None = None,
    eos: int | None = None,
    tolerance: float | None = None,
    max_paths: int | None = None,
    max_samples: int | None = None,
    seconds: float | None = None,
    alpha: float = 1e-6,
    detect: float | None = None,
    seed: int = 0,
    engine_path: str | PathLike[str] | None = None,
    trace: str | PathLike[str] | None = None,
    target: str | None = None,
    draft: str | None = None,
    prompts: str | PathLike[str] | None = None,
    tokens: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    threads: int | None = None,
    layer_parallel: int | str | None = None,
    no_calibration: bool = False,
    progress: Say | None = None,
) -> AuditRun:
    """Put a verifier on trial: say whether its output is the target's distribution.

    Parameters
    ----------
    rule
        The verifier: a function or class under one of the contracts, or a SPEC as the command
        line takes it (a built-in name, ``module:attr``, ``path/file.py:attr``, an engine).
    contract
        "verify", ``verify(target_probs, draft_probs, draft_tokens, rng) -> tokens``, the
        default; "step", code that drafts by itself; "tree",
        ``tree(target_probs, draft_probs, tokens, parents, rng) -> tokens``; or "draft", a
        drafter, ``draft(prefix, draft_row, k, rng) -> (tokens, probs)``.
    drafter, verifier
        In the place of ``rule``: a drafter, and a verifier of the "verify" or the "tree"
        contract, to be audited together. They may share the generator that both are handed.
        With ``target`` the drafter is one of compare's: "plain", "easyspec", ...
    command, library, coins
        In the place of ``rule``: a program in any language that answers a line for each call,
        such as "./harness"; or a function of a shared library, "path.so:symbol"; and the coins
        of a call, gamma + 1 if not given.
    scheme, tree
        How siblings of draft trees are drafted ("iid", "without-replacement", "top-k",
        "argmax-first", "last-sampled"), and children per level of the one tree that the code
        takes, such as "3,2,1".
    gamma, vocab
        Largest draft length (1 to 4) and vocabulary (2 to 12) of the instances. On real models
        ``gamma`` is the draft length, 1 to 64.
    strict_probes
        Warnings of the edge probes fail the audit too.
    strict_coverage
        Lines of the code that no call reached fail the audit; every call is then watched.
    batch
        Blocks per call of batched code: arrays with a batch axis in, rows padded with -1 out.
    company
        Kinds of requests that batched code is judged among, such as "ragged,greedy", or "all".
    eos
        Id that the code takes for end of sequence.
    tolerance
        Largest deviation that is rounding; by the code's precision if not given.
    max_paths, max_samples, seconds
        Budgets of the exact and the sampled tier, and a limit of each, which only aborts.
    alpha
        False-alarm rate of the sampled tier.
    detect
        Deviation (mean one-token TV) that the sampled tier finds with power .9; None: .01, or
        up to .05 where slow code leaves no time for it; .04 on a trace and on real models.
    seed
        Of all draws: the same seed gives the same run.
    engine_path
        Checkout of an engine, in the place of the installed package.
    trace
        Call the code on the blocks of this trace instead.
    target, draft, prompts, tokens, temperature, top_k, top_p, device, dtype, threads
        Let the code decode on a pair of real models instead; ``target`` names one that
        Transformers loads, or "tiny-llama", which ships.
    layer_parallel, no_calibration
        Of the drafter "easyspec", as in :func:`simverify.compare`.
    progress
        Receives a line when something begins that may take a while.

    Returns
    -------
    AuditRun
        ``run.verdict``, ``run.passed``, ``run.counterexample``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        An option out of range or not for this way, a name that does not exist, code that
        cannot be called under the contract.
    SimverifyError
        Code that fails to load.
    """
    name = named(drafter)
    options = AuditOptions(
        contract=contract, drafter=name, verifier=named(verifier, name),
        command=command, library=None if library is None else str(library), coins=coins,
        scheme=scheme, tree=tree, gamma=gamma, vocab=vocab,
        strict_probes=strict_probes, strict_coverage=strict_coverage, batch=batch,
        company=company, eos=eos,
        tolerance=tolerance, max_paths=max_paths, max_samples=max_samples, seconds=seconds,
        alpha=alpha, detect=detect,
        seed=seed,
        engine_path=None if engine_path is None else Path(engine_path),
        trace=None if trace is None else Path(trace),
        target=target, draft=draft, prompts=None if prompts is None else Path(prompts),
        tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, device=device,
        dtype=dtype, threads=threads,
        layer_parallel=None if layer_parallel is None else str(layer_parallel),
        no_calibration=no_calibration,
    )  # fmt: skip
    with called_from_python():
        return run_audit(rule, options, progress=progress)


def run_audit(
    rule: Callable[..., Any] | str | None,
    options: AuditOptions,
    *,
    reproduce: str | None = None,
    progress: Say | None = None,
) -> AuditRun:
    """Audit ``rule`` in a child process, where a process can be forked.

    ``reproduce``: the command that shows a failure again; by default the audit itself.
    """
    way = chosen_way(rule, options)
    settings = settings_of(options, way)
    pair = settings.pair
    conduct: Conduct | None = None
    if settings.bridge is not None:
        name, load = name_of_bridge(settings.bridge), load_bridge(settings.bridge, settings.seconds)
    elif pair is not None:
        name, load = name_of(pair), loader(pair, settings.engine_path)
        again = reproduce or settings.command(name, "step")
        conduct = partial(audit_pair, pair=pair, settings=settings, reproduce=again)
    else:
        assert rule is not None, "chosen_way asks for a SPEC where there is no pair"
        name, load = subject_of(rule, settings.engine_path, seconds=settings.seconds)
    if options.trace is not None:
        from simverify.auditing.real.recorded import audit_recorded, recorded_command

        reproduce = recorded_command(name, options.trace, settings)
        conduct = partial(audit_recorded, folder=options.trace, settings=settings)
    elif way == "live":
        from simverify.auditing.real.live import audit_live

        live = _live(options)
        reproduce = live.command(name, settings)
        conduct = partial(audit_live, live=live, settings=settings)
    return supervised_audit(
        load,
        options.contract if pair is None else None,
        settings,
        spec=name,
        reproduce=reproduce,
        conduct=conduct,
        progress=progress,
    )


def _live(options: AuditOptions) -> Any:
    """Return the pair of real models that the options name, and how code decodes on it."""
    from simverify.auditing.real.live import Live

    real = options.real()
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


def settings_of(options: AuditOptions, way: Way) -> AuditSettings:
    """Return the settings of an audit of that way; raises ``UsageError`` out of range."""
    wide = {"gamma": options.gamma, "vocab_size": options.vocab}
    chosen: dict[str, Any] = {
        "max_paths": options.max_paths,
        "max_samples": options.max_samples,
        "seconds": options.seconds,
        **(wide if way in ("small", "self-test") else {}),
    }
    pair = None if way == "live" else pair_of(options)
    detect = 0.04 if way in ("trace", "live") else 0.01
    return AuditSettings(
        **{name: value for name, value in chosen.items() if value is not None},
        engine_path=None if options.engine_path is None else str(options.engine_path),
        tolerance=options.tolerance,
        alpha=options.alpha,
        detect=detect if options.detect is None else options.detect,
        coarser=_COARSER if options.detect is None and way == "small" else (),
        seed=options.seed,
        strict_probes=options.strict_probes,
        strict_coverage=options.strict_coverage,
        batch=options.batch,
        company=options.company,
        eos=options.eos,
        scheme=None if pair or way == "live" else options.scheme,
        tree=None if pair or way == "live" else options.tree,
        pair=pair,
        bridge=bridge_of(options) if way == "small" else None,
    )
