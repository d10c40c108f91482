"""``simverify audit``: of code, or of tokens already emitted (``--outputs``, ``--endpoint``)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simverify.cli.common import Outputs, document_command
from simverify.cli.interrupt import Terminated, handle_sigterm
from simverify.cli.settings import IN_BUDGET, IN_OTHERS
from simverify.errors import UsageError
from simverify.options.audit import CODE, AuditOptions, SelfTestOptions
from simverify.options.modes import made, mode_of
from simverify.options.option import Options
from simverify.options.served import AgainstOptions, EngineOptions, OutputOptions

if TYPE_CHECKING:
    from simverify.results import AgainstRun, AuditRun, OutputRun, SelfTestRun

MODES = (CODE[0], AgainstOptions, OutputOptions, EngineOptions, *CODE[1:], SelfTestOptions)
"""In the order in which their options choose them."""

EMITTED = EngineOptions | AgainstOptions | OutputOptions
"""Options of audits that judge tokens."""

_INSTEAD = ("drafter", "verifier", "command", "library")
"""Options that name what is audited in the place of SPEC."""

_NO_CACHE_HELP = (
    "Audit again where the verdict of an earlier audit is kept: the code, the options and the "
    "versions are the same."
)
_SELF_TEST_HELP = "Audit every catalogued fault and every must-pass control instead."


def _choose_mode(
    given: Mapping[str, Any],
    outputs: Outputs,
    *,
    self_test: Annotated[bool, Parameter(group=IN_OTHERS, help=_SELF_TEST_HELP)] = False,
) -> Options:
    mode = SelfTestOptions if self_test else mode_of(MODES, given)
    options = made(mode, MODES, given)
    if mode in CODE and not any(given[name] for name in ("rule", *_INSTEAD)):
        raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
    keep = given["keep"] if isinstance(options, EMITTED) else None
    if keep is not None and outputs.json and keep.resolve() == Path(outputs.json).resolve():
        raise UsageError(f"--keep and --json are both {keep}: name two files")
    return options


@document_command(
    *MODES,
    arguments={
        "rule": "A built-in verifier or fault, module:attr, path/file.py:attr, or an engine."
    },
    optional=True,
    verbose="Print every note, and name every fault that is ruled out.",
    prepare=_choose_mode,
)
def audit(
    options: Options,
    outputs: Outputs,
    *,
    no_cache: Annotated[bool, Parameter(group=IN_BUDGET, help=_NO_CACHE_HELP)] = False,
) -> "AgainstRun | AuditRun | OutputRun | SelfTestRun":
    """Put a verifier on trial, such as simverify audit my_sampler.py:verify."""
    if isinstance(options, EMITTED):
        return _judge_emitted(options)
    from simverify.reports.present import RUN_FILE

    file = None if outputs.json == "-" else outputs.json
    if file is None and outputs.report is not None:
        file = str(outputs.report / RUN_FILE)
    reproduce = file and f"simverify replay {file}#0"
    if isinstance(options, AuditOptions) and not no_cache:
        from simverify.api.verdict_cache import kept_run

        if (run := kept_run(options, reproduce)) is not None:
            return run
    from simverify.api.audit import run_audit, self_test

    if isinstance(options, SelfTestOptions):
        return self_test.run(options)
    return run_audit(options, reproduce=reproduce, keep=not no_cache)


def _judge_emitted(options: EMITTED) -> "AgainstRun | OutputRun":
    """Judge the tokens of a file or of a server, by a target or against another's."""
    from simverify.api.served import (
        check_against,
        check_outputs,
        compare_engines,
        judge_engine,
        judge_outputs,
    )

    keep = None if options.keep is None else Path(options.keep)
    if isinstance(options, AgainstOptions):
        check_against(options)
    elif not isinstance(options, EngineOptions):
        check_outputs(options)
    with _keep_answers_on_interrupt(keep):
        if isinstance(options, AgainstOptions):
            return compare_engines(options)
        if isinstance(options, EngineOptions):
            return judge_engine(options)
        return judge_outputs(options)


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
