"""Tokens that another engine emitted: verdicts of lossless and lossy ones, text, documents."""

import dataclasses

import msgspec
import numpy as np
import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    ArgmaxDraft,
    emitted,
)
from support.judged_tokens import (  # noqa: E402
    HERE,
    N,
    judged,
)

from simverify.errors import UsageError  # noqa: E402
from simverify.faults import FAULTS  # noqa: E402
from simverify.faults.calls import lenient  # noqa: E402
from simverify.models.transformer import (  # noqa: E402
    Sampling,
    load_pair,
)
from simverify.reports.formats import (  # noqa: E402
    html_report,
    junit_report,
    markdown_report,
)
from simverify.results.reading import read_document  # noqa: E402
from simverify.served import (  # noqa: E402
    OutputSettings,
    Request,
    audit_outputs,
    check_request,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("logits_once", "shallow_target")


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def lossless(pair):
    return emitted(pair, VERIFIERS["token"], N)


def rejected(run):
    return {test.name for test in run.tests if test.rejected}


@pytest.mark.distribution
@pytest.mark.parametrize("proxy", [False, True])
@pytest.mark.thorough
def test_a_lossless_engine_passes(pair, lossless, proxy):
    run = judged(pair, lossless, proxy=proxy)
    assert (run.verdict, run.findings, run.inconclusive) == ("PASS", (), None)
    assert (run.tokens, run.planned) == (N, N)
    assert 0.05 < run.detectable < 0.2
    assert "it takes the engine to round alike" in run.certificate.assumption
    assert 0.0 < run.rescoring.mean <= run.ball < 1e-5
    assert len([test for test in run.tests if test.name.startswith("PIT")]) == 2 + proxy


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("rule", "gamma"),
    [
        (FAULTS["typical-acceptance"].rule, 4),
        pytest.param(ArgmaxDraft, 1, marks=pytest.mark.slow),
    ],
    ids=["typical-acceptance", "argmax-draft-soft-q"],
)
@pytest.mark.thorough
def test_a_lossy_engine_fails(pair, rule, gamma):
    run = judged(pair, emitted(pair, rule, N, gamma=gamma))
    assert run.verdict == "FAIL"
    assert {"PIT in descending P order", "score -log p"} <= rejected(run)
    assert run.certificate is None
    assert "share their random numbers" not in str(run)
    assert not any("bfloat16" in note for note in run.notes)  # rounding explains none of it


@pytest.mark.slow
@pytest.mark.distribution
@pytest.mark.parametrize(("bound", "tokens"), [(None, 20_000), (0.7, 20_000), (0.9, 100_000)])
def test_lenience_fails_and_what_is_lossless_does_not(pair, bound, tokens):
    rule = VERIFIERS["token"] if bound is None else lenient(bound).rule
    run = judged(pair, emitted(pair, rule, tokens), tokens, proxy=True, detect=0.04)
    assert run.verdict == ("PASS" if bound is None else "FAIL")


@pytest.mark.distribution
@pytest.mark.thorough
def test_the_law_that_was_asked_for_is_the_law_that_is_judged(pair, lossless):
    cut = dataclasses.replace(pair, sampling=Sampling(top_k=20))
    run = judged(cut, lossless)
    assert run.verdict == "FAIL"  # an engine that ignores top-k
    assert run.unsupported > 20
    assert "support" in run.findings[0]
    assert judged(cut, emitted(cut, VERIFIERS["token"], N)).verdict == "PASS"


def test_a_tie_at_the_edge_of_the_support_is_no_violation(pair):
    greedy = dataclasses.replace(pair, sampling=Sampling(temperature=0.0))
    prompt = pair.encode("def f(")
    row = np.log(pair.target(prompt))
    second, last = np.argsort(-row)[[1, -1]].tolist()
    near = check_request({"prompt": prompt, "tokens": [second]}, "", greedy)
    far = check_request({"prompt": prompt, "tokens": [last]}, "", greedy)
    with pytest.MonkeyPatch.context() as patch:
        margin = (row.max() - row[second]) * (1 + 1e-9)
        patch.setattr("simverify.served.evidence.LOGIT_MARGIN", margin)
        settings = OutputSettings(tokens=1, ball=0.5, alpha=ALPHA)
        tied, wrong = (audit_outputs([r], greedy, HERE, settings) for r in (near, far))
    assert (tied.near, tied.unsupported, tied.verdict) == (1, 0, "INCONCLUSIVE")
    assert (wrong.near, wrong.unsupported, wrong.verdict) == (0, 1, "FAIL")


@pytest.mark.distribution
@pytest.mark.thorough
def test_requests_that_share_a_stream_fail_by_their_pairs_alone(pair):
    """Two of every two requests draw with the same uniforms, each from its own law."""
    twins = shared_stream(pair, requests=72, length=64)
    run = judged(pair, twins, 72 * 64)
    assert run.verdict == "FAIL"
    assert rejected(run)
    assert all(name.startswith("pairs") for name in rejected(run))
    assert judged(pair, shared_stream(pair, 72, 64, shared=1), 72 * 64).verdict == "PASS"


