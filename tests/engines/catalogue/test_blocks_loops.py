"""Loops that take two models and a prompt, or a block's drafts and target in one call."""

import pytest
from support.engine_doubles import check_double, check_signature, checkout

from simverify.engines import get_engine
from simverify.models.base import compact

torch = pytest.importorskip("torch")

KEEP = """
def keep(tokens, p, q):
    for i, token in enumerate(tokens):
        if torch.rand((), dtype=p.dtype) < p[i, token] / q[i, token]:
            continue
        return [*tokens[:i], int(torch.multinomial((p[i] - q[i]).clamp(min=0), 1))]
    return [*tokens, int(torch.multinomial(p[-1], 1))]
"""
WRONG = ("(p[i] - q[i]).clamp(min=0)", "p[i]")

FULL = """
def block(prompt, target, draft, gamma):
    ids = prompt
    for _ in range(gamma):
        row = draft(ids).logits[0, -1].softmax(-1)
        ids = torch.cat([ids, torch.multinomial(row, 1)[None]], 1)
    length = prompt.shape[1]
    p = target(ids).logits[0, length - 1:].softmax(-1)
    q = draft(ids).logits[0, length - 1 : -1].softmax(-1)
    return torch.tensor([[*prompt[0].tolist(), *keep(ids[0, length:].tolist(), p, q)]])
"""

GPT_FAST = (
    """
import torch
import torch.nn.functional
from tokenizer import get_tokenizer

torch.nn.functional.option = True
create_block_mask = torch.compile(create_block_mask)


def decode_n_tokens(model, cur_token, input_pos, num_new_tokens):
    mask = create_block_mask(None, 1, 1, model.max_seq_length)
    tokens, rows = [], []
    for _ in range(num_new_tokens):
        part = mask[:, :, input_pos // mask.BLOCK_SIZE[0]]
        part.mask_mod, part.seq_lengths = mask.mask_mod, (1, model.max_seq_length)
        rows.append(model(part, cur_token, input_pos)[:, -1].softmax(-1))
        tokens.append(torch.multinomial(rows[-1], 1))
        cur_token = tokens[-1]
        input_pos += 1
    return tokens, rows


def speculative_decode(model, draft_model, cur_token, input_pos, speculate_k):
    place = torch.tensor([input_pos])
    drafts, q = decode_n_tokens(draft_model, cur_token.view(1, 1), place, speculate_k)
    drafts = torch.cat(drafts)
    ids = torch.cat([cur_token.view(1), drafts]).view(1, -1)
    p = model(ids, torch.arange(input_pos, input_pos + speculate_k + 1))[0].softmax(-1)
    return torch.tensor(keep(drafts.tolist(), p, torch.stack(q)))
"""
    + KEEP
)


def test_gpt_fast(tmp_path):
    check_double("gpt-fast", tmp_path, GPT_FAST, *WRONG)
    check_signature("gpt-fast", tmp_path, GPT_FAST, "speculate_k")


def test_gpt_fast_as_it_is_meets_the_batch_axis(tmp_path):
    step = get_engine("gpt-fast-as-is").load(checkout(tmp_path, "gpt-fast-as-is", GPT_FAST))
    with pytest.raises(RuntimeError, match="Tensors must have same number of dimensions"):
        step((), compact().target, compact().draft, 1, None)


ROMSTO = (
    """
import torch
import utils.printing as printing
from utils.caching import prune_cache
from utils.logits_processor import LogitsProcessor, GreedyProcessor


def speculative_generate(inputs, drafter, target, tokenizer=None, gamma=5,
                         logits_processor: LogitsProcessor = GreedyProcessor(), max_gen_len=40,
                         eos_tokens_id=1, use_cache=False, first_target=True):
    ids = torch.tensor([inputs])
    while ids.shape[1] < len(inputs) + max_gen_len:
        if use_cache:
            prune_cache(printing)
        count = min(gamma, len(inputs) + max_gen_len - ids.shape[1] - 1)
        ids = block(ids, target, drafter, count)
    assert int(logits_processor.sample(torch.ones(1, 1))) == 0
    return ids[0, len(inputs):].tolist(), 0.0
"""
    + KEEP
    + FULL
)

PROCESSORS = """
import torch


class GreedyProcessor:
    pass


class MultinomialProcessor:
    def __init__(self, temperature):
        assert temperature == 1

    def sample(self, rows):
        return torch.multinomial(rows, 1)
"""


def test_romsto(tmp_path):
    beside = {"utils/logits_processor.py": PROCESSORS}
    check_double("romsto", tmp_path, ROMSTO, *WRONG, beside=beside)
    check_signature("romsto", tmp_path, ROMSTO, "first_target", beside)


