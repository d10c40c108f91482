"""A token with p = 0 is told at any precision, and rounding alone never brings one about."""

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing.instances import instance_battery

torch = pytest.importorskip("torch")
MODELS = [m for m in instance_battery(2, 3) if m.name.startswith("p zero")][:3]


def token(p, q, x, *, strict):
    p, q = torch.tensor(p, dtype=torch.float16), torch.tensor(q, dtype=torch.float16)
    u = torch.rand(len(x), dtype=torch.float16)
    for i, y in enumerate(x):
        ratio = p[i, y] / q[i, y]
        if (u[i] >= ratio) if strict else (u[i] > ratio):
            rest = (p[i] - q[i]).clamp(min=0).float()
            return [*x[:i].tolist(), int(torch.multinomial(rest, 1))]
    return [*x.tolist(), int(torch.multinomial(p[-1].float(), 1))]


def findings(strict):
    found = [
        compare_verify(lambda p, q, x, rng: token(p, q, x, strict=strict), model, model.gamma)
        for model in MODELS
    ]
    assert all(c.max_abs_deviation < 2e-2 for c in found)
    return {f.kind for c in found for f in c.findings if f.severity == "violation"}


def test_a_coin_that_is_0_accepts_what_the_target_never_gives():
    assert np.all([(np.asarray(m.target(())) == 0).any() for m in MODELS])
    assert findings(strict=False) == {"impossible-token"}


def test_rounding_is_no_such_finding():
    assert findings(strict=True) == set()
