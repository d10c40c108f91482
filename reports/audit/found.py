"""What an audit found, in words that the terminal, pytest and the reports share."""

from collections.abc import Iterable, Iterator
from fractions import Fraction

from simverify.reports.audit.lines import finding_words
from simverify.reports.words import certified
from simverify.results import (
    AuditRun,
    Breach,
    Certificate,
    Instance,
    Localisation,
    Probe,
    SampledModel,
    SampledTier,
)
from simverify.trees import TreeShape, draw_on

_LARGEST_DENOMINATOR = 10_000
_STAGES = {
    "accepted": "a draft token that was accepted",
    "residual": "the token drawn after a rejection",
    "bonus": "the bonus token, drawn when every draft token is accepted",
}


def count(n: int, noun: str) -> str:
    """Return ``1 path``, ``2 paths``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def tokens(sequence: Iterable[int]) -> str:
    """Return token ids with commas between them."""
    return ", ".join(map(str, sequence))


def probability(value: float) -> str:
    """Return the number as a short fraction where it is one, with its decimals."""
    near = Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)
    if near.denominator == 1 and near == value:
        return str(near)
    # A number that is no such fraction comes this close to one once in a million.
    exact = abs(float(near) - value) < 1e-14 and near != 0
    return f"{near} = {value:.4g}" if exact else f"{value:.4g}"


def size(instance: Instance) -> str:
    """Return the size of an instance in words, and how its draft trees are drafted."""
    words = f"V = {instance.vocab_size}, gamma = {instance.gamma}"
    if instance.parents is None:
        return words
    shape = TreeShape(instance.parents)
    return f"{words}, draft trees of {shape.words()}, scheme {instance.scheme}"


def drafted(found: Breach) -> str:
    """Return what was drafted for the call, as the end of a clause; "" if it drafts itself."""
    if found.draft_tokens is None:
        return ""
    if found.parents is None:
        return f", draft tokens {tokens(found.draft_tokens)}"
    drawn = draw_on(TreeShape(found.parents), found.draft_tokens)
    return f", draft tree {drawn} (children in brackets)"


def before(instance: Instance) -> str:
    """Return what comes before the output, and what ends it, where that is not plain."""
    parts = []
    if instance.prompt:
        parts.append(
            f"A prompt of {count(len(instance.prompt), 'token')} comes first: "
            f"{tokens(instance.prompt)}."
        )
    if instance.earlier_calls:
        calls = count(instance.earlier_calls, "call")
        parts.append(f"Another generation, of {calls} at most, comes first; then reset().")
    if instance.eos is not None:
        parts.append(f"Token {instance.eos} ends a generation: what follows it is dropped.")
    return " ".join(parts)


def row_pairs(instance: Instance) -> dict[tuple[str, str], list[str]]:
    """Return each pair of rows p and q of ``instance`` once, with the prefixes it follows."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for prefix, target in instance.target_probs.items():
        pair = row_text(target), row_text(instance.draft_probs[prefix])
        pairs.setdefault(pair, []).append(prefix)
    return pairs


def after(prefixes: list[str], width: int) -> str:
    """Return ``after no token | 0 | 0 2``, as far as it fits into ``width``."""
    named = ["no token" if prefix == "" else prefix.replace(",", " ") for prefix in prefixes]
    for shown in range(len(named), 0, -1):
        rest = len(named) - shown
        more = f" | {rest} more" if rest else ""
        line = f"after {' | '.join(named[:shown])}{more}"
        if len(line) < width:
            break
    return line


def place_words(place: Localisation | None) -> str:
    """Return where the law leaves the target first."""
    if place is None:
        return "No position of the output stands out"
    where = f"It deviates first at output token {place.position + 1}"
    return where if place.stage is None else f"{where}, {_STAGES[place.stage]}"


def resemblance(run: AuditRun) -> str:
    """Return which catalogued faults the law found is, or is far nearer to than to the target's."""
    found = run.counterexample
    if found is None or not run.diagnosis:
        return ""
    same = [d.fault for d in run.diagnosis if d.distance <= run.tolerance]
    if same:
        return f"Its law there is that of the fault {' and of '.join(same)} (simverify faults)."
    nearest = min(run.diagnosis, key=lambda d: d.distance)
    fault = nearest.fault
    far = f"the two laws differ by TV {nearest.distance:.3g}, there or on a richer instance"
    if nearest.distance < found.tv / 10:
        return f"It looks like the fault {fault} (simverify faults): {far}."
    unknown = "It looks like none of the catalogued faults."
    if nearest.distance > found.tv / 2:
        # As far from it as from the target, or nearly: its name would lead nowhere.
        return unknown
    return f"{unknown} The nearest is {fault}: {far}."


def stopped_words(run: AuditRun) -> str:
    """Return how far the exact tier came, where the clock stopped it; "" where it did not."""
    stop = run.stopped
    if stop is None:
        return ""
    words = (
        f"stopped by the clock after {stop.seconds:g} s, {stop.judged} of "
        f"{count(stop.instances, 'instance')}"
    )
    if run.verdict == "PASS" and run.sampled is None:
        words += f": lossless on those {stop.judged}"
    return f"{words}; the next is {stop.next} (raise --seconds)"


def findings(run: AuditRun) -> list[str]:
    """Return what failed; the probes, which have lines of their own, where nothing else did."""
    others = [found for found in run.findings if found.kind != "probe"]
    return [finding_words(found) for found in others or run.findings]


def fatal(probe: Probe) -> bool:
    """Return whether ``probe`` failed its audit: a violation, or a warning under strict ones."""
    return probe.failed or probe.outcome == "violation"


def row_text(row: Iterable[float | str]) -> str:
    """Return a row's numbers, or fractions, with commas between them."""
    return ", ".join(x if isinstance(x, str) else f"{x:.6g}" for x in row)


def scope(run: AuditRun) -> str:
    """Return on what sizes the verdict stands."""
    what = f"{run.contract} contract" + (f", in company ({run.company})" if run.company else "")
    if run.pair is not None:
        what = f"drafter and verifier, {run.pair.contract} contract"
    if run.sampled is not None and run.not_enumerable is not None:
        return f"{what}, sampled on {looked_on(run.sampled)}"
    return f"{what}, gamma up to {run.gamma}, V up to {run.vocab_size}"


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
    if found is not None and found.call is not None:
        return (
            "its draft tokens do not follow the law that it reports. On an instance with "
            f"{found.instance.vocab_size} tokens they are off by a total variation of "
            f"{probability(found.tv)}."
        )
    if found is not None:
        return (
            "its output does not follow the target model. On an instance with "
            f"{found.instance.vocab_size} tokens and drafts of {found.instance.gamma} it is off "
            f"by a total variation of {probability(found.tv)}."
        )
    if run.breach is not None:
        return f"it breaks its contract: {_sentence(run.breach.message)}"
    if tier is not None and tier.findings and tier.localisation is not None:
        return _sampled(tier)
    probes = [probe for probe in run.probes if fatal(probe)]
    if probes and all(found.kind == "probe" for found in run.findings):
        return f"it fails {count(len(probes), 'edge probe')}: {_sentence(probes[0].message)}"
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
