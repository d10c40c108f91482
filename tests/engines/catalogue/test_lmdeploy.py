import pytest
from support.engine_doubles import check_double, checkout

from simverify.engines import get_engine
from simverify.errors import SimverifyError

pytest.importorskip("torch")

DOUBLE = """
import torch
from somewhere.nobody.has import RejectionSamplingImpl, PLACEHOLDER_TOKEN_ID


class DefaultRejectionSamplingImpl(RejectionSamplingImpl):

    def forward(self, target_logits, draft_token_ids, bonus_token_ids, *, is_greedy,
                draft_probs=None):
        assert is_greedy is None
        rows = target_logits[0].softmax(-1)
        out = torch.full((1, draft_token_ids.size(1) + 1), PLACEHOLDER_TOKEN_ID)
        for i, token in enumerate(draft_token_ids[0].tolist()):
            p, q = rows[i], draft_probs[0, i]
            if torch.rand((), dtype=p.dtype) < p[token] / q[token]:
                out[0, i] = token
                continue
            out[0, i] = torch.multinomial((p - q).clamp_min(0), 1)
            return out, None, None
        out[0, -1] = bonus_token_ids[0]
        return out, None, None
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("lmdeploy", tmp_path, DOUBLE, "(p - q).clamp_min(0)", "p")


def test_another_signature_is_one_line(tmp_path):
    changed = DOUBLE.replace("is_greedy", "greedy")
    with pytest.raises(SimverifyError, match=r"'lmdeploy': .*forward.* and no is_greedy: .*0\.18"):
        get_engine("lmdeploy").load(checkout(tmp_path, "lmdeploy", changed))
