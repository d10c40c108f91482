"""``--drafter`` and what goes with it: what runs, and what is refused in one line."""

import json
import shlex

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import simverify  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.transformer import BUNDLED  # noqa: E402

PAIR = ("--models", "tiny-llama", "--gamma", "2", "--tokens", "64", "--detect", ".99")
COMPARE = ("compare", *PAIR, "--verifiers", "token")
CAPTURE = ("capture", *PAIR[:-2], "--out", "t")
AUDIT = ("audit", "token", "--target", "tiny-llama", "--gamma", "2", "--tokens", "48",
         "--detect", ".99")  # fmt: skip
NUMBERS = "expected the layers a group, 1 to 1000, or a list such as 1,2,4"


@pytest.fixture
def gpt(tmp_path):
    """A random GPT-2, saved with the bundled tokenizer."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=1024, n_embd=16, n_layer=4, n_head=2, n_positions=64, eos_token_id=None
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt")
    for file in (BUNDLED / "tokenizer").iterdir():
        (tmp_path / "gpt" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "p.txt").write_text("def f():")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([*COMPARE, "--drafter", "foo"], "--drafter is 'foo': expected one of plain, easyspec,"),
        *(
            ([*COMPARE, "--drafter", "easyspec", f"--layer-parallel={given}"], says)
            for given, says in (
                ("0", "--layer-parallel is 0: expected 1 to 1000"),
                ("1001", "--layer-parallel is 1001: expected 1 to 1000"),
                ("9" * 5000, NUMBERS),
                ("", f"--layer-parallel is '': {NUMBERS}"),
                ("a", NUMBERS),
                ("-1", NUMBERS),
                ("{a}", "--layer-parallel is '{a}'"),
                ("2.0", NUMBERS),
                ("1,,2", NUMBERS),
                ("1,1", "--layer-parallel is '1,1': 1 is there twice"),
                ("4,04", "4 is there twice"),
            )
        ),
        *(
            ([*COMPARE, *drafter, *option], f"{option[0]} is for layers in groups: name --drafter")
            for drafter in ([], ["--drafter", "plain"], ["--drafter", "ngram"])
            for option in (["--layer-parallel", "2"], ["--no-calibration"])
        ),
        *(
            (["compare", "--gamma", "2", "--models", "toy", *option],
             f"{option[0]} is not for simulated models: it is for real models (--target")
            for option in (["--drafter", "ngram"], ["--layer-parallel", "2"], ["--no-calibration"])
        ),
        *(
            (["compare", "--trace", "t", *option], f"{option[0]} is not for a trace")
            for option in (["--drafter", "ngram"], ["--layer-parallel", "2"], ["--no-calibration"])
        ),
        *(
            ([*PAIR, "--drafter", name, *option], f"--drafter {name} proposes one token after each")
            for name in ("prompt-lookup", "ngram")
            for option in (["--tree", "2,1"], ["--drafts", "2"])
        ),
        (["compare", "--gamma", "2", "--drafter", "ngram", "--target", "tiny-llama", "--draft",
          "tiny-llama"], "--draft is not for --drafter ngram"),
        (["compare", "--gamma", "2", "--drafter", "ngram", "--draft", "d"], "--target is missing"),
        (["compare", "--gamma", "2", "--drafter", "ngram", "--target", "d"],
         "--prompts is missing"),
        (["compare", "--gamma", "2", "--drafter", "easyspec", "--target", "d"],
         "--draft is missing"),
        ([*CAPTURE, "--drafter", "foo"], "--drafter is 'foo': expected one of plain"),
        ([*CAPTURE, "--drafter", "easyspec", "--layer-parallel", "1,2"],
         "--layer-parallel is one number here: a trace"),
        ([*CAPTURE, "--no-calibration"], "--no-calibration is for layers in groups"),
        (["capture", "--target", "d", "--draft", "d", "--gamma", "2", "--tokens", "9", "--out",
          "t", "--drafter", "ngram"], "--draft is not for --drafter ngram"),
        ([*AUDIT, "--drafter", "foo"], "--drafter is 'foo': real models draft by one of plain"),
        ([*AUDIT, "--drafter", "mine.py:draft"], "code is audited on small instances, with"),
        (["audit", *AUDIT[2:], "--drafter", "mine.py:draft"], "without --target"),
        ([*AUDIT, "--drafter", "easyspec", "--layer-parallel", "1,2"],
         "--layer-parallel is one number here: an audit"),
        ([*AUDIT, "--layer-parallel", "2"], "--layer-parallel is for layers in groups"),
        ([*AUDIT, "--verifier", "token"], "--verifier is not for real models: it is for a pair"),
        ([*AUDIT, "--drafter", "ngram", "--draft", "tiny-llama"], "--draft is not for --drafter"),
        (["audit", "greedy", *AUDIT[2:], "--drafter", "easyspec"],
         "--drafter is not for the step contract"),
        (["audit", "recursive", *AUDIT[2:], "--drafter", "ngram", "--tree", "2,1"],
         "--drafter ngram proposes one token after each text"),
        *(
            (["audit", *spec, "--drafter", "easyspec"], "--target is missing: real models are")
            for spec in (["token"], [])
        ),
        (["audit", "--verifier", "token", "--drafter", "easyspec"],
         "--verifier is not for real models: it is for a pair"),
        *(
            (["audit", "token", *option],
             f"{option[0]} is not for code on small instances: it is for real models (--target)")
            for option in (["--layer-parallel", "2"], ["--no-calibration"])
        ),
        *(
            (["audit", *way, *option], f"{option[0]}")
            for way in (["--self-test"], ["token", "--trace", "t"],
                        ["--outputs", "o", "--target", "t"])
            for option in (["--drafter", "ngram"], ["--layer-parallel", "2"], ["--no-calibration"])
        ),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(command, options, says):
    options = ["compare", *options] if options[0].startswith("-") else options
    assert command(*options, "--quiet") == 2
    assert says in command.complaint()


LITTLE = {"models": ["tiny-llama"], "gamma": 2, "tokens": 64}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: simverify.compare(**LITTLE, drafter="foo"), "drafter is 'foo'"),
        (lambda: simverify.compare(**LITTLE, layer_parallel=2),
         "layer_parallel is for layers in groups: name drafter easyspec too"),
        (lambda: simverify.compare(**LITTLE, no_calibration=True), "no_calibration is for layers"),
        (lambda: simverify.compare(**LITTLE, drafter="easyspec", layer_parallel=0),
         "layer_parallel is 0: expected 1 to 1000"),
        (lambda: simverify.compare(**LITTLE, drafter="easyspec", layer_parallel=[1, 2]),
         r"layer_parallel is '\[1, 2\]'"),
        (lambda: simverify.compare(**LITTLE, drafter="easyspec", layer_parallel="{1}"),
         r"layer_parallel is '\{1\}'"),
        (lambda: simverify.compare(**LITTLE, drafter="ngram", tree="2,1"),
         "drafter ngram proposes one token after each text"),
        (lambda: simverify.compare(["toy"], gamma=2, drafter="ngram"),
         r"drafter is not for simulated models: it is for real models \(target and draft, or"),
        (lambda: simverify.audit("token", target="tiny-llama", drafter=max),
         "drafter is .*max.*: real models draft by one of .* with verifier and without target"),
        (lambda: simverify.audit("token", drafter="easyspec"), "target is missing"),
        (lambda: simverify.audit("token", layer_parallel=2), "it is for real models"),
        (lambda: simverify.audit("greedy", target="tiny-llama", drafter="ngram"),
         "^drafter is not for the step contract"),
        (lambda: simverify.audit("recursive", target="tiny-llama", drafter="ngram", tree="2"),
         "^drafter ngram proposes one token after each text"),
        (lambda: simverify.audit("token", target="tiny-llama", draft="d", drafter="ngram"),
         "^draft is not for drafter ngram"),
    ],
)  # fmt: skip
def test_python_names_keywords(call, says):
    with pytest.raises(UsageError, match=says) as caught:
        call()
    assert "--" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_layers_of_another_model_make_no_groups(command, gpt):
    models = ("--target", "tiny-llama", "--draft", "gpt", "--prompts", "p.txt", "--gamma", "2")
    easyspec = ("--tokens", "16", "--drafter", "easyspec", "--quiet")
    for command_line in (
        ("compare", *models), ("capture", *models, "--out", "t"), ("audit", "token", *models)
    ):  # fmt: skip
        assert command(*command_line, *easyspec) == 2
        assert "GPT2LMHeadModel is a model of type gpt2: layers run in groups in" in (
            command.complaint()
        )
    assert not (gpt / "t").exists()


@pytest.mark.parametrize("name", ["prompt-lookup", "ngram"])
def test_texts_need_no_draft_model(command, gpt, name):
    """A target of any type: here one whose layers make no groups."""
    models = ("--target", "gpt", "--prompts", "p.txt", "--gamma", "2", "--tokens", "48")
    more = ("--drafter", name, "--detect", ".99", "--threads", "1")
    code = command("compare", *models, *more, "--verifiers", "token", "--lanes", "4", "--json",
                   "run.json")  # fmt: skip
    assert code in (0, 3), command.err
    assert command.err.splitlines() == ["gpt: the target alone", f"gpt {name}: token"]
    run = json.loads((gpt / "run.json").read_text())
    assert run["decoding"]["draft"] is None
    assert run["models"][0]["name"] == f"gpt {name}"
    assert run["models"][0]["drafter"]["name"] == name
    assert simverify.load(gpt / "run.json").verdict == run["verdict"]
    code = command("capture", *models, *more[:2], "--out", "t")
    assert (code, command.err.splitlines()[0]) == (0, "loading gpt")
    assert command("compare", "--trace", "t", "--detect", ".99", "--quiet") in (0, 3)


@pytest.mark.parametrize(
    "drafter",
    [("ngram",), ("prompt-lookup",), ("easyspec", "--layer-parallel", "2", "--no-calibration")],
    ids=lambda drafter: drafter[0],
)
@pytest.mark.thorough
def test_an_audits_command_gives_the_same_document(command, tmp_path, drafter):
    code = command(*AUDIT, "--threads", "1", "--drafter", *drafter, "--json", "first.json")
    assert code in (0, 3), command.err
    first = json.loads((tmp_path / "first.json").read_text())
    _, *words = shlex.split(first["reproduce"])
    assert " ".join(words).count(" ".join(("--drafter", *drafter))) == 1
    assert command(*words, "--json", "again.json", "--quiet") == code
    again = json.loads((tmp_path / "again.json").read_text())
    assert {**again, "meta": None} == {**first, "meta": None}


def test_the_help_is_narrow(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("compare", "audit", "capture"):
        assert command(name, "--help") == 0
        assert max(map(len, command.out.splitlines())) <= 80
        assert "--layer-parallel" in command.out
