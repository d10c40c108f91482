"""FlashInfer's adapter, on a double in plain torch: the kernel itself needs a GPU."""

import pytest
from support.engine_doubles import checkout
from support.whole_laws import compare_verify

from simverify.cli import run
from simverify.engines import get_engine
from simverify.engines.catalogue.blocks import flashinfer_chain_sampling
from simverify.errors import SimverifyError, UsageError
from simverify.models.base import compact

torch = pytest.importorskip("torch")

DOUBLE = """\
import torch


def chain_speculative_sampling(draft_probs, draft_token_ids, target_probs):
    assert draft_token_ids.dtype == torch.int32
    b, n = draft_token_ids.shape
    tokens = torch.full((b, n + 1), -1, dtype=torch.int32)
    for row in range(b):
        rest = target_probs[row, n]
        for i in range(n):
            x = draft_token_ids[row, i].long()
            p, q = target_probs[row, i], draft_probs[row, i]
            if torch.rand(()) * q[x] >= p[x]:
                rest, n = (p - q).clamp(min=0), i
                break
            tokens[row, i] = x
        tokens[row, n] = torch.multinomial(rest, 1)[0]
    return tokens, torch.zeros(b), torch.zeros(b)
"""

on_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def deviation(text):
    names = {}
    exec(text, names)
    verify = flashinfer_chain_sampling(names["chain_speculative_sampling"], "cpu")
    return compare_verify(verify, compact(), 2).max_abs_deviation


def test_the_adapter_gives_the_law_of_what_it_calls():
    assert deviation(DOUBLE) < 1e-6
    assert deviation(DOUBLE.replace("(p - q).clamp(min=0)", "p")) > 1e-3


def test_the_two_rows_are_not_exchanged():
    """The function takes the draft's first."""
    exchanged = DOUBLE.replace("(draft_probs, draft_token_ids, target_probs)",
                               "(target_probs, draft_token_ids, draft_probs)")  # fmt: skip
    assert exchanged != DOUBLE
    assert deviation(exchanged) > 1e-3


@on_gpu
def test_without_a_gpu_it_is_one_line(tmp_path):
    folder = checkout(tmp_path, "flashinfer", DOUBLE)
    with pytest.raises(UsageError, match="runs on an NVIDIA GPU alone, and torch finds none"):
        get_engine("flashinfer").load(folder)


@on_gpu
def test_the_list_says_what_it_needs(tmp_path, capsys, monkeypatch):
    asked = ["table", "--list", "--engines", "flashinfer"]
    assert run(asked) == 0
    told = capsys.readouterr().out
    assert "not here" in told
    assert "pip install 'flashinfer-python>=0.7,<0.8' torch" in told
    assert "runs on an NVIDIA GPU alone" in told
    monkeypatch.syspath_prepend(str(checkout(tmp_path, "flashinfer", DOUBLE)))
    assert run(asked) == 0
    assert "needs an NVIDIA GPU too" in capsys.readouterr().out


@on_gpu
def test_another_signature_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    folder = checkout(tmp_path, "flashinfer", DOUBLE.replace("draft_token_ids", "candidates"))
    with pytest.raises(SimverifyError, match=r"and no draft_token_ids: .* >=0\.7,<0\.8"):
        get_engine("flashinfer").load(folder)
