"""The detection benchmark runs, samples what it says, and sees no fault where there is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scipy.stats import chi2
from support.false_alarms import ALPHA

pytestmark = pytest.mark.thorough

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "detection"


def run(code):
    """Run ``code`` in the benchmark's folder; what it prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARK, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    path = tmp_path_factory.mktemp("detection") / "detection.json"
    done = subprocess.run(
        [sys.executable, str(BENCHMARK / "detect.py"), "--quick", "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "| ratio inverted |" in done.stdout
    return json.loads(path.read_text())


def test_the_code_emits_its_closed_form_law(document):
    for check in document["checks"]:
        assert check["largest_difference"] < 1e-9
        assert check["from_target"] > 1e-3  # the comparison could have failed


def test_each_line_is_complete(document):
    assert [line["label"] for line in document["lines"]] == [
        "ratio inverted",
        "pairs of rows sharing a stream, same prompt",
    ]
    for line in document["lines"]:
        assert 0 < line["best"]["n"] <= line["battery"]["n"]
        assert line["best"]["low"] <= line["best"]["n"]
        assert line["ratio"] == pytest.approx(line["battery"]["n"] / line["best"]["n"])
        assert len(line["peers"]) == 6
        assert all(0 <= x <= 1 for peer in line["peers"].values() for x in peer.values())


def test_right_code_passes_the_battery(document):
    assert document["healthy"]["rejections"] == 0


def test_equal_rows_need_as_many_pairs_as_their_law_says(document):
    """All pairs are equal: p-value c^n, c the chance that two right tokens are equal."""
    due = run(
        "import json, math; from instances import load_small; p = load_small().target[0]\n"
        "c = float(p @ p)\n"
        "print(json.dumps(math.ceil(math.log(1e-6) / math.log(c))))"
    )
    line = document["lines"][1]
    assert line["best_test"] == "equal tokens"
    assert due - 1 <= line["best"]["n"] <= due + 1


def test_a_line_means_the_same_in_another_process():
    found = run(
        "import json, pickle, pairs\n"
        "from instances import load_small\n"
        "lines = [pairs.SAME, pickle.loads(pickle.dumps(pairs.SAME)), pairs.DIFFERENT]\n"
        "tests = [pairs.measure_pairs(line, load_small(), 8).best_test for line in lines]\n"
        "print(json.dumps(tests))"
    )
    assert found == ["equal tokens", "equal tokens", "G2 of token pairs"]


def test_the_instances_are_those_of_their_seeds():
    """The small one to the last digit; a large one by its hash, and another one is refused."""
    found = run(
        "import json, numpy as np, instances as i\n"
        "a, b = i.load_small(), i.small()\n"
        "same = bool((a.target == b.target).all() and (a.draft == b.draft).all())\n"
        "rows = i.load_large(i.DISTINCT)\n"
        "i.SEEDS[i.DISTINCT] += 1\n"
        "try: i.load_large(i.DISTINCT)\n"
        "except RuntimeError as error: refused = 'write it again' in str(error)\n"
        "print(json.dumps([same, list(rows[0].shape), refused]))"
    )
    assert found == [True, [1024, 5000], True]


@pytest.mark.distribution
def test_the_law_of_shared_noise_is_that_of_the_faulty_code():
    """The closed form against the catalogue's own code on Gumbel draws, and the right law."""
    found = run(
        "import json, numpy as np, calls, lines\n"
        "from instances import load_small\n"
        "from simverify.faults import FAULTS\n"
        "t = load_small(); rng = np.random.default_rng(20261121)\n"
        "target, draft = lambda x: t.target[t.index(x)], lambda x: t.draft[t.index(x)]\n"
        "n = 40000; first = np.zeros(8)\n"
        "for _ in range(n): first[FAULTS['shared-noise'].rule((), target, draft, 2, rng)[0]] += 1\n"
        "law = calls.shared_noise(t); slots = law.counts(law.probabilities)[0]\n"
        "due = n * slots / slots.sum(); right = n * t.target[0]\n"
        "print(json.dumps([((first - e) ** 2 / e).sum() for e in (due, right)]))"
    )
    critical = chi2.isf(ALPHA, 7)
    assert found[0] < critical
    assert found[1] > critical  # the target's own law is told from it


def test_a_peer_sees_what_it_can_and_not_what_it_cannot():
    """vLLM's chi2 with its own calls sees a wrong residual; nothing sees shared streams."""
    found = run(
        "import json, numpy as np\n"
        "from instances import load_small\n"
        "from lines import call_law\n"
        "from peers import CallView, chi2_ten_sigma\n"
        "t = load_small(); rng = np.random.default_rng(3)\n"
        "laws = [call_law(t.flat(), fault) for fault in ('target-residual', None)]\n"
        "views = [CallView(law, t.target[0]) for law in laws]\n"
        "print(json.dumps([chi2_ten_sigma(view, 200_000, rng) for view in views]))"
    )
    assert found == [True, False]


def test_the_tail_read_off_the_faults_own_runs():
    """Runs of N(d^2/2, d^2): under the target the tail is that of N(-d^2/2, d^2)."""
    found = run(
        "import json, math, numpy as np\n"
        "from scipy import special\n"
        "from battery import oracle_pvalues\n"
        "d = 6.0; t = d * d / 2 + d * np.random.default_rng(5).standard_normal(20_000)\n"
        "logs = oracle_pvalues(t); due = special.log_ndtr(-(t + d * d / 2) / d)\n"
        "near = np.abs(logs - math.log(1e-6)) < 2\n"
        "print(json.dumps([int(near.sum()), float(np.abs(logs - due)[near].max())]))"
    )
    assert found[0] > 1000
    assert found[1] < 0.2  # nats: a percent of N


def test_interpolated_tails_are_the_tests_own():
    found = run(
        "import json, numpy as np, battery\n"
        "from instances import load_small\n"
        "from lines import call_law, small_law, small_setting\n"
        "from simverify.faults.catalogue import get_fault\n"
        "t = load_small(); law = call_law(t, 'target-residual'); s = small_setting(t, law)\n"
        "rows = small_law(t, get_fault('target-residual'))\n"
        "tests = [battery.ratio_candidate(s, 'x', rows, d, 1e-9) for d in (1.0, 0.1)]\n"
        "tests += battery.score_candidates(s, 1e-9)[:8]\n"
        "totals = np.round(500 * s.weights) + 1.0; worst = 0.0\n"
        "for test in tests:\n"
        "    v, p = test.values, t.target\n"
        "    mean = (p * v).sum(axis=1)\n"
        "    sd = np.sqrt(totals @ ((p * (v - mean[:, None]) ** 2).sum(axis=1)))\n"
        "    x = totals @ mean + sd * np.linspace(2.0, 8.0, 40)\n"
        "    each = [test.log_pvalue(p, totals, y) for y in x]\n"
        "    worst = max(worst, np.abs(test.log_pvalues(p, totals, x) - each).max())\n"
        "print(json.dumps(float(worst)))"
    )
    assert found < 0.1  # nats, of 14 to 19


def test_needed_samples_are_where_the_power_is():
    """Normal tests of known power: N at .9 within the interval, and the interval is narrow."""
    found = run(
        "import json, numpy as np\n"
        "from dataclasses import asdict\n"
        "from power import needed\n"
        "rng = np.random.default_rng(11); sizes = np.geomspace(50, 400, 9)\n"
        "steps = rng.standard_normal((600, 9)) * np.sqrt(np.diff(sizes, prepend=0))\n"
        "z = np.cumsum(steps + 0.4 * np.diff(sizes, prepend=0), axis=1) / np.sqrt(sizes)\n"
        "print(json.dumps(asdict(needed(sizes, z > 4.0))))"
    )
    due = ((4.0 + 1.2816) / 0.4) ** 2
    assert found["low"] < due < found["high"]
    assert found["high"] < 1.2 * found["low"]
