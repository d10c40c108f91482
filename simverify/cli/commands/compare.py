"""``simverify compare``, ``simverify plan`` and ``simverify capture``."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from simverify.cli.common import Outputs, document_command
from simverify.errors import OptionError, UsageError
from simverify.options.compare import (
    COMPARISONS,
    NO_GAMMA,
    CaptureOptions,
    PlanOptions,
    TracedOptions,
)
from simverify.options.modes import made, mode_of
from simverify.options.option import Options

if TYPE_CHECKING:
    from simverify.results import CompareRun, PlanRun


def _with_lists(given: dict[str, Any], _outputs: Outputs) -> Options:
    names = {name: _split_names(name, given[name]) for name in ("models", "verifiers")}
    given = given | names
    mode = mode_of(COMPARISONS, given)
    if mode is not TracedOptions and given["gamma"] is None and given["tree"] is None:
        raise OptionError(NO_GAMMA)
    return made(mode, COMPARISONS, given)


@document_command(*COMPARISONS, prepare=_with_lists)
def compare(options: Options, _outputs: Outputs) -> "CompareRun":
    """Compare verifiers on models: lossless or not, accepted tokens, optimum, speed."""
    from simverify.api.compare import compare
    from simverify.comparing import comparison  # noqa: F401 -- loaded before what is kept

    with _freeze_imports():
        return compare.run(options)


@contextmanager
def _freeze_imports() -> Iterator[None]:
    """Keep what was imported out of garbage collections, half a second in all."""
    if gc.get_freeze_count() > 0:
        # Whoever runs this command in their process has done it, and means it to stay so.
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _split_names(option: str, text: str | None) -> list[str] | None:
    if text is None:
        return None
    # A comma in brackets belongs to a name: relaxed-acceptance(2,0.25).
    names = [name.strip() for name in re.split(r",(?![^(]*\))", text)]
    if not any(names):
        raise UsageError(
            f"--{option} is {text!r}, which leaves nothing to compare: name one or more"
        )
    if not all(names):
        raise UsageError(f"--{option} is {text!r}: expected a name before and after every comma")
    return names


@document_command(PlanOptions, outputs=("json", "report", "quiet"))
def plan(options: PlanOptions, _outputs: Outputs) -> "PlanRun":
    """Estimate what a claim costs, in samples and in time here, or what a budget detects."""
    from simverify.api.compare import plan

    return plan.run(options)


@document_command(CaptureOptions, outputs=("quiet",))
def capture(options: CaptureOptions, _outputs: Outputs) -> str:
    """Decode with two real models, and record drafts and logits to replay without the models."""
    from simverify.api.compare import run_capture

    trace = run_capture(options)
    size = sum(shard.bytes for shard in trace.shards)
    blocks = f"{trace.kind} of {trace.blocks:,} blocks of {trace.name}"
    return f"{options.out}: {blocks}, {size:,} bytes, sha256 {trace.sha256}"
