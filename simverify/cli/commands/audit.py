"""``simverify audit``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from simverify.cli.commands.outputs import judge_emitted
from simverify.cli.common import (
    EXIT_CODES,
    OptionalWhole,
    Whole,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)

if TYPE_CHECKING:
    from simverify.results import AuditRun, OutputRun, SelfTestRun


def audit(
    spec: Annotated[str | None, Parameter(show_env_var=False)] = None,
    /,
    *,
    contract: Literal["verify", "step"] | None = None,
    gamma: OptionalWhole = None,
    vocab: OptionalWhole = None,
    self_test: Annotated[bool, Parameter(negative=())] = False,
    strict_probes: Annotated[bool, Parameter(negative=())] = False,
    strict_coverage: Annotated[bool, Parameter(negative=())] = False,
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
    verbose: Annotated[bool, Parameter(negative=())] = False,
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
    strict_coverage
        Lines of the code that no call reached fail the audit; every call is then watched.
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
        Deviation (mean one-token TV) that the sampled tier finds with power .9: .01, or
        up to .05 where slow code leaves no time for it; .04 on a trace, on real models and of
        emitted tokens.
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
    verbose
        Print every note, and the name of every fault that is refuted.
    quiet
        No progress on standard error.
    """
    from simverify.api.ways import chosen_way

    models: dict[str, Any] = {
        "target": target, "draft": draft, "prompts": prompts, "tokens": tokens,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "device": device,
        "dtype": dtype, "threads": threads,
    }  # fmt: skip
    code: dict[str, Any] = {
        "contract": contract, "gamma": gamma, "vocab": vocab, "strict_probes": strict_probes,
        "strict_coverage": strict_coverage, "batch": batch, "eos": eos,
        "trace": trace, "engine_path": engine_path,
        "tolerance": tolerance, "max_paths": max_paths, "max_samples": max_samples,
        "seconds": seconds,
    }  # fmt: skip
    served: dict[str, Any] = {
        "outputs": outputs, "endpoint": endpoint, "samples": samples, "max_tokens": max_tokens,
        "served_model": served_model, "keep": keep, "ball": ball,
    }  # fmt: skip
    rates: dict[str, Any] = {"alpha": alpha, "detect": detect, "seed": seed}
    way = chosen_way({"spec": spec, "self_test": self_test, **models, **code, **served})
    check_output(json, report)
    run: AuditRun | OutputRun | SelfTestRun
    if way == "emitted":
        run = judge_emitted({**served, **models, **rates}, json, report, quiet=quiet)
    else:
        from simverify.api.audit import AuditOptions, run_audit, self_test_of
        from simverify.api.real import RealModels
        from simverify.reports.present import RUN_FILE

        options = AuditOptions(**code, **rates, real=RealModels(**models))
        kept = report / RUN_FILE if report is not None and json in (None, "-") else json
        again = None if kept in (None, "-") else f"simverify replay {kept}#0"
        if spec is not None and json is not None:
            json_text_iv(spec)
        with progress(quiet) as say:
            if spec is None:
                run = self_test_of(options, progress=say)
            else:
                run = run_audit(spec, options, reproduce=again, progress=say)
    if deliver(run, json, report):
        from simverify.reports.present import print_run

        print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]
