"""On what an audit's sampled tier looked, and what it promises there, in words."""

from collections.abc import Iterable, Iterator

from simverify.reports.words import certified
from simverify.results import AuditRun, Certificate, SampledModel, SampledTier


def scope(run: AuditRun) -> str:
    """Return on what sizes the verdict stands."""
    if run.sampled is not None and run.not_enumerable is not None:
        return f"{run.contract} contract, sampled on {looked_on(run.sampled)}"
    return f"{run.contract} contract, gamma up to {run.gamma}, V up to {run.vocab_size}"


def looked_on(tier: SampledTier) -> str:
    """Return the sizes of all instances, in the order in which they were run."""
    sizes = _sizes(tier.instances)
    if len(tier.instances) == 1:
        return f"{tier.instances[0].name} alone ({sizes})"
    return f"{sizes} only"


def promises(tier: SampledTier) -> Iterator[tuple[str, str, float, str | None]]:
    """Yield, for the instances of which the same TV is asked: sizes, TV found, asked, its bound.

    The bound, of a PASS, is the largest of them.
    """
    for detect in sorted({x.detect for x in tier.instances}):
        here = [x for x in tier.instances if x.detect == detect]
        found = [x.detectable for x in here if x.detectable is not None]
        reached = f"TV {max(found):.2g} or more" if len(found) == len(here) else "no TV yet"
        bounds = [x.bound for x in here if x.bound is not None]
        bound = f"TV at most {max(bounds):.3g}" if bounds else None
        yield _sizes(here), reached, detect, bound


def certified_on(tier: SampledTier, certificate: Certificate) -> str:
    """Return what the certificate of all instances promises, and on which."""
    return f"on {looked_on(tier)}: {certified(certificate)}"


def _sizes(instances: Iterable[SampledModel]) -> str:
    names = dict.fromkeys(f"V={x.vocab_size} gamma={x.gamma}" for x in instances)
    return ", ".join(names)
