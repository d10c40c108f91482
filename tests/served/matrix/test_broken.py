"""A server that ends in a cell of the matrix: that cell is lost, and no other."""

import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    Reply,
    serving,
)

from simverify.errors import UsageError  # noqa: E402
from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import (  # noqa: E402
    Endpoint,
    client,
)
from simverify.served import matrix as matrix_broken  # noqa: E402
from simverify.served.matrix import (  # noqa: E402
    Cell,
    CellClient,
    CellFailure,
    MatrixSettings,
    _failed_cell,
    audit_matrix,
)

CELLS = ("top-k", "min-p", "temperature")


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(client, "RETRY_WAITS", (0.0,))
    monkeypatch.setattr(matrix_broken, "_RETRY_PAUSE", 0.01)
    monkeypatch.setattr(matrix_broken, "RETRY_SECONDS", 0.3)


class Mortal:
    """Answers five tokens to anything; a top-k ends it, until it is started again."""

    def __init__(self):
        self.alive, self.asked, self.ids = True, [], itertools.cycle(range(5, 900))

    def __call__(self, body):
        if "top_k" in body:
            self.alive = False
            return Reply(b'{"error": "EngineCore encountered an issue"}', 500)
        self.asked.append(next(name for name in ("min_p", "temperature") if name in body))
        ids = [next(self.ids) for _ in range(5)]
        return {"text": "", "token_ids": ids, "finish_reason": "length"}


def test_a_refusal_says_what_was_asked_beside():
    """Min tokens are asked with a bias of the end: a server may refuse that, and not them."""
    why = CellFailure("logit_bias is not supported", True)
    law = Law(min_tokens=8, ends=(0,), logit_bias=((0, 2.0),))
    found = _failed_cell(Cell("min-tokens", "8", law, ()), why)
    assert found.outcome == "refused"
    assert found.words.startswith("asked with a logit bias of the end, which may be what is refus")
    alone = _failed_cell(Cell("min-p", "0.3", Law(min_p=0.3), ()), why)
    assert alone.words == "logit_bias is not supported"


def outcomes(run):
    return {cell.name: cell.outcome for cell in run.cells}


def matrix(address, pair, keep, say=None):
    settings = MatrixSettings(tokens=16, cells=CELLS)
    server = Endpoint(address, max_tokens=5)
    return audit_matrix(server, PROMPTS[:2], pair, "again", settings, keep=keep, progress=say)


def test_what_is_left_is_asked_and_the_cell_that_broke_it_is_named(pair, tmp_path):
    said = []
    with serving(Mortal()) as address:
        run = matrix(address, pair, tmp_path, said.append)
    assert outcomes(run)["top-k"] == "no answer"
    assert {outcomes(run)[name] for name in CELLS[1:]}.isdisjoint({"no answer"})
    (lost,) = [cell for cell in run.cells if cell.name == "top-k"]
    assert "EngineCore encountered an issue" in lost.words
    assert any("the cell top-k is left, and the next is asked" in line for line in said)
    assert "gave no answer to: top-k" in " ".join(str(run).split())
    assert (tmp_path / "top-k.broke").exists()


def test_a_cell_that_broke_it_once_is_asked_last(pair, tmp_path):
    server = Mortal()
    cells = [Cell(name, "", Law(), ()) for name in CELLS]
    (tmp_path / "top-k.broke").write_text("as before\n")
    asker = CellClient(Endpoint("http://a:1"), PROMPTS[:2], pair, tmp_path, lambda _: None)
    assert [cell.name for cell in asker.in_turn(cells)] == ["min-p", "temperature", "top-k"]
    with serving(server) as address:
        matrix(address, pair, tmp_path)
    assert set(server.asked) == {"min_p", "temperature"}


def test_a_server_that_stays_away_leaves_the_rest_unasked(pair, tmp_path):
    server = Mortal()
    cells = {name: Cell(name, "", Law(top_k=2 if name == "top-k" else None), ()) for name in CELLS}
    with serving(server) as address:
        asker = CellClient(Endpoint(address, max_tokens=5), PROMPTS[:2], pair, None, lambda _: None)
        assert len(asker.answers(cells["temperature"], 10)) == 2
        assert asker.answers(cells["top-k"], 10).words.startswith("no answer: ")
    for name in ("min-p", "temperature"):  # nobody listens any more
        why = asker.answers(cells[name], 10)
        assert why == CellFailure("not asked: the server was gone since the cell top-k", False)


def test_one_that_never_answered_is_one_line_as_ever(pair, tmp_path):
    def broken(_body):
        return Reply(b"no", 500)

    with serving(broken) as address, pytest.raises(UsageError, match="answers 500: no"):
        matrix(address, pair, tmp_path)


def test_short_answers_make_no_more_requests_than_long_ones(pair):
    """With min tokens dropped an answer may be one token: so many requests would be sent."""
    asked = []

    def short(body):
        asked.append(body)
        return {"text": "", "token_ids": [5], "finish_reason": "length"}

    cell = Cell("min-tokens", "8", Law(min_tokens=8, ends=(0,)), ())
    with serving(short) as address:
        asker = CellClient(
            Endpoint(address, max_tokens=16), PROMPTS[:2], pair, None, lambda _: None
        )
        assert len(asker.answers(cell, 160)) == len(asked) == 20
