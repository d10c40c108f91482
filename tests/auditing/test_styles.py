"""Verifiers in odd styles, a file each under ``styles``: no right one fails, no wrong one passes.

The fast level runs the exact tier alone on a few small instances; what it refuses to follow is
the sampled tier's to decide, in the slow level, which is the whole audit of every file (half an
hour and more).
"""

import pytest
from support.styles import SECONDS, exact_outcome, styles

from simverify.auditing.process.supervised import supervised_audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import load_subject

STYLES = styles()

OPEN = {
    "wrong/flow/flow_checks_modules": "looks for an auditor among the modules of its process",
    "wrong/flow/flow_checks_stack": "looks up the stack for a file of an auditor",
    "wrong/torch/torch_almost_sure": "no small instance has a ratio just below 1",
}
"""Files that the fast level judges wrongly today, each with the reason.

One that is judged rightly again fails its test until it is taken off the list. Nothing whose
outcome depends on the machine's rounding belongs here.
"""

OPEN_WHOLE = {name: why for name, why in OPEN.items() if name != "wrong/torch/torch_almost_sure"}
"""The same of whole audits: their search finds a ratio just below 1."""

PATIENT = 120.0
"""Seconds for a file of the list."""

FOLLOWED, CAUGHT = 130, 115
"""Right files that are followed to the end, and wrong ones caught exactly, at least: a tier that
refused everything would make no wrong verdict either. 145 right files were followed when this was
written; the limit of seconds leaves some of them out on a slow machine."""


def cases(known):
    """Each file as a parameter; one that is known to be judged wrongly is expected to be."""
    assert known.keys() <= {style.name for style in STYLES}
    return [
        pytest.param(
            style,
            id=style.name,
            marks=pytest.mark.xfail(raises=AssertionError, strict=True, reason=known[style.name])
            if style.name in known
            else (),
        )
        for style in STYLES
    ]


OUTCOMES = {}


@pytest.mark.parametrize("style", cases(OPEN))
def test_exact_tier_is_not_wrong(style):
    # A clock that runs out refuses code, which would look like a right judgement of a known one.
    seconds = PATIENT if style.name in OPEN else SECONDS
    outcome, why = exact_outcome(style, seconds)
    OUTCOMES[style.name] = outcome
    if style.right:
        assert outcome != "caught", why
    elif not style.beyond:
        assert outcome != "followed"


def test_exact_tier_does_not_refuse_more_than_it_did():
    if len(OUTCOMES) < len(STYLES):
        pytest.skip("needs the outcomes of all files in one process")
    right = [OUTCOMES[style.name] for style in STYLES if style.right]
    wrong = [OUTCOMES[style.name] for style in STYLES if not style.right]
    assert right.count("followed") >= FOLLOWED
    assert wrong.count("caught") >= CAUGHT


@pytest.mark.slow
@pytest.mark.parametrize("style", cases(OPEN_WHOLE))
def test_verdict_is_not_wrong(style):
    run = supervised_audit(
        lambda: load_subject(style.spec),
        style.contract,
        AuditSettings(gamma=2, vocab_size=3, seconds=30, detect=0.03, scheme=style.scheme),
        spec=style.spec,
    )
    if style.right:
        assert run.verdict != "FAIL", run.findings
    elif not style.beyond:
        assert (run.verdict, run.tier) != ("PASS", "exact")
