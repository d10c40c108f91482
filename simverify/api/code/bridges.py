"""A verifier in another language on trial: what the options name, and how it is loaded."""

from collections.abc import Callable
from functools import partial

from simverify.auditing.exact.coins.coins import MOST_COINS, MOST_KNOWN
from simverify.auditing.subject import Subject
from simverify.engines.bridge import CommandVerify, LibraryVerify
from simverify.engines.bridge.command import CALL_SECONDS
from simverify.errors import OptionError, UsageError
from simverify.options.audit import ProgramOptions
from simverify.results import Bridge


def bridge_of(options: ProgramOptions) -> Bridge:
    """Return the program or the library that the options name; raises ``UsageError`` for both."""
    if options.command is not None and options.library is not None:
        raise OptionError("{command} and {library} are two ways: name one")
    name, most = ("library", MOST_COINS) if options.command is None else ("command", MOST_KNOWN)
    if options.coins is not None and not 1 <= options.coins <= most:
        raise OptionError(f"{{coins}} is {options.coins}: expected 1 to {most} with {{{name}}}")
    library = None if options.library is None else str(options.library)
    return Bridge(options.command, library, options.coins)


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
