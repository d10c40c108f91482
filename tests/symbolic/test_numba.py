"""Rules compiled by numba: followed by their source, where it does what the compiled code does."""

from functools import partial

import numpy as np
import pytest
from support.levels import at_night
from support.written_rules import outcome

from simverify import exact_law
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import load_subject
from simverify.symbolic.bindings import compiled_calls
from simverify.symbolic.compiled import COMPILED_GENERATOR, same_draws, seed_of

numba = pytest.importorskip("numba")

CALL = """
import random
import numba, numpy as np

{before}

{jit}
def {name}(P, Q, X, {given}):
    {draw}
    out = []
    for i in range(len(X)):
        x = X[i]
        if {coin} * Q[i, x] >= P[i, x]:
            r = np.maximum(P[{row}] - Q[i], 0)
            cdf = np.cumsum(r)
            last = {last}
            out.append(min(np.searchsorted(cdf, last * cdf[-1], side="right"), len(r) - 1))
            return out
        out.append(x)
    cdf = np.cumsum(P[len(X)])
    last = {last}
    out.append(min(np.searchsorted(cdf, last * cdf[-1], side="right"), len(cdf) - 1))
    return out

{after}

def verify(target_probs, draft_probs, draft_tokens, rng):
    {call}
    return [int(t) for t in {rule}(np.asarray(target_probs), np.asarray(draft_probs),
                                   np.asarray(draft_tokens, dtype=np.int64), {passed})]
"""

DEFAULTS = {
    "before": "", "jit": "@numba.njit", "name": "kernel", "given": "seed", "row": "i",
    "draw": "np.random.seed(seed)", "coin": "np.random.random()", "last": "np.random.random()",
    "after": "rule = kernel", "call": "", "rule": "rule", "passed": "rng.integers(2**31)",
}  # fmt: skip

ACCEPTED = """
@numba.njit
def coin():
    return np.random.random()
"""

FOLLOWED = {
    "seeded inside": {},
    "by jit": {"jit": "@numba.jit(nopython=True)"},
    "one that calls another": {"before": ACCEPTED, "coin": "coin()"},
    "the caller's generator": {
        "given": "rng", "draw": "pass", "coin": "rng.random()", "last": "rng.random()",
        "passed": "rng",
    },
    "the caller's draws": {
        "given": "u", "draw": "pass", "coin": "u[i]", "last": "u[len(X)]",
        "passed": "rng.random(len(draft_tokens) + 1)",
    },
    "without a seed": {"draw": "pass"},
    "other code's seed": {"draw": "pass", "call": "np.random.seed(0)"},
    "a seed of 64 bits": {"passed": "rng.integers(2**62)"},
    "in a list": {"after": "RULES = [kernel]", "rule": "RULES[0]"},
    "in an object": {
        "after": "class Kept: pass\nKEPT = Kept(); KEPT.rule = kernel", "rule": "KEPT.rule"
    },
    "Python's random": {"draw": "random.seed(seed)", "coin": "random.random()"},
    "an exponential": {"coin": "np.exp(-np.random.exponential())"},
    "a uniform": {"coin": "np.random.uniform(0.0, 1.0)"},
    "a row": {"coin": "np.random.random(3)[1]"},
    "vectorized": {
        "before": "@numba.vectorize\ndef less(u, q, p):\n    return u * q >= p",
        "call": "z = less(rng.random(2), 0.5, 0.25)",
    },
    "an array made at import": {
        "before": "A = np.zeros(8)", "given": "seed, u",
        "draw": "np.random.seed(seed)\n    for k in range(len(X)): u[k] = np.random.random()",
        "coin": "u[i]", "passed": "rng.integers(2**31), A",
    },
}  # fmt: skip


def code(changes, **more):
    return CALL.format(**{**DEFAULTS, **changes, **more})


@pytest.mark.parametrize(
    "name",
    at_night(
        FOLLOWED,
        but=("seeded inside", "the caller's generator", "without a seed", "in an object", "a row"),
    ),
)
@pytest.mark.thorough(by_day=1)
def test_compiled_rules_are_judged_exactly(name):
    assert outcome(code(FOLLOWED[name])) == "followed"
    assert outcome(code(FOLLOWED[name], row="i + 1")) == "caught"


