import json
import time

import numpy as np
import pytest
from msgspec.structs import replace
from support.audit_runs import finding
from support.false_alarms import ALPHA

from simverify.auditing.probes.run import run_probes
from simverify.auditing.replay.breach import replay_breach
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject, load_subject
from simverify.errors import UsageError
from simverify.models import get_model
from simverify.reports.audit.failure import audit_lines
from simverify.results import Probe
from simverify.verifiers import VERIFIERS
from simverify.verifiers.greedy import GreedyBlock

SMALL = AuditSettings(gamma=2, vocab_size=3)


def run(rule, contract="verify", settings=SMALL):
    return audit(Subject("mine", rule, None), contract, settings)


def token(p, q, x, rng):
    for i, t in enumerate(x):
        if rng.random() >= p[i][t] / q[i][t]:
            r = np.maximum(p[i] - q[i], 0)
            return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
    return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]


def scaled(factor):
    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if rng.random() >= factor * p[i][t] / q[i][t]:
                r = np.maximum(p[i] - q[i], 0)
                r = r if r.sum() > 0 else p[i]
                return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
        return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify


def test_a_correct_rule_passes_exactly():
    result = run(token)
    assert (result.verdict, result.tier) == ("PASS", "exact")
    assert not result.findings
    assert max(i.max_abs_deviation for i in result.instances) < 1e-12
    assert "reused-uniform" in result.refuted


@pytest.mark.parametrize("name", ["token", "block", "match"])
def test_the_projects_rules_pass_on_the_whole_battery(name):
    result = audit(load_subject(name))
    assert (result.verdict, result.tier, result.findings) == ("PASS", "exact", ())
    assert not any(probe.outcome in ("warning", "violation") for probe in result.probes)


def test_greedy_passes_under_the_step_contract():
    result = audit(load_subject("greedy"))
    assert (result.contract, result.verdict, result.tier) == ("step", "PASS", "exact")


def test_an_inflation_of_one_in_ten_thousand_is_caught_exactly():
    result = run(scaled(1.0001))
    assert (result.verdict, result.tier) == ("FAIL", "exact")
    assert 0 < result.counterexample.tv < 1e-3


def test_a_fault_is_named_shown_and_placed():
    result = audit(load_subject("reused-uniform"))
    assert result.verdict == "FAIL"
    assert result.diagnosis[0].fault == "reused-uniform"
    assert result.diagnosis[0].distance < 1e-9
    assert result.localisation.stage == "residual"
    shown = result.counterexample
    assert (shown.instance.vocab_size, shown.instance.gamma) == (3, 1)
    assert all(isinstance(x, str) for x in shown.instance.target_probs[""])
    # The rows shown are rows that fail: the due probability follows from them.
    due = 1.0
    for i, t in enumerate(shown.sequence):
        row = shown.instance.target_probs[",".join(map(str, shown.sequence[:i]))]
        a, _, b = row[t].partition("/")
        due *= int(a) / int(b or 1)
    assert shown.probability_expected == pytest.approx(due, abs=1e-12)
    assert shown.probability_emitted != pytest.approx(due, abs=1e-6)


def test_the_first_counterexample_comes_at_once():
    # Paths, not seconds: the machine is not ours to time on.
    result = audit(load_subject("naive-block-stealth"))
    assert result.paths < 5_000


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
def test_misbehaviour_is_a_finding_and_never_a_pass(rule, monkeypatch):
    if rule is endless:  # it is waited for in vain
        monkeypatch.setitem(run_probes.__kwdefaults__, "seconds", 0.5)
    result = run(rule, settings=AuditSettings(gamma=1, vocab_size=2, seconds=4))
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
    result = run(rule, settings=AuditSettings(gamma=2, vocab_size=2))
    assert result.counterexample is None
    breach = result.breach
    assert breach.instance.vocab_size == vocab
    assert len(breach.draft_tokens) == breach.instance.gamma == draft
    assert any(breach.message in finding.text for finding in result.findings)
    if rule is shortened:
        assert breach.draft_tokens[1] == 1
    texts = replay_breach(rule, "verify", breach)
    assert texts
    assert all(breach.message in text and "p = " in text for text in texts)


