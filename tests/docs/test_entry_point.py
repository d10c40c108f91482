"""The entry point that the page on extending shows, found as an installed one is."""

import os
import subprocess
import sys
import tomllib

import pytest
from docs.examples import ROOT, blocks

FILES = {
    block.file: block.text
    for block in blocks((ROOT / "docs" / "how-to" / "add-code.md").read_text(encoding="utf-8"))
}


@pytest.fixture
def installed(tmp_path):
    """A folder that holds the page's distribution as pip would leave it."""
    project = tomllib.loads(FILES["my-engine/pyproject.toml"])["project"]
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    about.joinpath("entry_points.txt").write_text("\n".join(lines))
    tmp_path.joinpath("my_kernel.py").write_text(FILES["my_kernel.py"])
    return tmp_path


def simverify(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "simverify", *arguments],
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.thorough
def test_it_is_listed_and_audited(installed):
    listed = simverify(installed, "engines").stdout
    assert "my-engine\n  my_kernel: verify\n  1.0 installed; tier: exact\n" in listed
    audited = simverify(installed, "audit", "my-engine", "--gamma", "1")
    assert audited.returncode == 0
    assert audited.stdout.startswith("PASS: my-engine emits exactly the target's distribution.")


@pytest.mark.thorough
def test_what_the_page_says_of_wrong_ones(installed):
    (installed / "my_kernel.py").write_text("verify = 3\n")
    wrong = simverify(installed, "audit", "my-engine")
    assert (wrong.returncode, "names a verify callable" in wrong.stderr) == (4, True)
    (installed / "my_kernel.py").write_text("import no_such_module\n")
    wrong = simverify(installed, "audit", "my-engine")
    assert (wrong.returncode, "no_such_module" in wrong.stderr) == (4, True)
