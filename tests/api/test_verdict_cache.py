"""Verdicts that a later audit gives at once, and all that makes them void."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from simverify.api import verdict_cache

RULE = """
import numpy as np
{imports}

def verify(target_probs, draft_probs, draft_tokens, rng):
    {first}
    p, q, x = target_probs[0], draft_probs[0], int(draft_tokens[0])
    if rng.random() * q[x] < p[x]:
        return [x, rng.choice(len(p), p=target_probs[1])]
    row = np.maximum(p - q, 0)
    return [rng.choice(len(p), p=row / row.sum())]
"""


def rule(imports="", first="pass"):
    return {"rule.py": RULE.format(imports=imports, first=first)}


HELPER = {"helper.py": "SCALE = 1.0\n"}
MAY_IMPORT = """
try:
    from .settings import SCALE
except ImportError:
    SCALE = 1.0
"""
CHANGES = {
    "the rule": (rule(), {"rule.py": RULE.format(imports="# other", first="pass")}),
    "a helper in another module": (
        rule("from helper import SCALE") | HELPER,
        {"helper.py": "SCALE = 2.0\n"},
    ),
    "a helper of a helper": (
        rule("import package.one") | {"package/one.py": "from . import two", "package/two.py": ""},
        {"package/two.py": "X = 1\n"},
    ),
    "a module that comes before another": (
        rule("import numbers"),
        {"numbers.py": "X = 1\n"},
    ),
    "a package that comes before a module": (
        rule("import helper") | HELPER,
        {"helper/__init__.py": "SCALE = 2.0\n"},
    ),
    "a compiled module that comes before a source": (
        rule("import helper") | HELPER,
        {"helper.abi3.so": ""},
    ),
    "a folder that becomes a package": (
        rule("import helper") | HELPER | {"helper/kernels.cu": ""},
        {"helper/__init__.py": "SCALE = 2.0\n"},
    ),
    "a folder that hides a module of Python": (
        rule("import statistics") | {"statistics/run.csv": ""},
        {"statistics/__init__.py": ""},
    ),
    "a root of the package": (
        rule("import package.one")
        | {"package/__init__.py": "", "package/one.py": "import numbers"},
        {"numbers.py": ""},
    ),
    "a variable of the environment": (rule(), {"$OTHER_RULE": "1"}),
    "the options": (rule(), {"--seed": "1"}),
    "a file that is gone": (rule("from helper import SCALE") | HELPER, {"helper.py": None}),
    "a link to another folder": (
        {
            "rule.py": "-> v1/rule.py",
            "v1/rule.py": rule()["rule.py"],
            "v2/rule.py": rule()["rule.py"],
        },
        {"rule.py": "-> v2/rule.py"},
    ),
}
"""By what changes: the files, and the change; "->" is a symbolic link."""

REPLACED = "import sys\n\nclass Config:\n    scale = 1.0\n\nsys.modules[__name__] = Config()\n"
NEVER_KEPT = {
    "the clock": rule("import time", "time.time()"),
    "the clock of numpy": rule(first="np.datetime64('now')"),
    "the environment": rule("import os", "os.environ.get('X')"),
    "a name that is looked up": rule(first="getattr(np, 'lo' + 'ad')"),
    "a file that is read": rule("TABLE = open('table.txt').read()") | {"table.txt": "1.0\n"},
    "a file that numpy reads": rule("T = np.loadtxt('table.txt')") | {"table.txt": "1.0\n"},
    "a file that a class of numpy reads": rule("T = np.memmap('t.bin', mode='r')")
    | {"t.bin": "1.0\n"},
    "whether a file is there": rule("import os", "os.path.exists('flag')"),
    "a list of files": rule("from pathlib import Path", "list(Path().iterdir())"),
    "another program": rule("import subprocess", "subprocess.run(['true'])"),
    "code that is executed": rule("exec('SCALE = 1.0')"),
    "a package that may read anything": rule("import msgspec"),
    "a package that is not there": rule("try:\n    import faster\nexcept ImportError: pass"),
    "a module that was not there": rule("import package.one") | {"package/one.py": MAY_IMPORT},
    "a module within another": rule("from random import _os", "_os.path.exists('flag')"),
    "a device that may go": rule("DEVICE = 'cuda:0'"),
    "an archive of scipy": rule("from scipy import sparse", "sparse.load_npz"),
    "the clock, in a helper": rule("import helper") | {"helper.py": "import datetime"},
    "a module that replaces itself": rule("import config") | {"config.py": REPLACED},
}

AUDITS = """
import json, os, sys, time
from pathlib import Path
from simverify.api.audit import run_audit
from simverify.auditing.subject import load_subject
from simverify.options.audit import AuditOptions
from simverify.api.verdict_cache import VerdictRecorder, kept_run

sys.path[:] = [folder for folder in sys.path if folder]  # as the command has it

def write(files):
    for name, text in files.items():
        path = Path(name)
        if text is None:
            path.unlink()
        elif text.startswith("-> "):
            path.unlink(missing_ok=True)
            path.symlink_to(text[3:])
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

class FIRST:
    random = staticmethod(lambda: 0.0)
    choice = staticmethod(lambda *_, **__: 0)

def options(seed=0):
    return AuditOptions("rule.py:verify", gamma=1, vocab=2, seed=seed)

root, cases = Path.cwd(), json.load(sys.stdin)
for name, (files, _) in cases.items():
    (root / name).mkdir()
    os.chdir(root / name)
    write(files)
