"""Adapters of engines in JAX, on small doubles: the law, and what one wrong line makes of it."""

import pytest
from support.engine_doubles import check_double, check_signature, checkout, largest_deviation

from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import load_subject

pytest.importorskip("jax")
pytest.importorskip("torch")  # of trees, which are drawn with it

TPU_FOLDER = "tpu_inference/layers"
TPU_BESIDE = {
    f"{TPU_FOLDER}/common/binary_search.py": """
def topk_mask(x, k, replace_val):
    return x


def topp_mask(logits, p, replace_val):
    return logits
""",
    f"{TPU_FOLDER}/jax/sample/sampling_metadata.py": """
import functools
from dataclasses import dataclass

import jax


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["temperature", "top_k", "top_p"],
    meta_fields=["do_sampling"],
)
@dataclass
class TPUSupportedSamplingMetadata:
    temperature: object = None
    top_k: object = None
    top_p: object = None
    do_sampling: bool = False
""",
}

TPU = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from ...common.binary_search import topk_mask, topp_mask
from ...common.sharding import ShardingAxisName


def judge_all(tokens, counts, q, logits, bonus, warmth, key):
    key = jax.random.fold_in(key, jax.lax.axis_index(ShardingAxisName.ATTN_DATA))
    greedy = warmth < 0
    owner = jnp.repeat(jnp.arange(len(counts)), counts, total_repeat_length=len(tokens))
    first = jnp.cumsum(counts) - counts
    place = jnp.arange(len(tokens)) - first[owner]
    p = jax.nn.softmax(topk_mask(topp_mask(logits, 1.0, 0), 0, 0), axis=-1)
    likeliest = jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[-1])
    p = jnp.where(greedy[owner][:, None], likeliest, p)
    if q is None:
        q = jax.nn.one_hot(tokens, logits.shape[-1])
    at = jnp.arange(len(tokens))
    coin, last = jax.random.split(key)
    kept = jax.random.uniform(coin, tokens.shape) * q[at, tokens] < p[at, tokens]
    rest = jnp.maximum(p - q, 0)
    drawn = jax.random.categorical(last, jnp.log(rest), axis=-1)
    refused = jnp.where(kept, len(tokens), place)
    stop = jax.ops.segment_min(refused, owner, num_segments=len(counts))
    stop = jnp.minimum(stop, len(tokens))
    tail = jnp.where(place == stop[owner], drawn, -1)
    out = jnp.where(place < stop[owner], tokens, tail)
    return jnp.concatenate([out, jnp.where(stop == len(tokens), bonus, -1)])


class RejectionSampler:

    def __init__(self, mesh):
        self.mesh = mesh

    def __call__(self, *given, **named):
        return self.forward(*given, **named)

    @jax.jit(static_argnums=0)
    def forward(self, draft_token_ids, num_draft_tokens, draft_probs, target_logits,
                bonus_token_ids, sampling_metadata, key=None):
        rows = PartitionSpec(ShardingAxisName.ATTN_DATA)
        given = (draft_token_ids, num_draft_tokens, draft_probs, target_logits, bonus_token_ids,
                 sampling_metadata.temperature, key)
        split = (*(None if x is None else rows for x in given[:-1]), PartitionSpec())
        return jax.shard_map(judge_all, mesh=self.mesh, in_specs=split, out_specs=rows)(*given)
"""


def test_tpu_inference(tmp_path):
    wrong = ("jnp.maximum(p - q, 0)", "p")
    check_double("tpu-inference", tmp_path, TPU, *wrong, beside=TPU_BESIDE)
    check_signature("tpu-inference", tmp_path, TPU, "bonus_token_ids", TPU_BESIDE)


TPU_FAULTS = {
    "one-hot": ("q = jax.nn.one_hot(tokens, logits.shape[-1])", "q = p"),
    "ragged": ("place < stop[owner]", "place < stop[0]"),
    "greedy": ("where(greedy[owner]", "where(False & greedy[owner]"),
}
"""By the kind of batch that shows them; the last two take most of a minute."""


@pytest.mark.parametrize(
    "kind", ["one-hot", *(pytest.param(x, marks=pytest.mark.slow) for x in ("ragged", "greedy"))]
)
def test_tpu_inference_beside_other_requests(tmp_path, kind):
    right, wrong = TPU_FAULTS[kind]
    assert TPU.count(right) == 1

    def judged(name, text):
        place = checkout(tmp_path / name, "tpu-inference", text, TPU_BESIDE)
        sizes = AuditSettings(gamma=1, vocab=3, seconds=60.0, batch_mix=kind)
        return audit(load_subject("tpu-inference", checkout=str(place)), None, sizes)

    good = judged("right", TPU)
    assert (good.verdict, good.tier) == ("PASS", "exact")
    assert judged("wrong", TPU.replace(right, wrong)).verdict == "FAIL"


SGLANG = "sgl_jax/srt"
SGLANG_CHAIN_BESIDE = {
    f"{SGLANG}/speculative/spec_utils.py": """
