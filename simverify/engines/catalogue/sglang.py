"""SGLang: ``chain_speculative_sampling_triton``, token and block, the reference of its DSpark, JAX.

The coins are arguments; the root token stands in slot 0 of the candidates; outputs are written
into buffers. One file is loaded, not the package, which would pull in its kernels.
"""

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.adapt import COIN_BITS, Signature, VerifyFunction, as_verify, compiled_on_gpu
from simverify.engines.base import Engine
from simverify.engines.declare import LOGITS, make_engine, step_engine
from simverify.engines.extract import (
    jax,
    jax_key,
    load_file,
    load_function,
    load_names,
    torch,
    torch_without_seeding,
)
from simverify.engines.fake_models import BOS_TOKEN, draw_token_tree, likeliest_paths
from simverify.trees import SCHEMES
from simverify.triton_cpu import load_tiles

FOLDER, RELEASES = "sglang/kernels/ops/speculative", "sglang>=0.5.23,<0.6"
CHAIN_FUNCTION = "chain_speculative_sampling_triton"


def sglang_chain_sampling(
    function: Any, *, block: bool = False, device: str = "cpu"
) -> VerifyFunction:
    """Return the function as a ``verify``, which may be given its coins: the last is for a draw."""

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any, coins: Any) -> list[list[int]]:
        places = torch.arange(coins.numel(), device=coins.device).reshape(coins.shape)
        indices = torch.full_like(places, -1, dtype=torch.int32)
        predicted, counts = indices.flatten().clone(), indices[:, 0].clone()
        function(
            predicted,
            indices,
            counts,
            torch.nn.functional.pad(draft_tokens, (1, 0)),
            places,
            None,
            None,
            coins[:, :-1].contiguous(),
            coins[:, -1].contiguous(),
            target,
            draft,
            1.0,
            1.0,
            True,
            block_verification=block,
        )
        rows = zip(indices.tolist(), counts.tolist(), strict=True)
        return [[int(predicted[place]) for place in row[: count + 1]] for row, count in rows]

    return as_verify(sample, Signature("coins", "torch", "float32", device), "padded")


def _load_chain_sampling(path: Path, *, block: bool, device: str = "cpu") -> VerifyFunction:
    name = "simverify_loaded.sglang_reject_sampling"
    module = load_tiles(path, [CHAIN_FUNCTION]) if device == "cpu" else load_file(path, name)
    return sglang_chain_sampling(getattr(module, CHAIN_FUNCTION), block=block, device=device)


def _make_chain_engine(name: str, *, block: bool) -> Engine:
    engine = make_engine(
        name,
        f"{FOLDER}/reject_sampling.py:{CHAIN_FUNCTION}",
        RELEASES,
        "predicts accept_index accept_token_num candidates retrive_index uniform_samples "
        "target_probs draft_probs block_verification",
        partial(_load_chain_sampling, block=block),
    )
    compiled = partial(_load_chain_sampling, block=block, device="cuda")
    return compiled_on_gpu(engine, compiled, tolerance=1e-6, coin_bits=COIN_BITS["float32"])


sglang = _make_chain_engine("sglang", block=False)
sglang_block = _make_chain_engine("sglang-block", block=True)


# ``blockwise_rejection_torch``, the reference of SGLang's DSpark verification.
#
# Takes logits and computes in float32. It seeds a generator from a key and a step counter:
# ``sglang-dspark-as-is`` draws the counter, ``sglang-dspark`` hands it torch's global generator,
# which the exact tier follows.


DSPARK_FUNCTION = "blockwise_rejection_torch"
DSPARK_KEY, SGLANG_DSPARK_COUNTERS = 7, 1 << 30
"""Of the server's seed, which is one for all its steps; and steps that a server may be at."""


def _load_dspark(path: Path, *, seeded: bool) -> VerifyFunction:
    given: dict[str, Any] = {} if seeded else {"torch": torch_without_seeding()}
    rule = load_function(path, DSPARK_FUNCTION, **given)

    def sample(draft_tokens: Any, target: Any, draft: Any, draft_len: Any, rng: Any) -> Any:
        counter = int(rng.integers(SGLANG_DSPARK_COUNTERS)) if seeded else 0
        accepted, last, _ = rule(
            candidates=torch.nn.functional.pad(draft_tokens, (1, 0)),
            target_logits=target[0],
            draft_logits=draft,
            target_temperatures=torch.ones(1),
            draft_temperatures=torch.ones(1),
            noise=SimpleNamespace(key=DSPARK_KEY, counter=torch.tensor([counter])),
        )
        return [[*draft_tokens[0, : int(accepted[0])].tolist(), int(last[0])]]

    return as_verify(sample, replace(LOGITS, randomness="numpy"))


def _make_dspark_engine(name: str, *, seeded: bool, **fields: Any) -> Engine:
    return make_engine(
        name,
        f"{FOLDER}/dspark/blockwise_rejection.py:{DSPARK_FUNCTION}",
        RELEASES,
        "candidates target_logits draft_logits target_temperatures draft_temperatures noise",
        partial(_load_dspark, seeded=seeded),
        **fields,
    )


