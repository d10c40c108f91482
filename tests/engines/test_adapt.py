import random

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing.coins import compare_coins
from simverify.engines import Batch, Signature, as_batched, as_verify, global_seed, with_coins
from simverify.errors import UsageError
from simverify.models.base import compact

COMPACT = compact()


def token(ids, p, q, u, draw):
    """The token rule on plain rows, with acceptance coins and a way to draw a token."""
    for i, t in enumerate(ids):
        if not u[i] < p[i][t] / q[i][t]:
            return [*ids[:i], draw(np.maximum(p[i] - q[i], 0))]
    return [*ids, draw(p[len(ids)])]


def padded(rows, width):
    return np.array([[*row, *[-1] * (width - len(row))] for row in rows])


def by_generator(ids, p, q, lengths, rng):
    """Batched numpy: (B, G) in, padded (B, G+1) out."""
    rows = [
        token(
            ids[b, :n].tolist(), p[b], q[b], rng.random(n),
            lambda w: int(rng.choice(len(w), p=w / w.sum())),
        )
        for b, n in enumerate(lengths)
    ]  # fmt: skip
    return padded(rows, ids.shape[1] + 1)


def by_globals(ids, log_p, log_q, lengths):
    """Batched logits and the legacy global generator; garbage beyond num_emitted."""
    p, q = np.exp(log_p), np.exp(log_q)
    rows = [
        token(
            ids[b, :n].tolist(), p[b], q[b], np.random.random(n),  # noqa: NPY002
            lambda w: int(np.random.choice(len(w), p=w / w.sum())),  # noqa: NPY002
        )
        for b, n in enumerate(lengths)
    ]  # fmt: skip
    out = padded(rows, ids.shape[1] + 1)
    return np.where(out < 0, 77, out), np.array([len(row) for row in rows])


def by_coins(ids, p, q, u):
    """No batch axis, coins given: gamma + 1 of them."""

    def draw(weights):
        goal, total = u[-1] * sum(weights), 0
        for y, weight in enumerate(weights):
            total = total + weight
            if weight > 0 and goal < total:
                return y
        return int(np.flatnonzero(weights)[-1])

    return token(ids.tolist(), p, q, u, draw)


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (by_generator, Signature(randomness="numpy")),
        (by_globals, Signature(logits=True)),
        (by_coins, Signature(randomness="coins", batched=False)),
    ],
)
def test_wrapped_numpy_functions_are_followed_exactly(function, signature):
    result = compare_verify(as_verify(function, signature), COMPACT, 2)
    assert result.max_abs_deviation < 1e-13
    assert result.expected_accepted == pytest.approx(101 / 72, abs=1e-12)
    assert result.findings == ()


def test_a_wrapped_fault_stays_one():
    def fault(ids, p, q, lengths, rng):
        return by_generator(ids, p, q * 0.9, lengths, rng)

    result = compare_verify(as_verify(fault, Signature(randomness="numpy")), COMPACT, 2)
    assert result.max_abs_deviation > 0.005


@pytest.mark.parametrize("randomness", ["global", "torch"])
def test_wrapped_torch_functions_are_followed_exactly(randomness):
    torch = pytest.importorskip("torch")

    def function(ids, p, q, lengths, *generator):
        options = {"generator": generator[0]} if generator else {}
        gamma, k = int(lengths[0]), 0
        out = torch.full((1, gamma + 1), -1)
        u = torch.rand(gamma, dtype=p.dtype, **options)
        while k < gamma and u[k] < p[0, k, ids[0, k]] / q[0, k, ids[0, k]]:
            out[0, k] = ids[0, k]
            k += 1
        rest = p[0, k] if k == gamma else (p[0, k] - q[0, k]).clamp(min=0)
        out[0, k] = torch.multinomial(rest, 1, **options)[0]
        return out

    verify = as_verify(function, Signature(randomness=randomness, arrays="torch"))
    result = compare_verify(verify, COMPACT, 2)
    assert result.max_abs_deviation < 1e-13
    half = as_verify(function, Signature(randomness=randomness, arrays="torch", dtype="bfloat16"))
    assert 1e-6 < compare_verify(half, COMPACT, 2).max_abs_deviation < 2e-2


def test_coins_functions_have_a_sampled_view_of_the_same_law():
    def verify(p, q, x, u):
        return by_coins(x, p, q, u)

    exact = compare_coins(verify, COMPACT, 2)
    followed = compare_verify(with_coins(verify), COMPACT, 2)
    assert exact.expected_accepted == pytest.approx(followed.expected_accepted, abs=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_coins_of_a_dtype_stay_below_one(dtype):
    seen = []

    def function(ids, p, q, lengths, u):
        seen.append(u)
        return ids

    batch = Batch(
        np.zeros((4000, 1), dtype=np.int64), np.ones((4000, 2, 1)), np.ones((4000, 1, 1)),
        np.ones(4000, dtype=np.int64),
    )  # fmt: skip
    signature = Signature(randomness="coins", dtype=dtype)
    as_batched(function, signature)(batch, np.random.default_rng(1))
    assert seen[0].dtype == dtype
    assert 0.99 < seen[0].max() < 1
    rounded = np.random.default_rng(1).random((4000, 2)).astype("float16")
    assert rounded.max() == 1  # what drawing finer coins and rounding them would give


def test_padding_before_a_token_is_left_for_the_audit():
    verify = as_verify(lambda *_: np.array([[-1, 2]]), Signature())
    result = compare_verify(verify, COMPACT, 1)
    assert [finding.kind for finding in result.findings] == ["out-of-range"]


def test_batches_go_through_whole():
    batch = Batch(
        np.array([[0, 1], [2, -1]]), np.full((2, 3, 3), 1 / 3), np.full((2, 2, 3), 1 / 3),
        np.array([2, 1]),
    )  # fmt: skip
    emitted = as_batched(by_generator, Signature(randomness="numpy"))(
        batch, np.random.default_rng(0)
    )
    assert [emitted.row(0)[:2], emitted.row(1)[:1]] == [[0, 1], [2]]  # p = q: all accepted
    assert emitted.num_emitted.tolist() == [3, 2]
    counted = as_batched(by_globals, Signature(logits=True))(batch, None)
    assert counted.num_emitted.tolist() == [3, 2]
    assert counted.tokens[1, 2] == -1
    with pytest.raises(UsageError, match="return integers"):
        as_batched(lambda *_: np.zeros((2, 3)), Signature())(batch, None)


def test_global_seed_repeats_and_leaves_no_trace():
    torch = pytest.importorskip("torch")

    def draws():
        return random.random(), np.random.random(), float(torch.rand(1))  # noqa: NPY002

    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    due = draws()
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    with global_seed(11):
        first = draws()
    with global_seed(11):
        assert draws() == first
    with global_seed(12):
        assert draws() != first
    assert draws() == due


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"randomness": "generator"}, "randomness='generator': choose from"),
        ({"arrays": "jax"}, "arrays='jax'"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"device": "cuda"}, "only arrays='torch'"),
        ({"randomness": "torch"}, "pass arrays='torch' too"),
    ],
)
def test_bad_signatures_say_what_to_choose(options, message):
    with pytest.raises(UsageError, match=message):
        Signature(**options)
