"""Casts to 16 bits, however the type is found: a right rule passes, a lenient one does not."""

import itertools
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest

from simverify.auditing.examiner import Examiner
from simverify.auditing.instances import instance_battery
from simverify.auditing.subject import load_subject
from simverify.symbolic.promotion import promote_held

torch = pytest.importorskip("torch")

MODEL = next(m for m in instance_battery(2, 3) if m.name == "plain, V=3, gamma=2")

RULE = """
import functools, json, struct
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType, SimpleNamespace
import numpy as np
import torch

FACTOR = @factor
@held

def cast(v):
    @cast

def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not rng.random() < cast(FACTOR * p[x] / q[x]):
            rest = np.maximum(p - q, 0)
            return [*map(int, draft_tokens[:i]), int(rng.choice(len(p), p=rest / rest.sum()))]
    return [*map(int, draft_tokens), int(rng.choice(len(p), p=target_probs[-1]))]
"""

# What the code holds before it is called, and how it casts.
NUMPY = {
    "a table": ("TYPES = {'half': np.float16}", "return v.astype(TYPES['half'])"),
    "a table, called": ("TYPES = {'half': np.float16}", "return float(TYPES['half'](v))"),
    "a frozen table": (
        "TYPES = MappingProxyType({'half': np.float16})", "return v.astype(TYPES['half'])"
    ),
    "a nested table": ("TYPES = [('half', [np.float16])]", "return v.astype(TYPES[0][1][0])"),
    "keys that name types": (
        "TYPES = {'float16': np.float16}\nNAME = 'float16'", "return v.astype(TYPES[NAME])"
    ),
    "a tuple": ("TYPES = np.float64, np.float16", "return v.astype(TYPES[1])"),
    "a named tuple": (
        "SETTINGS = namedtuple('Settings', 'kind')(np.float16)", "return v.astype(SETTINGS.kind)"
    ),
    "a namespace": ("HELD = SimpleNamespace(kind=np.float16)", "return v.astype(HELD.kind)"),
    "a frozen dataclass": (
        "@dataclass(frozen=True)\nclass Held:\n    kind: type = np.float16\nHELD = Held()",
        "return v.astype(HELD.kind)",
    ),
    "slots": (
        "class Settings:\n    __slots__ = 'kind',\n    def __init__(self):\n"
        "        self.kind = np.float16\nSETTINGS = Settings()",
        "return v.astype(SETTINGS.kind)",
    ),
    "an enum": (
        "class Kind(Enum):\n    HALF = np.dtype('float16')", "return v.astype(Kind.HALF.value)"
    ),
    "an argument": ("def to(v, kind):\n    return v.astype(kind)", "return to(v, np.half)"),
    "a default": ("def to(v, kind=np.half):\n    return v.astype(kind)", "return to(v)"),
    "a closure": (
        "def make(kind):\n    return lambda v: v.astype(kind)\nto = make(np.half)", "return to(v)"
    ),
    "a partial": ("to = functools.partial(np.array, dtype=np.float16)", "return to([v])[0]"),
    "a configuration": (
        "SETTINGS = json.loads('{\"dtype\": \"float16\"}')", "return v.astype(SETTINGS['dtype'])"
    ),
    "a name that is put together": ("BITS = 16", "return v.astype(f'float{BITS}')"),
    "a letter": ("", "return v.astype('e')"),
    "another byte order": ("", "return v.astype('>f2')"),
    "a dtype": ("", "return v.astype(np.dtype('half'))"),
    "the type of a dtype": ("", "return np.dtype('f2').type(v)"),
    "numpy's own table": ("", "return np.sctypeDict['half'](v)"),
    "an array": ("KIND = {'h': 'half'}", "return np.array([v], dtype=KIND['h'])[0]"),
    "an array filled": ("KIND = {'h': 'half'}", "return np.full(1, v, KIND['h'])[0]"),
    "an array written to": ("", "b = np.empty(1, 'f2')\n    b[0] = v\n    return float(b[0])"),
    "an array out=": (
        "KIND = {'h': 'half'}",
        "b = np.zeros(1, KIND['h'])\n    np.multiply(v, 1.0, out=b, casting='unsafe')\n"
        "    return float(b[0])",
    ),
    "an array made before": ("BUFFER = np.zeros(1, 'f2')", "BUFFER[0] = v\n    return BUFFER[0]"),
    "an array made before, in a table": (
        "HELD = {'b': np.zeros(1, 'f2')}", "HELD['b'][0] = v\n    return float(HELD['b'][0])"
    ),
    "an array made before, out=": (
        "BUFFER = np.zeros(1, 'f2')",
        "np.multiply([v], 1.0, out=BUFFER, casting='unsafe')\n    return float(BUFFER[0])",
    ),
    "a type of another number": ("ONE = np.float16(1)", "return v.astype(ONE.dtype)"),
    "struct": ("", "return struct.unpack('<e', struct.pack('<e', v))[0]"),
    "bytes": ("", "return float(np.frombuffer(np.array([v]).astype('f2').tobytes(), 'f2')[0])"),
    "a cumulative sum": ("", "return np.array([v, 0]).cumsum(dtype='e')[-1]"),
}  # fmt: skip
TENSOR = "t = torch.tensor(v, dtype=torch.float64)\n    "
BUFFER = "BUFFER = {'b': torch.zeros(1, dtype=torch.bfloat16)}"
TORCH = {
    "half": ("", TENSOR + "return t.half().item()"),
    "bfloat16": ("", TENSOR + "return t.bfloat16().item()"),
    "to": ("TYPES = {'h': torch.bfloat16}", TENSOR + "return t.to(TYPES['h']).item()"),
    "type, a name": ("", TENSOR + "return t.type('torch.HalfTensor').item()"),
    "type, a class": ("", TENSOR + "return t.type(torch.BFloat16Tensor).item()"),
    "type, a dtype": ("", TENSOR + "return t.type(torch.float16).item()"),
    "a tensor of a type": ("", "return torch.HalfTensor([float(v)]).item()"),
    "as another's type": (BUFFER, TENSOR + "return t.type_as(BUFFER['b']).item()"),
    "new, like another": (BUFFER, "return BUFFER['b'].new_tensor([v]).item()"),
    "full, like another": (BUFFER, "return torch.full_like(BUFFER['b'], float(v)).item()"),
    "times another": (BUFFER, "return (BUFFER['b'] * 0 + float(v)).item()"),
    "copied into": (BUFFER, "return BUFFER['b'].copy_(torch.tensor([v])).item()"),
    "written to": (BUFFER, "BUFFER['b'][0] = float(v)\n    return BUFFER['b'].item()"),
    "a module's weights": (
        "LAYER = torch.nn.Linear(1, 1, bias=False).bfloat16().requires_grad_(False)\n"
        "LAYER.weight.fill_(1)",
        "return (LAYER.weight * float(v)).item()",
    ),
    "autocast": (
        "",
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "        return (torch.tensor([[float(v)]]) @ torch.ones(1, 1)).item()",
    ),
    "the default dtype": (
        "",
        "torch.set_default_dtype(torch.bfloat16)\n    r = torch.tensor(float(v)).item()\n"
        "    torch.set_default_dtype(torch.float32)\n    return r",
    ),
}
CASTS = NUMPY | TORCH
NUMBERS = itertools.count()


