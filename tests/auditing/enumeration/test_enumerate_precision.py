"""The tolerance follows the arithmetic, and a coarse dtype excuses rounding alone."""

from dataclasses import replace

import numpy as np
import pytest

from simverify.auditing.comparison import HIDDEN_HALF_PRECISION, TOLERANCE_BY_DTYPE
from simverify.auditing.examiner import Examiner
from simverify.auditing.instances import instance_battery
from simverify.auditing.subject import Subject
from simverify.engines import Signature, as_verify
from simverify.symbolic import provenance

torch = pytest.importorskip("torch")

INSTANCES = [
    m for m in instance_battery(2, 3) if m.name in ("plain, V=3, gamma=2", "q zero, V=3, gamma=1")
]


def token(p, q, x, accept, draw):
    for i, y in enumerate(x):
        if not accept(p[i, y], q[i, y]):
            rest = (p[i] - q[i]) * (p[i] > q[i])
            return [*x[:i], draw(rest / rest.sum())]
    return [*x, draw(p[-1])]


def inverse_cdf(p, q, x, rng, k):
    return token(
        p, q, x,
        lambda a, b: rng.random() < k * a / b,
        lambda w: (np.cumsum(w)[:-1] <= rng.random()).sum(),
    )  # fmt: skip


def in_numpy(dtype):
    return lambda p, q, x, rng, k=1.0: inverse_cdf(p.astype(dtype), q.astype(dtype), x, rng, k)


def by_name(p, q, x, rng, k=1.0):
    return inverse_cdf(p.astype("float16"), q.astype("f2"), x, rng, k)


def hidden(p, q, x, rng, k=1.0):
    """No draw meets the float32: the ratio and the weights are floats again."""
    p, q = np.asarray(p, dtype=np.float32), np.asarray(q, dtype=np.float32)

    def draw(w):
        w = np.array(w.tolist())
        return rng.choice(len(w), p=w / w.sum())

    return token(p, q, x, lambda a, b: rng.random() < k * float(a / b), draw)


def in_torch(cast):
    def rule(p, q, x, rng, k=1.0):
        p, q, x = cast(torch.as_tensor(p)), cast(torch.as_tensor(q)), torch.as_tensor(x)
        return token(
            p, q, x.tolist(),
            lambda a, b: torch.rand(1) < k * a / b,
            lambda w: torch.multinomial(w.float(), 1).item(),
        )  # fmt: skip

    return rule


def in_logs(p, q, x, rng, k=1.0):
    p, q = torch.as_tensor(p, dtype=torch.bfloat16), torch.as_tensor(q, dtype=torch.bfloat16)
    return token(
        p, q, x,
        lambda a, b: torch.rand(1).log() < a.log() - b.log() + (k - 1),
        lambda w: (w / torch.empty(3).exponential_()).argmax().item(),
    )  # fmt: skip


def left_torch(p, q, x, rng, k=1.0):
    """The ratio leaves torch as a number, and weights as an array."""
    p, q = torch.as_tensor(p, dtype=torch.float32), torch.as_tensor(q, dtype=torch.float32)

    def draw(w):
        w = w.double().numpy()
        return rng.choice(len(w), p=w / w.sum())

    return token(p, q, x, lambda a, b: rng.random() < k * (a / b).item(), draw)


def kept_in(half, single):
    """Rows are kept in 16 bits, as engines do; all that meets a draw is float32 or float64."""
    return lambda p, q, x, rng, k=1.0: inverse_cdf(
        *(np.asarray(row).astype(half).astype(single) for row in (p, q)), x, rng, k
    )


def kept_in_torch(p, q, x, rng, k=1.0):
    return in_torch(lambda t: t.bfloat16().float())(p, q, x, rng, k)


TYPES = {"torch": torch.bfloat16}
HALF = "float16"
DTYPE = np.dtype("f2")


