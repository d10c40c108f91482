"""Rules of papers' code that judge one drafted block."""

import pytest
from support.engine_doubles import check_double, check_signature, checkout, largest_deviation

from simverify.engines import get_engine
from simverify.errors import SimverifyError

pytest.importorskip("torch")

KEEP = """
def keep(tokens, p, q):
    for i, token in enumerate(tokens):
        if torch.rand((), dtype=p.dtype) < p[i, token] / q[i, token]:
            continue
        return [*tokens[:i], int(torch.multinomial((p[i] - q[i]).clamp(min=0), 1))]
    return [*tokens, int(torch.multinomial(p[-1], 1))]
"""
WRONG = ("(p[i] - q[i]).clamp(min=0)", "p[i]")

SPEC_BENCH = (
    """
import torch
from model.nowhere import Cache


def _speculative_sampling(candidate_input_ids, candidate_logits, candidate_length, new_logits,
                          last_assistant_token_is_eos, max_matches):
    assert not last_assistant_token_is_eos
    assert max_matches > candidate_length
    tokens = candidate_input_ids[0, -candidate_length:].tolist()
    out = keep(tokens, new_logits[0].softmax(-1), candidate_logits[0].softmax(-1))
    return torch.tensor([out]), len(out) - 1
"""
    + KEEP
)


def test_spec_bench(tmp_path):
    check_double("spec-bench-sps", tmp_path, SPEC_BENCH, *WRONG)
    check_signature("spec-bench-sps", tmp_path, SPEC_BENCH, "max_matches")


DEEPSPEC = """
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from deepspec.utils.sampling import gather_token_probs, logits_to_probs
from deepspec.utils.sampling import sample_from_probs, sample_residual


@dataclass
class DraftProposal:
    draft_token_count: int
    verify_input_ids: torch.Tensor
    draft_probs: torch.Tensor | None


@dataclass
class VerificationResult:
    committed_tokens: Any


def verify_draft_tokens(*, target_model, proposal, position_ids, start,
                        past_key_values_target: DynamicCache, temperature, max_proposal_tokens):
    out = target_model(input_ids=proposal.verify_input_ids, position_ids=position_ids[:, start:])
    p, q = logits_to_probs(out.logits, temperature), proposal.draft_probs
    tokens = proposal.verify_input_ids[:, 1:]
    assert tokens.shape[1] == proposal.draft_token_count == max_proposal_tokens
    ratio = gather_token_probs(p[:, :-1], tokens) / gather_token_probs(q, tokens)
    kept = int((torch.rand_like(ratio) < ratio).int().cumprod(1).sum())
    if kept < max_proposal_tokens:
        last = sample_residual(p[:, kept], q[:, kept])
    else:
        last = sample_from_probs(p[:, -1:])[:, 0]
    return VerificationResult(torch.cat([tokens[:, :kept], last[:, None]], 1))
"""
DEEPSPEC_BESIDE = {
    "deepspec/utils/sampling.py": """
import torch


def logits_to_probs(logits, temperature):
    return (logits / temperature).softmax(-1)


def gather_token_probs(probs, tokens):
    return probs.gather(-1, tokens[..., None])[..., 0]


def sample_from_probs(probs):
    return torch.multinomial(probs[:, 0], 1)


def sample_residual(p, q):
    return torch.multinomial((p - q).clamp(min=0), 1)[:, 0]
"""
}


def test_deepspec(tmp_path):
    right, wrong = "p[:, kept], q[:, kept]", "p[:, kept], 0 * q[:, kept]"
    check_double("deepspec", tmp_path, DEEPSPEC, right, wrong, beside=DEEPSPEC_BESIDE)
    check_signature("deepspec", tmp_path, DEEPSPEC, "position_ids", DEEPSPEC_BESIDE)


SUPERCONDUCTOR = """
import torch
from .autoregressive_decoder import EnhancedTransformerDecoder, PAD_IDX


class SpeculativeDecoder(EnhancedTransformerDecoder):
    def _speculative_sampling(self, draft_tokens, draft_log_probs, target_logits):
        p = (target_logits / self.temperature).softmax(-1)[0]
        tokens = draft_tokens[0].tolist()
        for i, token in enumerate(tokens):
            if torch.rand((), dtype=p.dtype) >= p[i, token] / draft_log_probs[0, i].exp():
                rest = p[i].clone()
                rest[token] -= draft_log_probs[0, i].exp()
                last = torch.multinomial(rest.clamp(min=0), 1)
                return draft_tokens[:, :i], torch.tensor([i]), last
        return draft_tokens, torch.tensor([len(tokens)]), torch.tensor([PAD_IDX])
"""


def test_superconductor_is_right_only_where_the_draft_says_one_token(tmp_path):
    """Its arguments do not tell the draft's rows: the law is right where they are one-hot."""
    verify = get_engine("superconductor").load(checkout(tmp_path, "superconductor", SUPERCONDUCTOR))
    p, q = [[0.5, 0.5], [0.25, 0.75]], [[0.0, 1.0]]
    drawn = [verify(p, q, [1], None) for _ in range(400)]
    assert {len(tokens) for tokens in drawn} == {1, 2}
    assert {tuple(tokens) for tokens in drawn} == {(0,), (1, 0), (1, 1)}
    assert largest_deviation("superconductor", tmp_path) > 1e-3
    check_signature("superconductor", tmp_path / "other", SUPERCONDUCTOR, "target_logits")


HSD = (
    """
import torch
from .nowhere import Cache


def _speculative_sampling(candidate_input_ids, candidate_logits, candidate_length, new_logits,
                          is_done_candidate, backward=False, blockwise=False, clever=False,
                          stop=None):
    assert not is_done_candidate.any()
\tassert not stop(candidate_input_ids, scores=None)
    assert (backward, blockwise, clever) == OPTIONS
    tokens = candidate_input_ids[0, -candidate_length:].tolist()
    out = keep(tokens, new_logits[0].softmax(-1), candidate_logits[0].softmax(-1))
    return torch.tensor([out]), len(out) - 1
"""
    + KEEP
)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hsd-clever", "(True, False, True)"),
        ("hsd-blockwise", "(False, True, False)"),
        ("hsd-tokenwise", "(False, False, False)"),
    ],
)
def test_hsd(name, options, tmp_path):
    check_double(name, tmp_path, HSD.replace("OPTIONS", options), *WRONG)


def test_hsd_without_the_option_is_one_line(tmp_path):
    folder = checkout(tmp_path, "hsd-clever", HSD.replace("clever", "another"))
    with pytest.raises(SimverifyError, match=r"'hsd-clever': .* takes no clever"):
        get_engine("hsd-clever").load(folder)
