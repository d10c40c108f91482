import pytest

torch = pytest.importorskip("torch")

from support.backend_batches import batch  # noqa: E402

from simverify.backends import verify  # noqa: E402
from simverify.errors import UsageError  # noqa: E402

NAMES = ("target", "draft", "draft_tokens", "uniforms")


def given(**changed):
    return {**dict(zip(NAMES, batch(4, 2, 5, seed=0), strict=True)), **changed}


def changed(name, place, value, **options):
    values = given()[name].clone()
    values[place] = value
    return given(**{name: values}, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (given(draft=None), "draft is None: the token rule reads the rows"),
        (given(target=[[0.5, 0.5]]), "target is a list: pass a torch.Tensor"),
        (given(draft_tokens=torch.zeros(4, dtype=torch.int64)), "(4,): pass (B, gamma), not empty"),
        (given(draft_tokens=torch.zeros(4, 0, dtype=torch.int64)), "(4, 0): pass (B, gamma)"),
        (given(target=torch.ones(4, 2, 5).double() / 5),
         "target has shape (4, 2, 5), draft_tokens (4, 2): pass (B, gamma+1, V) = (4, 3, V)"),
        (given(draft=torch.ones(4, 2, 6).double() / 6),
         "draft has shape (4, 2, 6): pass (B, gamma, V) = (4, 2, 5)"),
        (given(uniforms=torch.rand(4, 2).double()), "(4, 2): pass (B, gamma+1) = (4, 3)"),
        (given(target=torch.ones(4, 3, 5, dtype=torch.int64)), "target is int64: pass float64, "),
        (given(draft=given()["draft"].float()), "draft is float32, target float64: pass the same"),
        (given(draft_tokens=torch.zeros(4, 2).int()), "draft_tokens is int32: pass int64"),
        (given(uniforms=torch.rand(4, 3)), "uniforms is float32: pass float64"),
        (given(draft_tokens=given()["draft_tokens"].to("meta")),
         "draft_tokens is on meta, target on cpu: move all to one device"),
        (changed("draft_tokens", (1, 0), 5), "draft_tokens[1, 0] = 5: pass ids in 0..4"),
        (changed("draft_tokens", (3, 1), -1), "draft_tokens[3, 1] = -1: pass ids in 0..4"),
        (changed("uniforms", (2, 2), 1.0), "uniforms[2, 2] = 1.0: pass numbers in [0, 1)"),
        (changed("uniforms", (2, 1), float("nan")), "uniforms[2, 1] = nan"),
        (changed("draft", (1, 1), 0.1),
         "draft[1, 1] sums to 0.5 (float64): pass probabilities, or logits=True"),
        (changed("target", (0, 2, 3), float("nan")), "target[0, 2] sums to nan (float64)"),
        (changed("target", (0, 2), torch.tensor([-0.5, 0.5, 0.5, 0.25, 0.25]).double()),
         "target[0, 2] has the entry -0.5: pass probabilities"),
        (changed("target", (1, 1, 4), float("nan"), logits=True), "target[1, 1] has nan as its"),
        (changed("draft", (1, 1, 4), float("inf"), logits=True), "draft[1, 1] has inf as its"),
        (changed("draft", (0, 0), float("-inf"), logits=True), "draft[0, 0] has -inf as its larg"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(UsageError) as caught:
        verify("token", **arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_rules_suggest_the_nearest():
    with pytest.raises(UsageError, match="unknown rule 'blok': did you mean 'block'"):
        verify("blok", **given())


def test_good_input_in_every_dtype():
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        p, q, x, u = batch(4, 2, 50, seed=0, dtype=dtype)
        verify("block", p, q, x, u)
        verify("match", p, None, x, u)


def test_values_are_read_only_if_asked():
    tokens, _ = verify("token", **changed("draft", (1, 1), 0.1), check=False)
    assert tokens.shape == (4, 3)