SIMULATED_ACCEPTANCE_CONFIG = None


def apply_simulated_acceptance(kept):
    return kept
"""
}
SGLANG_CHAIN = """
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from .spec_utils import SIMULATED_ACCEPTANCE_CONFIG, apply_simulated_acceptance


class Verified(NamedTuple):
    verified_id: jax.Array
    accept_lens: jax.Array


def _verify_rejection_sampling(*, target_hidden, positions, seq_lens, draft_tokens, target_logits,
                               temperatures, top_ks, top_ps, coins, coin_f, threshold_single,
                               threshold_acc, enable_top_k, enable_top_p, speculative_num_steps,
                               speculative_num_draft_tokens, simulation_rng=None):
    assert not isinstance(jax.typeof(target_logits).sharding, NamedSharding)
    assert SIMULATED_ACCEPTANCE_CONFIG is None and target_hidden.shape[0] == len(positions)
    n = speculative_num_steps
    drafts = draft_tokens[1:]
    rows = jax.nn.softmax(target_logits / temperatures[:, None], axis=-1)
    kept = coins[0] < rows[jnp.arange(n), drafts] / threshold_acc
    count = apply_simulated_acceptance(jnp.sum(jnp.cumprod(kept.astype(int))))
    ids = jnp.arange(rows.shape[1])
    refused = drafts[jnp.minimum(count, n - 1)]
    row = jnp.where((count < n) & (ids == refused), 0.0, rows[count])
    total = jnp.cumsum(row)
    last = jnp.sum(total <= coin_f[0] * total[-1])
    tokens = jnp.append(drafts, 0).at[count].set(last)
    return Verified(tokens, count[None] + 1)
"""


def test_sglang_jax(tmp_path):
    right = "(count < n) & (ids == refused)"
    check_double("sglang-jax", tmp_path, SGLANG_CHAIN, right, "False", beside=SGLANG_CHAIN_BESIDE)
    check_signature("sglang-jax", tmp_path, SGLANG_CHAIN, "coin_f", SGLANG_CHAIN_BESIDE)


def test_sglang_jax_of_two_drafts(tmp_path):
    """The coin of a draft is its own."""
    folder = checkout(tmp_path / "right", "sglang-jax", SGLANG_CHAIN, SGLANG_CHAIN_BESIDE)
    assert largest_deviation("sglang-jax", folder, gamma=2, length=2) < 1e-6
    text = SGLANG_CHAIN.replace("coins[0]", "coins[0, 0]")
    folder = checkout(tmp_path / "wrong", "sglang-jax", text, SGLANG_CHAIN_BESIDE)
    assert largest_deviation("sglang-jax", folder, gamma=2, length=2) > 1e-3


SGLANG_TREE = """
import jax
import jax.numpy as jnp


def tree_speculative_sampling_target_only(
    predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
    retrive_next_sibling, uniform_samples, uniform_samples_for_final_sampling, target_probs,
    draft_probs, threshold_single=1.0, threshold_acc=1.0, deterministic=True,
):
    assert predicts.shape == (candidates.shape[1] + 1,) and not draft_probs.any()
    tokens = candidates[0].tolist()
    child, sibling = retrive_next_token[0].tolist(), retrive_next_sibling[0].tolist()
    slots, slot, kept = retrive_index[0].tolist(), 0, 0
    while True:
        row, coin, node, seen = target_probs[slot], uniform_samples[0, slot], child[slot], 0.0
        accept_index = accept_index.at[0, kept].set(slots[slot])
        while node != -1:
            seen += row[tokens[node]]
            if coin < seen:
                break
            row = row.at[tokens[node]].set(0.0)
            node = sibling[node]
        if node == -1:
            total = jnp.cumsum(row)
            last = jnp.sum(total <= uniform_samples_for_final_sampling[0] * total[-1])
            counts = accept_token_num.at[0].set(kept)
            return accept_index, counts, predicts.at[slot].set(last)
        predicts = predicts.at[slot].set(tokens[node])
        slot, kept = node, kept + 1
