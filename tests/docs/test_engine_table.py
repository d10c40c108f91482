"""The script of the table of engines: what it fetches, into what, and what it keeps of a run."""

import dataclasses
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import msgspec
import pytest
from docs.examples import ROOT
from support.many_versions import RULE, index, repository, wheel
from support.pages.scripts import load

from simverify.engines import get_engine
from simverify.results.reading import read_document
from simverify.surveying.bisect import CheckoutError

made = load(ROOT / "docs" / "engine_table.py")


@pytest.fixture
def engine():
    return dataclasses.replace(
        get_engine("lmdeploy"), name="fake", package="fake_verifier", source="rule.py",
        distribution="fake-verifier", versions=">=1.0,<1.2", needs=(),
    )  # fmt: skip


def test_a_package_comes_into_an_environment_that_sees_this_one(engine, monkeypatch, tmp_path):
    index(monkeypatch, tmp_path / "wheels", {"1.0": RULE, "1.1": RULE, "1.2": RULE})
    python, checkouts = made.fetch(engine, tmp_path / "work")
    assert checkouts is None
    code = (
        "import fake_verifier, simverify, importlib.metadata as m;"
        "print(m.version('fake-verifier'), fake_verifier.__file__)"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    version, file = done.stdout.split()
    assert version == "1.1"
    assert file.startswith(str(tmp_path / "work" / "environments" / "fake"))
    here = subprocess.run([sys.executable, "-c", "import fake_verifier"], capture_output=True)
    assert here.returncode != 0


@pytest.mark.thorough
def test_a_package_that_is_installed_here_has_an_environment_all_the_same(
    engine, monkeypatch, tmp_path
):
    """pip must not take the one that the environment sees behind its own."""
    here = tmp_path / "here"
    index(monkeypatch, tmp_path / "wheels", {"1.0": RULE})
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(here)]
    subprocess.run([*pip, "fake-verifier"], check=True)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.setenv("PYTHONPATH", str(here))
    assert engine.find() is not None
    python, _ = made.fetch(engine, tmp_path / "work")
    assert (tmp_path / "work" / "environments") in python.parents
    assert list((tmp_path / "work").rglob("fake_verifier/rule.py"))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.thorough
def test_one_that_is_imported_whole_has_what_it_asks_for(engine, whole, monkeypatch, tmp_path):
    index(monkeypatch, tmp_path / "wheels", {})
    wheel(tmp_path / "wheels", "1.0", RULE, needs=["fake-need"])
    wheel(tmp_path / "wheels", "3.1", RULE, name="fake-need", module="fake_need")
    made.fetch(dataclasses.replace(engine, whole=whole), tmp_path / "work")
    found = {path.name for path in (tmp_path / "work").rglob("fake_*") if "-" not in path.name}
    assert found == {"fake_verifier", *(["fake_need"] if whole else [])}


@pytest.mark.parametrize("changes", [{"gpu": True}, {"versions": ""}, {"package": "simverify"}])
def test_some_are_taken_as_they_are_installed(engine, changes, tmp_path):
    taken = made.fetch(dataclasses.replace(engine, **changes), tmp_path)
    assert (str(taken[0]), taken[1]) == (sys.executable, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_what_could_not_be_installed_is_not_taken_for_installed(engine, monkeypatch, tmp_path):
    index(monkeypatch, tmp_path / "wheels", {"3.0": RULE})
    with pytest.raises(CheckoutError, match="pip: "):
        made.fetch(engine, tmp_path / "work")
    assert list((tmp_path / "work" / "environments").iterdir()) == []
    index(monkeypatch, tmp_path / "more", {"1.1": RULE})
    python, _ = made.fetch(engine, tmp_path / "work")
    subprocess.run([python, "-c", "import fake_verifier"], check=True)


def test_a_repository_is_cloned_at_the_adapters_commit(engine, tmp_path):
    old, _ = repository(tmp_path / "someone" / "theirs", ["x = 1\n", "x = 2\n"])
    where = str(tmp_path / "someone" / "theirs")
    cloned = dataclasses.replace(engine, package="", repository=where, commit=old)
    python, checkouts = made.fetch(cloned, tmp_path / "work")
    assert str(python) == sys.executable
    assert (checkouts / "someone" / f"theirs@{old[:7]}" / "rule.py").read_text() == "x = 1\n"


def test_a_commit_that_is_not_there_leaves_nothing_behind(engine, tmp_path):
    where = tmp_path / "someone" / "theirs"
    repository(where, ["x = 1\n"])
    wrong = dataclasses.replace(engine, package="", repository=str(where), commit="0" * 40)
    with pytest.raises(subprocess.CalledProcessError):
        made.fetch(wrong, tmp_path / "work")
    assert list((tmp_path / "work" / "checkouts" / "someone").iterdir()) == []


def test_two_engines_of_one_commit_share_a_clone_that_is_whole(engine, monkeypatch, tmp_path):
    """The second comes while the first still clones: it waits, and clones nothing."""
    where = tmp_path / "someone" / "theirs"
    commit, _ = repository(where, ["x = 1\n", "x = 2\n"])
    one, other = (
        dataclasses.replace(engine, name=name, package="", repository=str(where), commit=commit)
        for name in ("one", "other")
    )
    asked, cloned, let_go = [], threading.Event(), threading.Event()
    called = made.called

    def slow(*words):
        asked.append(words[1])
        told = called(*words)
        if words[1] == "clone":
            cloned.set()
            assert let_go.wait(30)
        return told

    def text(engine):
        _, checkouts = made.fetch(engine, tmp_path / "work")
        return (checkouts / "someone" / f"theirs@{commit[:7]}" / "rule.py").read_text()

    monkeypatch.setattr(made, "called", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(text, one)
        assert cloned.wait(30)
        place = tmp_path / "work" / "checkouts" / "someone" / f"theirs@{commit[:7]}"
        assert not place.exists()
        second = pool.submit(text, other)
        assert not wait([second], timeout=0.2).done
        let_go.set()
        assert first.result(30) == second.result(30) == "x = 1\n"
    assert asked == ["clone", "-C"]


def test_a_ready_checkout_is_not_cloned_again(engine, tmp_path):
    where = tmp_path / "someone" / "theirs"
    (commit,) = repository(where, ["x = 1\n"])
    ready = dataclasses.replace(
        engine, package="", repository="https://git.example/someone/theirs", commit=commit
    )
    python, checkout = made.fetch(ready, tmp_path / "work", [tmp_path])
    assert (str(python), checkout) == (sys.executable, where)
    with pytest.raises(subprocess.CalledProcessError):  # nothing of it there: it is cloned
        made.fetch(dataclasses.replace(ready, repository="/nowhere/other"), tmp_path, [tmp_path])


def test_a_run_is_kept_without_its_times():
    run = read_document(made.FOLDER / "run.json")
    took = msgspec.structs.replace(
        run.meta, machine="mine", row_seconds=tuple(3.5 for _ in run.rows)
    )
    again = made.fixed(msgspec.structs.replace(run, meta=took))
    assert set(again.meta.row_seconds) == {None}
    assert (again.meta.machine, again.rows) == ("example", run.rows)
    text = (made.FOLDER / "run.json").read_text()
    assert re.findall(r"(?<![\w.])/(?:work|tmp|home|root)/[^\"]*", text) == []
