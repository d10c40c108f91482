"""What ``replay`` shows of a run that has no counterexample."""

from fractions import Fraction

import msgspec

from simverify.engines import ENGINES
from simverify.engines.base import Engine
from simverify.engines.loading.packages import load_file

RULE = """
import numpy as np

def verify(p, q, x, rng):
    own = np.random.default_rng(int.from_bytes(rng.bytes(8), "little"))
    for i, y in enumerate(x):
        if own.random() >= p[i][y] / q[i][y]:
            return [*x[:i], int(own.choice(len(p[i]), p=p[i]))]
    return [*x, int(own.choice(len(p[-1]), p=p[-1]))]
"""


def test_a_failing_trial_is_shown_and_is_the_only_one(command, tmp_path):
    (tmp_path / "mine.py").write_text(RULE)
    sizes = ("--gamma", "2", "--vocab", "4", "--detect", "0.05")
    assert command("audit", "mine.py:verify", *sizes, "--json", "run.json") == 1
    assert "simverify replay 'run.json#0'" in command.out
    assert command("replay", "run.json#0") == 0
    assert ", gamma=2: trial " in command.out
    assert "draw: bytes(8) = " in command.out
    assert "branch: own.random() >= p[i][y] / q[i][y] is " in command.out
    assert command.out.splitlines()[-1].startswith("emits [")
    assert command("replay", "run.json#1") == 2
    assert "run.json has one failing trial, number 0: got 1" in command.complaint()


BROKEN = """
def verify(p, q, x, rng):
    for i, y in enumerate(x):
        if rng.random() >= p[i][y] / q[i][y]:
            raise ValueError("no residual")
    return [*x, int(rng.choice(len(p[-1]), p=p[-1]))]
"""


def test_a_call_that_breaks_its_contract_is_shown_with_its_rows_and_draft(command, tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN)
    sizes = ("--gamma", "1", "--vocab", "2")
    assert command("audit", "mine.py:verify", *sizes, "--json", "run.json") == 1
    assert "simverify replay 'run.json#0'" in command.out
    found = msgspec.json.decode((tmp_path / "run.json").read_bytes())
    assert found["counterexample"] is None
    (token,) = found["breach"]["draft_tokens"]
    p, q = (
        [float(Fraction(x)) for x in found["breach"]["instance"][side][""]]
        for side in ("target_probs", "draft_probs")
    )
    assert p[token] < q[token]
    assert f"It broke its contract at V = 2, gamma = 1, draft tokens {token}:" in command.out
    assert command("replay", "run.json#0") == 0
    assert f"draft tokens {token}" in command.out
    assert "raised ValueError: no residual" in command.out
    assert f"probability {1 - p[token] / q[token]:.6g}, 1 draws" in command.out
    assert command("replay", "run.json#1") == 2
    assert "has 1 paths that break the contract, numbered from 0: got 1" in command.complaint()


def test_an_engines_checkout_is_found_again(command, tmp_path, monkeypatch):
    name = "simverify-test-engine"
    (tmp_path / "checkout" / name).mkdir(parents=True)
    (tmp_path / "checkout" / name / "sampler.py").write_text(RULE.replace("own =", "own = rng #"))
    engine = Engine(
        name=name, package=name, source="sampler.py", function="verify", contract="verify",
        tier="exact", tolerance=1e-9, loader=lambda path: load_file(path, "its_sampler").verify,
    )  # fmt: skip
    monkeypatch.setitem(ENGINES, name, engine)
    sizes = ("--gamma", "1", "--vocab", "3", "--engine-path", "checkout")
    assert command("audit", name, *sizes, "--json", "run.json") == 1
    assert command("replay", "run.json#0") == 0
    assert "emits" in command.out
    # Without a file to replay from, the audit itself is what repeats it.
    assert command("audit", name, *sizes) == 1
    assert "--engine-path checkout" in command.out


def test_a_run_that_found_nothing_has_nothing_to_replay(command):
    sizes = ("--gamma", "1", "--vocab", "2", "--json", "run.json")
    assert command("audit", "token", *sizes) == 0
    assert command("replay", "run.json#0") == 2
    assert "no counterexample and no failing trial to replay" in command.complaint()
