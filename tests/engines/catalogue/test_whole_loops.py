"""Loops that keep caches, generators or text of their own."""

import pytest
from support.engine_doubles import check_double, check_signature, checkout, largest_deviation

from simverify.engines import get_engine

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

TOYLLM = """
from dataclasses import dataclass

import numpy as np
import tiktoken
import torch

from toyllm.core import GenerationConfig


@dataclass
class SpsTextGenerator:
    tokenizer: tiktoken.Encoding
    target_model: object
    draft_model: object
    lookahead: int = 5
    seed: int = 42

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)

    def generate(self, prompt, config=None):
        print(config or GenerationConfig())
        ids = torch.tensor(self.tokenizer.encode(prompt)).to(self.target_model.device())
        length = len(ids)
        for _ in range(self.lookahead):
            row = self.draft_model.inference(ids, config)[-1]
            ids = torch.cat([ids, torch.multinomial(row, 1)])
        p = self.target_model.inference(ids, config)[length - 1:]
        q = self.draft_model.inference(ids, config)[length - 1 : -1]
        tokens, kept = ids[length:].tolist(), 0
        while kept < self.lookahead:
            token = tokens[kept]
            if self.rng.random() >= (p[kept, token] / q[kept, token]).item():
                row = (p[kept] - q[kept]).clamp(min=0)
                break
            row, kept = p[kept + 1], kept + 1
        out = [*tokens[:kept], int(torch.multinomial(row, 1))]
        return self.tokenizer.decode([*ids[:length].tolist(), *out])
"""
WRONG_ROW = ("(p[kept] - q[kept]).clamp(min=0)", "p[kept]")


def test_toyllm(tmp_path, capsys):
    check_double("toyllm", tmp_path, TOYLLM, *WRONG_ROW)
    check_signature("toyllm", tmp_path, TOYLLM, "config")
    assert capsys.readouterr().out == ""


def test_toyllm_as_it_is_throws_the_same_coins_each_time(tmp_path):
    assert largest_deviation("toyllm-as-is", checkout(tmp_path, "toyllm-as-is", TOYLLM)) > 1e-3


FEIFEIBEAR = """
import torch
from tqdm import tqdm

from sampling.kvcache_model import KVCacheModel
from sampling.utils import norm_logits, sample, max_fn
from globals import Decoder


def speculative_sampling(prefix, approx_model, target_model, max_len, gamma=4, verbose=False):
    if verbose:
        Decoder().decode(prefix)
    cache = KVCacheModel(approx_model)
    ids = cache.generate(prefix, gamma)
    p = torch.stack([norm_logits(row) for row in target_model(ids).logits[0]])
    out = keep(ids[0, prefix.shape[1]:].tolist(), p[prefix.shape[1] - 1:], cache.rows)
    return torch.tensor([[*prefix[0].tolist(), *out]])


def speculative_sampling_v2(prefix, approx_model, target_model, max_len, gamma=4):
    with tqdm(total=1, desc="tokens") as bar:
        bar.update(1 - bar.n)
        return speculative_sampling(prefix, approx_model, target_model, max_len, gamma)


def keep(tokens, p, q):
    for i, token in enumerate(tokens):
        if torch.rand((), dtype=p.dtype) < p[i, token] / q[i, token]:
            continue
        return [*tokens[:i], int(sample(max_fn(p[i] - q[i])))]
    return [*tokens, int(sample(p[-1]))]
"""
BESIDE = {
    "sampling/utils.py": """
import torch


def norm_logits(logits):
    return logits.softmax(-1)


def sample(probs):
    token = torch.multinomial(probs, 1)
    if token.item() == 0:
        raise RuntimeError
    return token


def max_fn(x):
    return x.clamp(min=0) / x.clamp(min=0).sum()
""",
    "sampling/kvcache_model.py": """
import torch
from sampling.utils import norm_logits, sample
from transformers.models.bloom.modeling_bloom import BloomForCausalLM


class KVCacheModel:
    def __init__(self, model):
        assert not isinstance(model, BloomForCausalLM)
        self.model, self.rows = model, []

    def generate(self, ids, gamma):
        for _ in range(gamma):
            self.rows.append(norm_logits(self.model(ids).logits[0, -1]))
            ids = torch.cat([ids, sample(self.rows[-1])[None]], 1)
        self.rows = torch.stack(self.rows)
        return ids
""",
}


@pytest.mark.parametrize("name", ["feifeibear-google", "feifeibear-deepmind"])
@pytest.mark.thorough
def test_feifeibear_never_draws_token_0(name, tmp_path):
    check_double(name, tmp_path, FEIFEIBEAR, "max_fn(p[i] - q[i])", "p[i]", beside=BESIDE)
    check_signature(name, tmp_path, FEIFEIBEAR, "approx_model", BESIDE)


