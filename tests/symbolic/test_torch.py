import subprocess
import sys

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing.enumeration import enumerate_verify
from simverify.models.base import MarkovModel
from simverify.symbolic.provenance import CannotEnumerate

torch = pytest.importorskip("torch")

COMPACT = MarkovModel(
    "compact",
    np.array([5, 1, 6]) / 12,
    np.array([[6, 3, 3], [4, 2, 6], [3, 3, 6]]) / 12,
    np.array([6, 2, 4]) / 12,
    np.array([[5, 6, 1], [2, 9, 1], [4, 6, 2]]) / 12,
)


def tensors(p, q, x, dtype=torch.float64):
    return torch.as_tensor(p, dtype=dtype), torch.as_tensor(q, dtype=dtype), torch.as_tensor(x)


def norm(x):
    return x / x.sum()


def scalar(p, q, x, rng, factor=1.0):
    p, q, x = tensors(p, q, x)
    for i, y in enumerate(x.tolist()):
        if torch.rand(1) >= factor * p[i, y] / q[i, y]:
            rest = norm((p[i] - q[i]).clamp(min=0))
            return [*x[:i].tolist(), torch.multinomial(rest, 1).item()]
    return [*x.tolist(), torch.multinomial(p[-1], num_samples=1).item()]


def inflated(p, q, x, rng):
    return scalar(p, q, x, rng, factor=1.0001)


def exponential_noise(p, q, x, rng):
    p, q, x = tensors(p, q, x, torch.float32)
    n = len(x)
    ratio = p[torch.arange(n), x] / q[torch.arange(n), x]
    accepted = torch.rand_like(ratio) <= ratio
    k = int(((~accepted).cumsum(0) < 1).sum())
    row = p[n] if k == n else torch.relu(p[k] - q[k])
    noise = torch.empty_like(row).exponential_(1.0)
    return torch.cat([x[:k], row.div(noise).argmax(dim=-1)[None]])


def gumbel_noise(p, q, x, rng):
    p, q, x = tensors(p, q, x)
    n = len(x)
    u = torch.empty(1, n).uniform_()
    accepted = u < (p[torch.arange(n), x] / q[torch.arange(n), x]).unsqueeze(0)
    k = torch.cumprod(accepted.int(), -1).sum().item()
    row = norm(p[n] if k == n else (p[k] - q[k]).clamp_min(0))
    noise = -torch.log(-torch.log(torch.rand(row.shape) + 1e-20) + 1e-20)
    return [*x[:k].tolist(), torch.argmax(row.log() + noise).item()]


def inverse_cdf(p, q, x, rng):
    p, q, x = tensors(p, q, x)
    own = torch.Generator()
    own.seed()
    n, k = len(x), 0
    while k < n and torch.bernoulli((p[k, x[k]] / q[k, x[k]]).clamp(max=1.0), generator=own):
        k += 1
    row = norm(p[n] if k == n else torch.where(p[k] > q[k], p[k] - q[k], 0.0))
    u = torch.rand(1, dtype=torch.float64, generator=own)
    return [int(y) for y in x[:k]] + [int((row.cumsum(0) > u).int().argmax())]


def noise_by_rows(p, q, x, rng):
    p, q, x = tensors(p, q, x)
    n = len(x)
    noise = torch.empty_like(q)
    noise.exponential_()
    for i in range(n):
        noise[i].exponential_()  # written through a view
    u = torch.rand(n, dtype=torch.float64)
    out = torch.full((n + 1,), -1)
    for i in range(n):
        if p[i, x[i]] / q[i, x[i]] < u[i]:
            out[i] = ((p[i] - q[i]).clamp(min=0) / noise[i]).argmax()
            return out[: i + 1]
        out[i] = x[i]
    out[n] = torch.distributions.Categorical(probs=p[n]).sample()
    return out


