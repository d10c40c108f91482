"""What tiles refuse, where they stop, and draws that have an address."""

import re
from pathlib import Path

import numpy as np
import pytest
from docs.examples import blocks

torch = pytest.importorskip("torch")

from simverify.auditing.comparison import compare_blocks  # noqa: E402
from simverify.backends import (  # noqa: E402
    fused,
    rules,
)
from simverify.backends import uniforms as numbers  # noqa: E402
from simverify.errors import SimverifyError  # noqa: E402
from simverify.models.base import compact  # noqa: E402
from simverify.symbolic import (  # noqa: E402
    CannotEnumerate,
    Enumeration,
)
from simverify.symbolic.engine import Budget  # noqa: E402
from simverify.symbolic.hidden_state import (  # noqa: E402
    UNCHANGED_STATE,
    HiddenState,
)
from simverify.symbolic.source import (  # noqa: E402
    TORCH_CALLS_PER_RUN,
    total_effort,
)
from simverify.symbolic.watchdog import is_user_interrupt  # noqa: E402
from simverify.triton_cpu import (  # noqa: E402
    OutOfBounds,
    Unsupported,
    language,
    load_tiles,
    tl,
    triton,
)
from simverify.triton_cpu.blocks import (  # noqa: E402
    LazyLanes,
    combine_lanes,
)

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
PAGE = "docs/how-to/gpu.md"


def kernel(tmp_path, body, arguments="x, out, n, BLOCK: tl.constexpr"):
    file = tmp_path / "kernels.py"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    file.write_text(f"{HEAD}def kernel({arguments}):\n{lines}\n")
    return load_tiles(file, ["kernel"]).kernel


def run(tmp_path, body, x=(1.0, 2.0, 3.0), block=4, out=4):
    x, out = torch.tensor(x), torch.zeros(out)
    kernel(tmp_path, body)[(1,)](x, out, len(x), BLOCK=block)
    return out.tolist()


BESIDE = [
    ("tl.store(out, tl.load(x + n))", r"x\[3\] of 3 elements"),
    ("tl.store(out, tl.load(x - 1))", r"x\[-1\] of 3 elements"),
    ("tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))", r"x\[3\] of 3"),
    ("tl.store(out + 4, 1.0)", r"out\[4\] of 4 elements"),
    ("i = tl.arange(0, BLOCK)\ntl.store(out + 2 * i, i, i < n)", r"out\[4\] of 4 elements"),
    ("i = tl.arange(0, BLOCK)\ntl.store(out + i, tl.load(x + i, i <= n, 0.0))", r"x\[3\] of 3"),
    ("i = tl.arange(0, BLOCK)\ntl.store(out, tl.sum(tl.load(x - 1 + i, i < n, 0.0)))", r"x\[-1\]"),
    ("i = tl.arange(0, 2)\ntl.store(out + tl.load(x + i).to(tl.int32) * n, 1.0)", r"out\[6\] of 4"),
]


@pytest.mark.parametrize(("body", "where"), BESIDE)
def test_memory_beside_a_tensor_is_an_error_with_its_line(tmp_path, body, where):
    line = 8 + body.count("\n")
    with pytest.raises(OutOfBounds, match=rf"{where}.*kernels\.py:{line}\)"):
        run(tmp_path, body)


def test_a_rest_that_several_use_is_computed_once():
    """Ten rounds that each use the word before twice would compute the first a thousand times."""
    asked = []

    def first(begin, end):
        asked.append((begin, end))
        return np.arange(begin, end)

    word = LazyLanes(first)
    for _ in range(10):
        word = combine_lanes(np.add, [word, word])
    assert word.between(3, 5).tolist() == [3 * 1024, 4 * 1024]
    assert asked == [(3, 5)]
    assert word.between(5, 6).tolist() == [5 * 1024]
    assert asked == [(3, 5), (5, 6)]


def test_a_launch_takes_effort_by_its_tensors(tmp_path, monkeypatch):
    """So that an audit of kernels leaves off as soon as one of as many calls of torch."""
    one = kernel(tmp_path, "tl.store(out, tl.load(x))")
    x, out = torch.ones(1), torch.zeros(1)

    def call():
        one[(1,)](x, out, 1, BLOCK=1)
        return (0,)

    def effort(calls):
        monkeypatch.setattr(language, "TENSOR_ARGUMENT_COST", calls)
        with Enumeration(call) as enumeration:
            enumeration.run(call, Budget(10))
            return total_effort(enumeration.source)

    none, some, twice = map(effort, (0, 50, 100))
    assert twice - none == 2 * (some - none)
    assert some - none >= 2 * 50 / TORCH_CALLS_PER_RUN


