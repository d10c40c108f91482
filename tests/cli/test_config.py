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
        (
            "[tool.simverify.compare]\ngamma = 2.5\n",
            "pyproject.toml: [tool.simverify.compare] gamma is 2.5: expected a whole number",
        ),
        ('[tool.simverify.compare]\ngamma = "8"\n', "gamma is '8': expected a whole number"),
        ("[tool.simverify.compare]\ngamma = true\n", "gamma is True: expected a whole number"),
        ("[tool.simverify.compare]\ngamma = [1, 2]\n", "gamma is [1, 2]: expected a whole number"),
        ("[tool.simverify.compare.gamma]\n", "gamma is {}: expected a whole number"),
        ("[tool.simverify.compare]\nblocks = 1e6\n", "blocks is 1000000.0: expected a whole"),
        ("[tool.simverify.compare]\nalpha = [1]\n", "alpha is [1]: expected a number"),
        ('[tool.simverify.compare]\nalpha = "1e-6"\n', "alpha is '1e-6': expected a number"),
        ("[tool.simverify.compare]\nalpha = nan\n", "alpha is nan: expected 1e-300 or more"),
        ('[tool.simverify.compare]\nquiet = "yes"\n', "quiet is 'yes': expected true or false"),
        ("[tool.simverify.compare]\njson = 3\n", "json is 3: expected text"),
        ('[tool.simverify.compare]\njson = "a\\u0000b"\n', "without a null character"),
        (
            "[tool.simverify.compare]\nmodels = 3\n",
            "pyproject.toml: [tool.simverify.compare] models is 3: expected a list of names, "
            "or comma-separated text",
        ),
        (
            "[tool.simverify.compare]\nverifiers = ['token', 3]\n",
            "is ['token', 3]: expected a list",
        ),
        ("[tool.simverify.compare]\nverifiers = [['token']]\n", "expected a list of names"),
        ("[tool.simverify.compare]\nverifiers = []\n", "nothing to compare"),
        (
            "[tool.simverify.compare]\nverifiers = ['token', '']\n",
            "expected one name in each place",
        ),
        ("[tool.simverify.compare]\nverifiers = ['token,block']\n", "expected one name in each"),
        ("[tool.simverify.compare]\nverifiers = ['token', 'token']\n", "'token' is named twice"),
        (
            "[tool.simverify.compare]\ncost-ratio = 1\ncost_ratio = 1\n",
            "[tool.simverify.compare] has cost-ratio twice",
        ),
        ("[tool.simverify.compare]\ngamma = 0\n", "gamma is 0"),
        ("[tool.simverify.compare\n", "pyproject.toml is not TOML"),
        (
            "[tool.simverify]\ncompare = 3\n",
            "tool.simverify.compare is 3: expected a table, [tool.simverify.compare]",
        ),
        ("[tool]\nsimverify = 3\n", "tool.simverify is 3: expected a table, [tool.simverify]"),
        ("tool = 3\n", "pyproject.toml: tool is 3: expected a table, [tool]"),
    ],
)
def test_a_mistake_in_pyproject(command, settings, text, message):
    settings(text)
    given = {"--gamma": "2", "--models": "toy", "--blocks": "1000"}
    left = [word for pair in given.items() if pair[0][2:] not in text for word in pair]
    assert command("compare", *left) == 2
    assert message in command.complaint()


def test_a_pyproject_that_cannot_be_read(command, tmp_path):
    (tmp_path / "pyproject.toml").write_bytes(b"name = '\xff'\n")
    assert command("verifiers") == 2
    assert "pyproject.toml is not TOML" in command.complaint()
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "pyproject.toml").mkdir()
    assert command("verifiers") == 0


LISTS = [
    'verifiers = ["token", "block"]\nmodels = ["toy", "my pair.json"]\n',
    'verifiers = "token,block"\nmodels = "toy, my pair.json"\n',
]


@pytest.mark.parametrize("text", LISTS)
def test_a_list_is_a_list_or_comma_separated_text(command, settings, pair, text):
    pair("my pair.json")
    settings(f"[tool.simverify.compare]\ngamma = 1\nblocks = 1000\nquiet = true\n{text}")
    command("compare", "--json", "-")
    rows = json.loads(command.out)["results"]
    assert [(row["model"], row["verifier"]) for row in rows] == [
        (model, verifier) for model in ("toy", "mine") for verifier in ("token", "block")
    ]
    assert command.err == ""


def test_a_list_in_the_environment_and_on_the_command_line(command, settings, monkeypatch):
    settings('[tool.simverify.compare]\ngamma = 1\nblocks = 1000\nverifiers = ["token"]\n')
    monkeypatch.setenv("SIMVERIFY_COMPARE_VERIFIERS", "block, match")
    monkeypatch.setenv("SIMVERIFY_COMPARE_MODELS", "toy")
    command("compare", "--json", "-")
    rows = json.loads(command.out)["results"]
    assert [row["verifier"] for row in rows] == ["block", "match"]
    command("compare", "--json", "-", "--verifiers", "greedy")
    assert [row["verifier"] for row in json.loads(command.out)["results"]] == ["greedy"]


def test_a_wrong_value_that_another_source_overrules_is_still_told(command, settings):
    settings("[tool.simverify.compare]\ngamma = 'x'\n")
    assert command("compare", "--gamma", "2") == 2
    assert "[tool.simverify.compare] gamma is 'x'" in command.complaint()


def audited(command, *arguments):
    small = ("--vocab", "2", "--quiet", "--json", "-")
    assert command("audit", "double-chance", *small, *arguments) == 1, command.err
    return json.loads(command.out)


@pytest.mark.thorough
def test_precedence_in_audit(command, settings, monkeypatch):
    assert audited(command)["gamma"] == 4
    settings("[tool.simverify.audit]\ngamma = 3\nseed = 30\nmax-paths = 5000\ntolerance = 1e-7\n")
    document = audited(command)
    assert [document[key] for key in ("gamma", "seed", "tolerance")] == [3, 30, 1e-7]
    monkeypatch.setenv("SIMVERIFY_AUDIT_GAMMA", "2")
    monkeypatch.setenv("SIMVERIFY_AUDIT_TOLERANCE", "1e-6")
    document = audited(command)
    assert [document[key] for key in ("gamma", "seed", "tolerance")] == [2, 30, 1e-6]
    document = audited(command, "--gamma", "1")
    assert [document[key] for key in ("gamma", "seed", "tolerance")] == [1, 30, 1e-6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gama = 3\n", "unknown name in [tool.simverify.audit] 'gama': did you mean 'gamma'?"),
        ("gamma = 'x'\n", "[tool.simverify.audit] gamma is 'x': expected a whole number"),
        ("contract = 'vrify'\n", "[tool.simverify.audit] contract"),
        ("contract = 1\n", "[tool.simverify.audit] contract is 1: expected text"),
        ("engine-path = 1\n", "[tool.simverify.audit] engine-path is 1: expected text"),
        ("strict-probes = 1\n", "strict-probes is 1: expected true or false"),
        ("tolerance = '1'\n", "[tool.simverify.audit] tolerance is '1': expected a number"),
        ("spec = 'token'\n", "unknown name in [tool.simverify.audit] 'spec'"),
    ],
)
def test_a_mistake_in_the_audits_table(command, settings, text, message):
    settings(f"[tool.simverify.audit]\n{text}")
    assert command("audit", "token") == 2
    assert message in command.complaint()


def test_a_mistake_in_the_audits_environment(command, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_AUDIT_SECONDS", "soon")
    assert command("audit", "token") == 2
    assert "SIMVERIFY_AUDIT_SECONDS" in command.complaint()


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