def through_numpy(p, q, x, rng):
    n = len(x)
    u = torch.rand(n).numpy()
    ratio = p[np.arange(n), x] / q[np.arange(n), x]
    k = int(np.argmin(np.append(u < ratio, False)))
    row = p[n] if k == n else np.maximum(p[k] - q[k], 0)
    return [*x[:k], torch.multinomial(torch.as_tensor(row), 1)[0]]


def numpy_draws_in_tensors(p, q, x, rng):
    p, q, x = tensors(p, q, x)
    n = len(x)
    u = torch.from_numpy(rng.random(n))
    k = int((u < p[torch.arange(n), x] / q[torch.arange(n), x]).int().cumprod(0).sum())
    row = p[n] if k == n else (p[k] - q[k]).clamp(min=0)
    return [*x[:k].tolist(), (row / torch.tensor(rng.exponential(size=3))).argmax().item()]


def numpy_draws_against_tensors(p, q, x, rng):
    p, q, x = tensors(p, q, x)
    k = 0
    while k < len(x) and rng.random() * q[k, x[k]] < p[k, x[k]]:
        k += 1
    row = p[k] if k == len(x) else (p[k] - q[k]).clamp(min=0)
    return [*x[:k].tolist(), int(torch.searchsorted(norm(row).cumsum(0), torch.rand(1)))]


@pytest.mark.parametrize("gamma", [1, 3])
@pytest.mark.parametrize(
    ("rule", "tolerance"),
    [
        (scalar, 1e-7),  # torch compares in float32
        (exponential_noise, 1e-7),
        (gumbel_noise, 1e-14),
        (inverse_cdf, 1e-14),
        (noise_by_rows, 1e-14),
        (through_numpy, 1e-14),
        (numpy_draws_in_tensors, 1e-14),
        (numpy_draws_against_tensors, 1e-7),
    ],
)
@pytest.mark.thorough
def test_torch_styles_are_lossless(rule, tolerance, gamma):
    result = compare_verify(rule, COMPACT, gamma)
    assert result.max_abs_deviation < tolerance
    assert result.findings == ()
    assert result.expected_accepted == pytest.approx({1: 5 / 6, 3: 379 / 216}[gamma], abs=1e-6)


def test_inflated_acceptance_is_caught_in_torch():
    assert compare_verify(inflated, COMPACT, 1).tv == pytest.approx(0.5e-4, abs=1e-7)


def test_a_constant_seed_is_reported_even_where_the_law_is_not():
    def rule(p, q, x, rng):
        torch.manual_seed(1)
        if torch.rand(()) < 0.5:
            return [0]
        torch.manual_seed(1)
        return [1 if torch.rand(()) < 0.5 else 2]

    law = enumerate_verify(rule, np.full((2, 3), 1 / 3), np.full((1, 3), 1 / 3), [0])
    # The second draw is the first one again: 1 never comes out.
    assert law.probabilities == {(0,): 0.5, (2,): 0.5}
    assert [finding.kind for finding in law.findings] == ["constant-seed"]


