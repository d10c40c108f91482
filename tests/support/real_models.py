"""Random little models: a pair alike enough that drafts are kept now and then, and a deep one."""

import copy
from functools import lru_cache

import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from simverify.models.transformer import Sampling, TransformerPair

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


@lru_cache
def deep_pair(eos=(), sampling=None, scale=0.3):
    """A pair of eight layers, so alike that what drafts lose is lost by layers in groups.

    ``scale``: of the weights; the larger, the farther fuzzy laws are from exact ones.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE, hidden_size=16, num_hidden_layers=8, num_attention_heads=2,
        num_key_value_heads=1, intermediate_size=24, max_position_embeddings=CONTEXT,
        initializer_range=scale,
    )  # fmt: skip
    target = LlamaForCausalLM(config).eval()
    draft = copy.deepcopy(target)
    with torch.no_grad():
        for weights in draft.parameters():
            weights += 0.01 * torch.randn_like(weights)
    return TransformerPair(
        "t", "d", target, draft, None, VOCAB_SIZE, CONTEXT, frozenset(eos), sampling or Sampling()
    )


@lru_cache
def deep_model(kind="llama", layers=10):
    """A model of ``layers`` layers whose two key/value heads serve two queries each."""
    torch.manual_seed(3)
    config = AutoConfig.for_model(
        kind, vocab_size=VOCAB_SIZE, hidden_size=16, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=24,
        max_position_embeddings=CONTEXT, initializer_range=0.2,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("bias") or "norm" in name:  # else all of them begin at 0, and at 1
                weights += 0.2 * torch.randn_like(weights)
    return model


class Words:
    """A tokenizer of numbers."""

    bos_token_id = 0

    def __call__(self, text):
        return type("Encoded", (), {"input_ids": [int(word) for word in text.split()]})
