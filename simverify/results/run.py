"""What one does with a whole run: print it, show it in a notebook, save it, report it."""

import importlib
import os
from typing import TYPE_CHECKING, Protocol, cast

from simverify.results.common import Struct, Verdict

PRESENTING = "simverify.reports.present"
"""The module that renders runs: named, not imported, since results know nothing of reports."""


class _Presenting(Protocol):
    def text_of(self, run: "Run", *, verbose: bool) -> str: ...

    def notebook_html(self, run: "Run") -> str: ...

    def save(self, run: "Run", path: str | os.PathLike[str]) -> None: ...

    def write_reports(self, run: "Run", folder: str | os.PathLike[str]) -> None: ...


class Run(Struct, frozen=True):
    """A result document as a whole.

    ``print(run)`` shows what the terminal shows; a notebook shows the report.
    """

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self, *, verbose: bool = False) -> str:
        """Return what the terminal shows, 80 columns wide; ``verbose``: all of it."""
        return _presenting().text_of(self, verbose=verbose)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run file, whole or not at all; :func:`simverify.load` reads it.

        Raises ``UsageError`` if ``path`` cannot be written.
        """
        _presenting().save(self, path)

    def report(self, folder: str | os.PathLike[str]) -> None:
        """Write HTML, Markdown, JUnit XML and the run file to ``folder``.

        Raises ``UsageError`` if ``folder`` cannot be made or written to.
        """
        _presenting().write_reports(self, folder)

    def _repr_html_(self) -> str:
        return _presenting().notebook_html(self)


class Judged(Run, frozen=True):
    """A run with a verdict."""

    if TYPE_CHECKING:
        verdict: Verdict

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASS: not so of FAIL, and not of INCONCLUSIVE."""
        return self.verdict == "PASS"


def _presenting() -> _Presenting:
    return cast("_Presenting", importlib.import_module(PRESENTING))