LLAMA_SSP = (
    """
import torch
from logging import debug
from lssp.base import get_temperature_distribution, sample_fn, stream_token_if_required, tokenizer


def _ssp_iteration(target_model, draft_model, input_ids, K=4, display=False):
    ids = input_ids
    debug(tokenizer.decode(ids[0]))
    for _ in range(K):
        ids = torch.cat([ids, sample_fn(draft_model(ids).logits[:, -1])[None]], 1)
        stream_token_if_required(ids)
    length = input_ids.shape[1]
    p = get_temperature_distribution(target_model(ids).logits[0, length - 1:])
    q = get_temperature_distribution(draft_model(ids).logits[0, length - 1 : -1])
    return torch.tensor([[*input_ids[0].tolist(), *keep(ids[0, length:].tolist(), p, q)]])
"""
    + KEEP
)

BASE = """
import torch
from transformers import LlamaTokenizer

tokenizer = LlamaTokenizer.from_pretrained("nobody/has-it")
TEMPERATURE = 0.25


def get_temperature_distribution(logits, temperature=TEMPERATURE):
    return (logits / temperature).softmax(-1)


def sample_fn(logits):
    return torch.multinomial(get_temperature_distribution(logits), 1)[:, 0]


def stream_token_if_required(ids):
    tokenizer.decode(ids[0])
"""


def test_llama_ssp_at_its_temperature(tmp_path):
    beside = {"lssp/base.py": BASE}
    check_double("llama-ssp", tmp_path, LLAMA_SSP, *WRONG, beside=beside)
    check_signature("llama-ssp", tmp_path, LLAMA_SSP, "K", beside)


SHREYANSH_OLD = (
    """
import torch
from utils import sample_from_draft_model, get_distribution, sample
from transformers import AutoTokenizer


def speculative_sampling(target_model, draft_model, initial_prompt_seq, target_len, tokenizer,
                         lookahead=4, temperature=1.0, debug=True):
    assert target_len == initial_prompt_seq.shape[1] + 1
    ids = sample_from_draft_model(draft_model, initial_prompt_seq, lookahead)
    length = initial_prompt_seq.shape[1]
    p = get_distribution(target_model(ids).logits[0, length - 1:])
    q = get_distribution(draft_model(ids).logits[0, length - 1 : -1])
    out = keep(ids[0, length:].tolist(), p, q)
    return torch.tensor([[*initial_prompt_seq[0].tolist(), *out]])
"""
    + KEEP
)

UTILS = """
import torch


def get_distribution(logits):
    return logits.softmax(-1)


def sample(logits):
    return torch.multinomial(get_distribution(logits), 1)


def sample_from_draft_model(model, ids, count):
    for _ in range(count):
        ids = torch.cat([ids, sample(model(ids).logits[:, -1])], 1)
    return ids
"""


def test_shreyansh_old(tmp_path):
    beside = {"utils.py": UTILS}
    check_double("shreyansh-old", tmp_path, SHREYANSH_OLD, *WRONG, beside=beside)
    check_signature("shreyansh-old", tmp_path, SHREYANSH_OLD, "lookahead", beside)


SHREYANSH_NEW = (
    """
from dataclasses import dataclass

import torch


@dataclass(slots=True)
class VerificationResult:
    emitted_ids: list[int]


def probabilistic_verify(model, prefix_ids, draft_ids, draft_probs, generator=None):
    p = model(torch.tensor([[*prefix_ids, *draft_ids]])).logits[0].softmax(-1)
    return VerificationResult(keep(draft_ids, p, draft_probs))
"""
    + KEEP
)


def test_shreyansh_new(tmp_path):
    check_double("shreyansh-new", tmp_path, SHREYANSH_NEW, *WRONG)
    check_signature("shreyansh-new", tmp_path, SHREYANSH_NEW, "draft_probs")


TAIYOO = """
import torch
from src.sampling import probs_from_logits


def _verify_block(verify_logits, draft_tokens, q_token_probs, q_step_logits, gen_kwargs):
    p = probs_from_logits(verify_logits, gen_kwargs)
    for i, token in enumerate(draft_tokens.tolist()):
        if float(torch.rand(1)) < p[i, token] / q_token_probs[i]:
            continue
        q = probs_from_logits(q_step_logits[i], gen_kwargs)
        return int(torch.multinomial((p[i] - q).clamp(min=0), 1)), i
    return int(torch.multinomial(p[-1], 1)), len(draft_tokens)
"""

SAMPLING = """
def probs_from_logits(logits, gen_kwargs):
    assert gen_kwargs == {"do_sample": True, "temperature": 1.0, "top_p": 1.0}
    return logits.softmax(-1)
"""


def test_taiyoo(tmp_path):
    beside = {"src/sampling.py": SAMPLING}
    check_double("taiyoo", tmp_path, TAIYOO, "(p[i] - q).clamp(min=0)", "p[i]", beside=beside)
    check_signature("taiyoo", tmp_path, TAIYOO, "q_step_logits", beside)
