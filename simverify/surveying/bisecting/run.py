"""The bisection: the good one, the bad one, then the middle of what is left."""

from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Literal

from msgspec.structs import replace

from simverify import results as doc
from simverify.battery.judgement import stamped
from simverify.errors import UsageError
from simverify.options.surveys import SizeOptions
from simverify.surveying.audited import Audited, Processes
from simverify.surveying.bisecting.environments import NotLaidOut
from simverify.surveying.bisecting.laws import What, changed, differences, words
from simverify.surveying.bisecting.sources import Code, Source, halves
from simverify.surveying.rows import lines_of
from simverify.surveying.settings import audit_words

Say = Callable[[str], None]
Contract = Literal["verify", "step", "tree", "draft"]


@dataclass
class _Search:
    """What is known so far: of each place in ``versions`` its audit, and what it came to."""

    code: Code
    source: Source
    versions: tuple[str, ...]
    sizes: SizeOptions
    what: What
    contract: list[str]
    processes: Processes
    say: Say
    runs: dict[int, doc.AuditRun] = field(default_factory=dict)
    lines: dict[int, tuple[str, ...]] = field(default_factory=dict)
    visited: list[doc.Visited] = field(default_factory=list)

    def look(self, place: int) -> doc.Visited:
        """Audit a version and say whether it differs from the good one, which comes first."""
        version = self.versions[place]
        try:
            with self.source.laid_out(version) as layout:
                audited = self.processes.audit(
                    [*layout.words, *self.contract, *audit_words(self.sizes, self.code.engine)],
                    self.sizes.limit,
                    python_path=layout.python_path,
                    python=layout.python,
                )
            if audited.run is not None:
                self.lines[place] = lines_of(audited.run, layout.folder)
            told = audited.reason.replace(f"{layout.folder}/", "")
            named = f"{self.source.package} {shortened(version)}"
            audited = replaced(audited, reason=told.replace(str(layout.folder), named))
        except NotLaidOut as error:
            audited = Audited("untestable", None, str(error), None, 0.0)
        found = self._visited(place, audited)
        self.visited.append(found)
        said = found.verdict or f"{found.state}: {found.reason}"
        differs = {True: ", changed", False: "", None: ", skipped"}[found.changed]
        self.say(f"{shortened(version)}: {said}{differs} ({audited.seconds:.0f} s)")
        return found

    def _visited(self, place: int, audited: Audited) -> doc.Visited:
        version, run = self.versions[place], audited.run
        one = doc.Visited(
            version=version, title=self.source.title(version), state=audited.state, verdict=None,
            reason=audited.reason, max_abs_deviation=None, instances=0, changed=None,
        )  # fmt: skip
        if run is None:
            return one
        self.runs[place] = run
        told = changed(self.runs.get(0, run), run, self.what)
        return replace(
            one,
            verdict=run.verdict,
            max_abs_deviation=max((x.max_abs_deviation for x in run.instances), default=None),
            instances=len(run.instances),
            changed=None if isinstance(told, str) else told,
            reason=told if isinstance(told, str) else one.reason,
        )

    def ends(self) -> bool:
        """Audit the good and the bad one; return whether they differ.

        Raises ``UsageError`` where one of them cannot be judged, or the good one is not good.
        """
        other = f"name another {self.source.kind.removesuffix('s')}"
        good = self.look(0)
        name = f"good {shortened(good.version)}"
        if good.changed is None:
            raise UsageError(f"{name} cannot be judged: {good.reason}: {other}")
        if self.what == "verdict" and good.verdict != "PASS":
            first = self.runs[0].findings[0].text
            raise UsageError(f"{name} is not good: it is a FAIL: {first}: name an older one")
        bad = self.look(len(self.versions) - 1)
        if bad.changed is None:
            name = f"bad {shortened(bad.version)}"
            raise UsageError(f"{name} cannot be judged: {bad.reason}: {other}")
        return bad.changed

    def narrow(self) -> tuple[int, int]:
        """Return the last place that does not differ, and the first that does, as far as known."""
        low, high, skipped = 0, len(self.versions) - 1, set[int]()
        while left := [place for place in range(low + 1, high) if place not in skipped]:
            place = next(halves(left))
            found = self.look(place)
            if found.changed is None:
                skipped.add(place)
            elif found.changed:
                high = place
            else:
                low = place
        return low, high


def bisect(
    code: Code,
    source: Source,
    good: str,
    bad: str,
    *,
    what: What,
    contract: Contract | None = None,
    sizes: SizeOptions,
    reproduce: str,
    progress: Say | None = None,
) -> doc.BisectRun:
    """Find the first version after ``good`` that differs from it, up to ``bad``.

    As every bisection it takes for granted that there is one change: one that was undone in
    between, and the first of several, may be missed. Raises ``UsageError`` if ``good`` or ``bad``
    is not in the source or cannot be judged, or if ``good`` is not good.
    """
    stamp, say = stamped(), progress or (lambda _line: None)
    versions = source.between(good, bad)
    say(
        f"{len(versions)} {source.kind} of {source.package}, {shortened(versions[0])} to "
        f"{shortened(versions[-1])}"
    )
    told = [] if contract is None else ["--contract", contract]
    with Processes() as processes:
        search = _Search(code, source, versions, sizes, what, told, processes, say)
        pair = search.narrow() if search.ends() else None
    open_run = doc.BisectRun(
        schema_version=doc.SCHEMA_VERSION, spec=code.spec, seed=sizes.seed, what=what,
        source=source.kind, package=source.package, good=versions[0], bad=versions[-1],
        versions=versions, outcome="unchanged", last=None, first=None, how="", differences=(),
        lines=(), tried=tuple(search.visited), reproduce=reproduce, meta=stamp(),
    )  # fmt: skip
    if pair is None:
        return open_run
    low, high = pair
    before, after = search.runs[low], search.runs[high]
    return replace(
        open_run,
        outcome="changed" if high - low == 1 else "open",
        last=versions[low],
        first=versions[high],
        how=words(before, after),
        differences=differences(before, after) or (),
        lines=search.lines[high],
    )


def shortened(version: str) -> str:
    """Return a release as it is, and a commit's first letters."""
    return version[:10] if len(version) == 40 else version
