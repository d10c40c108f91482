"""torch's generators: seeded, copied, forked, rewound."""

import copy
import pickle
import threading

import numpy as np
import pytest
from support.fuzzing.generator_pairs import same_half

from simverify.symbolic.provenance import CannotEnumerate

torch = pytest.importorskip("torch")
OWN = torch.Generator()
STATE = torch.Generator().manual_seed(4).get_state()
F = torch.nn.functional


def rand(generator=None):
    return torch.rand((), dtype=torch.float64, generator=generator).item()


def seeded(seed):
    torch.manual_seed(seed)
    return rand()


def made(seed):
    return rand(torch.Generator().manual_seed(seed))


def drawn():
    return torch.randint(2**62, ()).item()


def noisy(x):
    return x * torch.rand(())


def again(read, put, generator=None):
    """Two draws with the state put back between them."""
    state = read()
    u = rand(generator)
    put(state)
    return u, rand(generator)


def forked():
    with torch.random.fork_rng():
        u = rand()
    return u, rand()


def entropy(generator):
    generator.seed()
    return rand(generator)


class Holder:
    def __init__(self):
        self.generator = torch.Generator()


HELD = {"a": torch.Generator()}
HOLDER = Holder()


def in_a_thread(draw):
    found = []
    thread = threading.Thread(target=lambda: found.append(draw()))
    thread.start()
    thread.join()
    return found[0]


INDEPENDENT = {
    "in a container": lambda: (rand(HELD["a"]), rand(HELD["a"])),
    "in an object": lambda: (rand(HOLDER.generator), rand(HELD["a"])),
    "in a thread": lambda: (in_a_thread(rand), in_a_thread(rand)),
    "seeded, in a thread": lambda: (
        in_a_thread(lambda: made(drawn())),
        in_a_thread(lambda: made(drawn())),
    ),
    "two": lambda: (rand(), rand()),
    "kept": lambda: (rand(OWN), rand()),
    "seed": lambda: (entropy(torch.Generator()), entropy(torch.Generator())),
    "the seed is a number": lambda: (made(torch.seed()), made(torch.Generator().seed())),
    "default": lambda: ((torch.seed(), rand())[1], rand()),
    "drawn seeds": lambda: (made(drawn()), seeded(drawn())),
    "numpy seeds torch": lambda: (made(np.random.default_rng().integers(2**63)), rand()),
    "torch seeds numpy": lambda: (np.random.default_rng(drawn()).random(), rand()),
    "reseeded": lambda: (entropy(torch.default_generator), rand()),
    "logged": lambda: (rand(), (torch.initial_seed() > 0) * rand()),
    "random_": lambda: (torch.empty(()).random_(0, 2).item() / 2, rand()),
    "vmap": lambda: torch.vmap(noisy, randomness="different")(torch.ones(2)),
    "vmap of the other axis": lambda: torch.func.vmap(
        lambda x, y: noisy(x).sum() + y, (1, None), randomness="different"
    )(torch.ones(1, 2), torch.zeros(())),
    "vmap of noise": lambda: torch.vmap(lambda x: x * 2 / 2)(torch.rand(2)),
    "randperm": lambda: (torch.randperm(2)[0].item(), rand()),
}

SAME = {
    "in a container": lambda: again(HELD["a"].get_state, HELD["a"].set_state, HELD["a"]),
    "mixed seed": lambda: (
        lambda s: (made((7 + s * 1_000_003) % 2**63), made((s * 1_000_003 + 7) % 2**63))
    )(drawn()),
    "across threads": lambda: (lambda s: (in_a_thread(lambda: made(s)), made(s)))(drawn()),
    "state": lambda: again(torch.get_rng_state, torch.set_rng_state),
    "torch.random": lambda: again(torch.random.get_rng_state, torch.random.set_rng_state),
    "cloned": lambda: again(lambda: torch.get_rng_state().clone(), torch.set_rng_state),
    "of one's own": lambda: again(OWN.get_state, OWN.set_state, OWN),
    "default_generator": lambda: again(
        torch.default_generator.get_state, torch.random.set_rng_state
    ),
    "forked": forked,
    "clone_state": lambda: (rand(OWN.clone_state()), rand(OWN)),
    "copied": lambda: (rand(copy.copy(OWN)), rand(OWN)),
    "deepcopied": lambda: (rand(copy.deepcopy(OWN)), rand(OWN)),
    "pickled": lambda: (rand(pickle.loads(pickle.dumps(OWN))), rand(OWN)),
    "drawn seed": lambda: (lambda s: (made(s), seeded(s)))(drawn()),
    "its seed": lambda: (lambda s: (rand(), made(s)))(torch.seed()),
    "initial seed": lambda: (seeded(drawn()), made(torch.initial_seed())),
    "the same state": lambda: (lambda r: (r, r))(
        rand() * torch.equal(torch.get_rng_state(), torch.get_rng_state())
    ),
}

