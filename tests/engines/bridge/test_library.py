"""Functions of shared libraries: what breaks is one clear line, and the page's example is right."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from docs.examples import ROOT, blocks

import simverify
from simverify.auditing import sandbox
from simverify.engines import bridge
from simverify.errors import SimverifyError, UsageError

HERE = Path(__file__).parent
SMALL = {"gamma": 1, "vocab": 2, "max_paths": 4000}

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile")


def compiled(source, folder):
    library = folder / f"{Path(source).stem}.so"
    command = ["g++", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    return compiled(HERE / "misbehaving.cpp", tmp_path_factory.mktemp("broken"))


@pytest.fixture(scope="module")
def page():
    """Return the C++ example of docs/how-to/languages.md."""
    text = (ROOT / "docs" / "how-to" / "languages.md").read_text(encoding="utf-8")
    return next(block.text for block in blocks(text) if block.file == "token.cpp")


FINDINGS = {
    "reads_more": "coins: reads beyond the 2 coins that it is given, .*: name --coins",
    # Which call shows it first is drawn by the function.
    "draws_itself": "own-randomness: (returned .* when it was asked the same again"
    "|two calls with the same coins gave different tokens)",
    "keeps": "own-randomness: .*or keeps something between calls",
    "code": "raises: returned -7, an error code of its own",
    "nothing": "empty: returned no tokens",
    "too_many": "too-many: returned 3, gamma . 1 = 2",
    "unwritten": "out-of-range: returned 1 and wrote fewer tokens to out",
    "beyond_v": r"out-of-range: returned token \d, vocabulary",
    "writes_more": "too-many: writes beyond the gamma . 1 = 2 ints of out",
    "changes": "inputs-modified: changes its arguments in place",
}


@pytest.mark.parametrize("symbol", FINDINGS)
def test_a_function_that_breaks_its_contract_fails(broken, unsearched, symbol):
    run = simverify.audit(library=f"{broken}:{symbol}", **SMALL)
    assert run.verdict == "FAIL"
    assert any(re.search(FINDINGS[symbol], found.text) for found in run.findings), run.findings


ENDS = {
    "segfaults": r"ends the process: .*SIGSEGV \(a segmentation fault\), in the exact tier on",
    "aborts": "ends the process: .*SIGABRT",
    "exits": "ends the process: .*exit code 3",
    "spins": "hangs: a call did not return, and nothing could interrupt it",
}


@pytest.mark.parametrize(
    "symbol",
    # Its parent waits for five processor seconds; the quick one is `hangs` of a program.
    [pytest.param(way, marks=pytest.mark.slow if way == "spins" else ()) for way in ENDS],
)
def test_one_that_ends_the_process_fails_with_what_was_asked(broken, symbol):
    run = simverify.audit(library=f"{broken}:{symbol}", seconds=1.0, **SMALL)
    assert run.verdict == "FAIL"
    (finding,) = run.findings
    assert re.search(ENDS[symbol], finding.text), finding.text
    assert "target_probs" not in finding.text
    assert run.bridge.line.startswith('{"call":0,"gamma":1,"vocab":')
    assert run.bridge.line.endswith("]}")


def test_a_right_function_passes(broken, unsearched):
    assert simverify.audit(library=f"{broken}:fine", **SMALL).verdict == "PASS"


@pytest.mark.parametrize(
    ("library", "said", "code"),
    [
        ("./no.so:verify", "no file ./no.so", 2),
        ("./no.so", "expected path.so:symbol", 2),
        (f"{HERE / 'misbehaving.cpp'}:verify", "does not load", 4),
    ],
)
def test_what_does_not_load_is_one_line(library, said, code):
    with pytest.raises(SimverifyError, match=said) as raised:
        simverify.audit(library=library, **SMALL)
    assert raised.value.exit_code == code


def test_one_that_never_loads_is_no_verdict(tmp_path, monkeypatch):
    source = tmp_path / "endless.c"
    source.write_text("__attribute__((constructor)) static void at_load(void) { for (;;); }\n")
    monkeypatch.setattr(bridge, "LIBRARY_LOAD_SECONDS", 0.2)
    monkeypatch.setattr(sandbox, "KILL_GRACE_SECONDS", 0.5)
    with pytest.raises(SimverifyError, match="fails to load: a call did not return") as raised:
        simverify.audit(library=f"{compiled(source, tmp_path)}:verify", **SMALL)
    assert raised.value.exit_code == 4


def test_a_symbol_that_is_not_there_is_a_usage_error(broken):
    with pytest.raises(UsageError, match=r'no symbol \'verify\'; in C\+\+ declare it extern "C"'):
        simverify.audit(library=f"{broken}:verify", **SMALL)


@pytest.mark.thorough
def test_the_example_of_the_page_passes(page, tmp_path, unsearched):
    (tmp_path / "token.cpp").write_text(page)
    library = compiled(tmp_path / "token.cpp", tmp_path)
    run = simverify.audit(library=f"{library}:verify", gamma=2, vocab=3, max_paths=8000)
    assert (run.verdict, run.tier) == ("PASS", "exact")


FAULTS = {
    "residual of the next row": ("p[v] - q[v]", "p[v + V] - q[v]"),
    "one coin twice": ("coins[i + 1]", "coins[i]"),
    "residual is the target": ("p[v] - q[v]", "p[v]"),
    "accepts too often": ("coins[i] * q[x[i]]", "0.999 * coins[i] * q[x[i]]"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.thorough
def test_a_fault_in_the_example_fails(page, tmp_path, unsearched, fault):
    before, after = FAULTS[fault]
    assert page.count(before) == 1
    (tmp_path / "token.cpp").write_text(page.replace(before, after))
    library = compiled(tmp_path / "token.cpp", tmp_path)
    run = simverify.audit(library=f"{library}:verify", gamma=2, vocab=3, max_paths=8000)
    assert run.verdict == "FAIL"
    assert run.counterexample is not None
    if fault == "one coin twice":
        assert "reused-uniform" in {named.fault for named in run.diagnosis}
