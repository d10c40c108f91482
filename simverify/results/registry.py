"""Kinds of result documents: what each is, how it is checked, and how it is shown."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from operator import or_
from typing import Any

from simverify.results.common import Run

Complaints = Callable[[Any], Iterator[str]]
"""Yields, for a document, each field that another one contradicts."""

View = Callable[..., Any] | str
"""A function that shows a document, or ``module:function`` for one that loads on use.

A module whose name begins with a dot is one of ``simverify.reports``.
"""


def _no_complaints(_run: Run) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True)
class Kind:
    """A kind of document.

    ``struct``: its class, whose tag is the document's field ``command``; the exit code of the
    command and the headline of a run are properties of it. ``words``: what a file of this kind
    holds, such as "a comparison". ``check``: what fits nothing else; ``verdicts``: verdicts
    that do not follow from their findings. ``report``: returns its
    :class:`simverify.reports.view.Report`.
    """

    struct: type[Run]
    words: str
    report: View
    check: Complaints = _no_complaints
    verdicts: Complaints = _no_complaints

    @property
    def command(self) -> str:
        """What the document's field ``command`` says."""
        return str(self.struct.__struct_config__.tag)


_KINDS: dict[type[Run], Kind] = {}


def register_kind(kind: Kind) -> None:
    """Make a kind of document known: it is then read, checked, recorded and shown.

    Raises ``ValueError`` for a class without a tag, or with the tag of another kind.
    """
    config = kind.struct.__struct_config__
    others = {known.command for known in _KINDS.values()}
    if config.tag_field != "command" or config.tag in others:
        raise ValueError(f"{kind.struct.__name__}: expected a tag of its own in field command")
    _KINDS[kind.struct] = kind


def kind_of(run: Run) -> Kind:
    """Return the kind of a document."""
    return _KINDS[type(run)]


def document_kinds() -> tuple[Kind, ...]:
    """Return all kinds, in the order in which they were registered."""
    return tuple(_KINDS.values())


def document_type() -> Any:
    """Return the union of all kinds of documents, as msgspec decodes it."""
    return reduce(or_, _KINDS)


def verdict_complaints(run: Run) -> Iterator[str]:
    """Name each field that contradicts a verdict of ``run``."""
    return kind_of(run).verdicts(run)


def load_view(view: View) -> Callable[..., Any]:
    """Return a function that shows a document; its module is imported if it is a name."""
    if not isinstance(view, str):
        return view
    module, _, name = view.partition(":")
    function: Callable[..., Any] = getattr(import_module(module, "simverify.reports"), name)
    return function
