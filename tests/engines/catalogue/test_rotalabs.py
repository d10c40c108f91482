import numpy as np
import pytest
from support.engine_doubles import checkout
from support.whole_laws import compare_verify

from simverify.engines import get_engine
from simverify.models.base import MarkovModel

pytest.importorskip("torch")

SAMPLING = """
import torch
import torch.nn.functional as F


def sample_from_logits(logits, temperature=1.0, top_p=None, use_sampling=True):
    probs = F.softmax(logits, dim=-1)
    token = torch.multinomial(probs, 1)[:, 0]
    return token, probs[0, token]


def rejection_sample(target_prob, draft_prob, draft_token, target_logits, use_sampling=True):
    if torch.rand((), dtype=target_prob.dtype) * draft_prob < target_prob:
        return True, draft_token
    rest = F.softmax(target_logits, dim=-1)
    rest[draft_token] = 0
    return False, torch.multinomial(rest, 1)[0]
"""

CORE = """
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache
from .sampling import rejection_sample, sample_from_logits


@torch.no_grad()
def verify_tokens(model: PreTrainedModel, input_ids, draft_tokens, draft_probs, past_key_values,
                  temperature=1.0, top_p=0.9, use_sampling=True):
    assert top_p == 1 and not isinstance(past_key_values, (DynamicCache, tuple))
    ids = torch.cat([input_ids, draft_tokens[None]], dim=1)
    logits = model(ids, past_key_values=past_key_values, use_cache=True).logits
    rows = logits[0].softmax(-1)
    out = []
    for p, token, q in zip(rows, draft_tokens, draft_probs):
        if torch.rand((), dtype=p.dtype) * q >= p[token]:
            p[token] = 0
            out.append(torch.multinomial(p, 1))
            return torch.cat(out), len(out) - 1, None
        out.append(token[None])
    out.append(sample_from_logits(logits[:, -1])[0])
    return torch.cat(out), len(out) - 1, None
"""

# Of the draft the engine is told the drafted token's probability: with two tokens that is enough.
P, Q = np.array([[0.25, 0.75], [0.6, 0.4]]), np.array([[0.7, 0.3], [0.45, 0.55]])
MODEL = MarkovModel("two", P[0], P, Q[0], Q)


def deviation(folder, name, core, sampling):
    place = checkout(folder, "rotalabs", sampling) / "rotalabs_accel" / "speculative"
    (place / "core.py").write_text(core)
    return compare_verify(get_engine(name).load(folder), MODEL, 2).max_abs_deviation


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("rotalabs", "rest[draft_token] = 0", "rest = rest * 1"),
        ("rotalabs-core", "p[token] = 0", "p = p * 1"),
    ],
)
def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path, name, right, wrong):
    assert deviation(tmp_path / "right", name, CORE, SAMPLING) < 1e-6
    faulty = [text.replace(right, wrong) for text in (CORE, SAMPLING)]
    assert faulty != [CORE, SAMPLING]
    assert deviation(tmp_path / "wrong", name, *faulty) > 1e-2
