"""``simverify audit``: of code, or of tokens already emitted (``--outputs``, ``--endpoint``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import (
    EXIT_CODES,
    check_json_text,
    check_output,
    output_console,
    progress,
    write_outputs,
)
from simverify.cli.interrupt import Terminated, handle_sigterm
from simverify.cli.settings import (
    IN_OTHERS,
    IN_SUBJECT,
    Json,
    Report,
    Switch,
    command_options,
    given_by,
)
from simverify.errors import UsageError
from simverify.options.audit import CODE, SelfTestOptions
from simverify.options.modes import made, mode_of
from simverify.options.option import Options
from simverify.options.served import AgainstOptions, OutputOptions

if TYPE_CHECKING:
    from simverify.results import AgainstRun, AuditRun, OutputRun, SelfTestRun

MODES = (CODE[0], AgainstOptions, OutputOptions, *CODE[1:], SelfTestOptions)
"""In the order in which their options choose them."""

if TYPE_CHECKING:
    Given = Any
else:
    Given = command_options(MODES, without=("rule",))

AUDIT_DEFAULTS = Given()


def audit(
    spec: Annotated[str | None, Parameter(show_env_var=False, group=IN_SUBJECT)] = None,
    /,
    *,
    options: Annotated[Given, Parameter(name="*")] = AUDIT_DEFAULTS,
    self_test: Annotated[bool, Parameter(group=IN_OTHERS)] = False,
    json: Json = None,
    report: Report = None,
    verbose: Switch = False,
    quiet: Switch = False,
) -> int:
    """Put a verifier on trial, such as simverify audit my_sampler.py:verify.

    Parameters
    ----------
    spec
        A built-in verifier or fault, module:attr, path/file.py:attr, or an engine.
    self_test
        Audit every catalogued fault and every must-pass control instead.
    json
        Write the result document to this file, or to standard output for "-".
    report
        Write HTML, Markdown, JUnit XML and the run file to this folder.
    verbose
        Print every note, and name every fault that is ruled out.
    quiet
        Show no progress on standard error.
    """
    given = given_by(MODES, options) | {"rule": spec}
    mode = SelfTestOptions if self_test else mode_of(MODES, given)
    asked = made(mode, MODES, given)
    if mode in CODE and spec is None and not any(given[name] for name in _INSTEAD):
        raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
    check_output(json, report)
    run: AgainstRun | AuditRun | OutputRun | SelfTestRun
    if isinstance(asked, AgainstOptions | OutputOptions):
        run = judge_emitted(asked, json, report, quiet=quiet)
    else:
        for named in (spec, given["command"], given["library"]):
            if named is not None and json is not None:
                check_json_text(named)
        with progress(quiet) as say:
            run = _of_code(made(mode, MODES, given, progress=say), json, report)
    if write_outputs(run, json, report):
        from simverify.reports.present import print_run

        print_run(run, output_console(), verbose=verbose)
    return EXIT_CODES[run.verdict]


_INSTEAD = ("drafter", "verifier", "command", "library")
"""Options that name what is audited in the place of SPEC."""


def _of_code(options: Options, json: str | None, report: Path | None) -> "AuditRun | SelfTestRun":
    from simverify.api.audit import run_audit, run_self_test
    from simverify.reports.present import RUN_FILE

    if isinstance(options, SelfTestOptions):
        return run_self_test(options)
    kept = report / RUN_FILE if report is not None and json in (None, "-") else json
    again = None if kept in (None, "-") else f"simverify replay {kept}#0"
    return run_audit(options, reproduce=again)


def judge_emitted(
    options: AgainstOptions | OutputOptions, json: str | None, report: Path | None, *, quiet: bool
) -> "AgainstRun | OutputRun":
    """Judge the tokens of a file or of a server, by a target or against another's."""
    from simverify.api.served import check_against, check_outputs, compare_engines, judge_outputs

    keep = None if options.keep is None else Path(options.keep)
    if keep is not None and json is not None and keep.resolve() == Path(json).resolve():
        raise UsageError(f"--keep and --json are both {keep}: name two files")
    if isinstance(options, AgainstOptions):
        check_against(options)
    else:
        check_outputs(options)
    if json is not None or report is not None:
        check_json_text(str(options.endpoint if options.outputs is None else options.outputs))
        check_json_text(str(keep))
    with _keep_answers_on_interrupt(keep), progress(quiet) as say:
        told = replace(options, progress=say)
        return compare_engines(told) if isinstance(told, AgainstOptions) else judge_outputs(told)


@contextmanager
def _keep_answers_on_interrupt(keep: Path | None) -> Iterator[None]:
    """Let an interrupt, and SIGTERM, say where answers are, not that nothing was written."""
    try:
        with handle_sigterm():
            yield
    except KeyboardInterrupt as interrupt:
        how = "ended by SIGTERM" if isinstance(interrupt, Terminated) else "interrupted"
        if keep is None or not keep.exists():
            raise KeyboardInterrupt(f"{how}; nothing was written") from None
        raise KeyboardInterrupt(
            f"{how}; answers are kept in {keep}: the same command goes on from there"
        ) from None
