"""A matrix asked of a server on loopback, and what comes of odd ones."""

import itertools
import json
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    Reply,
    serving,
)
from support.processed_engine import (  # noqa: E402
    answers,
    everywhere,
)

from simverify.cli import run as command_line  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.distribution import (  # noqa: E402
    Law,
    Mask,
)
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import Endpoint  # noqa: E402
from simverify.served.matrix import (  # noqa: E402
    MatrixSettings,
    audit_matrix,
)
from simverify.served.requests import Chat  # noqa: E402


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


class Engine:
    """Answers as asked but for what it ignores; ``seeded``: the same answer to the same seed."""

    def __init__(self, pair, ignores=(), refuses=(), seeded=True):
        self.pair, self.ignores, self.refuses, self.seeded = pair, ignores, refuses, seeded
        self.count, self.lock, self.bodies = itertools.count(100), threading.Lock(), []

    def __call__(self, body):
        if named := [name for name in self.refuses if name in body]:
            return Reply(json.dumps({"error": f"unknown field {named[0]}"}).encode(), 400)
        with self.lock:
            self.bodies.append(body)
            law = Law(
                body["temperature"], None if "top_k" in self.ignores else body.get("top_k"),
                min_p=body.get("min_p"),
            )  # fmt: skip
            seed = body["seed"] if self.seeded and "seed" in body else next(self.count)
            (found,) = answers(
                self.pair, [tuple(body["prompt"])], everywhere(law), length=body["max_tokens"],
                seed=seed,
            )  # fmt: skip
        return {"text": "", "token_ids": list(found.tokens), "finish_reason": "length"}


def outcomes(run):
    return {cell.name: cell.outcome for cell in run.cells}


@pytest.mark.distribution
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
@pytest.mark.thorough
def test_a_matrix_of_a_server(pair, tmp_path, right):
    engine = Engine(pair) if right else Engine(pair, ("top_k",), ("min_p",), seeded=False)
    settings = MatrixSettings(tokens=256, alpha=1e-8, cells=("top-k", "min-p", "seed"))
    with serving(engine) as address:
        server = Endpoint(address, max_tokens=16)
        run = audit_matrix(server, PROMPTS[:8], pair, "again", settings, keep=tmp_path)
        before = len(engine.bodies)
        again = audit_matrix(server, PROMPTS[:8], pair, "again", settings, keep=tmp_path)
        if right:
            assert len(engine.bodies) == before  # all is kept
            assert again.cells == run.cells
    if right:
        assert outcomes(run) == {"top-k": "honoured", "min-p": "honoured", "seed": "honoured"}
        assert run.verdict == "PASS"
    else:
        assert outcomes(run) == {"top-k": "dropped", "min-p": "refused", "seed": "dropped"}
        assert run.verdict == "FAIL"
        assert "unknown field min_p" in run.cells[1].words
    lines = str(run).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(run.verdict)


@pytest.mark.distribution
def test_a_cache_that_answers_is_told(pair):
    engine, kept = Engine(pair), {}

    def cached(body):
        return kept.setdefault(json.dumps([body["prompt"], body["temperature"]]), engine(body))

    settings = MatrixSettings(tokens=128, alpha=1e-8, cells=("temperature",))
    with serving(cached) as address:
        run = audit_matrix(Endpoint(address, max_tokens=16), PROMPTS[:2], pair, "", settings)
    assert run.cells[0].outcome == "other"
    assert "copies of earlier ones" in run.cells[0].words


def test_text_alone_tells_nothing(pair):
    def reply(_body):
        return {"text": " a", "finish_reason": "length"}

    with serving(reply) as address:
        settings = MatrixSettings(tokens=16, cells=("top-k",))
        run = audit_matrix(Endpoint(address), PROMPTS[:2], pair, "again", settings)
    assert (run.verdict, run.cells[0].outcome) == ("INCONCLUSIVE", "inconclusive")
    assert "text alone" in run.cells[0].words


def test_what_cannot_be_asked_is_one_line(pair, capfd, tmp_path):
    with pytest.raises(UsageError, match="cells: 'sed' is none of"):
        audit_matrix(
            Endpoint("http://localhost:1"), PROMPTS[:2], pair, "", MatrixSettings(cells=("sed",))
        )
    for words, told in (
        ([], "endpoint is missing"),
        (["--endpoint", "http://localhost:1"], "target is missing"),
        (["--endpoint", "http://localhost:1", "--target", "tiny-llama", "--tokens", "1"],
         "tokens is 1"),
        (["--endpoint", "http://localhost:1", "--target", "x", "--order", "y", "--prompts", "p"],
         "order is 'y'"),
        (["--endpoint", "http://localhost:1", "--target", "tiny-llama", "--mask", "m.py:f"],
         "--mask and --mask-body belong together"),
    ):  # fmt: skip
        assert command_line(["matrix", *words]) == 2
        assert told in capfd.readouterr().err


TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}<assistant>"


def half(_prompt, _tokens):
    """Every token is one of the first 300."""
    return range(300)


class Chatting(Engine):
    """Takes conversations and masks; ``honours`` the mask or not; counts ``more`` of a prompt."""

    def __init__(self, pair, honours=True, more=0):
        super().__init__(pair)
        self.honours, self.more = honours, more

    def __call__(self, body):
        with self.lock:
            text = "".join(f"<{m['role']}>{m['content']}|" for m in body["messages"])
            ids = tuple(
                self.pair.tokenizer(f"{text}<assistant>", add_special_tokens=False).input_ids
            )
            masked = self.honours and "guided" in body
            law = Law(body["temperature"], body.get("top_k"),
                      mask=Mask("half", half) if masked else None)  # fmt: skip
            (found,) = answers(
                self.pair, [ids], everywhere(law), length=body["max_tokens"], seed=next(self.count)
            )
        choice = {"message": {"content": ""}, "token_ids": list(found.tokens)}
        choice["finish_reason"] = "length"
        usage = {"prompt_tokens": len(ids) + self.more}
        return Reply(json.dumps({"choices": [choice], "usage": usage}).encode())


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("engine", "outcome"),
    [({}, "honoured"), ({"honours": False}, "dropped"), ({"more": 1}, "inconclusive")],
    ids=["right", "wrong", "another template"],
)
@pytest.mark.thorough
def test_a_mask_is_a_cell_and_conversations_are_asked(engine, outcome, monkeypatch):
    chatty = load_pair("tiny-llama", "tiny-llama")
    monkeypatch.setattr(chatty.tokenizer, "chat_template", TEMPLATE)
    talks = [
        Chat(json.dumps({"messages": [{"role": "user", "content": text[:60]}]}))
        for text in PROMPTS[:4]
    ]
    settings = MatrixSettings(
        tokens=192, alpha=1e-8, cells=("mask",), mask=Mask("half", half),
        mask_body={"guided": "half"},
    )  # fmt: skip
    with serving(Chatting(chatty, **engine)) as address:
        run = audit_matrix(Endpoint(address, max_tokens=12), talks, chatty, "again", settings)
    (cell,) = run.cells
    assert (cell.name, cell.value) == ("mask", "half")
    assert cell.outcome == outcome, cell.words
    if engine.get("more"):
        assert "another number of tokens on the server" in cell.words
    if not engine.get("honours", True):
        assert run.verdict == "FAIL"
