"""The engine's own log probabilities: what they are of, and wrong weights by them."""

import dataclasses

import numpy as np
import pytest
from support.levels import at_night

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    emitted,
)
from support.judged_tokens import judged  # noqa: E402
from support.processed_engine import answers as processed  # noqa: E402
from support.processed_engine import everywhere  # noqa: E402

from simverify.models.distribution import Law  # noqa: E402
from simverify.models.rounding import (  # noqa: E402
    WEIGHT_FORMATS,
    use_weight_format,
)
from simverify.models.transformer import (  # noqa: E402
    Sampling,
    load_pair,
)
from simverify.served.evidence import VALID_KINDS, ReportedSums  # noqa: E402
from simverify.served.requests import (  # noqa: E402
    Request,
    choice_logprobs,
    logprob_resolution,
    logprobs_problem,
)
from simverify.served.rescore import logits_before  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("logits_once", "shallow_target")

N = 400


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


def rows(pair, value, model=None, law=None):
    """Log rows (n, V) of an answer's tokens."""
    request = Request(tuple(value["prompt"]), tuple(value["tokens"]))
    (logits,) = logits_before(pair, model or pair.target_model, [request])
    return np.log(np.maximum((law or Sampling()).rows(logits), 1e-300))


def reporting(pair, objects, report):
    """The answers, each with what ``report`` makes of its rows and its tokens."""
    return [value | {"logprobs": report(value)} for value in objects]


def own(pair, value, **how):
    found = rows(pair, value, **how)
    return [float(x) for x in found[np.arange(len(found)), value["tokens"]]]


@pytest.fixture(scope="module")
def answers(pair):
    return emitted(pair, VERIFIERS["token"], N, lanes=16)


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_sound_engine_passes_and_its_values_are_of_the_target(pair, answers):
    run = judged(pair, reporting(pair, answers, lambda v: own(pair, v)), N, detect=0.6)
    assert run.verdict == "PASS"
    assert run.reported.kind in ("processed", "raw")  # which are one here
    assert run.reported.needed is None
    assert run.reported.fits
    assert run.reported.tv < 1e-6
    longest = max(len(value["tokens"]) for value in answers)
    assert f"answers of up to {longest}: what begins later" in " ".join(str(run).split())
    coarse = reporting(pair, answers, lambda v: [round(x, 2) for x in own(pair, v)])
    assert judged(pair, coarse, N, detect=0.6).verdict == "PASS"


@pytest.mark.distribution
@pytest.mark.usefixtures("all_roundings")
@pytest.mark.thorough
def test_four_bits_are_found_in_some_dozen_tokens(pair):
    with use_weight_format(pair.target_model, WEIGHT_FORMATS["4 bits (Q4_0)"]):
        objects = emitted(pair, VERIFIERS["token"], N, lanes=16)
        objects = reporting(pair, objects, lambda v: own(pair, v))
    run = judged(pair, objects, N, detect=0.6)
    assert run.verdict == "FAIL"
    assert any(finding.startswith("reported log probabilities") for finding in run.findings)
    assert run.reported.needed < 200
    assert any("its weights or its logits are not the target's" in note for note in run.notes)
    silent = [{k: v for k, v in value.items() if k != "logprobs"} for value in objects]
    assert judged(pair, silent, N, detect=0.6).verdict == "PASS"  # the tokens alone cannot tell


@pytest.mark.distribution
@pytest.mark.thorough
def test_reported_values_never_excuse_a_fault(pair, answers):
    """An engine that says of its wrong rows that they are off still fails by its tokens."""
    warm = dataclasses.replace(pair, sampling=Sampling(1.6))
    objects = emitted(warm, VERIFIERS["token"], N, lanes=16)
    said = reporting(pair, objects, lambda v: own(pair, v, law=Sampling(1.6)))
    silent = judged(pair, objects, N, detect=0.6)
    run = judged(pair, said, N, detect=0.6)
    assert silent.verdict == run.verdict == "FAIL"
    assert run.ball == silent.ball
    # Nor does one that says what ours are while it draws from others.
    true = judged(pair, reporting(pair, objects, lambda v: own(pair, v)), N, detect=0.6)
    assert true.verdict == "FAIL"
    assert true.ball == silent.ball


@pytest.mark.thorough
def test_requests_that_are_off_beside_exact_ones_are_no_rounding(pair, answers):
    """As of mlx-lm 0.32.2 with a draft, which took prefixes from its cache."""
    off = answers[::4]

    def some(value):
        found = own(pair, value)
        if value not in off:
            return found
        return [x + (0.03 if i % 2 else -0.03) for i, x in enumerate(found)]

    run = judged(pair, reporting(pair, answers, some), N, detect=0.6)
    assert run.verdict == "FAIL"
    assert run.reported.tv < 0.009  # of the size of rounding
    assert any("requests are exact, so that its weights" in note for note in run.notes)


