"""The lines of a sampled fault: those that run in its part of a call, and in no other."""

import importlib
import linecache
import struct
import zipfile

import numpy as np
import pytest

from simverify.auditing.part_lines import lines_of_part
from simverify.auditing.run import audit
from simverify.auditing.sampled_runs import default_sampled_instances
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.symbolic.provenance import source_line

(INSTANCE, *_) = default_sampled_instances()


def opaque(rng):
    return struct.unpack("d", struct.pack("d", rng.random()))[0]


def pick(row, rng):
    return int(min((np.cumsum(row) <= opaque(rng) * row.sum()).sum(), len(row) - 1))


def accepts(p, q, rng):
    bound = p / q
    return opaque(rng) < bound


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not accepts(p[x], q[x], rng):
            row = np.maximum(p - q, 0)
            return [*draft_tokens[:i], pick(row, rng)]
    bonus = target_probs[-1]
    return [*draft_tokens, pick(bonus, rng)]


def lenient(target_probs, draft_probs, draft_tokens, rng):
    return verify(2 * np.asarray(target_probs), draft_probs, draft_tokens, rng)


def vectorised(target_probs, draft_probs, draft_tokens, rng):
    rows = np.arange(len(draft_tokens))
    ratios = target_probs[rows, draft_tokens] / draft_probs[rows, draft_tokens]
    tau = int((np.cumprod([opaque(rng) < x for x in ratios])).sum())
    padded = np.concatenate([draft_probs, np.zeros((1, draft_probs.shape[1]))])
    return [*draft_tokens[:tau], pick(np.maximum(target_probs[tau] - padded[tau], 0), rng)]


def step(prefix, target, draft, gamma, rng):
    tokens = []
    for _ in range(gamma):
        tokens.append(pick(draft((*prefix, *tokens)), rng))
    ends = [(*prefix, *tokens[:i]) for i in range(gamma + 1)]
    rows = [np.array([row(end) for end in ends]) for row in (target, draft)]
    return verify(*rows, np.array(tokens), rng)


class Stepper:
    def reset(self):
        self.calls = 0

    def step(self, *arguments):
        self.calls += 1
        return step(*arguments)


EXPECTED = {
    "accept": ["if not accepts(p[x], q[x], rng):"],
    "residual": ["row = np.maximum(p - q, 0)", "return [*draft_tokens[:i], pick(row, rng)]"],
    "bonus": ["bonus = target_probs[-1]", "return [*draft_tokens, pick(bonus, rng)]"],
}


@pytest.mark.parametrize("part", EXPECTED)
@pytest.mark.parametrize(
    ("rule", "contract"), [(verify, "verify"), (step, "step"), (Stepper, "step")]
)
def test_the_lines_of_a_part_run_in_that_part_alone(rule, contract, part):
    places = lines_of_part(part, rule, contract, INSTANCE, seed=0)
    assert [source_line(place) for place in places] == EXPECTED[part]


@pytest.mark.parametrize("part", EXPECTED)
def test_code_that_always_runs_the_same_lines_names_none(part):
    assert lines_of_part(part, vectorised, "verify", INSTANCE, seed=0) == ()


def test_code_that_raises_has_no_lines_of_a_part():
    def raises(*_):
        raise ValueError

    assert lines_of_part("residual", raises, "verify", INSTANCE, seed=0) == ()


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_sampled_fail_shows_the_line_and_a_right_rule_none():
    settings = AuditSettings(gamma=2, vocab=3)
    wrong, right = (
        audit(Subject(rule.__name__, rule, "verify"), "verify", settings)
        for rule in (lenient, verify)
    )
    assert (wrong.verdict, right.verdict) == ("FAIL", "PASS")
    assert wrong.sampled.localisation.part == "accept"
    ((place, text),) = wrong.code
    assert text == EXPECTED["accept"][0]
    assert linecache.getline(__file__, int(place.rpartition(":")[2])).strip() == text
    assert (right.sampled.localisation, right.code) == (None, ())


def test_a_line_of_a_module_in_an_archive_has_its_text(tmp_path, monkeypatch):
    archive = tmp_path / "rules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_rule.py", "def verify():\n    return 3\n")
    monkeypatch.syspath_prepend(archive)
    verify = importlib.import_module("zipped_rule").verify
    place = f"{verify.__code__.co_filename}:2"
    assert source_line(place) == "return 3"
    assert source_line(f"{tmp_path / 'other.zip' / 'zipped_rule.py'}:2") == ""
