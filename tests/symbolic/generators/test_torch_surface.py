"""torch's names that yield randomness are followed, or refused by name."""

import pytest
from support.fuzzing.generator_pairs import law_of

torch = pytest.importorskip("torch")
from support.surface import (  # noqa: E402
    TORCH,
    refused_with,
)

from simverify.symbolic.torch_generator import (  # noqa: E402
    REFUSED_FUNCTIONS,
    is_training_dropout,
)


def random_ops():
    """Names of torch's operators that draw, and of those that can be handed a generator."""
    tagged, handed = set(), set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            op = getattr(packet, overload)
            if any("Generator" in str(a.type) for a in op._schema.arguments):
                handed.add(name)
            if torch.Tag.nondeterministic_seeded in op.tags:
                tagged.add(name)
    return tagged, handed


def test_torchs_random_operators_are_followed_or_refused_by_name():
    """Beside those that draw from the default generator alone, whose state is looked at."""
    tagged, handed = random_ops()
    assert len(tagged) > 30
    known = {*TORCH, *REFUSED_FUNCTIONS}
    reachable = {n for n in tagged | handed if hasattr(torch, n) or hasattr(torch.Tensor, n)}
    unknown = {n for n in reachable - known if not is_training_dropout(n, (), {})}
    assert unknown & handed == set()
    assert all(n.startswith("_") or "rnn" in n or n in ("gru", "lstm") for n in unknown)


def test_a_function_that_draws_from_the_default_generator_unseen_is_refused():
    layers = torch.nn.GRU(2, 2, num_layers=2, dropout=0.5)

    def rule():
        return int(layers(torch.ones(1, 1, 2))[0][0, 0, 0] > 9)

    assert "a global generator moved" in refused_with(rule)
    layers.eval()
    assert law_of(rule).tolist() == [1.0]


@pytest.mark.parametrize("name", sorted(REFUSED_FUNCTIONS))
def test_refused_names_of_torch_are_refused(name):
    if not any(hasattr(x, name) for x in (torch, torch.Tensor, torch.nn.functional)):
        pytest.skip("this torch has no such function")
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name, None)
    given = {"binomial": 2, "normal": 2, "cauchy_": 1}.get(name, 1)

    def rule():
        tensors = [torch.full((2, 2, 2), 0.5) for _ in range(given)]
        if function is not None and name in ("alpha_dropout", "feature_dropout", "native_dropout"):
            function(*tensors, 0.5, True)
        elif name in ("randint_like",):
            function(*tensors, 3)
        elif name == "randn":
            torch.randn(2)
        elif function is not None:
            function(*tensors)
        else:
            getattr(torch.Tensor, name)(*tensors, *([0.5] if name == "geometric_" else []))
        return 0

    assert f"torch.{name}" in refused_with(rule)


def test_a_generator_handed_to_an_unknown_function_of_torch_is_refused():
    def rule():
        made = torch.Generator()
        made.seed()
        torch.nn.init.trunc_normal_(torch.empty(2), generator=made)
        return 0

    assert "torch." in refused_with(rule)
