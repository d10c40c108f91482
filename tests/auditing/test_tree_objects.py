"""Classes whose objects judge draft trees: built anew, reset, and judged over whole generations."""

import numpy as np
import pytest

import simverify
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject, load_subject
from simverify.errors import UsageError

pytestmark = pytest.mark.usefixtures("unsearched", "unnamed")

SMALL = AuditSettings(gamma=1, vocab=2, scheme="iid")


class Right:
    """Recursive rejection for independent siblings; keeps nothing."""

    def tree(self, target_probs, draft_probs, tokens, parents, rng):
        node, kept = -1, []
        while True:
            p, q = target_probs[node + 1], draft_probs[node + 1]
            for child in np.flatnonzero(parents == node):
                token = tokens[child]
                if rng.random() * q[token] < p[token]:
                    kept.append(int(token))
                    node = child
                    break
                p = np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()
            else:
                return [*kept, int(rng.choice(len(p), p=p))]


class Second(Right):
    """Draws from the draft in the second call of a generation."""

    def __init__(self):
        self.calls = 0

    def reset(self):
        self.calls = 0

    def tree(self, target_probs, draft_probs, tokens, parents, rng):
        self.calls += 1
        if self.calls == 2:
            return [int(rng.choice(len(draft_probs[0]), p=draft_probs[0]))]
        return super().tree(target_probs, draft_probs, tokens, parents, rng)


class Counts(Second):
    """Carries a count that nothing depends on."""

    def tree(self, *given):
        self.calls += 1
        return Right.tree(self, *given)


class OneUniform(Right):
    """Draws one uniform in its first call and takes it for all others: each alone is right."""

    u = None

    def tree(self, target_probs, draft_probs, tokens, parents, rng):
        self.u = rng.random() if self.u is None else self.u
        ends = np.cumsum(target_probs[0])[:-1]
        return [int(np.searchsorted(ends, self.u, side="right"))]


class Backwards(Right):
    """Returns what is no way down the tree."""

    def tree(self, target_probs, draft_probs, tokens, parents, rng):
        return [1 - int(tokens[0]), 0]


def run(rule):
    return audit(Subject("mine", rule, None), "tree", SMALL)


@pytest.mark.parametrize("rule", [Right, Counts, lambda: Right()])
@pytest.mark.thorough
def test_a_right_object_passes_exactly(rule):
    found = run(rule)
    assert (found.verdict, found.tier) == ("PASS", "exact")
    assert max(i.max_abs_deviation for i in found.instances) < 1e-12


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("rule", [Second, OneUniform, Backwards])
@pytest.mark.thorough
def test_what_an_object_keeps_is_judged(rule):
    found = run(rule)
    assert (found.verdict, found.tier) == ("FAIL", "exact")
    # The method of one object, as a function, makes a call a path; of a call there is no second.
    if rule is not Backwards:
        once = run(lambda p, q, tokens, parents, rng: rule().tree(p, q, tokens, parents, rng))
        assert once.verdict == "PASS"


SOURCE = """
import numpy as np
class Rule:
    def tree(self, target_probs, draft_probs, tokens, parents, rng):
        self.first = getattr(self, "first", True)
        p = (target_probs if self.first else draft_probs)[0]
        self.first = not self.first
        return [int(rng.choice(len(p), p=p))]
OBJECT = Rule()
class Other:
    def judge(self):
        pass
"""


@pytest.mark.thorough
def test_a_failure_is_shown_again_and_an_object_is_named(tmp_path):
    path = tmp_path / "tree_object.py"
    path.write_text(SOURCE)
    how = {"contract": "tree", "scheme": "iid", "gamma": 1, "vocab": 2}
    found = simverify.audit(f"{path}:Rule", **how)
    assert found.verdict == "FAIL"
    file = tmp_path / "run.json"
    found.save(file)
    assert "emitted with probability" in str(simverify.replay(simverify.load(file), 0))
    with pytest.raises(UsageError, match=r"name its class, or the method, .*:OBJECT\.tree"):
        load_subject(f"{path}:OBJECT")
    other = simverify.audit(f"{path}:Other", **how)
    assert "no method tree" in " ".join(found.text for found in other.findings)


@pytest.mark.usefixtures("unprobed")
@pytest.mark.thorough
def test_a_verifier_of_a_pair_may_be_a_class():
    def draft(prefix, draft_row, k, rng):
        return [int(rng.choice(len(draft_row), p=draft_row)) for _ in range(k)], draft_row

    how = {"contract": "tree", "tree": "1", "gamma": 1, "vocab": 2, "drafter": draft}
    assert simverify.audit(verifier=Right, **how).verdict == "PASS"
    assert simverify.audit(verifier=Second, **how).verdict == "FAIL"


def test_compare_takes_a_class():
    run = simverify.compare(["compact"], [Right, Second], tree="1", blocks=200)
    assert [row.verdict == "FAIL" for row in run.results] == [False, True]
    assert run.results[0].expected_accepted.exact == pytest.approx(5 / 6)


def test_what_is_neither_is_refused():
    with pytest.raises(UsageError, match="neither tree"):
        run(lambda target_probs, draft_probs: [0])
