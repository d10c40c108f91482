"""Looks at a run before its end: the same evidence however often, and an end where it is enough."""

import json
import math

import msgspec
import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    ArgmaxDraft,
    emitted,
    serving,
)
from support.judged_tokens import HERE  # noqa: E402

from simverify.cli import run as command_line  # noqa: E402
from simverify.models.rounding import (  # noqa: E402
    WEIGHT_FORMATS,
    use_weight_format,
)
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import (  # noqa: E402
    OutputSettings,
    StreamingEvidence,
    audit_outputs,
    check_request,
)
from simverify.served.evidence import (  # noqa: E402
    LOOKS_TEST_NAME,
    first_crossing,
    pit_bets,
)
from simverify.served.judge import split_output_alpha  # noqa: E402
from simverify.served.requests import Request  # noqa: E402
from simverify.served.rescore import logits_before  # noqa: E402
from simverify.simulators.decoding.loop import (  # noqa: E402
    Job,
    decode,
    verifier_factory,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

N = 1200
LENGTH = 24


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def answers(pair):
    rules = {"token": VERIFIERS["token"], "lossy": ArgmaxDraft}
    return {
        name: emitted(pair, rule, N, lanes=50, length=LENGTH, gamma=1)
        for name, rule in rules.items()
    }


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No scoring with rounded weights, which takes five times as long as all else."""
    monkeypatch.setattr("simverify.served.evidence.WEIGHT_TOKENS", 0)


def requests(pair, objects):
    return tuple(check_request(value, "outputs", pair) for value in objects)


def watched(pair, objects, settings, every):
    """A run that is looked at after so many requests each, as an endpoint is."""
    told, seen = [], requests(pair, objects)
    begun = StreamingEvidence(pair, settings, False, told.append)
    for size in [*range(every, len(seen), every), len(seen)]:
        if begun.enough(seen[:size]):
            break
    return audit_outputs(seen[:size], pair, HERE, settings, begun=begun), told


@pytest.mark.distribution
@pytest.mark.thorough
def test_looking_changes_nothing_of_what_is_right(pair, answers):
    settings = OutputSettings(tokens=N, alpha=ALPHA, detect=0.3)
    whole = audit_outputs(requests(pair, answers["token"]), pair, HERE, settings)
    often, told = watched(pair, answers["token"], settings, 5)
    assert (whole.verdict, whole.stopped, whole.failed_from) == ("PASS", False, None)
    assert msgspec.structs.replace(often, meta=whole.meta) == whole
    assert len(told) > 3
    assert all("paid for; log e" in line for line in told if line.startswith("look"))


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_fault_ends_the_run_long_before_its_end(pair, answers):
    settings = OutputSettings(tokens=N, alpha=ALPHA, detect=0.3)
    run, told = watched(pair, answers["lossy"], settings, 5)
    assert (run.verdict, run.stopped) == ("FAIL", True)
    assert run.failed_from <= run.tokens < 0.7 * N
    assert [line for line in told if line.startswith("look")][-1].endswith("stopped")
    again = audit_outputs(requests(pair, answers["lossy"])[: run.requests], pair, HERE, settings)
    assert (again.verdict, again.failed_from) == ("FAIL", run.failed_from)
    assert again.tests == run.tests
    assert any(test.name == LOOKS_TEST_NAME and test.rejected for test in run.tests)


@pytest.mark.distribution
@pytest.mark.thorough
def test_reported_values_end_the_run_after_some_requests(pair):
    """Wrong weights show in the first requests; exact values, or those of bfloat16, end nothing."""
    settings = OutputSettings(tokens=N, alpha=ALPHA, detect=0.3)
    with use_weight_format(pair.target_model, WEIGHT_FORMATS["4 bits (Q4_0)"]):
        wrong = reporting(pair, emitted(pair, VERIFIERS["token"], 240, lanes=6, length=40))
    run, told = watched(pair, wrong, settings, 1)
    assert (run.verdict, run.stopped, run.failed_from) == ("FAIL", True, None)
    assert run.requests in (1, 2, 4, 8)
    assert "reports itself, say FAIL: stopped" in " ".join(told)
    assert "to tell it: the server was asked no more" in " ".join(str(run).split())
    right = reporting(pair, emitted(pair, VERIFIERS["token"], 80, lanes=2, length=40))
    assert not watched(pair, right, settings, 1)[0].stopped
    coarse = load_pair("tiny-llama", "tiny-llama", dtype="bfloat16")
    fuzzy = reporting(coarse, emitted(coarse, VERIFIERS["token"], 80, lanes=2, length=40))
    assert not watched(pair, fuzzy, settings, 1)[0].stopped
    # Of a target in bfloat16 what that precision moves is measured, and allowed for.
    assert not watched(coarse, fuzzy, settings, 1)[0].stopped
    run, _ = watched(coarse, wrong, settings, 1)
    assert (run.verdict, run.stopped, run.requests <= 8) == ("FAIL", True, True)


def reporting(pair, objects):
    """The answers, each with the log probabilities of its tokens."""
    for value in objects:
        request = Request(tuple(value["prompt"]), tuple(value["tokens"]))
        (logits,) = logits_before(pair, pair.target_model, [request])
        rows = torch.tensor(logits).double().log_softmax(-1)
        value["logprobs"] = [float(row[t]) for row, t in zip(rows, value["tokens"], strict=True)]
    return objects


@pytest.mark.distribution
@pytest.mark.parametrize("how", ["draft of what is accepted", "log10"])
@pytest.mark.thorough
def test_what_a_right_server_reports_ends_no_run_and_fails_none(how):
    """Its tokens are the target's; only what it says of them is not. Early, and as a whole."""
    pair = load_pair("tiny-llama", "tiny-llama")
    found, ids = [], [tuple(pair.encode(text)) for text in PROMPTS[:8]]
    decode(
        pair, Job(tuple(ids), 1, 8, 40, 40, 3), verifier_factory(VERIFIERS["token"]), found.append
    )
    objects = [{"prompt": list(own), "tokens": [], "finish_reason": "length"} for own in ids]
    drafted = [[] for _ in ids]
    for block in found:
        room = 40 - len(objects[block.lane]["tokens"])
        objects[block.lane]["tokens"] += list(block.emitted)[:room]
        drafted[block.lane] += [i + 1 < len(block.emitted) for i in range(len(block.emitted))][
            :room
        ]
    for value, kept in zip(objects, drafted, strict=True):
        request = Request(tuple(value["prompt"]), tuple(value["tokens"]))
        rows = [
            torch.tensor(logits_before(pair, model, [request])[0]).double().log_softmax(-1)
            for model in (pair.target_model, pair.draft_model)
        ]
        at = range(len(value["tokens"]))
        value["logprobs"] = [
            float(rows[how[0] == "d" and kept[i]][i, value["tokens"][i]]) for i in at
        ]
        if how == "log10":
            value["logprobs"] = [x / 2.302585 for x in value["logprobs"]]
    run, _ = watched(pair, objects, OutputSettings(tokens=320, alpha=ALPHA, detect=0.6), 1)
    assert (run.verdict, run.stopped, run.findings) == ("PASS", False, ())
    assert not run.reported.fits
    assert any("say nothing of the tokens" in n or "fit nothing" in n for n in run.notes)


def test_the_shares_of_all_tests_are_one_alpha():
    shares = split_output_alpha(1e-6)
    assert math.fsum(shares.values()) <= 1e-6
    bets = dict.fromkeys(("weights", "rates", "reported", "looks", "variants"), 1e-6 / 25)
    parts = {"pits": 1e-6 * 12 / 25, "scores": 1e-6 * 4 / 25, "pairs": 1e-6 * 4 / 25}
    assert shares == pytest.approx(parts | bets)


@pytest.mark.distribution
def test_bets_on_pits_are_fair_and_win_where_pits_are_not_uniform():
    import numpy as np

    from simverify.served.evidence import BetSnapshot, looks_log_evalue

    rng = np.random.default_rng(1)
    fair, rare = rng.random(3000), 1.0 - rng.beta(1.0, 1.4, 3000)
    values = [
        looks_log_evalue(BetSnapshot(3000, pit_bets({"x": u}), None, None), 0.0)
        for u in (fair, rare)
    ]
    assert values[0] < 20.0 < values[1]  # e^20 has a chance below 1e-8 where nothing is off
    # Each density of the bets has mean 1 over the unit interval.
    grid = (np.arange(1000) + 0.5) / 1000
    means = [np.exp(pit_bets({"x": np.array([u])}).log_wealth) for u in grid]
    assert np.allclose(np.mean(means, axis=0), 1.0, atol=1e-9)
    seen = [BetSnapshot(n, pit_bets({"x": rare[:n]}), None, None) for n in (10, 1000, 3000)]
    assert first_crossing(seen, alpha=1e-4, ball=0.0) in (1000, 3000)
    assert first_crossing(seen, alpha=1e-4, ball=0.5) is None


def served(answers):
    """A server that gives out the answers to each prompt in turn."""
    import threading

    waiting, lock = {}, threading.Lock()
    for value in answers:
        waiting.setdefault(tuple(value["prompt"]), []).append(value)

    def complete(body):
        with lock:
            own = waiting[tuple(body["prompt"])]
            value = own.pop(0)
            own.append(value)
        return {"token_ids": value["tokens"], "finish_reason": "length"}

    return complete


@pytest.mark.distribution
@pytest.mark.thorough
def test_an_endpoint_is_asked_no_more_than_is_needed(pair, answers, tmp_path, capfd):
    prompts = tmp_path / "p.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS))
    keep = tmp_path / "kept.jsonl"
    cut = [value for value in answers["lossy"] if value["finish_reason"] == "length"]
    known = {tuple(value["prompt"]) for value in cut}
    lines = [text for text in PROMPTS if tuple(pair.encode(text)) in known]
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in lines))
    command = ["audit", "--target", "tiny-llama", "--prompts", str(prompts), "--threads", "1",
               "--max-tokens", str(LENGTH), "--alpha", str(ALPHA)]  # fmt: skip
    with serving(served(cut)) as address:
        code = command_line(
            [*command, "--endpoint", address, "--keep", str(keep), "--concurrency", "3",
             "--json", str(tmp_path / "run.json")]
        )  # fmt: skip
        kept = keep.read_bytes()
        assert command_line([*command, "--endpoint", address, "--keep", str(keep)]) == 1
        assert keep.read_bytes() == kept  # it was enough already
        capfd.readouterr()
        budget = [*command, "--endpoint", address, "--max-tokens-total", "100"]
        assert command_line([*budget, "--json", str(tmp_path / "short.json")]) == 3
        said = " ".join(capfd.readouterr().out.split())
        assert "the budget of 100 tokens ended first, 96 of 20,000 tokens are there" in said
        assert command_line([*command, "--endpoint", address, "--max-tokens-total", "20"]) == 2
        assert "max tokens total is 20: expected 24 or more" in capfd.readouterr().err
    found = json.loads((tmp_path / "run.json").read_text())
    assert (code, found["verdict"], found["stopped"]) == (1, "FAIL", True)
    assert found["requests"] == len(kept.splitlines())
    assert found["tokens"] < 2000
    assert found["planned"] > 20_000 - 1
    assert json.loads((tmp_path / "short.json").read_text())["tokens"] == 96
