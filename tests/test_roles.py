"""What is audited, and what audits, follows from marks in the modules and not from their names."""

import ast
from pathlib import Path

import pytest

from simverify import roles
from simverify.api.audit import audit
from simverify.auditing.verdict import decide_verdict
from simverify.backends.batch import load_triton
from simverify.battery.battery import judge_tokens
from simverify.cli import main
from simverify.comparing.comparison import compare
from simverify.comparing.planning import plan
from simverify.drafting.fuzzy import place_attention_blocks
from simverify.engines.adapt import as_tree, as_verify
from simverify.engines.base import Engine
from simverify.engines.bridge import CommandVerify, LibraryVerify
from simverify.engines.fake_models import RowsModel
from simverify.errors import SimverifyError
from simverify.faults.base import Fault
from simverify.history.baseline import check_baseline
from simverify.history.record import runs
from simverify.models import get_model
from simverify.plugin.plugin import InconclusiveWarning
from simverify.reports.present import write_reports
from simverify.results import AuditRun
from simverify.roles import role_of_file, role_of_module
from simverify.served.run import audit_outputs
from simverify.simulators.run import simulate
from simverify.stats._checks import TestResult
from simverify.surveying.table import make_table
from simverify.sweeping.run import run_sweep
from simverify.symbolic import provenance
from simverify.symbolic.arrays import apply_ufunc
from simverify.symbolic.bindings import rebind_names
from simverify.symbolic.builtins_patched import patch_float_functions
from simverify.symbolic.engine import Budget, Enumeration
from simverify.symbolic.hidden_state import HiddenState
from simverify.symbolic.numpy_random import SymbolicGenerator
from simverify.symbolic.python_random import function_patches
from simverify.symbolic.races import current_site
from simverify.symbolic.scalar import Draw
from simverify.symbolic.source import RandomSource
from simverify.symbolic.watchdog import deadline
from simverify.trees.draft_tree import DraftTree
from simverify.triton_cpu.language import TritonKernel
from simverify.verifiers.base import Verifier
from simverify.verifiers.trees.base import TreeVerifier

PARTS = {
    "under test": [Fault, TreeVerifier, Verifier, load_triton],
    "adapter": [Engine, RowsModel],
    "wrapper": [CommandVerify, LibraryVerify, as_tree, as_verify],
    "kernels": [TritonKernel],
    "stand-in": [
        *(
            Draw,
            SymbolicGenerator,
            apply_ufunc,
            function_patches,
            rebind_names,
            patch_float_functions,
        ),
        current_site,
    ],
    "machinery": [
        *(
            AuditRun,
            Enumeration,
            HiddenState,
            RandomSource,
            TestResult,
            audit_outputs,
            check_baseline,
            compare,
        ),
        *(
            deadline,
            make_table,
            judge_tokens,
            run_sweep,
            runs,
            simulate,
            decide_verdict,
            provenance.is_machinery,
        ),
    ],
    "interface": [InconclusiveWarning, audit, main, write_reports],
    "shared": [DraftTree, SimverifyError, get_model, place_attention_blocks, plan, role_of_file],
}


@pytest.mark.parametrize(("role", "part"), [(role, x) for role, of in PARTS.items() for x in of])
def test_each_part_has_its_role(role, part):
    """Wherever it is moved to: a role that a move changes changes what is audited."""
    assert role_of_module(part.__module__) == role


def test_every_module_says_what_it_is_by_name_and_by_file():
    seen = 0
    for package, folder in roles.folders().items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            assert role_of_module(name) == role_of_file(str(path)) is not None, path
            seen += 1
    assert seen > 100


def test_the_packages_beside_are_those_that_are_installed():
    setup = ast.parse((Path(__file__).parents[1] / "setup.py").read_text())
    values = [node.value for node in setup.body if isinstance(node, ast.Assign)]
    assert [ast.literal_eval(value) for value in values] == [roles._BESIDE]


