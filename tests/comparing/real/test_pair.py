"""Comparison of verifiers on real models: verdicts, intervals, the document."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import (  # noqa: E402
    CONTEXT,
    Words,
    little_pair,
)

from simverify.battery.battery import judge_output  # noqa: E402
from simverify.comparing.real import (  # noqa: E402
    RowSettings,
    compare_pair,
    decoded_row,
)
from simverify.errors import UsageError  # noqa: E402
from simverify.faults import FAULTS  # noqa: E402
from simverify.faults.calls import lenient  # noqa: E402
from simverify.models.transformer import (  # noqa: E402
    BUNDLED,
    Sampling,
    load_pair,
    read_prompts,
)
from simverify.reports.formats import html_report  # noqa: E402
from simverify.results.reading import read_document  # noqa: E402
from simverify.simulators.decoding import loop  # noqa: E402
from simverify.simulators.decoding.job import EmissionObserver  # noqa: E402
from simverify.simulators.decoding.loop import (  # noqa: E402
    Job,
    verifier_factory,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.thorough

JOB = Job(((1, 2), (3,)), gamma=3, lanes=8, lane_tokens=50, request_tokens=20, seed=1)
PROMPTS = read_prompts(BUNDLED / "prompts.jsonl")


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def run(pair):
    rules = ("token", "block", "greedy")
    return compare_pair(pair, PROMPTS, rules, gamma=4, tokens=2000, lanes=40, detect=0.2)


@pytest.mark.slow
def test_as_many_calls_are_judged_whatever_was_accepted(run):
    """50 tokens a lane, at most 5 a call: the first 10 calls of 40 lanes are sure to be there."""
    assert {row.acceptance.tests[0].n for row in run.results} == {400}
    assert len({row.measured.blocks for row in run.results}) == 3


@pytest.mark.distribution
def test_lossless_rules_pass(run):
    assert [row.lossless.verdict for row in run.results] == ["PASS"] * 3
    assert [row.acceptance.verdict for row in run.results] == ["PASS"] * 3
    assert {row.lossless.tier for row in run.results} == {"output"}
    # Too few tokens for the deviation that a run promises by default.
    assert all(0.04 < row.lossless.detectable < 0.2 for row in run.results)


def test_block_beats_token_on_the_same_drafts(run):
    token, block, greedy = run.results
    assert token.paired is None
    assert block.paired.baseline == "token"
    assert 0.0 < block.paired.ci_low < block.paired.ci_high < greedy.paired.ci_high
    # Paired, the difference is known much better than either side.
    width = block.paired.ci_high - block.paired.ci_low
    assert width < (block.measured.ci_high - block.measured.ci_low) / 2


def test_what_was_measured_is_what_the_rows_let_expect(run):
    for row in run.results[:2]:
        assert row.measured.ci_low < row.expected_accepted.upper
        assert row.measured.ci_high > row.expected_accepted.lower
        assert row.optimality <= 1.0
        assert len(row.acceptance_ccdf.measured) == run.gamma
    assert run.decoding.tokens == 2000
    assert {latency.verifier for latency in run.meta.latencies} == {"token", "block", "greedy"}
    for latency in run.meta.latencies:
        parts = latency.draft + latency.score + latency.verify
        assert parts == pytest.approx(latency.speculative)


def test_the_coupling_bound_is_of_greedys_blocks_which_attain_it(run):
    (model,) = run.models
    assert model.bounds.blocks_of == "greedy"
    assert model.bounds.coupling == run.results[2].expected_accepted
    assert run.results[2].optimality == 1.0


def test_the_document_is_read_again_and_drawn(run, tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(run))
    assert read_document(path) == run
    assert "--target tiny-llama" in html_report(run)


def test_the_same_seed_gives_the_same_document():
    def again(seed):
        pair = little_pair()
        found = compare_pair(
            replace(pair, tokenizer=Words()), ["1 2", "3"], ("token", "greedy"), gamma=3,
            tokens=120, lanes=4, seed=seed,
        )  # fmt: skip
        return msgspec.structs.replace(found, meta=None)

    assert again(1) == again(1)
    assert again(1) != again(2)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"gamma": 0}, "gamma is 0: expected 1 to 64"),
        ({"alpha": 5.0}, "alpha is 5.0: expected 1e-300 or more, below 1"),
        ({"detect": 0.0}, "detect is 0.0: expected 1e-06 or more, below 1"),
        ({"seed": -1}, "seed is -1: expected 0 to"),
        ({"cost_ratio": -1.0}, "cost ratio is -1.0: expected 0 to"),
        ({"verifiers": ("token", "token")}, "'token' is named twice"),
        ({"lanes": 1}, "lanes is 1: expected 2 or more"),
        ({"tokens": 0}, "tokens is 0: expected 1 or more"),
        ({"request_tokens": 0}, "tokens of a request is 0"),
        ({"verifiers": ("temperature-0",)}, "set the temperature"),
        ({"verifiers": ("tokne",)}, "token"),
        ({"prompts": []}, "there is no prompt"),
        ({"prompts": ["1", "1 " * (CONTEXT - 4)]}, f"prompt 2 has {CONTEXT - 4} tokens"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(how, says):
    asked = {"prompts": ["1"], "verifiers": ("token",), "gamma": 4} | how
    with pytest.raises(UsageError, match=says):
        compare_pair(replace(little_pair(), tokenizer=Words()), **asked)


def verdict(pair, rule, tokens, verifier="token"):
    texts = tuple(tuple(pair.encode(text)) for text in PROMPTS)
    job = Job(texts, gamma=8, lanes=50, lane_tokens=tokens // 50, request_tokens=100, seed=1)
    seen = EmissionObserver(job, VERIFIERS[verifier])
    loop.decode(pair, job, verifier_factory(rule), seen)
    return judge_output(seen.features, 1e-9).verdict(1.0)


def argmax(rows, uniforms):
    return rows.argmax(axis=1)


@pytest.mark.distribution
def test_typical_acceptance_fails(pair):
    assert verdict(pair, FAULTS["typical-acceptance"].rule, 2500) == "FAIL"


@pytest.mark.slow
@pytest.mark.distribution
@pytest.mark.parametrize("name", ["token", "block", "greedy"])
def test_twenty_thousand_tokens_pass(pair, name):
    assert verdict(pair, VERIFIERS[name], 20_000, name) == "PASS"


@pytest.mark.slow
@pytest.mark.distribution
@pytest.mark.parametrize(
    ("fault", "tokens"),
    [(FAULTS["typical-acceptance"], 20_000), (lenient(0.7), 20_000), (lenient(0.9), 100_000)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_lossy_modes_fail(pair, fault, tokens):
    assert verdict(pair, fault.rule, tokens) == "FAIL"


@pytest.mark.slow
@pytest.mark.distribution
def test_argmax_drafts_with_a_soft_q_fail(pair, monkeypatch):
    monkeypatch.setattr(loop, "_sample_rows", argmax)
    assert verdict(pair, VERIFIERS["token"], 20_000) == "FAIL"


@pytest.mark.parametrize("sampling", [Sampling(0.8, top_p=0.9), Sampling(0.0)])
def test_rows_with_zeros_are_judged_on_their_support(sampling):
    found = compare_pair(
        replace(little_pair(sampling=sampling), tokenizer=Words()), ["1 2", "3"],
        ("token", "block", "greedy"), gamma=3, tokens=400, lanes=8, detect=0.9,
    )  # fmt: skip
    assert not any(row.lossless.findings for row in found.results)
    assert np.isfinite([row.block_efficiency for row in found.results]).all()


def test_without_a_coin_one_call_decides():
    """At temperature 0 laws are point masses: right rules pass, one that keeps fewer fails."""
    pair = replace(little_pair(sampling=Sampling(0.0)), tokenizer=Words())
    run = compare_pair(
        pair, ["1 2", "3"], ("block", "token"), gamma=3, tokens=400, lanes=8, detect=0.3
    )
    assert [row.verdict for row in run.results] == ["PASS", "PASS"]
    assert [row.acceptance.verdict for row in run.results] == ["PASS", "PASS"]
    assert 0.0 < run.results[0].acceptance.detectable < 0.04
    timid = replace(VERIFIERS["token"], rule=lambda p, q, x, rng: [int(p[0].argmax())])
    seen = EmissionObserver(JOB, timid)
    loop.decode(pair, JOB, verifier_factory(timid), seen)
    row = decoded_row(pair, timid, seen.decoded, RowSettings(1e-6, 0.3, 0.1))
    assert (row.lossless.verdict, row.acceptance.verdict) == ("PASS", "FAIL")
    assert "cannot accept" in row.acceptance.findings[0]


def test_pairs_do_not_depend_on_the_order_of_the_rules():
    pair = replace(little_pair(), tokenizer=Words())
    run = compare_pair(pair, ["1 2", "3"], ("block", "token"), gamma=3, tokens=200, lanes=4)
    assert [row.paired is None for row in run.results] == [False, True]