def written(folder, held, cast, factor):
    file = folder / f"cast_{next(NUMBERS)}.py"
    text = RULE.replace("@factor", str(factor)).replace("@held", held).replace("@cast", cast)
    file.write_text(text, encoding="utf-8")
    return file


def judge(folder, held, cast, factor):
    subject = load_subject(f"{written(folder, held, cast, factor)}:verify")
    return Examiner(subject, "verify").judge(MODEL)


@pytest.mark.parametrize("where", CASTS)
@pytest.mark.thorough(by_day=12)
def test_a_cast_excuses_its_rounding_alone(where, tmp_path):
    held, cast = CASTS[where]
    right = judge(tmp_path, held, cast, 1.0)
    assert not right.failed
    assert not right.undecided
    assert right.held.tolerance == 2e-2
    for factor in (1.012, 1.03):
        assert judge(tmp_path, held, cast, factor).deviates


# What stays in 16 bits although all is promoted: the deviation may be rounding or a fault.
UNPROMOTED = {
    "a view": ("", "b = np.zeros(1, 'u2')\n    b.view('e')[0] = v\n    return b.view('e')[0]"),
    "a function made before": (
        "to = np.vectorize(lambda v: v, otypes=[np.float16])", "return to(v)[()]"
    ),
    "a step that 16 bits alone take": (
        "", "h = v.astype('e')\n    return h * (FACTOR if h.dtype.itemsize == 2 else 1 / FACTOR)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", UNPROMOTED)
@pytest.mark.parametrize("factor", [1.012, 1.03])
def test_what_cannot_be_told_from_rounding_is_no_pass(where, factor, tmp_path):
    judged = judge(tmp_path, *UNPROMOTED[where], factor)
    assert judged.undecided or judged.deviates
    assert judged.deviates or "float16" in judged.held.doubt


def test_a_doubt_names_the_line(tmp_path):
    file = written(tmp_path, *UNPROMOTED["a view"], 1.012)
    (line,) = [
        n for n, text in enumerate(file.read_text().splitlines(), 1) if "rng.random() <" in text
    ]
    judged = Examiner(load_subject(f"{file}:verify"), "verify").judge(MODEL)
    assert f"{file}:{line}" in judged.held.doubt


def test_what_was_promoted_is_put_back(tmp_path):
    methods = np.ndarray.astype, np.generic.sum, np.sctypeDict["half"]
    judge(tmp_path, *CASTS["an array made before, in a table"], 1.012)
    judge(tmp_path, *CASTS["written to"], 1.012)
    assert methods == (np.ndarray.astype, np.generic.sum, np.sctypeDict["half"])
    assert np.ones(1).astype("e").dtype == np.float16


def test_tensors_and_arrays_made_before_are_put_back(tmp_path):
    held = "ARRAY = np.zeros(1, 'f2')\nTENSOR = torch.zeros(1, dtype=torch.bfloat16)"
    cast = "ARRAY[0] = v\n    TENSOR[0] = float(ARRAY[0])\n    return TENSOR.item()"
    subject = load_subject(f"{written(tmp_path, held, cast, 1.012)}:verify")
    kept = subject.rule.__globals__
    before = kept["ARRAY"], kept["TENSOR"]
    assert Examiner(subject, "verify").judge(MODEL).deviates
    assert (kept["ARRAY"], kept["TENSOR"]) == before
    assert (before[0].dtype, before[1].dtype) == (np.float16, torch.bfloat16)


def test_what_imports_a_module_is_not_searched(tmp_path):
    """pytest's loader leads to every test of the session."""
    rule = load_subject(f"{written(tmp_path, '', 'return v', 1)}:verify").rule
    held, imported = {"half": np.float16}, {"half": np.float16}
    rule.__globals__["HELD"] = SimpleNamespace(types=held)
    rule.__globals__["__loader__"] = SimpleNamespace(types=imported)
    with ExitStack() as stack:
        promote_held(rule, "half", lambda x: np.float64 if x is np.float16 else None, stack)
        assert held == {"half": np.float64}
        assert imported == {"half": np.float16}
    assert held == {"half": np.float16}
