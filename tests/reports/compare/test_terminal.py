import re

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console
from support.pages.printed import ALL, assert_fits, every, flat, shown, small_comparison

from simverify.results import AfterCalls, Expected


@pytest.fixture(scope="module")
def run():
    return small_comparison()


def table(text):
    """Lines of the first table of results, without its two lines of headers."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("verifier"))
    return [line for line in lines[first + 1 : first + 1 + len(ALL)] if line.startswith(tuple(ALL))]


def test_all_verifiers_failing_and_inconclusive_fit(run):
    text = shown(run)
    assert_fits(text)
    assert {row.verdict for row in run.results} == {"FAIL", "INCONCLUSIVE"}
    for model in ("toy", "markov-16"):
        assert f"{model}: V = " in text
    assert len(table(text)) == len(ALL)
    words = " ".join(text.split())
    assert "Lossless: 0 of 10 results passed, 2 failed, 8 with too few blocks" in words
    assert "rule: 0 of 10 results passed, 10 with too few blocks" in words
    assert "FAIL: Do not ship temperature-0 on toy, temperature-0 on" in text.split("\n\n")[-1]


def test_the_numbers_are_those_of_the_run(run):
    text = shown(run)
    for row in run.results:
        exact = row.expected_accepted.exact
        if exact is not None:
            assert f"{exact:.7f}" in text
        assert f"{row.block_efficiency:.3f}" in text
        assert f"{row.optimality:.1%}" in text
        low, high = row.measured.ci_low, row.measured.ci_high
        assert f"{row.measured.mean:.4f}±" in text or f"{low:.4f}..{high:.4f}" in text
        assert f"{row.speedup.predicted:.2f}x" in text
        for finding in row.lossless.findings:
            assert finding[:50] in " ".join(text.split())
    for model in run.models:
        assert f"accepts more than {model.bounds.coupling.exact:.8g} tokens" in text
    assert f"with probability {run.alpha:g} at most this run" in " ".join(text.split())


def test_the_widest_row_fits(run):
    """Two digits before the point, an interval where a number might be, the longest words."""
    bounds = Expected(
        exact=None, fraction=None, lower=41.1, upper=41.9, method="rao-blackwell", confidence=0.999
    )

    def wide(row):
        measured = replace(row.measured, mean=41.6, ci_low=1.0, ci_high=64.0)
        return replace(
            row,
            verdict="INCONCLUSIVE",
            lossless=replace(row.lossless, verdict="INCONCLUSIVE"),
            expected_accepted=bounds,
            measured=measured,
            block_efficiency=42.5,
            optimality=1.0,
            speedup=replace(row.speedup, predicted=41.5),
        )

    timings = tuple(replace(timing, blocks_per_second=99.94e6) for timing in run.meta.timings)
    many = replace(every(run, wide), meta=replace(run.meta, timings=timings))
    text = shown(many)
    assert_fits(text)
    (line,) = [line for line in table(text) if line.startswith("temperature-0")]
    assert line.split() == [
        "temperature-0", "INCONCLUSIVE", "41.50±0.40", "1.000..64.000", "42.50", "100.0%",
        "41.5x", "99.9" if "99.9" in line else "100",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["n" * 300, "a long name " * 20, "模型" * 60])
def test_a_long_name_is_wrapped(run, name):
    named = rename(run, name)
    text = shown(named)
    for line in text.splitlines():
        assert Console(width=200).measure(line).maximum <= 80
    assert "".join(text.split()).startswith("".join(name.split()))


def rename(run, name):
    models = (replace(run.models[0], name=name), *run.models[1:])
    results = tuple(replace(r, model=name) if r.model == "toy" else r for r in run.results)
    timings = tuple(replace(t, model=name) if t.model == "toy" else t for t in run.meta.timings)
    return replace(run, models=models, results=results, meta=replace(run.meta, timings=timings))


@pytest.mark.parametrize("options", [{}, {"force_terminal": True, "color_system": "standard"}])
def test_a_name_moves_no_cursor_and_is_no_markup(run, options):
    text = shown(rename(run, "[red]x[/red]\x1b[31m\r\n\x07[/oops]"), **options)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text) if options else text
    assert plain.startswith("[red]x[/red]?[31m ?[/oops]: V = 2")
    assert "\x1b[31m\r" not in text
    assert "\x07" not in text


def test_a_pipe_gets_no_colours(run):
    assert "\x1b" not in shown(run)
    assert "\x1b" in shown(run, force_terminal=True, color_system="standard")


def test_calls_show_a_few_of_many(run):
    text = shown(run)
    numbers = re.findall(r"^ +(\d+) token +[\d.]", text, re.MULTILINE)
    assert numbers[: len(numbers) // 2] == ["1", "2", "3", "4", "5", "10", "12"]


def test_calls_show_short_fractions_and_leave_out_long_ones(run):
    def with_calls(row):
        def entry(i, fraction):
            return AfterCalls(calls=i, exact=1.5, fraction=fraction, measured=row.measured)

        return replace(row, calls=(entry(1, "3/2"), entry(2, "3" * 40 + "/" + "2" * 40)))

    text = shown(every(run, with_calls))
    assert "1.500000 = 3/2" in text
    assert "3" * 40 not in text
    assert_fits(text)


def test_printing_needs_nothing_but_the_document(run):
    again = msgspec.json.decode(msgspec.json.encode(run), type=type(run))
    assert shown(again) == shown(run)


def test_what_is_not_the_declared_rule_is_told_from_what_is_lossy(run):
    def change(row):
        lossless = replace(row.lossless, verdict="PASS", findings=())
        acceptance = replace(
            row.acceptance, verdict="FAIL", words="not the declared rule", findings=("too few",)
        )
        if row.verifier != "block":
            acceptance = replace(acceptance, verdict="PASS", words="as declared", findings=())
        verdict = "FAIL" if row.verifier == "block" else "PASS"
        return replace(row, verdict=verdict, lossless=lossless, acceptance=acceptance)

    changed = every(run, change)
    text = shown(replace(changed, verdict="FAIL"))
    assert_fits(text)
    assert "FAIL block: not the declared rule: too few" in text
    words = " ".join(text.split())
    assert "Lossless: 10 of 10 results passed Accepts" in words
    assert "Accepts as the declared rule: 8 of 10 results passed, 2 failed" in words
    assert [line.split()[1] for line in table(text)] == ["PASS"] * len(ALL)
    assert words.count("acceptance = as declared; shift of a Pr") == 8


def test_a_run_that_waits_for_acceptance_alone_says_that_lossless_passed(run):
    def change(row):
        lossless = replace(row.lossless, verdict="PASS", findings=(), detectable=0.001)
        acceptance = replace(row.acceptance, verdict="INCONCLUSIVE", findings=())
        return replace(row, verdict="INCONCLUSIVE", lossless=lossless, acceptance=acceptance)

    text = flat(replace(every(run, change), verdict="INCONCLUSIVE"))
    assert "Lossless: 10 of 10 results passed Accepts" in text
    assert "as the declared rule: 0 of 10 results passed, 10 with too few blocks" in text


def test_knobs_of_a_model_stand_beside_its_name_unless_they_are_the_usual(run):
    assert "markov-16: V = 16, gamma = 6\n" in shown(run)
    tempered = replace(run.models[1], temperature=0.5, draft_distance=0.125)
    text = shown(replace(run, models=(run.models[0], tempered)))
    assert "markov-16: V = 16, gamma = 6, draft distance 0.125, temperature 0.5\n" in text


def test_lengths_without_an_exact_value_are_said_not_to_be_judged(run):
    assert "not judged" in flat(run)

    def known(row):
        calls = tuple(replace(entry, exact=entry.measured.mean) for entry in row.calls)
        return replace(row, calls=calls)

    assert "not judged" not in flat(every(run, known))
