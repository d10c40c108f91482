"""Audits' documents made once, and a survey whose audits are these instead of processes."""

import pytest
from support.many_versions import LOSSY, RULE, SAMPLED, TEXTS, install

import simverify
from simverify.surveying.table import AuditOutcome, AuditProcesses


def function(text):
    names = {}
    exec(text, names)
    return names["verify"]


@pytest.fixture(scope="session")
def documents():
    """What audits of the three rules say, by the rule's text."""
    with pytest.MonkeyPatch.context() as patch:
        for search in ("search_failure", "smallest_failure"):
            patch.setattr(f"simverify.auditing.exact_tier.{search}", lambda *_, **__: None)
        return {
            text: simverify.audit(function(text), gamma=1, vocab=2)
            for text in (RULE, SAMPLED, LOSSY)
        }


@pytest.fixture
def audits(monkeypatch, documents):
    """Let every audit be answered at once by the text of the rule that it is of.

    Returns the words of the audits so far.
    """
    asked = []

    def audit(self, words, limit, *, python_path=(), python=""):
        asked.append(tuple(words))
        place, _, _ = words[0].rpartition(":")
        if place.endswith(".py"):
            file = place
        elif python_path:
            file = python_path[0] / (place.replace(".", "/") + ".py")
        else:
            raise AssertionError(words)
        with open(file) as stream:
            text = stream.read()
        run = documents.get(text.removesuffix("\n# nothing has changed\n"))
        if run is None:
            return AuditOutcome("not loaded", None, f"{file} fails to load", 4, 0.5)
        code = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}[run.verdict]
        return AuditOutcome("judged", run, "", code, 0.5)

    monkeypatch.setattr(AuditProcesses, "audit", audit)
    return asked


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Engines of another distribution, found by this process and by those it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, TEXTS)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder
