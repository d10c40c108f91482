import gc
import json
import os
import re
import signal
import stat
import threading
from fractions import Fraction

import numpy as np
import pytest

import simverify


@pytest.mark.distribution
def test_compare_prints_a_table_and_says_inconclusive(command):
    assert command.compare("--verbose") == 3
    assert "toy: V = 2, gamma = 2" in command.out
    assert re.search(r"token +INCONCLUSIVE 1\.1111111 ", command.out)
    words = " ".join(command.out.split())
    assert "enumerated: 10/9" in words
    assert "No rule accepts more than 1.3333333 tokens in one call (coupling bound)." in words
    assert "Lossless: 0 of 1 result passed, 1 with too few blocks" in words
    assert words.endswith(
        "INCONCLUSIVE: Do not decide on this run about token on toy: too few blocks to say that "
        "the output follows the target: raise --blocks or --detect."
    )
    assert command.err == "toy: exact distributions\ntoy: token\n"


def test_quiet_says_nothing_on_standard_error(command):
    command.compare("--quiet")
    assert command.err == ""
    assert command.out


@pytest.mark.distribution
def test_a_pass(command):
    assert command.compare("--detect", "0.1", "--blocks", "5000") == 0
    assert "\nPASS: the result follows the target's distribution. " in command.out


def test_a_fault(command):
    assert command.compare("--verifiers", "temperature-0") == 1
    assert "FAIL temperature-0: the rule's exact distribution differs" in command.out
    assert "\nFAIL: Do not ship temperature-0 on toy: " in command.out


def test_a_fault_where_contexts_are_too_many(command):
    fault = ("--models", "ngram", "--verifiers", "temperature-0", "--json", "run.json")
    assert command.compare(*fault) == 1
    with open("run.json") as file:
        named = json.load(file)["results"][0]["lossless"]["faults"]
    assert 0.0 <= named["explains"] <= 1.0


def test_the_smallest_alpha_where_the_optimum_is_sampled(command):
    assert command.compare("--models", "ngram", "--alpha", "1e-300") == 3


@pytest.mark.parametrize(("frozen", "expected"), [(0, ["freeze", "unfreeze"]), (5, [])])
def test_a_comparison_leaves_the_collector_as_it_was(command, monkeypatch, frozen, expected):
    calls = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    command.compare()
    assert calls == expected


def test_a_fault_outweighs_what_is_inconclusive(command):
    assert command.compare("--verifiers", "token,temperature-0,block") == 1


@pytest.mark.distribution
def test_a_budget_too_small_is_inconclusive(command):
    many = ("--models", "markov-64", "--gamma", "4", "--blocks", "1000")
    assert command.compare(*many) == 3


