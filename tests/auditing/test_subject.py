import pytest

from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import load_subject
from simverify.errors import SimverifyError, UsageError
from simverify.faults import FAULTS
from simverify.verifiers import VERIFIERS


def write(tmp_path, text, name="mine.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_names_files_and_modules(tmp_path, monkeypatch):
    path = write(tmp_path, "def verify(p, q, x, rng):\n    return [0]\n")
    assert load_subject("token").rule is VERIFIERS["token"].rule
    assert load_subject("lenient(0.7)").name == "lenient(0.7)"
    assert load_subject(f"{path}:verify").rule(None, None, None, None) == [0]
    assert load_subject("simverify.verifiers.token:verify").rule is VERIFIERS["token"].rule
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "class Rules:\n    @staticmethod\n    def verify(): ...\n", "some_rules.py")
    assert load_subject("some_rules:Rules.verify").contract is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("tokne", "did you mean 'token'"),
        ("nowhere.py:verify", "no file"),
        ("no_such_module_at_all:verify", "no module"),
        ("mine.py", "name the function too"),
        ("json:dumpz", "did you mean 'dump"),
        ("json:__name__", "expected a callable"),
        (":verify", "expected module:attribute"),
    ],
)
def test_bad_names_are_usage_errors(spec, words):
    with pytest.raises(UsageError, match=words) as caught:
        load_subject(spec)
    assert "\n" not in str(caught.value)


def test_a_file_of_a_package_imports_what_is_beside_it_too(tmp_path):
    package = tmp_path / "mine_with_both"
    package.mkdir()
    write(package, "", "__init__.py")
    write(package, "ONE = 1\n", "of_the_package.py")
    write(package, "TWO = 2\n", "beside_mine_with_both.py")
    text = (
        "from .of_the_package import ONE\n"
        "from beside_mine_with_both import TWO\n"
        "def verify(p, q, x, rng):\n    return [ONE, TWO]\n"
    )
    path = write(package, text, "rule.py")
    assert load_subject(f"{path}:verify").rule(None, None, None, None) == [1, 2]


def test_a_checkout_is_for_engines_alone(tmp_path):
    path = write(tmp_path, "def verify(p, q, x, rng): ...\n")
    for spec in ("token", f"{path}:verify", "reused-uniform"):
        with pytest.raises(UsageError, match="--engine-path is the checkout of an engine"):
            load_subject(spec, tmp_path)


def test_a_fault_of_draft_trees_brings_its_scheme():
    subject = load_subject("stale-sibling-q")
    assert (subject.contract, subject.scheme) == ("tree", "without-replacement")


def test_a_fault_of_whole_batches_brings_its_batch():
    subject = load_subject("ragged-offset")
    assert subject.batch == FAULTS["ragged-offset"].batch
    assert AuditSettings().for_subject(subject).batch == subject.batch
    assert AuditSettings(batch=4).for_subject(subject).batch == 4
    assert AuditSettings().for_subject(load_subject("token")).batch is None


@pytest.mark.parametrize("body", ["while True:\n    pass\n", "import time\ntime.sleep(1e6)\n"])
def test_code_that_hangs_while_it_loads_is_ended(tmp_path, monkeypatch, body):
    monkeypatch.setattr("simverify.auditing.subject.LOAD_SECONDS", 0.2)
    path = write(tmp_path, body)
    with pytest.raises(SimverifyError, match=r"fails to load: not done within 0\.3 s") as caught:
        load_subject(f"{path}:verify", seconds=0.3)
    assert caught.value.exit_code == 4
    assert f"({path}:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_code_that_fails_to_load_is_another_error(tmp_path):
    path = write(tmp_path, "import no_such_module_at_all\n")
    with pytest.raises(SimverifyError, match="fails to load") as caught:
        load_subject(f"{path}:verify")
    assert caught.value.exit_code == 4
