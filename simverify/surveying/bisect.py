"""The bisection of releases or commits: which one changed the law that an engine emits.

The good one, the bad one, then the middle of what is left; each in an environment of its own.
"""

import hashlib
import importlib.util
import json
import math
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from simverify import results as doc
from simverify.battery.battery import start_meta
from simverify.checks import clean_line
from simverify.engines import Engine, engine_names, unloaded_engine
from simverify.engines.base import locate_engine, run_git
from simverify.errors import UsageError
from simverify.folders import cache_folder
from simverify.options.option import words_of
from simverify.options.surveys import BisectOptions
from simverify.results import ExactInstance, InstanceLaw, LawDifference
from simverify.surveying.table import AuditOutcome, AuditProcesses, audit_words, failure_lines

# pip: its calls, and its error messages.


PIP_TIMEOUT = 600.0
"""Seconds for pip: a release may be large, or may have to be built."""


def run_pip(
    *words: str, python: Path | None = None, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run pip for this Python, or for that of an environment; pip's own settings hold.

    ``folder``: where relative paths begin.
    """
    if importlib.util.find_spec("pip") is not None:
        program = [sys.executable, "-m", "pip"]
    elif (path := shutil.which("pip")) is not None:
        program, python = [path], python or Path(sys.executable)
    else:
        raise UsageError("releases are listed and installed by pip, which is missing: install pip")
    place = [] if python is None else ["--python", str(python)]
    command = [*program, *place, *words, "--disable-pip-version-check", "--no-input"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PIP_TIMEOUT, cwd=folder
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"not done within {PIP_TIMEOUT:g} s")


def pip_error(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the line of pip's that says what went wrong."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    last = errors[-1].removeprefix("ERROR:").strip() if errors else "it does not say why"
    return clean_line(last)


# A virtual environment for each version, kept and used again.
#
# Python searches the version's own environment first, then what is installed here: simverify and
# its requirements. pip may not install a release of a package with which simverify cannot run.


PROJECT_PLACEHOLDER = "{project}"
"""Stands in pip's words for the folder of a version, which changes each time."""

_COMPLETE_MARKER = "complete"
"""An environment holds this file once all is installed."""

_PATH_FILE = "zz_installed_here.pth"


class CheckoutError(Exception):
    """A release that cannot be installed, or a commit that cannot be checked out, and why."""


class Environment(NamedTuple):
    """``python``: its interpreter. ``packages``: the folder that it was installed into."""

    python: Path
    packages: Path


def pip_steps(requirement: str, *, whole: bool) -> list[list[str]]:
    """Return pip's steps for a package alone, and for its requirements too if ``whole``.

    In a single step pip would keep a version of the package that is installed here.
    """
    alone = ["--no-deps", "--ignore-installed", requirement]
    return [alone, [requirement]] if whole else [alone]


def get_environment(
    steps: Sequence[Sequence[str]], key: str, project: Path | None = None, root: Path | None = None
) -> Environment:
    """Return the environment of a version, made if it is not there.

    ``steps``: the words of each ``pip install``, one after the other. ``key``: its name, which
    says all that ``steps`` leave open. ``project``: the folder in which pip reads files of the
    version. ``root``: the folder that keeps the environment; by default one of the user's cache.
    Raises :class:`CheckoutError` with pip's complaint where something cannot be installed.
    """
    root = root or cache_folder("environments")
    if root is None:
        raise UsageError("no folder to keep environments in: set SIMVERIFY_CACHE_DIR")
    root.mkdir(parents=True, exist_ok=True)
    place = root / _environment_name(steps, key)
    if not (place / _COMPLETE_MARKER).exists():
        _make_environment(place, steps, project)
    return _open_environment(place)


def _open_environment(place: Path) -> Environment:
    paths = sysconfig.get_paths("venv", {"base": str(place), "platbase": str(place)})
    return Environment(Path(paths["scripts"]) / "python", Path(paths["purelib"]))


def _make_environment(place: Path, steps: Sequence[Sequence[str]], project: Path | None) -> None:
    # Two processes may make the same environment: the first one to finish is kept.
    made = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
    try:
        venv.EnvBuilder(symlinks=os.name != "nt").create(made)
        paths = _open_environment(made)
        user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
        folders = [x for x in (*site.getsitepackages(), *user) if os.path.isdir(x)]
        lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in folders)
        (paths.packages / _PATH_FILE).write_text(lines, encoding="utf-8")
        limits = made / "limits.txt"
        constraints = "".join(f"{line}\n" for line in pip_constraints("simverify"))
        limits.write_text(constraints, encoding="utf-8")
        for words in steps:
            install = ["install", "--quiet", "--no-compile", "--constraint", str(limits)]
            given = [word.replace(PROJECT_PLACEHOLDER, str(project)) for word in words]
            done = run_pip(*install, *given, python=paths.python, folder=project)
            if done.returncode != 0:
                raise CheckoutError(f"pip: {pip_error(done)}")
        (made / _COMPLETE_MARKER).touch()
        if place.exists() and not (place / _COMPLETE_MARKER).exists():
            shutil.rmtree(place)
        try:
            made.rename(place)
        except OSError:
            if not (place / _COMPLETE_MARKER).exists():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def pip_constraints(name: str) -> Iterator[str]:
    """Yield, as lines of pip's constraints, which releases a distribution and its needs allow."""
    constraints: dict[str, set[str]] = {}
    waiting = [name]
    while waiting:
        try:
            needs = distribution(waiting.pop()).requires or []
        except PackageNotFoundError:
            continue
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                if need.name not in constraints:
                    waiting.append(need.name)
                constraints.setdefault(need.name, set()).add(str(need.specifier))
    for package, limits in sorted(constraints.items()):
        yield from sorted(f"{package}{limit}" for limit in limits if limit)


