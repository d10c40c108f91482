"""A call of a drafter that deviates, in words: one fact a line."""

from collections.abc import Iterator

from simverify.reports.audit.found import count, probability, row_text, tokens
from simverify.results import Breach, Counterexample, DraftCall

_ROUNDING, _SUM = 1e-9, 1e-6


def call_lines(found: Counterexample, call: DraftCall) -> Iterator[str]:
    """Yield what a call of a drafter was asked and reports, and how often its tokens come."""
    after = call.prefix[len(found.instance.prompt) :]
    row = found.instance.draft_probs[",".join(map(str, after))]
    yield f"prefix: {tokens(call.prefix) or 'no token'}"
    yield f"draft row: {row_text(row)}"
    yield f"asked for: {count(call.asked, 'token')}, scheme {found.instance.scheme}"
    total = sum(call.reported)
    off = f" (their sum is {total:.6g})" if abs(total - 1) > _SUM else ""
    yield f"reported: {', '.join(probability(x) for x in call.reported)}{off}"
    if call.before:
        calls = "; ".join(tokens(answer) or "no token" for answer in call.before)
        yield f"the calls before it drafted: {calls}"
    if call.share < 1 - _ROUNDING:
        came = count(len(found.sequence), "token")
        yield f"in {probability(call.share)} of all runs it reports this and returns {came}; then"
    noun = "Token" if len(found.sequence) == 1 else "Tokens"
    yield (
        f"{noun} {tokens(found.sequence)} {'has' if noun == 'Token' else 'have'} probability "
        f"{probability(found.probability_emitted)}; by the report it is "
        f"{probability(found.probability_expected)}."
    )


def is_drafter(found: Breach) -> bool:
    """Whether the call that broke its contract is one of a drafter's."""
    return found.instance.parents is not None and found.draft_tokens is None
