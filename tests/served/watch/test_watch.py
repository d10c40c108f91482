"""Watches of logs and of servers: alarms, none where nothing is wrong, and what goes on after."""

import itertools
import json
import urllib.request

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from support.emitted_tokens import (  # noqa: E402
    Reply,
    emitted,
    serving,
    write_lines,
)

from simverify.cli import run as command_line  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.faults import FAULTS  # noqa: E402
from simverify.models.transformer import (  # noqa: E402
    Sampling,
    load_pair,
)
from simverify.reports.formats import (  # noqa: E402
    html_report,
    markdown_report,
)
from simverify.results.reading import (  # noqa: E402
    document_text,
    read_document,
)
from simverify.served.monitor import (  # noqa: E402
    WatchSettings,
    WatchState,
)
from simverify.served.server import Endpoint  # noqa: E402
from simverify.served.watch import (  # noqa: E402
    PromptClient,
    Watch,
    WatchSubject,
    parse_address,
    serve_metrics,
    state_key,
)

pytestmark = pytest.mark.usefixtures("shallow_target")

N, LANES = 1500, 24


@pytest.fixture(scope="module")
def wrong(pair):
    return emitted(pair, FAULTS["typical-acceptance"].rule, N, lanes=LANES, length=32)


def watched(log, folder, pair, *, said=None, asker=None, settings=None, sleep=None, **how):
    settings = settings or WatchSettings(alpha=1e-9, detect=0.3)
    what = WatchSubject(str(log), log, folder, "simverify watch", asker, **{"once": True} | how)
    said = [] if said is None else said
    with WatchState(folder, state_key(pair, settings, str(log), False), settings, False) as state:
        watch = Watch(
            what, pair, settings, state, proxy=False, say=said.append,
            sleep=sleep or (lambda _: None),
        )  # fmt: skip
        return watch.run()


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_right_log_raises_no_alarm_and_a_wrong_one_does(tmp_path, pair, right, wrong):
    run = watched(write_lines(tmp_path / "right.jsonl", right), tmp_path / "r", pair)
    assert (run.verdict, run.alarm, run.findings) == ("PASS", None, ())
    assert run.tokens == sum(len(own["tokens"]) for own in right)
    said = []
    log = write_lines(tmp_path / "drifts.jsonl", right[:20] + wrong)
    run = watched(log, tmp_path / "w", pair, said=said, settings=WatchSettings(alpha=1e-4))
    assert run.verdict == "FAIL"
    assert run.alarm_at > sum(len(own["tokens"]) for own in right[:20])
    assert [line for line in said if line.startswith("ALARM at token")]
    assert "most in the order descending P" in run.alarm
    # The alarm stays: another look says it again, and judges nothing anew.
    assert watched(log, tmp_path / "w", pair, settings=WatchSettings(alpha=1e-4)).alarm == run.alarm


