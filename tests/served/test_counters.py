"""An engine's own counters: pages that are right pass, each kind of wrong one is a finding."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("prometheus_client")

from support.counting_engine import counted_answers, first_drafts  # noqa: E402
from support.emitted_tokens import write_lines  # noqa: E402

from simverify.cli import run as command_line  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served.counters import (  # noqa: E402
    CountedTokens,
    Counters,
    FirstDrafts,
    counter_findings,
    judge_counters,
    most_of_starts,
    read_counters,
)

pytestmark = pytest.mark.usefixtures("shallow_target")

RIGHT = Counters(drafts=100, drafted=300, accepted=120, per_position=(70, 35, 15), emitted=224)

PAGE = """# HELP vllm:num_requests_running Requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0"}} {running}
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{{engine="0",model_name="m"}} {emitted}
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {drafted}
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
{positions}"""


def page(path, counters, running=0):
    """Write a page as vLLM does."""
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    rows = [
        f'{name}{{engine="0",model_name="m",position="{i}"}} {x}\n'
        for i, x in enumerate(counters.per_position)
    ]
    numbers = {n: getattr(counters, n) for n in ("drafts", "drafted", "accepted", "emitted")}
    path.write_text(PAGE.format(running=running, positions="".join(rows), **numbers))
    return path


def test_a_page_of_vllm_is_read(tmp_path):
    path = page(tmp_path / "m.prom", RIGHT)
    assert read_counters(path) == Counters(**vars(RIGHT) | {"running": 0.0})
    before = page(tmp_path / "b.prom", Counters(40, 120, 50, (30, 15, 5), 90))
    change = read_counters(path).since(read_counters(before), "b")
    assert change.per_position == (40, 20, 10)
    assert (change.drafts, change.drafted, change.accepted, change.emitted) == (60, 180, 70, 134)
    with pytest.raises(UsageError, match="larger counters than the page after it"):
        read_counters(before).since(read_counters(path), "m")
    two = path.read_text() + path.read_text().replace('engine="0"', 'engine="1"')
    path.write_text(two)
    assert read_counters(path).per_position == (140, 70, 30)  # of two engines


def test_pages_of_sglang_and_of_json_are_read(tmp_path):
    path = tmp_path / "m.prom"
    path.write_text(
        'sglang:spec_accept_length{model_name="m"} 2.5\nsglang:spec_accept_rate{model_name="m"} 0.5'
        '\nsglang:spec_verify_calls_total{model_name="m"} 10\nsglang:spec_num_steps 3\n'
        "sglang:generation_tokens_total 24\n"
    )
    seen = read_counters(path)
    assert (seen.drafts, seen.emitted, seen.steps) == (10, 24, 3)
    assert (seen.accept_length, seen.accept_rate) == (2.5, 0.5)
    assert list(counter_findings(seen)) == []
    path.write_text(json.dumps({
        "vllm:spec_decode_num_drafts": 4, "vllm:spec_decode_num_accepted_tokens_per_pos": [3, 1],
    }))  # fmt: skip
    assert read_counters(path) == Counters(drafts=4, per_position=(3, 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no counter of drafts: expected a metrics page of vLLM or SGLang"),
        ("vllm:spec_decode_num_drafts_total -1\n", "num_drafts_total -1: expected a number, 0 or"),
        ("vllm:spec_decode_num_drafts_total NaN\n", "expected a number, 0 or more"),
        ("vllm:spec_decode_num_drafts_total 1.5\n", "1.5: expected a whole number"),
        ("<html>no</html>", "is no metrics page of Prometheus"),
        ('vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 1\n', "all from 0"),
        ('vllm:spec_decode_num_accepted_tokens_per_pos_total{position="x"} 1\n', "at position 'x'"),
        ("{", "is no JSON"),
        ('{"vllm:spec_decode_num_drafts": "4"}', 'num_drafts "4": expected a number'),
    ],
)
def test_what_is_no_page_is_one_line(tmp_path, text, words):
    path = tmp_path / "m.prom"
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as error:
        read_counters(path)
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="cannot read"):
        read_counters(tmp_path / "none.prom")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, None),
        ({"drafted": 300, "per_position": (100, 100, 100), "accepted": 300}, None),
        ({"drafted": 100}, "120 tokens were accepted, and 100 drafted"),
        ({"per_position": (35, 70, 15)}, "70 drafts were accepted at position 1, and 35 at"),
        ({"per_position": (101, 19, 0)}, "101 first tokens were accepted of 100 drafts"),
        ({"accepted": 121}, "the positions add up to 120 accepted tokens, and the total says 121"),
        ({"drafted": 301}, "301 tokens were drafted in 100 drafts of 3 at most"),
        ({"accept_rate": 1.2}, "the rate of acceptance is 1.2"),
        ({"accept_length": 4.2, "steps": 3}, "4.2 tokens are emitted a verification"),
        ({"accept_length": 4.0, "accept_rate": 1.0, "steps": 3}, None),
    ],
)
def test_counters_that_cannot_be_are_a_finding(changed, words):
    found = list(counter_findings(Counters(**vars(RIGHT) | changed)))
    assert (found == []) == (words is None)
    if words is not None:
        assert words in found[0]


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


def held(pair, lines, counters, first=()):
    n = sum(len(line["tokens"]) for line in lines)
    return judge_counters(counters, CountedTokens(n, len(lines), 0, first, 1e-6))


@pytest.mark.distribution
@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.thorough(by_day=1)
def test_first_drafts_are_held_against_the_optimum(pair, greedy):
    """The right engine is inside its bounds; one that keeps all drafts is above, and named."""
    lines, counters = counted_answers(pair, 2, 24, greedy=greedy)
    first = first_drafts(pair, lines)
    seen = held(pair, lines, counters, first)
    assert (seen.findings, seen.lead, seen.notes) == ((), None, ())
    assert counters.per_position[0] / counters.drafts < seen.optimum < 1.0
    lines, counters = counted_answers(pair, 2, 24, keep=lambda _: 1.0, greedy=greedy)
    seen = held(pair, lines, counters, first_drafts(pair, lines))
    assert "of the first drafts were accepted, and no lossless rule keeps" in seen.findings[0]


def test_the_bound_is_that_of_the_best_places():
    chances = [np.array([1.0, 0.1, 0.9, 0.2, 0.8, 0.3])]
    # Blocks of one draft that begin at 2 and 4: the first token, 1.0, is in none.
    assert most_of_starts(chances, 2, 1, 6) == pytest.approx(1.7, abs=0.1)
    # Three blocks of one draft, nothing to spare: they begin at 1, 3, 5 or so.
    assert 0.6 <= most_of_starts(chances, 3, 1, 0) <= 2.1
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.random(12)
        starts, t = [], 1
        while t < 12:
            starts.append(t)
            t += int(rng.integers(1, 4))
        assert most_of_starts([x], len(starts), 2, 0) >= x[starts].sum() - 1e-9


@pytest.mark.distribution
def test_a_draft_that_is_worth_nothing_is_said_first(pair):
    lines, counters = counted_answers(pair, 2, 8)
    lost = Counters(1000, 2000, 6, (6, 0, 0)[:2], counters.emitted)
    seen = held(pair, lines, lost)
    assert seen.findings == () or "verifications that accept" in seen.findings[0]
    assert seen.lead.startswith("The draft is worth nothing: 6 of 2,000 drafted tokens")
    assert held(pair, lines, counters).lead is None


def test_a_draft_that_is_worth_less_than_it_could_be_is_said_first():
    """A tenth is no collapse; the token rule accepts seven tenths of this draft's first tokens."""
    lines = [{"tokens": [1] * 24}] * 24
    first = [FirstDrafts(np.full(24, 0.7), np.full(24, 0.8))] * 24
    low = held(None, lines, Counters(500, 1000, 52, (50, 2), 576), first)
    assert (low.findings, low.lead.split(":")[0]) == (
        (),
        "The draft is worth less than it could be",
    )
    assert "10.0% of its first tokens are accepted, and the token rule accepts at least" in low.lead
    right = held(None, lines, Counters(330, 660, 222, (220, 2), 576), first)
    assert (right.findings, right.lead) == ((), None)


