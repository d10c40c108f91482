"""Code under audit decodes on real models: verdicts, misuse, the document."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.false_alarms import ALPHA  # noqa: E402
from support.traces import (  # noqa: E402
    PROMPTS,
    spelled_pair,
)

from simverify.auditing.real_models import (  # noqa: E402
    LiveModels,
    audit_on_models,
)
from simverify.auditing.settings import AuditSettings  # noqa: E402
from simverify.auditing.subject import (  # noqa: E402
    Subject,
    load_subject,
)
from simverify.errors import UsageError  # noqa: E402
from simverify.models.kv_cache import CachedModel  # noqa: E402
from simverify.models.transformer import (  # noqa: E402
    BUNDLED,
    load_pair,
    read_prompts,
)
from simverify.reports.formats import html_report  # noqa: E402
from simverify.results import Probe  # noqa: E402
from simverify.results.reading import (  # noqa: E402
    document_text,
    read_document,
)
from simverify.simulators.decoding.loop import ModelError  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402
from simverify.verifiers.greedy import GreedyBlock  # noqa: E402

TOKENS = 400
HUNG = Probe(
    name="output", outcome="violation", message="did not return within 9 s", failed=True, hung=True
)


def audited(rule, contract=None, *, pair=None, tokens=TOKENS, gamma=3, detect=0.3, **settings):
    subject = load_subject(rule) if isinstance(rule, str) else Subject("mine", rule, None)
    live = LiveModels("t", "d", gamma=gamma, tokens=tokens, contract=contract)
    loaded = pair or spelled_pair(eos=(11,), noise=0.3), PROMPTS
    found = AuditSettings(**{"alpha": ALPHA, "detect": detect, "seed": 3} | settings)
    return audit_on_models(subject, live, found, loaded=loaded)


def drafted_twice(*, updated):
    """Two drafts a token, the second tried against what the first has left of the target.

    If not ``updated``, against the target itself: then drafts come too often.
    """

    def step(prefix, target, draft, gamma, rng):
        tokens = []
        for _ in range(gamma):
            p, q = target((*prefix, *tokens)), draft((*prefix, *tokens))
            drafts = [int(rng.choice(len(q), p=q)) for _ in range(2)]
            after = {x: target((*prefix, *tokens, x)) for x in drafts}  # a tree, not a path
            rest = p
            for x in drafts:
                if rng.random() * q[x] < (rest if updated else p)[x]:
                    break
                rest = np.maximum(rest - q, 0.0)
                rest /= rest.sum()
            else:
                return [*tokens, int(rng.choice(len(p), p=rest))]
            tokens.append(x)
        return [*tokens, int(rng.choice(len(p), p=after[x]))]

    return step


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("rule", "contract"),
    [
        (VERIFIERS["token"].rule, "verify"),
        (GreedyBlock, "step"),
        (drafted_twice(updated=True), "step"),
    ],
    ids=["token", "greedy", "two drafts"],
)
@pytest.mark.thorough
def test_lossless_code_passes(rule, contract):
    found = audited(rule, contract)
    assert (found.verdict, found.tier, found.contract) == ("PASS", "sampled", contract)
    assert (found.gamma, found.vocab_size, found.spec) == (3, 12, "mine")
    assert found.sampled.tests[0].n == 416  # 32 lanes of 13
    assert found.sampled.samples < 380  # drafts are kept
    assert (found.sampled.optimality is None) == (contract == "step")
    assert not any("names the lines" in note for note in found.notes)
    # Slots of a call, of which faults have laws, count only where a rule has no state.
    assert (not found.sampled.faults.refuted) == (contract == "step")


def half_drafted(prefix, target, draft, gamma, rng):
    row = 0.5 * target(prefix) + 0.5 * draft(prefix)
    return [int(rng.choice(len(row), p=row))]


@pytest.mark.parametrize(
    ("rule", "contract", "tokens"),
    [("target-residual", "verify", 1600), (half_drafted, "step", 600)],
    ids=["target residual", "half drafted"],
)
@pytest.mark.thorough
def test_lossy_code_fails(rule, contract, tokens, monkeypatch):
    monkeypatch.setattr("simverify.auditing.real_models.run_subject_probes", lambda *_: ())
    found = audited(rule, contract, tokens=tokens)
    assert found.verdict == "FAIL"
    assert any(test.rejected for test in found.sampled.tests)
    next_command = f"simverify audit {found.spec} --contract {contract}"
    assert any(next_command in note for note in found.notes)


@pytest.mark.slow
def test_a_draft_judged_by_what_is_left_no_more_fails():
    found = audited(drafted_twice(updated=False), "step", tokens=2400)
    assert found.verdict == "FAIL"
    assert any(test.rejected for test in found.sampled.tests)


def test_the_document_is_read_again_and_drawn(tmp_path):
    found = audited("token", gamma=8, detect=0.9, tokens=60)
    (tmp_path / "run.json").write_text(document_text(found))
    assert read_document(tmp_path / "run.json") == found
    assert max(map(len, str(found).splitlines())) <= 80
    assert "the decoding loop of real models, t / d" in html_report(found)
    assert any(note.startswith("E[tau] = ") for note in found.notes)


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_tokens():
    rule = drafted_twice(updated=True)
    runs = [audited(rule, "step", tokens=60, detect=0.9, seed=seed) for seed in (3, 3, 4)]
    assert runs[0].sampled == runs[1].sampled != runs[2].sampled


def test_too_few_tokens_are_inconclusive():
    found = audited("token", tokens=60)
    assert found.verdict == "INCONCLUSIVE"
    assert "not 0.3: take more --tokens" in found.inconclusive


def test_by_default_as_many_tokens_as_the_promise_needs():
    found = audited("token", tokens=None, detect=0.35)
    assert found.verdict == "PASS"
    assert 0.3 < found.sampled.detectable <= 0.35


def raising(*_):
    raise IndexError("seven")


class Broken:
    def reset(self):
        raise OSError("eight")

    def step(self, prefix, target, draft, gamma, rng):
        return [0]


def asking(prefix, target, draft, gamma, rng):
    return [int(np.argmax(target([])))]


@pytest.mark.parametrize(
    ("rule", "contract", "says"),
    [
        (lambda p, q, x, rng: [len(p[0])], "verify", "out-of-range: returned token 12"),
        (lambda p, q, x, rng: [*x[:1], 0, 0, 0, 0], "verify", "not-a-prefix: returned"),
        (raising, "verify", "raises: IndexError: seven"),
        (raising, "step", "raises: IndexError: seven"),
        (Broken, "step", "raises: OSError: eight"),
        (lambda *_: [], "step", "empty: returned no tokens"),
        (lambda *_: None, "step", "no-tokens: returned None"),
        (lambda *_: [-1], "step", "out-of-range: returned token -1"),
        (asking, "step", "raises: ValueError: prefix is empty"),
    ],
)
def test_a_broken_contract_fails(rule, contract, says, monkeypatch):
    monkeypatch.setattr("simverify.auditing.real_models.run_subject_probes", lambda *_: ())
    found = audited(rule, contract)
    assert found.verdict == "FAIL"
    assert any(says in finding.text for finding in found.sampled.findings)
    assert found.sampled.samples == 0


def test_a_call_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("simverify.auditing.real_models.run_subject_probes", lambda *_: ())
    for limit in ("CALL_HANG_SECONDS", "STEP_SECONDS"):
        monkeypatch.setattr(f"simverify.auditing.real_models.{limit}", 0.1)

    def hanging(*_):
        while True:
            pass

    for contract in ("verify", "step"):
        (finding,) = audited(hanging, contract).findings
        assert finding.kind == "contract"
        assert str(finding) == "hangs: did not return within 0.1 s"


def test_code_that_hangs_a_probe_is_not_called_further(monkeypatch):
    monkeypatch.setattr("simverify.auditing.probes.run_probes", lambda *_, **__: (HUNG,))
    monkeypatch.setattr("simverify.auditing.real_models.decode", None)
    found = audited("token")
    assert (found.verdict, found.sampled.samples) == ("FAIL", 0)
    assert found.reproduce.startswith("simverify audit token --target t --draft d --gamma 3")


def test_code_cannot_change_the_rows_it_is_judged_by():
    def changing(p, q, x, rng):
        p[:], q[:], x[:] = 0.0, 0.0, 0
        return [0]

    def step(prefix, target, draft, gamma, rng):
        target(prefix)[:] = 0.0
        return [0]

    pairs = [(changing, lambda p, q, x, rng: [0], "verify"), (step, lambda *_: [0], "step")]
    for rule, harmless, contract in pairs:
        runs = [audited(each, contract, tokens=60).sampled.tests for each in (rule, harmless)]
        assert runs[0] == runs[1]


def test_code_is_not_to_blame_for_a_short_context():
    with pytest.raises(UsageError, match="after 65 tokens, and the context holds 64"):
        audited(lambda prefix, target, *_: [int(target([1] * 65).argmax())], "step")


def test_no_code_is_to_blame_for_a_model_that_fails(monkeypatch):
    def short(self, tokens):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(CachedModel, "feed", short)
    with pytest.raises(ModelError, match="out of memory"):
        audited(GreedyBlock, "step")


def test_what_cannot_be_run_is_refused():
    refused = [
        (lambda: audited("greedy", "verify"), "greedy has the step contract"),
        (lambda: audited("token", batch=4), "takes whole batches"),
        (lambda: audited(GreedyBlock.step, "verify"), "cannot be called as verify"),
        (lambda: audited("token", gamma=65), "gamma is 65: expected 1 to 64"),
        (lambda: audited("token", tokens=0), "tokens is 0: expected 1 or more"),
        (lambda: audited("token", gamma=62), "prompt 1 has 3 tokens: the context holds 64"),
        (lambda: audited(lambda x, y: [0], "step"), "neither step"),
    ]
    for call, says in refused:
        with pytest.raises(UsageError, match=says):
            call()


@pytest.mark.slow
@pytest.mark.distribution
@pytest.mark.parametrize(
    ("rule", "verdict"), [("greedy", "PASS"), ("draft-temperature(0.8)", "FAIL")]
)
def test_rules_that_draft_on_the_bundled_pair(rule, verdict):
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", "tiny-llama"), read_prompts(BUNDLED / "prompts.jsonl")
    live = LiveModels("tiny-llama", "tiny-llama", tokens=20_000)
    settings = AuditSettings(alpha=ALPHA, detect=0.04)
    found = audit_on_models(load_subject(rule), live, settings, loaded=pair)
    assert found.verdict == verdict


def in_two_parts(target_probs, draft_probs, draft_tokens, rng):
    if len(draft_tokens) > 40:
        return [0]
    return VERIFIERS["token"].rule(target_probs, draft_probs, draft_tokens, rng)


def autoregressive(prefix, target, draft, gamma, rng):
    if len(prefix) > 10_000:
        return [0]
    row = target(prefix)
    return [int(rng.choice(len(row), p=row / row.sum()))]


@pytest.mark.parametrize(
    ("rule", "contract", "why"),
    [
        (in_two_parts, "verify", "if len(draft_tokens) > 40"),
        (autoregressive, "step", "if len(prefix) > 10_000"),
    ],
)
@pytest.mark.thorough
def test_lines_that_no_call_reached_are_named(rule, contract, why):
    run = audited(rule, contract)
    (missed,) = run.coverage.not_reached
    assert (run.verdict, missed.why.replace("10000", "10_000")) == ("PASS", why)
    assert "not reached: " in " ".join(str(run).split())
    strict = audited(rule, contract, strict_coverage=True)
    assert strict.verdict == "FAIL"
    assert strict.findings[-1].text.startswith("not reached: ")
    assert strict.reproduce.endswith(" --strict-coverage")
