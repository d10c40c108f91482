"""The script that runs the findings' patches: what it copies, patches, runs and compares."""

import sys

import pytest
from docs.examples import ROOT
from support.pages.scripts import load

made = load(ROOT / "docs" / "finding_patches.py")

DIFF = """--- a/{file}
+++ b/{file}
@@ -2 +2 @@
-WRONG = True
+WRONG = False
"""
PAGE = """
<!-- file: own.diff -->
```diff
{diff}```

```sh
cat nowhere
patch -p1 -d {place} < own.diff
tail -1 {place}/{file}
# WRONG = False
PATCHED=1 sh -c 'echo first; echo $PATCHED; echo last'
# first
# last
```
"""


def page(place, file):
    return PAGE.format(diff=DIFF.format(file=file), place=place, file=file)


@pytest.fixture
def sources(tmp_path):
    """A folder with a package, and with the two checkouts of one repository's two commits."""
    places = (
        "pack",
        "vllm-ascend@182b75e/vllm_ascend/sample",
        "vllm-ascend@2f4d55e/vllm_ascend/sample",
    )
    for place in places:
        file = tmp_path / "sources" / place / "rejection_sampler.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"# of {place}\nWRONG = True\n")
    return tmp_path / "sources"


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.mark.parametrize(
    ("place", "file", "whose"),
    [
        ("patched", "pack/rejection_sampler.py", "pack"),
        ("patched/vllm-ascend@2f4d55e", "vllm_ascend/sample/rejection_sampler.py", "2f4d55e"),
        ("patched/vllm-ascend@182b75e", "vllm_ascend/sample/rejection_sampler.py", "182b75e"),
    ],
)
def test_a_copy_is_patched_and_the_source_is_not(sources, scratch, place, file, whose):
    assert list(made.followed(page(place, file), [sources], scratch)) == []
    text = (scratch / place / file).read_text()
    assert whose in text
    assert "WRONG = False" in text
    assert all("WRONG = True" in file.read_text() for file in sources.rglob("*.py"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("# WRONG = False\n", "# WRONG = 0\n"),
        ("# first\n# last", "# last\n# first"),
        ("-WRONG = True", "-WRONG = 1"),
    ],
)
def test_another_output_or_a_patch_that_does_not_fit_is_said(sources, scratch, right, wrong):
    text = page("patched", "pack/rejection_sampler.py")
    assert text.count(right) == 1
    (*_, last) = made.followed(text.replace(right, wrong), [sources], scratch)
    assert "expected: " in last


@pytest.mark.parametrize("place", ["patched", "patched/vllm-ascend@182b75e", "patched/nobody"])
def test_a_source_that_is_nowhere_is_said(tmp_path, scratch, place):
    (said,) = made.followed(page(place, "pack_of_nobody/rejection_sampler.py"), [], scratch)
    assert "is neither installed nor in a folder of --from" in said


def test_an_unknown_finding_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["finding_patches.py", "gpt-slow"])
    with pytest.raises(SystemExit):
        made.main()
    assert "no finding gpt-slow: choose from transformers, " in capsys.readouterr().err


def test_every_finding_has_a_patch_that_can_be_run_again():
    findings = made.findings()
    assert len(findings) == 17
    without = {name for name, text in findings.items() if not any(made.commands(text))}
    # Its patch is to leave an option at its default.
    assert without == {"lossy-by-design"}
    for name, text in findings.items():
        patches = made.PATCH.findall(text)
        assert bool(patches) == (".diff -->" in text), name
        assert {file for _, file in patches} <= dict(made.FILE.findall(text)).keys(), name
