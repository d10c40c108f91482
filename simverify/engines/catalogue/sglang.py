"""SGLang: ``chain_speculative_sampling_triton``, token and block, and the reference of its DSpark.

The coins are arguments; the root token stands in slot 0 of the candidates; outputs are written
into buffers. One file is loaded, not the package, which would pull in its kernels.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import COIN_BITS, Signature, VerifyFunction, as_verify, compiled_on_gpu
from simverify.engines.base import Engine
from simverify.engines.declare import LOGITS, make_engine
from simverify.engines.extract import load_file, load_function, torch, torch_without_seeding
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
