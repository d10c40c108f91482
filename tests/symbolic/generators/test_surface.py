"""Every public name that yields randomness is followed, or refused by name.

The names are read off the installed libraries. One that a later version adds is in no table
here: the first test says so, and the second that it is refused until it is.
"""

import random
import secrets

import numpy as np
import pytest
from scipy.stats import chisquare
from support.fuzzing.generator_pairs import law_of

torch = pytest.importorskip("torch")

from support.surface import (  # noqa: E402
    TORCH,
    P,
    cell,
    refused_with,
)

# How each followed name gives one of few outcomes; g is the generator.
GENERATOR = {
    "random": lambda g: cell(g.random(), 0.2, 0.7),
    "uniform": lambda g: cell(g.uniform(1, 3), 1.5),
    "integers": lambda g: g.integers(3) + g.integers(40, 43, endpoint=True) - 40,
    "standard_exponential": lambda g: cell(g.standard_exponential(), 0.5, 1.5),
    "exponential": lambda g: cell(g.exponential(2.0), 1.0),
    "gumbel": lambda g: cell(g.gumbel(0.5, 2.0), 0.0, 2.0),
    "binomial": lambda g: g.binomial(2, 0.3),
    "multinomial": lambda g: g.multinomial(2, P)[0],
    "choice": lambda g: g.choice(3, p=P) + g.choice([0, 1]),
    "permutation": lambda g: g.permutation(3)[0] * 3 + g.permutation([0, 1, 2])[1],
    "permuted": lambda g: g.permuted(np.arange(3))[1],
    "shuffle": lambda g: (lambda x: (g.shuffle(x), x[0])[1])(np.arange(3)),
    "spawn": lambda g: cell(g.spawn(2)[1].random(), 0.3),
    "bit_generator": lambda g: cell(np.random.Generator(g.bit_generator).random(), 0.3),
}
STATE = {
    **{name: GENERATOR[name] for name in (
        "random", "uniform", "standard_exponential", "exponential", "gumbel", "binomial",
        "multinomial", "choice", "permutation", "shuffle",
    )},
    "rand": lambda g: cell(g.rand(2)[1], 0.4),
    "random_sample": lambda g: cell(g.random_sample(), 0.4),
    "randint": lambda g: g.randint(3) + g.randint(1, 3),
    "random_integers": lambda g: g.random_integers(3),
    "tomaxint": lambda g: cell(g.tomaxint(), 2**61, 2**62),
    "seed": lambda g: (g.seed(), cell(g.rand(), 0.4))[1],
    "get_state": lambda g: (lambda s, x: (g.set_state(s), x + cell(g.rand(), 0.4))[1])(
        g.get_state(), cell(g.rand(), 0.2)
    ),
    "set_state": lambda g: STATE["get_state"](g),
}  # fmt: skip
BITS = {
    "random_raw": lambda g: cell(g.bit_generator.random_raw(), 2**62, 2**63),
    "spawn": lambda g: cell(np.random.Generator(g.bit_generator.spawn(1)[0]).random(), 0.3),
    "state": lambda g: (lambda b, s, x: (setattr(b, "state", s), x + cell(g.random(), 0.4))[1])(
        g.bit_generator, g.bit_generator.state, cell(g.random(), 0.2)
    ),
    "seed_seq": lambda g: cell(np.random.default_rng(g.bit_generator.seed_seq.spawn(1)[0]).random(),
                               0.3),
    "advance": lambda g: (g.bit_generator.advance(3), cell(g.random(), 0.3))[1],
    "jumped": lambda g: cell(np.random.Generator(g.bit_generator.jumped()).random(), 0.3),
    "lock": lambda g: (g.bit_generator.lock.__enter__(), cell(g.random(), 0.3),
                       g.bit_generator.lock.__exit__(None, None, None))[1],
}  # fmt: skip
PYTHON = {
    "random": lambda g: cell(g.random(), 0.3),
    "uniform": lambda g: cell(g.uniform(1, 3), 1.5),
    "getrandbits": lambda g: g.getrandbits(2),
    "randrange": lambda g: g.randrange(1, 7, 2),
    "randint": lambda g: g.randint(1, 3),
    "choice": lambda g: g.choice([0, 1, 1]),
    "choices": lambda g: g.choices(range(3), P)[0],
    "sample": lambda g: (lambda x: x[0] * 3 + x[1])(g.sample(range(3), 2)),
    "shuffle": lambda g: (lambda x: (g.shuffle(x), x[0])[1])([0, 1, 2]),
    "expovariate": lambda g: cell(g.expovariate(2.0), 0.3),
    "paretovariate": lambda g: cell(g.paretovariate(2.0), 1.2),
    "seed": lambda g: (g.seed(), cell(g.random(), 0.3))[1],
    "getstate": lambda g: (lambda s, x: (g.setstate(s), x + cell(g.random(), 0.4))[1])(
        g.getstate(), cell(g.random(), 0.2)
    ),
    "setstate": lambda g: PYTHON["getstate"](g),
}  # fmt: skip

FAMILIES = {
    "numpy Generator": (GENERATOR, np.random.Generator, lambda: np.random.default_rng()),
    "RandomState": (STATE, np.random.RandomState, lambda: np.random.RandomState()),
    "np.random": (STATE, None, lambda: np.random),
    "bit generator": (BITS, np.random.PCG64, lambda: np.random.default_rng()),
    "random.Random": (PYTHON, random.Random, lambda: random.Random()),
    "SystemRandom": (
        {k: f for k, f in PYTHON.items() if "state" not in k}, None, lambda: random.SystemRandom()
    ),
}  # fmt: skip
CASES = [
    *((family, name) for family, (table, _, _) in FAMILIES.items() for name in table
      if family != "np.random" or hasattr(np.random, name)),
    *(("torch", name) for name in TORCH),
]  # fmt: skip


