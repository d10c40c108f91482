"""What reports say of passes and failures of every kind."""

from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from support.audit_runs import finding
from support.pages.html_page import check
from support.pages.report_runs import example

from simverify.reports.formats import (
    build_report,
    github_annotations,
    html_report,
    junit_report,
    markdown_report,
)
from simverify.results import (
    Breach,
    Certificate,
    FailingTrial,
    FaultAtStrength,
    NamedFaults,
    SampledModel,
    SampledTier,
    Suspect,
)

FAULTS = NamedFaults(
    refuted=(FaultAtStrength(fault="inverted-ratio", strength=0.3, log_evalue=12.5),),
    not_refuted=("lenient(0.9)",),
    beta=1e-3,
    best=FaultAtStrength(fault="target-residual", strength=0.1, log_evalue=40.0),
    explains=0.93,
)
SUSPECT = Suspect(part="residual", position=0, why="slot 1 after a rejection alone rejects")


def words(run):
    return " ".join(check(html_report(run)).text.split())


@pytest.fixture(scope="module")
def lossy():
    """A comparison whose first kernel fails, and whose second accepts as another rule."""
    run = example("compare")
    first, second, *rest = run.results
    lossless = replace(
        first.lossless, verdict="FAIL", findings=("transitions: p = 1e-40",),
        localisation=SUSPECT, faults=FAULTS,
    )  # fmt: skip
    acceptance = replace(second.acceptance, verdict="FAIL", words="not the declared rule",
                         findings=("acceptance: p = 1e-30",))  # fmt: skip
    rows = (
        replace(first, verdict="FAIL", lossless=lossless),
        replace(second, verdict="FAIL", acceptance=acceptance),
        *rest,
    )
    return replace(run, verdict="FAIL", results=rows)


def test_a_lossy_verifier_and_a_strange_one_are_told_apart(lossy):
    ruling = build_report(lossy).ruling
    assert ruling.startswith("Do not ship token on compact: the output does not follow")
    assert "Look at block on compact: the kernel accepts otherwise than the declared" in ruling
    text = words(lossy)
    for part in (
        "token on compact: transitions: p = 1e-40",
        "token on compact: localised: residual; slot 1 after a rejection alone rejects",
        "fits best: target-residual at strength 0.1, which explains 93% of the deviation",
        "Faults refuted (each wrongly with probability 0.001 at most)",
        "Not refuted by likelihood ratios: lenient(0.9)",
    ):
        assert part in text, part
    assert [case.outcome for case in build_report(lossy).cases[:3]] == [
        "failed",
        "failed",
        "passed",
    ]


def undecided(part, rows=1):
    """A comparison of which the first results were too small for one of the two verdicts."""
    run = example("compare")

    def change(row):
        small = replace(getattr(row, part), verdict="INCONCLUSIVE", detectable=0.0314)
        return replace(row, verdict="INCONCLUSIVE", **{part: small})

    results = (*map(change, run.results[:rows]), *run.results[rows:])
    return replace(run, verdict="INCONCLUSIVE", results=results)


def test_too_few_blocks_are_no_reason_to_ship():
    run = undecided("lossless")
    report = build_report(run)
    assert report.ruling == (
        "Do not decide on this run about token on compact: too few blocks to say that the output "
        "follows the target: raise --blocks or --detect."
    )
    assert report.cases[0].message == (
        "too few blocks to decide on losslessness: mean one-token TV: found from 0.0314 on, asked "
        "from 0.02 on"
    )


def test_no_bound_is_certified_where_nothing_passed(lossy):
    every = {fact.name: fact.text for fact in build_report(undecided("lossless", 12)).facts}
    assert "Certified" not in every
    assert every["Lossless"] == "0 of 12 results passed, 12 with too few blocks"
    some = {fact.name: fact.text for fact in build_report(lossy).facts}
    largest = max(
        row.lossless.certificate.bound for row in lossy.results if row.lossless.verdict == "PASS"
    )
    assert f"at most {largest:.3g}, where lossless passed, by" in some["Certified"]
    ruling = build_report(undecided("lossless", 12)).ruling
    assert ruling.startswith("Do not decide on this run about any of the 12 results: too few")


@pytest.mark.parametrize(("rows", "named"), [(1, "token on compact"), (12, "all 12 results")])
def test_what_waits_for_acceptance_alone_says_so_on_every_face(rows, named):
    run = undecided("acceptance", rows)
    report = build_report(run)
    said = f"Lossless passed for {named}; too few blocks to say that the kernel accepts as the"
    assert report.ruling.startswith(said)
    facts = {fact.name: fact.text for fact in report.facts}
    assert facts["Lossless"] == "12 of 12 results passed"
    assert facts["Accepts as the declared rule"] == (
        f"{12 - rows} of 12 results passed, {rows} with too few blocks"
    )
    why = (
        "lossless passed; too few blocks to say that the kernel accepts as the declared rule: "
        "shift of a Pr(tau >= l) out of its bounds: found from 0.0314 on, asked from 0.02 on"
    )
    assert [case.message for case in report.cases[:rows]] == [why] * rows
    case = next(ElementTree.fromstring(junit_report(run)).iter("error"))
    assert case.attrib["message"] == why
    assert next(github_annotations(run)).endswith(f"::{why}")
    for page in (words(run), markdown_report(run)):
        assert said in page


