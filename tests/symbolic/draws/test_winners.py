"""Code that draws a token for every slot and uses one: what it does not read costs no path."""

import numpy as np
import pytest
from support.oracles.token_law import INSTANCES, closed_form, distance

from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.provenance import CannotEnumerate

torch = pytest.importorskip("torch")
ROWS = np.full((2, 3), 1 / 3)


def slots(p, q):
    """Weights of the token that would end the block at each slot; any where none can."""
    rest = np.maximum(p[:-1] - q, 0)
    return np.concatenate([np.where(rest.any(axis=1, keepdims=True), rest, p[:-1]), p[-1:]])


def numpy_rows(p, q, x, rng):
    rows = slots(p, q)
    last = (rows / rng.exponential(size=rows.shape)).argmax(axis=1)
    k = int(
        (rng.random(len(x)) < p[np.arange(len(x)), x] / q[np.arange(len(x)), x]).cumprod().sum()
    )
    return np.append(x[:k], last[k])


def numpy_noise_for_all_rows(p, q, x, rng):
    """One noise for all slots, as vLLM draws it: of it only one slot's race is read."""
    with np.errstate(divide="ignore"):
        scores = np.log(slots(p, q)) + rng.gumbel(size=p.shape[1])
    last = np.argmax(scores, axis=-1, keepdims=True).astype(np.int64)
    for i, y in enumerate(x):
        if rng.random() >= p[i, y] / q[i, y]:
            return np.concatenate([x[:i], last[i]])
    return np.concatenate([x, last[-1]])


def list_of_slots(p, q, x, rng):
    last = [np.argmax(row / rng.exponential(size=len(row))) for row in slots(p, q)]
    for i, y in enumerate(x):
        if rng.random() >= p[i, y] / q[i, y]:
            return [*x[:i], last[i]]
    return [*x, last[-1]]


def torch_gather(p, q, x, rng):
    p, q, x = map(torch.as_tensor, (p, q, x))
    rows = torch.as_tensor(slots(p.numpy(), q.numpy()))[None]
    noise = torch.empty(1, p.shape[1], dtype=torch.float64).exponential_()
    last = (rows / noise[:, None]).argmax(-1)
    i = torch.arange(len(x))
    k = (torch.rand(len(x)) < p[i, x] / q[i, x]).long().cumprod(0).sum()
    return torch.cat([x[:k], last.gather(-1, k[None, None])[0]])


def torch_where(p, q, x, rng):
    p, q, x = map(torch.as_tensor, (p, q, x))
    rows = torch.as_tensor(slots(p.numpy(), q.numpy()))
    last = (rows / torch.empty_like(rows).exponential_()).argmax(dim=-1).to(torch.int32)
    i, at = torch.arange(len(x)), torch.arange(len(x) + 1)
    k = (torch.rand(len(x)) < p[i, x] / q[i, x]).long().cumprod(0).sum()
    drafted = torch.nn.functional.pad(x, (0, 1))
    out = torch.where(at < k, drafted, torch.where(at == k, last.long(), -1))
    return out[out >= 0]


def torch_output(p, q, x, rng):
    """As vLLM's kernel: an output of -1 that is written slot by slot."""
    p, q, x = map(torch.as_tensor, (p, q, x))
    rows = torch.as_tensor(slots(p.numpy(), q.numpy()))
    last = torch.stack([(row / torch.empty_like(row).exponential_()).argmax() for row in rows])
    out = torch.full((1, len(x) + 1), -1, dtype=torch.int32)
    for i, y in enumerate(x.tolist()):
        if torch.rand(()) >= p[i, y] / q[i, y]:
            out[0, i] = last[i]
            break
        out[0, i] = y
    else:
        out[0, -1:] = last[-1]
    return [y for y in out[0].tolist() if y != -1]


def torch_outcomes(p, q, x, rng):
    p, q, x = map(torch.as_tensor, (p, q, x))
    last = torch.multinomial(torch.as_tensor(slots(p.numpy(), q.numpy())), 1).squeeze(-1)
    i = torch.arange(len(x))
    k = (torch.rand(len(x)) < p[i, x] / q[i, x]).long().cumprod(0).sum()
    return torch.cat([x[:k], last[k, None]])


STYLES = [
    numpy_rows, numpy_noise_for_all_rows, list_of_slots, torch_gather, torch_where, torch_output,
    torch_outcomes,
]  # fmt: skip


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_slots_that_are_not_read_cost_no_path(style, instance):
    p, q, drafted = INSTANCES[instance]
    law = enumerate_verify(style, p, q, drafted)
    assert distance(law.probabilities, closed_form(p, q, drafted)) < 1e-12
    assert (law.findings, law.lost) == ((), 0.0)
    # At most every pattern of accepted drafts, each with every token that may come then.
    assert law.paths <= 2 ** len(drafted) * p.shape[1]
    other = closed_form(np.roll(p, 1, axis=1), q, drafted)
    assert distance(law.probabilities, other) > 1e-2


def test_the_wrong_slots_winner_is_caught():
    p, q, drafted = INSTANCES["compact"]

    def rule(p, q, x, rng):
        rows = slots(p, q)
        last = (rows / rng.exponential(size=rows.shape)).argmax(axis=1)
        for i, y in enumerate(x):
            if rng.random() >= p[i, y] / q[i, y]:
                return [*x[:i], last[i - 1]]
        return [*x, last[-1]]

    law = enumerate_verify(rule, p, q, drafted)
    assert distance(law.probabilities, closed_form(p, q, drafted)) > 1e-2


