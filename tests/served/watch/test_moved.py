"""What rounding may come to is measured on enough tokens, of greedy requests and of others."""

from dataclasses import asdict, replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    emitted,
)

from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served.judge import ROUNDING_TOKENS  # noqa: E402
from simverify.served.monitor import (  # noqa: E402
    MIN_TOLERANCE,
    MonitorEvidence,
    RoundingError,
    WatchSettings,
)
from simverify.served.requests import check_request  # noqa: E402
from simverify.served.rescore import rescore  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("shallow_target")

NAMES = ("token", "descending P")


@pytest.fixture(scope="module")
def coarse():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama", dtype="bfloat16")


@pytest.fixture(scope="module")
def scored(coarse):
    lines = emitted(coarse, VERIFIERS["token"], 1400, lanes=32, length=48, prompts=PROMPTS[:32])
    return list(rescore([check_request(line, "log", coarse) for line in lines], coarse, False))


@pytest.mark.thorough
def test_a_short_first_line_does_not_decide(coarse, scored):
    whole, parts = RoundingError(), RoundingError()
    whole.measure(scored, coarse, False)
    one = replace(scored[0].request, tokens=scored[0].request.tokens[:1])
    (first,) = rescore([one], coarse, False)
    assert parts.measure([first], coarse, False)
    at_first = dict(parts.balls(NAMES))
    for begin in range(0, len(scored), 4):
        parts.measure(scored[begin : begin + 4], coarse, False)
    assert parts.tokens["sampled"] >= ROUNDING_TOKENS
    assert not parts.measure(scored[:4], coarse, False)  # that was enough
    for name in NAMES:
        assert parts.balls(NAMES)[name] == pytest.approx(whole.balls(NAMES)[name], rel=0.25)
        assert at_first[name] < 0.9 * whole.balls(NAMES)[name]  # one token alone says too little
    again = RoundingError.from_dict(asdict(parts), NAMES)
    assert again == parts


@pytest.mark.thorough
def test_greedy_lines_at_the_beginning_do_not_make_the_ball_small(coarse, scored):
    greedy = [replace(own.request, law=Law(0.0)) for own in scored[:3]]
    own = [
        replace(request, tokens=tuple(int(t) for t in one.p.argmax(axis=1)))
        for request, one in zip(greedy, scored, strict=False)
    ]
    moved = RoundingError()
    moved.measure(list(rescore(own, coarse, False)), coarse, False)
    assert moved.tokens == {"greedy": sum(len(r.tokens) for r in own), "sampled": 0}
    greedy_ball = moved.balls(NAMES)
    assert moved.balls(NAMES, "sampled") == dict.fromkeys(NAMES, MIN_TOLERANCE)
    moved.measure(scored, coarse, False)
    assert min(moved.balls(NAMES).values()) > 1e-3
    assert moved.balls(NAMES, "greedy") == greedy_ball != moved.balls(NAMES)
    assert moved.tokens["sampled"] >= ROUNDING_TOKENS


def test_the_margin_is_that_of_all_tokens_so_far(coarse, scored):
    """A request of one token says little of how far logits may be off."""
    canary = MonitorEvidence(WatchSettings(), False)
    for own in scored:
        canary.add(own)
    largest = max(float(own.shift.max()) for own in scored)
    assert canary.moved.margin == max(0.1, 2 * largest)
    near = replace(
        scored[0],
        gap=0.9 * canary.moved.margin + 0 * scored[0].gap,
        shift=0 * scored[0].shift,
    )
    canary.add(near)
    assert (canary.alarm, canary.unsupported) == (None, 0)
    canary.add(replace(near, gap=1.2 * canary.moved.margin + 0 * near.gap))
    assert "is cut off" in canary.alarm
