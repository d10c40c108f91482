import dataclasses
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.engines import (
    ENGINES,
    engine_names,
    get_engine,
    installed_engines,
    unloaded_engine,
)
from simverify.errors import SimverifyError, UsageError
from simverify.models.base import compact

MODULE = """
from pathlib import Path
from simverify.engines import Engine

def verify(target_probs, draft_probs, draft_tokens, rng):
    return [int(rng.choice(len(target_probs[0]), p=target_probs[0]))]

stepper = Engine(
    name="fake-step", package="fake_engine", source="", function="verify", contract="step",
    tier="sampled", tolerance=1e-6, loader=lambda path: path.name,
)
number = 3
"""

POINTS = """[simverify.verifiers]
fake = fake_engine:verify
fake-step = fake_engine:stepper
fake-number = fake_engine:number
fake-broken = fake_engine.nowhere:verify
transformers = fake_engine:verify
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A distribution with entry points, on sys.path."""
    (tmp_path / "fake_engine.py").write_text(MODULE)
    info = tmp_path / "fake_engine_dist-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-engine-dist\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("fake_engine", None)


def test_third_parties_are_found_listed_and_loaded(fake):
    row = next(row for row in installed_engines() if row.name == "fake")
    assert "fake_engine" not in sys.modules
    assert (row.package, row.version) == ("fake-engine-dist", "1.2")
    assert row.function == "fake_engine:verify"
    assert row.sha256 == hashlib.sha256(MODULE.encode()).hexdigest()
    engine = get_engine("fake")
    assert (engine.contract, engine.tier) == ("verify", "exact")
    rows = np.array([[0.0, 1.0], [0.5, 0.5]])
    verify = engine.load()
    assert verify(rows, rows[:1], np.array([0]), np.random.default_rng(0)) == [1]


def test_an_entry_point_may_be_an_engine(fake):
    engine = get_engine("fake-step")
    assert (engine.contract, engine.tier) == ("step", "sampled")
    assert engine.load() == "fake_engine.py"


ADAPTER = """
from simverify.engines import block_engine

@block_engine("outside", "outside_rules/rules.py:accept", "outside>=1,<2", "tokens p q")
def outside(accept, draft_tokens, target, draft, draft_len):
    return [accept(draft_tokens[0].tolist(), p=target[0].exp(), q=draft[0].exp())]
"""

RULES = """
import torch

def accept(tokens, p, q):
    for i, token in enumerate(tokens):
        if torch.rand((), dtype=p.dtype) * q[i, token] >= p[i, token]:
            return [*tokens[:i], int(torch.multinomial((p[i] - q[i]).clamp(min=0), 1))]
    return [*tokens, int(torch.multinomial(p[-1], 1))]
"""


