"""Engines' functions that judge one drafted block, in the order of their names.

vLLM, SGLang and Transformers have files of their own, with what is a fork or a copy of them.
"""

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify, draw_bonus
from simverify.engines.declare import LOGITS_OF_ONE, block_engine, make_engine
from simverify.engines.extract import (
    StubModule,
    import_package,
    jax,
    jax_key,
    load_function,
    load_names,
    load_pieces,
    torch,
    torch_without_pinning,
)
from simverify.engines.fake_models import BOS_TOKEN


def _load_deepspec(path: Path) -> Any:
    names = ("gather_token_probs", "logits_to_probs", "sample_from_probs", "sample_residual")
    given = load_names(path.parents[1] / "utils" / "sampling.py", names)
    return load_pieces(path, ["verify_draft_tokens", "DraftProposal"], **given)


@block_engine(
    "deepspec",
    "deepspec/eval/base_evaluator.py:verify_draft_tokens",
    "deepseek-ai/DeepSpec@afdfa7c",
    "target_model proposal position_ids start past_key_values_target temperature "
    "max_proposal_tokens",
    load=_load_deepspec,
)
def deepspec(pieces: Any, draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
    """DeepSpec's asks the target itself, takes the draft's probabilities, computes in float32."""
    gamma = draft_tokens.shape[1]
    ids = draft_tokens.new_full((1, gamma + 1), BOS_TOKEN)
    ids[:, 1:] = draft_tokens
    return pieces.verify_draft_tokens(
        target_model=lambda **_: SimpleNamespace(logits=target),
        proposal=pieces.DraftProposal(gamma, ids, draft.exp()),
        position_ids=ids,
        start=0,
        past_key_values_target=None,
        temperature=1.0,
        max_proposal_tokens=gamma,
    ).committed_tokens


@block_engine(
    "dspark-mlx",
    "dspark_mlx/verify.py:speculative_sample_accept",
    "dspark-mlx>=0.1,<0.2",
    "draft_tokens draft_probs base_probs rng",
    signature=Signature(randomness="numpy", batched=False),
    needs=(),
)
def dspark_mlx(rule: Any, draft_tokens: Any, target: Any, draft: Any, rng: Any) -> Any:
    """dspark-mlx's computes in numpy, with a generator."""
    return rule(draft_tokens, draft, target, rng).tokens


# FlashInfer: a kernel in CUDA that runs on a GPU alone.
#
# It draws from its own Philox streams, whose seed it takes from torch's generator of the GPU; the
# package is imported whole, as it compiles or fetches the kernel that it calls.


def flashinfer_chain_sampling(function: Any, device: str = "cuda") -> VerifyFunction:
    """Return the function as a ``verify`` callable on this device."""

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        # The draft comes first; two counts that are no part of the law come behind the tokens.
        return function(draft, draft_tokens.int(), target)[0]

    return as_verify(sample, Signature(arrays="torch", dtype="float32", device=device), "padded")


def _load_flashinfer(path: Path) -> VerifyFunction:
    library = import_package(path.parent, [path.name])
    library.sampling.get_sampling_module()  # compiles it, a minute the first time: not while timed
    return flashinfer_chain_sampling(library.sampling.chain_speculative_sampling)


flashinfer = make_engine(
    "flashinfer",
    "flashinfer/sampling.py:chain_speculative_sampling",
    "flashinfer-python>=0.7,<0.8",
    "draft_probs draft_token_ids target_probs",
    _load_flashinfer,
    tier="sampled",
    whole=True,
    gpu=True,
)


@block_engine(
    "flashspec",
    "flashspec/sampling/rejection.py:rejection_step",
    "flashspec>=0.3.1,<0.4",
    "draft_token_ids draft_logprobs target_logprobs",
    given={"logger": None},
)
def flashspec(rule: Any, draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
    """Flashspec's takes logarithms of both models' rows and computes in float32.

    Its optional assembly kernel is left out: the residual is the one in torch.
    """
    accepted, last = rule(draft_tokens, draft, target)[0].tolist()
    return [[*draft_tokens[0, :accepted].tolist(), last]]


def _load_lmdeploy(path: Path) -> Any:
    given: dict[str, Any] = {"RejectionSamplingImpl": object, "PLACEHOLDER_TOKEN_ID": -1}
    return load_function(path, "DefaultRejectionSamplingImpl", **given)()


@block_engine(
    "lmdeploy",
    "lmdeploy/pytorch/backends/default/rejection_sampling.py:DefaultRejectionSamplingImpl.forward",
    "lmdeploy>=0.18,<0.19",
    "target_logits draft_token_ids is_greedy draft_probs",
    load=_load_lmdeploy,
    signature=Signature(arrays="torch", logits=True, requests=True),
    batch_mix="padded,greedy,one-hot",
)
def lmdeploy(rule: Any, tokens: Any, target: Any, draft: Any, _: Any, batch: Any) -> Any:
    """LMDeploy's takes the target's logits and the draft's probabilities.

    Its caller draws the bonus token before, as is done here. Rejected slots are -1.
    """
    bonus = draw_bonus(target[:, -1].softmax(-1), batch)[:, 0]
    greedy = torch.tensor(batch.greedy) if batch.greedy.any() else None
    rows = {"is_greedy": greedy, "draft_probs": None if draft is None else draft.exp()}
    return rule.forward(target[:, :-1], tokens, bonus, **rows)[0]


ROTALABS = "rotalabs-accel>=1.1.1,<1.2"


@block_engine(
    "rotalabs",
    "rotalabs_accel/speculative/sampling.py:rejection_sample",
    ROTALABS,
    "target_prob draft_prob draft_token target_logits",
    signature=LOGITS_OF_ONE,
)
def rotalabs(rule: Any, draft_tokens: Any, target: Any, draft: Any) -> list[int]:
    """rotalabs-accel's judges a token a call: it is called until it rejects.

    It takes the target's row and, of the draft, the probability of the drafted token alone. The
    bonus token is drawn here.
    """
    tokens: list[int] = []
    for token, p, q in zip(draft_tokens, target, draft, strict=False):
        accepted, result = rule(p.softmax(-1)[token], q.exp()[token], token, p)
        tokens.append(int(result))
        if not accepted:
            return tokens
    return [*tokens, int(torch.multinomial(target[-1].softmax(-1), 1))]


@block_engine(
    "rotalabs-core",
    "rotalabs_accel/speculative/core.py:verify_tokens",
    ROTALABS,
    "model input_ids draft_tokens draft_probs top_p",
    given={"DynamicCache": StubModule("cache").Cache},
    beside={"sampling.py": "sample_from_logits"},
    signature=LOGITS_OF_ONE,
)
def rotalabs_core(rule: Any, draft_tokens: Any, target: Any, draft: Any) -> Any:
    """The loop around ``rejection_sample``, which has the same residual.

    It takes a target, which gives the block's rows and no cache, and of the draft the probability
    of the drafted tokens alone.
    """
    out = SimpleNamespace(logits=target[None], past_key_values=None)
    drafted = draft.exp().gather(1, draft_tokens[:, None])[:, 0]
    last = torch.tensor([[BOS_TOKEN]])
    return rule(lambda *_, **__: out, last, draft_tokens, drafted, None, top_p=1.0)[0]


@block_engine(
    "shreyansh-new",
    "common/verification.py:probabilistic_verify",
    "shreyansh26/Speculative-Decoding@76335be",
    "model prefix_ids draft_ids draft_probs",
    signature=LOGITS_OF_ONE,
)
def shreyansh_new(rule: Any, draft_tokens: Any, target: Any, draft: Any) -> Any:
    """shreyansh26's takes the target as a model, and the draft's probabilities."""
    model = lambda _: SimpleNamespace(logits=target[None])  # noqa: E731
    return rule(model, [BOS_TOKEN], draft_tokens.tolist(), draft.exp()).emitted_ids


def _load_rt_dlm(path: Path) -> Any:
    names = ("SpeculativeDecoder", "TokenSampler", "SamplingConfig")
    return load_pieces(path, names, logger=None)


@block_engine(
    "rt-dlm",
    "/src/core/sampling.py:SpeculativeDecoder._verify_and_accept",
    "AuralithAI/RT-DLM@1f1ab4d",
    "target_params tokens draft_tokens draft_probs rng_key",
    load=_load_rt_dlm,
    signature=Signature("numpy", dtype="float32", logits=True),
    needs=("jax",),
)
def rt_dlm(pieces: Any, draft_tokens: Any, target: Any, draft: Any, _: Any, rng: Any) -> Any:
    """RT-DLM's, in JAX, gets the probability of each drafted token, not the draft's rows.

    The target is a model that gives its rows after the prompt's one token and the drafts.
    """
    decoder = pieces.SpeculativeDecoder(lambda _, text: jax.numpy.asarray(target), None)
    tokens = jax.numpy.asarray(draft_tokens)
    rows = jax.numpy.exp(jax.numpy.asarray(draft))
    chances = jax.numpy.take_along_axis(rows, tokens[..., None], -1)[..., 0]
    prompt = jax.numpy.full((1, 1), BOS_TOKEN)
    return decoder._verify_and_accept(None, prompt, tokens, chances, jax_key(rng))[0]


@block_engine(
    "superconductor",
    "superconductor/models/speculative_decoder.py:SpeculativeDecoder._speculative_sampling",
    "jamesconde/superconductor-vae@046cf0c",
    "draft_tokens draft_log_probs target_logits",
    given={"PAD_IDX": -1},
)
def superconductor(rule: Any, draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
    """superconductor-vae's is told the drafts' own log probabilities, not the draft's rows.

    After a full acceptance it leaves the next token to a forward pass of its caller, which is
    drawn here.
    """
    chances = draft.gather(2, draft_tokens[:, :, None])[:, :, 0]
    settings = SimpleNamespace(temperature=1.0)
    accepted, counts, last = rule(settings, draft_tokens, chances, target[:, :-1])
    tokens = accepted[0, : int(counts[0])].tolist()
    if len(tokens) == draft_tokens.shape[1]:
        last = torch.multinomial(target[:, -1].exp(), 1)[:, 0]
    return [[*tokens, int(last[0])]]


@block_engine(
    "taiyoo",
    "/src/speculative.py:_verify_block",
    "taiyoo/speculative-decoding@a07c811",
    "verify_logits draft_tokens q_token_probs q_step_logits gen_kwargs",
    beside={"sampling.py": "probs_from_logits"},
    signature=LOGITS_OF_ONE,
)
def taiyoo(rule: Any, draft_tokens: Any, target: Any, draft: Any) -> Any:
    """Taiyoo's takes logits, and the probabilities of the drafted tokens."""
    chances = draft.exp().gather(1, draft_tokens[:, None])[:, 0]
    settings = {"do_sample": True, "temperature": 1.0, "top_p": 1.0}
    token, count = rule(target, draft_tokens, chances, draft, settings)
    return [*draft_tokens[:count].tolist(), token]


# tightwad takes no rows: of the target a server tells its top token, and the logarithm of the
# probability of the drafted one. The last target row has no draft; its top token is what follows
# the block.


def _load_tightwad(path: Path) -> VerifyFunction:
    rule = load_pieces(path, ["verify_draft_tokens", "DraftToken", "TargetLogprob"])

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> list[int]:
        tokens = [int(token) for token in draft_tokens]
        drafts = [
            rule.DraftToken(token, _log_probability(row[token]))
            for token, row in zip(tokens, draft_probs, strict=True)
        ]
        targets = [
            rule.TargetLogprob(
                int(row.argmax()), _log_probability(row.max()), _log_probability(row[token])
            )
            for token, row in zip([*tokens, 0], target_probs, strict=True)
        ]
        result = rule.verify_draft_tokens(drafts, targets, temperature=1.0)
        last = result.resample_token or result.bonus_token
        return [*(token.token_id for token in result.accepted_tokens), last.token_id]

    return verify


def _log_probability(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


tightwad = make_engine(
    "tightwad",
    "tightwad/speculation.py:verify_draft_tokens",
    "tightwad>=0.5.4,<0.6",
    "draft_tokens target_logprobs temperature",
    _load_tightwad,
    needs=(),
)


@block_engine(
    "trtllm",
    "tensorrt_llm/_torch/pyexecutor/sampling_utils.py:get_rejected_indices",
    "NVIDIA/TensorRT-LLM@053c42c948a14cf3c21981179ecc10a7d7ad8fb6",
    "draft_probs target_probs generator draft_tokens",
    load=partial(
        load_pieces,
        names=["get_rejected_indices", "sample_rejected"],
        torch=torch_without_pinning(),
    ),
    signature=Signature("torch", arrays="torch", batched=False),
)
def tensorrt_llm(rule: Any, draft_tokens: Any, target: Any, draft: Any, source: Any) -> list[int]:
    """TensorRT-LLM's PyTorch sampler takes probabilities and a generator, here torch's global one.

    The two functions are called in turn, as the sampler does. The bonus token is the target's own
    sample at the last position. Nothing is pinned: that asks for a GPU.
    """
    tokens = draft_tokens.tolist()
    rejected = rule.get_rejected_indices(draft, target, source, tokens)
    if len(rejected) == 0:
        return [*tokens, int(torch.multinomial(target[-1], 1, generator=source))]
    accepted = int(rejected[0])
    return [*tokens[:accepted], rule.sample_rejected(draft, target, source, accepted)]
