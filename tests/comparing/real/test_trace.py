"""Verifiers on a recorded trace: verdicts of built-in rules, of code under audit, and limits."""

import shutil

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.false_alarms import ALPHA  # noqa: E402
from support.traces import (  # noqa: E402
    record,
    rewrite,
)

from simverify.auditing.real_models import audit_on_trace  # noqa: E402
from simverify.auditing.settings import AuditSettings  # noqa: E402
from simverify.auditing.subject import (  # noqa: E402
    Subject,
    load_subject,
)
from simverify.comparing.capture import capture  # noqa: E402
from simverify.comparing.real import compare_trace  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.trace import open_trace  # noqa: E402
from simverify.models.transformer import (  # noqa: E402
    BUNDLED,
    load_pair,
    read_prompts,
)
from simverify.reports.formats import html_report  # noqa: E402
from simverify.results.reading import (  # noqa: E402
    document_text,
    read_document,
)
from simverify.simulators.decoding.loop import Block  # noqa: E402
from simverify.simulators.decoding.replayed import TraceReplay  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.thorough

SETTINGS = AuditSettings(alpha=ALPHA, detect=0.12)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """A trace of the bundled pair."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("traces") / "bundled"
    prompts = read_prompts(BUNDLED / "prompts.jsonl")
    capture(load_pair("tiny-llama", "tiny-llama"), prompts, folder, gamma=4, tokens=2400)
    return folder


@pytest.fixture(scope="module")
def little(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces") / "little"
    record(folder, tokens=3000)
    return folder


@pytest.fixture(scope="module")
def compared(bundled):
    return compare_trace(bundled, alpha=ALPHA, detect=0.2)


@pytest.mark.distribution
def test_lossless_rules_pass(compared):
    assert [row.verifier for row in compared.results] == ["token", "block", "match"]
    assert {row.lossless.verdict for row in compared.results} == {"PASS"}
    assert {row.acceptance.verdict for row in compared.results} == {"PASS"}
    assert compared.models[0].bounds.blocks_of == "trace"


def test_rules_are_paired_on_the_same_blocks(compared, bundled):
    token, block, match = compared.results
    blocks = open_trace(bundled).manifest.blocks
    assert {row.measured.blocks for row in compared.results} == {blocks}
    assert block.paired.blocks == blocks
    assert block.paired.ci_low > 0.0 > match.paired.ci_high
    gain = block.expected_accepted.lower + block.expected_accepted.upper
    gain -= token.expected_accepted.lower + token.expected_accepted.upper
    assert block.paired.difference == pytest.approx(gain / 2)


def argmax(arrays):
    arrays["drafts"] = arrays["draft"][:, :-1].argmax(axis=2)


@pytest.mark.distribution
def test_drafts_that_do_not_follow_their_rows_are_refused(bundled, tmp_path):
    folder = tmp_path / "t"
    shutil.copytree(bundled, folder)
    rewrite(folder, argmax)
    with pytest.raises(UsageError, match="drafts do not follow the draft's rows"):
        compare_trace(folder, ["token"], detect=0.5)
    with pytest.raises(UsageError, match="drafts do not follow the draft's rows"):
        audit_on_trace(load_subject("token"), folder, SETTINGS)


def test_the_document_is_read_again_and_drawn(compared, bundled, tmp_path):
    (tmp_path / "run.json").write_text(document_text(compared))
    assert read_document(tmp_path / "run.json") == compared
    assert compared.decoding.trace_sha256 == open_trace(bundled).manifest.sha256
    assert f"--trace {bundled}" in html_report(compared)


def test_the_same_seed_gives_the_same_results(little):
    runs = [compare_trace(little, ["block"], detect=0.5, seed=seed) for seed in (3, 3, 4)]
    texts = [document_text(msgspec.structs.replace(run, meta=runs[0].meta)) for run in runs]
    assert texts[0] == texts[1] != texts[2]


def test_statistics_give_what_rows_give(little, tmp_path):
    record(tmp_path / "s", tokens=3000, statistics=True)
    whole, sums = (compare_trace(folder, detect=0.5) for folder in (little, tmp_path / "s"))
    assert sums.results == whole.results
    # The bytes of rows grow with the vocabulary; these do not.
    assert sum(path.stat().st_size for path in (tmp_path / "s").iterdir()) < 6_000_000


def verdict(folder, rule, **fields):
    settings = AuditSettings(**{"alpha": ALPHA, "detect": 0.12} | fields)
    subject = load_subject(rule) if isinstance(rule, str) else Subject("mine", rule, None)
    return audit_on_trace(subject, folder, settings)


@pytest.mark.distribution
@pytest.mark.parametrize("name", ["token", "block", "match"])
def test_code_that_is_lossless_passes(bundled, name):
    found = verdict(bundled, name, detect=0.3)
    assert (found.verdict, found.tier) == ("PASS", "sampled")
    assert found.sampled.certificate.assumption is not None
    assert found.coverage.lines_reached == found.coverage.lines > 0


@pytest.mark.parametrize("name", ["target-residual", "lenient(0.7)", "inverted-ratio"])
def test_lossy_code_fails(bundled, name):
    found = verdict(bundled, name)
    assert found.verdict == "FAIL"
    assert found.sampled.findings
    assert f"simverify audit '{name}'" in found.reproduce or f"audit {name}" in found.reproduce


def test_an_audit_is_read_again_and_drawn(bundled, tmp_path):
    for name in ("token", "target-residual"):
        found = verdict(bundled, name)
        (tmp_path / "run.json").write_text(document_text(found))
        assert read_document(tmp_path / "run.json") == found
        lines = str(found).splitlines()
        assert max(map(len, lines)) <= 80 or str(bundled) in "".join(lines)
        assert "recorded rows" in html_report(found)


def test_too_few_tokens_are_inconclusive(little):
    found = verdict(little, "token", detect=0.01)
    assert found.verdict == "INCONCLUSIVE"
    assert "not 0.01: record more" in found.inconclusive


def out_of_range(p, q, x, rng):
    return [len(p[0])]


def no_prefix(p, q, x, rng):
    return [(x[0] + 1) % len(p[0]), 0]


def raising(p, q, x, rng):
    raise IndexError("seven")


def changing(p, q, x, rng):
    p[:], q[:] = 0.0, 0.0
    x[:] = 0
    return [0]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (out_of_range, "out-of-range: returned token 12"),
        (no_prefix, "not-a-prefix: returned"),
        (raising, "raises: IndexError: seven"),
    ],
)
def test_a_broken_contract_fails(little, rule, says):
    found = verdict(little, rule)
    assert found.verdict == "FAIL"
    assert any(says in finding.text for finding in found.sampled.findings)
    assert found.sampled.samples == 0


def test_code_cannot_change_the_recorded_rows(little):
    broken, whole = verdict(little, changing), verdict(little, lambda p, q, x, rng: [0])
    assert broken.sampled.tests == whole.sampled.tests


def test_what_a_trace_cannot_say_is_refused(little, tmp_path):
    record(tmp_path / "s", statistics=True)
    refused = [
        (lambda: compare_trace(little, ["greedy"]), "'greedy' carries state"),
        (lambda: compare_trace(little, ["temperature-0"]), "has no expected acceptance"),
        (lambda: compare_trace(little, gamma=4), "gamma is 4: .* drafted with gamma 3"),
        (lambda: compare_trace(tmp_path / "s", seed=8), "were made with seed 7"),
        (lambda: replayed([1], blocks=1), "holds 1 blocks: too few to be judged"),
        (lambda: verdict(tmp_path / "s", "token"), "code under audit needs rows"),
        (lambda: verdict(little, "greedy"), "has the step contract"),
        (lambda: verdict(little, "token", batch=4), "replayed block by block"),
    ]
    for call, says in refused:
        with pytest.raises(UsageError, match=says):
            call()


def test_statistics_that_lack_an_array_are_refused(tmp_path):
    record(tmp_path / "s", statistics=True)
    rewrite(tmp_path / "s", lambda arrays: arrays.pop("block.features.pits"))
    with pytest.raises(UsageError, match=r"statistics of block: there is no array 'features.pits'"):
        compare_trace(tmp_path / "s")


P = np.array([[0.25, 0.75]] * 3)


def replayed(emits, blocks=80, recorded=2):
    """Tokens a call judged, and samples that stood for missing ones."""
    calls = iter(emits)
    judged, completed = [], []
    run = TraceReplay(
        lambda block, rng: [0] * next(calls), lambda block: judged.append(len(block.emitted)),
        lambda block: completed.append(block.emitted), lanes=1, tokens=blocks * recorded, seed=1,
    )  # fmt: skip
    for _ in range(blocks):
        run(Block(0, 0, False, P, P, (0, 0), 0, (0,) * recorded))
    return run.finish(), judged, completed


def test_the_pilot_fixes_the_number_of_judged_tokens():
    planned, judged, completed = replayed([3] * 10 + [3] * 70)
    assert (planned, sum(judged[:10]), sum(judged), completed) == (199, 0, 199, [])
    # What comes later changes nothing about the number.
    fewer, judged, completed = replayed([3] * 10 + [1] * 70)
    assert (fewer, sum(judged), len(completed)) == (199, 70, 129)


def test_missing_tokens_are_the_targets_samples():
    _, _, completed = replayed([3] * 200 + [1] * 1400, blocks=1600)
    share = np.mean([token for (token,) in completed])
    assert share == pytest.approx(0.75, abs=6 * np.sqrt(0.1875 / len(completed)))


def test_no_rule_changes_what_another_emits(little):
    alone = compare_trace(little, ["block"], detect=0.5).results[0]
    beside = compare_trace(little, ["token", "block"], detect=0.5).results[1]
    assert alone.measured == beside.measured
    assert VERIFIERS["block"].name == beside.verifier