def test_an_adapter_in_one_file_of_another_distribution(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    about = {"METADATA": "Metadata-Version: 2.1\nName: outside\nVersion: 1.2\n"}
    about["entry_points.txt"] = "[simverify.verifiers]\noutside = outside_adapter:outside\n"
    files = {f"outside-1.2.dist-info/{name}": text for name, text in about.items()}
    files |= {"outside_adapter.py": ADAPTER, "outside_rules/rules.py": RULES}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    engine = get_engine("outside")
    assert (engine.requirement, engine.version) == ("outside>=1,<2", "1.2")
    assert compare_verify(engine.load(), compact(), 2).max_abs_deviation < 1e-12
    (tmp_path / "outside_rules/rules.py").write_text(RULES.replace("p, q", "rows"))
    with pytest.raises(SimverifyError, match="takes tokens, rows, and no p, q"):
        engine.load()


def test_entry_points_that_do_not_load_are_errors_of_theirs(fake):
    with pytest.raises(SimverifyError, match=r"'fake-broken' .* does not load") as caught:
        get_engine("fake-broken")
    assert caught.value.exit_code == 4
    with pytest.raises(SimverifyError, match=r"'fake-number' .* is a int"):
        get_engine("fake-number")


def test_built_in_names_cannot_be_taken_over(fake):
    assert get_engine("transformers") is ENGINES["transformers"]
    assert [row.name for row in installed_engines()].count("transformers") == 1


def test_the_nearest_name_is_suggested():
    with pytest.raises(UsageError, match="unknown engine 'transformer': did you mean 'transf"):
        get_engine("transformer")


def test_absent_engines_say_what_to_install():
    absent = dataclasses.replace(
        ENGINES["transformers"], package="transformers_of_nowhere", needs=()
    )
    assert (absent.version, absent.find()) == (None, None)
    with pytest.raises(UsageError) as caught:
        absent.load()
    assert caught.value.exit_code == 2
    assert str(caught.value) == (
        "engine 'transformers' needs the package transformers_of_nowhere: "
        "pip install --no-deps 'transformers_of_nowhere>=4.37,<6'"
    )
    both = dataclasses.replace(absent, needs=("nowhere",))
    alone = "pip install nowhere && pip install --no-deps 'transformers_of_nowhere>=4.37,<6'"
    assert both.how_to_get == alone
    with pytest.raises(UsageError, match="needs the packages transformers_of_nowhere and nowhere"):
        both.load()
    whole = dataclasses.replace(both, whole=True)
    assert whole.how_to_get == "pip install 'transformers_of_nowhere>=4.37,<6' nowhere"
    with pytest.raises(UsageError, match=re.escape(whole.how_to_get)):
        whole.load()
    needy = dataclasses.replace(absent, package="json", source="__init__.py", needs=("nowhere",))
    with pytest.raises(UsageError, match=r"needs the package nowhere: pip install nowhere$"):
        needy.load()


def provided(folder, name, version, module="fake_rule"):
    """Put a package into a folder, of a distribution that is called otherwise."""
    (folder / module).mkdir(exist_ok=True)
    (folder / module / "rule.py").write_text("def verify(): ...\n")
    about = folder / f"{name.replace('-', '_')}-1.dist-info"
    about.mkdir()
    stated = f"Version: {version}\n" if version else ""
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n{stated}")
    (about / "RECORD").write_text(f"{module}/rule.py,,\n")


RULE = dataclasses.replace(
    ENGINES["transformers"], name="fake", package="fake_rule", source="rule.py", needs=(),
    distribution="fake-rule-cpu", versions=">=0.32,<0.33", parameters=(), loader=lambda path: path,
)  # fmt: skip


@pytest.mark.parametrize("name", ["fake-rule", "fake-rule-cpu"])
def test_the_version_is_that_of_whatever_distribution_has_the_package(name, tmp_path, monkeypatch):
    provided(tmp_path, name, "0.9.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert RULE.provider == (name, "0.9.0")
    own = "" if name == "fake-rule-cpu" else "fake-rule-cpu "
    with pytest.raises(UsageError) as caught:
        RULE.load()
    assert str(caught.value) == (
        f"engine 'fake': {name} 0.9.0 is installed, its adapter is for {own}>=0.32,<0.33: "
        "pip install --no-deps 'fake-rule-cpu>=0.32,<0.33', or name the source itself by "
        "--engine-path"
    )
    assert RULE.load(tmp_path) == tmp_path / "fake_rule" / "rule.py"  # a checkout has none


def test_another_distribution_in_range_is_loaded(tmp_path, monkeypatch):
    provided(tmp_path, "fake-rule", "0.32.4")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert RULE.load() == tmp_path / "fake_rule" / "rule.py"


def test_the_engines_own_distribution_goes_first(tmp_path, monkeypatch):
    provided(tmp_path, "a-fake-rule", "0.9.0")
    provided(tmp_path, "fake-rule-cpu", "0.32.1")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert RULE.provider == ("fake-rule-cpu", "0.32.1")


@pytest.mark.parametrize("version", [None, "", "unknown"])
def test_a_version_that_cannot_be_told_is_refused_where_it_matters(version, tmp_path, monkeypatch):
    provided(tmp_path, "fake-rule", version)
    if version is None:  # by hand, or a folder of PYTHONPATH
        shutil.rmtree(tmp_path / "fake_rule-1.dist-info")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = "fake-rule unknown" if version else "fake_rule of no known version"
    with pytest.raises(UsageError, match=f"^engine 'fake': {told} is installed, its adapter is"):
        RULE.load()
    assert dataclasses.replace(RULE, versions="").load() == tmp_path / "fake_rule" / "rule.py"


def test_to_list_engines_does_not_read_all_that_is_installed():
    """It is read where a package is here and its own distribution is not."""
    code = (
        "import sys, importlib.metadata as m; from simverify.cli import run;"
        "m.packages_distributions = None; print(run(['table', '--list', '--quiet']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n0\n")


def test_a_version_without_the_file_says_so():
    other = dataclasses.replace(ENGINES["transformers"], package="numpy", needs=())
    with pytest.raises(UsageError, match=r"numpy \d.* has no generation/utils.py"):
        other.load()


def test_checkouts_are_searched_and_what_does_not_load_is_exit_4(tmp_path):
    folder = tmp_path / "python" / "sglang" / "kernels" / "ops" / "speculative"
    folder.mkdir(parents=True)
    broken = folder / "reject_sampling.py"
    broken.write_text("raise RuntimeError('no such device')\n")
    engine = dataclasses.replace(
        ENGINES["sglang"], needs=(), parameters=(), loader=lambda path: exec(path.read_text())
    )
    assert engine.find(tmp_path) == broken
    with pytest.raises(SimverifyError, match="does not load: RuntimeError: no such dev") as caught:
        engine.load(tmp_path)
    assert caught.value.exit_code == 4
    with pytest.raises(UsageError, match="name the checkout's top folder"):
        engine.load(tmp_path / "python" / "sglang")


def test_pages_that_notes_name_are_there():
    named = [page for name in engine_names() for page in re.findall(r"docs/\S+", note_of(name))]
    assert "docs/reference/findings-servers.md" in named
    assert all((Path(__file__).parents[2] / page).is_file() for page in named)


def note_of(name):
    return unloaded_engine(name).note


def test_nothing_heavy_is_imported_to_list_engines():
    code = (
        "import sys; from simverify.engines import installed_engines; installed_engines();"
        "print([m for m in ('torch', 'transformers', 'triton', 'numba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