def test_code_that_drafts_itself_has_a_breach_without_a_draft():
    def step(prefix, target, draft, gamma, rng):
        return [int(rng.choice(2, p=target(prefix)))] if len(prefix) < 1 else [7]

    result = run(step, "step", AuditSettings(gamma=1, vocab_size=2))
    assert result.breach.draft_tokens is None
    texts = replay_breach(step, "step", result.breach)
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
    result = run(Full, "step", AuditSettings(gamma=1, vocab_size=2))
    assert "raised ValueError: full" in result.breach.message
    texts = replay_breach(Full, "step", result.breach)
    assert texts
    assert all(" in the call after the tokens " in text for text in texts)


def test_a_failure_of_a_probe_alone_says_what_failed():
    right = run(token, settings=AuditSettings(gamma=1, vocab_size=2))
    probe = Probe(name="output", outcome="violation", message="did not return")
    failed = replace(
        right,
        verdict="FAIL",
        probes=(probe,),
        findings=(finding("probe", "probe output: did not return"),),
    )
    lines = audit_lines(failed)
    assert lines[lines.index("What failed:") + 1] == "  probe output: did not return"
    other = replace(
        failed, findings=(*failed.findings, finding("contract", "raises: raised ValueError"))
    )
    assert "  probe output: did not return" not in audit_lines(other)


def test_a_right_rule_has_no_breach():
    assert run(token, settings=AuditSettings(gamma=1, vocab_size=2)).breach is None


def test_code_that_cannot_be_followed_is_named_and_sampled():
    def sums(p, q, x, rng):
        # The sum of two uniforms, folded back: a uniform that no path can follow.
        for i, t in enumerate(x):
            u = (rng.random() + rng.random()) % 1.0
            if u >= p[i][t] / q[i][t]:
                r = np.maximum(p[i] - q[i], 0)
                return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
        return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]

    result = run(sums, settings=AuditSettings(gamma=1, vocab_size=3))
    assert result.tier == "sampled"
    assert "test_run.py" in result.not_enumerable
    assert result.verdict in ("PASS", "INCONCLUSIVE")
    assert result.sampled.alpha == 1e-6
    starved = run(sums, settings=AuditSettings(gamma=1, vocab_size=3, max_samples=3_000))
    assert starved.verdict == "INCONCLUSIVE"


def test_strict_probes_fail_on_a_warning():
    def at_zero(p, q, x, rng):
        for i, t in enumerate(x):
            if rng.random() > p[i][t] / q[i][t]:
                r = np.maximum(p[i] - q[i], 0)
                return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
        return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]

    assert run(at_zero).verdict == "PASS"
    strict = run(at_zero, settings=AuditSettings(gamma=2, vocab_size=3, strict_probes=True))
    assert strict.verdict == "FAIL"


def test_the_same_seed_gives_the_same_document():
    first, second = (json.loads(_bytes(run(scaled(1.1)))) for _ in range(2))
    first.pop("meta")
    second.pop("meta")
    assert first == second


def _bytes(document):
    import msgspec

    return msgspec.json.encode(document)


def test_the_contract_of_a_built_in_rule_cannot_be_changed():
    with pytest.raises(UsageError, match="step contract"):
        audit(load_subject("greedy"), "verify")