def test_a_view_ends_where_it_ends(tmp_path):
    x, out = torch.arange(12.0).reshape(3, 4)[1:, :2], torch.zeros(1)
    one = kernel(tmp_path, "tl.store(out, tl.load(x + n))")
    one[(1,)](x, out, 5, BLOCK=1)
    assert out == x[1, 1]
    with pytest.raises(OutOfBounds, match=r"x\[6\] of 6 elements"):
        one[(1,)](x, out, 6, BLOCK=1)


def test_rows_that_wrap(tmp_path):
    """Of the second and the third program the last 7 and 15 numbers wrap."""
    body = """pid = tl.program_id(0)
i = n + pid * 8 + tl.arange(0, BLOCK)
tl.store(out + pid, tl.sum((i < 0).to(tl.int32), axis=0))"""
    x, out = torch.zeros(1), torch.zeros(3, dtype=torch.int32)
    kernel(tmp_path, body)[(3,)](x, out, 2**31 - 64 - 1, BLOCK=64)
    assert out.tolist() == [0, 7, 15]


BRANCHES = """i = tl.arange(0, BLOCK)
kept = tl.load(x + i, i < n, 0.0)
total = 0.0
for k in range(n):
    y = tl.load(x + k)
    if y > 6.0:
        break
    if y == 2.0:
        continue
    total += y
    kept = tl.where(i == k, kept * 2, kept)
other = kept if total > 100.0 else i.to(tl.float32)
if total > 1.0 and (total < 3.0 or not total == 8.0):
    total = total + tl.sum(kept, axis=0)
tl.store(out + i, kept + other, i < n)
tl.store(out, total)"""


@pytest.mark.parametrize("block", [16, 64])
def test_branches_and_loops(tmp_path, block):
    out = run(tmp_path, BRANCHES, x=[float(i) for i in range(9)], block=block, out=9)
    assert out == [19 + 36 + 19, 3, 4, 9, 12, 15, 18, 14, 16]


CALLS = """
    tl.store(out, 1.0)


SEEN = []


def quiet():
    x = torch.zeros(4)
    kernel[(1,)](x, x, 4, BLOCK=4)


def remembering():
    SEEN.append(1)
    quiet()
"""


@pytest.mark.parametrize(("name", "keeps"), [("quiet", False), ("remembering", True)])
def test_a_launch_is_nothing_that_the_code_keeps(tmp_path, name, keeps):
    """An audit looks for what a call leaves to the next; the control does leave something."""
    file = tmp_path / "calls.py"
    file.write_text(f"{HEAD}def kernel(x, out, n, BLOCK: tl.constexpr):{CALLS}")
    code = getattr(load_tiles(file, ["kernel", name]), name)
    kept = HiddenState(code, None)
    code()
    assert (kept.image() != UNCHANGED_STATE) is keeps


def test_lanes_that_nothing_fills_hold_no_number(tmp_path):
    out = run(tmp_path, "i = tl.arange(0, BLOCK)\ntl.store(out + i, tl.load(x + i, i < n) * 0)")
    assert out[:3] == [0, 0, 0]
    assert out[3] != out[3]


REFUSED = [
    ("if tl.arange(0, BLOCK) < n:\n    tl.store(out, 1.0)", "Triton decides on scalars"),
    ("tl.store(out, tl.sum(tl.arange(0, 3)))", "powers of two"),
    ("tl.store(out, tl.load(x) // 2.0)", "// of floats"),
    ("tl.store(out, tl.program_id(0).to(tl.uint32) // tl.load(x).to(tl.int32))", "signs differ"),
    ("tl.store(out, tl.program_id(0) + 5000000000)", "does not hold it"),
    ("tl.store(out, tl.load(n))", "no pointer"),
    ("tl.store(out, tl.arange(0, BLOCK)[1])", "an element of a block"),
    ("tl.store(out, tl.exp(n))", "takes fp32 and fp64"),
    ("tl.store(out, tl.load(x, boundary_check=(0,)))", "boundary_check"),
    ("tl.store(out, tl.argmax(tl.zeros((4,), tl.int32), 0, tie_break_left=False))", "leaves it"),
]


