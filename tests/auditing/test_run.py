"""Audits from the code to the document: tiers, probes, batches, settings."""

from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace
from support.audit_runs import finding
from support.false_alarms import ALPHA
from support.rules import scaled, token

from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject, load_subject
from simverify.errors import UsageError
from simverify.results import Probe
from simverify.verifiers.greedy import GreedyBlock

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=2, vocab=3)


def run(rule, contract="verify", settings=SMALL):
    return audit(Subject("mine", rule, None), contract, settings)


def test_a_correct_rule_passes_exactly():
    result = run(token)
    assert (result.verdict, result.tier) == ("PASS", "exact")
    assert not result.findings
    assert max(i.max_abs_deviation for i in result.instances) < 1e-12
    assert "reused-uniform" in result.refuted


@pytest.mark.usefixtures("unprobed")
def test_an_inflation_of_one_in_ten_thousand_is_caught_exactly():
    result = run(scaled(1.0001))
    assert (result.verdict, result.tier) == ("FAIL", "exact")
    assert 0 < result.counterexample.tv < 1e-3


def test_a_failure_of_a_probe_alone_says_what_failed():
    right = run(token, settings=AuditSettings(gamma=1, vocab=2))
    probe = Probe(name="output", outcome="violation", message="did not return")
    failed = replace(
        right,
        verdict="FAIL",
        probes=(probe,),
        findings=(finding("probe", "probe output: did not return"),),
    )
    lines = str(failed).splitlines()
    assert lines[lines.index("What failed:") + 1] == "  probe output: did not return"
    other = replace(
        failed, findings=(*failed.findings, finding("contract", "raises: raised ValueError"))
    )
    assert "  probe output: did not return" not in str(other).splitlines()


def test_code_that_cannot_be_followed_is_named_and_sampled():
    def sums(p, q, x, rng):
        # The sum of two uniforms, folded back: a uniform that no path can follow.
        for i, t in enumerate(x):
            u = (rng.random() + rng.random()) % 1.0
            if u >= p[i][t] / q[i][t]:
                r = np.maximum(p[i] - q[i], 0)
                return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
        return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]

    result = run(sums, settings=AuditSettings(gamma=1, vocab=3, detect=0.1))
    assert result.tier == "sampled"
    assert "test_run.py" in result.not_enumerable
    assert result.verdict in ("PASS", "INCONCLUSIVE")
    assert result.sampled.alpha == 1e-6
    starved = run(sums, settings=AuditSettings(gamma=1, vocab=3, max_samples=3_000))
    assert starved.verdict == "INCONCLUSIVE"


def test_strict_probes_fail_on_a_warning():
    def at_zero(p, q, x, rng):
        for i, t in enumerate(x):
            if rng.random() > p[i][t] / q[i][t]:
                r = np.maximum(p[i] - q[i], 0)
                return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
        return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]

    assert run(at_zero, settings=AuditSettings(gamma=1, vocab=3)).verdict == "PASS"
    strict = run(at_zero, settings=AuditSettings(gamma=1, vocab=3, strict_probes=True))
    assert strict.verdict == "FAIL"


def test_the_contract_of_a_built_in_rule_cannot_be_changed():
    with pytest.raises(UsageError, match="step contract"):
        audit(load_subject("greedy"), "verify")


