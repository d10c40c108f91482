"""The pages build without a warning, show formulas without a script, and load nothing."""

import re
import shutil
import subprocess
import sys

import pytest
from docs.examples import ROOT

pytest.importorskip("sphinx", reason="sphinx is not installed: pip install '.[docs]'")

pytestmark = pytest.mark.thorough

PAGES = ROOT / "docs"


def build(source, to, *options):
    """Run sphinx-build as README says; its standard error."""
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", *options, "-q", "-b", "html", str(source), str(to)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    to = tmp_path_factory.mktemp("html")
    done = build(PAGES, to)
    assert (done.returncode, done.stderr) == (0, "")
    return to


def test_every_page_is_there(built):
    for page in PAGES.rglob("*.md"):
        assert (built / page.relative_to(PAGES).with_suffix(".html")).is_file()


def test_pages_load_nothing_from_elsewhere(built):
    loads = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)="(?:https?:)?//')
    for page in built.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page
    for style in built.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text("utf-8")), style
    assert loads.search('<script src="https://example.org/x.js">')


def test_formulas_are_mathml(built):
    page = (built / "explanation" / "statistics.html").read_text(encoding="utf-8")
    assert page.count("<math") > 100
    assert "\\frac" not in page
    assert "$$" not in page


WRONG = [
    ("A formula $\\nosuchmacro$.", "formula is not understood"),
    ("[Nowhere](nowhere.md).", "nowhere.md"),
    ("[Nowhere](#no-such-heading).", "no-such-heading"),
]


def test_what_is_wrong_ends_the_build(tmp_path):
    """Each is a warning of its own; a build ends with the first one, this one with all."""
    source = tmp_path / "docs"
    shutil.copytree(PAGES / "extensions", source / "extensions")
    shutil.copy(PAGES / "conf.py", source)
    (source / "_static").mkdir()
    pages = [f"# Title {i}\n\n{wrong}\n" for i, (wrong, _) in enumerate(WRONG)]
    names = ["index", *(f"page{i}" for i in range(1, len(pages)))]
    pages[0] += "\n```{toctree}\n" + "\n".join(names[1:]) + "\n```\n"
    for name, page in zip(names, pages, strict=True):
        (source / f"{name}.md").write_text(page, encoding="utf-8")
    done = build(source, tmp_path / "html", "--keep-going")
    assert done.returncode != 0
    lines = done.stderr.splitlines()
    for name, (_, warning) in zip(names, WRONG, strict=True):
        told = [line for line in lines if f"{name}.md" in line and "WARNING" in line]
        assert len(told) == 1, done.stderr
        assert warning in done.stderr
