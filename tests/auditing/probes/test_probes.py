"""Each probe on a rule that breaks it, and on rules that do not."""

import functools
import math
import random

import numpy as np
import pytest
from support.probing import by_name, outcomes
from support.rules import norm, strict

from simverify.auditing.probes import PROBE_SECONDS, run_probes
from simverify.verifiers import VERIFIERS

torch = pytest.importorskip("torch")

TOKEN = VERIFIERS["token"].rule


def numpy_global(p, q, x, rng):
    return strict(p, q, x, np.random.rand, lambda r: np.random.choice(len(r), p=r))  # noqa: NPY002


def numpy_single(p, q, x, rng):
    def draw():
        return rng.random(1, dtype=np.float32)[0]

    return strict(p, q, x, draw, lambda r: rng.choice(len(r), p=r))


def python_random(p, q, x, rng):
    return strict(p, q, x, random.random, lambda r: random.choices(range(len(r)), r)[0])


def torch_rule(p, q, x, rng, dtype=torch.float64, accepts=torch.lt):
    def draw():
        return torch.rand(1, dtype=dtype)

    p, q, x = torch.as_tensor(p), torch.as_tensor(q), torch.as_tensor(x)
    for i, y in enumerate(x.tolist()):
        ratio = (p[i, y] / q[i, y]).to(dtype)
        if not accepts(draw(), ratio):
            rest = (p[i] - q[i]).clamp(min=0)
            row = rest if rest.sum() > 0 else p[i]
            return torch.cat([x[:i], torch.multinomial(row, 1)])
    return torch.cat([x, torch.multinomial(p[-1], 1)])


def torch_race(p, q, x, rng):
    """Acceptance on a vector, the last token by an exponential race in float32."""
    p, q, x = (torch.as_tensor(a) for a in (p, q, x))
    p, q, n = p.float(), q.float(), len(x)
    places = torch.arange(n)
    kept = torch.empty(n).uniform_() < p[places, x] / q[places, x]
    k = int(kept.int().cumprod(0).sum())
    rest = (p[k] - q[k]).clamp(min=0) if k < n else p[n]
    row = rest if rest.sum() > 0 else p[k]
    return [*x[:k].tolist(), int(row.div(torch.empty_like(row).exponential_()).argmax())]


CORRECT = {
    **{name: (v.rule, v.contract) for name, v in VERIFIERS.items() if name != "temperature-0"},
    "numpy global": (numpy_global, "verify"),
    "numpy float32": (numpy_single, "verify"),
    "python": (python_random, "verify"),
    "torch": (torch_rule, "verify"),
    "torch float32": (functools.partial(torch_rule, dtype=torch.float32), "verify"),
    "torch race": (torch_race, "verify"),
}


@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.thorough
def test_correct_rules_pass(name):
    rule, contract = CORRECT[name]
    # The limits of an audit, which no right rule comes near: shorter ones are for those that hang.
    probes = by_name(rule, contract, PROBE_SECONDS)
    skipped = set()
    if contract == "step":
        skipped |= {"inputs", "p = q = 0 at a draft token"}
    assert {n for n, p in probes.items() if p.outcome == "not run"} == skipped
    bad = ("warning", "violation")
    assert {n: p.message for n, p in probes.items() if p.outcome in bad} == {}


@pytest.mark.parametrize("origin", ["numpy", "global", "python", "torch"])
def test_accepting_zero_mass_at_zero_is_a_warning_in_every_style(origin):
    draws = {
        "numpy": lambda rng: rng.random(),
        "global": lambda rng: np.random.uniform(),  # noqa: NPY002
        "python": lambda rng: random.random(),
        "torch": lambda rng: torch.rand(1, dtype=torch.float64).item(),
    }

    def rule(p, q, x, rng):
        for i, y in enumerate(x):
            if not draws[origin](rng) <= p[i][y] / q[i][y]:
                return [*x[:i], rng.choice(len(p[i]), p=norm(p[i], q[i]))]
        return [*x, rng.choice(len(p[-1]), p=p[-1])]

    found = by_name(rule)
    assert found["u = 0"].outcome == "warning"
    assert "where p = 0" in found["u = 0"].message
    assert found["u = 1 - ulp"].outcome == "ok"
    assert found["disjoint support"].outcome == "ok"


def test_the_same_in_half_precision_is_a_violation():
    # torch.rand in bfloat16 is 0 once in 256 draws.
    rule = functools.partial(torch_rule, dtype=torch.bfloat16, accepts=torch.le)
    assert by_name(rule)["u = 0"].outcome == "violation"
    single = functools.partial(torch_rule, dtype=torch.float32, accepts=torch.le)
    assert by_name(single)["u = 0"].outcome == "warning"


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_inverse_cdf_that_runs_out_is_seen_at_the_last_uniform(side):
    def rule(p, q, x, rng):
        def pick(row):
            return np.searchsorted(row.cumsum(), rng.random(), side=side)

        return strict(p, q, x, rng.random, pick)

    found = by_name(rule)
    assert found["u = 1 - ulp"].outcome == "warning"
    assert "token 33, vocabulary 0..32" in found["u = 1 - ulp"].message
    # "left" takes the first token at u = 0, whatever its mass.
    assert found["u = 0"].outcome == ("warning" if side == "left" else "ok")


