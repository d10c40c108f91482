"""The subject of an audit: from a SPEC on the command line to the callable that it names."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from simverify.auditing.enumeration import cut_at_eos
from simverify.auditing.invocation import read_result
from simverify.auditing.trees import drafter_as_step, tree_as_step
from simverify.checks import pick_name
from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.provenance import innermost_user_line
from simverify.symbolic.watchdog import (
    DeadlineExpired,
    contain_process,
    deadline,
    is_user_interrupt,
)
from simverify.trees import Drafting, TreeShape
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

Contract = Literal["verify", "step", "tree", "draft"]


@dataclass(frozen=True)
class Subject:
    """Code under audit. ``contract`` is None where only the caller knows it.

    ``rule``: a ``verify``, ``step``, ``tree`` or ``draft`` function, or (not for ``verify``) a
    class or factory of objects with such a method. ``coin_bits``: of code that takes uniforms
    instead of a generator, the bits of each; ``coins``: how many a call takes, gamma + 1 if None.
    ``tolerance``: what the code's own arithmetic explains, if known. ``batch``: blocks per call of
    code with a batch axis. ``company``: kinds of mixed batches in which the code is judged.
    ``one_block``: it judges one block a call. ``note``: a line for the report. ``scheme``: how the
    siblings are drafted for a tree rule; ``fits``: the shapes that it takes. ``close``: ends what
    the code keeps running.
    """

    name: str
    rule: Callable[..., Any]
    contract: Contract | None
    tolerance: float | None = None
    coin_bits: int | None = None
    coins: int | None = None
    batch: int | None = None
    company: str | None = None
    scheme: str | None = None
    one_block: bool = False
    note: str = ""
    fits: Callable[[TreeShape], bool] = lambda shape: True
    close: Callable[[], None] = lambda: None

    def around(self, rule: Any) -> "Subject":
        """Return the subject with ``rule``, which calls the code's own."""
        # Errors name the code's own module, and its globals are where its generators are found.
        rule.__wrapped__ = self.rule
        return replace(self, rule=rule)

    def one_row(self) -> "Subject":
        """Return batched code as a ``verify`` rule on one block.

        Batched code takes (B, gamma+1, V), (B, gamma, V), (B, gamma) and returns B rows of
        tokens, or an array of them padded with -1.
        """
        batched = self.rule

        def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
            given = (target_probs[None], draft_probs[None], draft_tokens[None])
            (row,) = batched(*given, rng)
            tokens = row.tolist() if hasattr(row, "tolist") else list(row)
            return tokens[: tokens.index(-1)] if -1 in tokens else tokens

        return self.around(verify)

    def ended_by(self, eos: int) -> "Subject":
        """Return a ``verify`` rule whose tokens end at ``eos``, as in a decoding loop."""
        rule = self.rule

        def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
            return cut_at_eos(read_result(rule(target_probs, draft_probs, draft_tokens, rng)), eos)

        return self.around(verify)

    def drafting_itself(self, drafting: Drafting, contract: Contract) -> "Subject":
        """Return code as a step rule that drafts trees by ``drafting``.

        A tree rule judges the trees that the scheme draws; a drafter's trees are judged by
        recursive rejection.
        """
        wrap = drafter_as_step if contract == "draft" else tree_as_step
        return replace(self, rule=wrap(self.rule, drafting), contract="step")

    def generator_rule(self) -> Callable[..., Any]:
        """Return the rule as one that takes a numpy generator, and draws its coins from it."""
        if self.coin_bits is None:
            return self.rule
        from simverify.engines import with_coins

        return with_coins(self.rule, bits=self.coin_bits, coins=self.coins)


LOAD_SECONDS = 30.0
"""Least time to load a module, which may import much; counted by :class:`Stopwatch`."""


def check_contract(subject: Subject, contract: Contract | None, batch: int | None) -> Contract:
    """Return the contract of ``subject``; ``UsageError`` if ``contract`` or ``batch`` is not its.

    "verify" where neither the code nor the caller says one.
    """
    if batch and {"step", "tree", "draft"} & {subject.contract, contract}:
        raise UsageError(
            "--batch and --batch-mix are for the verify contract: code of the others has no batches"
        )
    if subject.contract is None:
        return contract or "verify"
    if contract not in (None, subject.contract):
        raise UsageError(
            f"{subject.name} has the {subject.contract} contract: got --contract {contract}"
        )
    return subject.contract


def load_subject(
    spec: str,
    checkout: str | None = None,
    *,
    seconds: float = LOAD_SECONDS,
    modules: dict[str, Any] | None = None,
) -> Subject:
    """Return what ``spec`` names.

    A built-in verifier or fault, ``module:attr``, ``path/file.py:attr``, or an engine, which
    is loaded from ``checkout`` if that is given. ``seconds``: how long that may take, 30 at least.
    ``modules``: those that are loaded, by their place in a SPEC: code of one file shares what the
    file holds. Raises ``UsageError`` for a name, file or attribute that does not exist, or for a
    ``checkout`` where ``spec`` is no engine, and ``SimverifyError`` for code that fails to load.
    """
    limit = max(seconds, LOAD_SECONDS)
    try:
        with deadline(limit):
            return _load(spec, checkout, {} if modules is None else modules)
    except DeadlineExpired as error:
        raise SimverifyError(
            f"{spec} fails to load: not done within {limit:g} s{innermost_user_line(error)}"
        ) from None


def module_key_of(place: str) -> str:
    """Return one name for a file, however a SPEC names it; that of a module is its own."""
    return str(Path(place).resolve()) if place.endswith(".py") else place


