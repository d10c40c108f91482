"""A server, as the options of any command name it."""

from typing import TYPE_CHECKING, Any

from simverify.api.real import json_iv

if TYPE_CHECKING:
    from simverify.emitted import Endpoint


def server_of(options: Any, address: str, limit: int) -> "Endpoint":
    """Return the server at ``address``; ``UsageError`` for an address that is none.

    ``limit``: tokens of one completion.
    """
    from simverify.emitted import Endpoint

    seconds = Endpoint.timeout if options.timeout is None else options.timeout
    extra = extra_body_iv(options)
    return Endpoint(address, options.served_model, limit, extra, seconds)


def extra_body_iv(options: Any) -> dict[str, Any]:
    """Return the fields of ``extra_body``; ``UsageError`` for what is no object."""
    found: dict[str, Any] = json_iv(options.extra_body or {}, "extra_body", dict)
    return found


def is_address(name: object) -> bool:
    """Tell the address of a server from the name of a file."""
    return str(name).startswith(("http://", "https://"))
