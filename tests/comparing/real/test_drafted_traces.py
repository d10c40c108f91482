"""Traces of every drafter: the laws that drafts came from, replayed, and what documents say."""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.false_alarms import ALPHA  # noqa: E402
from support.levels import at_night  # noqa: E402
from support.real_models import deep_model  # noqa: E402
from support.traces import (  # noqa: E402
    PROMPTS,
    spelled_pair,
)

from simverify.auditing.real_models import audit_on_trace  # noqa: E402
from simverify.auditing.settings import AuditSettings  # noqa: E402
from simverify.auditing.subject import load_subject  # noqa: E402
from simverify.comparing.capture import capture  # noqa: E402
from simverify.comparing.real import compare_trace  # noqa: E402
from simverify.drafting.easyspec import EasySpec  # noqa: E402
from simverify.drafting.fuzzy import fuzzy_logits  # noqa: E402
from simverify.drafting.method import DraftMethod  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.trace import (  # noqa: E402
    MANIFEST_FILE,
    open_trace,
)
from simverify.models.transformer import Sampling  # noqa: E402
from simverify.reports.formats import html_report  # noqa: E402
from simverify.results import Drafter  # noqa: E402
from simverify.results.reading import (  # noqa: E402
    document_text,
    read_document,
)

pytestmark = pytest.mark.thorough

FUZZY, KEPT = DraftMethod("easyspec", 4), DraftMethod("easyspec", 4, calibration=False)
METHODS = [FUZZY, KEPT, DraftMethod("prompt-lookup"), DraftMethod("ngram")]
GAMMA = 3


def deep_pair(sampling=None):
    """The little target with a deep draft, whose layers make groups."""
    return replace(spelled_pair(sampling=sampling), draft_model=deep_model())


