"""What a watch tells Prometheus, on a local port.

prometheus_client serves it: the text format, its escapes and what scrapers negotiate are its
matter. Values come from the state, so that counters go on where a killed process left them.
"""

import importlib.util
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from simverify.errors import UsageError

PREFIX = "simverify_watch"


@dataclass(frozen=True)
class Metric:
    """A number that is told: its ``name`` behind the prefix, and what it is."""

    name: str
    words: str
    value: float
    counter: bool = False


def serve(
    address: str, port: int, read: Callable[[], list[Metric]], labels: dict[str, str]
) -> Callable[[], None]:
    """Serve what ``read`` returns, with these labels; return what ends it.

    Raises
    ------
    UsageError
        If prometheus_client is missing, or the port cannot be had.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("--metrics needs prometheus_client: pip install 'simverify[metrics]'")
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(_Collector(read, labels))
    try:
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"metrics: {address}:{port} cannot be served: {why}") from None

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end


class _Collector:
    """Reads the numbers when a scraper asks."""

    def __init__(self, read: Callable[[], list[Metric]], labels: dict[str, str]) -> None:
        self._read, self._labels, self._lock = read, labels, threading.Lock()

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            for one in self._read():
                kind = CounterMetricFamily if one.counter else GaugeMetricFamily
                family = kind(f"{PREFIX}_{one.name}", one.words, labels=list(self._labels))
                family.add_metric(list(self._labels.values()), one.value)
                yield family


def address_of(given: str) -> tuple[str, int]:
    """Return host and port of PORT or HOST:PORT; this machine alone is served by default."""
    host, _, port = given.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"metrics is {given!r}: expected PORT or HOST:PORT, such as 9464")
    return host.strip("[]") or "127.0.0.1", int(port)
