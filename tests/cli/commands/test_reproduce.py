"""The command that a comparison's report prints gives the same document again."""

import hashlib
import html
import json
import re
import shlex

import pytest

import simverify
from simverify.models import markov
from simverify.reports.formats import html_report, markdown_report


def document(path):
    run = json.loads(path.read_text())
    del run["meta"]
    return run


def printed(page, text):
    """The command as a page has it, and a Markdown text: they must agree."""
    found = re.search(r'<pre class="command"[^>]*><code>(.*?)</code>', page)
    if found is None:
        return None
    shown = html.unescape(found[1])
    assert f"\n{shown}\n" in text
    return shown


@pytest.mark.parametrize(
    "options",
    [
        ("--models", "toy,markov-16", "--temperature", "0.5", "--draft-distance", "0.3"),
        ("--models", "toy", "--temperature", "0.5", "--blocks", "5000"),
        ("--models", "pair.json", "--calls", "3", "--eos", "1", "--seed", "12345678901234567890"),
        ("--models", "a  pair's.json,toy", "--cost-ratio", "0.12345678901", "--detect", "0.0212"),
        ("--verifiers", "match,temperature-0", "--alpha", "1.23456789e-7", "--gamma", "3"),
        ("--models", "markov-8", "--temperature", "0", "--draft-distance", "1"),
        ("--tree", "2,1", "--scheme", "top-k", "--verifiers", "token,fixed-tree"),
        ("--drafts", "2", "--verifiers", "k-seq", "--batch-size", "8", "--free-rows", "100.5"),
        ("--tree", "tree.json", "--verifiers", "recursive", "--gamma", "3"),
    ],
)
@pytest.mark.thorough
def test_it_gives_the_same_document(command, tmp_path, pair, options):
    pair()
    pair("a  pair's.json", name="other")
    (tmp_path / "tree.json").write_text('{"parents": [-1, -1, 0]}')
    command.compare("--json", "first.json", "--report", "out", "--quiet", *options)
    out = tmp_path / "out"
    line = printed((out / "report.html").read_text(), (out / "report.md").read_text())
    simverify_, *words = shlex.split(line)
    assert simverify_ == "simverify"
    command(*words, "--json", "again.json", "--quiet")
    assert document(tmp_path / "again.json") == document(tmp_path / "first.json")


def test_as_many_blocks_as_the_power_needs_are_not_named(command, tmp_path):
    asked = ("--gamma", "1", "--models", "toy", "--verifiers", "token", "--detect", "0.3")
    command("compare", *asked, "--json", "first.json", "--report", "out", "--quiet")
    out = tmp_path / "out"
    line = printed((out / "report.html").read_text(), (out / "report.md").read_text())
    assert "--blocks" not in line
    command(*shlex.split(line)[1:], "--json", "again.json", "--quiet")
    assert document(tmp_path / "again.json") == document(tmp_path / "first.json")


def test_two_models_of_one_name_are_told_apart(command, tmp_path, pair):
    files = pair(), pair("other.json", draft={"start": ["1/2"] * 2, "rows": [["1/2"] * 2] * 2})
    pages = []
    for file in files:
        command.compare("--models", file, "--json", "run.json", "--report", "out", "--quiet")
        (model,) = document(tmp_path / "run.json")["models"]
        sha256 = hashlib.sha256((tmp_path / file).read_bytes()).hexdigest()
        assert (model["name"], model["given"], model["file_sha256"]) == ("mine", file, sha256)
        pages.append((tmp_path / "out" / "report.html").read_text())
        assert f"{file}: the same file has sha256 {sha256}" in pages[-1]
    for temperature in ("1", "0.5"):
        options = ("--models", "markov-8", "--temperature", temperature)
        command.compare(*options, "--report", "out", "--quiet")
        text = " ".join((tmp_path / "out" / "report.html").read_text().split())
        assert f"markov-8 (V = 8, draft distance 0.4, temperature {temperature})" in text


def test_a_model_made_in_python_has_no_command():
    run = simverify.compare([markov(4)], ["token"], gamma=1, blocks=100)
    page = html_report(run)
    assert printed(page, markdown_report(run)) is None
    assert "No command line gives this run again" in page
    assert "leads to: markov-4" in page


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_a_path_that_no_document_can_hold_is_refused(command, pair, option):
    name = pair("\udcff.json")
    assert command.compare("--models", name, option, "out") == 2
    assert "is not UTF-8" in command.complaint()
