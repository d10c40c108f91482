"""Engines that an audit starts: right, wrong, missing, and ended early; and the pair they run."""

import json
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

import simverify
from simverify.errors import SimverifyError, UsageError
from simverify.models import writing
from simverify.options import served as options
from simverify.served import engine_server, launch

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

NAME = "transformers-generate-server"
HOT = """
    import sys
    sys.path.insert(0, {folder!r})
    import engine_server as served

    right = served.transformers

    def hot(setup):
        answer = right(setup)
        return lambda question: answer(question._replace(temperature=1.6))

    served.ENGINES["transformers"] = hot
    served.main()
"""


def test_options_name_the_engines_that_there_are():
    assert tuple(launch.LOCAL_ENGINES) == options.LOCAL_ENGINES
    libraries = {name for name in launch.LOCAL_ENGINES if not name.endswith("-server")}
    assert libraries | {"transformers"} == set(engine_server.ENGINES)


@pytest.fixture
def hot(monkeypatch, tmp_path):
    """Make the engine sample at temperature 1.6, whatever it is asked for."""
    script = tmp_path / "hot.py"
    folder = engine_server.__file__.rpartition("/")[0]
    script.write_text(textwrap.dedent(HOT.format(folder=folder)))
    right = launch.LOCAL_ENGINES[NAME]

    def command(setting):
        words = right.command(setting)
        return [words[0], str(script), *words[2:]]

    monkeypatch.setitem(launch.LOCAL_ENGINES, NAME, replace(right, command=command))


def judge(**more):
    return simverify.audit_engine(NAME, tokens=512, detect=0.4, threads=1, max_tokens=32, **more)


@pytest.mark.distribution
def test_a_right_engine_passes_with_a_draft_and_names_the_command():
    run = judge()
    assert run.verdict == "PASS"
    assert "with a draft model" in str(run)
    assert run.reproduce.startswith(f"simverify audit {NAME} ")
    assert "127.0.0.1" not in run.reproduce


@pytest.mark.distribution
def test_a_wrong_engine_fails(hot):
    assert judge(speculation="none").verdict == "FAIL"


def test_an_engine_that_ends_is_quoted(monkeypatch):
    right = launch.LOCAL_ENGINES[NAME]
    broken = [sys.executable, "-c", "raise SystemExit('no such device')"]
    monkeypatch.setitem(launch.LOCAL_ENGINES, NAME, replace(right, command=lambda _setting: broken))
    with pytest.raises(SimverifyError, match="did not start: no such device"):
        judge()


def test_a_program_that_is_not_there_is_one_line(monkeypatch):
    right = launch.LOCAL_ENGINES[NAME]
    absent = replace(right, command=lambda _setting: ["/no/such/program"])
    monkeypatch.setitem(launch.LOCAL_ENGINES, NAME, absent)
    with pytest.raises(SimverifyError, match="did not start: /no/such/program: No such file"):
        judge()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rule": "vllm-server"}, "vllm-server is not installed"),
        ({"rule": "openvino"}, "did you mean 'openvino-genai'"),
        ({"rule": NAME, "speculation": "eagle"}, "expected draft, lookup or none"),
        ({"rule": NAME, "model": "m"}, "target is missing"),
        ({"rule": NAME, "draft": "m"}, "draft needs model"),
        ({"rule": NAME, "model": "m", "target": "tiny-llama"}, "draft is missing"),
    ],
)
def test_what_cannot_be_started_is_one_line(more, said):
    with pytest.raises(UsageError) as caught:
        simverify.audit_engine(**more)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_request_with_unknown_fields_is_refused():
    server = engine_server.EngineServer("an engine", lambda _: [1], 0, own_seed=False)
    try:
        asked = {"prompt": [5], "max_tokens": 2, "min_p": 0.1}
        with pytest.raises(ValueError, match="min_p is not among"):
            server.completion(asked)
        with pytest.raises(ValueError, match="no list of token ids"):
            server.completion({"prompt": "def"})
        (choice,) = server.completion({"prompt": [5], "max_tokens": 2})["choices"]
        assert choice == {"text": "", "token_ids": [1], "finish_reason": "stop"}
    finally:
        server.server_close()


def test_requests_get_their_own_seeds_unless_they_are_left_to_the_engine():
    seeds = []
    for own in (False, True):
        server = engine_server.EngineServer(
            "an engine", lambda question: seeds.append(question.seed) or [1], 0, own_seed=own
        )
        for more in ({}, {}, {"seed": 3}):
            server.completion({"prompt": [5]} | more)
        server.server_close()
    first, second, *rest = seeds
    assert second == first + 1
    assert rest == [3, None, None, 3]


def test_a_written_pair_computes_what_the_bundled_one_does(tmp_path):
    made = writing.write_pair(tmp_path / "pair", "hf")
    ids = torch.tensor([[5, 6, 7]])
    for part, place in made.items():
        model, bundled = (
            transformers.AutoModelForCausalLM.from_pretrained(x, dtype=torch.float32)
            for x in (place, writing.BUNDLED / part)
        )
        with torch.no_grad():
            np.testing.assert_array_equal(model(ids).logits, bundled(ids).logits)
        config = json.loads((place / "config.json").read_text())
        assert config["rope_theta"] == config["rope_parameters"]["rope_theta"]
    with pytest.raises(UsageError, match="exists: name another folder"):
        writing.write_pair(tmp_path / "pair", "hf")


def test_a_format_without_its_package_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(writing, "_is_missing", lambda module: module == "gguf")
    with pytest.raises(UsageError, match="needs gguf, which is not installed: pip install gguf"):
        writing.write_pair(tmp_path / "pair", "gguf")
    assert not (tmp_path / "pair").exists()
