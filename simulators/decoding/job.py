"""What is decoded of a pair of real models, checked, and what documents say of it."""

import hashlib
from collections.abc import Sequence

from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair
from simverify.results import Decoding, Drafter
from simverify.simulators.decoding.lanes import Job

LANES = 32
"""Requests side by side by default."""

REQUEST_TOKENS = 128
"""Most new tokens of a request by default."""


def make_job(
    pair: TransformerPair,
    prompts: Sequence[str],
    *,
    gamma: int,
    tokens: int,
    lanes: int | None = None,
    request_tokens: int = REQUEST_TOKENS,
    seed: int,
) -> Job:
    """Return the job of ``tokens`` or a few more tokens, so that all lanes emit as many.

    Without ``lanes`` there are ``LANES``, or fewer of eight tokens each.

    Raises ``UsageError`` if a number is out of range, or a prompt is missing or too long.
    """
    if not prompts:
        raise UsageError("there is no prompt: give one or more")
    if lanes is None:
        lanes = max(2, min(LANES, tokens // 8))
    _numbers_iv(gamma, tokens, lanes, request_tokens)
    texts = tuple(tuple(pair.encode(text)) for text in prompts)
    return Job(
        prompts=texts, gamma=gamma, lanes=lanes, lane_tokens=-(-tokens // lanes),
        request_tokens=min(request_tokens, _room(pair, texts, gamma)), seed=seed,
    )  # fmt: skip


def decoding_document(
    pair: TransformerPair,
    job: Job,
    prompts: Sequence[str],
    prompts_file: str | None,
    methods: Sequence[DraftMethod],
) -> Decoding:
    """Return the document's entry of how ``job`` was run, drafting by ``methods``."""
    return Decoding(
        target=pair.target_name,
        draft=None if all(method.from_texts for method in methods) else pair.draft_name,
        prompts=prompts_file,
        prompts_sha256=hashlib.sha256("\0".join(prompts).encode()).hexdigest(),
        tokens=job.lanes * job.lane_tokens,
        lanes=job.lanes,
        request_tokens=job.request_tokens,
        temperature=pair.sampling.temperature,
        top_k=pair.sampling.top_k,
        top_p=pair.sampling.top_p,
        device=str(pair.target_model.device),
        dtype=str(pair.target_model.dtype).removeprefix("torch."),
    )


def drafter_document(method: DraftMethod) -> Drafter | None:
    """Return the document's entry of how drafts were made; None where that is plain."""
    if method.name == "plain":
        return None
    grouped = method.name == "easyspec"
    return Drafter(
        name=method.name,
        layer_parallel=method.layer_parallel if grouped else None,
        calibration=method.calibration if grouped else None,
    )


def _room(pair: TransformerPair, prompts: Sequence[Sequence[int]], gamma: int) -> int:
    """Tokens that every prompt leaves room for in the context, drafts included."""
    longest = max(range(len(prompts)), key=lambda i: len(prompts[i]))
    room = pair.context - gamma - 1 - len(prompts[longest])
    if room < 1:
        raise UsageError(
            f"prompt {longest + 1} has {len(prompts[longest])} tokens: the context holds "
            f"{pair.context}, {gamma + 1} of them for a block; shorten it"
        )
    return room


def _numbers_iv(gamma: int, tokens: int, lanes: int, request_tokens: int) -> None:
    rules = (
        ("gamma", gamma, 1), ("tokens", tokens, 1), ("lanes", lanes, 2),
        ("tokens of a request", request_tokens, 1),
    )  # fmt: skip
    for name, value, least in rules:
        if value < least:
            raise UsageError(f"{name} is {value}: expected {least} or more")
