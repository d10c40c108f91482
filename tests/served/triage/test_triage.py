"""Greedy engines with a planted fault of each class are told rightly, and right ones not at all."""

import msgspec
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.greedy_engines import (  # noqa: E402
    FAULTS,
    PROMPTS,
    decoded,
    line,
    loaded,
    right,
)
from support.kept_choices import keep_choices  # noqa: E402

from simverify.errors import UsageError  # noqa: E402
from simverify.models.distribution import RowContext  # noqa: E402
from simverify.reports.formats import (  # noqa: E402
    html_report,
    junit_report,
    markdown_report,
)
from simverify.results.reading import (  # noqa: E402
    document_text,
    read_document,
)
from simverify.served.requests import declared_law  # noqa: E402
from simverify.served.triage import (  # noqa: E402
    TriageSource,
    triage,
)
from simverify.served.triage_explanations import (  # noqa: E402
    _parse_answer,
    match_answers,
    shared_prefix_length,
    wrong_contexts,
)


@pytest.fixture(scope="module", autouse=True)
def choices_once():
    """What the target chooses after a text is computed for the first triage that asks.

    Each computes it in batches of its own in ``test_asked_servers.py`` and ``test_servers.py``.
    """
    with pytest.MonkeyPatch.context() as patch:
        keep_choices(patch)
        yield


@pytest.fixture(scope="module")
def fine():
    torch.set_num_threads(1)
    return loaded()


@pytest.fixture(scope="module")
def coarse(fine):
    return loaded("bfloat16")


@pytest.fixture(scope="module")
def plain(fine):
    return decoded(fine)


def read(lines, pair):
    return [_parse_answer(value, "log", n, pair) for n, value in enumerate(lines, 1)]


def told(a, b, pair, other=None, *, declared=True, **how):
    source = TriageSource("a.jsonl", "b.jsonl", "simverify triage", declared, lambda: other)
    return triage(match_answers(read(a, pair), read(b, pair)), pair, source, **how)


def counts(run):
    return {one.kind: one.requests for one in run.counts if one.requests}


def test_two_right_logs_are_the_same(plain, fine):
    run = told(plain, plain, fine)
    assert (run.verdict, counts(run), run.cases) == ("PASS", {"same": 12}, ())
    assert 0.0 < run.radius < 1e-4  # of float32, and nothing wider
    assert run.certificate.bound == pytest.approx(1 - 1e-3 ** (1 / 12))


AT_NIGHT = (
    "third choice",
    "another request's row",
    "row after",
    "a window",
    "a rejected draft in the cache",
    "positions one back",
)


NEARLY = {"positions that rejected drafts keep": "the last token stands 2 positions too far on"}
"""Faults that are none of the explanations but like one: of twelve requests chance cannot be ruled
out, and no cause is named as found."""


@pytest.mark.parametrize("name", NEARLY)
@pytest.mark.slow
def test_what_an_explanation_fits_in_part_is_unclear_and_says_which(name, plain, fine):
    """Positions go on by how many drafts were rejected, which is two of them in most places."""
    run = told(plain, decoded(fine, **FAULTS[name][0]), fine, proxy=True)
    assert run.verdict == "FAIL"
    assert set(counts(run)) == {"same", "unclear"}
    assert [note for note in run.notes if note.startswith(f"unclear: {NEARLY[name]}")]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow) if n in AT_NIGHT else n
        for n in FAULTS
        if n not in NEARLY
    ],
)
@pytest.mark.thorough(by_day=1)
def test_a_planted_fault_is_told_by_its_class(name, plain, fine):
    how, kind = FAULTS[name]
    run = told(plain, decoded(fine, **how), fine, proxy="draft" in name)
    assert run.verdict == "FAIL"
    found = counts(run)
    assert max((n, k) for k, n in found.items() if k != "same")[1] == kind
    assert {case.side for case in run.cases if case.fault} == {"b"}
    assert "numerics" not in found
    worst = run.cases[0]
    assert (worst.fault, worst.gap > 100 * run.radius) == (True, True)
    if kind != "verifier":
        best = next(cause for cause in run.causes if cause.taken)
        assert best.chance <= 0.01
        assert "positions" not in name or "position" in best.name


