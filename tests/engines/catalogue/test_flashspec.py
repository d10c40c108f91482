import pytest
from support.engine_doubles import check_double

pytest.importorskip("torch")

DOUBLE = """
import torch
from flashspec.utils.logging import get_logger

logger = get_logger(__name__)


def rejection_step(draft_token_ids, draft_logprobs, target_logprobs, *, generator=None):
    gamma = draft_token_ids.size(1)
    p, q = target_logprobs[0].exp(), draft_logprobs[0].exp()
    for i, token in enumerate(draft_token_ids[0].tolist()):
        if torch.rand((), dtype=p.dtype) * q[i, token] >= p[i, token]:
            logger and logger.info("rejected")
            last = torch.multinomial((p[i] - q[i]).clamp_min(0), 1)
            return torch.tensor([[i, int(last)]])
    return torch.tensor([[gamma, int(torch.multinomial(p[gamma], 1))]])
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("flashspec", tmp_path, DOUBLE, "(p[i] - q[i]).clamp_min(0)", "p[i]")
