"""What a comparison's verdicts rest on, for the first screen of its report."""

from collections.abc import Iterator

from simverify.reports.audit.found import count
from simverify.reports.compare.decoded import law_words, rests_on
from simverify.reports.compare.words import counted, model_words
from simverify.reports.view import Fact
from simverify.reports.words import listed, shortened
from simverify.results import CompareRun


def compare_facts(run: CompareRun) -> Iterator[Fact]:
    """Yield what was judged, how many passed, and the error rates of the run."""
    total = count(len(run.results), "result")
    for name, things, verdicts in (
        ("Lossless", counted(run), [row.lossless.verdict for row in run.results]),
        (
            "Accepts as the declared rule",
            "blocks",
            [row.acceptance.verdict for row in run.results],
        ),
    ):
        told = [f"{verdicts.count('PASS')} of {total} passed"]
        told += [f"{n} failed"] if (n := verdicts.count("FAIL")) else []
        told += [f"{n} with too few {things}"] if (n := verdicts.count("INCONCLUSIVE")) else []
        yield Fact(name, ", ".join(told))
    models = listed(map(model_words, run.models), 4, 120)
    law = ""
    if (real := run.decoding) is not None:
        law = f", at {law_words(real.temperature, real.top_k, real.top_p)}"
    yield Fact("Judged", f"gamma {run.gamma}, on {models}{law}")
    yield Fact("Rests on", _basis(run))
    yield Fact(
        "False alarms",
        f"with probability {run.alpha:g} at most this run reports a fault where there is none",
    )
    kinds = dict.fromkeys(row.lossless.deviation for row in run.results)
    kinds |= dict.fromkeys(row.acceptance.deviation for row in run.results)
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


def _basis(run: CompareRun) -> str:
    if run.decoding is not None:
        return rests_on(run.decoding)
    exact = sum(row.lossless.tier == "exact" for row in run.results)
    both = "the rule's exact law and sampled tests of its kernel"
    if exact == len(run.results):
        return both
    if not exact:
        return "sampled tests of the kernels alone"
    return f"{both} for {exact} of {len(run.results)} results, sampled tests alone for the others"