def test_two_slots_of_one_noise_are_no_independent_draws():
    """Both are i with probability 1 / sum_j max(v_j / v_i, w_j / w_i)."""
    weights = np.array([[1, 2, 3], [3, 2, 1]])

    def rule(p, q, x, rng):
        first, second = np.argmax(weights / rng.exponential(size=3), axis=1)
        return [int(first == second)]

    law = enumerate_verify(rule, ROWS, ROWS[:1], [0])
    due = sum(1 / (weights / weights[:, [i]]).max(axis=0).sum() for i in range(3))
    assert law.probabilities[1,] == pytest.approx(due, abs=1e-14)
    independent = (weights / weights.sum(axis=1, keepdims=True)).prod(axis=0).sum()
    assert abs(due - independent) > 0.1


READ = {
    "twice": (lambda w: [int(w[0] == w[0])], {(1,): 1.0}),
    "in part": (lambda w: [int(w[1])], {(0,): 0.5, (1,): 0.25, (2,): 0.25}),
    "another way each time": (lambda w: [int(w[1] == w.tolist()[1] == int(w[1]))], {(1,): 1.0}),
    "all": (lambda w: [int(w.sum() > 0)], {(0,): 1 / 6, (1,): 5 / 6}),
    "in a mask": (lambda w: [int((w == 0)[1])], {(1,): 0.5, (0,): 0.5}),
    "changed": (lambda w: [2 - w[1]], {(2,): 0.5, (1,): 0.25, (0,): 0.25}),
    "an index": (lambda w: [[0, 0, 2][w[1]]], {(0,): 0.75, (2,): 0.25}),
    "a row of indices": (lambda w: [int(np.arange(3)[w][1])], {(0,): 0.5, (1,): 0.25, (2,): 0.25}),
    "as a key": (lambda w: [{0: 1, 1: 1, 2: 0}[w.tolist()[1]]], {(1,): 0.75, (0,): 0.25}),
    "in text": (lambda w: [int(f"{w.tolist()[1]}")], {(0,): 0.5, (1,): 0.25, (2,): 0.25}),
    "by its type": (
        lambda w: [int(isinstance(w[1], int | np.integer | torch.Tensor))], {(1,): 1.0}
    ),
}  # fmt: skip


@pytest.mark.parametrize("library", ["numpy", "torch", "torch's outcomes"])
@pytest.mark.parametrize("how", READ)
def test_a_winner_is_read_in_any_way_and_stays_what_it_is(how, library):
    read, due = READ[how]
    weights = np.array([[1, 1, 1], [2, 1, 1]])

    def rule(p, q, x, rng):
        if library == "numpy":
            return read(np.argmax(weights / rng.exponential(size=(2, 3)), axis=1))
        if library == "torch's outcomes":
            return read(torch.multinomial(torch.as_tensor(weights).double(), 1)[:, 0])
        noise = torch.empty(2, 3, dtype=torch.float64).exponential_()
        return read((torch.as_tensor(weights) / noise).argmax(1))

    law = enumerate_verify(rule, ROWS, ROWS[:1], [0])
    assert distance(law.probabilities, due) < 1e-14
    assert law.findings == ()


TENSORS = {
    "added in place": lambda w: w.add_(1)[0] - 1,
    "a part of it written": lambda w: (w.fill_(0) if w[0] == 0 else w)[0],
    "masked": lambda w: w.masked_fill(torch.tensor([False, True]), 0).max(),
    "an index of a tensor": lambda w: torch.arange(3)[w][0],
    "a place to write to": lambda w: torch.zeros(2, 3).scatter_(1, w[:, None], 1.0)[0].argmax(),
    "as floats": lambda w: w.float()[0].mul(2.0).div(2).long(),
    "in a new tensor": lambda w: torch.tensor([w.tolist()[0], 1])[0],
    "through numpy": lambda w: np.concatenate([w.numpy()[:1], [1]])[0],
    "joined and split": lambda w: torch.cat([torch.tensor([2]), w]).split(1)[1][0],
}


def raced(weights):
    return (weights / torch.empty(2, 3, dtype=torch.float64).exponential_()).argmax(1)


@pytest.mark.parametrize("drawn", [raced, lambda w: torch.multinomial(w, 1)[:, 0]])
@pytest.mark.parametrize("how", TENSORS)
def test_tensors_of_winners(how, drawn):
    weights = torch.tensor([[2.0, 1.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)

    def rule(p, q, x, rng):
        return [int(TENSORS[how](drawn(weights)))]

    law = enumerate_verify(rule, ROWS, ROWS[:1], [0])
    assert distance(law.probabilities, {(0,): 0.5, (1,): 0.25, (2,): 0.25}) < 1e-14
    assert (law.findings, law.lost) == ((), 0.0)


def test_a_winner_kept_from_an_earlier_call_is_refused():
    kept = []

    def rule(p, q, x, rng):
        kept.append(np.argmax(rng.random((2, 3)), axis=1))
        return [kept[-2][0] if len(kept) > 2 else 0]

    with pytest.raises(CannotEnumerate, match=r"earlier call|not tracked"):
        enumerate_verify(rule, ROWS, ROWS[:1], [0])