@pytest.mark.parametrize(("body", "what"), REFUSED)
def test_what_is_not_computed_is_one_line_with_the_kernels_own(tmp_path, body, what):
    with pytest.raises(Unsupported, match=rf"^\S+kernels\.py:\d+: .*{re.escape(what)}"):
        run(tmp_path, body)


def test_a_name_that_is_not_known_stops_the_load(tmp_path):
    with pytest.raises(SimverifyError, match=r"kernels\.py:9: kernel uses tl\.atomic_add,"):
        kernel(tmp_path, "i = 0\ntl.atomic_add(out + i, 1.0)")
    with pytest.raises(SimverifyError, match="no file"):
        load_tiles(tmp_path / "none.py", ["kernel"])


def test_launches(tmp_path):
    one = kernel(tmp_path, "tl.store(out + tl.program_id(1), tl.load(x) + BLOCK + n)")
    x, out = torch.ones(1), torch.zeros(3)
    one[lambda given: (1, given["BLOCK"])](x, out, n=2, BLOCK=3, num_warps=4)
    assert out.tolist() == [6, 6, 6]
    for wrong, what in (({"n": 2}, "without BLOCK"), ({"n": 2, "BLOCK": 1, "m": 1}, "with m,")):
        with pytest.raises(Unsupported, match=what):
            one[(1,)](x, out, **wrong)
    with pytest.raises(Unsupported, match="without a grid"):
        one(x, out, 1, 1)
    with pytest.raises(Unsupported, match="argument x of type bfloat16"):
        one[(1,)](x.bfloat16(), out, 1, BLOCK=1)
    tuned = triton.autotune([triton.Config({"BLOCK": 7}), triton.Config({"BLOCK": 9})], key=[])
    tuned(one)[(1, 1)](x, out, 2)
    assert out[0] == 10


def page_rule(tmp_path, pages_files, change=("", "")):
    old, new = change
    text = pages_files["my_kernel.py"]
    assert text.count(old) == 1 or not old
    (tmp_path / "my_kernel.py").write_text(text.replace(old, new))
    scope = {}
    rule = pages_files["rule.py"].replace('"my_kernel.py"', repr(str(tmp_path / "my_kernel.py")))
    exec(rule, scope)
    return scope["verify"]


@pytest.fixture
def pages_files(request):
    text = (request.config.rootpath / PAGE).read_text(encoding="utf-8")
    return {block.file: block.text for block in blocks(text) if block.file}


def deviation(rule, gamma=2):
    with Enumeration(rule, prune=1e-12) as enumeration:
        return compare_blocks(enumeration, rule, compact(), gamma)


def test_coins_of_a_kernel_are_draws(tmp_path, pages_files):
    found = deviation(page_rule(tmp_path, pages_files))
    assert found.max_abs_deviation < 1e-6
    assert "float32" in str(found.dtype)


def test_what_is_not_computed_is_no_verdict(tmp_path, pages_files):
    """Neither a path that fails nor one that passes: it ends the audit, with exit code 4."""
    rule = page_rule(tmp_path, pages_files, ("kept = 0", "kept = 0 if tl.arange(0, 4) > 1 else 0"))
    with pytest.raises(Unsupported, match=r"my_kernel\.py:9: .*block of shape"):
        deviation(rule)
    uniform = np.full((2, 3), 1 / 3)
    with pytest.raises(Unsupported, match="block of shape") as raised:
        rule(uniform, uniform[:1], [0], np.random.default_rng(1))
    assert raised.value.exit_code == 4
    assert is_user_interrupt(raised.value)
    assert not is_user_interrupt(OutOfBounds())


def test_what_only_draws_cannot_do_is_not_followed(tmp_path, pages_files):
    words = "tl.philox(key, *(tl.zeros((), tl.uint32) + i for i in range(4)))[0].to(tl.float32)"
    rule = page_rule(tmp_path, pages_files, ("tl.rand(key, GAMMA)", f"({words} * 0.0)"))
    uniform = np.full((2, 3), 1 / 3)
    assert len(rule(uniform, uniform[:1], [0], np.random.default_rng(1))) == 2
    with pytest.raises(CannotEnumerate, match=r"tl\.philox in the exact tier.*my_kernel\.py:"):
        deviation(rule)


