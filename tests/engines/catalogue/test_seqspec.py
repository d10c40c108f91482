import pytest
from support.engine_doubles import check_double

from simverify.engines import get_engine

pytest.importorskip("torch")

SAMPLING = """
import torch


def get_logits(model, input_ids):
    return model(input_ids).logits[0]


def apply_temperature(logits, temperature):
    return (logits / temperature).softmax(-1)


def sample_from_probs(probs):
    return torch.multinomial(probs, 1)
"""

DOUBLE = """
import torch
from .sampling import get_logits, apply_temperature, sample_from_probs


@torch.no_grad()
def FUNCTION(draft_model, target_model, input_ids, gamma=5, draft_temperature=0.6,
             target_temperature=0.6):
    ids, start, q = input_ids, input_ids.shape[1], []
    for _ in range(gamma):
        q.append(apply_temperature(get_logits(draft_model, ids)[-1], draft_temperature))
        ids = torch.cat([ids, sample_from_probs(q[-1])[None]], dim=1)
    p = apply_temperature(get_logits(target_model, ids)[start - 1 :], target_temperature)
    for i in range(gamma):
        token = ids[0, start + i]
        if torch.rand((), dtype=p.dtype) * q[i][token] >= p[i, token]:
            rest = (p[i] - q[i]).clamp_min(0)
            last = sample_from_probs(rest / rest.sum())
            return torch.cat([ids[:, : start + i], last[None]], dim=1), i, gamma
    return torch.cat([ids, sample_from_probs(p[gamma])[None]], dim=1), gamma, gamma
"""


@pytest.mark.parametrize("name", ["seqspec-standard", "seqspec-naive", "seqspec-capped"])
@pytest.mark.thorough
def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path, name):
    for side in ("right", "wrong"):
        near = tmp_path / side / "seqspecdecod" / "sampling.py"
        near.parent.mkdir(parents=True)
        near.write_text(SAMPLING)
    text = DOUBLE.replace("FUNCTION", get_engine(name).function)
    check_double(name, tmp_path, text, "(p[i] - q[i]).clamp_min(0)", "p[i]", gamma=1)
