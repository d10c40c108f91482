"""What a comparison's two verdicts come to, in words that the terminal and the reports share.

*Lossless* is about the tokens, *acceptance* about whether the kernel accepts as the declared
rule does; the worse of both is a result's verdict, so that every word says which one it was.
"""

from collections.abc import Iterator, Sequence

from simverify.reports.audit.found import count
from simverify.reports.compare.decoded import law_words, rests_on
from simverify.reports.compare.grouped.names import model_name, result_name
from simverify.reports.compare.trees import tree_words
from simverify.reports.view import Fact
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
    return "not found at any size" if detectable is None else f"found from {detectable:.3g} on"


def model_words(model: ModelInfo) -> str:
    """Return a model with all that tells it from others of its name, but for hashes."""
    words = [f"V = {model.vocab_size:,}"]
    if model.draft_distance is not None:
        words.append(f"draft distance {model.draft_distance:g}")
    if model.temperature is not None:
        words.append(f"temperature {model.temperature:g}")
    if model.file_sha256 is not None:
        words.append(f"from {shortened(model.given or '', 40)}")
    return f"{model_name(model, 24)} ({', '.join(words)})"


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
    return listed((result_name(run, row, 48) for row in rows), 5, 90)


def compare_facts(run: CompareRun) -> Iterator[Fact]:
    """Yield what was judged, how many passed, and the error rates of the run."""
    for name, things, verdicts in (
        ("Lossless", counted(run), [row.lossless.verdict for row in run.results]),
        (
            "Accepts as the declared rule",
            "blocks",
            [row.acceptance.verdict for row in run.results if row.acceptance.tests],
        ),
    ):
        total = count(len(verdicts), "result")
        told = [f"{verdicts.count('PASS')} of {total} passed"]
        told += [f"{n} failed"] if (n := verdicts.count("FAIL")) else []
        told += [f"{n} with too few {things}"] if (n := verdicts.count("INCONCLUSIVE")) else []
        yield Fact(name, ", ".join(told))
    models = listed(map(model_words, run.models), 4, 120)
    law = ""
    if (real := run.decoding) is not None:
        law = f", at {law_words(real.temperature, real.top_k, real.top_p)}"
    drafts = "" if run.drafting is None else f", {tree_words(run.drafting)}"
    yield Fact("Judged", f"gamma {run.gamma}{drafts}, on {models}{law}")
    yield Fact("Rests on", _rests_on(run))
    yield Fact(
        "False alarms",
        f"with probability {run.alpha:g} at most this run reports a fault where there is none",
    )
    kinds = dict.fromkeys(row.lossless.deviation for row in run.results)
    kinds |= dict.fromkeys(row.acceptance.deviation for row in run.results if row.acceptance.tests)
    yield Fact(
        "Power",
        f"{run.power:g} against each of these of {run.detect:g}, or the verdict is INCONCLUSIVE: "
        f"{'; '.join(shortened(kind, 120) for kind in list(kinds)[:4])}",
    )
    # Beside a FAIL, or a run that was too short, a bound would only mislead.
    passed = [row.lossless for row in run.results if row.lossless.verdict == "PASS"]
    bounds = [lossless.certificate.bound for lossless in passed if lossless.certificate]
    if bounds:
        where = "" if len(passed) == len(run.results) else ", where lossless passed"
        yield Fact(
            "Certified",
            f"mean one-token TV at most {max(bounds):.3g}{where}, by the assumption beside each "
            "certificate",
        )


def _rests_on(run: CompareRun) -> str:
    if run.decoding is not None:
        return rests_on(run.decoding)
    exact = sum(row.lossless.tier == "exact" for row in run.results)
    both = "the rule's exact law and sampled tests of its kernel"
    if any(not row.lossless.tests for row in run.results):
        both += ", where it has one"
    if exact == len(run.results):
        return both
    if not exact:
        return "sampled tests of the kernels alone"
    return f"{both} for {exact} of {len(run.results)} results, sampled tests alone for the others"
