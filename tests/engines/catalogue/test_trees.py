"""Rules of papers' code that judge a tree of drafts, which the adapter draws."""

import numpy as np
import pytest
from support.engine_doubles import check_double, check_signature, checkout, largest_deviation

from simverify.engines import get_engine
from simverify.models.base import MarkovModel, compact

torch = pytest.importorskip("torch")

EAGLE = """
import random

import torch


def evaluate_posterior(logits, candidates, logits_processor):
    paths = candidates.tolist()
    kept, depth = list(range(len(paths))), 1
    p = logits_processor(None, logits[0, :1])[0].softmax(0)
    while depth < len(paths[0]):
        for token in dict.fromkeys(paths[i][depth] for i in kept):
            if random.random() < p[token]:
                kept = [i for i in kept if paths[i][depth] == token]
                p = logits_processor(None, logits[kept[0], depth][None])[0].softmax(0)
                depth += 1
                break
            p[token] = 0
            p = p / p.sum()
        else:
            break
    return torch.tensor(kept[0]), depth - 1, p
"""


@pytest.mark.parametrize("gamma", [1, 2])
def test_eagle_drafts_without_chance_and_loses_nothing(gamma, tmp_path):
    folder = checkout(tmp_path, "eagle", EAGLE)
    assert largest_deviation("eagle", folder, gamma) < 1e-12


def test_eagle(tmp_path):
    check_double("eagle", tmp_path, EAGLE, "p[token] = 0", "p[token] = p[token]")
    check_signature("eagle", tmp_path, EAGLE, "logits_processor")


MEDUSA = """
import torch
import torch.nn.functional as F


def get_typical_one_token(logit, temperature, posterior_threshold, posterior_alpha):
    assert (temperature, posterior_threshold, posterior_alpha) == (1, 0.09, 0.3)
    return torch.multinomial(F.softmax(logit, -1), 1)


def evaluate_posterior(logits, candidates, temperature, posterior_threshold=0.3,
                       posterior_alpha=0.09):
    p = F.softmax(logits[0], -1)
    kept = 0
    for i, token in enumerate(candidates[0, 1:].tolist()):
        if p[i, token] < 2:
            break
        kept += 1
    return torch.tensor(0), torch.tensor(kept)
"""


def test_medusa_keeps_what_is_typical(tmp_path):
    """Lossy by design: the law is the target's where nothing but the root is kept."""
    check_double("medusa", tmp_path, MEDUSA, "< 2", "< 0")
    check_signature("medusa", tmp_path, MEDUSA, "posterior_alpha")


def test_medusa_tries_the_path_of_likeliest_tokens(tmp_path):
    folder = checkout(tmp_path, "medusa", MEDUSA.replace("< 2", "< 0"))
    model = compact()
    tokens = get_engine("medusa").load(folder)((), model.target, model.draft, 2, None)
    first = int(model.draft(tuple(tokens[:1])).argmax())
    assert tokens[1:] == [first, int(model.draft((tokens[0], first)).argmax())]


ACCEPT = """
import torch
from torch.nn.functional import softmax
from utils import get_residual
from .Tree import Tree


class NAME(Tree):
    def accept_step(self, parent_id: int) -> ChildrenAccept:
        place = parent_id - (self.ground_truth_len - 1)
        p, logits = self.target_logits[place], self.draft_logits[place]
        for child in self.Successors[place]:
            token = self.tokens[child]
            q = softmax(logits / self.temperature, -1)
            if p[token] > self.r[child] * q[token]:
                return child, None
            p = get_residual(p, q)
            # left out where siblings may be the same
            logits[token] = torch.finfo(self.dtype).min
        return -1, p
"""
HELPERS = {
    "utils.py": """
import torch
from torch.nn.functional import softmax


def get_residual(p, q):
    rest = (p - q).clamp(min=0)
    return rest / rest.sum()


def sampling_without_replacement(sampling_logits, rand, num_samples, temperature):
    return (rand.log() / softmax(sampling_logits / temperature, -1)).topk(num_samples).indices
"""
}
WITHOUT = ACCEPT.replace("NAME", "SpecTree")
WITH = ACCEPT.replace("NAME", "SpecInferTree").replace("logits[token] =", "unused =")


@pytest.mark.parametrize(("name", "text"), [("sequoia", WITHOUT), ("specinfer", WITH)])
@pytest.mark.thorough
def test_sequoia_and_specinfer(name, text, tmp_path):
    check_double(name, tmp_path, text, "p = get_residual(p, q)", "pass", beside=HELPERS)
    check_signature(name, tmp_path, text, "parent_id", HELPERS)


def test_each_is_wrong_on_the_drafts_of_the_other(tmp_path):
    p, q = np.array([[6, 3, 3], [5, 6, 1]]) / 12
    model = MarkovModel("iid", p, p[None], q, q[None])
    for name, text in (("sequoia", WITH), ("specinfer", WITHOUT)):
        other = text.replace("SpecTree", "X").replace("SpecInferTree", "SpecTree")
        folder = checkout(tmp_path / name, name, other.replace("X", "SpecInferTree"), HELPERS)
        assert largest_deviation(name, folder, model=model) > 1e-3
