import pytest

from simverify.audit.spec import load_subject
from simverify.errors import SimverifyError, UsageError
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


def test_code_that_fails_to_load_is_another_error(tmp_path):
    path = write(tmp_path, "import no_such_module_at_all\n")
    with pytest.raises(SimverifyError, match="fails to load") as caught:
        load_subject(f"{path}:verify")
    assert caught.value.exit_code == 4