@pytest.mark.slow
def test_a_cache_that_is_a_token_short_is_told_where_prompts_begin_alike(fine):
    """The last of the tokens that a prompt shares with an earlier one is lost."""
    own = [fine.encode(text)[-16:] for text in PROMPTS]
    prompts = [(*own[0][:8], *text) for text in own for _ in range(2)]

    def read(lanes, i, _pair):
        short = shared_prefix_length(lanes[i].prompt, (lane.prompt for lane in lanes[:i]))
        return lanes[i].text if not i else (*lanes[i].text[: short - 1], *lanes[i].text[short:])

    plain = decoded(fine, prompts=prompts)
    run = told(plain, decoded(fine, prompts=prompts, read=read), fine)
    assert run.verdict == "FAIL"
    assert max((n, k) for k, n in counts(run).items() if k != "same")[1] == "cache or rows"
    best = next(cause for cause in run.causes if cause.taken)
    assert "the last token of a beginning that an earlier request has is missing" in best.name


def test_how_much_of_a_prompt_an_earlier_text_has():
    assert shared_prefix_length((1, 2, 3), [(1, 2, 4), (2,)]) == 2
    assert shared_prefix_length((1, 2, 3), [(1, 2, 3, 4)]) == 2  # the last is read again
    assert shared_prefix_length((1, 2, 3), []) == shared_prefix_length((1,), [(1,)]) == 0


def test_a_beginning_of_another_request_is_tried_a_token_short_and_long(fine):
    made = {own.name: own.tokens for own in wrong_contexts((5, 6, 7, 8), (9,), 1, 3, None, fine, 2)}
    last = "the last token of a beginning that an earlier request has"
    assert made[f"{last} is missing"] == (5, 7, 8, 9)
    assert made[f"{last} is doubled"] == (5, 6, 6, 7, 8, 9)
    after = "the first token after a beginning that an earlier request has is missing"
    assert made[after] == (5, 6, 8, 9)
    alone = {own.name for own in wrong_contexts((5, 6, 7, 8), (9,), 1, 3, None, fine)}
    assert not any("an earlier request" in name for name in alone)


@pytest.mark.thorough
def test_an_engine_in_bfloat16_is_numerics_and_undeclared_it_is_open(plain, fine, coarse):
    other = decoded(coarse)
    assert other != plain
    run = told(plain, other, coarse, fine)
    assert run.verdict == "PASS"
    assert set(counts(run)) == {"same", "numerics"}
    open_ = told(plain, other, fine, coarse, declared=False)
    assert open_.verdict == "INCONCLUSIVE"
    assert set(counts(open_)) == {"same", "precision"}
    assert "--dtype bfloat16" in open_.inconclusive
    # Declared float32, nothing excuses it.
    assert told(plain, other, fine).verdict == "FAIL"


@pytest.mark.slow
def test_a_fault_is_not_excused_by_bfloat16(plain, fine, coarse):
    how, kind = FAULTS["row before"]
    run = told(plain, decoded(coarse, **how), coarse, fine)
    assert run.verdict == "FAIL"
    assert counts(run)[kind] >= 8


def test_prompts_that_differ_are_a_template(plain, fine):
    start = fine.tokenizer.bos_token_id
    other = decoded(fine, prompts=[[start, *own["prompt"]] for own in plain])
    run = told(plain, other, fine)
    assert run.verdict == "FAIL"
    assert set(counts(run)) == {"same", "template"}
    assert "the prompts differ: 24 and 25 tokens" in run.cases[0].cause


def test_who_ends_early_is_told(plain, fine):
    whole = next(own for own in plain if own["finish_reason"] == "length")
    cut = whole | {"tokens": whole["tokens"][:9]}
    limit = told([whole], [cut], fine)
    assert (limit.verdict, counts(limit)) == ("PASS", {"early stop": 1})
    assert "cut at a limit of 9 tokens" in limit.cases[0].cause
    unsaid = told([whole], [cut | {"finish_reason": None}], fine)
    assert unsaid.verdict == "INCONCLUSIVE"
    assert "log its finish_reason" in unsaid.cases[0].cause
    string = told([whole], [cut | {"finish_reason": "stop", "stop_reason": "\n"}], fine)
    assert (string.verdict, counts(string)) == ("FAIL", {"early stop": 1})
    assert "stop string" in string.cases[0].cause
    stopped = told([whole], [cut | {"finish_reason": "stop"}], fine)
    assert (stopped.verdict, counts(stopped)) == ("FAIL", {"early stop": 1})
    assert "says that it stopped where the target goes on" in stopped.cases[0].cause


