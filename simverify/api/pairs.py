"""A drafter and a verifier on trial together: what each is, and how they are loaded."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from simverify.api.code.subjects import again, subject_of
from simverify.auditing.exact.generations.drafts import takes_draft_arguments
from simverify.auditing.exact.generations.pairs import pair_as_step
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject, module_key
from simverify.errors import OptionError, UsageError
from simverify.options.audit import PairOptions
from simverify.options.option import Code
from simverify.results import AuditRun, Pair
from simverify.trees import SCHEMES, Drafting, TreeShape, get_scheme, shape_of_levels

USUAL_TREE = "2,1"
"""Children per level where none are named."""


def _named(code: Code, other: str | None = None) -> str:
    """Return the name under which ``code`` is found again; one that is not ``other``'s."""
    return subject_of(code, taken=None if isinstance(code, str) else other)[0]


def pair_of(options: PairOptions) -> Pair:
    """Return the pair that the options name.

    Raises ``UsageError`` for half a pair, and for options that do not go together.
    """
    if options.drafter is None:
        raise OptionError("{verifier} is half of a pair: name {drafter} too")
    if options.verifier is None:
        raise OptionError("{drafter} is half of a pair: name {verifier} too")
    contract = options.contract or "verify"
    if contract == "step" or contract == "draft":
        raise OptionError(
            f"{{contract}} is the verifier's, verify or tree: got {contract} with {{verifier}}"
        )
    if contract != "tree":
        for name in ("scheme", "tree"):
            if getattr(options, name) is not None:
                raise OptionError(f"{{{name}}} is for draft trees: name {{contract}} tree too")
    scheme = None if options.scheme is None else get_scheme(options.scheme).name
    drafter = _named(options.drafter)
    return Pair(drafter, _named(options.verifier, drafter), contract, scheme, options.tree)


def load_pair(pair: Pair, checkout: str | None = None) -> Subject:
    """Load both, and return them as one step rule.

    Raises ``UsageError`` for code that is no drafter, or no verifier of that contract.
    """
    modules, before = dict[str, Any](), set(sys.modules)
    drafter = again(pair.drafter, None, modules)()
    if drafter.contract not in (None, "draft"):
        raise UsageError(
            f"{pair.drafter} has the {drafter.contract} contract: --drafter takes one of the draft "
            "contract"
        )
    try:
        takes_draft_arguments(drafter.rule)
    except ValueError as error:
        raise UsageError(f"--drafter {pair.drafter}: {error}") from None
    _imported(pair.verifier, before, modules)
    verifier = again(pair.verifier, checkout, modules)()
    if verifier.contract not in (None, pair.contract):
        raise UsageError(_of_another(pair, verifier))
    if verifier.batch or verifier.company:
        raise UsageError(f"{pair.verifier} takes whole batches: a pair drafts one block a call")
    drafting = _drafting(pair, verifier) if pair.contract == "tree" else None
    rule = pair_as_step(drafter.rule, verifier.generator_rule(), pair.contract, drafting)
    tolerances = [x.tolerance for x in (drafter, verifier) if x.tolerance is not None]
    return Subject(name_of(pair), rule, "step", max(tolerances, default=None))


def _imported(spec: str, before: set[str], modules: dict[str, Any]) -> None:
    """Note the module of ``spec`` where the drafter has imported it, lest there be two of it."""
    place = Path(spec.rpartition(":")[0])
    found = sys.modules.get(place.stem)
    file = getattr(found, "__file__", None)
    if place.stem not in before and file is not None and Path(file) == place.resolve():
        modules.setdefault(module_key(str(place)), found)


def audit_pair(
    subject: Subject,
    *,
    pair: Pair,
    settings: AuditSettings,
    reproduce: str | None,
    progress: Callable[[str], None],
) -> AuditRun:
    """Audit the pair; where it fails, each of the two alone too, for a note that says which it is.

    ``subject``: what :func:`load_pair` returned.
    """
    run = audit(subject, None, settings, reproduce=reproduce, progress=progress)
    if run.verdict != "FAIL":
        return run
    modules: dict[str, Any] = {}
    alone = replace(settings, pair=None, gamma=min(settings.gamma, 2), vocab=3)
    notes = []
    tried: tuple[tuple[str, str, Contract], ...] = (
        ("drafter", pair.drafter, "draft"),
        ("verifier", pair.verifier, pair.contract),
    )
    for role, spec, contract in tried:
        progress(f"the {role} alone")
        code = again(spec, settings.checkout if role == "verifier" else None, modules)()
        scheme = pair.scheme or code.scheme
        if contract == "tree" and scheme is None:
            continue  # its scheme is not known
        mine = replace(alone, scheme=scheme if contract != "verify" else None, tree=pair.tree)
        found = audit(code, contract, mine, progress=progress)
        notes.append((role, found.verdict, mine.command(spec, contract)))
    words = tuple(_alone(*note) for note in notes)
    if [verdict for _, verdict, _ in notes] == ["PASS", "PASS"]:
        words = ("each passes alone: what they share is wrong, such as random numbers",)
    return msgspec.structs.replace(run, notes=(*words, *run.notes))


def _alone(role: str, verdict: str, command: str) -> str:
    if verdict == "PASS":
        return f"alone the {role} passes"
    return f"alone the {role} is {verdict} too: {command}"


def name_of(pair: Pair) -> str:
    """Return what the pair is called in reports."""
    return f"{pair.drafter} with {pair.verifier}"


def loader(pair: Pair, checkout: str | None) -> Callable[[], Subject]:
    """Return what loads the pair."""
    return partial(load_pair, pair, checkout)


def _of_another(pair: Pair, verifier: Subject) -> str:
    has = f"{pair.verifier} has the {verifier.contract} contract"
    if verifier.contract == "step":
        return f"{has}: it drafts itself, so audit it alone"
    if verifier.contract == "draft":
        return f"{has}: --verifier takes one of the verify or tree contract"
    return f"{has}: name --contract {verifier.contract}"


def _drafting(pair: Pair, verifier: Subject) -> Drafting:
    """Return the trees of the pair; the scheme is the drafter's to keep, and is told alone."""
    levels = pair.tree or USUAL_TREE
    shape: TreeShape = shape_of_levels([int(count) for count in levels.split(",")])
    if not verifier.fits(shape):
        raise UsageError(f"{pair.verifier} does not take the tree {levels}: name another one")
    scheme = pair.scheme or verifier.scheme or "iid"
    return Drafting(shape, SCHEMES[scheme])
