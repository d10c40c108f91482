"""``simverify audit``."""

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from simverify.cli.commands.outputs import OutputOptions, audit_emitted
from simverify.cli.common import (
    EXIT_CODES,
    VERDICT_STYLE,
    OptionalWhole,
    Whole,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)
from simverify.cli.live import live_of
from simverify.cli.ways import chosen_way

if TYPE_CHECKING:
    from simverify.auditing.settings import AuditSettings
    from simverify.results import AuditRun


def audit(
    spec: Annotated[str | None, Parameter(show_env_var=False)] = None,
    /,
    *,
    contract: Literal["verify", "step"] | None = None,
    gamma: OptionalWhole = None,
    vocab: OptionalWhole = None,
    self_test: Annotated[bool, Parameter(negative=())] = False,
    strict_probes: Annotated[bool, Parameter(negative=())] = False,
    batch: OptionalWhole = None,
    eos: OptionalWhole = None,
    trace: Path | None = None,
    engine_path: Path | None = None,
    tolerance: float | None = None,
    max_paths: OptionalWhole = None,
    max_samples: OptionalWhole = None,
    seconds: float | None = None,
    alpha: float = 1e-6,
    detect: float | None = None,
    seed: Whole = 0,
    outputs: Path | None = None,
    endpoint: str | None = None,
    target: str | None = None,
    draft: str | None = None,
    prompts: Path | None = None,
    samples: OptionalWhole = None,
    tokens: OptionalWhole = None,
    max_tokens: OptionalWhole = None,
    served_model: str | None = None,
    keep: Path | None = None,
    ball: float | None = None,
    temperature: float | None = None,
    top_k: OptionalWhole = None,
    top_p: float | None = None,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16"] | None = None,
    threads: OptionalWhole = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Put a verifier on trial: exactly where its paths can be followed, or on real models.

    Parameters
    ----------
    spec
        A built-in verifier or fault, module:attr, path/file.py:attr, or an engine.
    contract
        verify (a drafted block is given; the default) or step (the code drafts itself).
    gamma
        Largest draft length of the instances, 1 to 4; 4 if not given. Of real models the draft
        length, 1 to 64.
    vocab
        Largest vocabulary of the instances, 2 to 12; 12 if not given.
    self_test
        Turn the audit on every catalogued fault and every must-pass control instead.
    strict_probes
        Warnings of the edge probes fail the audit too.
    batch
        Blocks per call of batched code: arrays with a batch axis in, rows padded with -1 out.
        A catalogued fault of whole batches has its own.
    eos
        Id that the code takes for end of sequence; what a call emits after it is dropped.
    trace
        Call the code on the blocks of this trace instead, as simverify capture wrote it.
    engine_path
        Checkout of an engine, in the place of the installed package.
    tolerance
        Largest deviation that is rounding; by the code's precision if not given.
    max_paths
        Budget of the exact tier.
    max_samples
        Budget of the sampled tier.
    seconds
        Limit of each tier, which only aborts, to INCONCLUSIVE. Processor seconds in the exact
        tier (the wall clock where the code waits), the wall clock in the sampled one; 60 if
        not given.
    alpha
        False-alarm rate of the sampled tier.
    detect
        Deviation (mean one-token TV) that the sampled tier finds with power .9: .01, on a
        trace, on real models and of emitted tokens .04.
    seed
        Seed of all draws.
    outputs
        Instead of SPEC: tokens that another engine emitted, a JSONL file with prompt, and
        tokens (ids) or text, a line.
    endpoint
        Instead of SPEC: a server that speaks /v1/completions, such as http://localhost:8000.
    target
        SPEC decodes on real models: the target, a folder or a name that Transformers loads, or
        tiny-llama, which ships. Emitted tokens: the model whose law they should follow.
    draft
        Real models: the draft; of tiny-llama its own if not given. Emitted tokens: a proxy for
        the engine's draft, for a third order of PITs.
    prompts
        Real models and endpoint: prompts, JSONL or a text file with one a paragraph; of
        tiny-llama its own if not given.
    samples
        Endpoint: completions of each prompt at most; by default until N tokens are there.
    tokens
        Emitted tokens that are judged, fixed beforehand; by default what the promised power
        needs.
    max_tokens
        Endpoint: limit of one completion, 128 if not given.
    served_model
        Endpoint: name of the model there; by default the first that it lists.
    keep
        Endpoint: write every answer to this file, as --outputs reads it; one that an earlier
        run began is gone on with.
    ball
        Emitted tokens: TV of the engine's own rows from the rescored ones, on average; by
        default twice what computing rows again shows.
    temperature
        Of the law that real models sample, or that the engine was asked for; 1 if not given.
    top_k
        Tokens that this law keeps; all by default.
    top_p
        Share of its probability that is kept; all by default.
    device
        Where real models compute; cpu by default.
    dtype
        In what real models compute; float32 by default.
    threads
        Threads of torch; with SPEC one by default.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        No progress on standard error.
    """
    given = locals()  # every option by its name
    way = chosen_way(given)
    check_output(json, report)
    if way == "emitted":
        emitted = OutputOptions(**{own.name: given[own.name] for own in fields(OutputOptions)})
        return audit_emitted(emitted, alpha, detect, seed, json, report, quiet)
    from simverify.auditing.settings import AuditSettings

    wide = {"gamma": gamma, "vocab_size": vocab} if way in ("small", "self-test") else {}
    limits = {"max_paths": max_paths, "max_samples": max_samples, "seconds": seconds}
    sizes: dict[str, Any] = {k: v for k, v in (wide | limits).items() if v is not None}
    settings = AuditSettings(
        **sizes,
        engine_path=None if engine_path is None else str(engine_path),
        tolerance=tolerance,
        alpha=alpha,
        detect=(0.04 if way in ("trace", "live") else 0.01) if detect is None else detect,
        seed=seed,
        strict_probes=strict_probes,
        batch=batch,
        eos=eos,
    )
    if way == "self-test":
        return _self_test(settings, json, report, quiet)
    assert spec is not None
    if json is not None:
        json_text_iv(spec)
    run = _run(spec, given, settings)
    if deliver(run, json, report):
        print_audit(run)
    return EXIT_CODES[run.verdict]


def _run(spec: str, given: dict[str, Any], settings: "AuditSettings") -> "AuditRun":
    """Audit ``spec`` in a child process, on a trace, on real models or on small instances."""
    from simverify.auditing.process.supervised import Conduct, supervised_audit
    from simverify.auditing.subject import load_subject
    from simverify.reports.write import RUN_FILE

    conduct: Conduct | None = None
    again: str | None
    if (trace := given["trace"]) is not None:
        from simverify.auditing.real.recorded import audit_recorded, recorded_command

        again = recorded_command(spec, trace, settings)
        conduct = partial(audit_recorded, folder=trace, settings=settings)
    elif given["target"] is not None:
        live = live_of(given)
        from simverify.auditing.real.live import audit_live

        again = live.command(spec, settings)
        conduct = partial(audit_live, live=live, settings=settings)
    else:
        json, report = given["json"], given["report"]
        kept = report / RUN_FILE if report is not None and json in (None, "-") else json
        again = None if kept in (None, "-") else f"simverify replay {kept}#0"
    with progress(given["quiet"]) as say:
        return supervised_audit(
            partial(load_subject, spec, settings.engine_path, seconds=settings.seconds),
            given["contract"],
            settings,
            spec=spec,
            reproduce=again,
            conduct=conduct,
            progress=say,
        )


def print_audit(run: "AuditRun") -> None:
    """Print an audit's result."""
    from simverify.reports.audit.failure import failure_lines

    verdict, *lines = failure_lines(run)
    console = output_console()
    console.print(Text(verdict, style=VERDICT_STYLE[run.verdict]))
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _self_test(
    settings: "AuditSettings", json: str | None, report: Path | None, quiet: bool
) -> int:
    from simverify.auditing.self_test import self_test
    from simverify.reports.others.self_test import print_self_test

    with progress(quiet) as say:
        run = self_test(settings, progress=say)
    if deliver(run, json, report):
        print_self_test(run, output_console())
    return EXIT_CODES[run.verdict]
