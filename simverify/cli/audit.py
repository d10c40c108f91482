"""``simverify audit`` and ``simverify replay``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from simverify.cli.common import (
    EXIT_CODES,
    VERDICT_STYLE,
    OptionalWhole,
    Whole,
    check_output,
    deliver,
    output_console,
    progress,
)
from simverify.errors import UsageError


def audit(
    spec: str | None = None,
    /,
    *,
    contract: Literal["verify", "step"] | None = None,
    gamma: Whole = 4,
    vocab: Whole = 5,
    self_test: Annotated[bool, Parameter(negative=())] = False,
    strict_probes: Annotated[bool, Parameter(negative=())] = False,
    batch: OptionalWhole = None,
    engine_path: Path | None = None,
    tolerance: float | None = None,
    max_paths: OptionalWhole = None,
    max_samples: OptionalWhole = None,
    seconds: float = 60.0,
    alpha: float = 1e-6,
    detect: float = 0.01,
    seed: Whole = 0,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
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
        Largest vocabulary of the instances, 2 to 5.
    self_test
        Turn the audit on every catalogued fault and every must-pass control instead.
    strict_probes
        Warnings of the edge probes fail the audit too.
    batch
        Blocks per call of batched code: arrays with a batch axis in, rows padded with -1 out.
    engine_path
        Checkout of an engine, in the place of the installed package.
    tolerance
        Largest deviation that is rounding; by the code's precision if not given.
    max_paths
        Budget of the exact tier.
    max_samples
        Budget of the sampled tier.
    seconds
        Wall-clock limit of each tier; it only aborts, to INCONCLUSIVE.
    alpha
        False-alarm rate of the sampled tier.
    detect
        Deviation (mean one-token TV) that the sampled tier finds with power .9.
    seed
        Seed of instances, search and samples.
    json
        Write the result document to this file, or to standard output for "-".
    quiet
        No progress on standard error.
    """
    from simverify.audit.run import audit as run_audit
    from simverify.audit.settings import AuditSettings
    from simverify.audit.spec import load_subject
    from simverify.reports.failure import failure_lines

    budgets = {"max_paths": max_paths, "max_samples": max_samples}
    settings = AuditSettings(
        gamma=gamma,
        vocab_size=vocab,
        tolerance=tolerance,
        seconds=seconds,
        alpha=alpha,
        detect=detect,
        seed=seed,
        strict_probes=strict_probes,
        batch=batch,
        **{name: value for name, value in budgets.items() if value is not None},
    )
    if self_test:
        if spec is not None or json is not None:
            raise UsageError("--self-test audits the catalogue: it takes no SPEC and no --json")
        return _self_test(settings, quiet)
    if spec is None:
        raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
    check_output(json)
    subject = load_subject(spec, engine_path)
    again = None if json in (None, "-") else f"simverify replay {json}#0"
    with progress(quiet) as say:
        run = run_audit(subject, contract, settings, reproduce=again, progress=say)
    if deliver(run, json):
        verdict, *lines = failure_lines(run)
        console = output_console()
        console.print(Text(verdict, style=VERDICT_STYLE[run.verdict]))
        for line in lines:
            console.print(Text(line), soft_wrap=True)
    return EXIT_CODES[run.verdict]


def replay(run: str, /) -> int:
    """Run one failing path of an audit again, alone, and show every draw and branch.

    Parameters
    ----------
    run
        RUN.json#n: the n-th heaviest path to the output that deviates, from 0.
    """
    from simverify.audit.replay import explain
    from simverify.audit.replay_text import render
    from simverify.audit.spec import load_subject
    from simverify.reports.document import read_audit

    name, hash_sign, number = run.rpartition("#")
    if not hash_sign or not number.isdigit():
        raise UsageError(f"{run!r}: expected RUN.json#n, such as run.json#0")
    document = read_audit(Path(name))
    if document.counterexample is None:
        raise UsageError(
            f"{name}: the audit found no counterexample, so there is no path to replay"
        )
    explanation = explain(
        load_subject(document.spec).generator_rule(),
        document.contract,
        document.counterexample.instance,
        document.counterexample.sequence,
    )
    if int(number) >= len(explanation.trails):
        raise UsageError(
            f"{name} has {len(explanation.trails)} paths to the output, "
            f"numbered from 0: got {number}"
        )
    print(render(replace(explanation, trails=(explanation.trails[int(number)],))))
    return 0


def _self_test(settings: object, quiet: bool) -> int:
    from simverify.audit.self_test import self_test
    from simverify.audit.settings import AuditSettings

    assert isinstance(settings, AuditSettings)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for header in ("name", "kind", "outcome", "tier", "effort", "TV"):
        table.add_column(header, justify="right" if header in ("effort", "TV") else "left")
    wrong = []
    with progress(quiet) as say:
        for tried in self_test(settings, progress=say):
            outcome = (
                ("caught" if tried.caught else "missed")
                if tried.kind == "fault"
                else ("FALSE ALARM" if tried.caught else "passed")
            )
            style = "green" if tried.as_expected else "bold red"
            unit = {"exact": "paths", "sampled": "calls", "probe": "probes"}[tried.tier]
            table.add_row(
                tried.name,
                tried.kind,
                Text(outcome, style=style),
                tried.tier,
                f"{tried.effort:,} {unit}",
                "" if tried.tv is None else f"{tried.tv:.2g}",
            )
            if not tried.as_expected:
                wrong.append(tried.name)
    console = output_console()
    console.print(table)
    if wrong:
        console.print(Text(f"FAIL: {', '.join(wrong)}", style="bold red"))
        return EXIT_CODES["FAIL"]
    console.print(Text("PASS: every fault was caught and every control passed", style="green"))
    return EXIT_CODES["PASS"]
