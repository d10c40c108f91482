"""Code that breaks its contract fails, and the audit shows on which instance and draft."""

import time

import pytest
from support.rules import token

from simverify.auditing.probes import run_probes
from simverify.auditing.replay import replay_contract_breach
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.symbolic.provenance import parse_raise_site

pytestmark = pytest.mark.usefixtures("unsearched")


SMALLEST = AuditSettings(gamma=1, vocab=2)


def run(rule, contract="verify", settings=SMALLEST):
    return audit(Subject("mine", rule, None), contract, settings)


def raising(p, q, x, rng):
    raise RuntimeError("no such luck")


def endless(p, q, x, rng):
    while True:
        time.sleep(0.01)


def changing(p, q, x, rng):
    p[0] = 0
    return token(p + 1e-300, q, x, rng)


def elsewhere(p, q, x, rng):
    torch = pytest.importorskip("torch")
    return torch.zeros(1, dtype=torch.int64, device="meta")


@pytest.mark.parametrize(
    "rule",
    [
        raising,
        endless,
        changing,
        elsewhere,
        lambda p, q, x, rng: [],
        lambda p, q, x, rng: None,
        lambda p, q, x, rng: [*x.tolist(), 0, 0],
        lambda p, q, x, rng: [99],
        lambda p, q, x, rng: [-1],
        lambda p, q, x, rng: [0.5],
        lambda p, q, x, rng: "0",
    ],
)
@pytest.mark.thorough
def test_misbehaviour_is_a_finding_and_never_a_pass(rule, monkeypatch):
    if rule is endless:  # it is waited for in vain
        monkeypatch.setitem(run_probes.__kwdefaults__, "seconds", 0.2)
    result = run(rule, settings=AuditSettings(gamma=1, vocab=2, seconds=4))
    assert result.verdict == "FAIL"
    assert result.findings
    assert all("\n" not in finding.text for finding in result.findings)


def shortened(p, q, x, rng):
    """Raise where the second of two drafts is the token 1 and the first was accepted."""
    if len(x) == 2 and x[1] == 1 and rng.random() < 0.5:
        raise LookupError("no row")
    return token(p, q, x, rng)


@pytest.mark.parametrize(
    ("rule", "vocab", "draft"),
    [(changing, 2, 1), (shortened, 2, 2), (lambda p, q, x, rng: [[1, 2]], 2, 1)],
)
def test_a_broken_contract_is_shown_on_the_instance_and_draft_it_broke_on(rule, vocab, draft):
    result = run(rule, settings=AuditSettings(gamma=2, vocab=2))
    assert result.counterexample is None
    breach = result.breach
    assert breach.instance.vocab_size == vocab
    assert len(breach.draft_tokens) == breach.instance.gamma == draft
    assert any(breach.message in finding.text for finding in result.findings)
    if rule is shortened:
        assert breach.draft_tokens[1] == 1
    texts = replay_contract_breach(rule, "verify", breach)
    assert texts
    assert all(breach.message in text and "p = " in text for text in texts)


def test_a_finding_of_code_that_raises_has_its_line():
    """The line that raised, and not one that the message makes up."""
    found = run(raising).findings
    where = f"{__file__}:{raising.__code__.co_firstlineno + 1}"
    assert {finding.kind for finding in found} == {"probe", "contract"}
    assert {finding.line for finding in found} == {where}
    assert {finding.line for finding in run(elsewhere).findings} == {None}
    assert parse_raise_site(f"raised ValueError: bad (nowhere.py:3) ({where}), in the call") == (
        where,
    )
    assert parse_raise_site("raised ValueError: bad (nowhere.py:3)") == ()


def test_code_that_drafts_itself_has_a_breach_without_a_draft():
    def step(prefix, target, draft, gamma, rng):
        return [int(rng.choice(2, p=target(prefix)))] if len(prefix) < 1 else [7]

    result = run(step, "step")
    assert result.breach.draft_tokens is None
    texts = replay_contract_breach(step, "step", result.breach)
    assert texts
    assert all("returned token 7, vocabulary 0..1" in text for text in texts)


class Full:
    """A token a call, and none at the third, when more are out than the block is long."""

    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        self.calls += 1
        if self.calls == 3:
            raise ValueError("full")
        return [int(rng.choice(2, p=target(prefix)))]


def test_a_call_that_breaks_late_in_a_generation_is_shown_with_what_came_before():
    result = run(Full, "step")
    assert "raised ValueError: full" in result.breach.message
    texts = replay_contract_breach(Full, "step", result.breach)
    assert texts
    assert all(" in the call after the tokens " in text for text in texts)


def test_a_right_rule_has_no_breach():
    assert run(token).breach is None