@pytest.mark.distribution
@pytest.mark.thorough
def test_one_seed_for_all_requests_is_found_in_a_few_hundred_tokens(pair):
    run = judged(pair, shared_stream(pair, 12, 32, shared=12), 12 * 32)
    assert run.verdict == "FAIL"
    assert "pairs, repeated stream neighbouring requests, token order" in rejected(run)
    lines = shared_stream(pair, 12, 32, shared=12)
    with_copy = judged(pair, [*lines, lines[0]], 13 * 32)
    for own, copies in ((run, 0), (with_copy, 1)):
        shown = " ".join(str(own).split())
        assert own.copies == copies
        assert ("1 of 13 answers is a copy of another" in shown) == bool(copies)
        # Tokens of requests that depend on each other say nothing of the target.
        assert "share their random numbers: one seed for all requests?" in shown
        assert "consistent with" not in shown
    fresh = judged(pair, shared_stream(pair, 12, 32, shared=1), 12 * 32, detect=0.5)
    assert fresh.verdict == "PASS"
    (note,) = [note for note in fresh.notes if note.startswith("not run: ")]
    assert "correlation (neighbouring requests): 352 pairs, it takes 4,000" in note
    assert "repeated stream" not in note


def shared_stream(pair, requests, length, *, shared=2):
    """Requests of which so many, one after the other, draw with the same uniforms."""
    from support.emitted_tokens import PROMPTS

    ids = [pair.encode(PROMPTS[i % len(PROMPTS)]) for i in range(requests)]
    rng = np.random.default_rng(5)
    model, feed, drawn = pair.cached(pair.target_model, requests), ids, []
    for _ in range(length):
        rows = pair.sampling.rows(np.stack([own[-1] for own in model.feed(feed)]))
        u = rng.random(requests)
        u = np.repeat(u[::shared], shared)
        tokens = (np.cumsum(rows, axis=1) <= u[:, None]).sum(axis=1)
        drawn.append(tokens)
        feed = tokens[:, None].tolist()
    return [
        {"prompt": prompt, "tokens": own, "finish_reason": "length", "ignore_eos": True}
        for prompt, own in zip(ids, np.stack(drawn, axis=1).tolist(), strict=True)
    ]


@pytest.mark.distribution
def test_copies_of_a_request_fail(pair, lossless):
    copied = [value for value in lossless[:20] for _ in range(2)]
    assert "pairs, copies of the request before" in rejected(judged(pair, copied, 1000))


@pytest.mark.distribution
@pytest.mark.thorough
def test_an_end_that_nobody_drew_fails_with_a_word_on_it(pair, lossless):
    cut = [value | {"tokens": value["tokens"][:9], "finish_reason": "stop"} for value in lossless]
    run = judged(pair, cut, 300)
    assert run.verdict == "FAIL"
    assert any("put back by finish_reason stop" in note for note in run.notes)
    told = judged(pair, [value | {"stop_reason": "\n"} for value in cut], 300)
    assert told.verdict != "FAIL"
    assert not any("put back" in note for note in told.notes)


def test_n_is_fixed_beforehand_whatever_the_requests_say(pair, lossless):
    few = lossless[:3]
    there = sum(len(value["tokens"]) for value in few)
    short = judged(pair, few, 1000, detect=0.2)
    assert (short.tokens, short.planned, short.verdict) == (there, 1000, "INCONCLUSIVE")
    assert f"{there} of 1,000 tokens" in short.inconclusive
    assert short.detectable == 1.0
    pit = next(test for test in short.tests if test.name.startswith("PIT"))
    assert pit.n == 1000  # filled up with fresh uniforms
    long = judged(pair, few, 70)
    assert (long.tokens, long.left_out) == (70, there - 70)


@pytest.mark.thorough
def test_text_is_read_as_the_tokenizer_reads_it_and_the_ball_pays(pair, lossless):
    spell = pair.tokenizer.decode
    texts = [
        {"prompt": v["prompt"], "finish_reason": v["finish_reason"],
         "text": spell([t for t in v["tokens"] if t not in pair.eos])}
        for v in lossless
    ]  # fmt: skip
    run = judged(pair, texts)
    assert run.text is not None
    assert run.text.requests == run.requests
    assert 0 < run.text.changed < run.text.control_tokens / 10
    assert run.ball > 1.9 * run.text.changed / run.text.control_tokens
    assert run.verdict != "FAIL"


@pytest.mark.thorough
def test_a_text_that_its_tokens_do_not_spell_leaves_no_verdict(pair, lossless):
    ids = pair.encode("def f(")
    requests = [
        Request(tuple(ids), tuple(value["tokens"][::-1]), from_text=True, round_trips=i != 3)
        for i, value in enumerate(lossless)
    ]
    settings = OutputSettings(tokens=N, alpha=ALPHA, detect=0.2)
    run = audit_outputs(requests, pair, HERE, settings)
    assert run.findings  # tokens in the wrong order, and yet
    assert (run.verdict, run.text.not_round_tripping) == ("INCONCLUSIVE", 1)
    assert "give token ids" in run.inconclusive


def test_a_ball_below_the_rounding_that_is_seen_is_refused(pair, lossless):
    with pytest.raises(UsageError, match="row tolerance is 1e-12: the same rows differ by"):
        judged(pair, lossless[:2], 70, ball=1e-12)


def test_the_document_renders_and_reads_back(pair, lossless, tmp_path):
    run = judged(pair, lossless[:4], 200, proxy=True)
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(run))
    assert read_document(path) == run
    for render in (html_report, markdown_report, junit_report):
        assert "outputs.jsonl" in render(run)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(run, verdict="PASS")))
    with pytest.raises(UsageError, match="verdict is PASS: expected INCONCLUSIVE"):
        read_document(path)
