"""``simverify audit``: of code, or of tokens already emitted (``--outputs``, ``--endpoint``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from simverify.api.options import AuditOptions
from simverify.cli.common import (
    EXIT_CODES,
    check_output,
    deliver,
    json_text_iv,
    output_console,
    progress,
)
from simverify.cli.interrupt import Terminated, also_terminated
from simverify.errors import UsageError

if TYPE_CHECKING:
    from simverify.results import AgainstRun, AuditRun, OutputRun, SelfTestRun

DEFAULTS = AuditOptions()


def audit(
    spec: Annotated[str | None, Parameter(show_env_var=False)] = None,
    /,
    *,
    options: Annotated[AuditOptions, Parameter(name="*")] = DEFAULTS,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    report: Path | None = None,
    verbose: bool = False,
    quiet: bool = False,
) -> int:
    """Put a verifier on trial: exactly where its paths can be followed, or on real models.

    Parameters
    ----------
    spec
        A built-in verifier or fault, module:attr, path/file.py:attr, or an engine.
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

    way = chosen_way(spec, options)
    check_output(json, report)
    run: AgainstRun | AuditRun | OutputRun | SelfTestRun
    if way == "emitted":
        run = judge_emitted(options, json, report, quiet=quiet)
    else:
        from simverify.api.audit import run_audit
        from simverify.api.self_test import self_test_of
        from simverify.reports.present import RUN_FILE

        kept = report / RUN_FILE if report is not None and json in (None, "-") else json
        again = None if kept in (None, "-") else f"simverify replay {kept}#0"
        for named in (spec, options.command, options.library):
            if named is not None and json is not None:
                json_text_iv(named)
        with progress(quiet) as say:
            if way == "self-test":
                run = self_test_of(options, progress=say)
            else:
                run = run_audit(spec, options, reproduce=again, progress=say)
    if deliver(run, json, report):
        from simverify.reports.present import print_run

        print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]


def judge_emitted(
    options: AuditOptions, json: str | None, report: Path | None, *, quiet: bool
) -> "AgainstRun | OutputRun":
    """Judge the tokens of a file or of a server, by a target or against another's."""
    from simverify.api.served import against, outputs

    options_iv = outputs.options_iv if options.against is None else against.options_iv

    keep = options.keep
    if keep is not None and json is not None and keep.resolve() == Path(json).resolve():
        raise UsageError(f"--keep and --json are both {keep}: name two files")
    options_iv(options)
    if json is not None or report is not None:
        json_text_iv(str(options.endpoint if options.outputs is None else options.outputs))
        json_text_iv(str(keep))
    with _interrupted(keep), progress(quiet) as say:
        return (outputs.judge if options.against is None else against.compare)(options, say)


@contextmanager
def _interrupted(keep: Path | None) -> Iterator[None]:
    """Let an interrupt, and SIGTERM, say where answers are, not that nothing was written."""
    try:
        with also_terminated():
            yield
    except KeyboardInterrupt as interrupt:
        how = "ended by SIGTERM" if isinstance(interrupt, Terminated) else "interrupted"
        if keep is None or not keep.exists():
            raise KeyboardInterrupt(f"{how}; nothing was written") from None
        raise KeyboardInterrupt(
            f"{how}; answers are kept in {keep}: the same command goes on from there"
        ) from None
