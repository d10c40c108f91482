"""A verifier in another language on trial: what the options name, and how it is loaded."""

from collections.abc import Callable
from functools import partial

from simverify.api.options import AuditOptions
from simverify.auditing.exact.coins.coins import MOST_COINS, MOST_KNOWN
from simverify.auditing.subject import Subject
from simverify.checks import refuse
from simverify.engines.bridge import CommandVerify, LibraryVerify
from simverify.engines.bridge.command import CALL_SECONDS
from simverify.errors import OptionError, UsageError
from simverify.results import Bridge

_NOT_FOR_IT = (
    "drafter", "verifier", "scheme", "tree", "batch", "company", "eos", "engine_path",
    "strict_coverage",
)  # fmt: skip


def bridge_of(options: AuditOptions) -> Bridge | None:
    """Return the program or the library that the options name, if they name one.

    Raises ``UsageError`` for both, and for options that neither has.
    """
    name = _named(options)
    if name is None:
        refuse({"coins": options.coins}, "{option} is for {command} or {library}: name one")
        return None
    if options.command is not None and options.library is not None:
        raise OptionError("{command} and {library} are two ways: name one")
    others = {option: getattr(options, option) for option in _NOT_FOR_IT}
    refuse(others, f"{{option}} is not for {{{name}}}: it judges one drafted block a call")
    if options.contract not in (None, "verify"):
        raise OptionError(
            f"{{contract}} {options.contract} is not for {{{name}}}: it has the verify contract"
        )
    most = MOST_KNOWN if name == "command" else MOST_COINS
    if options.coins is not None and not 1 <= options.coins <= most:
        raise OptionError(f"{{coins}} is {options.coins}: expected 1 to {most} with {{{name}}}")
    return Bridge(options.command, options.library, options.coins)


def _named(options: AuditOptions) -> str | None:
    if options.command is not None:
        return "command"
    return None if options.library is None else "library"


def name_of(bridge: Bridge) -> str:
    """Return what it is called in reports: the command, or path:symbol."""
    return str(bridge.library if bridge.command is None else bridge.command)


def loader(bridge: Bridge, seconds: float | None = None) -> Callable[[], Subject]:
    """Return what starts or loads it; ``seconds``: the limit of a tier, of which a call has half.

    What is returned raises ``UsageError`` for what is not there, ``SimverifyError`` for what is
    there and does not load.
    """
    return partial(_load, bridge, CALL_SECONDS if seconds is None else seconds / 2)


def _load(bridge: Bridge, seconds: float) -> Subject:
    limit = min(CALL_SECONDS, seconds)
    rule: CommandVerify | LibraryVerify
    if bridge.command is not None:
        rule = CommandVerify(bridge.command, seconds=limit)
    elif bridge.library is not None:
        rule = LibraryVerify(bridge.library, seconds=limit)
    else:
        raise UsageError("the run names neither a command nor a library")
    return Subject(
        name_of(bridge), rule, "verify", rule.tolerance, rule.bits, bridge.coins,
        one_block=True, close=rule.close,
    )  # fmt: skip
