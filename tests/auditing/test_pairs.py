"""A drafter and a verifier in one audit: what they share shows, and which of the two is wrong."""

import numpy as np
import pytest
from support.levels import at_night

import simverify
from simverify.errors import UsageError
from simverify.faults import FAULTS
from simverify.faults.base import inverse_cdf

pytestmark = pytest.mark.usefixtures("unsearched", "unnamed")

SMALL = {"gamma": 1, "vocab": 2}


def honest(prefix, draft_row, k, rng):
    return [int(rng.choice(len(draft_row), p=draft_row)) for _ in range(k)], draft_row


def audited(drafter, verifier, **how):
    return simverify.audit(drafter=drafter, verifier=verifier, **{**SMALL, **how})


@pytest.mark.parametrize("verifier", at_night(["token", "block", "match"], but=["block"]))
def test_an_honest_pair_passes(verifier):
    run = audited(honest, verifier)
    assert (run.verdict, run.tier, run.contract) == ("PASS", "exact", "step")
    assert (run.pair.verifier, run.pair.contract) == (verifier, "verify")
    assert any(line.startswith("Checked: drafter and verifier") for line in str(run).splitlines())


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize(
    ("fault", "verifier", "verdict"),
    at_night(
        [
            ("raw-row-report", "block", "FAIL"),
            ("stop-at-unlikely-token", "token", "FAIL"),
            # It never reads q, so that no report misleads it.
            ("raw-row-report", "match", "PASS"),
        ],
        but=[("raw-row-report", "block", "FAIL"), ("raw-row-report", "match", "PASS")],
    ),
)
@pytest.mark.thorough
def test_a_wrong_drafter_is_told_from_a_right_verifier(fault, verifier, verdict):
    run = audited(fault, verifier)
    assert run.verdict == verdict
    if verdict == "FAIL":
        assert run.notes[0].startswith("alone the drafter is FAIL too: simverify audit")
        assert run.notes[1] == "alone the verifier passes"


@pytest.mark.usefixtures("unprobed")
@pytest.mark.thorough
def test_a_wrong_verifier_is_told_from_a_right_drafter():
    run = audited(honest, "inverted-ratio")
    assert run.verdict == "FAIL"
    assert run.notes[0] == "alone the drafter passes"
    assert run.notes[1].startswith("alone the verifier is FAIL too")


class Sharing:
    """Code whose drafter leaves its uniforms where the verifier finds them."""

    def __init__(self):
        self.left = []

    def draft(self, prefix, draft_row, k, rng):
        u = rng.random()
        self.left.append(u)
        return [inverse_cdf(draft_row, draft_row, u)], draft_row

    def judge(self, target_probs, draft_probs, draft_tokens, rng, coins):
        for i, x in enumerate(draft_tokens.tolist()):
            p, q = target_probs[i], draft_probs[i]
            if not coins(i) * q[x] < p[x]:
                left = np.maximum(p - q, 0)
                return [*draft_tokens[:i].tolist(), int(rng.choice(len(p), p=left / left.sum()))]
        p = target_probs[-1]
        return [*draft_tokens.tolist(), int(rng.choice(len(p), p=p))]

    def reusing(self, target_probs, draft_probs, draft_tokens, rng):
        mine = self.left[-len(draft_tokens) :] if self.left else [rng.random()] * 9
        self.left = []
        return self.judge(target_probs, draft_probs, draft_tokens, rng, mine.__getitem__)

    def drawing(self, target_probs, draft_probs, draft_tokens, rng):
        self.left = []
        coins = [rng.random() for _ in draft_tokens]
        return self.judge(target_probs, draft_probs, draft_tokens, rng, coins.__getitem__)


@pytest.mark.usefixtures("unprobed")
@pytest.mark.thorough
def test_one_uniform_for_draft_and_coin_shows_in_the_pair_alone():
    shared = Sharing()
    assert audited(shared.draft, shared.drawing).verdict == "PASS"
    run = audited(shared.draft, shared.reusing)
    assert run.verdict == "FAIL"
    assert run.counterexample is not None
    assert run.notes[0] == "each passes alone: what they share is wrong, such as random numbers"