@pytest.mark.thorough
def test_a_watch_that_goes_on_counts_each_token_once(tmp_path, pair, right):
    whole = watched(write_lines(tmp_path / "whole.jsonl", right), tmp_path / "one", pair)
    log = tmp_path / "log.jsonl"
    text = "".join(json.dumps(own) + "\n" for own in right)
    cuts = [0, len(text) // 3, len(text) // 2, len(text)]
    for start, end in itertools.pairwise(cuts):  # half lines stand at its end
        with log.open("a") as file:
            file.write(text[start:end])
        parts = watched(log, tmp_path / "parts", pair)
    assert (parts.tokens, parts.requests) == (whole.tokens, whole.requests)
    assert parts.log_evalue == pytest.approx(whole.log_evalue, abs=1e-3)  # batches round otherwise
    assert parts.highest_at == whole.highest_at


@pytest.mark.thorough
def test_lines_that_cannot_be_judged_are_counted_and_said(tmp_path, pair, right):
    log, said = tmp_path / "log.jsonl", []
    bad = ["no json", "[1]", '{"prompt": "a"}', '{"prompt": "a", "tokens": [99999]}',
           '{"prompt": "a", "text": "b"}', '{"prompt": "a", "unanswered": "late"}']  # fmt: skip
    lines = [json.dumps(right[0]), *bad, "", json.dumps(right[1]), *["{"] * 6]
    log.write_text("\n".join(lines) + "\n")
    run = watched(log, tmp_path / "s", pair, said=said)
    assert (run.requests, run.unread, run.text_alone) == (2, 12, 1)
    told = [line for line in said if line.startswith("not judged")]
    assert len(told) == 4  # three, and the tenth
    assert "10 lines so far" in told[-1]
    assert "12 lines could not be judged" in run.notes[0]
    assert (run.verdict, "tokens are there" in run.inconclusive) == ("INCONCLUSIVE", True)


def test_a_token_that_is_cut_off_is_an_alarm_at_once(tmp_path, right):
    greedy = load_pair("tiny-llama", "tiny-llama", sampling=Sampling(0.0))
    run = watched(write_lines(tmp_path / "log.jsonl", right[:3]), tmp_path / "s", greedy)
    assert run.verdict == "FAIL"
    assert "is cut off" in run.alarm


def test_a_document_is_read_again_and_reported(tmp_path, pair, right):
    run = watched(write_lines(tmp_path / "log.jsonl", right[:4]), tmp_path / "s", pair)
    path = tmp_path / "run.json"
    run.save(path)
    assert document_text(read_document(path)) == document_text(run)
    assert "too early" in str(run)
    assert "none will do" not in markdown_report(run)
    assert "Delays" in html_report(run)
    path.write_text(document_text(run).replace('"INCONCLUSIVE"', '"PASS"'))
    with pytest.raises(UsageError, match="verdict is PASS: expected INCONCLUSIVE"):
        read_document(path)


def test_in_bfloat16_rounding_is_measured_and_the_delay_is_longer(tmp_path, right):
    coarse, said = load_pair("tiny-llama", "tiny-llama", dtype="bfloat16"), []
    log = write_lines(tmp_path / "log.jsonl", right[:8])
    run = watched(log, tmp_path / "s", coarse, said=said)
    assert 1e-4 < max(run.balls.values()) < 0.02
    assert any("rounding moves the rows by" in line for line in said)
    fine = WatchSettings(alpha=1e-9, detect=0.3).delay(0, False, {})
    assert run.delays[0].tokens is None or run.delays[0].tokens > fine


class Moody:
    """A server that answers as it is told, then rightly: ids of the prompt's own words."""

    def __init__(self, pair, *moods):
        self.moods, self.pair, self.asked = list(moods), pair, 0

    def __call__(self, body):
        self.asked += 1
        if self.moods:
            return self.moods.pop(0)
        return {"text": "", "token_ids": [5, 6, 7], "finish_reason": "length"}


def asked(tmp_path, pair, moody, *, prompts=("one", "two", "three"), **how):
    said, waits = [], []
    with serving(moody) as address:
        asker = PromptClient(
            Endpoint(address, max_tokens=3), prompts, pair, tmp_path / "answers.jsonl", said.append
        )
        asker._transport._left.wait = waits.append  # the transport's own pauses
        run = watched(
            asker.file, tmp_path / "state", pair, said=said, asker=asker,
            sleep=waits.append, **how,
        )  # fmt: skip
    return run, said, waits


def test_a_server_is_asked_each_prompt_once_and_kept(tmp_path, pair):
    run, said, _ = asked(tmp_path, pair, Moody(pair))
    assert (run.requests, run.tokens, run.endpoint) == (3, 9, True)
    kept = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [own["prompt"] for own in kept] == ["one", "two", "three"]
    run, said, _ = asked(tmp_path, pair, Moody(pair), prompts=("one", "two"))
    assert (run.requests, run.tokens) == (5, 15)
    assert "9 tokens are counted" in said[0]


class Enough(Exception):
    pass


@pytest.mark.parametrize(
    ("moods", "words"),
    [
        ([Reply()] * 7, "breaks off"),
        ([Reply(b"<html>", 200)], "which is no JSON"),
        ([Reply(b"{}", 200)] * 8, "has no choices"),
        ([Reply(b"down", 503)] * 6, "answers 503"),
        ([Reply(b"slow down", 429, {"Retry-After": "1000"})], "come back in 1000 s"),
        ([Reply(b"what", 500)] * 8, "answers 500"),
    ],
    ids=["dies", "no JSON", "no choices", "busy", "rate limit", "broken"],
)
def test_a_server_in_a_bad_mood_is_said_once_waited_for_and_gone_on_with(
    tmp_path, pair, moods, words
):
    moody, said, waits = Moody(pair, *moods), [], []
    with serving(moody) as address:
        asker = PromptClient(
            Endpoint(address, max_tokens=3), ("one",), pair, tmp_path / "a.jsonl", said.append
        )
        asker._transport._left.wait = lambda _: False

        def sleep(seconds):
            waits.append(seconds)
            if asker.up and said:
                raise Enough

        with pytest.raises(Enough):
            watched(asker.file, tmp_path / "s", pair, said=said, asker=asker, sleep=sleep,
                    once=False, every=7.0)  # fmt: skip
    complaints = [line for line in said if "nothing is lost" in line]
    assert len(complaints) == 1
    assert words in complaints[0]
    assert "answers again" in said[-1]
    assert waits[-1] == 7.0
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1


def test_what_no_waiting_mends_ends_the_watch_in_one_line(tmp_path, pair):
    with pytest.raises(UsageError, match="answers 401"):
        asked(tmp_path, pair, Moody(pair, *[Reply(b"no", 401)] * 9))
    with pytest.raises(UsageError, match="gives no token ids"):
        asked(tmp_path / "t", pair, Moody(pair, *[{"text": "a b"}] * 20), prompts=("one",))
    gone = PromptClient(
        Endpoint("http://127.0.0.1:9"), ("one",), pair, tmp_path / "x", lambda _: None
    )
    with pytest.raises(UsageError, match=r"cannot be reached.*0 tokens are counted"):
        watched(gone.file, tmp_path / "g", pair, asker=gone)


def test_the_metrics_are_what_prometheus_reads(tmp_path, pair, right):
    settings = WatchSettings(detect=0.3)
    log = write_lines(tmp_path / "log.jsonl", right[:2])
    what = WatchSubject(str(log), log, tmp_path / "s", "", once=True)
    with WatchState(tmp_path / "s", {}, settings, False) as state:
        watch = Watch(what, pair, settings, state, proxy=False, say=lambda _: None)
        labels = {"source": 'a "quoted" \\ name\nof two lines'}
        end = serve_metrics("127.0.0.1", PORT, watch.metrics, labels)
        try:
            assert scraped()["simverify_watch_tokens_total"] == (labels, 0)
            watch.run()
            found = scraped()
        finally:
            end()
    n = sum(len(own["tokens"]) for own in right[:2])
    assert found["simverify_watch_tokens_total"] == (labels, n)
    assert found["simverify_watch_alarm"] == (labels, 0)
    assert found["simverify_watch_server_up"] == (labels, 1)
    assert 100 < found["simverify_watch_delay_tokens"][1] < 1000
    with pytest.raises(UsageError, match="cannot be served"):
        serve_metrics("203.0.113.1", PORT, watch.metrics, {})  # nobody's address


PORT = 39464


def scraped():
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as answer:
        text = answer.read().decode()
    return {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_addresses():
    assert parse_address("9464") == ("127.0.0.1", 9464)
    assert parse_address("0.0.0.0:80") == ("0.0.0.0", 80)
    assert parse_address("[::]:80") == ("::", 80)
    for wrong in ("x", "0", "70000", "host:", ""):
        with pytest.raises(UsageError, match="expected PORT or HOST:PORT"):
            parse_address(wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "name what to watch"),
        (("--outputs", "a", "--endpoint", "http://h:1"), "one of them"),
        (("--outputs", "a"), "--target is missing"),
        (("--outputs", "a", "--target", "t"), "--state is missing"),
        (("--endpoint", "http://h:1", "--target", "t", "--state", "s"), "--prompts is missing"),
        (("--outputs", "a", "--target", "t", "--state", "s", "--prompts", "p"), "for --endpoint"),
        (
            ("--outputs", "a", "--target", "t", "--state", "s", "--extra-body", "{}"),
            "for --endpoint",
        ),
        (
            ("--outputs", "a", "--target", "t", "--state", "s", "--extra-body", "[1]"),
            "expected JSON",
        ),
        (("--outputs", "a", "--target", "t", "--state", "s", "--every", "0"), "every is 0"),
        (("--outputs", "a", "--target", "t", "--state", "s", "--detect", "2"), "detect is 2"),
        (("--outputs", "a", "--target", "t", "--state", "s", "--metrics", "x"), "metrics is 'x'"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(capsys, options, words):
    assert command_line(["watch", *options, "--quiet"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
