"""How many drafts were accepted: an engine's counters and its log's, against the optimum.

vLLM's and SGLang's metrics pages are read. What cannot be is a finding: more accepted than drafted,
a position that is accepted oftener than the one before it, parts that do not make their sum, more
tokens than were emitted. With the engine's draft, the first drafts are held against the optimum:
no lossless rule keeps a draft that was drawn from q oftener than the sum of min(p, q), nor one that
is q's likeliest token oftener than p has it (Leviathan et al. 2023, theorem 3.5).
"""

import importlib.util
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simverify import results as doc
from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.served.requests import file_errors

# The page: Prometheus' text, or JSON with the same names.


_NAMES = {
    "vllm:spec_decode_num_drafts": "drafts",
    "vllm:spec_decode_num_draft_tokens": "drafted",
    "vllm:spec_decode_num_accepted_tokens": "accepted",
    "vllm:spec_decode_num_accepted_tokens_per_pos": "per_position",
    "vllm:generation_tokens": "emitted",
    "vllm:num_requests_running": "running",
    "sglang:spec_verify_calls": "drafts",
    "sglang:generation_tokens": "emitted",
    "sglang:num_running_reqs": "running",
    "sglang:spec_accept_length": "accept_length",
    "sglang:spec_accept_rate": "accept_rate",
    "sglang:spec_num_steps": "steps",
}
"""Names on the pages, without the _total that a counter's samples end with, and what they are."""

_GAUGES = ("running", "accept_length", "accept_rate", "steps")


@dataclass(frozen=True)
class Counters:
    """What a page says, None where it says nothing.

    ``drafts``: verifications; ``drafted``, ``accepted``: tokens; ``per_position``: accepted tokens
    by their place in the draft, from the first; ``emitted``: tokens. ``running``: requests that
    were not finished when it was read. ``accept_length``, ``accept_rate``, ``steps``: SGLang's
    gauges, of its last interval, and the drafts that it makes in a row.
    """

    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    per_position: tuple[float, ...] = ()
    emitted: float | None = None
    running: float | None = None
    accept_length: float | None = None
    accept_rate: float | None = None
    steps: float | None = None

    def since(self, before: "Counters", where: str) -> "Counters":
        """Return what was counted after ``before``; ``UsageError`` if that is larger."""
        changes: dict[str, Any] = {}
        for name in ("drafts", "drafted", "accepted", "emitted"):
            now, then = getattr(self, name), getattr(before, name)
            if now is not None:
                changes[name] = now - (then or 0.0)
        longer = (*before.per_position, *[0.0] * len(self.per_position))
        pairs = zip(self.per_position, longer, strict=False)
        changes["per_position"] = each = tuple(now - then for now, then in pairs)
        values = [x for x in changes.values() if isinstance(x, float)]
        if min([*values, *each], default=0.0) < 0.0:
            raise UsageError(
                f"{where} has larger counters than the page after it: the server was "
                f"restarted, or the two are swapped"
            )
        return replace(self, **changes)


def read_counters(path: Path, option: str = "counters") -> Counters:
    """Read a metrics page; ``UsageError`` if it cannot be read or holds no counter of drafts.

    Values of several engines on one page are added up.
    """
    where = f"{option}: {path}"
    with file_errors(f"{option}: cannot read {path}"):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8 text (byte {error.start})") from None
    sums: dict[str, float] = defaultdict(float)
    gauges: dict[str, float] = {}
    positions: dict[int, float] = defaultdict(float)
    for name, position, value in _samples(text, where):
        role = _NAMES.get(name.removesuffix("_total"))
        if role is None:
            continue
        if not math.isfinite(value) or value < 0.0:
            raise UsageError(f"{where} has {name} {value:g}: expected a number, 0 or more")
        if role in _GAUGES:
            gauges[role] = gauges.get(role, 0.0) + value if role == "running" else value
            continue
        if value != int(value):
            raise UsageError(f"{where} has {name} {value:g}: expected a whole number")
        if role == "per_position":
            positions[_position(position, name, where)] += value
        else:
            sums[role] += value
    if positions and sorted(positions) != list(range(len(positions))):
        raise UsageError(
            f"{where} has accepted tokens of the positions {sorted(positions)}: expected all from 0"
        )
    per_position = tuple(positions[i] for i in range(len(positions)))
    found = Counters(per_position=per_position, **sums, **gauges)
    if all(getattr(found, name) is None for name in ("drafts", "accepted", "accept_length")):
        raise UsageError(
            f"{where} has no counter of drafts: expected a metrics page of vLLM or SGLang, such as "
            f"vllm:spec_decode_num_drafts_total; does the engine speculate?"
        )
    return found


