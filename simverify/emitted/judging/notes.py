"""What is worth a remark beside the verdict."""

from collections.abc import Iterator, Sequence

from simverify import stats
from simverify.emitted.judging.dependence import not_run
from simverify.emitted.judging.evidence import OutputEvidence
from simverify.emitted.judging.judge import Ball, Judged, judge_evidence
from simverify.emitted.judging.rounding import ALPHA, Rounding, shape_test, tried_rounding
from simverify.emitted.reading.requests import Request
from simverify.emitted.settings import OutputSettings
from simverify.models.real.transformer import TransformerPair

_ALWAYS = "score -log p"
"""The mean whose drift is looked at whatever failed."""


def remarks(
    judged: Judged, found: OutputEvidence, kept: Sequence[Request], pair: TransformerPair,
    proxy: bool,
) -> Iterator[str]:  # fmt: skip
    """Yield what may help to read the verdict, a line each."""
    surprise = next((test for test in judged.tests if test.name == _ALWAYS), None)
    if judged.findings and surprise is not None and surprise.rejected:
        side = "likelier" if surprise.statistic < 0 else "less likely"
        yield (
            f"the emitted tokens are {side} under the target than its own: -log p is off by "
            f"{surprise.statistic:+.3g} on average"
        )
    if found.weights is not None and any(
        test.rejected and test.name.startswith("weights") for test in judged.tests
    ):
        yield f"of rounded weights these fit best: {found.weights.best()}"
    if not proxy:
        yield (
            "--draft was not given: a fault of the acceptance shows best in the order q/p, which "
            "takes the draft or a model near it"
        )
    skipped = tuple(not_run(found))
    if skipped:
        yield f"not run: {'; '.join(skipped)}"
    if str(pair.target_model.dtype) != "torch.float32":
        yield (
            "bets on rounded weights and on rates of single tokens tell little in this precision: "
            "they must allow for what it moves, which is as much"
        )
    unread = [request.unread for request in kept if request.unread is not None]
    if unread:
        yield (
            f"log probabilities of {len(unread):,} requests could not be read as such: {unread[0]}"
        )
    if found.near:
        yield (
            f"{found.near:,} tokens lie just outside the rescored top-k or top-p, within what "
            f"logits off by {found.margin:.2g} allow: counted as support"
        )
    put_back = sum(request.restored and request.tokens[-1] in pair.eos for request in kept)
    if judged.findings and put_back:
        yield (
            f"{put_back:,} end-of-sequence tokens were put back by finish_reason stop: where the "
            f"engine stopped at a string instead, nobody drew them: give its stop_reason"
        )
    unfinished = sum(request.unfinished for request in kept)
    if unfinished and pair.eos:
        yield (
            f"{unfinished:,} requests end without an end-of-sequence token and say no "
            f"finish_reason: taken as cut off by a limit"
        )


def other_prompt(differing: Sequence[Request], requests: int) -> str:
    """Say that the server made other tokens of its prompts than are made of them here."""
    n = len(differing)
    if all(request.differs == "told" for request in differing):
        return (
            f"{n:,} of {requests:,} prompts have other tokens on the server than the tokenizer and "
            f"the chat template of --target make of them; those of the server are taken"
        )
    return (
        f"{n:,} of {requests:,} prompts have another number of tokens on the server than the "
        f"tokenizer and the chat template of --target make of them: give --target the server's "
        f"template, or ask for token ids of the prompt"
    )


def shape_of(judged: Judged, found: OutputEvidence, rounding: Rounding) -> stats.TestResult | None:
    """Return the test that what failed is rounding's doing; None where nothing can tell.

    Rounding makes no requests that depend on each other, no rates and no rounded weights: where
    such a test failed there is no question of it.
    """
    failed = [test.name for test in judged.tests if test.rejected]
    if any(name not in found.deviations for name in failed):
        return None
    return shape_test(list(dict.fromkeys([*failed, _ALWAYS])), found, rounding)


def coarser(
    judged: Judged, found: OutputEvidence, kept: Sequence[Request], pair: TransformerPair,
    planned: int, settings: OutputSettings,
) -> tuple[str, stats.TestResult] | None:  # fmt: skip
    """Say so if an engine in bfloat16 would fail in the same way by its rounding alone.

    With the test of its shape, which did not reject.
    """
    if str(pair.target_model.dtype) != "torch.float32":
        return None
    rounding = tried_rounding(kept, pair, len(found.orders) == 3)
    margin = max(found.margin, 2.0 * rounding.shift)
    if not 0.0 < rounding.tv < 0.5 or found.beyond(margin):
        return None
    shape = shape_of(judged, found, rounding)
    if shape is None or shape.rejected:
        return None
    ball = Ball(rounding.tv, rounding.reach)
    again = judge_evidence(found, planned, settings.alpha, ball, settings.seed)
    if any(test.rejected for test in again.tests):
        return None
    words = (
        f"rows in bfloat16 differ from these, in float32, by TV {rounding.tv:.2g} on average; what "
        f"failed passes within that, and has the shape of rounding (a test that denies it at a "
        f"rate of {ALPHA:g} gives p = {shape.pvalue:.2g}): if the engine computes in bfloat16, "
        f"judge it with --dtype bfloat16"
    )
    return words, shape
