"""What is worth a remark beside the verdict."""

import math
from collections.abc import Sequence

import numpy as np

from simverify.emitted.evidence import OutputEvidence
from simverify.emitted.judge import Judged, judge_evidence
from simverify.emitted.requests import Request
from simverify.emitted.rescoring import distances, in_bfloat16
from simverify.emitted.settings import OutputSettings
from simverify.models.real.transformer import TransformerPair

_REQUESTS = 8


def remarks(
    judged: Judged,
    found: OutputEvidence,
    kept: Sequence[Request],
    pair: TransformerPair,
    planned: int,
    settings: OutputSettings,
) -> list[str]:
    """Return what may help to read the verdict, a line each."""
    notes = []
    surprise = next((test for test in judged.tests if test.name == "score -log p"), None)
    if judged.findings and surprise is not None and surprise.rejected:
        side = "likelier" if surprise.statistic < 0 else "less likely"
        notes.append(
            f"the emitted tokens are {side} under the target than its own: -log p is off by "
            f"{surprise.statistic:+.3g} on average"
        )
    if (
        judged.findings
        and settings.ball is None
        and (coarser := _coarser(found, kept, pair, planned, settings))
    ):
        notes.append(coarser)
    if found.near:
        notes.append(
            f"{found.near:,} tokens lie just outside the rescored top-k or top-p, within what "
            f"logits off by {found.margin:.2g} allow: counted as support"
        )
    put_back = sum(request.restored and request.tokens[-1] in pair.eos for request in kept)
    if judged.findings and put_back:
        notes.append(
            f"{put_back:,} end-of-sequence tokens were put back by finish_reason stop: where the "
            f"engine stopped at a string instead, nobody drew them: give its stop_reason"
        )
    unfinished = sum(request.unfinished for request in kept)
    if unfinished and pair.eos:
        notes.append(
            f"{unfinished:,} requests end without an end-of-sequence token and say no "
            f"finish_reason: taken as cut off by a limit"
        )
    return notes


def _coarser(
    found: OutputEvidence,
    kept: Sequence[Request],
    pair: TransformerPair,
    planned: int,
    settings: OutputSettings,
) -> str | None:
    """Say so if an engine in bfloat16 would fail in the same way by its rounding alone."""
    if str(pair.target_model.dtype) != "torch.float32":
        return None
    tried = in_bfloat16(kept[:_REQUESTS], pair)
    off = float(np.concatenate([distances(scored.p, scored.p_again) for scored in tried]).mean())
    margin = max(found.margin, *(2.0 * float(scored.shift.max()) for scored in tried))
    ball = math.ceil(2e4 * off) / 1e4  # as it would be named
    if not 0.0 < ball < 0.5 or found.beyond(margin):
        return None
    again = judge_evidence(found, planned, settings.alpha, ball, settings.seed)
    if any(test.rejected for test in again.tests):
        return None
    return (
        f"rows in bfloat16 differ from these, in float32, by TV {off:.2g} on average, and with a "
        f"ball of twice that no test fails: if the engine computes in bfloat16, judge it with "
        f"--dtype bfloat16, or declare --ball {ball:g}"
    )