def test_a_pass_claims_no_more_than_its_tests_saw():
    run = example("compare")
    sampled = [row for row in run.results if row.lossless.tier == "sampled"]
    exact = [row for row in run.results if row.lossless.tier == "exact"]
    assert sampled
    assert exact
    for rows, said in (
        (sampled, "No deviation was found on the models tried (error rates below)"),
        ([*exact, *sampled], "No deviation was found on the models tried (error rates below)"),
        (exact, "Every rule's exact distribution is its target's, and its kernel shows no"),
    ):
        models = tuple(m for m in run.models if any(m.name == row.model for row in rows))
        part = replace(run, results=tuple(rows), models=models)
        assert build_report(part).ruling.startswith(said)


@pytest.fixture(scope="module")
def sampled():
    run = example("transformers")
    tests = example("compare").results[-1].lossless.tests
    tier = SampledTier(
        samples=1000, looks=4, alpha=1e-6, detect=0.01, power=0.9, tests=tests, detectable=0.008,
        certificate=Certificate(bound=0.004, delta=1e-3, method="plug-in", assumption="N fixed"),
        optimality=None, findings=(), faults=FAULTS, localisation=None,
        instances=(
            SampledModel("compact, gamma=3", 3, 3, 900, 0.01, 0.008, 0.002),
            SampledModel("wide, V=12, gamma=1", 12, 1, 100, 0.03, 0.024, 0.004),
        ),
    )  # fmt: skip
    return replace(run, tier="sampled", not_enumerable="cannot follow f() at x.py:3", sampled=tier)


def test_a_sampled_pass_says_its_error_rates_certificate_and_what_it_refutes(sampled):
    text = words(sampled)
    for part in (
        "No deviation was found on ",
        "1,000 calls",
        "a lossless verifier fails with probability 1e-06 at most; found with probability 0.9: TV",
        "power 0.9 against TV 0.024 or more, asked against 0.03, TV at most 0.004",
        "on V=3 gamma=3, V=12 gamma=1 only: mean one-token TV at most 0.004",
        "at most 0.004, but for a probability of 0.001 (plug-in), if N fixed",
        "cannot follow f() at x.py:3",
        "inverted-ratio",
        "Tests of the sampled tier",
    ):
        assert part in text, part


def test_a_sampled_pass_has_its_certificate_in_junit(sampled):
    case = next(ElementTree.fromstring(junit_report(sampled)).iter("testcase"))
    known = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
    assert known["tier"] == "sampled"
    assert "mean one-token TV at most 0.004, but for a probability" in known["certificate"]


def test_a_sampled_failure_says_where_and_shows_a_trial(sampled):
    trial = FailingTrial(
        instance=example("faulty-block").counterexample.instance, number=0, pilot=False,
        trial=12345, emitted=(1, 0), why="it emits a token of probability 0",
    )  # fmt: skip
    found = (finding("tests", "G2: p = 1e-20"),)
    tier = replace(sampled.sampled, localisation=SUSPECT, findings=found)
    run = replace(sampled, verdict="FAIL", sampled=tier, trial=trial, findings=found)
    text = words(run)
    for part in (
        "Do not ship it: its output does not follow the target model: the token that it draws "
        "after a rejection does not follow the target. It looks like the fault target-residual",
        "residual; slot 1 after a rejection alone rejects",
        "Trial 12,345 on",
        "emitted 1, 0; it emits a token of probability 0",
    ):
        assert part in text, part


@pytest.mark.parametrize("tokens", [(1, 0), None])
def test_a_broken_contract_is_shown_with_its_call_and_its_rows(tokens):
    instance = example("faulty-block").counterexample.instance
    message = "raised IndexError: index 2 is out of bounds, at mine.py:7"
    run = replace(
        example("faulty-block"), counterexample=None, localisation=None, diagnosis=(),
        findings=(finding("contract", f"raised: {message}"),),
        breach=Breach(instance=instance, draft_tokens=tokens, message=message),
    )  # fmt: skip
    assert build_report(run).ruling == f"Do not ship it: it breaks its contract: {message}."
    drafted = ", draft tokens 1, 0" if tokens else ""
    for text in (words(run), " ".join(markdown_report(run).split())):
        below = text.split("It broke its contract at ")[-1]
        assert below.startswith(f"V = {instance.vocab_size}, gamma = {instance.gamma}{drafted}")
        assert message in below
        assert "The instance: target p and draft q" in below
        assert "1/2" in below.split("The instance: target p and draft q")[1][:200]
