"""End of sequence inside a block: rules with state in a decoding loop, right and wrong ones."""

import itertools

import numpy as np
import pytest
from msgspec.structs import replace

from simverify.auditing.enumeration import decode_generation, eos_absorbing
from simverify.auditing.exact_tier import make_counterexample, run_exact_tier
from simverify.auditing.instances import instances_for
from simverify.auditing.replay import explain_output
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import UsageError
from simverify.verifiers import VERIFIERS
from simverify.verifiers.greedy import GreedyBlock

# What the tests ask of whole audits here is their verdict and their instances.
pytestmark = pytest.mark.usefixtures("unsearched")

EOS = 1
KNOWN = AuditSettings(gamma=2, vocab=2, eos=EOS)


def run(rule, settings, contract="step"):
    return audit(Subject("mine", rule, None), contract, settings)


def failing(rule, eos, contract="step", gamma=2):
    """Return the first instance on which ``rule`` fails, None if there is none."""
    failure = failure_of(rule, eos, contract, gamma)
    return failure.model if failure else None


def failure_of(rule, eos, contract="step", gamma=2):
    models = instances_for(contract, gamma, 2, 0, eos)
    subject = Subject("mine", rule, None)
    if contract == "verify" and eos is not None:
        subject = subject.ended_by(eos)
    tier = run_exact_tier(subject, contract, models, tolerance=1e-9, searching=False)
    assert tier.not_enumerable is None
    assert tier.aborted is None
    return tier.failure


class StopsItself(GreedyBlock):
    """Cuts its own blocks after the end of sequence, as an engine may."""

    def step(self, prefix, target, draft, gamma, rng):
        tokens = list(super().step(prefix, target, draft, gamma, rng))
        return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


class Pads(GreedyBlock):
    """Fills its blocks up with the end of sequence."""

    def step(self, prefix, target, draft, gamma, rng):
        tokens = list(super().step(prefix, target, draft, gamma, rng))
        end = tokens.index(EOS) if EOS in tokens else len(tokens)
        return tokens[:end] + [EOS] * (len(tokens) - end)


class KeepsState(GreedyBlock):
    """Resets where the generation before was cut short, not where it came to its end."""

    def reset(self):
        if not getattr(self, "ended", False):
            super().reset()
        self.ended = False

    def step(self, prefix, target, draft, gamma, rng):
        tokens = super().step(prefix, target, draft, gamma, rng)
        self.ended = EOS in list(tokens)
        return tokens


class HonoursBonusOnly(KeepsState):
    """Sees an end of sequence only as the last token of a block: inside one it keeps state."""

    def step(self, prefix, target, draft, gamma, rng):
        tokens = super().step(prefix, target, draft, gamma, rng)
        self.ended = EOS in list(tokens)[:-1]
        return tokens


class Loses(GreedyBlock):
    """Drops an end of sequence that is not the last token of a block."""

    def step(self, prefix, target, draft, gamma, rng):
        tokens = list(super().step(prefix, target, draft, gamma, rng))
        return [x for x in tokens[:-1] if x != EOS] + tokens[-1:]


class KeepsTokens(GreedyBlock):
    """Hands the tokens that came after an end of sequence to the next generation."""

    def __init__(self):
        super().__init__()
        self.left = []

    def step(self, prefix, target, draft, gamma, rng):
        if self.left and not prefix:
            tokens, self.left = self.left, []
            return tokens
        tokens = list(super().step(prefix, target, draft, gamma, rng))
        if EOS in tokens[:-1]:
            self.left = tokens[tokens.index(EOS) + 1 :]
        return tokens


class RepeatsTheEnd(GreedyBlock):
    """Ends a generation at once if the one before ended at once: not where a length ended it."""

    ended = False

    def step(self, prefix, target, draft, gamma, rng):
        again = self.ended and not prefix
        tokens = [EOS] if again else list(super().step(prefix, target, draft, gamma, rng))
        self.ended = not again and not prefix and tokens == [EOS]
        return tokens


@pytest.mark.thorough
def test_a_rule_with_state_passes_wherever_the_sequence_ends():
    for eos in (None, 0, 1):
        assert failing(GreedyBlock, eos) is None


@pytest.mark.parametrize("rule", [StopsItself, Pads])
def test_rules_that_know_the_end_pass_where_the_audit_knows_it_too(rule):
    assert failing(rule, EOS) is None
    # Told of another end, the audit takes what follows token 1 for output.
    assert failing(rule, 0) is not None