CONSTANT = {
    "in a container": lambda: (rand(HELD["a"].manual_seed(7)), rand()),
    "in an object": lambda: (rand(HOLDER.generator.manual_seed(7)), rand()),
    "in a thread": lambda: (in_a_thread(lambda: made(7)), rand()),
    "manual_seed": lambda: (seeded(0), rand(OWN)),
    "made": lambda: (made(1), rand(OWN)),
    "no seed": lambda: (rand(torch.Generator()), rand(OWN)),
    "default_generator": lambda: (
        (torch.default_generator.manual_seed(3), rand())[1], rand(OWN)
    ),
    "set to a state": lambda: ((torch.set_rng_state(STATE), rand())[1], rand(OWN)),
    "copied": lambda: (rand(copy.deepcopy(torch.Generator())), rand(OWN)),
    "initial seed": lambda: (made(torch.initial_seed()), rand(OWN)),
}  # fmt: skip

REFUSED = {
    "few seeds": (lambda: (made(torch.randint(2**31, ()).item()), 0.2), "2**31 drawn numbers"),
    "inside": (lambda: (int(torch.get_rng_state()[8]) % 2, 0.2), "inside of a torch generator"),
    "as numpy": (lambda: (torch.get_rng_state().numpy()[8], 0.2), "inside of a torch generator"),
    "two kinds": (
        lambda: (rand(OWN.clone_state()), torch.rand((), generator=OWN)),
        "draws of two kinds",
    ),
    "normal": (lambda: (torch.randn(()), 0.2), "torch.randn"),
    "dropout": (lambda: (F.dropout(torch.ones(1)).item(), 0.2), "torch.dropout"),
    "layer": (lambda: (torch.nn.Dropout()(torch.ones(1)).item(), 0.2), "torch.dropout"),
    "gumbel": (lambda: (F.gumbel_softmax(torch.ones(2))[0].item(), 0.2), "gumbel_softmax"),
    "vmap, numpy inside": (
        lambda: torch.vmap(lambda x: x * np.random.default_rng().random())(torch.ones(2)),
        "draws of other libraries inside torch.vmap",
    ),
    "vmap, one draw": (
        lambda: torch.vmap(lambda x: x * torch.rand(()), randomness="same")(torch.ones(2)),
        "torch.vmap(randomness='same')",
    ),
}


@pytest.mark.parametrize("how", INDEPENDENT)
def test_streams_that_have_nothing_in_common_are_independent(how):
    assert same_half(INDEPENDENT[how]) == (pytest.approx(0.5, abs=1e-14), [])


@pytest.mark.parametrize("how", SAME)
def test_the_same_state_gives_the_same_draw(how):
    assert same_half(SAME[how]) == (pytest.approx(1.0, abs=1e-14), [])
    for _ in range(20):
        u, v = SAME[how]()
        assert u == v


@pytest.mark.parametrize("how", CONSTANT)
def test_a_constant_is_a_finding_however_it_is_dressed(how):
    assert same_half(CONSTANT[how])[1] == ["constant-seed"]


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_not_known_is_refused_by_name(how):
    two, words = REFUSED[how]
    with pytest.raises(CannotEnumerate) as refusal:
        same_half(two)
    assert words in str(refusal.value)


def test_vmap_says_as_torch_does_that_it_draws():
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.vmap(noisy)(torch.ones(2))
    with pytest.raises(AssertionError, match="raised RuntimeError: vmap: called random operation"):
        same_half(lambda: torch.vmap(noisy)(torch.ones(2)))


def test_a_layer_that_is_not_in_training_drops_nothing():
    layer = torch.nn.Dropout().eval()
    assert same_half(lambda: (layer(torch.ones(1)).item() * rand(), rand()))[0] == 0.5


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_generator_of_a_gpu_is_stood_for_without_the_gpu(monkeypatch):
    """Its use would fail in a process forked from one that uses it, as it does where none is."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises((RuntimeError, AssertionError)):
        torch.Generator("cuda").seed()

    def two():
        torch.cuda.manual_seed(3)  # the GPU's stream alone
        assert torch.cuda.initial_seed() == 3
        torch.cuda.set_rng_state(torch.cuda.get_rng_state())
        return rand(), rand()

    assert same_half(two) == (pytest.approx(0.5, abs=1e-14), [])