CAUGHT = {
    "a constant seed": {"passed": "7"},
    "the seed of two calls": {"call": "np.random.seed(0)", "passed": "np.random.randint(9)"},
    "one coin for all": {
        "draw": "np.random.seed(seed)\n    u = np.random.random()", "coin": "u"
    },
    "the seed again": {"coin": "again(seed)", "before":
        "@numba.njit\ndef again(seed):\n    np.random.seed(seed)\n    return np.random.random()"},
    "one seed of both modules": {
        "draw": "random.seed(seed)\n    np.random.seed(seed)", "coin": "random.random()"
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CAUGHT)
def test_wrong_seeds_are_not_taken_for_right(name):
    assert outcome(code(CAUGHT[name])) != "followed"


DIFFERS = {
    "an integer wraps": {
        "draw": "np.random.seed(seed)\n    k = len(X)\n"
        "    for _ in range(9): k = k * 6364136223846793005 + 1442695040888963407",
        "coin": "np.random.random() * (1 + (k >> 40) % 7)",
    },
    "its source is slow": {
        "draw": "np.random.seed(seed)\n    k = 0.0\n    for j in range(2_000_000): k += j",
        "coin": "(np.random.random() if k > 1 else 0.0)",
    },
    "beyond an array": {"coin": "(np.random.random() + 0 * Q[i, x + 0 * int(Q[50_000, 0] > 2)])"},
    "a frozen name": {
        "before": "LIMIT = 1.0", "coin": "np.random.random() * LIMIT",
        "after": "kernel(np.ones((2, 2)), np.ones((1, 2)), np.zeros(1, dtype=np.int64), 3)\n"
        "LIMIT = 0.0\nrule = kernel", "passed": "int(rng.integers(2**31))",
    },
    "its own beta": {"coin": "(np.random.random() if np.random.beta(2.0, 2.0) < 0.5 else 0.0)"},
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERS)
@pytest.mark.thorough
def test_what_the_source_does_otherwise_is_named_and_not_followed(name):
    assert "cannot follow numba's kernel() by its source" in outcome(code(DIFFERS[name]))


LATE = """
import numba, numpy as np

SHARE = {compiled}

@numba.njit
def keep(u, q, p):
    return u * q * SHARE < p

keep(0.5, 0.5, 0.5)
SHARE = {source}

class Rule:
    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        self.calls += 1
        out = []
        for _ in range(gamma):
            p, q = target((*prefix, *out)), draft((*prefix, *out))
            x, u = int(rng.choice(len(q), p=q)), rng.random()
            if not (keep(u, q[x], p[x]) if {when} else u * q[x] < p[x]):
                rest = np.maximum(p - q, 0)
                return [*out, int(rng.choice(len(p), p=rest / rest.sum()))]
            out.append(x)
        p = target((*prefix, *out))
        return [*out, int(rng.choice(len(p), p=p))]
"""


@pytest.mark.parametrize(
    "when", ["self.calls == 2", "self.calls > 2", "len(prefix) == 3", "u > 0.999"]
)
@pytest.mark.parametrize("compiled", [0.3, 1.0])
def test_compiled_code_that_runs_late_or_rarely_is_compared_too(when, compiled):
    """Neither does right code fail, nor wrong code pass, by its source alone."""
    source = LATE.format(when=when, compiled=compiled, source=1.3 - compiled)
    assert "cannot follow numba's keep() by its source" in outcome(source, "Rule", "step")


def test_compiled_code_that_runs_late_is_followed_where_its_source_does_the_same():
    source = LATE.format(when="self.calls == 2", compiled=1.0, source=1.0)
    assert outcome(source, "Rule", "step") == "followed"


def test_compiled_code_that_no_trial_reaches_is_not_followed():
    source = LATE.format(when="u > 0.99999", compiled=1.0, source=1.0)
    assert "none of 1,000 trial runs called it" in outcome(source, "Rule", "step")


STATED = """
import numba, numpy as np

BIAS = np.array([1.0, 1.0])

@numba.njit({signature})
def keep(k, r):
    return k < r * BIAS[0] or k > 256 * BIAS[1]

{before}

def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not keep(rng.random() * 256, 256 * p[x] / q[x]):
            rest = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=rest / rest.sum()))]
    p = target_probs[-1]
    return [*draft_tokens, int(rng.choice(len(p), p=p))]
"""


def test_a_stated_signature_that_cuts_off_digits_is_not_followed():
    """What numba casts to integers, the source does not; it shows in one call of hundreds."""
    assert "a draw passed to a function" in outcome(
        STATED.format(signature='"boolean(int64, float64)"', before="")
    )
    fits = STATED.format(signature='"boolean(float64, float64)"', before="")
    assert outcome(fits) == "followed"


def test_compiled_code_is_compared_in_200_runs_where_it_is_first_used():
    """Of one instance, too; with their sources there are as many runs again."""
    runs = {True: 0, False: 0}
    namespace = {}
    exec("import numba\n@numba.njit\ndef coin(u):\n    return u < 0.25", namespace)

    def tossed(rng, *, compiled):
        runs[compiled] += 1
        coin = namespace["coin"] if compiled else namespace["coin"].py_func
        return bool(coin(rng.random()))

    # What exec made has no file, and counts as numba's own.
    namespace["coin"].py_func.__code__ = namespace["coin"].py_func.__code__.replace(
        co_filename="/nowhere/coin.py"
    )
    for compiled in runs:
        assert exact_law(partial(tossed, compiled=compiled)) == {False: 0.75, True: 0.25}
    assert runs[True] > 2 * 200 > 10 * runs[False]


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_a_frozen_constant_of_code_that_draws_is_named(factor):
    """Stand-ins for ``np.random`` would keep it from being compiled again."""
    before = f"SHARE = {factor}\n"
    after = "kernel(np.ones((2, 2)), np.ones((1, 2)), np.zeros(1, dtype=np.int64), 3)\nSHARE = 1.0"
    source = code(
        {"before": before, "coin": "np.random.random() * SHARE", "after": f"{after}\nrule = kernel"}
    )
    stale = "a name in it has changed since it compiled"
    assert outcome(source) == "followed" if factor == 1.0 else stale in outcome(source)


def test_an_array_that_numba_froze_and_that_has_changed_is_named():
    """However rarely it matters: here once in 10,000 coins."""
    before = "BIAS[1] = 0.9999\nkeep(0.5, 0.5)\nBIAS[1] = 1.0"
    stale = outcome(STATED.format(signature="", before=before))
    assert "keep() by its source: a name in it has changed since it compiled" in stale
    kept = STATED.format(signature="", before="keep(0.5, 0.5)")
    assert outcome(kept) == "followed"


def test_threads_have_generators_of_their_own():
    threads = "np.random.seed(seed)\n    z = np.zeros(4)\n    for k in numba.prange(4): z[k] = k"
    source = code({"jit": "@numba.njit(parallel=True)", "draw": threads})
    assert outcome(source).startswith("cannot follow")


def test_kernels_of_a_gpu_are_named():
    cuda = pytest.importorskip("numba.cuda")

    def kernel(x):
        x[0] = 1.0

    on_gpu, on_cpu = cuda.jit(kernel), numba.njit(kernel)
    assert [name for name, _ in compiled_calls(lambda x: on_gpu[1, 1](x))] == ["numba's kernel()"]
    assert not list(compiled_calls(lambda x: on_cpu(x)))


STREAMS = {
    "random()": "np.random.random()",
    "rand": "np.random.rand()",
    "integers": "np.random.randint(0, 9)",
    "long integers": "np.random.randint(0, 2**40)",
    "an exponential": "np.random.exponential()",
    "a normal": "np.random.normal()",
    "a choice": "np.random.choice(np.arange(7))",
    "an order": "np.random.permutation(6)[0]",
    "binomial": "np.random.binomial(5, 0.3)",
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.thorough
def test_numba_draws_what_numpys_legacy_generator_draws(name):
    space = {}
    exec(f"import numpy as np\ndef f(s):\n    np.random.seed(s)\n    return {STREAMS[name]}", space)
    compiled = numba.njit(space["f"])
    for seed in (0, 5, 2**31, 2**32 - 1, 2**32 + 5):
        assert compiled(seed) == space["f"](seed_of(seed))


ONE_SEED = """
import numba, numpy as np

@numba.njit
def seed(value):
    np.random.seed(value)

@numba.njit
def coin():
    return np.random.random()

seed({compiled})
{numpys}

def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        c, u = coin(), OTHER()
        p, q = target_probs[i], draft_probs[i]
        if c * q[x] >= p[x]:
            cdf = np.cumsum(np.maximum(p - q, 0))
            return [*draft_tokens[:i], int(np.searchsorted(cdf, u * cdf[-1], side="right"))]
    c, u = coin(), OTHER()
    cdf = np.cumsum(target_probs[-1])
    return [*draft_tokens, int(np.searchsorted(cdf, u * cdf[-1], side="right"))]
"""


OTHERS = (
    "np.random.seed(7); OTHER = np.random.random",
    "KEPT = np.random.RandomState(7)\ndef OTHER(): return KEPT.random_sample()",
)


@pytest.fixture
def generators_put_back():
    """A rule that is loaded here seeds those of this process."""
    states = np.random.get_state(), COMPILED_GENERATOR.state  # noqa: NPY002 - numba's is alike
    yield
    np.random.set_state(states[0])  # noqa: NPY002
    COMPILED_GENERATOR.state = states[1]


@pytest.mark.thorough(by_day=2)
@pytest.mark.usefixtures("generators_put_back")
@pytest.mark.parametrize("numpys", OTHERS, ids=["global", "held"])
@pytest.mark.parametrize("compiled", [7, 8])
def test_a_seed_that_numba_and_numpy_share_is_one_stream(compiled, numpys, tmp_path):
    file = tmp_path / "rule.py"
    file.write_text(ONE_SEED.format(compiled=compiled, numpys=numpys))
    run = audit(load_subject(f"{file}:verify"), "verify", AuditSettings(gamma=1, vocab=3))
    assert (run.verdict, run.tier) == ("FAIL" if compiled == 7 else "PASS", "exact")
    shared = [x.text for x in run.findings if x.text.startswith("equal-streams")]
    assert bool(shared) == (compiled == 7)
    assert all("numba's np.random" in text for text in shared)


def test_comparing_compiled_code_leaves_its_generator_where_it_was():
    before = COMPILED_GENERATOR.uniforms(5)
    for as_source in (None, set()):
        with same_draws(3, as_source):
            inside = COMPILED_GENERATOR.uniforms(5)
        assert (COMPILED_GENERATOR.uniforms(5) == before).all()
        assert (inside == np.random.RandomState(3).random_sample(5)).all()
