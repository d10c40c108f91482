"""The server of Transformers' generate answers, and is wrong in the ways that it says."""

import json
import threading
import urllib.error
import urllib.request
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from support.pages.scripts import load

pytest.importorskip("transformers")
import torch
from transformers.generation import utils

SERVER = Path(__file__).parents[2] / "benchmarks/serving/generate_server.py"


@pytest.fixture(scope="module")
def script():
    return load(SERVER)


def accepted(verify, calls=400):
    """How often a draft of probability .2 under the target and .8 under the draft is accepted."""
    draft = torch.tensor([[[0.8, 0.2]]]).log()
    target = torch.tensor([[[0.2, 0.8], [0.5, 0.5]]]).log()
    ids = torch.tensor([[1, 0]])
    return sum(int(verify(ids, draft, 1, target)[1]) for _ in range(calls))


@pytest.mark.distribution
def test_each_verifier_accepts_as_often_as_it_says(script):
    torch.manual_seed(7)
    right = utils._speculative_sampling
    assert abs(accepted(right) - 100) < 45, "p/q is 1/4, and 45 are five standard deviations"
    assert abs(accepted(partial(script.lenient, right, 0.5)) - 200) < 51
    assert accepted(partial(script.synthetic, 2)) == 400
    assert abs(accepted(right) - 100) < 45, "torch is as it was"


@pytest.fixture(scope="module")
def address(script):
    argv = ["assisted", "--seed", "5"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["generate_server.py", *argv])
        engine = script.Engine(script.arguments())
    server = ThreadingHTTPServer(("127.0.0.1", 0), script.handler(engine))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/completions"
    server.shutdown()
    server.server_close()


def ask(address, **request):
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=60) as answer:
        return json.load(answer)


def test_it_answers_in_ids_and_one_seed_answers_alike(address):
    first, second = (ask(address, prompt="def f(", max_tokens=6, temperature=1) for _ in "ab")
    choice = first["choices"][0]
    assert len(choice["token_ids"]) == first["usage"]["completion_tokens"] <= 6
    assert choice["token_ids"] == second["choices"][0]["token_ids"]
    assert ask(address, prompt=[1, 2], max_tokens=2, temperature=0)["usage"]["prompt_tokens"] == 2


@pytest.mark.parametrize("request_", [{}, {"prompt": "a", "max_tokens": "x"}])
def test_what_is_no_request_is_refused(address, request_):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(address, **request_)
    assert error.value.code == 400
    error.value.close()