FUNCTIONS = {
    "where": lambda u: torch.where(torch.tensor([True, False]), u[:2], 2.0).min() < 0.25,
    "gather": lambda u: u.gather(0, torch.tensor([2, 1]))[0] < 0.25,
    "masked": lambda u: u[torch.tensor([False, True, False])].item() < 0.25,
    "stack": lambda u: torch.stack([u, u])[1, 2].double() < 0.25,
    "overwritten": lambda u: (u.clone().fill_(0.2) < 0.25).all() and u[0] < 0.25,
    "in place": lambda u: u.mul_(4).sub_(1)[1] < 0,
    "scale": lambda u: (1 - 2 * u[0]).abs() < 0.25,
    "set": lambda u: u.index_select(0, torch.tensor([0])).squeeze().neg() > -0.25,
    "joined to integers": lambda u: torch.cat([torch.tensor([2, 1]), u])[2] < 0.25,
    "float": lambda u: float(u[0]) < 0.25,
    "np.float64": lambda u: np.float64(u[0]) < 0.25,
    "integer": lambda u: (u[0] * 4).long() == 1,
    "broadcast": lambda u: torch.broadcast_tensors(torch.zeros(2, 1), u)[1][1, 2] < 0.25,
    "a grid": lambda u: torch.meshgrid(u, torch.zeros(2), indexing="ij")[0][2, 1] < 0.25,
    "columns": lambda u: torch.column_stack([torch.zeros(3), u])[2, 1] < 0.25,
    "pairs": lambda u: torch.cartesian_prod(torch.zeros(2), u)[4, 1] < 0.25,
    "windows": lambda u: u.unfold(0, 2, 1)[1, 0] < 0.25,
    "parts": lambda u: u.split_with_sizes([1, 2])[1][1] < 0.25,
    "turned": lambda u: torch.rot90(u[None])[2, 0] < 0.25,
    "top two": lambda u: torch.topk(u, 2).values[0] <= u[0] and u[0] != 5 and u[1] < u[2],
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_functions_of_random_tensors(what):
    rows = np.full((2, 3), 1 / 3)
    law = enumerate_verify(
        lambda p, q, x, rng: [int(bool(FUNCTIONS[what](torch.rand(3))))], rows, rows[:1], [0]
    )
    due = 1 / 6 if what == "top two" else 0.25
    assert law.probabilities[(1,)] == pytest.approx(due, abs=1e-14)


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.randn(1) < 0,
        lambda: torch.nn.functional.gumbel_softmax(torch.zeros(2), hard=True)[0] > 0,
        lambda: np.cos(torch.rand(1).numpy())[0] < 0.5,
        lambda: torch.rand(1).numpy().astype(np.float32).tobytes() < b"?",
        lambda: torch.rand(2).sum() < 0.5,
        lambda: torch.rand(2).softmax(0)[0] < 0.5,
        lambda: torch.get_rng_state().sum() > 3,
        lambda: torch.nn.functional.dropout(torch.ones(1), 0.5) > 0,
        lambda: torch.rand(1).view(torch.int32) % 2 == 0,
    ],
)
def test_what_cannot_be_followed_is_refused(function):
    rows = np.full((2, 3), 1 / 3)
    with pytest.raises(CannotEnumerate):
        enumerate_verify(lambda p, q, x, rng: [int(bool(function()))], rows, rows[:1], [0])


def test_threads_and_seeding_are_put_back(two_threads):
    seed = torch.manual_seed
    compare_verify(scalar, COMPACT, 1)
    assert torch.manual_seed is seed
    assert torch.get_num_threads() == 2
    assert not torch.rand(1).isnan()


def test_torch_is_not_imported_for_code_without_it():
    code = (
        "import sys;"
        "from simverify.auditing.enumeration import enumerate_verify as e;"
        "e(lambda p, q, x, rng: [0], [[1.0, 0.0]] * 2, [[1.0, 0.0]], [0]);"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def transformers_function(p, q, x, rng):
    from transformers.generation.utils import _speculative_sampling

    tokens, _ = _speculative_sampling(
        torch.as_tensor(x)[None],
        torch.as_tensor(q).log().float()[None],
        len(x),
        torch.as_tensor(p).log().float()[None],
    )
    return tokens[0]


def test_transformers_own_function_is_lossless():
    pytest.importorskip("transformers")
    result = compare_verify(transformers_function, COMPACT, 3)
    assert result.max_abs_deviation < 1e-7
    assert result.expected_accepted == pytest.approx(379 / 216, abs=1e-6)
    assert result.findings == ()


@pytest.mark.thorough
def test_torch_imported_inside_the_call_is_followed():
    code = (
        "import sys\n"
        "from simverify.auditing.enumeration import enumerate_verify as e\n"
        "def rule(p, q, x, rng):\n"
        "    import torch\n"
        "    return [int(torch.rand(1) < 0.25)]\n"
        "law = e(rule, [[1.0, 0.0]] * 2, [[1.0, 0.0]], [0])\n"
        "assert law.probabilities == {(1,): 0.25, (0,): 0.75}, law\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