def test_an_engine_in_bfloat16_is_told_and_does_not_fail(pair, answers):
    def report(value):
        request = Request(tuple(value["prompt"]), tuple(value["tokens"]))
        with torch.autocast("cpu", torch.bfloat16):
            (logits,) = logits_before(pair, pair.target_model, [request])
        found = np.log(Sampling().rows(logits))
        return [float(x) for x in found[np.arange(len(found)), value["tokens"]]]

    run = judged(pair, reporting(pair, answers, report), N, detect=0.6)
    assert run.verdict == "PASS"
    assert run.ball == pytest.approx(1e-6)
    assert any("no more than twice what bfloat16 moves them" in note for note in run.notes)
    plain = judged(pair, answers, N, detect=0.6)
    assert run.certificate.bound > plain.certificate.bound


@pytest.mark.usefixtures("all_roundings")
@pytest.mark.slow
def test_an_engine_of_that_precision_that_rounds_otherwise_does_not_fail(pair):
    """Both are off from exact rows, each in its own way: by twice what one is, at most."""
    coarse = load_pair("tiny-llama", "tiny-llama", dtype="bfloat16")
    with torch.autocast("cpu", torch.bfloat16):
        objects = emitted(pair, VERIFIERS["token"], 1600, lanes=32)

        def report(value):
            return own(pair, value)

        objects = reporting(pair, objects, report)
    run = judged(coarse, objects, 1600, detect=0.6)
    assert run.verdict == "PASS"
    assert run.reported.tv > 0.9 * run.ball  # the ball alone is no limit to that
    assert run.reported.allowed == pytest.approx(2 * run.rescoring.precision)
    assert not any("judge it with --dtype bfloat16" in note for note in run.notes)
    with use_weight_format(pair.target_model, WEIGHT_FORMATS["4 bits (Q4_0)"]):
        wrong = reporting(pair, emitted(pair, VERIFIERS["token"], N, lanes=16), report)
    assert judged(coarse, wrong, N, detect=0.6).verdict == "FAIL"


NO_LOGS = {
    "probabilities": lambda own: [float(np.exp(x)) for x in own],
    "logarithms to base 2": lambda own: [x / float(np.log(2)) for x in own],
    "sums so far": lambda own: np.cumsum(own).tolist(),
    "one value": lambda own: [0.0 for _ in own],
    "a floor": lambda own: [-9999.0 for _ in own],
}


@pytest.mark.parametrize("how", at_night(NO_LOGS, but=("probabilities", "sums so far", "a floor")))
def test_values_of_another_kind_fail_no_engine(pair, answers, how):
    run = judged(
        pair, reporting(pair, answers, lambda v: NO_LOGS[how](own(pair, v))), N, detect=0.6
    )
    assert run.verdict == "PASS"
    assert any("log probabilities fit nothing here" in note for note in run.notes)
    assert not run.reported.fits
    assert "tells nothing of the weights" in " ".join(str(run).split())


@pytest.mark.parametrize("kind", ["before temperature", "before truncation"])
@pytest.mark.thorough
def test_values_after_penalties_are_of_the_target(pair, kind):
    law = Law(0.7, 20, repetition_penalty=1.5)
    ids = [tuple(pair.encode(text)) for text in PROMPTS[:8]]
    found = processed(pair, ids, everywhere(law), length=48, start=law)

    def value(request):
        told = Law(1.0 if kind == "before temperature" else 0.7, repetition_penalty=1.5)
        (logits,) = logits_before(pair, pair.target_model, [request])
        rows = np.log(told.after(logits, request.prompt, request.tokens))
        at = np.arange(len(rows)), np.array(request.tokens)
        return {
            "prompt": list(request.prompt),
            "tokens": list(request.tokens),
            "finish_reason": "length",
            "logprobs": [float(x) for x in rows[at]],
        }

    declared = dataclasses.replace(pair, sampling=law)
    run = judged(declared, [value(request) for request in found], 300, detect=0.9)
    assert (run.verdict, run.reported.kind) == ("PASS", kind)
    assert run.reported.tv < 1e-5


@pytest.mark.thorough
def test_values_that_say_nothing_are_called_so(pair, answers):
    run = judged(pair, reporting(pair, answers, lambda v: [0.0] * len(v["tokens"])), N, detect=0.6)
    assert run.verdict == "PASS"
    assert any("all are 0.0, a placeholder" in note for note in run.notes)
    coarse = reporting(pair, answers, lambda v: [round(x, 1) for x in own(pair, v)])
    run = judged(pair, coarse, N, detect=0.6)
    assert run.verdict == "PASS"
    assert any("rounded by up to 0.05" in note for note in run.notes)


