import pytest
from support.engine_doubles import check_double

pytest.importorskip("torch")

DOUBLE = """
import torch
from beartype import beartype
from einops import rearrange
from torch import Tensor
from torch.nn import Module


@torch.no_grad()
def speculative_decoding(net: Module, small_net: Module, prompt: Tensor, seq_len, gamma=5,
                         temperature=1.0, filter_thres=0.9, lenience=1.0, pad_id=0):
    assert filter_thres == 0
    out = prompt
    while out.shape[1] < seq_len:
        start, q = out.shape[1], []
        for _ in range(gamma):
            logits, cache = small_net(out, cache=None, return_cache=True)
            q.append(logits[0, -1].softmax(-1))
            out = torch.cat([out, rearrange(torch.multinomial(q[-1], 1), "b -> b 1")], dim=1)
        p = net(out, cache=None)[0][0, start - 1 :].softmax(-1)
        kept, row = gamma, p[gamma]
        for i, token in enumerate(out[0, start:].tolist()):
            if torch.rand((), dtype=p.dtype) * q[i][token] >= p[i, token]:
                kept, row = i, (p[i] - q[i]).clamp_min(0)
                break
        out = torch.cat([out[:, : start + kept], torch.multinomial(row, 1)[None]], dim=1)
    return out[:, prompt.shape[1] : seq_len], 1.0
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("lucidrains", tmp_path, DOUBLE, "(p[i] - q[i]).clamp_min(0)", "p[i]", gamma=1)


def test_a_row_that_is_one_late_is_seen(tmp_path):
    check_double("lucidrains", tmp_path, DOUBLE, "start - 1 :", "start - 2 :", gamma=1)