def from_a_table(p, q, x, rng, k=1.0):
    """The type of the rows is in a container."""
    return in_torch(lambda t: t.to(TYPES["torch"]).float())(p, q, x, rng, k)


def from_names(p, q, x, rng, k=1.0):
    """The types of the rows are in globals that are no types."""
    p, q = p.astype(HALF).astype(np.float32), q.astype(DTYPE).astype(np.float32)
    return inverse_cdf(p, q, x, rng, k)


def hidden_twice(p, q, x, rng, k=1.0):
    return hidden(p.astype(np.float16), q.astype(np.float16), x, rng, k)


def adapted(signature):
    """The wrapper rounds the rows, before the function that it wraps sees them."""

    def rule(p, q, x, rng, k=1.0):
        def function(tokens, target, draft, coins=None):
            rows = [target, draft]
            if signature.arrays == "torch":
                rows = [t.float().softmax(-1) if signature.logits else t.float() for t in rows]
            p, q = (np.array(row.tolist()) for row in rows)
            coins = iter(rng.random(len(tokens) + 1) if coins is None else coins)
            return token(
                p, q, tokens.tolist(),
                lambda a, b: next(coins) < k * a / b,
                lambda w: rng.choice(len(w), p=w / w.sum()),
            )  # fmt: skip

        return as_verify(function, signature)(p, q, x, rng)

    return rule


def float64(p, q, x, rng, k=1.0):
    import torch  # noqa: F401 -- to be there is not to compute

    return token(p, q, x, lambda a, b: rng.random() < k * a / b, lambda w: rng.choice(len(w), p=w))


# What computes in which precision, and the least fault that it may not hide.
RULES = {
    "float64 beside torch": (float64, "float64", 5e-8),
    "numpy float32": (in_numpy(np.float32), "float32", 1e-4),
    "hidden float32": (hidden, "float32", 1e-6),
    "numpy float16": (in_numpy(np.float16), "float16", 2e-3),
    "numpy float16 by name": (by_name, "float16", 2e-3),
    "torch float32": (in_torch(lambda t: t.float()), "float32", 1e-4),
    "left torch": (left_torch, "float32", 1e-4),
    "torch bfloat16": (in_torch(lambda t: t.bfloat16()), "bfloat16", 1e-2),
    "torch float16": (in_torch(lambda t: t.to(torch.float16)), "float16", 2e-3),
    "bfloat16 in logs": (in_logs, "bfloat16", 1e-2),
    "float16 kept, float32 computed": (
        kept_in(np.float16, np.float32),
        HIDDEN_HALF_PRECISION,
        1e-4,
    ),
    "float16 kept, float64 computed": (
        kept_in(np.float16, np.float64),
        HIDDEN_HALF_PRECISION,
        1e-5,
    ),
    "bfloat16 kept, float32 computed": (kept_in_torch, HIDDEN_HALF_PRECISION, 1e-4),
    "bfloat16 from a table": (from_a_table, HIDDEN_HALF_PRECISION, 1e-4),
    "float16 from names": (from_names, HIDDEN_HALF_PRECISION, 1e-4),
    "hidden float16, hidden float32": (hidden_twice, HIDDEN_HALF_PRECISION, 1e-4),
    "adapter, bfloat16 logits": (
        adapted(Signature(arrays="torch", dtype="bfloat16", logits=True, batched=False)),
        HIDDEN_HALF_PRECISION,
        1e-4,
    ),
    "adapter, float16": (
        adapted(Signature(dtype="float16", batched=False)),
        HIDDEN_HALF_PRECISION,
        1e-5,
    ),
    "adapter, float16 coins": (
        adapted(Signature(dtype="float16", randomness="coins", batched=False)),
        "float16",
        2e-3,
    ),
}


def judge(rule, model, **kwargs):
    return Examiner(Subject("rule", rule, "verify"), "verify", **kwargs).judge(model)


