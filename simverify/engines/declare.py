"""Short forms of :class:`~simverify.engines.base.Engine`, for adapters here and in other packages.

An adapter is a function that calls the engine's own function, which it is given first::

    @block_engine("mine", "my_package/rules.py:accept", "my-package>=1,<2", "tokens p q")
    def mine(accept, draft_tokens, target, draft, draft_len):
        return accept(tokens=draft_tokens, p=target, q=draft)

The name ``mine`` is then an ``Engine``, and an entry point in ``simverify.verifiers`` may name it.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, as_verify
from simverify.engines.base import Engine
from simverify.engines.extract import load_function, load_names
from simverify.engines.fake_models import RowsModel, loop_as_step

LOGITS = Signature(arrays="torch", logits=True)
LOGITS_OF_ONE = Signature(arrays="torch", logits=True, batched=False)
"""Without a batch axis."""

Adapter = Callable[..., Any]
"""Called ``wrapper`` in closures: an audit follows them by name, and is to meet the rule first."""
Decorator = Callable[[Adapter], Engine]
Loader = Callable[[Path], Any]


def make_engine(
    name: str, place: str, origin: str, parameters: str, loader: Loader, **fields: Any
) -> Engine:
    """Return an engine; unless ``fields`` say otherwise, one that judges a block and needs torch.

    ``place``: ``package/folder/file.py:function``; at a checkout's top
    it begins with the slash, as ``/file.py:function``.
    ``origin``: what pip installs, such as ``my-package>=1,<2``, or ``owner/repository@commit`` of
    GitHub. ``parameters``: names, separated by spaces. ``fields``: other fields of the engine.
    """
    file, function = place.split(":")
    package, source = file.split("/", 1)
    repository, at, commit = origin.partition("@")
    distribution, versions = ("", "") if at else re.split(r"(?![\w.-])", origin, maxsplit=1)
    given: dict[str, Any] = {"contract": "verify", "tier": "exact", "needs": ("torch",)} | fields
    return Engine(
        name=name,
        package=package,
        source=source,
        function=function,
        loader=loader,
        distribution="" if distribution == package else distribution,
        versions=versions,
        repository=f"https://github.com/{repository}" if at else "",
        commit=commit,
        parameters=tuple(parameters.split()),
        **given,
    )


def block_engine(
    *texts: str,
    signature: Signature = LOGITS,
    batch_mix: str = "",
    **options: Any,
) -> Decorator:
    """Make an engine of ``adapter(rule, draft_tokens, target, draft[, draft_len][, source])``.

    ``texts``: the first four arguments of :func:`make_engine`. ``signature`` says what the adapter
    is called with, ``batch_mix`` which kinds of requests it takes side by side, as
    :func:`~simverify.engines.adapt.as_verify` does. Other ``options`` are fields of the engine.

    ``given``: what stands in the place of names that the function's file imports. ``beside``: names
    that it takes of other files, by the paths of these from its folder. Or ``load``:
    ``load(path)`` returns the rule.
    """

    def wrap(wrapper: Adapter, rule: Any) -> Any:
        def verify(*given: Any) -> Any:
            return wrapper(rule, *given)

        return as_verify(verify, signature, batch_mix)

    return _decorator(wrap, texts, **options)


def loop_engine(*texts: str, model: Callable[..., Any] = RowsModel, **options: Any) -> Decorator:
    """Make an engine of ``adapter(rule, target, draft, ids, gamma)``, a decoding loop.

    ``model(rows, prefix)`` makes each of its two models, as for
    :func:`~simverify.engines.fake_models.loop_as_step`. Else as :func:`block_engine`.
    """

    def wrap(wrapper: Adapter, rule: Any) -> Any:
        def loop(*given: Any) -> Any:
            return wrapper(rule, *given)

        return loop_as_step(loop, model)

    return _decorator(wrap, texts, **LOOP_FIELDS | options)


def step_engine(*texts: str, **options: Any) -> Decorator:
    """Make an engine of ``adapter(rule, prefix, target, draft, gamma, rng)``: of two row functions.

    Else as :func:`block_engine`.
    """

    def wrap(wrapper: Adapter, rule: Any) -> Any:
        def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> Any:
            return wrapper(rule, prefix, target, draft, gamma, rng)

        return step

    return _decorator(wrap, texts, **LOOP_FIELDS | options)


LOOP_FIELDS: dict[str, Any] = {"contract": "step", "gamma": 2, "vocab": 4}
"""What decoding loops have in common: each call is many paths, so a table audits them small."""


def _decorator(
    wrap: Callable[[Adapter, Any], Any],
    texts: tuple[str, ...],
    *,
    load: Loader | None = None,
    given: Mapping[str, Any] | None = None,
    beside: Mapping[str, str] | None = None,
    **fields: Any,
) -> Decorator:
    name, place, origin, parameters = texts

    def load_rule(path: Path) -> Any:
        names = dict(given or {})
        for file, taken in (beside or {}).items():
            names |= load_names(path.parent / file, taken.split())
        return load_function(path, place.rpartition(":")[2], **names)

    def decorate(adapter: Adapter) -> Engine:
        def loader(path: Path) -> Any:
            return wrap(adapter, (load or load_rule)(path))

        return make_engine(name, place, origin, parameters, loader, **fields)

    return decorate
