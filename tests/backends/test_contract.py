"""The rules on tensors before the project's own audit, and faults of their kind that it sees."""

import numpy as np
import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")

from support.whole_laws import compare_verify  # noqa: E402

from simverify.auditing.run import audit  # noqa: E402
from simverify.auditing.sampled_runs import default_sampled_instances  # noqa: E402
from simverify.auditing.sampled_tier import sample_callable  # noqa: E402
from simverify.auditing.settings import AuditSettings  # noqa: E402
from simverify.auditing.subject import load_subject  # noqa: E402
from simverify.backends import rules  # noqa: E402  # noqa: E402
from simverify.models.base import compact  # noqa: E402

pytestmark = pytest.mark.usefixtures("unsearched")


def one_coin(target_probs, draft_probs, draft_tokens, rng):
    """Block verification in torch that draws the last token by the last draft token's coin."""
    shape = np.shape(draft_tokens)
    coins = torch.as_tensor(rng.random((*shape[:-1], shape[-1] + 1)))
    given = [torch.tensor(x) for x in (target_probs, draft_probs, draft_tokens)]
    given.append(torch.cat([coins[..., :-1], coins[..., -2:-1]], dim=-1))
    if len(shape) == 1:
        given = [x[None] for x in given]
    result = rules.torch_verify("block", *given, check=False)
    return result.tokens if len(shape) == 2 else result.tokens[0, : result.tau[0] + 1]


@pytest.mark.thorough
def test_an_audit_by_name_is_exact():
    run = audit(load_subject("torch-block"), settings=AuditSettings(gamma=2, vocab=3))
    assert (run.verdict, run.tier, run.not_enumerable) == ("PASS", "exact", None)
    assert run.paths > 500
    assert [p.name for p in run.probes if p.outcome in ("violation", "warning")] == []


@pytest.mark.parametrize("name", ["torch-token", "torch-match"])
def test_the_other_rules_have_their_names(name):
    verify = load_subject(name).rule
    result = compare_verify(verify, compact(), 2)
    assert (result.max_abs_deviation < 1e-15, result.findings) == (True, ())
    due = {"torch-token": 101 / 72, "torch-match": None}[name]
    assert due is None or result.expected_accepted == pytest.approx(due, abs=1e-13)


def test_an_audit_catches_a_coin_used_twice():
    result = compare_verify(one_coin, compact(), 2)
    assert result.max_abs_deviation > 0.01
    assert compare_verify(rules.block, compact(), 2).max_abs_deviation < 1e-15


def test_float32_costs_float32():
    deviation = compare_verify(rules.torch_rule("block", dtype="float32"), compact(), 2)
    assert 1e-12 < deviation.max_abs_deviation < 1e-6


@pytest.mark.distribution
@pytest.mark.parametrize(("rule", "verdict"), [(rules.block, "PASS"), (one_coin, "FAIL")])
def test_whole_batches_pass_the_sampled_battery(rule, verdict):
    found = sample_callable(
        rule, "verify", instances=default_sampled_instances(2, 3), seed=5, alpha=ALPHA, detect=0.02,
        batch=256,
    )  # fmt: skip
    assert found.verdict == verdict