@pytest.mark.parametrize(
    "changes", [{"gamma": 0}, {"gamma": 5}, {"vocab_size": 1}, {"alpha": 0}, {"seconds": 0}]
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(UsageError, match="expected"):
        AuditSettings(**changes)


def test_counts_of_accepted_tokens_are_the_rules_own():
    result = audit(load_subject("block"))
    tree = {i.name: i.expected_accepted for i in result.instances}
    assert tree["equal, V=2, one row"] == pytest.approx(1.0)
    assert VERIFIERS["block"].rule is load_subject("block").rule
    assert get_model("toy").vocab_size == 2


class Forgetless(GreedyBlock):
    """Greedy block whose reset keeps the debt of the generation before."""

    def reset(self):
        if not hasattr(self, "stack"):
            super().reset()


def test_a_reset_that_forgets_nothing_is_caught():
    assert run(GreedyBlock, "step").verdict == "PASS"
    result = run(Forgetless, "step")
    assert (result.verdict, result.tier) == ("FAIL", "exact")
    failed = [i.name for i in result.instances if i.failed]
    assert failed
    assert all("after a reset" in name for name in failed)
    assert result.counterexample.instance.earlier_calls == 1


def batched(p, q, x, rng):
    return [token(*row, rng) for row in zip(p, q, x, strict=True)]


def padded(p, q, x, rng):
    out = np.full((len(x), x.shape[1] + 1), -1)
    for i, tokens in enumerate(batched(p, q, x, rng)):
        out[i, : len(tokens)] = tokens
    return out


def shared(p, q, x, rng):
    """Every second row draws what the row before it drew."""
    out = []
    for i, row in enumerate(zip(p, q, x, strict=True)):
        if i % 2 == 0:
            seed = int(rng.integers(2**63))
        out.append(token(*row, np.random.default_rng(seed)))
    return out


@pytest.mark.distribution
def test_rows_of_a_batch_must_not_depend_on_each_other():
    settings = AuditSettings(gamma=2, vocab_size=3, batch=8, alpha=ALPHA / 3)
    for rule in (batched, padded):
        result = run(rule, settings=settings)
        assert (result.verdict, result.tier) == ("PASS", "sampled"), result.findings
        assert result.paths > 0
    assert run(shared, settings=settings).verdict == "FAIL"
    assert run(batched, settings=AuditSettings(gamma=2, vocab_size=3)).verdict == "FAIL"


def test_batches_are_for_the_verify_contract():
    with pytest.raises(UsageError, match="verify contract"):
        run(GreedyBlock, "step", AuditSettings(gamma=1, vocab_size=2, batch=4))


def test_a_wrong_signature_is_a_usage_error():
    with pytest.raises(UsageError, match="--contract step"):
        run(lambda prefix, target, draft, gamma, rng: [0])
    with pytest.raises(UsageError, match="cannot be called as verify"):
        run(lambda p, q, x: [0])


def test_code_that_ends_the_process_or_prints_is_contained(capsys):
    import os

    result = run(lambda p, q, x, rng: os._exit(0), settings=AuditSettings(gamma=1, vocab_size=2))
    assert result.verdict == "FAIL"
    assert result.counterexample is None
    run(lambda p, q, x, rng: print("noise") or token(p, q, x, rng), settings=SMALL)
    assert capsys.readouterr().out == ""


def test_an_event_too_rare_to_matter_is_no_fault():
    def guarded(p, q, x, rng):
        n = 0
        while n < len(x) and rng.random() < p[n, x[n]] / (q[n, x[n]] + 1e-10):
            n += 1
        w = np.maximum(p[n] - q[n], 0) if n < len(x) else p[n]
        return [*map(int, x[:n]), int(rng.choice(len(w), p=w / w.sum()))]

    assert run(guarded, settings=AuditSettings(gamma=2, vocab_size=3)).verdict == "PASS"


@pytest.mark.parametrize("floor", [0.02, 0.005])
def test_a_floor_under_q_shows_on_skewed_rows(floor):
    def floored(p, q, x, rng):
        for n, t in enumerate(x):
            if rng.random() * max(q[n, t], floor) >= p[n, t]:
                w = np.maximum(p[n] - q[n], 0)
                w = w if w.sum() > 0 else p[n]
                return [*map(int, x[:n]), int(rng.choice(len(w), p=w / w.sum()))]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    assert run(floored).verdict == "FAIL"


def test_a_constant_seed_is_said_in_words():
    def seeded(p, q, x, rng):
        return token(p, q, x, np.random.default_rng(42))

    result = run(seeded, settings=AuditSettings(gamma=1, vocab_size=2))
    (finding,) = [x.text for x in result.findings if x.text.startswith("constant-seed")]
    assert "a numpy Generator is seeded with the constant 42 inside the call" in finding
    assert "test_run.py:" in finding


def by_rejection(keep):
    """Return the token rule whose residual is drawn by rejection: y ~ p, kept by ``keep``."""

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if not rng.random() < p[i][t] / q[i][t]:
                while True:
                    y = int(rng.choice(len(p[i]), p=p[i]))
                    if rng.random() * p[i][y] < keep(p[i][y], q[i][y]):
                        return [*map(int, x[:i]), y]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify


@pytest.mark.distribution
def test_a_residual_drawn_by_rejection_is_judged_by_sampling():
    settings = AuditSettings(gamma=1, vocab_size=3, alpha=1e-9 / 2, detect=0.1)
    right = run(by_rejection(lambda p, q: max(p - q, 0)), "verify", settings)
    assert (right.verdict, right.tier) == ("PASS", "sampled"), right.findings
    assert "as where a loop draws until it accepts" in right.not_enumerable
    # Few paths are spent on loops: the whole budget would take a minute.
    assert right.paths < 2_000
    wrong = run(by_rejection(min), "verify", settings)
    assert wrong.verdict == "FAIL"
