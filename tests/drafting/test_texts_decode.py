"""Drafters from texts in the decoding loop: their drafts, and that output stays lossless."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.false_alarms import ALPHA  # noqa: E402
from support.levels import at_night  # noqa: E402
from support.oracles.from_texts import NaiveLane  # noqa: E402
from support.real_models import (  # noqa: E402
    Words,
    little_pair,
)

from simverify.comparing.real import compare_pair  # noqa: E402
from simverify.drafting.method import DraftMethod  # noqa: E402
from simverify.drafting.texts import TextDrafter  # noqa: E402
from simverify.models.transformer import Sampling  # noqa: E402
from simverify.simulators.decoding.loop import (  # noqa: E402
    Job,
    decode,
    verifier_factory,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

PROMPTS = ["1 2 3 1 2", "3", "4 4"]
METHODS = [DraftMethod("prompt-lookup"), DraftMethod("ngram")]
TRUNCATED = Sampling(0.7, 6, 0.9)
by_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def texts_pair(sampling=None, eos=()):
    """The little pair without a draft: there is none to be asked."""
    pair = replace(little_pair(sampling=sampling, eos=eos), tokenizer=Words())
    return replace(pair, draft_model=None)


@by_method
def test_every_block_is_drafted_from_its_lanes_texts(method):
    """Requests end by their length and by a token, lanes at different calls."""
    job = Job(((1, 2, 3, 1, 2), (3,), (4, 4)), gamma=3, lanes=4, lane_tokens=60, request_tokens=17,
              seed=2)  # fmt: skip
    lanes, begun = [NaiveLane() for _ in range(4)], list(range(4))
    blocks = []

    def observe(block):
        naive = lanes[block.lane]
        if block.first:
            if naive.text:
                naive.end()
            naive.begin(list(job.prompts[begun[block.lane] % 3]))
            begun[block.lane] += 4
        naive.known = len(naive.text)
        found = [naive.proposed(method.name, list(block.drafts[:i])) for i in range(4)]
        np.testing.assert_array_equal(block.q, np.eye(12)[found])
        assert block.drafts == tuple(found[:3])
        naive.text += block.emitted
        blocks.append(block)

    decode(texts_pair(eos=(11,)), job, verifier_factory(VERIFIERS["token"]), observe, method=method)
    assert sum(block.first for block in blocks) > 16
    assert sum(block.tau for block in blocks) > 10


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("method", "sampling"),
    at_night(
        [(method, sampling) for method in METHODS for sampling in (None, TRUNCATED)],
        # Rows are truncated by one function, whoever drafts.
        but=[(METHODS[0], None), (METHODS[1], TRUNCATED)],
    ),
    ids=lambda value: getattr(value, "name", "truncated" if value else "whole"),
)
@pytest.mark.thorough
def test_token_and_block_stay_lossless(method, sampling):
    run = compare_pair(
        texts_pair(sampling), PROMPTS, ("token", "block"), gamma=3, methods=[method], tokens=1600,
        lanes=16, detect=0.25, alpha=ALPHA,
    )  # fmt: skip
    assert [row.lossless.verdict for row in run.results] == ["PASS", "PASS"]
    assert [row.acceptance.verdict for row in run.results] == ["PASS", "PASS"]
    for row in run.results:
        assert row.model == f"t {method.name}"
        assert row.expected_accepted.upper > 0.0
        assert row.measured.ci_low < row.expected_accepted.upper
        assert row.measured.ci_high > row.expected_accepted.lower


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("method", "verifier"),
    at_night(
        [(method, verifier) for method in METHODS for verifier in ("token", "block")],
        # What is reported is the drafter's, whoever verifies.
        but=[(METHODS[0], "token"), (METHODS[1], "block")],
    ),
    ids=lambda value: getattr(value, "name", value),
)
def test_a_soft_law_reported_for_one_token_fails(method, verifier, monkeypatch):
    """The likeliest token is always proposed, and the law says that others may be."""

    def soft(self):
        found = np.full((len(self._texts), self._vocab_size), -1.0, np.float32)
        for request, row in enumerate(found):
            row[self.proposed(request)] = 0.0
        return found

    def argmax(rows, uniforms):
        return rows.argmax(axis=1)

    monkeypatch.setattr(TextDrafter, "_logits", soft)
    monkeypatch.setattr("simverify.simulators.decoding.loop._sample_rows", argmax)
    run = compare_pair(
        texts_pair(), PROMPTS, (verifier,), gamma=3, methods=[method], tokens=1600, lanes=16,
        detect=0.25, alpha=ALPHA,
    )  # fmt: skip
    assert run.results[0].lossless.verdict == "FAIL"
    assert any(test.rejected for test in run.results[0].lossless.tests)