def _position(given: object, name: str, where: str) -> int:
    try:
        place = int(str(given))
    except ValueError:
        place = -1
    if place < 0:
        raise UsageError(f"{where} has {name} at position {given!r}: expected a number from 0")
    return place


def _samples(text: str, where: str) -> Iterator[tuple[str, object, float]]:
    """Yield the name, the position and the value of each sample."""
    if text.lstrip().startswith("{"):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is no JSON: {error}") from None
        for name, value in values.items():
            each = value if isinstance(value, list) else [value]
            for place, number in enumerate(each):
                if type(number) not in (int, float):
                    raise UsageError(
                        f"{where} has {name} {json.dumps(number)[:40]}: expected a number"
                    )
                yield name, place, float(number)
        return
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("--counters needs prometheus_client: pip install 'simverify[metrics]'")
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                yield sample.name, sample.labels.get("position"), float(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        words = " ".join(str(error).split())[:100]
        raise UsageError(f"{where} is no metrics page of Prometheus: {words}") from None


# What cannot be, whatever the tokens were.


def counter_findings(counters: Counters) -> Iterator[str]:
    """Yield what no engine that counts rightly can show."""
    drafts, drafted, accepted = counters.drafts, counters.drafted, counters.accepted
    each = counters.per_position
    if accepted is not None and drafted is not None and accepted > drafted:
        yield f"counters: {accepted:,.0f} tokens were accepted, and {drafted:,.0f} drafted"
    for i in range(1, len(each)):
        if each[i] > each[i - 1]:
            yield (
                f"counters: {each[i]:,.0f} drafts were accepted at position {i}, and "
                f"{each[i - 1]:,.0f} at position {i - 1}, which comes first"
            )
            break
    if each and drafts is not None and each[0] > drafts:
        yield f"counters: {each[0]:,.0f} first tokens were accepted of {drafts:,.0f} drafts"
    if each and accepted is not None and sum(each) != accepted:
        yield (
            f"counters: the positions add up to {sum(each):,.0f} accepted tokens, and "
            f"the total says {accepted:,.0f}"
        )
    if each and drafts is not None and drafted is not None and drafted > drafts * len(each):
        yield (
            f"counters: {drafted:,.0f} tokens were drafted in {drafts:,.0f} drafts of {len(each)} "
            f"at most"
        )
    rate, length, steps = counters.accept_rate, counters.accept_length, counters.steps
    if rate is not None and rate > 1.0 + _GAUGE_ERROR:
        yield f"counters: the rate of acceptance is {rate:.4g}, above 1"
    if length is not None and steps and length > steps + 1.0 + _GAUGE_ERROR:
        yield (
            f"counters: {length:.4g} tokens are emitted a verification, and {steps:.0f} drafts in "
            f"a row give {steps + 1:.0f} at most"
        )


_GAUGE_ERROR = 1e-6


# The optimum of the first drafts, whose contexts are those of emitted tokens.


BOUND_ALPHA = 1e-9
"""Probability at most that the first drafts of a lossless engine come out above their optimum."""


@dataclass(frozen=True, eq=False)
class FirstDrafts:
    """For each token of a request, if a draft began there, its first token's chance to be kept.

    ``sampled``: float64 (n,), the optimum for a draft drawn from q, which the token rule reaches;
    ``greedy``: for q's likeliest token.
    """

    sampled: Floats
    greedy: Floats

    @classmethod
    def of(cls, p: Floats, q: Floats) -> "FirstDrafts":
        """Return them by rows p and q, float64 (n, V)."""
        greedy = p[np.arange(len(p)), q.argmax(axis=1)]
        return cls(np.minimum(p, q).sum(axis=1), greedy)


def most_of_starts(chances: Sequence[Floats], drafts: int, gamma: int, spare: int) -> float:
    """Bound the sum of ``chances`` over the places where ``drafts`` blocks began.

    A block of ``gamma`` drafts emits 1 to gamma + 1 tokens, but for the end of a request; ``spare``
    tokens at most came one by one, without a draft. The first token of a request belongs to no
    block. This is the dual of the largest sum, so each multiplier gives a valid bound.
    """
    width = max(len(own) for own in chances)
    values = np.zeros((len(chances), width))
    inside = np.zeros((len(chances), width), np.bool_)
    for row, own in enumerate(chances):
        values[row, : len(own)], inside[row, : len(own)] = own, True

    def bound(price: float, skip: float) -> float:
        best = np.zeros((len(chances), width + gamma + 2))
        for t in range(width - 1, 0, -1):
            began = values[:, t] - price + best[:, t + 1 : t + gamma + 2].max(axis=1)
            best[:, t] = np.where(inside[:, t], np.maximum(began, best[:, t + 1] - skip), 0.0)
        return float(best[:, 1].sum()) + price * drafts + skip * spare

    prices = np.linspace(-1.0, 1.0, 41).tolist()
    return min(bound(price, skip) for price in prices for skip in (0.0, 0.1, 0.25, 0.5, 1.0, 2.0))


@dataclass(frozen=True)
class CountedTokens:
    """What the counters are held against: ``emitted`` tokens of ``requests`` in a log.

    ``restored``: end tokens that the log leaves out. ``first``: of each request, empty without the
    engine's draft, or where tokens were not judged. ``ball``: TV that rows may be off by.
    """

    emitted: int
    requests: int
    restored: int
    first: Sequence[FirstDrafts]
    ball: float


_MIN_DRAFTS, _COLLAPSED_RATE = 100, 0.02
"""Drafts from which on a rate of acceptance is one, and below which it is next to nothing."""


_WRONG_DRAFT = "its weights, its table of tokens or its state may be missing or wrong"


def judge_counters(counters: Counters, tokens: CountedTokens) -> doc.EngineCounters:
    """Hold counters against each other, the tokens and the optimum."""
    drafts, accepted, each = counters.drafts, counters.accepted, counters.per_position
    numbers: dict[str, Any] = {
        "drafts": drafts,
        "drafted": counters.drafted,
        "accepted": accepted,
        "per_position": each,
        "emitted": counters.emitted,
        "accept_length": counters.accept_length,
        "accept_rate": counters.accept_rate,
    }
    if counters.running:
        note = (
            f"the counters were read while {counters.running:,.0f} requests ran, and do not belong "
            f"together: read the page when the server is idle"
        )
        return doc.EngineCounters(**numbers, findings=(), notes=(note,), lead=None, optimum=None)
    findings, notes = [*counter_findings(counters)], list[str]()
    optimum: float | None = None
    gamma = len(each) or int(counters.steps or 0)
    theirs = counters.emitted
    alike = theirs is not None and 0 <= theirs - tokens.emitted + tokens.restored <= tokens.restored
    if theirs is None:
        notes.append(
            "the page does not count emitted tokens (vllm:generation_tokens): it was not compared "
            "with the log, nor the acceptance with the optimum"
        )
    elif not alike:
        notes.append(
            f"the counters say {theirs:,.0f} emitted tokens and the log has {tokens.emitted:,}: "
            f"they were not compared with its tokens; give the page before it too, and send "
            f"nothing else meanwhile"
        )
    elif accepted is not None and drafts is not None and gamma:
        most = tokens.emitted + tokens.requests * gamma  # drafts behind the end count as accepted
        if accepted + drafts > most:
            findings.append(
                f"counters: {drafts:,.0f} verifications that accept {accepted:,.0f} tokens emit "
                f"{accepted + drafts:,.0f}, and the log has {tokens.emitted:,}"
            )
    least = None
    if alike and each and drafts and tokens.first and accepted is not None:
        spare = max(tokens.emitted - int(accepted + drafts) + tokens.requests * (gamma - 1), 0)
        kinds = [[getattr(own, kind) for own in tokens.first] for kind in ("sampled", "greedy")]
        n = int(drafts)
        slack = math.sqrt(n * math.log(1.0 / BOUND_ALPHA) / 2.0) + 2.0 * tokens.ball * n
        optimum = min(max(most_of_starts(x, n, gamma, spare) for x in kinds) / n, 1.0)
        lowest = [[-own for own in kind] for kind in kinds]
        least = max(-max(most_of_starts(x, n, gamma, spare) for x in lowest) / n, 0.0)
        if each[0] > optimum * n + slack:
            findings.append(
                f"counters: {each[0] / n:.1%} of the first drafts were accepted, and no lossless "
                f"rule keeps more than {optimum:.1%} of this draft's on these tokens (by chance "
                f"with probability {BOUND_ALPHA:g} at most)"
            )
        least = least if each[0] < least * n - slack else None
    return doc.EngineCounters(
        **numbers,
        findings=tuple(findings),
        notes=tuple(notes),
        lead=_collapse_words(counters, least),
        optimum=optimum,
    )


def _collapse_words(counters: Counters, least: float | None) -> str | None:
    """Say that drafts are hardly ever accepted, or less than they could be; None: they are."""
    drafts, drafted, accepted = counters.drafts, counters.drafted, counters.accepted
    if least is not None and drafts:
        rate = counters.per_position[0] / drafts
        return _low_worth_words("first tokens", rate, f"at least {least:.1%}")
    if drafts is None or drafts < _MIN_DRAFTS or not drafted or accepted is None:
        return None
    if accepted >= _COLLAPSED_RATE * drafted:
        return None
    return (
        f"The draft is worth nothing: {accepted:,.0f} of {drafted:,.0f} drafted tokens are "
        f"accepted ({accepted / drafted:.2%}): {_WRONG_DRAFT}."
    )


def _low_worth_words(what: str, rate: float, due: str) -> str:
    return (
        f"The draft is worth less than it could be: {rate:.1%} of its {what} are accepted, and the "
        f"token rule accepts {due} of this draft's: {_WRONG_DRAFT}, or --draft is not the engine's."
    )


# Drafts of a log that gives each token's place in its draft.


_MIN_BEFORE, _FAR_SIGMAS, _NEAR_SIGMAS, _LOST_SHARE = 20, 6.0, 3.0, 0.6
"""Drafts from which on a rate before the first rejected one tells anything; standard deviations
from which on too few are accepted, and up to which they are as many as they should be; the share of
those expected from which on a lead says nothing."""


def draft_acceptance(
    blocks: Sequence[Sequence[slice]], first: Sequence[FirstDrafts]
) -> doc.AcceptedDrafts | None:
    """Count what was accepted before and after the first rejected draft; None without drafts.

    For each request: the tokens that each verification emitted, and each token's chances. The
    longest verification accepted all of its drafts, and shorter ones all but their last. A
    request's last one is left out: a limit may have cut it. Drafts are taken as drawn from q or as
    its likeliest tokens, whichever those before the first rejection fit better.
    """
    longest = max((b.stop - b.start for own in blocks for b in own), default=0)
    drafts, accepted = np.zeros(2, np.int64), np.zeros(2, np.int64)  # before and after
    expected, variance = np.zeros((2, 2)), np.zeros((2, 2))  # of sampled and of greedy drafts
    for own, chances in zip(blocks, first, strict=True):
        both, late = np.stack([chances.sampled, chances.greedy]), 0
        for block in own[:-1]:
            size = block.stop - block.start
            judged = min(size, longest - 1)
            chance = both[:, block.start : block.start + judged]
            drafts[late] += judged
            accepted[late] += size - 1
            expected[:, late] += chance.sum(axis=1)
            variance[:, late] += (chance * (1.0 - chance)).sum(axis=1)
            late |= size < longest
    if not drafts.any():
        return None
    kind = int(np.abs(accepted[0] - expected[:, 0]).argmin())
    before, after = (
        doc.DraftRate(n, kept, due)
        for n, kept, due in zip(
            drafts.tolist(), accepted.tolist(), expected[kind].tolist(), strict=True
        )
    )
    sigmas = (accepted - expected[kind]) / np.sqrt(np.maximum(variance[kind], 1e-9))
    total, least = int(accepted.sum()), expected.sum(axis=1)
    lead = None
    if after.accepted < _LOST_SHARE * after.expected and sigmas[1] < -_FAR_SIGMAS:
        lead = _lost_state_words(before, after, float(sigmas[0]))
    low = int(least.argmin())
    spread = math.sqrt(variance[low].sum())
    if lead is None and total < min(_LOST_SHARE * least[low], least[low] - _FAR_SIGMAS * spread):
        n = int(drafts.sum())
        lead = _low_worth_words("tokens", total / n, f"{least[low] / n:.1%}")
    return doc.AcceptedDrafts(before, after, lead=lead)


def _lost_state_words(before: doc.DraftRate, after: doc.DraftRate, sigmas: float) -> str | None:
    """Say that a draft that is worth too little after a rejection is right before it, if it is."""
    share = after.accepted / after.drafts
    apart = before.accepted - share * before.drafts
    spread = math.sqrt(before.drafts * share * (1.0 - share))
    if before.drafts < _MIN_BEFORE or sigmas < -_NEAR_SIGMAS or apart < _NEAR_SIGMAS * spread:
        return None
    return (
        f"The draft is right until one of its tokens is rejected, and not after it: "
        f"{before.accepted / before.drafts:.1%} of its tokens are accepted before, {share:.1%} "
        f"after, where the token rule accepts {after.expected / after.drafts:.1%}: its state may "
        f"still hold what was rejected."
    )
