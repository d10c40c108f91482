"""The failing trial of a sampled run, chosen, and run again alone."""

import numpy as np
import pytest

from simverify.auditing.replay import replay_trial
from simverify.auditing.run import supervised_explain
from simverify.auditing.sampled_runs import default_sampled_instances
from simverify.auditing.sampled_tier import sample_callable
from simverify.auditing.subject import Subject
from simverify.faults import FAULTS
from simverify.verifiers import VERIFIERS

TOKEN = VERIFIERS["token"].rule


def failing(rule, contract="verify", **how):
    run = sample_callable(
        rule, contract, instances=default_sampled_instances(2, 4), seed=5, detect=0.05, **how
    )
    assert (run.verdict == "FAIL") == (run.trial is not None)
    assert run.verdict == "FAIL"
    return run.trial


def told(rule, trial, contract="verify", batch=None):
    return replay_trial(rule, contract, trial, seed=5, batch=batch)


def residual_of_target(p, q, x, rng):
    """Draw from p after a rejection."""
    for i, y in enumerate(x):
        if not rng.random() < p[i][y] / q[i][y]:
            return [*x[:i], int(rng.choice(len(p[i]), p=p[i]))]
    return [*x, int(rng.choice(len(p[-1]), p=p[-1]))]


def leaks(p, q, x, rng):
    """Emit the least likely token now and then, also where its p = 0."""
    if rng.random() < 0.2:
        return [int(x[0]), int(p[1].argmin())]
    return TOKEN(p, q, x, rng)


class Rare:
    """A step rule that returns an id outside the vocabulary once in a thousand calls."""

    def step(self, prefix, target, draft, gamma, rng):
        row = target(prefix)
        if rng.random() < 0.001:
            return [len(row)]
        return [int(rng.choice(len(row), p=row))]


def test_an_output_that_is_too_frequent_is_shown_by_its_first_trial():
    trial = failing(residual_of_target)
    assert not trial.pilot
    assert "most too frequent" in trial.why
    begins = [int(x) for x in trial.why.split("emits ")[1].split(", the")[0].split(", ")]
    assert list(trial.emitted[: len(begins)]) == begins
    text = told(residual_of_target, trial)
    assert f"emits [{', '.join(map(str, trial.emitted))}]" in text
    assert "in the run it emitted" not in text
    assert "draw: random() = 0." in text
    assert "branch: not rng.random() < p[i][y] / q[i][y] is " in text
    assert "test_trial_replay.py:" in text
    assert "p[2] = [" in text


def test_every_trial_is_found_again_by_its_address():
    run = sample_callable(
        residual_of_target, "verify", instances=default_sampled_instances(2, 4), seed=5, detect=0.05
    )
    first = run.trial
    again = told(TOKEN, first)
    # Negative control: another rule on the same draws and draft is told apart.
    wrong = told(lambda p, q, x, rng: [3], first)
    assert again.splitlines()[3:8] == wrong.splitlines()[3:8]
    assert "in the run it emitted" in wrong


def test_a_token_without_mass_comes_first():
    trial = failing(leaks)
    assert "where p = 0" in trial.why
    assert f"emits [{', '.join(map(str, trial.emitted))}]" in told(leaks, trial)


def test_a_broken_contract_ends_the_same_way_again():
    trial = failing(Rare, "step")
    assert trial.emitted is None
    text = told(Rare, trial, "step")
    assert "ends: out-of-range: returned token" in text
    assert "call after []" in text
    assert "p after [" in text


@pytest.mark.parametrize("name", ["ragged-offset", "shared-request-uniforms"])
def test_a_batch_is_run_whole(name):
    rule, batch = FAULTS[name].rule, FAULTS[name].batch
    trial = failing(rule, batch=batch)
    text = told(rule, trial, batch=batch)
    assert f"row {trial.trial % batch} of a batch of {batch}" in text
    assert f"emits [{', '.join(map(str, trial.emitted))}]" in text
    assert "in the run it emitted" not in text


def test_code_that_draws_from_elsewhere_is_said_not_to_repeat():
    def elsewhere(p, q, x, rng):
        own = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002
        return residual_of_target(p, q, x, own)

    text = told(elsewhere, failing(elsewhere))
    assert "the process's own generators" in text


@pytest.mark.thorough
def test_a_counterexample_of_batched_code_is_shown_on_one_block(tmp_path):
    from simverify.auditing.run import audit
    from simverify.auditing.settings import AuditSettings

    def batched(p, q, x, rng):
        return [residual_of_target(*block, rng) for block in zip(p, q, x, strict=True)]

    subject = Subject("mine", batched, None)
    run = audit(subject, None, AuditSettings(gamma=2, vocab=3, batch=4))
    assert (run.verdict, run.tier, run.batch) == ("FAIL", "exact", 4)
    found = supervised_explain(lambda: subject, run)
    assert found.emitted == pytest.approx(run.counterexample.probability_emitted)