def _environment_name(steps: Sequence[Sequence[str]], key: str) -> str:
    """Name an environment by what decides what pip puts into it."""
    settings: Mapping[str, str] = {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
    installed = sorted(f"{one.name}=={one.version}" for one in distributions())
    inputs = [sys.version, sys.prefix, [list(words) for words in steps], key, settings, installed]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    plain = "".join(c if c.isalnum() or c in ".-" else "-" for c in key)[:60]
    return f"{plain}-{digest[:16]}"


# The requirements of a project's commit, in an environment.


def project_environment(top: Path, below: Path, version: str) -> Environment | None:
    """Return an environment with the requirements of a checked-out commit; None if it has none.

    They stand in the nearest ``pyproject.toml``, ``setup.py`` or ``requirements.txt`` from
    ``below`` up to ``top``. Commits that list the same requirements share an environment; where
    requirements are computed, pip builds the project.
    """
    start = below if below.is_dir() else below.parent
    for folder in (start, *start.parents):
        pyproject = _read_pyproject(folder)
        files = [folder / name for name in ("setup.py", "requirements.txt")]
        if any(file.is_file() for file in files) or {"project", "build-system"} & {*pyproject}:
            break
        if folder == top:
            return None
    else:
        return None
    project = pyproject.get("project")
    if isinstance(project, dict) and "dependencies" not in project.get("dynamic", []):
        listed = [str(one) for one in project.get("dependencies", [])]
        return get_environment([listed], top.name) if listed else None
    file = files[1]
    if file.is_file():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        steps = [["--requirement", f"{PROJECT_PLACEHOLDER}/{file.name}"]]
        return get_environment(steps, f"{top.name}-{digest}", folder)
    return get_environment([[PROJECT_PLACEHOLDER]], f"{top.name}-{version}", folder)


def _read_pyproject(folder: Path) -> dict[str, object]:
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CheckoutError(f"pyproject.toml: {clean_line(str(error))}") from error


# The versions of a bisection: releases or commits, in order, each where an audit can load it.


@dataclass(frozen=True)
class CheckedOutVersion:
    """How a version is audited: the words after ``simverify audit``, and folders for Python.

    ``folder``: its temporary place, which no document names. ``python``: the interpreter.
    """

    folder: Path
    words: tuple[str, ...]
    python_path: tuple[Path, ...] = ()
    python: str = sys.executable

    def within(self, environment: Environment) -> "CheckedOutVersion":
        """Return the same in an environment, whose packages come before all that is inherited."""
        path = (*self.python_path, environment.packages)
        return replace(self, python_path=path, python=str(environment.python))


@dataclass(frozen=True)
class BisectedCode:
    """What a SPEC names: an engine, or an attribute of a module or of a file."""

    spec: str
    engine: Engine | None
    place: str
    attribute: str

    @property
    def is_file(self) -> bool:
        """Whether it is an attribute of a file."""
        return self.engine is None and self.place.endswith(".py")

    @property
    def is_imported(self) -> bool:
        """Whether its package is imported whole, and so needs all requirements.

        Most adapters take a function out of its file, and say what else they need.
        """
        return self.engine is None or self.engine.whole

    def found_in(self, place: Path, folder: Path, below: Sequence[str]) -> CheckedOutVersion:
        """Return how the code is audited from ``place``, a checkout or packages in ``folder``.

        ``below``: folders of ``place`` that may hold a module. Raises :class:`CheckoutError` where
        the engine's file or the module's package is missing: Python would import the installed one.
        """
        if self.engine is not None:
            if self.engine.find(place) is None:
                raise CheckoutError(f"it has no {self.engine.file}")
            return CheckedOutVersion(folder, (self.spec, "--engine-path", str(place)))
        package = self.place.partition(".")[0]
        files = (f"{package}/__init__.py", f"{package}.py")
        roots = (place / root for root in below)
        held = tuple(root for root in roots if any((root / file).is_file() for file in files))
        if not held:
            raise CheckoutError(f"it has no package {package!r}")
        return CheckedOutVersion(folder, (self.spec,), held)


def resolve_code(spec: str) -> BisectedCode:
    """Return what ``spec`` names; raises ``UsageError`` for what has no other versions."""
    place, colon, attribute = spec.rpartition(":")
    if colon:
        if not place or not attribute:
            raise UsageError(f"{spec!r}: expected module:attribute or path/file.py:attribute")
        return BisectedCode(spec, None, place, attribute)
    if spec not in engine_names():
        raise UsageError(
            f"{spec!r} is no engine and no module:attribute, so it has no known versions"
        )
    engine = unloaded_engine(spec)
    if engine.package == "simverify":
        raise UsageError(f"{spec!r} is simverify's own, which cannot audit its other versions")
    return BisectedCode(spec, engine, "", "")


# Commits of a checkout: listed, and checked out in a clone that leaves the checkout alone.


class Commits:
    """The commits of the repository around ``folder``, along the first parents.

    What is not committed is not looked at. ``package``: the name of the repository's folder.
    """

    kind: Literal["commits"] = "commits"

    def __init__(self, code: BisectedCode, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder: name a checkout with its git history")
        place = None if code.engine is None else locate_engine(code.engine, [folder])
        start = folder if place is None or place.folder is None else place.folder
        top = run_git(start, "rev-parse", "--show-toplevel")
        if top is None:
            raise UsageError(f"{start} has no git history: clone the repository, with its commits")
        self._code = code
        self._top = Path(top).resolve()
        self.package = self._top.name
        path = Path(code.place) if code.is_file else start
        if not path.resolve().is_relative_to(self._top):
            raise UsageError(f"{path} does not lie in {self._top}: name the checkout that holds it")
        self._below = path.resolve().relative_to(self._top)

    def between(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the commits from ``good`` to ``bad``, whole hashes, oldest first."""
        first, last = self._commit(good, "good"), self._commit(bad, "bad")
        if first == last:
            raise UsageError(f"good {good} and bad {bad} are one commit, {first[:10]}")
        if run_git(self._top, "merge-base", "--is-ancestor", first, last) is None:
            back = run_git(self._top, "merge-base", "--is-ancestor", last, first) is not None
            how = "comes after" if back else "is no ancestor of"
            raise UsageError(f"good {good} {how} bad {bad}: name an older commit as good")
        self._check_holds(good, bad)
        listed = run_git(self._top, "rev-list", "--reverse", "--first-parent", f"{first}..{last}")
        return (first, *(listed or last).splitlines())

    def title(self, version: str) -> str:
        """Return the commit's subject."""
        title = run_git(self._top, "show", "--no-patch", "--format=%s", version)
        return clean_line(title or "", 200)

    @contextmanager
    def laid_out(self, version: str) -> Iterator[CheckedOutVersion]:
        """Check a commit out in a temporary clone.

        If the code is imported, the commit's requirements are installed into an environment.
        """
        with tempfile.TemporaryDirectory(prefix="simverify-") as folder:
            clone = Path(folder) / self._top.name
            top = str(self._top)
            _require_git("clone", "--quiet", "--shared", "--no-checkout", top, str(clone))
            _require_git("-C", str(clone), "checkout", "--quiet", "--detach", version)
            place = clone / self._below
            made = project_environment(clone, place, version) if self._code.is_imported else None
            if self._code.is_file:
                layout = CheckedOutVersion(clone, (f"{place}:{self._code.attribute}",))
            elif self._code.engine is not None:
                layout = self._code.found_in(place, clone, ())
            else:
                layout = self._code.found_in(place, place, ["", "src", "python"])
            yield layout if made is None else layout.within(made)

    def _check_holds(self, *commits: str) -> None:
        """Raise ``UsageError`` if this is no checkout of the engine: none of its places has it."""
        engine = self._code.engine
        if engine is None or engine.find(self._top / self._below) is not None:
            return
        places = [(self._below / root / engine.file).as_posix() for root in ("", "src", "python")]
        names = [f"{commit}:{place}" for commit in commits for place in places]
        if all(run_git(self._top, "cat-file", "-e", name) is None for name in names):
            wanted = engine.repository or engine.distribution or engine.package
            raise UsageError(
                f"{self._top} has no {engine.file}, nor had it at {' or '.join(commits)}: name the "
                f"top of a checkout of {wanted}"
            )

    def _commit(self, text: str, name: str) -> str:
        commit = run_git(self._top, "rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
        if commit is None:
            raise UsageError(f"{name} is {text!r}, which is no commit of {self._top}")
        return commit


def _require_git(*words: str) -> None:
    # Large files, which no verifier is, stay where they are.
    environment = os.environ | {"GIT_LFS_SKIP_SMUDGE": "1"}
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        raise CheckoutError(f"git: {clean_line(lines[-1]) if lines else 'it does not say why'}")


# The difference of two audits: whether they found one law, and where they did not.


ComparedBy = Literal["verdict", "law"]

_SEARCHED_PREFIXES = ("found", "around")
"""Names of instances that were made for one version of the code begin so."""


def law_differences(before: doc.AuditRun, after: doc.AuditRun) -> tuple[LawDifference, ...] | None:
    """Return the instances on which two audits found different laws, the largest first.

    Laws are compared by their deviation from the target's, the TV distance and E[tau]; what either
    audit calls rounding makes no difference. None if no instance was followed in both.
    """
    rounding = max(before.tolerance, after.tolerance)
    names = {_instance_key(x): x for x in after.instances}
    theirs = {k: x for k, x in names.items() if not x.name.startswith(_SEARCHED_PREFIXES)}
    common = [(x, theirs[_instance_key(x)]) for x in before.instances if _instance_key(x) in theirs]
    if not common:
        return None
    entries = []
    for one, other in common:
        size = _law_distance(one, other)
        if size > rounding + (one.left_out or 0) + (other.left_out or 0):
            laws = (
                InstanceLaw(x.max_abs_deviation, x.tv, x.expected_accepted) for x in (one, other)
            )
            entries.append((size, LawDifference(one.name, one.vocab_size, one.gamma, *laws)))
    entries.sort(key=lambda entry: -entry[0])
    return tuple(difference for _, difference in entries)


def has_changed(before: doc.AuditRun, after: doc.AuditRun, what: ComparedBy) -> bool | str:
    """Return whether ``after`` differs; a string says why that cannot be told."""
    for run in (before, after):
        if run.verdict == "INCONCLUSIVE":
            return f"inconclusive: {run.inconclusive}"
    if before.verdict != after.verdict:
        return True
    if what == "verdict":
        return False
    changes = law_differences(before, after)
    if changes is None:
        return "no instance was followed in both audits: compare verdicts alone, --what verdict"
    return bool(changes)


def change_words(before: doc.AuditRun, after: doc.AuditRun) -> str:
    """Return in a sentence how ``after`` differs."""
    parts = []
    if before.verdict != after.verdict:
        parts.append(f"{before.verdict} becomes {after.verdict}")
    changes = law_differences(before, after)
    if changes:
        name, one, other = changes[0].instance, changes[0].before, changes[0].after
        deviation, earlier = other.max_abs_deviation, one.max_abs_deviation
        if abs(deviation - earlier) > max(before.tolerance, after.tolerance):
            parts.append(
                f"on {name} the distribution deviates by {deviation:.3g}, before by {earlier:.3g}"
            )
        elif one.expected_accepted is not None and other.expected_accepted is not None:
            taken, earlier = other.expected_accepted, one.expected_accepted
            parts.append(f"on {name} E[tau] is {taken:.6g}, before {earlier:.6g}")
    elif after.findings and before.verdict != after.verdict:
        parts.append(after.findings[0].text)
    return "; ".join(parts)


def _instance_key(one: ExactInstance) -> tuple[str, int, int, float | None]:
    # Instances of one name with different optima have different rows.
    optimum = None if one.optimum is None else round(one.optimum, 9)
    return one.name, one.vocab_size, one.gamma, optimum


def _law_distance(one: ExactInstance, other: ExactInstance) -> float:
    sizes = [abs(one.max_abs_deviation - other.max_abs_deviation), abs(one.tv - other.tv)]
    if one.expected_accepted is not None and other.expected_accepted is not None:
        sizes.append(abs(one.expected_accepted - other.expected_accepted) / one.gamma)
    return max(size for size in sizes if not math.isnan(size))


# Releases of a package, as pip lists them, each installed into its own environment.


_VERSIONS_PREFIX = "Available versions:"


class Releases:
    """The releases of the package that holds the code; ``package``: what pip calls it."""

    kind: Literal["releases"] = "releases"

    def __init__(self, code: BisectedCode, package: str | None = None) -> None:
        if code.is_file:
            raise UsageError(
                f"{code.spec}: a file has no releases: name the checkout that holds it by "
                "--engine-path"
            )
        engine = code.engine
        if engine is not None and engine.repository and package is None:
            raise UsageError(
                f"engine {engine.name!r} is no package: {engine.how_to_get}, and name the folder "
                "by --engine-path"
            )
        if engine is None:
            usual = code.place.partition(".")[0]
        else:
            usual = engine.distribution or engine.package
        self._code = code
        self.package = package or usual

    def between(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the releases from ``good`` to ``bad`` in the order of their versions.

        Of pre-releases only ``good`` and ``bad`` themselves, unless one of them is one.
        """
        first, last = _parse_version(good, "good"), _parse_version(bad, "bad")
        if first >= last:
            how = "is" if first == last else "comes after"
            raise UsageError(f"good {good} {how} bad {bad}: name the older release as good")
        early = first.is_prerelease or last.is_prerelease
        known = {Version(text): text for text in self._listed(early=early)}
        for version, given in ((first, good), (last, bad)):
            if version not in known:
                some = sorted(known)
                span = f"the index has {known[some[0]]} to {known[some[-1]]}" if some else "none"
                raise UsageError(f"{self.package} has no release {given}: {span}")
        return tuple(known[v] for v in sorted(known) if first <= v <= last)

    def title(self, version: str) -> str:
        """Return nothing: a release's number is its name."""
        return ""

    @contextmanager
    def laid_out(self, version: str) -> Iterator[CheckedOutVersion]:
        """Install a release into an environment, with what it asks for where it is imported."""
        steps = pip_steps(f"{self.package}=={version}", whole=self._code.is_imported)
        made = get_environment(steps, f"{self.package}-{version}")
        yield self._code.found_in(made.packages, made.packages, [""]).within(made)

    def _listed(self, *, early: bool) -> list[str]:
        done = run_pip("index", "versions", self.package, *(["--pre"] if early else []))
        if done.returncode != 0:
            raise UsageError(f"pip lists no release of {self.package}: {pip_error(done)}")
        lines = [line for line in done.stdout.splitlines() if line.startswith(_VERSIONS_PREFIX)]
        names = lines[0].removeprefix(_VERSIONS_PREFIX).split(",") if lines else []
        return [name.strip() for name in names if name.strip()]


def _parse_version(text: str, name: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(
            f"{name} is {text!r}: expected a release, such as 1.2; of commits, name the checkout "
            "by --engine-path"
        ) from None


VersionSource = Commits | Releases


@dataclass
class _Bisection:
    """What is known so far: of each place in ``versions`` its audit, and what it came to."""

    code: BisectedCode
    source: VersionSource
    versions: tuple[str, ...]
    options: BisectOptions
    processes: AuditProcesses
    say: Callable[[str], None]
    runs: dict[int, doc.AuditRun] = field(default_factory=dict)
    lines: dict[int, tuple[str, ...]] = field(default_factory=dict)
    visited: list[doc.Visited] = field(default_factory=list)

    def look(self, place: int) -> doc.Visited:
        """Audit a version and say whether it differs from the good one, which comes first."""
        version = self.versions[place]
        words = words_of("contract", self.options.contract)
        words += audit_words(self.options, self.code.engine)
        try:
            with self.source.laid_out(version) as layout:
                audited = self.processes.audit(
                    [*layout.words, *words],
                    self.options.limit,
                    python_path=layout.python_path,
                    python=layout.python,
                )
            if audited.run is not None:
                self.lines[place] = failure_lines(audited.run, layout.folder)
            named = f"{self.source.package} {short_version(version)}"
            reason = audited.reason.replace(f"{layout.folder}/", "")
            audited = replace(audited, reason=reason.replace(str(layout.folder), named))
        except CheckoutError as error:
            audited = AuditOutcome("untestable", None, str(error), None, 0.0)
        visit = self._visited(place, audited)
        self.visited.append(visit)
        summary = visit.verdict or f"{visit.state}: {visit.reason}"
        differs = {True: ", changed", False: "", None: ", skipped"}[visit.changed]
        self.say(f"{short_version(version)}: {summary}{differs} ({audited.seconds:.0f} s)")
        return visit

    def _visited(self, place: int, audited: AuditOutcome) -> doc.Visited:
        version, run = self.versions[place], audited.run
        change: bool | str | None = None
        if run is not None:
            self.runs[place] = run
            change = has_changed(self.runs.get(0, run), run, self.options.what)
        instances = run.instances if run is not None else ()
        return doc.Visited(
            version=version,
            title=self.source.title(version),
            state=audited.state,
            verdict=None if run is None else run.verdict,
            reason=change if isinstance(change, str) else audited.reason,
            max_abs_deviation=max((x.max_abs_deviation for x in instances), default=None),
            instances=len(instances),
            changed=None if isinstance(change, str) else change,
        )

    def ends(self) -> bool:
        """Audit the good and the bad one; return whether they differ.

        Raises ``UsageError`` where one of them cannot be judged, or the good one is not good.
        """
        other = f"name another {self.source.kind.removesuffix('s')}"
        good = self.look(0)
        name = f"good {short_version(good.version)}"
        if good.changed is None:
            raise UsageError(f"{name} cannot be judged: {good.reason}: {other}")
        if self.options.what == "verdict" and good.verdict != "PASS":
            first = self.runs[0].findings[0].text
            raise UsageError(f"{name} is not good: it is a FAIL: {first}: name an older one")
        bad = self.look(len(self.versions) - 1)
        if bad.changed is None:
            name = f"bad {short_version(bad.version)}"
            raise UsageError(f"{name} cannot be judged: {bad.reason}: {other}")
        return bad.changed

    def narrow(self) -> tuple[int, int]:
        """Return the last place that does not differ, and the first that does, as far as known."""
        low, high, skipped = 0, len(self.versions) - 1, set[int]()
        while left := [place for place in range(low + 1, high) if place not in skipped]:
            place = left[(len(left) - 1) // 2]
            visit = self.look(place)
            if visit.changed is None:
                skipped.add(place)
            elif visit.changed:
                high = place
            else:
                low = place
        return low, high


def bisect(
    code: BisectedCode,
    source: VersionSource,
    good: str,
    bad: str,
    options: BisectOptions,
    reproduce: str,
) -> doc.BisectRun:
    """Find the first version after ``good`` that differs from it, up to ``bad``.

    ``options``: sizes, contract, what counts as a change, and progress; the rest has been used.
    Like every bisection it assumes one change: of several, or of one that was undone, it may miss
    some. Raises ``UsageError`` if ``good`` or ``bad`` is not in the source or cannot be judged, or
    if ``good`` is not good.
    """
    stamp, say = start_meta(), options.progress or (lambda _line: None)
    versions = source.between(good, bad)
    say(
        f"{len(versions)} {source.kind} of {source.package}, {short_version(versions[0])} to "
        f"{short_version(versions[-1])}"
    )
    with AuditProcesses() as processes:
        search = _Bisection(code, source, versions, options, processes, say)
        pair = search.narrow() if search.ends() else None
    outcome: Literal["changed", "unchanged", "open"] = "unchanged"
    low, high = pair or (0, 0)
    if pair is not None:
        outcome = "changed" if high - low == 1 else "open"
    before, after = search.runs[low], search.runs[high]
    return doc.BisectRun(
        schema_version=doc.SCHEMA_VERSION,
        spec=code.spec,
        seed=options.seed,
        what=options.what,
        source=source.kind,
        package=source.package,
        good=versions[0],
        bad=versions[-1],
        versions=versions,
        outcome=outcome,
        last=None if pair is None else versions[low],
        first=None if pair is None else versions[high],
        how=change_words(before, after),
        differences=law_differences(before, after) or (),
        lines=() if pair is None else search.lines[high],
        tried=tuple(search.visited),
        reproduce=reproduce,
        meta=stamp(),
    )


def short_version(version: str) -> str:
    """Return a release as it is, and a commit's first letters."""
    return version[:10] if len(version) == 40 else version
