"""Rules for draft trees decode on real models: verdicts, misuse, the document."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.false_alarms import ALPHA  # noqa: E402
from support.traces import (  # noqa: E402
    PROMPTS,
    spelled_pair,
)

from simverify.auditing.real_models import (  # noqa: E402
    LiveModels,
    audit_on_models,
)
from simverify.auditing.settings import AuditSettings  # noqa: E402
from simverify.auditing.subject import (  # noqa: E402
    Subject,
    load_subject,
)
from simverify.errors import UsageError  # noqa: E402
from simverify.reports.formats import html_report  # noqa: E402
from simverify.results.reading import (  # noqa: E402
    document_text,
    read_document,
)
from simverify.verifiers.trees import TREE_VERIFIERS  # noqa: E402

RECURSIVE = TREE_VERIFIERS["recursive"].rule


def audited(rule, *, tokens=400, gamma=4, detect=0.3, scheme=None, tree=None, contract="tree"):
    subject = load_subject(rule) if isinstance(rule, str) else Subject("mine", rule, None)
    live = LiveModels(
        "t", "d", gamma=gamma, tokens=tokens, contract=contract, scheme=scheme, tree=tree
    )
    loaded = spelled_pair(eos=(11,), noise=0.3), PROMPTS
    return audit_on_models(
        subject, live, AuditSettings(alpha=ALPHA, detect=detect, seed=3), loaded=loaded
    )


def stale(target_probs, draft_probs, tokens, parents, rng):
    """A rejected sibling leaves the target's row as it is."""
    node, kept = -1, []
    while True:
        p, q = target_probs[node + 1], draft_probs[node + 1]
        for child in np.flatnonzero(parents == node):
            if rng.random() * q[tokens[child]] < p[tokens[child]]:
                kept.append(int(tokens[child]))
                node = child
                break
        else:
            return [*kept, int(rng.choice(len(p), p=p))]


class Worn:
    """Right in the first two calls of a request alone."""

    def reset(self):
        self.calls = 0

    def tree(self, *given):
        self.calls += 1
        return (RECURSIVE if self.calls < 3 else stale)(*given)


class Counting(Worn):
    def tree(self, *given):
        self.calls += 1
        return RECURSIVE(*given)


@pytest.fixture(scope="module")
def passed():
    return audited("recursive", tree="2,2")


@pytest.mark.distribution
def test_a_lossless_rule_passes(passed):
    assert (passed.verdict, passed.tier, passed.contract) == ("PASS", "sampled", "tree")
    assert (passed.gamma, passed.scheme, passed.tree) == (2, "iid", "2,2")
    assert passed.sampled.tests[0].n == 416  # 32 lanes of 13
    assert passed.sampled.samples < 350  # drafts are kept
    assert "no rule's above" in passed.sampled.optimality
    assert passed.sampled.faults is None
    assert "--scheme" not in passed.reproduce  # the rule's own
    assert "--tree 2,2" in passed.reproduce


def test_the_document_is_read_again_and_drawn(passed, tmp_path):
    (tmp_path / "run.json").write_text(document_text(passed))
    assert read_document(tmp_path / "run.json") == passed
    assert max(map(len, str(passed).splitlines())) <= 80
    assert "tree contract" in html_report(passed)


@pytest.mark.distribution
@pytest.mark.parametrize("rule", [stale, Worn])
@pytest.mark.thorough
def test_a_lossy_rule_fails(rule, monkeypatch):
    monkeypatch.setattr("simverify.auditing.real_models.run_subject_probes", lambda *_: ())
    found = audited(rule, scheme="iid", tree="3,2", tokens=1600)
    assert found.verdict == "FAIL"
    assert any(test.rejected for test in found.sampled.tests)


@pytest.mark.distribution
def test_an_object_is_reset_where_a_request_begins():
    found = audited(Counting, scheme="iid", tree="2")
    assert found.verdict == "PASS"
    # Slots of a call are no sample of a rule that may carry state.
    assert not any("pairs" in test.name for test in found.sampled.tests)


@pytest.mark.thorough
def test_without_a_tree_it_is_two_drafts_of_gamma_tokens_or_one():
    runs = [audited(rule, gamma=3, tokens=60, detect=0.9) for rule in ("gbv", "hierarchical")]
    assert [run.tree for run in runs] == ["2,1,1", "1,1,1"]
    assert "the best rule's" in runs[1].sampled.optimality


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (lambda p, q, tokens, parents, rng: [11, 11, 11], "must be a way from its root"),
        (lambda p, q, tokens, parents, rng: [99], "99"),
        (lambda p, q, tokens, parents, rng: 1 // 0, "ZeroDivisionError"),
        (lambda: object(), "has no method tree"),
    ],
    ids=["no way", "no id", "raises", "no method"],
)
def test_a_broken_contract_fails(rule, says, monkeypatch):
    monkeypatch.setattr("simverify.auditing.real_models.run_subject_probes", lambda *_: ())
    found = audited(rule, scheme="iid")
    assert found.verdict == "FAIL"
    assert says in found.findings[0].text


def test_what_cannot_be_run_is_refused():
    refused = [
        (lambda: audited(stale), "needs --scheme, how siblings are drafted"),
        (lambda: audited(stale, scheme="idd"), "unknown scheme 'idd'"),
        (lambda: audited("gbv", tree="2,2"), "gbv does not take the tree 2,2"),
        (lambda: audited("recursive", tree="2,1", gamma=1), "above gamma 1"),
        (lambda: audited("token", contract=None, tree="2"), "--tree 2 is for draft trees"),
        (lambda: audited("recursive", gamma=62), "the context holds 64"),
        (lambda: audited(lambda x, y: [0], scheme="iid"), "neither tree"),
    ]
    for call, says in refused:
        with pytest.raises(UsageError, match=says):
            call()