def _load(spec: str, checkout: str | None, modules: dict[str, Any]) -> Subject:
    place, colon, attribute = spec.rpartition(":")
    if not colon:
        return _load_named(spec, checkout)
    if checkout is not None:
        raise _unknown_name_error(spec)
    if not place or not attribute:
        raise UsageError(f"{spec!r}: expected module:attribute or path/file.py:attribute")
    key = module_key_of(place)
    if key not in modules:
        with contain_process():
            file = place.endswith(".py")
            modules[key] = _load_file_object(Path(place)) if file else _load_module_object(place)
    target = module = modules[key]
    for part in attribute.split("."):
        if not hasattr(target, part):
            names = vars(module).items()
            known = [name for name, x in names if not name.startswith("_") and callable(x)]
            pick_name(attribute, known, f"attribute of {place}")
            raise UsageError(f"{place} has no attribute {attribute!r}")
        target = getattr(target, part)
    if not callable(target):
        kind = type(target).__name__
        ways = [way for way in ("verify", "step", "tree", "draft") if hasattr(target, way)]
        more = f": name its class, or the method, {spec}.{ways[0]}" if ways else ""
        raise UsageError(f"{spec}: {attribute} is a {kind}, expected a callable{more}")
    return Subject(spec, target, None)


def _load_named(spec: str, checkout: str | None) -> Subject:
    if spec in VERIFIERS and checkout is None:
        return Subject(spec, VERIFIERS[spec].rule, VERIFIERS[spec].contract, one_block=True)
    if spec in TREE_VERIFIERS and checkout is None:
        rule = TREE_VERIFIERS[spec]
        return Subject(spec, rule.rule, "tree", scheme=rule.schemes[0], fits=rule.fits)
    from simverify.engines import engine_names, get_engine
    from simverify.engines.base import find_checkout
    from simverify.faults import CONTROLS, FAULTS, MIXED_BATCH_RULES, get_fault

    engines = engine_names()
    if checkout is not None and spec not in engines:
        raise _unknown_name_error(spec)
    if spec in engines:
        engine = get_engine(spec).here
        verify = engine.load(None if checkout is None else find_checkout(engine, Path(checkout)))
        bits = engine.coin_bits if engine.tier == "coins" else None
        known = engine.contract, engine.tolerance, bits
        return Subject(spec, verify, *known, one_block=True, note=engine.note)
    if (mixed := MIXED_BATCH_RULES.get(spec)) is not None:
        return Subject(spec, mixed.rule, "verify", company=mixed.kinds)
    if (control := CONTROLS.get(spec)) is not None:
        return Subject(spec, control.rule, control.contract, one_block=True)
    if spec.partition("(")[0] in {name.partition("(")[0] for name in FAULTS}:
        fault = get_fault(spec)
        return Subject(
            spec,
            fault.rule,
            fault.contract,
            batch=fault.batch,
            scheme=fault.scheme,
            one_block=fault.batch is None,
        )
    check_known(spec)
    raise AssertionError("unknown names raise")


def check_known(spec: str) -> None:
    """Raise ``UsageError`` for a name of no rule, engine, fault or control, with the nearest."""
    from simverify.engines import ENGINES, engine_names
    from simverify.faults import CONTROLS, FAULTS, MIXED_BATCH_RULES

    if spec.endswith(".py"):
        raise UsageError(f"{spec}: name the function too, as {spec}:verify")
    known = [*VERIFIERS, *TREE_VERIFIERS, *ENGINES, *FAULTS, *CONTROLS, *MIXED_BATCH_RULES]
    fault = spec.partition("(")[0] in {name.partition("(")[0] for name in FAULTS}
    if spec not in engine_names() and not fault:
        pick_name(spec, known, "verifier, engine or fault")


def _unknown_name_error(spec: str) -> UsageError:
    return UsageError(f"--engine-path is the checkout of an engine, and {spec!r} is none")


@contextmanager
def _loading(place: object, folder: Path) -> Iterator[None]:
    """Search ``folder`` first while code loads; ``SimverifyError`` if it raises.

    No compiled copies are left beside the files.
    """
    without_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    try:
        yield
    except BaseException as error:
        if is_user_interrupt(error) or isinstance(error, DeadlineExpired):
            raise
        what = f"{type(error).__name__}: {error}{innermost_user_line(error)}"
        if isinstance(error, ModuleNotFoundError):
            what += f": install {error.name} for {sys.executable}, or put its folder on PYTHONPATH"
        elif isinstance(error, ImportError):
            what += ": check the name, and which release is installed"
        raise SimverifyError(f"{place} fails to load: {what}") from error
    finally:
        sys.path.pop(0)
        sys.dont_write_bytecode = without_bytecode


def _load_module_object(name: str) -> Any:
    # As with `python -m`, modules of the current folder can be named.
    with _loading(name, Path.cwd()):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error
    if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
        raise UsageError(f"no module {name!r}: is it installed, or the folder right?") from None
    raise SimverifyError(f"{name} fails to load: {missing}") from missing


def _load_file_object(path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"no file {path}")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    with _loading(path, path.parent.resolve()):
        try:
            specification.loader.exec_module(module)
        except BaseException as error:
            if before is None:
                del sys.modules[path.stem]
            else:
                sys.modules[path.stem] = before
            if not (isinstance(error, ImportError) and "relative import" in str(error)):
                raise
        else:
            return module
    # With relative imports it is a module of the package that it lies in.
    folder, name = path.resolve().parent, path.stem
    while (folder / "__init__.py").is_file():
        folder, name = folder.parent, f"{folder.name}.{name}"
    with _loading(path, path.parent.resolve()), _loading(path, folder):
        return importlib.import_module(name)