def test_counters_of_other_tokens_are_not_held_against_these(pair):
    lines = [{"tokens": [1] * 24}] * 4
    seen = held(pair, lines, Counters(500, 1000, 400, (300, 100), 900))
    assert (seen.findings, seen.optimum) == ((), None)
    assert "say 900 emitted tokens and the log has 96" in seen.notes[0]
    seen = held(pair, lines, Counters(80, 160, 90, (60, 30), 96))
    assert "80 verifications that accept 90 tokens emit 170, and the log has 96" in seen.findings[0]
    busy = Counters(**vars(RIGHT) | {"running": 2.0, "accepted": 500.0})
    seen = held(pair, lines, busy)
    assert (seen.findings, "read while 2 requests ran" in seen.notes[0]) == ((), True)


def test_the_command_holds_counters_against_a_log(pair, tmp_path, capfd):
    lines, counters = counted_answers(pair, 2, 12)
    path = write_lines(tmp_path / "o.jsonl", lines)
    words = ["audit", "--outputs", str(path), "--target", "tiny-llama", "--threads", "1",
             "--tokens", "288", "--detect", ".5", "--alpha", "1e-9"]  # fmt: skip

    def told(counted, *more):
        page(tmp_path / "m.prom", counted)
        code = command_line([*words, "--counters", str(tmp_path / "m.prom"), *more])
        return code, " ".join(capfd.readouterr().out.split())

    code, said = told(counters, "--draft", "tiny-llama")
    assert (code, "by position" in said, "may be accepted" in said) == (0, True, True)
    twice = Counters(**vars(counters) | {"accepted": counters.accepted + 1})
    code, said = told(twice)
    assert (code, "the positions add up to" in said) == (1, True)
    assert "Do not trust its counters" in said
    lost = Counters(**vars(counters) | {"accepted": 1, "per_position": (1, 0), "drafts": 250,
                                        "drafted": 500})  # fmt: skip
    code, said = told(lost)
    assert (code, "PASS" in said, "The draft is worth nothing: 1 of 500" in said) == (0, True, True)
    before = page(tmp_path / "b.prom", Counters(0, 0, 0, (0, 0), 0))
    assert told(counters, "--counters-before", str(before))[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--outputs", "o", "--counters-before", "b"], "--counters-before needs --counters"),
        (["--endpoint", "http://x", "--prompts", "p", "--counters", "m"], "is for --outputs"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(capfd, words, said):
    assert command_line(["audit", "--target", "tiny-llama", *words]) == 2
    assert said in " ".join(capfd.readouterr().err.split())
