import pytest
from support.engine_doubles import check_double

from simverify.engines import get_engine
from simverify.errors import UsageError

pytest.importorskip("torch")

DOUBLE = """
import torch
from tensorrt_llm.bindings.executor import FinishReason


def get_rejected_indices(draft_probs, target_probs, generator, draft_tokens):
    ids = torch.tensor(draft_tokens, dtype=torch.int64, pin_memory=True).to(generator.device)
    places = torch.arange(len(ids))
    ratio = target_probs[places, ids] / draft_probs[places, ids]
    return (torch.rand(ratio.shape, generator=generator) >= ratio).nonzero()


def sample_rejected(draft_probs, target_probs, generator, num_accepted):
    rest = (target_probs[num_accepted] - draft_probs[num_accepted]).clamp_min(0)
    return int(torch.multinomial(rest, num_samples=1, generator=generator))
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("trtllm", tmp_path, DOUBLE, " - draft_probs[num_accepted]", "")


def test_it_is_no_package_that_can_be_installed():
    with pytest.raises(UsageError, match=r"git clone .*TensorRT-LLM .*--engine-path"):
        get_engine("trtllm").load()