"""


def test_sglang_jax_tree(tmp_path):
    wrong = ("row.at[tokens[node]].set(0.0)", "row")
    check_double("sglang-jax-tree", tmp_path, SGLANG_TREE, *wrong, length=1)
    check_signature("sglang-jax-tree", tmp_path, SGLANG_TREE, "predicts")


def test_sglang_jax_tree_has_two_drafts_after_the_prefix_and_two_levels(tmp_path):
    """The second of two siblings is accepted by what is left of the coin."""
    text = SGLANG_TREE.replace("seen += row", "seen = row")
    folder = checkout(tmp_path, "sglang-jax-tree", text)
    assert largest_deviation("sglang-jax-tree", folder, gamma=1, length=1) > 1e-3
    folder = checkout(tmp_path / "right", "sglang-jax-tree", SGLANG_TREE)
    assert largest_deviation("sglang-jax-tree", folder, gamma=2, length=2) < 1e-6


RT_DLM = """
import logging
from dataclasses import dataclass

import jax
import jax.numpy as jnp

logger = logging.getLogger(__name__)


@dataclass
class SamplingConfig:
    temperature: float = 1.0


class TokenSampler:

    def sample(self, rows, config, key):
        return jax.random.categorical(key, jnp.log(rows) / config.temperature)


class SpeculativeDecoder:

    def __init__(self, target_forward_fn, draft_forward_fn):
        self.target_forward_fn = target_forward_fn
        self.sampler, self.config = TokenSampler(), SamplingConfig()

    def _verify_and_accept(self, target_params, tokens, draft_tokens, draft_probs, rng_key):
        ids = jnp.concatenate([tokens, draft_tokens], axis=1)
        rows = jax.nn.softmax(self.target_forward_fn(target_params, text=ids))[0]
        drafts, coin_key, last_key = draft_tokens[0], *jax.random.split(rng_key)
        n = len(drafts)
        kept = jax.random.uniform(coin_key, (n,)) < rows[jnp.arange(n), drafts] / draft_probs[0]
        count = int(jnp.sum(jnp.cumprod(kept.astype(int))))
        last = self.sampler.sample(rows[count][None], self.config, last_key)
        return jnp.concatenate([draft_tokens[:, :count], last[None]], axis=1), count + 1
"""


def test_rt_dlm(tmp_path):
    """It is told no draft rows, so that no residual is right: a double that accepts none is."""
    right = "rows[jnp.arange(n), drafts] / draft_probs[0]"
    none = RT_DLM.replace(right, "jnp.zeros(n)")
    folder = checkout(tmp_path / "none", "rt-dlm", none)
    assert largest_deviation("rt-dlm", folder) < 1e-6
    folder = checkout(tmp_path / "target", "rt-dlm", RT_DLM)
    assert largest_deviation("rt-dlm", folder) > 1e-3
    check_signature("rt-dlm", tmp_path, RT_DLM, "draft_probs")


TUNIX = """
import flax
import jax
import jax.numpy as jnp


@flax.struct.dataclass
class State:
    step: int = 0


def sample_top_p(logits, key, temperature, top_p, top_k, return_logprobs=False):
    found, ids = jax.lax.top_k(logits[:, -1] / temperature, top_k)
    at = jax.random.categorical(key, jnp.where(top_p > 0, found, -jnp.inf))
    return jnp.take_along_axis(ids, at[:, None], axis=-1)[:, 0], None
"""


def test_tunix(tmp_path):
    wrong = ("jnp.take_along_axis(ids, at[:, None], axis=-1)[:, 0]", "at")
    check_double("tunix", tmp_path, TUNIX, *wrong, length=1)
    check_signature("tunix", tmp_path, TUNIX, "top_k")
