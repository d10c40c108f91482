import pytest
from support.engine_doubles import check_double

pytest.importorskip("torch")

RULE = "rejection_random_sample_NAMEpytorch"
DOUBLE = f"""
import torch
from nobody.triton_utils import HAS_TRITON, triton
from nobody.kernels import sample_recovered_tokens_kernel


def sample_recovered_tokens(max_spec_len, num_draft_tokens, cu_num_draft_tokens, draft_token_ids,
                            draft_probs, target_probs, sampling_metadata, device,
                            use_block_verify=False):
    if HAS_TRITON:
        return sample_recovered_tokens_kernel[(1,)]()
    assert num_draft_tokens == [max_spec_len] and use_block_verify is ASKED
    residual = (target_probs - draft_probs).clamp(min=0)
    noise = torch.empty(1, target_probs.shape[1]).exponential_()
    return (residual / noise).argmax(dim=1)


def {RULE}(output_token_ids, cu_num_draft_tokens, draft_token_ids, draft_probs, target_probs,
           bonus_token_ids, recovered_token_ids, uniform_probs, is_greedy, max_spec_len,
           vocab_size, IS_NGRAM=False):
    places = torch.arange(max_spec_len, pin_memory=True)
    p, q = target_probs[places, draft_token_ids], draft_probs[places, draft_token_ids]
    for i in range(max_spec_len):
        if uniform_probs[i] * q[i] > p[i]:
            output_token_ids[0, i] = recovered_token_ids[i]
            return
        output_token_ids[0, i] = draft_token_ids[i]
    output_token_ids[0, max_spec_len] = bonus_token_ids[0, 0]
"""


@pytest.mark.parametrize(
    ("name", "rule", "asked"),
    [
        ("ascend-token", "", "False"),
        ("ascend-block", "block_verify_", "False"),
        ("ascend-block-fix", "block_verify_", "True"),
    ],
)
def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path, name, rule, asked):
    text = DOUBLE.replace("NAME", rule).replace("ASKED", asked)
    check_double(name, tmp_path, text, "(target_probs - draft_probs).clamp(min=0)", "target_probs")