WRONG = [
    ("tl.rand(key, GAMMA)", "tl.rand(key, 0)"),  # one address twice is one draw
    ("tl.rand(key, i)", "tl.rand(key, 0)"),
    ("tl.rand(key, GAMMA)", "tl.rand(key, i)"),  # by way of a loop's last counter
    ("tl.rand(key, GAMMA)", "tl.rand(key, i.to(tl.int64))"),  # in another type
    ("tl.rand(key, GAMMA)", "tl.rand(key + 1 - 1, 0 * GAMMA)"),  # the address is computed
    ("law = tl.maximum(law - ", "law = tl.maximum(0.9 * law - "),
    ("> goal)", ">= goal + 0.05)"),
]


@pytest.mark.parametrize("change", WRONG)
def test_an_address_used_again_is_seen(tmp_path, pages_files, change):
    assert deviation(page_rule(tmp_path, pages_files, change)).max_abs_deviation > 1e-3


RIGHT = [
    ("tl.rand(key, GAMMA)", "tl.rand(key + 1, 0)"),  # another key
    ("tl.rand(key, i)", "tl.rand4x(key, i)[2]"),  # another word
    ("tl.rand(key, GAMMA)", "tl.rand(key, i.to(tl.int64) + 4294967296)"),  # another upper half
    ("tl.rand(key, i)", "(tl.randint(key, i + 9).to(tl.float64) * 2.3283064365386963e-10 + 0.5)"),
    ("launch = ", "q = q.double()\n    launch = "),
]


@pytest.mark.parametrize("change", RIGHT)
def test_another_address_is_another_draw(tmp_path, pages_files, change):
    assert deviation(page_rule(tmp_path, pages_files, change)).max_abs_deviation < 1e-6


def test_one_word_as_a_uniform_and_as_an_integer_is_no_two_draws(tmp_path, pages_files):
    """On a GPU the coin that rejected would choose the token too, so that it is refused."""
    integer = "(tl.randint(key, i).to(tl.float64) * 2.3283064365386963e-10 + 0.5)"
    rule = page_rule(tmp_path, pages_files, ("tl.rand(key, GAMMA)", integer))
    with pytest.raises(CannotEnumerate, match="give one word twice"):
        deviation(rule)


@pytest.mark.parametrize("vocab", [2, 3, 7, 33])
@pytest.mark.parametrize("gamma", [1, 3])
def test_degenerate_rows(tmp_path, pages_files, vocab, gamma):
    """One-hot rows, rows without a token in common, and equal ones have one outcome each."""
    generator = np.random.default_rng(1)
    rule = page_rule(tmp_path, pages_files)
    eye = np.eye(vocab)
    drafts = [vocab - 1] * gamma
    same = eye[[vocab - 1] * (gamma + 1)]
    assert list(map(int, rule(same, same[:-1], drafts, generator))) == [vocab - 1] * (gamma + 1)
    other = eye[[0] * (gamma + 1)]
    assert list(map(int, rule(other, same[:-1], drafts, generator))) == [0]


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("logits", [False, True])
def test_the_projects_own_kernels_run_here_too(monkeypatch, rule, logits):
    """Same tokens as the rules in torch: 3 rows of 9 tokens in tiles of 4."""
    names = ("fill_uniforms", "sum_tiles", "weigh", "sum_laws", "draw")
    tiles = load_tiles(Path(fused.__file__).with_name("kernels.py"), names)
    monkeypatch.setattr(fused, "TILE", 4)
    monkeypatch.setattr(fused, "_load_kernels", lambda: (tiles, "cpu"))
    monkeypatch.setattr(fused, "_triton_dtype", lambda kind: tl.float64)
    torch.manual_seed(3)
    p, q = torch.rand(3, 4, 9, dtype=torch.float64), torch.rand(3, 3, 9, dtype=torch.float64)
    p, q = (x.log() if logits else x / x.sum(-1, keepdim=True) for x in (p, q))
    drafts, coins = torch.randint(9, (3, 3)), numbers(3, 3, seed=5)
    ours = fused.verify(rule, p, q, drafts, coins, logits=logits)
    torch_s = rules.torch_verify(rule, p, q, drafts, coins, logits=logits)
    assert torch.equal(ours.tokens, torch_s.tokens)
    assert torch.equal(fused.fused_uniforms(3, 3, 5, 0, 0, torch.device("cpu")), coins)