def draw_of(family, name):
    if family == "torch":
        return TORCH[name]
    table, _, make = FAMILIES[family]
    return lambda: table[name](make())


def plain_draws(family, name):
    """Outcomes of the library's own: of one generator, which takes longer to make than to ask.

    A bit generator is made for each, as it may be asked for what leaves it where it was.
    """
    draw = draw_of(family, name)
    if family not in ("torch", "bit generator"):
        table, _, make = FAMILIES[family]
        generator = make()
        draw = lambda: table[name](generator)  # noqa: E731
    return [draw() for _ in range(RUNS)]


RUNS = 4000
FALSE_ALARM = 1e-9
"""Of one test; there are about 100, so the file's is 1e-7."""


@pytest.mark.parametrize(("family", "name"), CASES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.thorough
def test_what_is_followed_has_the_librarys_law(family, name):
    law = law_of(draw_of(family, name))
    seen = np.bincount(plain_draws(family, name), minlength=len(law))
    assert len(seen) == len(law)
    assert seen[law == 0].sum() == 0
    if (law > 0).sum() > 1:
        assert chisquare(seen[law > 0], RUNS * law[law > 0]).pvalue > FALSE_ALARM


def test_another_law_would_be_seen():
    law = law_of(lambda: cell(np.random.default_rng().random(), 0.3))
    seen = np.bincount([cell(x, 0.4) for x in np.random.default_rng(1).random(RUNS)])
    assert chisquare(seen, RUNS * law).pvalue < FALSE_ALARM


# -- what is in no table is refused --


def others(kind, table, none=()):
    return sorted(
        name for name in dir(kind) if not name.startswith("_") and name not in {*table, *none}
    )


@pytest.mark.parametrize("name", others(np.random.Generator, GENERATOR))
def test_other_methods_of_a_generator_are_refused(name):
    def rule():
        getattr(np.random.default_rng(), name)(*arguments(name))
        return 0

    assert f"{name}() of a generator" in refused_with(rule)


def arguments(name):
    """What numpy's own, which runs first, takes."""
    given = {
        "bytes": [1], "dirichlet": [[1, 1]], "hypergeometric": [2, 2, 2], "wald": [1, 1],
        "multivariate_hypergeometric": [[2, 2], 2], "multivariate_normal": [[0], [[1]]],
        "triangular": [0, 1, 2], "noncentral_chisquare": [1, 1], "noncentral_f": [1, 1, 1],
        "standard_t": [1], "vonmises": [0, 1], "zipf": [2], "f": [1, 1], "beta": [1, 1],
        "negative_binomial": [1, 0.5], "logseries": [0.5], "geometric": [0.5], "power": [1],
        "chisquare": [1], "gamma": [1], "standard_gamma": [1], "pareto": [1], "weibull": [1],
    }  # fmt: skip
    return given.get(name, [])


@pytest.mark.parametrize("name", others(np.random.RandomState, STATE))
@pytest.mark.parametrize("make", [lambda: np.random.RandomState(), lambda: np.random])
def test_other_legacy_functions_are_refused(name, make):
    def rule():
        if name not in ("ranf", "sample"):
            getattr(make(), name)(*arguments(name))
        return 0

    assert f"{name}() of a generator" in refused_with(rule)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_other_attributes_of_bit_generators_are_refused(kind):
    real = getattr(np.random, kind)
    for name in others(real, BITS):

        def rule(name=name):
            getattr(getattr(np.random, kind)(), name)
            return 0

        assert f"{name} of the bit generator" in refused_with(rule)


@pytest.mark.parametrize("name", others(random.Random, PYTHON, {"VERSION"}))
@pytest.mark.parametrize("make", [lambda: random.Random(), lambda: random])
def test_other_methods_of_pythons_random_are_refused(name, make):
    given = {"randbytes": [1], "triangular": [], "binomialvariate": [], "gauss": [0, 1]}
    two = ("variate" in name and name not in ("expovariate", "paretovariate")) or name == "gauss"

    def rule():
        getattr(make(), name)(*given.get(name, [1, 1] if two else []))
        return 0

    assert f"random.{name}" in refused_with(rule)


@pytest.mark.parametrize(
    "name", sorted({*secrets.__all__} - {"choice", "randbelow", "randbits", "SystemRandom"})
)
def test_other_secrets_are_refused(name):
    if name == "compare_digest":
        return
    assert f"secrets.{name}" in refused_with(lambda: (getattr(secrets, name)(2), 0)[1])


def test_names_that_numpy_random_has_beside_methods_are_known():
    from simverify.symbolic.numpy_random import NON_RANDOM_NAMES

    made = {"Generator", "RandomState", "SeedSequence", "default_rng", "get_bit_generator"}
    kinds = {"PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"}
    functions = {
        name for name in dir(np.random)
        if not name.startswith("_") and callable(getattr(np.random, name))
        and not hasattr(np.random.RandomState, name)
    }  # fmt: skip
    assert functions - made - kinds - NON_RANDOM_NAMES == {"set_bit_generator", "ranf", "sample"}
