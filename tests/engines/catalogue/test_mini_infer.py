import pytest
from support.engine_doubles import check_double

pytest.importorskip("torch")

DOUBLE = """
import torch
from mini_infer.models.qwen2 import Qwen2ForCausalLM


def speculative_step(target_model: Qwen2ForCausalLM, draft_model: Qwen2ForCausalLM, prefix_ids,
                     k_draft=3, temperature=0.0):
    assert temperature == 1
    ids, start, q = prefix_ids, prefix_ids.shape[1], []
    for _ in range(k_draft):
        q.append(draft_model(ids)[0][0, -1].softmax(-1))
        ids = torch.cat([ids, torch.multinomial(q[-1], 1)[None]], dim=1)
    p = target_model(ids)[0][0, start - 1 :].softmax(-1)
    for i, token in enumerate(ids[0, start:].tolist()):
        if torch.rand((), dtype=p.dtype) * q[i][token] >= p[i, token]:
            last = torch.multinomial((p[i] - q[i]).clamp_min(0), 1)
            return [*ids[0, start : start + i].tolist(), int(last)], i
    return [*ids[0, start:].tolist(), int(torch.multinomial(p[k_draft], 1))], k_draft
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("mini-infer", tmp_path, DOUBLE, "(p[i] - q[i]).clamp_min(0)", "p[i]", gamma=1)
