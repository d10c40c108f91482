"""State that a rejected draft leaves behind: right until the first rejection, wrong after it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import PROMPTS  # noqa: E402
from support.judged_tokens import judged  # noqa: E402

from simverify.models.transformer import load_pair  # noqa: E402
from simverify.results import TriageCase  # noqa: E402
from simverify.served.evidence import after_rejection  # noqa: E402
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