def recorded(folder, method, *, tokens=240, sampling=None, **options):
    pair = deep_pair(sampling)
    made = capture(
        pair, PROMPTS, folder, gamma=GAMMA, tokens=tokens, request_tokens=13, seed=7,
        method=method, **options,
    )  # fmt: skip
    return pair, made


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A trace of each drafter on rows of one kind, recorded once for right rules and wrong ones."""
    kept = {}

    def trace(method, sampling):
        if (method, sampling) not in kept:
            folder = tmp_path_factory.mktemp("traces") / "t"
            kept[method, sampling] = (
                folder,
                recorded(folder, method, tokens=1600, sampling=sampling)[1],
            )
        return kept[method, sampling]

    return trace


WHOLE, TRUNCATED = None, Sampling(0.7, 6, 0.9)


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("method", "sampling"),
    at_night(
        [(method, sampling) for method in METHODS for sampling in (WHOLE, TRUNCATED)],
        # Rows are truncated by one function, whoever drafts; two draft by a model, two from texts.
        but=[(FUZZY, WHOLE), (FUZZY, TRUNCATED), (METHODS[-1], WHOLE)],
    ),
    ids=lambda value: getattr(value, "words", "truncated" if value else "whole"),
)
def test_what_was_recorded_is_replayed(method, sampling, traces):
    folder, made = traces(method, sampling)
    rows = [block.q for block in open_trace(folder).blocks()]
    assert method.from_texts == all(np.isin(q, (0.0, 1.0)).all() for q in rows)
    run = compare_trace(folder, ("token", "block"), detect=0.25, alpha=ALPHA)
    assert [row.verdict for row in run.results] == ["PASS", "PASS"]
    settings = AuditSettings(alpha=ALPHA, detect=0.25)
    found = audit_on_trace(load_subject("block"), folder, settings)
    assert found.verdict == "PASS"
    assert made.name == method.on(deep_pair())


@pytest.mark.distribution
@pytest.mark.parametrize(
    "method", at_night(METHODS, but=(FUZZY, METHODS[-1])), ids=lambda method: method.words
)
def test_a_lossy_rule_fails_on_them(method, traces):
    folder, _ = traces(method, WHOLE)
    settings = AuditSettings(alpha=ALPHA, detect=0.25)
    found = audit_on_trace(load_subject("target-residual"), folder, settings)
    assert found.verdict == "FAIL"


@pytest.mark.parametrize("method", [FUZZY, KEPT], ids=lambda method: method.words)
def test_the_rows_of_easyspec_are_those_of_one_driven_by_hand(method, tmp_path):
    """Lane by lane alone: first rows exact after calibration, the others fuzzy all along."""
    pair, made = recorded(tmp_path / "t", method, tokens=120)
    lanes = made.decoding.lanes
    drafters, texts, wanted = {}, {}, {}
    begun = list(range(lanes))
    looked = fuzzy = 0
    for block in open_trace(tmp_path / "t").blocks():
        r = block.lane
        if r not in drafters:
            text = pair.encode(PROMPTS[begun[r] % len(PROMPTS)])
            begun[r] += lanes
            drafters[r] = EasySpec(pair.draft_model, 1, 4, calibration=method.calibration)
            drafters[r].read(0, text[:-1])
            texts[r], wanted[r] = text, 0
        tokens = texts[r]
        logits = [drafters[r].begin([tokens[-1:]])]
        logits += [drafters[r].extend([token]) for token in block.drafts]
        rows = pair.sampling.rows(np.concatenate(logits))
        np.testing.assert_allclose(block.q, rows, atol=1e-5)
        exact = pair.sampling.rows(_exact(pair, [*tokens, *block.drafts])[-GAMMA - 1 :])
        if method.calibration:
            np.testing.assert_allclose(block.q[0], exact[0], atol=1e-5)
        looked += 1
        fuzzy += np.abs(block.q[1:-1] - exact[1:-1]).max() > 1e-4
        # All but the last token of a call were drafts; one that was cut ends its request.
        drafters[r].accept([range(len(block.emitted) - 1)])
        tokens += block.emitted
        wanted[r] += len(block.emitted)
        if wanted[r] == 13:
            del drafters[r]
    assert looked > 30
    assert fuzzy > looked / 2


def _exact(pair, tokens):
    with torch.no_grad():
        return pair.draft_model(torch.tensor([tokens])).logits[0].numpy()


def test_without_calibration_a_one_token_prompt_is_drafted_by_one_fuzzy_pass(tmp_path):
    pair, _ = recorded(tmp_path / "t", KEPT, tokens=16)
    blocks = [block for block in open_trace(tmp_path / "t").blocks() if block.lane == 1]
    tokens = [*pair.encode(PROMPTS[1]), *blocks[0].drafts]
    rows = pair.sampling.rows(fuzzy_logits(pair.draft_model, [tokens], 4)[0].numpy())
    np.testing.assert_allclose(blocks[0].q, rows, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "draft", "drafter", "shown"),
    [
        (DraftMethod(), "d", None, "t / d"),
        (FUZZY, "d", Drafter(name="easyspec", layer_parallel=4, calibration=True),
         "easyspec, 4 layers a group, with calibration"),
        (KEPT, "d", Drafter(name="easyspec", layer_parallel=4, calibration=False),
         "easyspec, 4 layers a group, without calibration"),
        (DraftMethod("ngram"), None, Drafter(name="ngram", layer_parallel=None, calibration=None),
         "none: texts alone"),
    ],
    ids=["plain", "easyspec", "no calibration", "ngram"],
)  # fmt: skip
def test_documents_say_how_drafts_were_made(method, draft, drafter, shown, tmp_path):
    pair, made = recorded(tmp_path / "t", method, statistics=True, tokens=64)
    assert (made.name, made.decoding.draft, made.decoding.drafter) == (
        method.on(pair), draft, drafter
    )  # fmt: skip
    run = compare_trace(tmp_path / "t", detect=0.9)
    assert run.decoding.drafter == run.models[0].drafter == drafter
    assert run.models[0].name == made.name
    (tmp_path / "run.json").write_text(document_text(run))
    assert read_document(tmp_path / "run.json") == run
    assert shown in html_report(run)
    for change in ({"trace": None}, {"drafter": None}):
        other = msgspec.structs.replace(run.decoding, **change)
        (tmp_path / "run.json").write_text(
            document_text(msgspec.structs.replace(run, decoding=other))
        )
        with nullcontext() if drafter is None else pytest.raises(UsageError, match="drafter"):
            read_document(tmp_path / "run.json")


def test_older_traces_and_run_files_are_read(tmp_path):
    """They were written, and hashed, before there was a field for the drafter."""
    recorded(tmp_path / "t", DraftMethod(), statistics=True, tokens=64)
    plain = json.loads((tmp_path / "t" / MANIFEST_FILE).read_text())
    del plain["decoding"]["drafter"]
    bare = msgspec.json.encode(plain | {"sha256": ""})
    assert plain["sha256"] == hashlib.sha256(bare).hexdigest()
    (tmp_path / "t" / MANIFEST_FILE).write_text(json.dumps(plain))
    assert open_trace(tmp_path / "t").manifest.decoding.drafter is None
    run = compare_trace(tmp_path / "t", detect=0.9)
    saved = json.loads(document_text(run))
    del saved["decoding"]["drafter"], saved["models"][0]["drafter"]
    (tmp_path / "run.json").write_text(json.dumps(saved))
    assert read_document(tmp_path / "run.json") == run


def test_a_drafter_that_was_changed_afterwards_is_noticed(tmp_path):
    recorded(tmp_path / "t", FUZZY, statistics=True, tokens=64)
    path = tmp_path / "t" / MANIFEST_FILE
    path.write_text(path.read_text().replace('"calibration": true', '"calibration": false'))
    with pytest.raises(UsageError, match="does not match its own sha256"):
        open_trace(tmp_path / "t")
