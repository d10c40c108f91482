"""What a sampled run says of each instance it ran on: its size, its promise, its bound."""

from collections.abc import Iterable, Sequence

from simverify import results, stats
from simverify.auditing.sampled.judge import Judgement, certificate
from simverify.auditing.sampled.plan import asked
from simverify.auditing.sampled.run import Runner
from simverify.battery.judgement import finite


def certificates(runners: Sequence[Runner], delta: float) -> tuple[stats.Certificate, ...]:
    """Bound the mean one-token TV on each instance; all bounds hold but for ``delta``."""
    each = delta / len(runners)
    return tuple(certificate(r.tables, r.emissions, delta=each) for r in runners)


def worst(bounds: Sequence[stats.Certificate], delta: float) -> results.Certificate:
    """Return the largest of the bounds that hold together but for ``delta``."""
    largest = max(bounds, key=lambda c: c.bound)
    return results.Certificate(
        bound=largest.bound, delta=delta, method=largest.method, assumption=largest.assumption
    )


def tests_findings(texts: Iterable[str]) -> list[results.Finding]:
    """Return what the sampled tier's tests found as findings of the audit."""
    return [results.Finding(kind="tests", text=text) for text in texts]


def sampled_models(
    runners: Sequence[Runner],
    judged: Sequence[Judgement],
    bounds: Sequence[stats.Certificate],
    detect: float,
) -> tuple[results.SampledModel, ...]:
    """Return what is known of each instance; ``judged`` and ``bounds`` are empty or one for each.

    ``detect``: what the run is asked for.
    """
    unknown: list[float | None] = [None] * len(runners)
    found = [finite(j.detectable) for j in judged] or unknown
    most: list[float | None] = [c.bound for c in bounds] or unknown
    return tuple(
        results.SampledModel(
            name=runner.instance.name,
            vocab_size=runner.tables.vocab_size,
            gamma=runner.instance.gamma,
            samples=len(runner.emissions),
            detect=asked(runner.instance, detect),
            detectable=detectable,
            bound=bound,
        )
        for runner, detectable, bound in zip(runners, found, most, strict=True)
    )
