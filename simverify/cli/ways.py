"""The ways of ``simverify audit``, and which options belong to each: the others are refused."""

from collections.abc import Mapping
from typing import Literal

from simverify.cli.common import refuse
from simverify.errors import UsageError

Way = Literal["small", "self-test", "trace", "live", "emitted"]
"""Instances small enough to be followed; the catalogue on them; recorded rows; a pair of real
models; tokens that another engine emitted.
"""

_SIZES = ("gamma", "vocab", "seconds", "max_paths", "max_samples")
_CODE = ("batch", "eos", "tolerance")
_MODELS = (
    "target", "draft", "prompts", "tokens", "temperature", "top_k", "top_p", "device", "dtype",
    "threads",
)  # fmt: skip
_EMITTED = ("samples", "max_tokens", "served_model", "keep", "ball")
_OWN = ("contract", "trace", "engine_path", "strict_probes")

_NOT_EMITTED = "{} is for tokens already emitted: name --outputs or --endpoint"

_REFUSED: dict[Way, tuple[tuple[tuple[str, ...], str], ...]] = {
    "emitted": (
        ((*_OWN, *_CODE, *_SIZES, "self_test"),
         "{} is not for emitted tokens: name --outputs alone"),
    ),
    "self-test": (
        ((*_OWN, *_CODE, *_MODELS),
         "--self-test takes no {}: every entry of the catalogue has its own"),
        (_EMITTED, _NOT_EMITTED),
    ),
    "trace": (
        ((*_CODE, *_SIZES, *_MODELS), "--trace takes no {}: its blocks are drafted already"),
        (_EMITTED, _NOT_EMITTED),
    ),
    "live": (
        (_EMITTED, _NOT_EMITTED),
        ((*_CODE, *_SIZES[1:]),
         "{} is not for real models: SPEC decodes --tokens of them, a block a call"),
    ),
    "small": (
        (_MODELS, "{} is for real models, or tokens already emitted: name --target too"),
        (_EMITTED, _NOT_EMITTED),
    ),
}  # fmt: skip


def chosen_way(given: Mapping[str, object]) -> Way:
    """Return the way that ``given`` asks for: the options by parameter name.

    Raises ``UsageError`` that names the first option which is not for it.
    """
    way = _way(given)
    spec = given["spec"]
    if way == "emitted" and spec is not None:
        raise UsageError("SPEC is not for emitted tokens: name --outputs alone")
    if way == "self-test" and spec is not None:
        raise UsageError(f"--self-test audits the catalogue: got SPEC {spec!r} too")
    for options, why in _REFUSED[way]:
        refuse({name: given[name] for name in options}, why)
    if way not in ("emitted", "self-test") and spec is None:
        raise UsageError("name what to audit, such as my_sampler.py:verify; see audit --help")
    if way == "trace" and given["contract"] == "step":
        raise UsageError("--trace takes no --contract step: its blocks are drafted already")
    return way


def _way(given: Mapping[str, object]) -> Way:
    if given["outputs"] is not None or given["endpoint"] is not None:
        return "emitted"
    if given["self_test"]:
        return "self-test"
    if given["trace"] is not None:
        return "trace"
    return "small" if given["target"] is None else "live"