@pytest.mark.parametrize("rule", [KeepsState, HonoursBonusOnly, Loses, KeepsTokens])
@pytest.mark.thorough
def test_faults_at_the_end_of_sequence_are_caught(rule):
    # The last of them shows in a call that is cut between two tokens: a third draft is due.
    assert failing(rule, EOS, gamma=3 if rule is HonoursBonusOnly else 2).eos == EOS


@pytest.mark.parametrize("rule", [KeepsState, HonoursBonusOnly, KeepsTokens])
@pytest.mark.thorough
def test_state_kept_over_the_end_shows_without_the_option_too(rule):
    gamma = 3 if rule is HonoursBonusOnly else 2
    assert failing(rule, None, gamma=gamma).earlier_calls > 0


def test_a_replay_decodes_as_the_audit_did():
    found = make_counterexample(failure_of(KeepsTokens, None), "step")
    told = explain_output(KeepsTokens, "step", found.instance, found.sequence)
    assert told.emitted == pytest.approx(found.probability_emitted, abs=1e-12)
    assert told.due == pytest.approx(found.probability_expected, abs=1e-12)
    # One earlier call: two that nothing ends early have a hundred thousand paths.
    plain = replace(found.instance, eos=None, earlier_calls=1)
    other = explain_output(KeepsTokens, "step", plain, found.sequence)
    assert other.emitted != pytest.approx(found.probability_emitted, abs=1e-6)


def padding(p, q, x, rng):
    tokens = list(VERIFIERS["token"].rule(p, q, x, rng))
    end = tokens.index(EOS) if EOS in tokens else len(tokens)
    return tokens[:end] + [EOS] * (len(tokens) - end)


def test_a_verify_rule_may_pad_after_the_end_only_where_it_is_known():
    assert failing(padding, EOS, "verify") is None
    assert failing(padding, None, "verify") is not None
    assert run(padding, KNOWN, "verify").verdict == "PASS"  # its probes know the end too


@pytest.mark.distribution
@pytest.mark.thorough
def test_the_sampled_tier_judges_generations_too(unprobed):
    def hidden(rule):
        class Hidden(rule):
            """Draws its seed from bytes, which cannot be followed."""

            def step(self, prefix, target, draft, gamma, rng):
                inner = np.random.default_rng(int.from_bytes(rng.bytes(8), "little"))
                return super().step(prefix, target, draft, gamma, inner)

        return Hidden

    # At 0.05 the wrong one has p = 1e-19 after 5,000 tokens.
    settings = replace_settings(alpha=1e-9 / 2, detect=0.05)
    right = run(hidden(GreedyBlock), settings)
    assert (right.verdict, right.tier) == ("PASS", "sampled"), right.findings
    wrong = run(hidden(RepeatsTheEnd), settings)
    assert (wrong.verdict, wrong.tier) == ("FAIL", "sampled")
    assert all("after end of sequence" in finding.text for finding in wrong.findings)


def replace_settings(**changes):
    return AuditSettings(**{"gamma": 2, "vocab": 2, **changes})


def test_an_id_outside_every_vocabulary_is_refused():
    with pytest.raises(UsageError, match="eos is 5: expected an id below"):
        AuditSettings(vocab=2, eos=5)
    assert "--eos 1" in KNOWN.command("mine", "step")


def test_a_generation_is_decoded_call_by_call():
    blocks = iter([(0, 1), (2, 2), (0, 0), (2, 1, 0), (0,)])
    log = []

    def more(prefix):
        log.append(prefix)
        return next(blocks)

    out = decode_generation(more, lambda: log.append("reset"), length=4, eos=1, earlier_calls=3)
    assert out == (2, 2, 0, 0)
    # The earlier generation ended in its first call.
    assert log == ["reset", (), "reset", (), (2, 2)]
    assert decode_generation(more, None, length=9, prefix=(7,), eos=1) == (2, 1)
    assert log[-1] == (7,)


def test_filled_up_generations_have_a_law():
    row = eos_absorbing(lambda prefix: np.array([0.25, 0.75]), EOS)
    mass = {}
    for sequence in itertools.product(range(2), repeat=3):
        mass[sequence] = np.prod([row(sequence[:i])[x] for i, x in enumerate(sequence)])
    assert mass[1, 1, 1] == 0.75
    assert mass[0, 1, 1] == 0.1875
    assert mass[1, 0, 0] == 0
    assert sum(mass.values()) == pytest.approx(1)