@pytest.mark.parametrize("model", INSTANCES, ids=lambda m: m.name)
@pytest.mark.parametrize("name", RULES)
@pytest.mark.thorough(by_day=12)
def test_rounding_passes_and_a_fault_does_not(name, model):
    rule, dtype, fault = RULES[name]
    judged = judge(rule, model)
    assert not judged.failed
    assert (judged.held.dtype, judged.held.tolerance) == (dtype, TOLERANCE_BY_DTYPE[dtype])
    if dtype != "float64":
        assert judged.comparison.max_abs_deviation > TOLERANCE_BY_DTYPE["float64"]

    def inflated(p, q, x, rng):
        return rule(p, q, x, rng, k=1 + fault)

    inflated.__wrapped__ = rule
    assert judge(inflated, model).failed


def test_a_fault_below_16_bits_of_precision_is_shown_in_float64():
    def rarely_wrong(p, q, x, rng):
        return [0] if torch.rand(1) < 1e-4 else RULES["torch bfloat16"][0](p, q, x, rng)

    judged = judge(rarely_wrong, INSTANCES[0])
    assert judged.deviates
    assert judged.held.lifted
    assert judged.comparison.max_abs_deviation < 1e-4 < TOLERANCE_BY_DTYPE["bfloat16"]


def test_what_the_adapter_rounds_is_lifted_wherever_it_is_installed(monkeypatch):
    rule, dtype, _ = RULES["adapter, float16"]
    monkeypatch.setattr(provenance, "_is_module_outside_libraries", lambda module: False)
    judged = judge(rule, INSTANCES[0])
    assert not judged.failed
    assert judged.held.dtype == dtype


def test_hidden_16_bits_excuse_no_more_than_their_rounding():
    """The deviation is far below 2e-2 and stays where rows are kept in float64."""

    def rule(p, q, x, rng):
        return [0] if rng.random() < 1e-4 else kept_in(np.float16, np.float32)(p, q, x, rng)

    judged = judge(rule, INSTANCES[0])
    assert judged.deviates
    assert judged.held.tolerance == TOLERANCE_BY_DTYPE["float32"]
    assert judged.comparison.max_abs_deviation < 1e-2


def test_an_explicit_tolerance_wins():
    rule = RULES["numpy float32"][0]
    assert judge(rule, INSTANCES[0], tolerance=1e-12).failed
    assert judge(rule, INSTANCES[0], tolerance=1e-12).held.tolerance == 1e-12


def test_everything_is_put_back():
    before = (
        np.float16,
        torch.bfloat16,
        torch.get_default_dtype(),
        by_name.__code__,
    )
    judge(hidden, INSTANCES[0])
    judge(by_name, INSTANCES[0])
    judge(RULES["torch bfloat16"][0], INSTANCES[0])
    after = (
        np.float16,
        torch.bfloat16,
        torch.get_default_dtype(),
        by_name.__code__,
    )
    assert before == after
    assert isinstance(np.zeros(2, dtype=np.float32)[0], np.float32)


@pytest.mark.parametrize(
    ("observed", "pruned", "deviates", "undecided"),
    [
        (0.0, 9e-10, False, False),
        (5e-10, 6e-10, False, True),
        (1.2e-7, 1.2e-7, False, True),
        (1.2e-7, 0.9e-7, True, False),
        (1.2e-7, 0.0, True, False),
        (0.0, 1.2e-7, False, True),
    ],
)
def test_only_the_reported_deviation_passes(monkeypatch, observed, pruned, deviates, undecided):
    """Branches that were not run may lie anywhere: between both bounds there is no verdict."""
    rule = RULES["numpy float16"][0]
    comparison = judge(rule, INSTANCES[0]).comparison
    given = replace(comparison, max_abs_deviation=observed + pruned, pruned=pruned, excess=observed)
    monkeypatch.setattr(Examiner, "compare", lambda *_: given)
    judged = judge(rule, INSTANCES[0], tolerance=1e-9)
    assert (judged.deviates, judged.undecided) == (deviates, undecided)