os.chdir(root / "nothing")
time.sleep(0.3)  # a file that has just been written may have changed since it was read
run = run_audit(options(), keep=True)
kept = {}
for name, (_, change) in cases.items():
    os.chdir(root / name)
    if name != "nothing":
        if os.fork() == 0:
            # As an audit does, but for most of its calls.
            recorder = VerdictRecorder(options(), None)
            load_subject("rule.py:verify").rule([[1.0, 0.0]] * 2, [[1.0, 0.0]], [0], FIRST)
            recorder.keep(run)
            os._exit(0)
        assert os.wait()[1] == 0, name
    before = kept_run(options(), None)
    seed = int(change.pop("--seed", 0))
    variables = {x[1:]: change.pop(x) for x in list(change) if x.startswith("$")}
    os.environ |= variables
    write(change)
    after = kept_run(options(seed), None)
    for variable in variables:
        del os.environ[variable]
    kept[name] = before is not None, after is not None
print(json.dumps(kept))
"""


def run(command, folder, **more):
    environment = os.environ | {"SIMVERIFY_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        **more,
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return by case whether the verdict is kept, and whether it is after the change."""
    folder = tmp_path_factory.mktemp("kept")
    cases = CHANGES | {name: (files, {}) for name, files in NEVER_KEPT.items()}
    cases["nothing"] = (rule(), {"notes.txt": "not read"})
    done = run(["-c", AUDITS], folder, input=json.dumps(cases))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_verdict_is_kept_while_nothing_changes(kept):
    assert kept["nothing"] == [True, True]


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_makes_it_void(what, kept):
    assert kept[what] == [True, False]


@pytest.mark.parametrize("what", NEVER_KEPT)
def test_code_that_asks_the_machine_is_audited_each_time(what, kept):
    assert kept[what] == [False, False]


def test_the_command_says_so_and_can_audit_again(tmp_path):
    (tmp_path / "rule.py").write_text(rule()["rule.py"])
    os.utime(tmp_path / "rule.py", (1e9, 1e9))
    run(["-c", "import time; time.sleep(0.3)"], tmp_path)
    command = ["-m", "simverify", "audit", "rule.py:verify", "--gamma", "1", "--vocab", "2"]
    first, again, anew = (run([*command, *x], tmp_path) for x in ([], [], ["--no-cache"]))
    assert first.returncode == again.returncode == anew.returncode == 0
    assert "kept from the audit of" not in first.stdout + anew.stdout
    assert "kept from the audit of" in again.stdout
    # The rest is the same; and a rule that has become wrong fails.
    assert again.stdout.startswith(first.stdout.partition("\nNotes:")[0])
    wrong = textwrap.dedent(RULE).format(imports="", first="pass").replace("p - q", "p")
    (tmp_path / "rule.py").write_text(wrong)
    assert run(command, tmp_path).returncode == 1


HOOKS = """
import ctypes, sys, time
from simverify.api.verdict_cache import VerdictRecorder
from simverify.options.audit import AuditOptions

recorder = VerdictRecorder(AuditOptions("rule.py:verify"), None)
sys.audit("open", "odd")
sys.audit("ctypes.dlopen")
ctypes.CDLL(None)
assert recorder._unknown
"""


def test_code_sees_no_error_of_the_cache(tmp_path):
    assert run(["-c", HOOKS], tmp_path).returncode == 0


EVENTS = {
    "a file": ("open", "data.bin", "r", os.O_RDONLY),
    "a file that is written": ("open", "log.txt", "w", os.O_WRONLY | os.O_CREAT),
    "another program": ("subprocess.Popen", "true", ["true"], None, None),
    "a connection": ("socket.connect", None, ("localhost", 80)),
    "a library of the user's": ("ctypes.dlopen", "./mine.so"),
    "a fork": ("os.fork",),
}


def after(monkeypatch, folder, event, *arguments):
    """Return whether a recorder would keep nothing after an audit event of Python."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(verdict_cache, "_module_files", list)  # those of the tests are not audited
    monkeypatch.setattr(verdict_cache.sys, "addaudithook", lambda _: None)
    recorder = verdict_cache.VerdictRecorder(verdict_cache.AuditOptions("rule.py:verify"), None)
    recorder._hook(event, arguments)
    return recorder._unknown


@pytest.mark.parametrize("what", EVENTS)
def test_what_code_does_beyond_its_sources_is_seen_as_it_runs(what, monkeypatch, tmp_path):
    """Whatever its sources look like; controls: a source, and a library that is installed."""
    assert after(monkeypatch, tmp_path, *EVENTS[what])
    (tmp_path / "rule.py").write_text("")
    assert not after(monkeypatch, tmp_path, "open", "rule.py", "r", os.O_RDONLY)
    assert not after(monkeypatch, tmp_path, "open", os.__file__, "r", os.O_RDONLY)
    assert not after(monkeypatch, tmp_path, "ctypes.dlopen", os.__file__)


@pytest.mark.parametrize("damage", [b"", b"{}", b"[" * 100_000, b"\xff", b"null"])
def test_damaged_entries_are_audited_anew(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("SIMVERIFY_CACHE_DIR", str(tmp_path))
    options = verdict_cache.AuditOptions("rule.py:verify")
    verdict_cache._entry_path(options, None).write_bytes(damage)
    assert verdict_cache.kept_run(options, None) is None


@pytest.mark.parametrize("folder", [".", "build"])
def test_rules_beside_the_cache_are_no_part_of_it(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMVERIFY_CACHE_DIR", folder)
    assert not verdict_cache._is_ours("rule.py")
    assert not verdict_cache._is_ours("build-rules/rule.py")
    assert verdict_cache._is_ours(f"{folder}/verdicts/x.json")
