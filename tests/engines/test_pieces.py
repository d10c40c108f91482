import dataclasses
from types import SimpleNamespace

import pytest

from simverify.engines.extract import function_parameters, load_pieces
from simverify.errors import SimverifyError
from simverify.symbolic.provenance import is_marked_as_user_code, is_user_file

FILE = '''
"""A file of an engine."""
import math
import os.path as paths
from collections import namedtuple
from dataclasses import dataclass, field

import nobody.kernels
from nobody.kernels import launch, fast
from nobody.models import Model
from .near import helper

if True:
    from functools import reduce

try:
    import nobody
    SCALE = 2.0
    FAST = True
    from math import floor
except ImportError:
    FAST = False
    floor = int

if FAST:
    STEP = 2
elif SCALE:
    STEP = 1

if SCALE > 5:
    SIZE = 0
elif SCALE > 4:
    WIDTH = 1
else:
    WIDTH = 2

LIMIT: float = SCALE * math.pi
COUNTS = []
COUNTS += [1]
Pair = namedtuple("Pair", "left right")
launch(LIMIT)


def inner(x):
    return x * LIMIT


def outer(x: Model) -> Model:
    return floor(inner(x))


def total(values):
    return reduce(lambda a, b: a + b, values, len(COUNTS))


@fast.compiled(level=3)
@fast.plain
def marked(x):
    return x + 1


def kernel(x):
    return launch(x)


def near(x):
    return helper(x)


def unknown(x):
    return nowhere + x


@dataclass
class Kept:
    token: int
    model: Model = None
    notes: list[Model] = field(default_factory=list)

    def twice(self):
        return outer(self.token) * 2

    @staticmethod
    @fast.plain
    def thrice(x):
        return inner(x) * 3


def forked(x):
    return x * STEP


def wide(x):
    return x * WIDTH


def quick(x):
    return x if FAST else None


def joined(a, b):
    return Pair(paths.join(a, b), Kept(1))
'''


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "site-packages" / "engine" / "rules.py"
    file.parent.mkdir(parents=True)
    file.write_text(FILE)
    return file


def names(module):
    return {name for name in vars(module) if not name.startswith("__")}


def test_a_function_comes_with_what_it_uses_and_nothing_else(path):
    module = load_pieces(path, ["outer"])
    assert module.outer(1) == 6
    used = {"inner", "LIMIT", "SCALE", "math", "floor"}
    assert names(module) == {"outer", "annotations", *used}


def test_a_name_that_is_bound_in_steps_is_whole(path):
    assert load_pieces(path, ["total"]).total([1, 2]) == 4


def test_what_is_given_stands_in_the_place_of_what_the_file_has(path):
    module = load_pieces(path, ["outer"], inner=lambda x: 10 * x)
    assert module.outer(1) == 10
    assert "LIMIT" not in names(module)


def test_imports_under_other_names_and_classes_are_followed(path):
    pair = load_pieces(path, ["joined"], without=["fast.plain"]).joined("a", "b")
    assert pair.left == "a/b"
    assert dataclasses.astuple(pair.right) == (1, None, [])
    assert pair.right.twice() == 12


def test_decorators_that_are_left_out_need_nothing(path):
    with pytest.raises(SimverifyError, match=r"uses fast from nobody\.kernels"):
        load_pieces(path, ["marked"])
    with pytest.raises(SimverifyError, match=r"uses fast from nobody\.kernels"):
        load_pieces(path, ["marked"], without=["fast.plain"])
    assert load_pieces(path, ["marked"], without=["fast.plain", "fast.compiled"]).marked(1) == 2


def test_a_method_is_taken_out_of_its_class(path):
    module = load_pieces(path, ["Kept.twice"])
    assert "Kept" not in names(module)
    assert module.twice(SimpleNamespace(token=2)) == 24
    with pytest.raises(SimverifyError, match=r"rules\.py has no Kept\.twelve"):
        load_pieces(path, ["Kept.twelve"])


def test_what_depends_on_the_machine_may_be_given(path):
    assert load_pieces(path, ["forked"], STEP=5).forked(2) == 10


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", r"rules\.py has no absent"),
        ("kernel", r"uses launch from nobody\.kernels, which this adapter knows nothing of"),
        ("forked", r"defines STEP in several branches, .*does not say which"),
        ("wide", r"defines WIDTH in several branches"),
        ("quick", r"defines FAST in several branches"),
        ("near", r"uses helper from \.near, which this adapter knows nothing of"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(path, name, said):
    with pytest.raises(SimverifyError, match=said) as caught:
        load_pieces(path, [name])
    assert "\n" not in str(caught.value)


def test_what_may_come_from_an_import_of_everything_is_named(path):
    assert load_pieces(path, ["unknown"])
    starred = path.with_name("starred.py")
    starred.write_text("from nobody.models import *\n" + FILE)
    with pytest.raises(
        SimverifyError, match="uses nowhere, which may come from one of its imports"
    ):
        load_pieces(starred, ["unknown"])
    assert load_pieces(starred, ["unknown"], nowhere=1).unknown(2) == 3
    assert load_pieces(starred, ["total"]).total([1]) == 2


def test_what_does_not_run_is_said_in_one_line(tmp_path):
    file = tmp_path / "old.py"
    file.write_text("A = 1 / 0\n\n\ndef f():\n    return A\n")
    with pytest.raises(SimverifyError, match=r"old\.py: f cannot be loaded .*ZeroDivisionError"):
        load_pieces(file, ["f"])
    file.write_text("def f(:\n")
    with pytest.raises(SimverifyError, match="is no Python of this version"):
        load_pieces(file, ["f"])


def test_an_installed_file_is_on_trial_from_then_on(path):
    assert not is_marked_as_user_code(str(path))
    assert not is_user_file(str(path))
    module = load_pieces(path, ["outer"])
    assert is_user_file(module.outer.__code__.co_filename)
    line = FILE.splitlines().index("def outer(x: Model) -> Model:") + 1
    assert module.outer.__code__.co_firstlineno == line


def test_two_loads_of_a_file_are_two_modules(path):
    first, second = (load_pieces(path, ["total"]) for _ in range(2))
    first.COUNTS.append(1)
    assert (first.total([]), second.total([])) == (2, 1)
    assert first.__name__ != second.__name__


def test_parameters_are_read_without_running_anything(path):
    assert function_parameters(path, "Kept.thrice") == ("x",)
    file = path.with_name("more.py")
    file.write_text("import nobody\n\n\nasync def f(a, /, b, *c, d, **e): ...\n")
    assert function_parameters(file, "f") == ("a", "b", "c", "d", "e")
    with pytest.raises(SimverifyError, match=r"more\.py has no function g"):
        function_parameters(file, "g")
