"""State that a rejected draft leaves behind: right until the first rejection, wrong after it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import PROMPTS  # noqa: E402
from support.judged_tokens import judged  # noqa: E402

from simverify.models.transformer import load_pair  # noqa: E402
from simverify.results import DraftRate, TriageCase  # noqa: E402
from simverify.served.counters import FirstDrafts, draft_acceptance  # noqa: E402
from simverify.served.evidence import after_rejection, drafted_blocks  # noqa: E402
from simverify.served.requests import Request  # noqa: E402
from simverify.served.triage import _rejection_note  # noqa: E402
from simverify.served.triage_explanations import LoggedAnswer, MatchedAnswers  # noqa: E402

pytestmark = pytest.mark.usefixtures("shallow_target")

GAMMA, LENGTH = 3, 32


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


def lines_of(pair, kept, wrong_rows, requests=32):
    """Lines with slots; ``wrong_rows``: of what the target reads, by what was rejected before."""
    rng, lines = np.random.default_rng(0), []
    for i in range(requests):
        prompt = tuple(pair.encode(PROMPTS[i % len(PROMPTS)]))[-24:]
        out, slots, rejected, place = [], [], False, 0
        for _ in range(LENGTH):
            text = (*prompt, *out)
            p = pair.target(text[:-1] if wrong_rows(rejected) else text)
            out.append(int(rng.choice(len(p), p=p)))
            slots.append(place if len(out) > 1 else -1)
            if out[-1] in pair.eos:
                break
            keeps = place < GAMMA and rng.random() < kept
            if len(out) > 1:
                rejected = rejected or (place < GAMMA and not keeps)
                place = place + 1 if keeps else 0
        lines.append(
            {
                "prompt": [*prompt],
                "tokens": out,
                "slots": slots,
                "finish_reason": "stop" if out[-1] in pair.eos else "length",
            }
        )
    return lines


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("wrong_rows", "verdict", "named"),
    [
        (lambda rejected: False, "PASS", False),
        (lambda rejected: rejected, "FAIL", True),
        (lambda rejected: True, "FAIL", False),
    ],
    ids=["right", "state after a rejection", "wrong from the start"],
)
def test_the_pattern_is_named_where_it_is_one(pair, wrong_rows, verdict, named):
    run = judged(pair, lines_of(pair, 0.85, wrong_rows), 32 * LENGTH, detect=0.5)
    assert run.verdict == verdict
    said = " ".join(str(run).split())
    assert ("until a request's first rejected draft, and not after it" in said) == named


@pytest.mark.parametrize(
    ("slots", "after"),
    [
        ((-1, 0, 1, 2, 0, 1, 0, 1, 2), 6),
        ((0, 0, 1, 2, 0, 0, 1), 5),
        ((0, 1, 2, 0, 1, 2), 6),  # none is rejected
        ((0, 1, 2, 0, 1), 5),  # the last block may be cut by the limit
        ((-1, -1, -1), 3),
        ((-1, 0, 1, -1, 0, 1, 0, 1, -1), 6),  # the bonus token has no place
        ((-1, 0, 1, 2, -1, 0, 1, 2), 8),  # a token without a draft
    ],
)
def test_where_the_first_draft_was_rejected(slots, after):
    tokens = (5,) * len(slots)
    found = after_rejection(Request((3,), tokens, slots=slots))
    assert found.tolist() == [i >= after for i in range(len(slots))]


def case(number, at):
    words = {"kind": "verifier", "fault": True, "side": "b", "at": at, "request": number}
    fields = dict.fromkeys(TriageCase.__struct_fields__)
    return TriageCase(**fields | words)


def test_a_triage_says_if_all_off_tokens_come_after_a_rejection():
    answer = LoggedAnswer(Request((3,), (5,) * 20), 1, calls=(1, 4, 4, 4, 2, 4, 1))
    logs = MatchedAnswers(((answer, answer),) * 4, 0, 0)
    (note,) = _rejection_note([case(n, 17) for n in (1, 2, 3, 4)], logs)
    assert note.startswith("right until the first rejected draft, wrong after: all 4 off tokens")
    assert list(_rejection_note([case(1, 17), case(2, 3), case(3, 17)], logs)) == []
    assert list(_rejection_note([case(1, 17)], logs)) == []
    unsaid = LoggedAnswer(Request((3,), (5,) * 20), 1)
    assert list(_rejection_note([case(1, 17)] * 3, MatchedAnswers(((unsaid,) * 2,), 0, 0))) == []


def drafted_lines(pair, stale, *, requests=24, length=48):
    """Lines of the token rule; ``stale``: whether the draft reads wrong rows, by rejections."""
    rng, lines = np.random.default_rng(2), []
    for i in range(requests):
        prompt = tuple(pair.encode(PROMPTS[i % len(PROMPTS)]))[-24:]
        out, slots, rejected = [], [], False
        while len(out) < length:
            begins = len(out)
            for place in range(GAMMA + 1):
                text = (*prompt, *out)
                p = pair.target(text)
                slots.append(place)
                if place == GAMMA:
                    out.append(int(rng.choice(len(p), p=p)))
                    break
                read = text[:8] if stale(rejected) else text
                q = pair.draft(read)
                x = int(rng.choice(len(q), p=q))
                if rng.random() * q[x] < p[x]:
                    out.append(x)
                    continue
                rejected, rest = True, np.maximum(p - q, 0)
                out.append(int(rng.choice(len(p), p=rest / rest.sum())))
                break
            assert len(out) > begins
        end = {"finish_reason": "length", "ignore_eos": True}
        lines.append({"prompt": [*prompt], "tokens": out[:length], "slots": slots[:length], **end})
    return lines


@pytest.mark.distribution
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("stale", "lead"),
    [
        (lambda rejected: False, None),
        (lambda rejected: rejected, "right until one of its tokens is rejected, and not after it"),
        (lambda rejected: True, "worth less than it could be"),
    ],
    ids=["right", "state after a rejection", "wrong from the start"],
)
def test_a_draft_that_keeps_what_was_rejected_is_named_in_a_pass(pair, stale, lead):
    run = judged(pair, drafted_lines(pair, stale), 24 * 48, detect=0.5, proxy=True)
    assert run.verdict == "PASS"
    assert ("The draft is" in str(run)) == (lead is not None)
    assert lead is None or f"The draft is {lead}: " in " ".join(str(run).split())
    before, after = run.acceptance.before, run.acceptance.after
    assert before.drafts > 20
    assert after.drafts > 300
    if not stale(False):
        assert abs(before.accepted - before.expected) < 4 * before.drafts**0.5 / 2
    assert (after.accepted > 0.85 * after.expected) == (not stale(True))


def test_drafts_are_counted_up_to_the_first_rejected_one_and_after_it():
    tokens, chance = (5,) * 9, np.full(9, 0.5)
    request = Request((3,), tokens, slots=(-1, 0, 1, 2, 0, 1, 0, -1, 0))
    blocks = drafted_blocks(request)
    assert [(b.start, b.stop) for b in blocks] == [(1, 4), (4, 6), (6, 7), (8, 9)]
    found = draft_acceptance([blocks], [FirstDrafts(chance, chance)])
    # Of three tokens that a verification emits, two were drafts.
    assert found.before == DraftRate(drafts=4, accepted=3, expected=2.0)
    assert found.after == DraftRate(drafts=1, accepted=0, expected=0.5)
    assert found.lead is None
    assert draft_acceptance([[], []], [FirstDrafts(chance, chance)] * 2) is None
