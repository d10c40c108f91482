"""The state of a watch on disk: written whole or not at all, for one process at a time."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from simverify.emitted.watching.canary import Canary, WatchSettings
from simverify.emitted.watching.tail import Place
from simverify.errors import UsageError
from simverify.locks import Lock
from simverify.results.reading.document import write_whole

_VERSION = 2


class State:
    """A folder with what a watch knows.

    ``key``: what the state is of, by which another watch is refused. ``canary``: None before the
    first tokens; ``place``: how far the log was read; ``unread``, ``text_alone``: lines that could
    not be judged. Evidence and place are one file, so that no token is counted twice, or not at
    all.

    Raises
    ------
    UsageError
        If the folder cannot be made, another process watches there, or the state is damaged or of
        another watch.
    """

    def __init__(
        self, folder: Path, key: Mapping[str, Any], settings: WatchSettings, proxy: bool
    ) -> None:
        self._file, self._key = folder / "state.json", dict(key)
        self._lock: Lock | None = None
        self.canary: Canary | None = None
        self.place = Place()
        self.unread = self.text_alone = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(folder / "lock")
            if not self._lock.take():
                raise UsageError(f"state: another process watches in {folder}: name another")
            if self._file.exists():
                self._read(settings, proxy)
        except OSError as error:
            self._release()
            raise UsageError(f"state: {folder} cannot be used: {error.strerror}") from None
        except UsageError:
            self._release()
            raise

    def __enter__(self) -> "State":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def save(self) -> None:
        """Write everything, whole or not at all."""
        value = {
            "version": _VERSION,
            "key": self._key,
            "place": self.place.as_dict(),
            "unread": self.unread,
            "text_alone": self.text_alone,
            "canary": None if self.canary is None else self.canary.as_dict(),
        }
        write_whole(self._file, json.dumps(value, indent=1) + "\n")

    def _read(self, settings: WatchSettings, proxy: bool) -> None:
        where = f"state: {self._file}"
        try:
            value = json.loads(self._file.read_text(encoding="utf-8"))
            if value["version"] != _VERSION:
                raise ValueError(f"version {value['version']}")
            for name in sorted(value["key"].keys() | self._key.keys()):
                was, now = value["key"].get(name), self._key.get(name)
                if was != now:
                    raise UsageError(
                        f"{where} is of a watch with {name} {json.dumps(was)[:80]}, now it is "
                        f"{json.dumps(now)[:80]}: name another folder, or watch as before"
                    )
            self.place = Place(**value["place"])
            numbers = [x for x in vars(self.place).values() if not isinstance(x, str)]
            self.unread, self.text_alone = value["unread"], value["text_alone"]
            numbers += [self.unread, self.text_alone]
            if not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError("a count is no whole number")
            if value["canary"] is not None:
                self.canary = Canary.from_dict(value["canary"], settings, proxy)
        except OSError as error:
            raise UsageError(f"{where} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{where} is damaged ({type(error).__name__}: {str(error)[:80]}): begin a new life "
                f"in another folder"
            ) from None
