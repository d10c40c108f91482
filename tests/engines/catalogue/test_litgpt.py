import pytest
from support.engine_doubles import check_double

pytest.importorskip("torch")

DOUBLE = """
import lightning as L
import torch
from litgpt.generate.base import multinomial_num_samples_1, sample_top_p
from litgpt.model import GPT


def speculative_decoding(draft_model: GPT, target_model: GPT, token, input_pos, input_pos_maxp1,
                         speculative_k, **sample_kwargs):
    heat = sample_kwargs.get("temperature", 1.0)
    tokens, place, q = token, input_pos.clone(), []
    for _ in range(speculative_k):
        row = draft_model(idx=tokens[None, -1:], input_pos=place, input_pos_maxp1=input_pos_maxp1)
        q.append((row[0, -1] / heat).softmax(-1))
        tokens = torch.cat([tokens, multinomial_num_samples_1(q[-1])])
        place += 1
    places = input_pos + torch.arange(speculative_k + 1)
    end = input_pos_maxp1 + speculative_k
    rows = target_model(idx=tokens[None], input_pos=places, input_pos_maxp1=end)[0]
    if sample_kwargs.get("top_p", 1.0) < 1:
        rows = sample_top_p(rows, sample_kwargs["top_p"])
    p = (rows / heat).softmax(-1)
    for i, drafted in enumerate(tokens[1:].tolist()):
        if torch.rand((), dtype=p.dtype) * q[i][drafted] >= p[i, drafted]:
            last = multinomial_num_samples_1((p[i] - q[i]).clamp_min(0))
            return torch.cat([tokens[1 : i + 1], last])
    return torch.cat([tokens[1:], multinomial_num_samples_1(p[-1])])
"""


@pytest.mark.parametrize("name", ["litgpt", "litgpt-hot"])
def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path, name):
    check_double(name, tmp_path, DOUBLE, "(p[i] - q[i]).clamp_min(0)", "p[i]", gamma=1)


def test_a_temperature_that_is_left_out_is_seen(tmp_path):
    check_double("litgpt-hot", tmp_path, DOUBLE, "p = (rows / heat)", "p = rows", gamma=1)
