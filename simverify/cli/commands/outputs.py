"""``simverify audit --outputs`` and ``--endpoint``: tokens that another engine emitted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from simverify.cli.common import json_text_iv, progress
from simverify.errors import UsageError

if TYPE_CHECKING:
    from simverify.api.options import AuditOptions
    from simverify.results import OutputRun


def judge_emitted(
    options: "AuditOptions", json: str | None, report: Path | None, *, quiet: bool
) -> "OutputRun":
    """Judge the tokens of a file or of a server."""
    from simverify.api.outputs import judge, options_iv

    keep = options.keep
    if keep is not None and json is not None and keep.resolve() == Path(json).resolve():
        raise UsageError(f"--keep and --json are both {keep}: name two files")
    options_iv(options)
    if json is not None or report is not None:
        json_text_iv(str(options.endpoint if options.outputs is None else options.outputs))
        json_text_iv(str(keep))
    with _interrupted(keep), progress(quiet) as say:
        return judge(options, say)


@contextmanager
def _interrupted(keep: Path | None) -> Iterator[None]:
    """Let an interrupt say where answers are, not that nothing was written."""
    try:
        yield
    except KeyboardInterrupt:
        if keep is None or not keep.exists():
            raise
        raise KeyboardInterrupt(
            f"interrupted; answers are kept in {keep}: the same command goes on from there"
        ) from None
