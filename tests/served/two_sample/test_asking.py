"""Two servers on loopback, asked side by side: what is sent, kept, gone on with and refused."""

import json
import random
import subprocess
import sys
import threading

import pytest
from support.emitted_tokens import Reply, serving
from support.waiting import PATIENCE

from simverify.cli import run as command_line
from simverify.errors import UsageError
from simverify.models.transformer import Sampling
from simverify.served import Endpoint, client
from simverify.served.answers import pair_answers, read_answers
from simverify.served.two_sample import collect_both, second_answer_file

PROMPTS = ("one", "two", "three")


class Words:
    """Draws tokens out of ten, the first of them ``bias`` more often; answers in a ``form``."""

    def __init__(self, bias=0.0, seed=0, form="ids", order=None, busy=None):
        self._rng, self._weights = random.Random(seed), [1.0 + bias] + [1.0] * 9
        self._form, self._order, self._lock = form, order, threading.Lock()
        self.bodies, self.busy = [], busy

    def __call__(self, body):
        with self._lock:
            if len(self.bodies) == self.busy:
                return Reply(b"busy", 429)
            self.bodies.append(body)
            if self._order is not None:
                self._order.append(self)
            ids = self._rng.choices(range(10), self._weights, k=body["max_tokens"])
        choice = {"text": " ".join(f"w{i}" for i in ids), "finish_reason": "length"}
        if self._form == "ids" and "return_token_ids" in body:
            choice["token_ids"] = ids
        if self._form == "pieces" and "logprobs" in body:
            choice["logprobs"] = {"tokens": [f"w{i}" for i in ids]}
        return choice


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client, "RETRY_WAITS", (0.01,))


def both(first, second, *, repeats=4, keep=None, **more):
    with serving(first, owner="vllm") as a, serving(second, owner="vllm") as b:
        ends = (Endpoint(a, max_tokens=5), Endpoint(b, max_tokens=5))
        return collect_both(ends, PROMPTS * repeats, Sampling(0.8, top_k=7), keep=keep, **more)


@pytest.mark.parametrize(
    ("form", "kind"), [("ids", "ids"), ("pieces", "token texts"), ("text", "text")]
)
def test_both_are_asked_the_same_as_often(form, kind):
    servers = Words(form=form), Words(form=form, seed=1)
    asked = both(*servers)
    pairs = pair_answers(asked.first, asked.second)
    assert (pairs.kind, pairs.prompts, pairs.n) == (kind, PROMPTS, 12)
    assert [len(group) for group in pairs.groups] == [4, 4, 4]
    for server in servers:
        assert {body["temperature"] for body in server.bodies} == {0.8}
        assert {body["top_k"] for body in server.bodies} == {7}
        assert {body["prompt"] for body in server.bodies} == set(PROMPTS)


def test_a_pair_is_asked_at_one_time_and_its_order_is_drawn():
    order = []
    servers = Words(order=order), Words(order=order)
    both(*servers, repeats=40, concurrency=1)
    firsts = [order[i] is servers[0] for i in range(0, len(order), 2)]
    assert all(set(order[i : i + 2]) == set(servers) for i in range(2, len(order), 2))
    assert 35 < sum(firsts) < 85


def test_what_was_kept_is_gone_on_with(tmp_path):
    keep = tmp_path / "a.jsonl"
    with pytest.raises(UsageError, match=r"429: busy; \d+ answers are kept in .*a\.jsonl: the "):
        both(Words(), Words(seed=1, busy=5), keep=keep)
    before = [path.read_bytes() for path in (keep, second_answer_file(keep))]
    later = Words(seed=2), Words(seed=3)
    asked = both(*later, keep=keep)
    assert len(later[0].bodies) + len(later[1].bodies) < 24 - 5
    for path, start, answers in zip(
        (keep, second_answer_file(keep)), before, (asked.first, asked.second), strict=True
    ):
        assert path.read_bytes().startswith(start)
        assert read_answers(path, "outputs") == list(answers)
        assert len(answers) == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.against.jsonl", "a.jsonl"]
    again = Words(), Words()
    assert both(*again, keep=keep).first == asked.first
    assert again[0].bodies == again[1].bodies == []


def test_answers_that_came_early_are_kept_beside(tmp_path):
    release, lock, seen = threading.Event(), threading.Lock(), []

    def slow(body):
        with lock:
            seen.append(body["prompt"])
            number, second = len(seen), seen.count("two") == 1
        if body["prompt"] == "two" and second:
            release.wait(PATIENCE)
            return Reply(b"gone", 500)
        if number == 11:  # of those that were asked, four may still be under way
            release.set()
        return {"token_ids": [number], "text": "x", "finish_reason": "length"}

    keep = tmp_path / "a.jsonl"
    with pytest.raises(UsageError, match="answers 500: gone"):
        both(slow, Words(), keep=keep, repeats=12, concurrency=4)
    early = tmp_path / "a.jsonl.ahead"
    numbers = [json.loads(line)["number"] for line in early.read_text().splitlines()]
    assert len(numbers) >= 5
    assert len(read_answers(keep, "outputs")) == 1
    with early.open("a") as file:
        file.write('{"number": 99, "ans')  # the run was killed here
    later = Words()
    asked = both(later, Words(), keep=keep, repeats=12)
    assert len(later.bodies) == 36 - 1 - len(numbers)
    assert len(asked.first) == 36
    assert not early.exists()


