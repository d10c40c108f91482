"""``simverify sampler`` and ``simverify generators``."""

import json

import pytest

import simverify
from simverify.results.reading import read_document


def test_a_right_sampler_passes(command, tmp_path):
    assert command("sampler", "numpy.Generator.choice", "--vocab", "100", "--json", "run.json") == 0
    words = " ".join(command.out.split())
    assert words.startswith("PASS: numpy.Generator.choice in float64 at V = 100 is within a TV of ")
    run = read_document(tmp_path / "run.json")
    assert [row.tier for row in run.rows] == ["exact"] * 3
    assert all(row.tv < 1e-12 for row in run.rows)
    assert command("report", "run.json") == 0


def test_bfloat16_draws_fail(command):
    pytest.importorskip("jax")
    name = "jax.random.choice"
    assert command("sampler", name, "--dtype", "bfloat16", "--vocab", "1000", "--row", "flat") == 1
    assert "872 tokens, total probability 0.87, never come out" in " ".join(command.out.split())
    assert f"simverify sampler {name} --dtype bfloat16 --vocab 1000" in command.out


def test_too_small_a_deviation_is_inconclusive(command, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("simverify.samplers.judge.MAX_SAMPLED_NUMBERS", 100_000)
    assert command("sampler", "torch.multinomial", "--vocab", "100", "--row", "heavy") == 3
    assert "pass a larger --detect" in " ".join(command.out.split())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "name a sampler to judge: random.choices, numpy.Generator.choice"),
        (["torch.multinomal"], "unknown sampler 'torch.multinomal': did you mean"),
        (["torch.rand"], "torch.rand draws uniform numbers, not tokens: see simverify generators"),
        (["random.choices", "--dtype", "float16"], "random.choices is judged in float64"),
        (["random.choices", "--vocab", "1"], "vocab is 1: expected 2 to 1e+06"),
        (["random.choices", "--detect", "0"], "detect is 0.0: expected"),
    ],
)
def test_bad_input_is_one_line(arguments, complaint, command):
    assert command("sampler", *arguments) == 2
    assert command.complaint().startswith(complaint)


def test_a_library_that_is_not_installed_is_named(command, monkeypatch):
    from importlib.metadata import PackageNotFoundError

    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("simverify.samplers.catalogue.metadata.version", version)
    assert command("sampler", "numpy.Generator.choice") == 2
    assert command.complaint().endswith("numpy, which is not installed: pip install numpy")


def test_python_code_can_ask_too():
    run = simverify.sampler("random.choices", vocab=50, row="heavy")
    assert run.passed
    assert "PASS (exact): TV" in str(run)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"verdict": "FAIL"}, "verdict is FAIL: expected PASS, by its rows"),
        ({"rows": []}, "rows is empty: expected one or more"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(change, complaint, command, tmp_path):
    assert command("sampler", "random.choices", "--vocab", "20", "--json", "run.json") == 0
    plain = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(plain | change))
    assert command("report", "run.json") == 2
    assert complaint in command.complaint()


def test_generators_lists_everything(command):
    assert command("generators") == 0
    assert "torch.rand bfloat16" in command.out
    assert "jax.random.categorical bfloat16" in command.out
    assert "numpy.Generator.choice float64" in command.out
    assert "numpy.RandomState.hypergeometric" in command.out
    assert max(map(len, command.out.splitlines())) <= 80


def test_generators_of_one_library(command):
    assert command("generators", "torch") == 0
    names = [line for line in command.out.splitlines() if line and not line.startswith(" ")]
    assert "torch.multinomial bfloat16" in names
    # Each entry is of torch; the rest are the four headings.
    assert len([name for name in names if not name.startswith("torch")]) == 4
    assert command("generators", "triton") == 0
    assert "Samplers" not in command.out  # it has none
    assert command("generators", "pytorch") == 2
    assert command.complaint().startswith("unknown library 'pytorch': did you mean 'torch'?")
