"""Command line before environment before pyproject.toml before defaults; no misspelt name."""

import json

import pytest


@pytest.fixture
def settings(tmp_path):
    def write(text):
        (tmp_path / "pyproject.toml").write_text(text)

    return write


def compared(command, *arguments):
    """The document of a quick run in which only ``arguments`` are on the command line."""
    quick = ("--models", "toy", "--verifiers", "token", "--blocks", "1000", "--json", "-")
    assert command("compare", *quick, *arguments) == 3, command.err
    return json.loads(command.out)


def cost(document):
    return document["results"][0]["speedup"]["cost_ratio"]


def test_precedence(command, settings, monkeypatch):
    assert cost(compared(command, "--gamma", "1")) == 0.1
    settings("[tool.simverify.compare]\ngamma = 3\ncost-ratio = 0.3\nseed = 30\n")
    document = compared(command)
    assert (document["gamma"], cost(document), document["seed"]) == (3, 0.3, 30)
    monkeypatch.setenv("SIMVERIFY_COMPARE_GAMMA", "2")
    monkeypatch.setenv("SIMVERIFY_COMPARE_COST_RATIO", "0.2")
    document = compared(command)
    assert (document["gamma"], cost(document), document["seed"]) == (2, 0.2, 30)
    document = compared(command, "--gamma", "1")
    assert (document["gamma"], cost(document), document["seed"]) == (1, 0.2, 30)


def test_the_nearest_pyproject_above_counts(command, settings, tmp_path, monkeypatch):
    settings("[tool.simverify.compare]\ngamma = 3\n")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert compared(command)["gamma"] == 3


def test_keys_may_have_underscores(command, settings):
    settings("[tool.simverify.compare]\ngamma = 2\ncost_ratio = 0.3\n")
    assert cost(compared(command)) == 0.3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[tool.simverify.compare]\ngama = 3\n",
            "unknown name in [tool.simverify.compare] 'gama': did you mean 'gamma'?",
        ),
        (
            "[tool.simverify.compare]\ncost = 3\n",
            "unknown name in [tool.simverify.compare] 'cost'",
        ),
        (
            "[tool.simverify.comprae]\ngamma = 3\n",
            "unknown name in [tool.simverify] 'comprae': did you mean 'compare'?",
        ),
        ("[tool.simverify]\ngamma = 3\n", "unknown name in [tool.simverify] 'gamma'"),
        ("[tool.simverify.compare]\ngamma = 2.5\n", "'2.5' is not a whole number"),
        ('[tool.simverify.compare]\ngamma = "x"\n', "'x' is not a whole number"),
        ("[tool.simverify.compare]\ngamma = true\n", "'True' is not a whole number"),
        ("[tool.simverify.compare]\ngamma = 0\n", "gamma is 0"),
        ("[tool.simverify.compare\n", "pyproject.toml: TOMLDecodeError"),
        ("[tool.simverify]\ncompare = 3\n", "must be a mapping, but got int"),
        ("[tool]\nsimverify = 3\n", "must be a mapping, but got int"),
        ("tool = 3\n", "must be a mapping, but got int"),
    ],
)
def test_a_mistake_in_pyproject(command, settings, text, message):
    settings(text)
    arguments = () if "gamma =" in text else ("--gamma", "2")
    assert command("compare", "--models", "toy", "--blocks", "1000", *arguments) == 2
    assert message in command.complaint()


def test_other_tables_are_no_mistake(command, settings):
    settings("[project]\nname = 'x'\n[tool.other]\ngama = 1\n[tool.simverify.pytest]\n")
    assert compared(command, "--gamma", "2")["gamma"] == 2


def test_a_mistake_counts_for_every_command(command, settings):
    settings("[tool.simverify.comprae]\n")
    assert command("schema") == 2
    assert "did you mean 'compare'?" in command.complaint()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "SIMVERIFY_COMPARE_GAMA",
            "3",
            "unknown environment variable 'SIMVERIFY_COMPARE_GAMA': "
            "did you mean 'SIMVERIFY_COMPARE_GAMMA'?",
        ),
        ("SIMVERIFY_COMPARE_GAMMA", "x", "SIMVERIFY_COMPARE_GAMMA: 'x' is not a whole number"),
        ("SIMVERIFY_COMPARE_GAMMA", "", "SIMVERIFY_COMPARE_GAMMA: '' is not a whole number"),
        ("SIMVERIFY_COMPARE_GAMMA", "0", "gamma is 0"),
    ],
)
def test_a_mistake_in_the_environment(command, monkeypatch, name, value, message):
    monkeypatch.setenv(name, value)
    assert command("compare", "--models", "toy", "--blocks", "1000") == 2
    assert message in command.complaint()


def test_the_environment_of_another_command_is_none_of_this_ones(command, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_AUDIT_GAMMA", "3")
    assert compared(command, "--gamma", "2")["gamma"] == 2
