"""Kernels that are translated once: which are, and when they run operator by operator."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from support.batched_doubles import V1  # noqa: E402
from support.kernel_launches import Drafted, launches  # noqa: E402
from support.launching_engines import ENGINES, vllm_v1  # noqa: E402

from simverify.engines.tiles import OutOfBounds, load_tiles  # noqa: E402
from simverify.engines.tiles.kernels import Kernel  # noqa: E402
from simverify.engines.tiles.types import float32  # noqa: E402
from simverify.symbolic.state.kept import NOTHING_NEW, Kept  # noqa: E402

HEAD = "import triton\nimport triton.language as tl\n\nSHIFT = tl.constexpr(1)\n\n\n"


def kernel(folder, source, name="kernel"):
    """Return a kernel of this source, and the programs that run operator by operator."""
    file = folder / "kernel.py"
    file.write_text(HEAD + source)
    module = load_tiles(file, [name])
    made = getattr(module, name)
    stepped = []
    own = made.plans.run

    def run(*given):
        for ids in own(*given):
            stepped.append(ids)
            yield ids

    made.plans.run = run
    return made, stepped, module


ADDED = """@triton.jit
def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n, 0.0) + SHIFT, i < n)
"""


def numbers(n=9):
    return torch.arange(n, dtype=torch.float32), torch.zeros(n)


def launched(made, x, out, *, block=4):
    made[(-(-len(x) // block),)](x, out, len(x), B=block)


@pytest.mark.parametrize("name", ["own", "vllm-v1"])
def test_all_kernels_of_an_engine_are_translated(tmp_path, name):
    """Speed that falls back to operators is silent: so it is looked at here, and not timed."""
    if name == "own":
        tiles = ENGINES[name][1](load_tiles, ENGINES[name][0])
    else:
        file = tmp_path / "rejection_sampler.py"
        file.write_text(V1)
        tiles = vllm_v1(load_tiles, file)
    found = {x.kernel for x in launches(tiles, Drafted(0, 3, 2, 5, 3))}
    for kernel_name in found:
        kept = tiles[kernel_name].plans.kept.values()
        assert kept
        assert all(plan.program is not None for plan in kept), kernel_name


def test_a_launch_runs_what_was_written(tmp_path):
    made, stepped, _ = kernel(tmp_path, ADDED)
    x, out = numbers()
    launched(made, x, out)
    assert torch.equal(out, x + 1)
    assert stepped == []
    assert len(made.plans.kept) == 1
    launched(made, x, out)
    launched(made, x.double(), out.double())
    assert len(made.plans.kept) == 2


def test_other_constants_and_globals_are_another_plan(tmp_path):
    made, stepped, module = kernel(tmp_path, ADDED)
    x, out = numbers()
    launched(made, x, out)
    launched(made, x, out, block=8)
    assert len(made.plans.kept) == 2
    module.SHIFT = 3
    launched(made, x, out)
    assert torch.equal(out, x + 3)
    assert stepped == []


def test_constants_of_modules_are_another_plan(tmp_path):
    head = 'import types\n\nconfig = types.ModuleType("config")\n\n\n'
    made, stepped, module = kernel(tmp_path, head + ADDED.replace("SHIFT", "config.SHIFT"))
    x, out = numbers()
    for shift in (1, 3):
        module.config.SHIFT = shift
        launched(made, x, out)
        assert torch.equal(out, x + shift)
    assert stepped == []


def test_known_functions_are_given_their_keywords(tmp_path):
    made, stepped, _ = kernel(tmp_path, ADDED.replace("SHIFT", 'int("11", base=tl.cdiv(B, y=2))'))
    x, out = numbers()
    launched(made, x, out)
    assert torch.equal(out, x + 3)
    assert stepped == []


def test_loops_too_deep_for_one_function_run_as_before(tmp_path):
    """Python nests 20: each of these two kernels has fewer, both in one have more."""

    def nested(names, inner):
        loops = [f"{'    ' * k}for {i} in range(n):\n" for k, i in enumerate(names, 1)]
        return f"{''.join(loops)}{'    ' * (len(names) + 1)}{inner}\n"

    outer = nested("abcdefghijk", "inner(x_ptr, n)")
    inner = nested("abcdefghijk", "tl.store(x_ptr, tl.load(x_ptr) + 1)")
    source = f"@triton.jit\ndef inner(x_ptr, n):\n{inner}\n\n"
    made, stepped, _ = kernel(tmp_path, f"{source}@triton.jit\ndef kernel(x_ptr, n):\n{outer}")
    x, _ = numbers()
    made[(1,)](x, 1)
    assert x[0] == 1
    assert stepped == [(0,)]


def test_what_is_not_translated_runs_as_before(tmp_path):
    source = ADDED.replace("B: tl.constexpr):", "B: tl.constexpr):\n    assert n == n")
    made, stepped, _ = kernel(tmp_path, source)
    x, out = numbers()
    launched(made, x, out)
    assert torch.equal(out, x + 1)
    assert stepped == [(0,), (1,), (2,)]


def test_a_kernel_that_is_watched_runs_its_own_lines(tmp_path):
    """An audit sees which lines are reached, a debugger stops at them."""
    made, stepped, _ = kernel(tmp_path, ADDED)
    x, out = numbers()
    before = sys.gettrace()
    sys.settrace(lambda *event: None)
    try:
        launched(made, x, out)
    finally:
        sys.settrace(before)
    assert len(stepped) == 3
    if before is None:
        launched(made, x, out)
        assert len(stepped) == 3


def test_lifted_types_run_as_before(tmp_path, monkeypatch):
    """An audit lets coarser types compute in float64."""
    made, stepped, _ = kernel(tmp_path, ADDED)
    x, out = numbers()
    monkeypatch.setattr(type(float32), "numpy_name", "float64")
    launched(made, x, out)
    assert len(stepped) == 3


WRAPS = """@triton.jit
def kernel(x_ptr, out_ptr, first, n, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(x_ptr + pid, tl.load(x_ptr + pid) + 1)
    i = first + pid * 8 + tl.arange(0, B)
    below = (i < n).to(tl.int32)
    tl.store(out_ptr + pid, tl.sum(below, axis=0))
"""


def test_rows_that_wrap_begin_anew(tmp_path):
    """What the program had stored is taken back: it reads that again."""
    made, stepped, _ = kernel(tmp_path, WRAPS)
    x, out = torch.zeros(3), torch.zeros(3, dtype=torch.int32)
    made[(3,)](x, out, 2**31 - 64 - 1, 0, B=64)
    # Of the second and the third the last 7 and 15 numbers wrap.
    assert stepped == [(1,), (2,)]
    assert x.tolist() == [1, 1, 1]
    assert out.tolist() == [0, 7, 15]


@pytest.mark.parametrize("access", [
    "tl.store(out_ptr + 3, tl.load(x_ptr + n))",
    "tl.store(out_ptr + n + tl.arange(0, B), 1.0)",
    "tl.store(out_ptr + 2, tl.sum(tl.load(x_ptr - 1 + tl.arange(0, B), tl.arange(0, B) < n, 0.0)))",
    "tl.store(out_ptr + tl.load(x_ptr + tl.arange(0, B)).to(tl.int32) * n, 1.0)",
])  # fmt: skip
def test_an_access_beside_a_tensor_is_told_with_its_line(tmp_path, access):
    source = f"@triton.jit\ndef kernel(x_ptr, out_ptr, n, B: tl.constexpr):\n    {access}\n"
    made, stepped, _ = kernel(tmp_path, source)
    x, out = numbers()
    with pytest.raises(OutOfBounds, match=r"without a mask \(.*kernel\.py:9\)"):
        made[(1,)](x, out, 9, B=4)
    assert stepped == []


BRANCHES = """@triton.jit
def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    kept = tl.load(x_ptr + i, i < n, 0.0)
    total = 0.0
    for k in range(n):
        x = tl.load(x_ptr + k)
        if x > 6.0:
            break
        if x == 2.0:
            continue
        total += x
        kept = tl.where(i == k, kept * 2, kept)
    other = kept if total > 100.0 else i.to(tl.float32)
    if total > 1.0 and (total < 3.0 or not total == 8.0):
        total = total + tl.sum(kept, axis=0)
    tl.store(out_ptr + i, kept + other, i < n)
    tl.store(out_ptr, total)
"""


@pytest.mark.parametrize("block", [16, 64])
def test_branches_and_loops_are_those_of_the_operators(tmp_path, block):
    x, first = numbers()
    second = first.clone()
    made, stepped, _ = kernel(tmp_path, BRANCHES)
    made[(1,)](x, first, 9, B=block)
    assert stepped == []
    made.plans = None
    made[(1,)](x, second, 9, B=block)
    assert torch.equal(first, second)
    assert first[0] == 19 + sum(x) + 19


CALLS = """

SEEN = []


def quiet():
    x = torch.zeros(4)
    kernel[(1,)](x, x, 4, B=4)


def remembering():
    SEEN.append(1)
    quiet()
"""


@pytest.mark.parametrize(("name", "keeps"), [("quiet", False), ("remembering", True)])
def test_plans_are_nothing_that_the_code_keeps(tmp_path, name, keeps):
    """An audit looks for what a call leaves to the next; the control does leave something."""
    file = tmp_path / "calls.py"
    file.write_text(f"import torch\n{HEAD}{ADDED}{CALLS}")
    module = load_tiles(file, ["kernel", name])
    code = getattr(module, name)
    kept = Kept(code, None)
    code()
    assert len(module.kernel.plans.kept) == 1
    assert (kept.image() != NOTHING_NEW) is keeps


def test_a_kernel_has_its_source_only_from_where_it_was_loaded(tmp_path):
    made, _, _ = kernel(tmp_path, ADDED)
    assert made.plans.node.name == "kernel"
    assert Kernel(made.fn).plans is None
    assert Path(made.fn.__code__.co_filename).name == "kernel.py"
    np.testing.assert_equal(made.arg_names, ["x_ptr", "out_ptr", "n", "B"])