def test_json_to_a_file(command, tmp_path):
    command.compare("--json", "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    assert document["command"] == "compare"
    assert document["results"][0]["expected_accepted"]["fraction"] == "10/9"
    assert command.out.startswith("toy: ")
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o666 & ~umask()
    assert os.listdir(tmp_path) == ["run.json"]


def umask():
    now = os.umask(0)
    os.umask(now)
    return now


def test_json_to_standard_output_is_all_there_is(command):
    assert command.compare("--json", "-") == 3
    assert json.loads(command.out)["verdict"] == "INCONCLUSIVE"
    assert command.err == "toy: exact distributions\ntoy: token\n"


def test_json_replaces_a_file_and_follows_a_link(command, tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    command.compare("--json", "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["gamma"] == 2


def test_json_is_written_into_a_pipe_which_stays_one(command, tmp_path):
    """A device or a pipe is no file to be replaced."""
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    command.compare("--json", "pipe")
    reader.join(timeout=30)
    assert json.loads(read[0])["gamma"] == 2
    assert (tmp_path / "pipe").is_fifo()


def test_the_same_seed_gives_the_same_bytes_but_for_meta(command, tmp_path):
    texts = []
    for threads in (1, 2):
        arguments = ("--models", "compact", "--calls", "2", "--seed", "7")
        command.compare(*arguments, "--threads", threads, "--json", "run.json")
        head, meta, tail = (tmp_path / "run.json").read_text().partition('  "meta": {')
        assert meta
        texts.append(head)
        assert tail.count("\n}") == 1
    assert texts[0] == texts[1]
    command.compare(*arguments[:-1], "8", "--json", "run.json")
    assert (tmp_path / "run.json").read_text().partition('  "meta": {')[0] != texts[0]


def test_options_reach_the_comparison(command, tmp_path):
    command.compare(
        "--models", "markov-8", "--temperature", "0.5", "--draft-distance", "0.9", "--calls", "2",
        "--eos", "1", "--cost-ratio", "0.5", "--alpha", "1e-4", "--detect", "0.2", "--seed", "3",
        "--json", "run.json",
    )  # fmt: skip
    document = json.loads((tmp_path / "run.json").read_text())
    model = simverify.models.markov(8, distance=0.9, temperature=0.5)
    by_hand = np.minimum(model.target_start, model.draft_start).sum()
    (row,) = document["results"]
    assert row["acceptance_ccdf"]["exact"][0] == pytest.approx(by_hand)
    assert row["speedup"]["cost_ratio"] == 0.5
    assert [document[key] for key in ("alpha", "detect", "seed", "eos")] == [1e-4, 0.2, 3, 1]
    assert [entry["calls"] for entry in row["calls"]] == [1, 2]


def test_the_users_own_pair_beside_built_in_names(command, pair, tmp_path):
    command.compare("--models", f"toy,{pair()}", "--json", "run.json")
    rows = json.loads((tmp_path / "run.json").read_text())["results"]
    assert [row["model"] for row in rows] == ["toy", "mine"]
    # min(q, p) summed at the start, then once more after each kept token.
    first = [Fraction(1, 4), Fraction(1, 2)]
    after = [Fraction(1, 3) + Fraction(1, 2), Fraction(1, 4) + Fraction(1, 4)]
    by_hand = sum(first) + sum(f * a for f, a in zip(first, after, strict=True))
    assert Fraction(rows[1]["expected_accepted"]["fraction"]) == by_hand
    assert rows[1]["lossless"]["exact"]["arithmetic"] == "rational"


def test_the_users_own_pair_in_numbers_and_in_arrays(command, tmp_path, pair):
    side = {"start": [0.5, 0.5], "rows": [[0.25, 0.75], [0.5, 0.5]]}
    np.savez(
        tmp_path / "pair.npz",
        **{f"{who}_{key}": side[key] for who in ("target", "draft") for key in side},
    )
    for name in (pair("pair.json", name="pair", target=side, draft=side), "pair.npz"):
        command.compare("--models", name, "--json", "-")
        (row,) = json.loads(command.out)["results"]
        assert row["model"] == "pair"
        assert row["expected_accepted"]["exact"] == 2  # the draft is the target
        assert row["lossless"]["exact"]["arithmetic"] == "float64"


def test_a_name_that_looks_like_markup_is_printed_as_it_is(command, pair):
    command.compare("--models", pair(name="[red]x[/red] [/oops]"))
    assert "[red]x[/red] [/oops]: V = 2" in command.out
    assert "[red]x[/red] [/oops]: exact distributions" in command.err


def test_lists_may_have_blanks(command):
    command.compare("--verifiers", " token , block ", "--quiet")
    assert re.findall(r"^(token|block|greedy) ", command.out, re.MULTILINE) == ["token", "block"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("verifiers", ["token", "block", "greedy", "match", "temperature-0", "Sun et al. 2025"]),
        ("doctor", ["python", "numba", "torch", "cache folder", "known answer reproduced"]),
        ("schema", ['"$schema"', "CompareRun"]),
    ],
)
def test_commands_that_only_tell(command, name, words):
    assert command(name) == 0
    for word in words:
        assert word in command.out
    assert command.err == ""


def test_models_tells_perplexities(command, monkeypatch, tmp_path):
    from simverify.models import ngram
    from simverify.models.ngram import corpus_text

    text = corpus_text()[:100_000]
    monkeypatch.setenv("SIMVERIFY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(ngram, "corpus_text", lambda: text)
    assert command("models") == 0
    for word in ("toy", "compact", "markov-V", "ngram", "FILE", "perplexity", "sha256"):
        assert word in command.out
    assert command.err.startswith("training ngram")
    command("models")
    assert command.err == ""


@pytest.mark.parametrize("name", ["", "compare", "audit"])
def test_help_has_examples(command, name):
    assert command(*name.split(), "--help") == 0
    assert "simverify compare --gamma" in command.out or "simverify audit" in command.out
    assert all(len(line) <= 80 for line in command.out.splitlines())
    if name == "compare":
        for option in ("--gamma", "--cost-ratio", "--calls", "--json", "--quiet", "--eos"):
            assert option in command.out


def test_version(command):
    assert command("--version") == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", command.out)


@pytest.mark.thorough
def test_without_torch(start):
    """A finder that refuses torch stands for an installation without it."""
    refuse = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from simverify.cli.commands import compare as module
from simverify.cli import main
main()
"""
    process = start("compare", "--gamma", "2", "--models", "toy", "--blocks", "1000", code=refuse)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert "Traceback" not in err
    assert "toy: V = 2" in out


def test_an_audit_leaves_nothing_in_the_current_folder(start, tmp_path, monkeypatch):
    """Not even what Python and Hypothesis keep by default."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (tmp_path / "probabilities.py").write_text("def positive(row):\n    return row.clip(0)\n")
    (tmp_path / "rule.py").write_text("""
from probabilities import positive

def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, x in enumerate(draft_tokens):
        if rng.random() * draft_probs[i][x] >= target_probs[i][x]:
            row = positive(target_probs[i] - draft_probs[i])
            return [*draft_tokens[:i], rng.choice(len(row), p=row / row.sum())]
    return [*draft_tokens, rng.choice(len(target_probs[-1]), p=target_probs[-1])]
""")
    process = start("audit", "rule.py:verify", "--gamma", "1", "--vocab", "2")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert sorted(os.listdir(tmp_path)) == ["probabilities.py", "rule.py"]


LONG = ["compare", "--gamma", "8", "--models", "toy", "--blocks", "4000000000", "--threads", "1"]


def test_an_interrupt(start, tmp_path):
    (tmp_path / "run.json").write_text("old")
    process = start(*LONG, "--json", "run.json")
    while process.stderr.readline() != "toy: token\n":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err == "simverify: interrupted; nothing was written\n"
    assert (tmp_path / "run.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


@pytest.mark.parametrize("where", [[], ["--json", "-"]])
@pytest.mark.thorough
def test_a_reader_that_left_changes_no_verdict(start, where):
    """``simverify compare | head -1`` under pipefail must not pass a fault, or make one up."""
    lossy = ("--models", "toy", "--verifiers", "temperature-0", "--blocks", "1000", "--gamma", "2")
    process = start("compare", *lossy, *where)
    process.stdout.close()
    assert process.wait(timeout=120) == 1
    assert process.stderr.read().endswith("toy: exact distributions\ntoy: temperature-0\n")
