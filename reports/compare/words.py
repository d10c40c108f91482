"""What a comparison's two verdicts come to, in words that the terminal and the reports share.

*Lossless* is about the tokens, *acceptance* about whether the kernel accepts as the declared
rule does; the worse of both is a result's verdict, so that every word says which one it was.
"""

from collections.abc import Sequence

from simverify.reports.audit.found import count
from simverify.reports.words import listed, shortened
from simverify.results import Acceptance, CompareResult, CompareRun, Lossless, ModelInfo, Verdict


def ruling(run: CompareRun) -> str:
    """Return in a few sentences what to do with what was compared."""
    lossy = _those(run, lossless="FAIL")
    strange = [row for row in _those(run, acceptance="FAIL") if row not in lossy]
    open_ = _those(run, lossless="INCONCLUSIVE")
    unsure = _those(run, lossless="PASS", acceptance="INCONCLUSIVE")
    parts = []
    runs, few = _runner(run), f"too few {counted(run)}"
    if lossy:
        those = _named(lossy, run, "any of the")
        parts.append(f"Do not ship {those}: the output does not follow the target.")
    if strange:
        parts.append(
            f"Look at {_named(strange, run)}: the {runs} accepts otherwise than the declared rule, "
            "which by itself says nothing against losslessness."
        )
    if open_:
        parts.append(
            f"Do not decide on this run about {_named(open_, run, 'any of the')}: {few} "
            "to say that the output follows the target."
        )
    if unsure:
        parts.append(
            f"Lossless passed for {_named(unsure, run)}; too few blocks to say that the {runs} "
            f"accepts as the declared rule: {_remedy(run)}."
        )
    return " ".join(parts) or _passed(run)


def _passed(run: CompareRun) -> str:
    ship = "nothing here speaks against shipping them."
    if all(row.lossless.tier == "exact" for row in run.results):
        return (
            "Every rule's own law is its target's, exactly, and no deviation of a kernel was "
            f"found, with the error rates below: {ship}"
        )
    if run.decoding is not None:
        return f"No deviation was found in the emitted tokens, with the error rates below: {ship}"
    return f"No deviation was found on the models tried, with the error rates below: {ship}"


def verdict_line(run: CompareRun) -> str:
    """Return the verdict with how many results passed each of the two, and why not more."""
    total = len(run.results)
    parts = [f"lossless passed for {len(_those(run, lossless='PASS'))} of {count(total, 'result')}"]
    if failed := len(_those(run, lossless="FAIL")):
        parts.append(f"failed for {failed}")
    if undecided := len(_those(run, lossless="INCONCLUSIVE")):
        parts.append(f"too few {counted(run)} to decide it for {undecided}")
    if strange := len(_those(run, acceptance="FAIL")):
        parts.append(f"{_accept(strange, total)} otherwise than the declared rule")
    if unsure := len(_those(run, acceptance="INCONCLUSIVE")):
        parts.append(f"too few blocks to say that {_accept(unsure, total)} as the declared rule")
    if len(_those(run, acceptance="PASS")) == total:
        parts.append("all accept as the declared rule")
    return f"{run.verdict}: {'; '.join(parts)}"


def _accept(n: int, total: int) -> str:
    return f"{n} of {total} accept{'s' if n == 1 else ''}"


def counted(run: CompareRun) -> str:
    """Return what losslessness is judged by, and what there may be too few of."""
    return "blocks" if run.decoding is None else "tokens"


def reason(run: CompareRun, row: CompareResult) -> str:
    """Return why a result that did not fail did not pass either."""
    if row.lossless.verdict == "INCONCLUSIVE":
        reached = _reached(row.lossless, run.detect)
        return f"too few {counted(run)} to decide on losslessness: {reached}"
    return (
        f"lossless passed; too few blocks to say that the {_runner(run)} accepts as the declared "
        f"rule: {_reached(row.acceptance, run.detect)}"
    )


def _runner(run: CompareRun) -> str:
    """What accepts: on real models no kernel runs, but the verifier's own function."""
    return "kernel" if run.decoding is None else "verifier"


def _remedy(run: CompareRun) -> str:
    if run.decoding is None:
        return "raise --blocks or --detect"
    if run.decoding.trace is None:
        return "raise --tokens or --detect"
    return "record more, or raise --detect"


def _reached(part: Lossless | Acceptance, detect: float) -> str:
    size = found_from(part.detectable)
    return f"{part.deviation}: {size}, asked from {detect:g} on"


def found_from(detectable: float | None) -> str:
    """Return from which size on a deviation is found with the run's power."""
    return "found for nothing" if detectable is None else f"found from {detectable:.3g} on"


def model_words(model: ModelInfo) -> str:
    """Return a model with all that tells it from others of its name, but for hashes."""
    words = [f"V = {model.vocab_size:,}"]
    if model.draft_distance is not None:
        words.append(f"draft distance {model.draft_distance:g}")
    if model.temperature is not None:
        words.append(f"temperature {model.temperature:g}")
    if model.file_sha256 is not None:
        words.append(f"from {shortened(model.given or '', 40)}")
    return f"{shortened(model.name, 24)} ({', '.join(words)})"


def _those(
    run: CompareRun, lossless: Verdict | None = None, acceptance: Verdict | None = None
) -> list[CompareResult]:
    return [
        row
        for row in run.results
        if lossless in (None, row.lossless.verdict) and acceptance in (None, row.acceptance.verdict)
    ]


def _named(rows: Sequence[CompareResult], run: CompareRun, every: str = "all") -> str:
    if len(rows) == len(run.results) > 1:
        return f"{every} {count(len(rows), 'result')}"
    return listed((f"{row.verifier} on {row.model}" for row in rows), 5, 48)