@pytest.mark.thorough
def test_what_both_emit_against_the_target_is_no_difference(plain, fine):
    how, _ = FAULTS["row before"]
    wrong = decoded(fine, **how)
    run = told(wrong, wrong, fine)
    assert run.verdict == "INCONCLUSIVE"
    assert "is --target the model of both" in run.inconclusive
    assert {case.side for case in run.cases} == {"both"}


def test_text_alone_never_fails(plain, fine):
    texts = [{"prompt": own["prompt"], "text": "zq zq zq"} for own in plain[:2]]
    run = told(plain[:2], texts, fine)
    assert run.verdict == "INCONCLUSIVE"
    assert "log token ids" in run.inconclusive


def test_calls_say_where_in_a_call_the_token_is(plain, fine):
    wrong = next(own for own in plain if len(own["tokens"]) == 20)
    other = wrong | {"tokens": [*wrong["tokens"][:7], 1, *wrong["tokens"][8:]], "calls": [5, 3, 12]}
    run = told([wrong], [other], fine)
    assert run.cases[0].slot == (2, 3)
    assert "1 of 1 off tokens are the last of their call" in " ".join(run.notes)
    with pytest.raises(UsageError, match=r"calls is .*20 in all"):
        told([wrong], [wrong | {"calls": [3]}], fine)


@pytest.mark.thorough
def test_a_document_is_read_again_and_reported(tmp_path, plain, fine):
    run = told(plain, decoded(fine, **FAULTS["row before"][0]), fine)
    path = tmp_path / "run.json"
    run.save(path)
    assert document_text(read_document(path)) == document_text(run)
    assert max(map(len, str(run).splitlines()[:-1])) <= 80
    assert "cache or rows" in markdown_report(run)
    assert "The worst case" in html_report(run)
    assert "<failure" in junit_report(run)
    text = document_text(run).replace('"verdict": "FAIL"', '"verdict": "PASS"')
    path.write_text(text)
    with pytest.raises(UsageError, match="verdict is PASS: expected FAIL"):
        read_document(path)
    assert msgspec.json.decode(text)["command"] == "triage"


def test_requests_meet_by_id_or_by_prompt(plain, fine):
    named = [own | {"id": n} for n, own in enumerate(plain)]
    shuffled = read(named[::-1], fine)
    both = match_answers(read(named, fine), shuffled[:-1])
    assert len(both.pairs) == 11
    assert all(a.name == b.name for a, b in both.pairs)
    assert (both.alone_a, both.alone_b) == (1, 0)
    # A line is missing: the others keep their own.
    both = match_answers(read(plain, fine), read(plain[:3] + plain[4:], fine))
    assert all(a.request.prompt == b.request.prompt for a, b in both.pairs)
    assert (len(both.pairs), both.alone_a) == (11, 1)


@pytest.mark.thorough
def test_a_stop_string_of_both_parts_nobody(plain, fine):
    whole = [own for own in plain if own["finish_reason"] == "length"]
    cut = [own | {"tokens": own["tokens"][:9], "finish_reason": "stop"} for own in whole]
    run = told(cut, cut, fine)
    assert (run.verdict, counts(run)) == ("PASS", {"same": len(whole)})
    # One that stops elsewhere does part them, and what is off before the end is off.
    assert (
        told(cut, [cut[0] | {"tokens": whole[0]["tokens"][:7]}, *cut[1:]], fine).verdict == "FAIL"
    )
    wrong = [own | {"tokens": [1, *own["tokens"][1:9]]} for own in cut]
    assert told(cut, wrong, fine).verdict == "FAIL"
    assert told(wrong, wrong, fine).verdict == "INCONCLUSIVE"


