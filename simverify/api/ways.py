"""The ways of an audit, and which options belong to each: the others are refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Literal

from simverify.api.options import AuditOptions
from simverify.api.real import LawOptions
from simverify.checks import refuse
from simverify.errors import OptionError, UsageError, quoted

Way = Literal["small", "self-test", "trace", "live", "emitted"]
"""Instances small enough to be followed; the catalogue on them; recorded rows; a pair of real
models; tokens that another engine emitted.
"""

_SIZES = ("gamma", "vocab", "seconds", "max_paths", "max_samples")
_CODE = ("batch", "company", "eos", "tolerance")
_TREES = ("scheme", "tree")
_MODELS = (
    "target", "draft", "prompts", "tokens", "temperature", "top_k", "top_p", "device", "dtype",
    "threads", "layer_parallel", "no_calibration",
)  # fmt: skip
_EMITTED = (
    "samples", "max_tokens", "served_model", "keep", "ball", "against", "against_model", "repeats",
    "concurrency", "max_tokens_total", "timeout", *(field.name for field in fields(LawOptions)),
)  # fmt: skip
_BRIDGES = ("command", "library", "coins")
_OWN = (
    "contract",
    "drafter",
    "verifier",
    *_BRIDGES,
    "trace",
    "engine_path",
    "strict_probes",
    "strict_coverage",
)

_NOT_EMITTED = "{option} is for tokens already emitted: name {outputs} or {endpoint}"

_REFUSED: dict[Way, tuple[tuple[tuple[str, ...], str], ...]] = {
    "emitted": (
        ((*_OWN, *_CODE, *_TREES, *_SIZES, "self_test", "layer_parallel", "no_calibration"),
         "{option} is not for emitted tokens: name {outputs} alone"),
    ),
    "self-test": (
        ((*_OWN, *_CODE, *_TREES, *_MODELS),
         "{self_test} takes no {option}: every entry of the catalogue has its own"),
        (_EMITTED, _NOT_EMITTED),
    ),
    "trace": (
        (("drafter", "verifier"), "{trace} takes no {option}: its blocks are drafted already"),
        (_BRIDGES, "{trace} takes no {option}: code in other languages is for small instances"),
        (_TREES, "{trace} takes no {option}: it holds single drafts"),
        ((*_CODE, *_SIZES, *_MODELS), "{trace} takes no {option}: its blocks are drafted already"),
        (_EMITTED, _NOT_EMITTED),
    ),
    "live": (
        (("verifier",), "{option} is half of a pair, for small instances: on real models the rule "
                        "is SPEC"),
        (_BRIDGES, "{option} is for small instances: leave {target} out"),
        (_EMITTED, _NOT_EMITTED),
        ((*_CODE, *_SIZES[1:]),
         "{option} is not for real models: SPEC decodes {tokens} of them, a block a call"),
    ),
    "small": (
        (_MODELS, "{option} is for real models, or tokens already emitted: name {target} too"),
        (_EMITTED, _NOT_EMITTED),
    ),
}  # fmt: skip


def chosen_way(spec: object, options: AuditOptions) -> Way:
    """Return the way that ``options`` ask for; ``spec``: the code under audit, if any is named.

    Raises ``OptionError`` that names the first option which is not for it.
    """
    given = vars(options)
    way = _way(options)
    if way == "emitted" and spec is not None:
        raise OptionError("SPEC is not for emitted tokens: name {outputs} alone")
    if way == "self-test" and spec is not None:
        raise OptionError(f"{{self_test}} audits the catalogue: got SPEC {quoted(spec)} too")
    for names, why in _REFUSED[way]:
        refuse({name: given[name] for name in names}, why)
    _drafter_iv(way, options.drafter)
    paired = way == "small" and (options.drafter is not None or options.verifier is not None)
    if paired and spec is not None:
        raise OptionError(
            f"{{drafter}} and {{verifier}} take the place of SPEC: got {quoted(spec)} too"
        )
    bridged = way == "small" and (options.command is not None or options.library is not None)
    if bridged and spec is not None:
        raise OptionError(f"{{command}} and {{library}} take the place of SPEC: got {quoted(spec)}")
    if way not in ("emitted", "self-test") and spec is None and not (paired or bridged):
        raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
    if way == "trace" and options.contract == "step":
        raise OptionError("{trace} takes no {contract} step: its blocks are drafted already")
    if way == "trace" and options.contract == "tree":
        raise OptionError("{trace} takes no {contract} tree: it holds single drafts")
    if way in ("trace", "live") and options.contract == "draft":
        raise OptionError("{contract} draft is for small instances: leave {trace} and {target} out")
    return way


def _drafter_iv(way: Way, drafter: str | None) -> None:
    """Raise ``OptionError`` for code where real models draft, or their way to where code does."""
    if drafter is None:
        return
    from simverify.drafting.method import NAMES

    if way == "live" and drafter not in NAMES:
        raise OptionError(
            f"{{drafter}} is {quoted(drafter)}: real models draft by one of {', '.join(NAMES)}; "
            "code is audited on small instances, with {verifier} and without {target}"
        )
    if way == "small" and drafter in NAMES:
        raise OptionError(f"{{drafter}} {drafter} is for real models: name {{target}} too")


@contextmanager
def called_from_python() -> Iterator[None]:
    """Let errors name options as keywords, not as the command line does."""
    try:
        yield
    except OptionError as error:
        raise UsageError(error.in_python) from None


def _way(options: AuditOptions) -> Way:
    if options.outputs is not None or options.endpoint is not None:
        return "emitted"
    if options.self_test:
        return "self-test"
    if options.trace is not None:
        return "trace"
    return "small" if options.target is None else "live"