def test_early_answers_of_a_file_that_is_gone_are_not_taken(tmp_path):
    keep = tmp_path / "a.jsonl"
    (tmp_path / "a.jsonl.ahead").write_text('{"number": 1, "answer": {"prompt": "two"}}\n')
    server = Words()
    both(server, Words(), keep=keep, repeats=2)
    assert len(server.bodies) == 6
    assert not (tmp_path / "a.jsonl.ahead").exists()


@pytest.mark.thorough
def test_the_command_line_finds_a_planted_difference(tmp_path, capfd):
    prompts = tmp_path / "p.txt"
    prompts.write_text("one\n\ntwo\n\nthree\n\none")
    keep = tmp_path / "a.jsonl"
    common = ["--prompts", str(prompts), "--max-tokens", "2", "--repeats", "150", "--detect", "0.9"]
    with serving(Words(), owner="vllm") as a, serving(Words(6.0, 1), owner="vllm") as b:
        code = command_line(["audit", "--endpoint", a, "--against", b, "--keep", str(keep), *common,
                             "--json", str(tmp_path / "run.json")])  # fmt: skip
    out, err = capfd.readouterr()
    assert code == 1
    assert "plan: 3 prompts, each 150 times of either" in " ".join(err.split())
    assert "The two do not answer alike" in out
    found = json.loads((tmp_path / "run.json").read_text())
    again = (
        f"--outputs {keep} --against {second_answer_file(keep)} --alpha 1e-06 --detect 0.9 --seed 0"
    )
    assert found["reproduce"] == f"simverify audit {again}"
    assert command_line(["audit", *again.split(), "--json", str(tmp_path / "again.json")]) == 1
    same = json.loads((tmp_path / "again.json").read_text())
    assert [same[key] for key in ("tests", "sha256")] == [found[k] for k in ("tests", "sha256")]
    with serving(Words(), owner="vllm") as a, serving(Words(seed=1), owner="vllm") as b:
        assert command_line(["audit", "--endpoint", a, "--against", b, *common]) == 0
    assert "No difference between the two was found" in capfd.readouterr().out


def test_no_model_is_loaded(tmp_path):
    for add, name in enumerate(("a", "b")):
        ids = [[(i + add) % 3, 1] for i in range(9)]
        lines = [{"prompt": "x", "tokens": own, "finish_reason": "length"} for own in ids]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    code = (
        "import sys; from simverify.cli import run; "
        "code = run(['audit', '--outputs', 'a', '--against', 'b']); "
        "sys.exit(str({'torch', 'transformers'} & set(sys.modules)) if code == 3 else 'no run')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr.strip() == "set()"
    assert "no power is promised" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--against", "b"], "--against is one of two: name the other, as --outputs or --endpoint"),
        (["--outputs", "a", "--against", "http://b"], "--against is a server: name another as"),
        (["--endpoint", "http://a", "--against", "b"], "is b: expected http://HOST:PORT"),
        (["--endpoint", "http://a", "--against", "http://b"], "--prompts is missing"),
        (["--endpoint", "http://a", "--against", "http://a", "--prompts", "p"], "one address"),
        (["--outputs", "a", "--against", "b", "--target", "t"], "--target is not for two engines"),
        (["--endpoint", "http://a", "--against", "http://b", "--min-p", ".1"], "--min-p is not"),
        (["--outputs", "a", "--against", "b", "--timeout", "5"], "--timeout is for --endpoint"),
        (["--outputs", "a", "--against", "b", "--repeats", "5"], "--repeats is for --endpoint"),
        (["--endpoint", "http://a", "--against", "http://b", "--prompts", "p", "--temperature",
          "0"], "--temperature is 0: an engine would repeat its answer"),
        (["--endpoint", "http://a", "--against", "http://b", "--prompts", "p", "--max-tokens", "1"],
         "--max-tokens is 1: what speculation does shows from an answer's second token on"),
        (["--outputs", "a", "--target", "t", "--repeats", "5"], "it is for two engines"),
        (["--outputs", "nothing", "--against", "b"], "outputs: cannot read nothing"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(given, says, capfd):
    assert command_line(["audit", *given]) == 2
    assert says in " ".join(capfd.readouterr().err.split())