def test_what_is_no_greedy_log_is_one_line(plain, fine):
    with pytest.raises(UsageError, match=r"temperature 0\.8: triage is for greedy"):
        read([plain[0] | {"temperature": 0.8}], fine)
    assert read([plain[0] | {"asked": {"temperature": 0, "top_p": 0.9, "top_k": 5}}], fine)
    with pytest.raises(UsageError, match="no request is in both logs"):
        told([line(fine, [5], [6]) | {"id": 1}], [line(fine, [5], [6]) | {"id": 2}], fine)
    penalised = plain[0] | {"asked": {"temperature": 0, "repetition_penalty": 1.1}}
    with pytest.raises(UsageError, match="line 1 of A and line 1 of B were asked with other"):
        told([plain[0]], [penalised], fine)
    cut = {"asked": {"temperature": 0.0, "top_k": 5}}
    assert told([plain[0]], [plain[0] | cut], fine).verdict == "PASS"


ASKED = (
    {"temperature": 0, "repetition_penalty": 1.3},
    {"temperature": 0, "presence_penalty": 1.0, "frequency_penalty": 1.0},
    {"temperature": 0, "logit_bias": {"310": 4.0, "8": -5.0}, "top_p": 0.5},
    {"temperature": 0, "frequency_penalty": 2.0, "bad_words": [[10]]},
    {"temperature": 0, "frequency_penalty": 1.5, "allowed_token_ids": [*range(0, 1024, 2)]},
    {"temperature": 0},
)
"""What the requests of one log ask for, in turn."""

COUNTED = {
    "right": lambda prompt, out: (prompt, out),
    "no output": lambda prompt, out: (prompt, ()),
    "blocks of four": lambda prompt, out: (prompt, out[: len(out) // 4 * 4]),
    "the prompt, too": lambda prompt, out: ((), (*prompt, *out)),
}
"""What an engine's penalties count."""


def penalised(pair, counted, read=right, asked=ASKED):
    """Lines of requests with parameters of their own, as ``decoded`` makes them."""
    laws = [declared_law(said, "", pair) for said in asked]

    def choose(i, row, lanes, pair):
        own = lanes[i]
        prompt, out = counted(own.prompt, tuple(own.tokens))
        law = laws[i % len(laws)]
        return int(law.scores(row[None], RowContext(tuple(prompt), out, len(out)))[0].argmax())

    lines = decoded(pair, choose=choose, read=read)
    return [own | {"asked": asked[i % len(asked)]} for i, own in enumerate(lines)]


@pytest.fixture(scope="module")
def by_their_own(fine):
    return penalised(fine, COUNTED["right"])


def test_penalties_biases_and_bans_of_each_request_are_applied(by_their_own, fine):
    run = told(by_their_own, by_their_own, fine)
    assert (run.verdict, counts(run), run.agreed_off) == ("PASS", {"same": 12}, 0)
    assert 0.0 < run.radius < 1e-4


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("no output", "penalties, biases and bans are left out"),
        ("blocks of four", "penalties do not count the last tokens"),
        ("the prompt, too", "penalties count the prompt, too"),
    ],
)
@pytest.mark.thorough(by_day=1)
def test_penalties_that_count_other_tokens_are_named(name, cause, fine):
    """All requests ask for one penalty, which is strong enough to move many choices."""
    asked = ({"temperature": 0, "frequency_penalty": 3.0 if name == "blocks of four" else 1.5},)
    right_ = penalised(fine, COUNTED["right"], asked=asked)
    run = told(right_, penalised(fine, COUNTED[name], asked=asked), fine)
    assert run.verdict == "FAIL"
    assert {case.side for case in run.cases if case.fault} == {"b"}
    best = next(own for own in run.causes if own.taken)
    assert (best.kind, cause in best.name) == ("verifier", True)


@pytest.mark.slow
def test_a_cache_fault_under_penalties_is_no_penalty(by_their_own, fine):
    run = told(
        by_their_own, penalised(fine, COUNTED["right"], FAULTS["row before"][0]["read"]), fine
    )
    assert run.verdict == "FAIL"
    best = next(own for own in run.causes if own.taken)
    assert (best.kind, best.name) == ("cache or rows", "the row before")


def test_what_bans_everything_is_one_line(plain, fine):
    asked = {"temperature": 0, "allowed_token_ids": [10], "bad_words": [[10]]}
    with pytest.raises(UsageError, match="asked to ban every token"):
        told([plain[0] | {"asked": asked}], [plain[0] | {"asked": asked}], fine)