@pytest.mark.parametrize("mode", ["raw", "processed"])
@pytest.mark.thorough
def test_values_are_what_they_are_stated_to_be(pair, mode):
    law = Sampling(0.7, 20)
    cut = dataclasses.replace(pair, sampling=law)
    objects = emitted(cut, VERIFIERS["token"], 300, lanes=8)
    true = Sampling() if mode == "raw" else law
    said = reporting(pair, objects, lambda v: own(pair, v, law=true))

    def stated(as_mode):
        lines = [value | {"logprobs_mode": f"{as_mode}_logprobs"} for value in said]
        return judged(cut, lines, 300, detect=0.9)

    other = {"raw": "processed", "processed": "raw"}[mode]
    assert stated(mode).verdict == "PASS"
    run = stated(other)
    assert run.verdict == "FAIL"
    assert run.findings[0].startswith("answers: their log probabilities are stated to be")
    assert not run.worst


KINDS = {
    "raw": "before temperature and truncation",
    "processed": "of the distribution that is sampled",
    "by temperature alone": "by temperature, before truncation",
    "after top-k": "after top-k, before all other truncation",
    "draft": "of the draft, not of the target",
    "row before": "stale by a row",
    "token before": "off by a place",
}


@pytest.mark.parametrize("kind", at_night(KINDS, but=("draft", "row before")))
@pytest.mark.thorough
def test_what_is_reported_is_named(pair, kind):
    law = Sampling(0.7, 20, 0.9)
    cut = dataclasses.replace(pair, sampling=law)
    objects = emitted(cut, VERIFIERS["token"], 300, lanes=8)

    def report(value):
        if kind == "processed":
            return own(pair, value, law=law)
        if kind == "after top-k":
            return own(pair, value, law=Sampling(0.7, 20))
        if kind == "by temperature alone":
            return own(pair, value, law=Sampling(0.7))
        if kind == "draft":
            return own(pair, value, model=pair.draft_model)
        raw = own(pair, value)
        if kind == "token before":
            return [None, *raw[:-1]]
        if kind == "row before":
            found = rows(pair, value)
            return [None, *(float(found[i - 1, t]) for i, t in enumerate(value["tokens"]) if i)]
        return raw

    run = judged(cut, reporting(pair, objects, report), 300, proxy=True, detect=0.9)
    assert run.reported.kind == kind
    assert any(KINDS[kind] in note for note in run.notes)
    assert run.verdict == "PASS"


@pytest.mark.parametrize("kind", ["raw", "draft"])
def test_answers_of_one_token_have_their_kind_named(kind):
    """No answer of one token has a row before or after its own."""
    nothing, rng = np.array([np.nan]), np.random.default_rng(0)
    sums = ReportedSums()
    for _ in range(8):
        values = {name: rng.normal(-3.0, 1.0, 1) for name in (*VALID_KINDS, "draft")}
        ours = {**dict.fromkeys(("row before", "row after", "token before"), nothing), **values}
        sums.values.append(values[kind])
        sums.ours.append(ours)
        sums.again.append(ours)
    assert sums.identify(1e-6).kind == kind


def test_where_values_stand():
    assert choice_logprobs({"logprobs": {"token_logprobs": [None, -1]}}) == [None, -1.0]
    assert choice_logprobs({"logprobs": {"content": [{"logprob": -2.5}]}}) == [-2.5]
    assert choice_logprobs({"logprobs": [-1.0, float("-inf")]}) == [-1.0, None]
    for none in ({}, {"logprobs": None}, {"logprobs": []}, {"logprobs": {"content": [3]}},
                 {"logprobs": ["a"]}, {"logprobs": {"token_logprobs": [True]}}):  # fmt: skip
        assert choice_logprobs(none) is None


def test_values_are_as_fine_as_they_are_written():
    x = -np.random.default_rng(0).exponential(size=50)
    assert logprob_resolution([round(float(v), 3) for v in x]) == 0.5e-3
    half = torch.tensor(x).bfloat16().float().tolist()
    assert 1e-3 < logprob_resolution(half) < 3e-2
    assert logprob_resolution(torch.tensor(x).float().tolist()) < 1e-6
    assert logprob_resolution([]) == 0.0


def test_values_that_cannot_be_right_are_named():
    assert "'x' is no number" in logprobs_problem({"logprobs": [-1, 2, "x"]}, 3)
    assert "1 of 3 tokens" in logprobs_problem({"logprobs": [-1.0]}, 3)
    assert "2 is above 0" in logprobs_problem({"logprobs": [-1.0, 2, None]}, 3)
    for good in ({}, {"logprobs": None}, {"logprobs": [None, -1.0, 0.0]}):
        assert logprobs_problem(good, 3) is None