DSPARK_NOTE = "the adapter replaces the generator that it seeds itself: see sglang-dspark-as-is"
sglang_dspark = _make_dspark_engine("sglang-dspark", seeded=False, note=DSPARK_NOTE)
sglang_dspark_as_is = _make_dspark_engine(
    "sglang-dspark-as-is", seeded=True, tier="sampled", gamma=2, vocab=4
)


# SGLang-JAX: its two functions that judge drafts by the target alone, as EAGLE's are.
#
# The draft is greedy: its likeliest tokens. So a draft is accepted with the target's probability
# of it. ``sglang-jax`` judges a chain inside of a compiled step,
# ``sglang-jax-tree`` a tree of two tokens after the prefix and one after each of its nodes.


SGLANG_JAX, SGLANG_JAX_FOLDER = "sgl-project/sglang-jax@cddbf6f", "sgl_jax/srt"
SGLANG_JAX_STATIC = (
    "threshold_single threshold_acc enable_top_k enable_top_p speculative_num_steps "
    "speculative_num_draft_tokens"
)


def _load_sglang_jax_chain(path: Path) -> Any:
    utils = path.with_name("spec_utils.py")
    given = load_names(utils, ["SIMULATED_ACCEPTANCE_CONFIG", "apply_simulated_acceptance"])
    # On one device nothing is resharded.
    given |= {"top_k_renorm_prob": None, "top_p_renorm_prob": None, "NamedSharding": ()}
    rule = load_function(path, "_verify_rejection_sampling", **given)
    return jax.jit(rule, static_argnames=SGLANG_JAX_STATIC.split())


@step_engine(
    "sglang-jax",
    f"{SGLANG_JAX_FOLDER}/speculative/draft_extend_fused.py:_verify_rejection_sampling",
    SGLANG_JAX,
    "target_hidden positions seq_lens draft_tokens target_logits temperatures top_ks top_ps coins "
    f"coin_f {SGLANG_JAX_STATIC}",
    load=_load_sglang_jax_chain,
    needs=("jax",),
)
def sglang_jax(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
    """Judge a chain; the coins are drawn as in the compiled step."""
    (path,) = likeliest_paths(draft, prefix, gamma, 1)
    rows = np.array([target((*prefix, *path[:i])) for i in range(gamma + 1)])
    first, second = jax.random.split(jax_key(rng))
    one, slots = np.ones(1, np.float32), np.arange(gamma + 1, dtype=np.int32)
    verified = rule(
        target_hidden=np.zeros((gamma + 1, 1), np.float32),
        positions=slots,
        seq_lens=one.astype(np.int32),
        draft_tokens=np.array([BOS_TOKEN, *path], np.int32),
        target_logits=_log(rows),
        temperatures=one,
        top_ks=None,
        top_ps=None,
        coins=jax.random.uniform(first, (1, gamma)),
        coin_f=jax.random.uniform(second, (1,)),
        threshold_single=1.0,
        threshold_acc=1.0,
        enable_top_k=False,
        enable_top_p=False,
        speculative_num_steps=gamma,
        speculative_num_draft_tokens=gamma + 1,
    )
    return verified.verified_id.tolist()[: int(verified.accept_lens[0])]


@step_engine(
    "sglang-jax-tree",
    f"{SGLANG_JAX_FOLDER}/kernels/speculative/kernel.py:tree_speculative_sampling_target_only",
    SGLANG_JAX,
    "predicts accept_index accept_token_num candidates retrive_index retrive_next_token "
    "retrive_next_sibling uniform_samples uniform_samples_for_final_sampling target_probs "
    "draft_probs",
    needs=("jax",),
)
def sglang_jax_tree(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
    """Judge a tree, called as ``EagleVerifyInput.sample`` does; it gets no rows of the draft."""
    tree = draw_token_tree(draft, prefix, gamma, SCHEMES["top-k"].fixed)
    size, links = len(tree.paths), tree.children
    child = [below[0] if below else -1 for below in links]
    sibling = [-1] * size
    for below in links:
        for node, following in itertools.pairwise(below):
            sibling[node] = following
    rows = np.array([target((*prefix, *path)) for path in tree.paths], np.float32)
    _, first, second = jax.random.split(jax_key(rng), 3)
    index, kept, predicted = rule(
        predicts=jax.numpy.zeros(size + 1, int),
        accept_index=jax.numpy.full((1, gamma + 1), -1),
        accept_token_num=jax.numpy.zeros(1, int),
        candidates=jax.numpy.array([[BOS_TOKEN, *tree.tokens]]),
        retrive_index=jax.numpy.arange(size)[None],
        retrive_next_token=jax.numpy.array([child]),
        retrive_next_sibling=jax.numpy.array([sibling]),
        uniform_samples=jax.random.uniform(first, (1, size)),
        uniform_samples_for_final_sampling=jax.random.uniform(second, (1,)),
        target_probs=jax.numpy.array(rows),
        draft_probs=jax.numpy.zeros(rows.shape),
    )
    return [int(predicted[slot]) for slot in index[0, : int(kept[0]) + 1].tolist()]


def _log(rows: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(rows).astype(np.float32)