def test_a_package_beside_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(roles, "_BESIDE", ("stats", "statistics"))
    with pytest.raises(RuntimeError, match=r"no package simverify.statistics: name what there is"):
        roles.folders.__wrapped__()


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Writes the modules of a package called ``simverify``, one of which lies elsewhere."""
    monkeypatch.setattr(
        roles,
        "folders",
        lambda: {"simverify": tmp_path / "a", "simverify.beside": tmp_path / "b"},
    )

    def write(place, role=None):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""A module."""\n\n__simverify_role__ = "{role}"\n' if role else "")
        return str(path)

    role_of_module.cache_clear()
    role_of_file.cache_clear()
    yield write
    role_of_module.cache_clear()
    role_of_file.cache_clear()


@pytest.mark.parametrize("place", ["a/room/__init__.py", "a/room.py", "a/__init__.py"])
def test_what_says_no_role_is_refused(house, place):
    file = house(place)
    name = "simverify" if place == "a/__init__.py" else "simverify.room"
    for ask in (lambda: role_of_module(name), lambda: role_of_file(file)):
        with pytest.raises(RuntimeError, match=r"\.py has no role: set __simverify_role__ to one"):
            ask()
    house(place, "shared")
    assert role_of_module(name) == role_of_file(file) == "shared"


def test_a_role_that_is_none_is_refused(house):
    house("a/room/__init__.py", "user")
    with pytest.raises(RuntimeError, match=r"__init__.py has the role 'user': set .* 'under test'"):
        role_of_module("simverify.room.inner")
    house("a/room/__init__.py", "under test")
    assert role_of_module("simverify.room.inner") == "under test"


def test_two_roles_are_refused(house):
    """As two modules that are made one would have."""
    file = house("a/room.py", "shared")
    with open(file, "a") as both:
        both.write('\n__simverify_role__ = "machinery"\n')
    with pytest.raises(RuntimeError, match=r"room.py has the role 'machinery' and 'shared': set"):
        role_of_module("simverify.room")
    house("a/room.py", "shared")
    assert role_of_module("simverify.room") == "shared"


def test_the_nearest_mark_decides(house):
    house("a/__init__.py", "shared")
    house("a/room/__init__.py", "machinery")
    house("a/room/inner/__init__.py")
    house("a/room/inner/one.py", "stand-in")
    house("a/room/inner/two.py")
    house("b/__init__.py", "interface")
    file = house("b/three.py")
    assert role_of_module("simverify.room.inner.one") == "stand-in"
    assert role_of_module("simverify.room.inner.two") == "machinery"
    assert role_of_module("simverify.beside.three") == role_of_file(file) == "interface"


@pytest.mark.parametrize("name", ["simverify2", "simverify_loaded.kernel", "my.simverify", ""])
def test_other_modules_have_no_role(name):
    assert role_of_module(name) is None


@pytest.mark.parametrize("place", ["simverify/symbolic/mine.py", "simverify.py", "stats/mine.py"])
def test_a_users_file_has_no_role_whatever_its_name(tmp_path, place):
    assert role_of_file(str(tmp_path / place)) is None
    assert role_of_file(place) is None
    assert provenance.is_user_file(str(tmp_path / place))


def test_who_asks_for_a_law_is_no_user(monkeypatch):
    """Negative control: without the boundary, the line that asked is taken for the code's."""
    lines = []
    space = {"__name__": "numpy.made", "lines": lines, "users_line": provenance.current_user_line}
    exec("def call():\n    lines.append(users_line())\n    return (0,)", space)

    def enumerate_it():
        lines.clear()
        with Enumeration(space["call"]) as enumeration:
            enumeration.run(space["call"], Budget(10))
        return {line.rpartition(":")[0] for line in lines}

    assert enumerate_it() == {""}
    monkeypatch.setattr(provenance, "_BOUNDARIES", set())
    assert enumerate_it() == {__file__}
