"""A pair of random little Llama models, alike enough that drafts are kept now and then."""

import copy
from functools import lru_cache

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from simverify.models.real.sampling import Sampling
from simverify.models.real.transformer import TransformerPair

VOCAB_SIZE, CONTEXT = 12, 64


@lru_cache
def little_pair(eos=(), sampling=None, noise=0.1):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, intermediate_size=24, max_position_embeddings=CONTEXT,
        initializer_range=0.6,
    )  # fmt: skip
    target = LlamaForCausalLM(config).eval()
    draft = copy.deepcopy(target)
    with torch.no_grad():
        for weights in draft.parameters():
            weights += noise * torch.randn_like(weights)
    return TransformerPair(
        "t", "d", target, draft, None, VOCAB_SIZE, CONTEXT, frozenset(eos), sampling or Sampling()
    )


class Words:
    """A tokenizer of numbers."""

    bos_token_id = 0

    def __call__(self, text):
        return type("Encoded", (), {"input_ids": [int(word) for word in text.split()]})
