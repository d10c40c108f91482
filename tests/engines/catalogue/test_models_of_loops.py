"""Loops that build the model they run, or ask it by functions of their own."""

import numpy as np
import pytest
from support.engine_doubles import check_double, check_signature, checkout, largest_deviation

from simverify.engines import get_engine
from simverify.engines.fake_models import RowsModel
from simverify.models.base import compact
from simverify.symbolic.provenance import CannotEnumerate

torch = pytest.importorskip("torch")

WRONG = ("(p[i] - q[i]).clamp(min=0)", "p[i]")

SQUISH = """
import numpy as np


def _get_logits(model, ids):
    raise AssertionError("mlx")


def _get_all_logits(model, ids, count):
    raise AssertionError("mlx")


def _sample(probs):
    return int(np.random.choice(len(probs), p=probs))


class SpeculativeGenerator:
    def _stateless_spec_stream(self, ids, max_tokens, temperature, top_p, stop_ids, eos_id):
        made = 0
        while made < max_tokens:
            drafts, q = [], []
            for _ in range(self._k):
                q.append(np.exp(_get_logits(self._draft, ids + drafts)))
                drafts.append(_sample(q[-1]))
            p = np.exp(_get_all_logits(self._target, ids + drafts, len(drafts) + 1))
            out = []
            for i, token in enumerate(drafts):
                if np.random.random() >= p[i, token] / q[i][token]:
                    rest = np.maximum(p[i] - q[i], 0)
                    out.append(_sample(rest / rest.sum()))
                    break
                out.append(token)
            else:
                out.append(_sample(p[-1]))
            self._update_fsm(len(out) - 1, len(drafts))
            for token in out[: max_tokens - made]:
                yield self._tok_text(token), None
            ids, made = ids + out, made + len(out)
"""


def test_squish(tmp_path):
    check_double("squish", tmp_path, SQUISH, "np.maximum(p[i] - q[i], 0)", "p[i]")
    check_signature("squish", tmp_path, SQUISH, "eos_id")


GPTFAST = """
import torch
from ..KVCache.KVCacheModel import KVCacheModel


def speculative_decode_eager(self, cur_tokens, speculate_k, **kwargs):
    drafts, q = self.draft_model.decode_function(input_ids=cur_tokens, length=speculate_k)
    ids = torch.cat([cur_tokens, drafts], -1)
    p = self.forward(ids).logits[0, cur_tokens.shape[1] - 1:].softmax(-1)
    assert len(p) == len(q)
    return torch.tensor([keep(self, drafts[0].tolist(), p, q)])


def speculative_decode_kv_cache(self, uncached_tokens, speculate_k, **options):
    assert isinstance(self, KVCacheModel)
    drafts, q = self.draft_model.decode_function(uncached_tokens, speculate_k)
    self.forward(torch.cat([uncached_tokens, drafts], -1))
    p = self._prob_history[0, -speculate_k - 1:].softmax(-1)
    return torch.tensor([keep(self, drafts[0].tolist(), p, q)])


def keep(self, tokens, p, q):
    for i, token in enumerate(tokens):
        if torch.rand((), dtype=p.dtype) < p[i, token] / q[i, token]:
            continue
        return [*tokens[:i], int(self.sample((p[i] - q[i]).clamp(min=0)))]
    return [*tokens, int(self.sample(p[-1]))]
"""

KV_CACHE_MODEL = """
import torch
from torch import nn
from transformers.models.bloom.modeling_bloom import BloomForCausalLM
from .KVCache import KVCache
from GPTFast.Helpers.Class import *


class KVCacheModel(nn.Module):
    def __init__(self, model):
        assert not isinstance(model, BloomForCausalLM)
        self.cache = KVCache(add_str_as_func(model))

    def forward(self, input_ids):
        place = torch.arange(self._cached_len, self._cached_len + input_ids.shape[1])
        out = self._model(input_ids=input_ids, past_key_values=None, input_pos=place)
        self._cached_len += input_ids.shape[1]
        self._prob_history = torch.cat([self._prob_history, out.logits], 1)
        return out.logits[:, -1]

    def decode_function(self, ids, length):
        tokens = []
        for _ in range(length):
            ids = self.sample(self.forward(ids).softmax(-1))
            tokens.append(ids)
        return torch.cat(tokens, -1), self._prob_history[0, -length:].softmax(-1)
"""


@pytest.mark.parametrize("name", ["gptfast-eager", "gptfast-kv"])
def test_gptfast(name, tmp_path):
    beside = {"GPTFast/Core/KVCache/KVCacheModel.py": KV_CACHE_MODEL}
    check_double(name, tmp_path, GPTFAST, *WRONG, beside=beside)
    check_signature(name, tmp_path, GPTFAST, "speculate_k", beside)


# As the engine's: a list around the drawn token makes torch read it, so it is followed otherwise
# from there on, and what numpy makes then may hold draws.
LISTED = (
    "int(self.sample((p[i] - q[i]).clamp(min=0)))",
    "int(torch.Tensor([self.sample((p[i] - q[i]).clamp(min=0))]).long()[0])",
)


def test_rows_that_numpy_made_are_followed(tmp_path, monkeypatch):
    shared = False

    def logits(self, tokens, first=0):
        out = np.zeros((1, len(tokens) - first, self.vocab))
        for i in range(max(first, self.start), len(tokens)):
            out[0, i - first] = np.log(self.rows(tuple(tokens[1 : i + 1])))
        return torch.from_numpy(out) if shared else torch.tensor(out, dtype=self.dtype)

    monkeypatch.setattr(RowsModel, "logits", logits)
    assert GPTFAST.count(LISTED[0]) == 1
    text = GPTFAST.replace(*LISTED)
    check_double("gptfast-eager", tmp_path, text, "(p[i] - q[i]).clamp(min=0)", "p[i]")
    # The control: what shares memory with numpy's array stays an array that draws may be written
    # into, whose softmax is refused, and an audit samples it.
    shared = True
    with pytest.raises(CannotEnumerate, match="softmax of a random tensor"):
        largest_deviation("gptfast-eager", tmp_path / "right")


def test_a_model_knows_its_prefix(tmp_path):
    model = compact()
    folder = checkout(tmp_path, "squish", SQUISH)
    step = get_engine("squish").load(folder)
    asked = []

    def target(prefix):
        asked.append(prefix)
        return model.target(prefix)

    step((2, 1), target, model.draft, 1, None)
    assert min(map(len, asked)) == 2