@pytest.mark.parametrize(
    "changes", [{"gamma": 0}, {"gamma": 5}, {"vocab": 1}, {"alpha": 0}, {"seconds": 0}]
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(UsageError, match="expected"):
        AuditSettings(**changes)


class Forgetless(GreedyBlock):
    """Greedy block whose reset keeps the debt of the generation before."""

    def reset(self):
        if not hasattr(self, "stack"):
            super().reset()


@pytest.mark.usefixtures("unprobed")
@pytest.mark.thorough
def test_a_reset_that_forgets_nothing_is_caught():
    """The right one passes in tests/auditing/test_whole_runs.py."""
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
@pytest.mark.thorough
def test_rows_of_a_batch_must_not_depend_on_each_other():
    # Every second row is its neighbour's again: no small deviation has to be found.
    settings = AuditSettings(gamma=2, vocab=3, batch=8, alpha=ALPHA / 3, detect=0.1)
    for rule in (batched, padded):
        result = run(rule, settings=settings)
        assert (result.verdict, result.tier) == ("PASS", "sampled"), result.findings
        assert result.paths > 0
    assert run(shared, settings=settings).verdict == "FAIL"
    assert run(batched, settings=AuditSettings(gamma=2, vocab=3)).verdict == "FAIL"


def test_batches_are_for_the_verify_contract():
    with pytest.raises(UsageError, match="verify contract"):
        run(GreedyBlock, "step", AuditSettings(gamma=1, vocab=2, batch=4))


def test_a_wrong_signature_is_a_usage_error():
    with pytest.raises(UsageError, match="--contract step"):
        run(lambda prefix, target, draft, gamma, rng: [0])
    with pytest.raises(UsageError, match="cannot be called as verify"):
        run(lambda p, q, x: [0])


def test_code_that_ends_the_process_or_prints_is_contained(capsys):
    import os

    result = run(lambda p, q, x, rng: os._exit(0), settings=AuditSettings(gamma=1, vocab=2))
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

    assert run(guarded, settings=AuditSettings(gamma=2, vocab=3)).verdict == "PASS"


@pytest.mark.usefixtures("unprobed")
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

    result = run(seeded, settings=AuditSettings(gamma=1, vocab=2))
    (finding,) = [x.text for x in result.findings if x.text.startswith("constant-seed")]
    assert "a numpy Generator is seeded with the constant 42 inside the call" in finding
    assert "test_run.py:" in finding  # where it is seeded, not where it is drawn from


def by_rejection(lenience):
    """Return the token rule whose residual is drawn by rejection: y ~ p, kept as p - q is to p.

    ``lenience``: how many times too often a draft is kept.
    """

    def verify(p, q, x, rng):
        for i, t in enumerate(x):
            if not rng.random() < lenience * p[i][t] / q[i][t]:
                while True:
                    y = int(rng.choice(len(p[i]), p=p[i]))
                    if rng.random() * p[i][y] < max(p[i][y] - q[i][y], 0):
                        return [*map(int, x[:i]), y]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    return verify


@pytest.mark.usefixtures("unprobed")
@pytest.mark.distribution
@pytest.mark.thorough
def test_a_residual_drawn_by_rejection_is_judged_by_sampling(monkeypatch):
    # One instance whose paths have no end says as much as three.
    monkeypatch.setattr("simverify.auditing.exact_tier._MAX_ENDLESS", 1)
    settings = AuditSettings(gamma=1, vocab=3, alpha=1e-9 / 2, detect=0.2)
    right = run(by_rejection(1), "verify", settings)
    assert (right.verdict, right.tier) == ("PASS", "sampled"), right.findings
    assert "as where a loop draws until it accepts" in right.not_enumerable
    # Few paths are spent on loops: the whole budget would take a minute.
    assert right.paths < 2_000
    # Of its paths the heaviest show this one; where they cannot be followed, samples do.
    lenient = by_rejection(3)
    unseen = lambda p, q, x, rng: lenient(p, q, x, np.random.default_rng([*rng.bytes(8)]))  # noqa: E731
    wrong = run(unseen, "verify", settings)
    assert (wrong.verdict, wrong.tier) == ("FAIL", "sampled")


def constant(length, target_probs, draft_probs, draft_tokens, rng):
    return [0] * length


def test_where_a_failure_names_no_line_it_shows_the_first_of_what_a_partial_object_calls():
    settings = AuditSettings(gamma=1, vocab=2)
    run = audit(Subject("constant.py:verify", partial(constant, 1), "verify"), "verify", settings)
    assert run.verdict == "FAIL"
    assert [text for _, text in run.code] == [
        "def constant(length, target_probs, draft_probs, draft_tokens, rng):"
    ]