def test_draws_that_cannot_be_forced_are_not_run_with_the_reason():
    def bits(p, q, x, rng):
        raw = rng.bit_generator.random_raw
        return strict(p, q, x, lambda: (raw() >> 11) / 2**53, lambda r: rng.choice(len(r), p=r))

    def constant(p, q, x, rng):
        return [int(p[0].argmax())]

    # Raw bits are the numbers of the generator that is forced.
    found = by_name(bits)
    for name in ("u = 0", "repeated calls"):
        assert found[name].outcome == "ok"
    assert by_name(constant)["u = 0"].outcome == "not run"


def leak(p, q, x, rng):
    """Emit a token of p = 0 now and then: a draft that is kept where it must not be."""
    if rng.random() < 0.5:
        return [int(x[0]), 0]
    return TOKEN(p, q, x, rng)


def test_tokens_without_mass_are_a_violation_where_supports_differ():
    found = outcomes(leak)
    for name in ("disjoint support", "one-hot drafts", "one-hot targets", "large vocabulary"):
        assert found[name] == "violation", name
    assert found["output"] == "ok"


def test_equal_rows_that_divide_by_zero_are_a_violation():
    def rule(p, q, x, rng):
        row = np.maximum(p[0] - q[0], 0)
        return [int(rng.choice(len(row), p=row / row.sum()))]

    found = by_name(rule)["p = q"]
    assert found.outcome == "violation"
    assert "ValueError" in found.message


def test_an_id_that_never_comes_is_a_violation():
    def rule(p, q, x, rng):
        row = p[0, :-1] if p.shape[1] == 5 and p[0, -1] == 0.5 else p[0]
        return [int(rng.choice(len(row), p=row / row.sum()))]

    found = by_name(rule)["ids 0 and V-1"]
    assert found.outcome == "violation"
    assert "token 4" in found.message


def test_failing_on_gamma_1_or_a_large_vocabulary_is_a_violation():
    def two(p, q, x, rng):
        x[1]
        return TOKEN(p, q, x, rng)

    def bytes_only(p, q, x, rng):
        return np.array(TOKEN(p, q, x, rng), dtype=np.int8)

    assert outcomes(two)["gamma = 1"] == "violation"
    assert outcomes(two)["p = q"] == "ok"
    assert outcomes(bytes_only)["large vocabulary"] == "violation"
    assert outcomes(bytes_only)["p = q"] == "ok"


def test_zero_over_zero_that_accepts_is_a_warning():
    def rule(p, q, x, rng):
        return [int(x[0]), 0] if p[0][x[0]] == q[0][x[0]] == 0 else TOKEN(p, q, x, rng)

    assert outcomes(rule)["p = q = 0 at a draft token"] == "warning"


@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_malformed_rows_may_raise_but_not_end_the_process(bad):
    def is_bad(p, q):
        return any(np.isnan(r).any() or (r == 0).all() for r in (*p, *q))

    def raising(p, q, x, rng):
        if is_bad(p, q):
            raise ValueError("rows must sum to 1")
        return TOKEN(p, q, x, rng)

    def escaping(p, q, x, rng):
        same = math.isnan(bad) == bool(np.isnan([*p, *q]).any())
        return [len(p[0])] if is_bad(p, q) and same else TOKEN(p, q, x, rng)

    def exiting(p, q, x, rng):
        if is_bad(p, q):
            raise SystemExit(1)
        return TOKEN(p, q, x, rng)

    name = "NaN rows" if math.isnan(bad) else "zero rows"
    assert outcomes(raising)[name] == "ok"
    assert outcomes(escaping)[name] == "warning"
    assert outcomes(exiting)[name] == "violation"


def test_the_process_is_left_as_it_was(two_threads):
    legacy, python, state = np.random.get_state()[1], random.getstate(), torch.get_rng_state()  # noqa: NPY002
    run_probes(torch_race, "verify")
    assert np.array_equal(np.random.get_state()[1], legacy)  # noqa: NPY002
    assert random.getstate() == python
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == 2
    assert isinstance(np.random.default_rng(0).random(), float)


def test_same_code_same_lines():
    assert run_probes(torch_rule, "verify") == run_probes(torch_rule, "verify")


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="contract 'output'"):
        run_probes(TOKEN, "output")
    with pytest.raises(ValueError, match="seconds=0"):
        run_probes(TOKEN, "verify", seconds=0)
    with pytest.raises(ValueError, match="step rule"):
        run_probes(object(), "step")


@pytest.mark.thorough
def test_the_controls_of_the_catalogue_have_no_violation():
    faults = pytest.importorskip("simverify.faults")
    for control in faults.CONTROLS.values():
        found = by_name(control.rule, control.contract)
        assert {n: p.message for n, p in found.items() if p.outcome == "violation"} == {}
        for name in ("u = 0", "u = 1 - ulp"):
            assert found[name].outcome == "ok", control.name


def test_a_rejection_loop_that_waits_at_the_edge_is_no_violation():
    def rejecting(p, q, x, rng):
        for i, t in enumerate(x):
            if not rng.random() < p[i][t] / q[i][t]:
                while True:
                    y = int(rng.choice(len(p[i]), p=p[i]))
                    if rng.random() * p[i][y] < p[i][y] - q[i][y]:
                        return [*map(int, x[:i]), y]
        return [*map(int, x), int(rng.choice(p.shape[1], p=p[-1]))]

    probes = by_name(rejecting, "verify", seconds=1.0)
    assert "violation" not in {probe.outcome for probe in probes.values()}
    waits = [p for p in probes.values() if "did not return" in p.message]
    assert waits
    assert {p.outcome for p in waits} == {"warning"}
    # Half of a third: nobody learns more by waiting for longer.
    assert {p.message for p in waits} == {f"did not return within {1 / 6:g} s"}
