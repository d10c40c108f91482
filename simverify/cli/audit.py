"""``simverify audit`` and ``simverify replay``."""

import re
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.text import Text

from simverify.cli.common import (
    EXIT_CODES,
    VERDICT_STYLE,
    WIDTH,
    OptionalWhole,
    Whole,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)
from simverify.cli.outputs import OutputOptions, audit_emitted
from simverify.errors import UsageError

if TYPE_CHECKING:
    from simverify.audit.settings import AuditSettings
    from simverify.results import AuditRun


def audit(
    spec: Annotated[str | None, Parameter(show_env_var=False)] = None,
    /,
    *,
    contract: Literal["verify", "step"] | None = None,
    gamma: Whole = 4,
    vocab: Whole = 12,
    self_test: Annotated[bool, Parameter(negative=())] = False,
    strict_probes: Annotated[bool, Parameter(negative=())] = False,
    batch: OptionalWhole = None,
    eos: OptionalWhole = None,
    trace: Path | None = None,
    engine_path: Path | None = None,
    tolerance: float | None = None,
    max_paths: OptionalWhole = None,
    max_samples: OptionalWhole = None,
    seconds: float = 60.0,
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
    """Put a verifier on trial: exactly where its paths can be followed.

    Parameters
    ----------
    spec
        A built-in verifier or fault, module:attr, path/file.py:attr, or an engine.
    contract
        verify (a drafted block is given; the default) or step (the code drafts itself).
    gamma
        Largest draft length of the instances, 1 to 4.
    vocab
        Largest vocabulary of the instances, 2 to 12.
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
        tier (the wall clock where the code waits), the wall clock in the sampled one.
    alpha
        False-alarm rate of the sampled tier.
    detect
        Deviation (mean one-token TV) that the sampled tier finds with power .9: .01, on a
        trace .04.
    seed
        Seed of instances, search and samples.
    outputs
        Instead of SPEC: tokens that another engine emitted, a JSONL file with prompt, and
        tokens (ids) or text, a line.
    endpoint
        Instead of SPEC: a server that speaks /v1/completions, such as http://localhost:8000.
    target
        Emitted tokens: the model whose law they should follow, a folder or a name that
        Transformers loads, or tiny-llama.
    draft
        Emitted tokens: a proxy for the engine's draft, for a third order of PITs.
    prompts
        Endpoint: prompts, JSONL or a text file with one a paragraph.
    samples
        Endpoint: completions of each prompt at most; by default until N tokens are there.
    tokens
        Emitted tokens: N, fixed beforehand; by default what the promised power needs.
    max_tokens
        Endpoint: limit of one completion, 128 if not given.
    served_model
        Endpoint: name of the model there; by default the first that it lists.
    ball
        Emitted tokens: TV of the engine's own rows from the rescored ones, on average; by
        default twice what computing rows again shows.
    temperature, top_k, top_p
        Emitted tokens: the law that the engine was asked to sample; temperature 1 if not given.
    device, dtype
        Emitted tokens: where and in what rows are computed; cpu and float32 by default.
    threads
        Emitted tokens: threads of torch.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    quiet
        No progress on standard error.
    """
    emitted = OutputOptions(
        outputs=outputs, endpoint=endpoint, target=target, draft=draft, prompts=prompts,
        samples=samples, tokens=tokens, max_tokens=max_tokens, served_model=served_model,
        ball=ball, temperature=temperature, top_k=top_k, top_p=top_p, device=device, dtype=dtype,
        threads=threads,
    )  # fmt: skip
    if emitted.asked:
        others = {
            "SPEC": spec, "--contract": contract, "--batch": batch, "--eos": eos, "--trace": trace,
            "--engine-path": engine_path, "--tolerance": tolerance, "--max-paths": max_paths,
            "--max-samples": max_samples, "--self-test": self_test or None,
            "--strict-probes": strict_probes or None,
        }  # fmt: skip
        for option, value in others.items():
            if value is not None:
                raise UsageError(f"{option} is not for emitted tokens: name --outputs alone")
        check_output(json, report)
        return audit_emitted(emitted, alpha, detect, seed, json, report, quiet)
    emitted.refuse()
    from simverify.audit.settings import AuditSettings
    from simverify.audit.spec import load_subject
    from simverify.audit.supervised import supervised_audit
    from simverify.reports.write import RUN_FILE

    budgets = {"max_paths": max_paths, "max_samples": max_samples}
    settings = AuditSettings(
        gamma=gamma,
        vocab_size=vocab,
        engine_path=None if engine_path is None else str(engine_path),
        tolerance=tolerance,
        seconds=seconds,
        alpha=alpha,
        detect=(0.01 if trace is None else 0.04) if detect is None else detect,
        seed=seed,
        strict_probes=strict_probes,
        batch=batch,
        eos=eos,
        **{name: value for name, value in budgets.items() if value is not None},
    )
    if self_test:
        if spec is not None:
            raise UsageError(f"--self-test audits the catalogue: got SPEC {spec!r} too")
        for option, given in (
            ("--contract", contract is not None),
            ("--batch", batch is not None),
            ("--eos", eos is not None),
            ("--trace", trace is not None),
            ("--engine-path", engine_path is not None),
            ("--tolerance", tolerance is not None),
            ("--strict-probes", strict_probes),
        ):
            if given:
                raise UsageError(
                    f"--self-test takes no {option}: every entry of the catalogue has its own"
                )
        check_output(json, report)
        return _self_test(settings, json, report, quiet)
    if spec is None:
        raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
    if trace is not None:
        for option, given in (
            ("--contract step", contract == "step"),
            ("--batch", batch is not None),
            ("--eos", eos is not None),
            ("--tolerance", tolerance is not None),
            ("--max-paths", max_paths is not None),
            ("--max-samples", max_samples is not None),
        ):
            if given:
                raise UsageError(f"--trace takes no {option}: its blocks are drafted already")
    check_output(json, report)
    if json is not None:
        json_text_iv(spec)
    kept = report / RUN_FILE if report is not None and json in (None, "-") else json
    again = None if kept in (None, "-") else f"simverify replay {kept}#0"
    with progress(quiet) as say:
        run = supervised_audit(
            partial(load_subject, spec, settings.engine_path, seconds=settings.seconds),
            contract,
            settings,
            spec=spec,
            reproduce=again,
            trace=trace,
            progress=say,
        )
    if deliver(run, json, report):
        print_audit(run)
    return EXIT_CODES[run.verdict]


def print_audit(run: "AuditRun") -> None:
    """Print an audit's result."""
    from simverify.reports.failure import failure_lines

    verdict, *lines = failure_lines(run)
    console = output_console()
    console.print(Text(verdict, style=VERDICT_STYLE[run.verdict]))
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def replay(run: Annotated[str, Parameter(show_env_var=False)], /) -> int:
    """Run one failing path or trial of an audit again, alone, and show every draw and branch.

    Parameters
    ----------
    run
        RUN.json#n: the n-th heaviest path to the output that deviates, from 0; or, where
        sampled calls failed, #0, the trial that shows it.
    """
    from simverify.audit.replay_text import render
    from simverify.audit.spec import load_subject
    from simverify.audit.supervised import (
        supervised_breach,
        supervised_explain,
        supervised_trial,
    )
    from simverify.reports.document import read_audit

    name, hash_sign, number = run.rpartition("#")
    if not (name and hash_sign) or not re.fullmatch("[0-9]{1,18}", number):
        raise UsageError(f"{run!r}: expected RUN.json#n, such as run.json#0")
    document = read_audit(Path(name))
    load = partial(load_subject, document.spec, document.engine_path)
    if document.counterexample is not None:
        explanation = supervised_explain(
            load,
            document.contract,
            document.counterexample,
            spec=document.spec,
            batch=document.batch,
        )
        if int(number) >= len(explanation.trails):
            raise UsageError(
                f"{name} has {len(explanation.trails)} paths to the output, "
                f"numbered from 0: got {number}"
            )
        text = render(explanation, only=int(number))
    elif document.breach is not None:
        texts = supervised_breach(load, document)
        if int(number) >= len(texts):
            raise UsageError(
                f"{name} has {len(texts)} paths that break the contract, numbered from 0: "
                f"got {number}"
            )
        text = texts[int(number)]
    elif document.trial is not None:
        if int(number) != 0:
            raise UsageError(f"{name} has one failing trial, number 0: got {number}")
        text = supervised_trial(load, document)
    else:
        raise UsageError(
            f"{name}: the audit found no counterexample and no failing trial to replay"
        )
    for line in text.splitlines():
        print(fill(line, WIDTH, subsequent_indent=" " * 6))
    return 0


def _self_test(
    settings: "AuditSettings", json: str | None, report: Path | None, quiet: bool
) -> int:
    from simverify.audit.self_test import self_test
    from simverify.reports.self_test import print_self_test

    with progress(quiet) as say:
        run = self_test(settings, progress=say)
    if deliver(run, json, report):
        print_self_test(run, output_console())
    return EXIT_CODES[run.verdict]
