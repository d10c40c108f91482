"""The key that is sent to a server: where it comes from, and that nobody else sees it."""

import pytest

pytest.importorskip("torch")

from support.emitted_tokens import Reply, asked, serving

from simverify.cli import run as command_line
from simverify.errors import UsageError
from simverify.models.transformer import load_pair
from simverify.served import Endpoint, client

GOOD = {"token_ids": [5, 6, 7], "finish_reason": "length"}
KEY = "sk-very-secret"


@pytest.fixture(scope="module")
def pair():
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.setattr(client, "RETRY_WAITS", (0.01, 0.02))
    for name in ("SIMVERIFY_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("own", "other", "sent"),
    [(KEY, "b", KEY), (None, f" {KEY}\n", KEY), ("", KEY, None), (None, None, None)],
)
def test_the_key_comes_from_the_environment(pair, monkeypatch, own, other, sent):
    for name, value in (("SIMVERIFY_API_KEY", own), ("OPENAI_API_KEY", other)):
        if value is not None:
            monkeypatch.setenv(name, value)
    seen = []
    asked(pair, lambda _: GOOD, seen=seen)
    due = None if sent is None else f"Bearer {sent}"
    assert {headers.get("Authorization") for headers in seen} == {due}
    assert len(seen) == 3


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_refused_is_told_which_variable_to_set(pair, monkeypatch, status):
    refusal = Reply(f"no access for {KEY}".encode(), status)
    with pytest.raises(UsageError, match="no key was sent: set SIMVERIFY_API_KEY"):
        asked(pair, lambda _: refusal)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(UsageError, match="it had the key of OPENAI_API_KEY") as error:
        asked(pair, lambda _: refusal)
    assert "no access for ***" in str(error.value)
    assert KEY not in str(error.value)


@pytest.mark.parametrize("key", ["two words", "caf\xe9", "a\nb"])
def test_a_key_that_no_header_can_carry_is_not_shown(pair, monkeypatch, key):
    monkeypatch.setenv("SIMVERIFY_API_KEY", key)
    with pytest.raises(UsageError, match="SIMVERIFY_API_KEY holds what no header") as error:
        asked(pair, lambda _: GOOD)
    assert key not in str(error.value)


def test_a_key_goes_to_no_other_server(pair, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_API_KEY", KEY)
    stolen = []
    with serving(lambda _: GOOD, seen=stolen) as elsewhere:
        moved = Reply(b"", 302, {"Location": f"{elsewhere}/v1/completions"})
        with pytest.raises(UsageError, match=f"answers 302: .* it names, {elsewhere}"):
            asked(pair, lambda _: moved)
    assert stolen == []


def test_a_password_in_the_address_is_refused_and_not_shown():
    with pytest.raises(UsageError, match="SIMVERIFY_API_KEY") as error:
        Endpoint(f"http://me:{KEY}@host")
    assert KEY not in str(error.value)


def test_the_key_is_in_no_document_and_no_message(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("SIMVERIFY_API_KEY", KEY)
    (tmp_path / "p.txt").write_text("def f(")
    with serving(lambda _: GOOD) as address:
        command_line(
            ["audit", "--endpoint", address, "--target", "tiny-llama", "--samples", "2",
             "--prompts", str(tmp_path / "p.txt"), "--keep", str(tmp_path / "kept.jsonl"),
             "--report", str(tmp_path / "report"), "--threads", "1"]
        )  # fmt: skip
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 4
    assert KEY not in "".join((*written, *capfd.readouterr()))