FILE = """
import numpy as np
LEFT = []
def draft(prefix, draft_row, k, rng):
    LEFT.append(rng.random())
    return [int(np.searchsorted(np.cumsum(draft_row)[:-1], LEFT[-1], side="right"))], draft_row
def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q, x = target_probs[0], draft_probs[0], int(draft_tokens[0])
    u = LEFT[-1] if LEFT else rng.random()
    LEFT.clear()
    if u * q[x] < p[x]:
        return [x, int(rng.choice(len(p), p=target_probs[1]))]
    left = np.maximum(p - q, 0)
    return [int(rng.choice(len(p), p=left / left.sum()))]
"""


@pytest.mark.usefixtures("unprobed")
# Code in two files is code in one of them, read by way of the other.
@pytest.mark.parametrize("apart", at_night([False, True], but=[True]))
@pytest.mark.thorough
def test_code_of_one_file_shares_what_it_holds_and_a_failure_is_shown_again(tmp_path, apart):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    drafter = f"{path}:draft"
    if apart:
        (tmp_path / "drafting.py").write_text("import mine\n\ndraft = mine.draft\n")
        drafter = f"{tmp_path / 'drafting.py'}:draft"
    run = audited(drafter, f"{path}:verify")
    assert run.verdict == "FAIL"
    assert f"--drafter {drafter} --verifier" in run.reproduce
    file = tmp_path / "run.json"
    run.save(file)
    assert "draw 1" in str(simverify.replay(simverify.load(file), 0))


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize(
    ("scheme", "verifier", "verdict"),
    at_night(
        [
            ("without-replacement", "recursive-without-replacement", "PASS"),
            ("without-replacement", "recursive", "FAIL"),
            ("iid", "recursive", "PASS"),
        ],
        but=[("without-replacement", "recursive", "FAIL"), ("iid", "recursive", "PASS")],
    ),
)
@pytest.mark.thorough
def test_trees_are_drafted_and_judged_in_one(scheme, verifier, verdict):
    def without(prefix, draft_row, k, rng):
        count = min(k, np.count_nonzero(draft_row))
        return rng.choice(len(draft_row), size=count, replace=False, p=draft_row), draft_row

    drafter = honest if scheme == "iid" else without
    how = {"contract": "tree", "tree": "2", "scheme": scheme, "vocab": 3}
    run = audited(drafter, verifier, **how)
    assert run.verdict == verdict
    assert (run.pair.scheme, run.pair.tree) == (scheme, "2")


@pytest.mark.usefixtures("unprobed")
@pytest.mark.thorough
def test_a_draft_that_may_be_empty_is_judged_too():
    def sometimes(prefix, draft_row, k, rng):
        return ([], draft_row) if rng.random() < 0.5 else honest(prefix, draft_row, k, rng)

    assert audited(sometimes, "token", gamma=2, vocab=2).verdict == "PASS"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"drafter": honest}, "drafter is half of a pair: name verifier too"),
        ({"verifier": "token"}, "verifier is half of a pair: name drafter too"),
        ({"drafter": honest, "verifier": "greedy"}, "it drafts itself, so audit it alone"),
        ({"drafter": honest, "verifier": "recursive"}, "name --contract tree"),
        ({"drafter": honest, "verifier": "sampled-hub"}, "takes one of the verify or tree"),
        ({"drafter": honest, "verifier": "ragged-offset"}, "takes whole batches"),
        ({"drafter": "token", "verifier": "token"}, "--drafter takes one of the draft"),
        ({"drafter": lambda a: a, "verifier": "token"}, "--drafter .*neither draft"),
        (
            {"drafter": honest, "verifier": "token", "contract": "step"},
            "contract is the verifier's",
        ),
        ({"drafter": honest, "verifier": "token", "batch": 2}, "batch is not for a pair"),
        ({"drafter": honest, "verifier": "token", "eos": 1}, "eos is not for a pair"),
        ({"drafter": honest, "verifier": "token", "tree": "2"}, "name contract tree"),
        ({"drafter": honest, "verifier": "token", "scheme": "iid"}, "name contract tree"),
        (
            {"drafter": honest, "verifier": "token", "target": "tiny-llama"},
            "verifier is not for real",
        ),
        ({"rule": "token", "drafter": honest, "verifier": "token"}, "rule is not for a pair"),
    ],
)
def test_what_cannot_be_judged_is_said_by_name(given, why):
    with pytest.raises(UsageError, match=why):
        simverify.audit(**given)


@pytest.mark.usefixtures("unprobed")
def test_the_catalogue_has_the_pair_that_shares_a_uniform():
    assert "draft-uniform-as-coin" in FAULTS
    run = simverify.audit("draft-uniform-as-coin", **SMALL)
    assert run.verdict == "FAIL"
