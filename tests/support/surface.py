"""Names that are followed, each with few outcomes, and how one is refused."""

import pytest
from support.fuzzing.generator_pairs import law_of

from simverify.symbolic.provenance import CannotEnumerate

torch = pytest.importorskip("torch")

P = [0.2, 0.3, 0.5]


def cell(x, *cuts):
    return int(sum(x >= c for c in cuts))


def empty():
    return torch.empty((), dtype=torch.float64)


PROBS = torch.tensor(P, dtype=torch.float64)
TORCH = {
    "rand": lambda: cell(torch.rand(2)[1].item(), 0.25),
    "rand_like": lambda: cell(torch.rand_like(PROBS)[1].item(), 0.25),
    "uniform_": lambda: cell(empty().uniform_(1, 3).item(), 1.5),
    "exponential_": lambda: cell(empty().exponential_(2.0).item(), 0.3),
    "bernoulli": lambda: int(torch.bernoulli(PROBS)[0]),
    "bernoulli_": lambda: int(empty().bernoulli_(0.3)),
    "multinomial": lambda: torch.multinomial(PROBS, 2)[1].item(),
    "randint": lambda: torch.randint(1, 4, ()).item() + torch.randint(high=2, size=()).item(),
    "randperm": lambda: torch.randperm(3)[0].item(),
    "random_": lambda: empty().random_(1, 4).long().item(),
}


def refused_with(rule):
    with pytest.raises(CannotEnumerate) as refusal:
        law_of(rule)
    return str(refusal.value)