def test_feifeibear_as_it_is_cannot_draw_token_0(tmp_path):
    folder = checkout(tmp_path, "feifeibear-as-is", FEIFEIBEAR, BESIDE)
    step = get_engine("feifeibear-as-is").load(folder)
    with pytest.raises(RuntimeError):
        step((), lambda prefix: [1.0, 0.0], lambda prefix: [1.0, 0.0], 1, None)


JAYMODY = """
import numpy as np
from tqdm import tqdm

from gpt2 import gpt2


def sample(p):
    return np.random.choice(len(p), p=p)


def speculative_sampling(x, draft_model, target_model, N, K):
    with tqdm(total=N, desc="tokens") as bar:
        ids = x
        for _ in range(K):
            ids = np.append(ids, sample(draft_model(ids)[-1]))
        p, q = target_model(ids), draft_model(ids)
        for i in range(len(x) - 1, len(ids) - 1):
            bar.update(1)
            if np.random.random() >= p[i, ids[i + 1]] / q[i, ids[i + 1]]:
                rest = np.maximum(p[i] - q[i], 0)
                return np.append(ids[: i + 1], sample(rest / rest.sum()))
        return np.append(ids, sample(p[-1]))


if __name__ == "__main__":
    p = gpt2("a model that nobody has")
"""


def test_jaymody(tmp_path):
    check_double("jaymody", tmp_path, JAYMODY, "np.maximum(p[i] - q[i], 0)", "p[i]")
    check_signature("jaymody", tmp_path, JAYMODY, "N")


LIMEI = (
    """
from dataclasses import dataclass

import torch
from transformers import DynamicCache


def truncate_kv(cache, length):
    assert isinstance(cache, DynamicCache)


@dataclass
class SpeculativeConfig:
    gamma: int = 5
    temperature: float = 0.6
    top_p: float = 0.9
    top_k: int = 50


class SpeculativeDecoder:
    def __init__(self, target_model, draft_model, tokenizer, config, device="cuda"):
        assert (config.temperature, config.top_p, config.top_k) == (1, 1, 0)
        self.target_model, self.draft_model, self.config = target_model, draft_model, config

    def _generate_draft_tokens(self):
        tokens, rows, token = [], [], self.next_token
        for _ in range(self.config.gamma):
            row = self.draft_model(token, past_key_values=self.draft_kv_cache)[0][:, -1]
            rows.append(row.softmax(-1))
            token = torch.multinomial(rows[-1], 1)
            tokens.append(token)
        return torch.cat(tokens, 1), torch.stack(rows, 1)

    def _verify_draft_tokens(self, draft_tokens, draft_token_probs):
        ids = torch.cat([self.next_token, draft_tokens], 1)
        logits = self.target_model(ids, past_key_values=self.target_kv_cache)[0]
        truncate_kv and None
        out = keep(draft_tokens[0].tolist(), logits[0].softmax(-1), draft_token_probs[0])
        return torch.tensor([out[:-1]]), len(out) - 1, torch.tensor([out[-1:]])
"""
    + KEEP
)


def test_limei(tmp_path):
    check_double("limei", tmp_path, LIMEI, *WRONG)
    check_signature("limei", tmp_path, LIMEI, "draft_token_probs")


DRSY = (
    """
import torch
from time import time


class Color:
    @staticmethod
    def print(content, color):
        print(content)


@torch.inference_mode()
def speculative_sampling(input_prompt, tgt_model, draft_model, tokenizer, k, gen_kwargs):
    started = time()
    prompt = tokenizer([input_prompt], return_tensors="pt").to(model.device)["input_ids"]
    out = draft_model(input_ids=prompt, use_cache=True)
    past, row = out.past_key_values, out.logits[:, -1].softmax(-1)
    known = tgt_model(input_ids=prompt[:, :-1], use_cache=True).past_key_values
    tokens, q = [], []
    for _ in range(k):
        token = torch.multinomial(row, 1)
        tokens.append(int(token))
        q.append(row[0])
        out = draft_model(input_ids=token, past_key_values=past, use_cache=True)
        past, row = out.past_key_values, out.logits[:, -1].softmax(-1)
    ids = torch.cat([prompt[:, -1:], torch.tensor([tokens])], 1)
    p = tgt_model(input_ids=ids, past_key_values=known).logits[0].softmax(-1)
    out = keep(tokens, p, torch.stack(q))
    draft_model(input_ids=torch.tensor([out[-1:]]), past_key_values=past)
    Color.print(time() - started, "GREEN")
    text = [*prompt[0].tolist(), int(prompt[0, -1]), *out[:-1]]
    return tokenizer.decode(text, skip_special_tokens=True)
"""
    + KEEP
)


def test_drsy(tmp_path, capsys):
    check_double("drsy", tmp_path, DRSY, *WRONG)
    check_signature("drsy", tmp_path, DRSY, "gen_kwargs")
    assert capsys.readouterr().out == ""
