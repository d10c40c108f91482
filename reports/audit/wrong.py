"""What is wrong with code that failed its audit, in a sentence or two without test names."""

from simverify.reports.audit import found as say
from simverify.results import AuditRun, SampledTier

_PARTS = {
    "accept": "it accepts draft tokens otherwise than a lossless rule may",
    "residual": "the token that it draws after a rejection does not follow the target",
    "bonus": "the bonus token, drawn when every draft token is accepted, does not follow the "
    "target",
    "draft contract": "the draft tokens do not come from the law that it takes for the draft's",
    "row plumbing": "it judges a token by rows that are not those of the token's place",
    "random stream": "it uses random numbers more than once, or others than it should",
}
_DEPEND = "calls, or rows of a batch, depend on each other"
_LIKE = 0.75
"""Part of the deviation from which on a fault is named as what it looks like."""


def what_is_wrong(run: AuditRun) -> str:
    """Return why ``run`` failed; its words begin with a small letter and end in a full stop."""
    found, tier = run.counterexample, run.sampled
    if found is not None:
        return (
            "its output does not follow the target model. On an instance with "
            f"{found.instance.vocab_size} tokens and drafts of {found.instance.gamma} it is off "
            f"by a total variation of {say.probability(found.tv)}."
        )
    if run.breach is not None:
        return f"it breaks its contract: {_sentence(run.breach.message)}"
    if tier is not None and tier.findings and tier.localisation is not None:
        return _sampled(tier)
    probes = [probe for probe in run.probes if say.fatal(probe)]
    if probes and all(found.kind == "probe" for found in run.findings):
        return f"it fails {say.count(len(probes), 'edge probe')}: {_sentence(probes[0].message)}"
    return _sentence(run.findings[0].text if run.findings else "it failed")


def _sampled(tier: SampledTier) -> str:
    place, faults = tier.localisation, tier.faults
    best = faults.best if faults is not None else None
    part = None if place is None else place.part
    if part == "random stream" and best is None:
        return f"its {_DEPEND}, although each alone follows the target model."
    words = "its output does not follow the target model"
    words += f": {_PARTS[part]}" if part else "; no part of it alone explains that"
    if best is not None and faults is not None and (faults.explains or 0.0) >= _LIKE:
        words += f". It looks like the fault {best.fault} (simverify faults)"
    return f"{words}."


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
