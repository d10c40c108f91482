"""Hierarchical Speculative Decoding: ``_speculative_sampling`` of its Transformers.

Three of its rules: backward and clever, which the paper calls lossless; block; token. Its file
mixes tabs and spaces, so that Python does not read it: tabs are taken for four columns here.
"""

from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import function_parameters, load_function
from simverify.errors import SimverifyError

HSD_FUNCTION, HSD_TAB_SIZE = "_speculative_sampling", 4
HSD_RULE_OPTIONS = {
    "clever": {"backward": True, "clever": True},
    "blockwise": {"blockwise": True},
    "tokenwise": {},
}


def load_hsd(options: dict[str, bool], path: Path) -> VerifyFunction:
    """Return the function with these options as a ``verify`` callable."""
    known = function_parameters(path, HSD_FUNCTION, tab=HSD_TAB_SIZE)
    if missing := sorted({*options, "is_done_candidate", "stop"}.difference(known)):
        raise SimverifyError(f"{HSD_FUNCTION} of {path} takes no {', '.join(missing)}")
    rule = load_function(path, HSD_FUNCTION, tab=HSD_TAB_SIZE)

    def verify(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        gamma, done = draft_tokens.shape[1], draft_len < 0
        never = lambda *_, **__: False  # noqa: E731
        return rule(draft_tokens, draft, gamma, target, done, stop=never, **options)[0]

    return as_verify(verify, Signature(arrays="torch", logits=True))


def _make_hsd_engine(name: str, options: dict[str, bool]) -> Engine:
    return Engine(
        name=f"hsd-{name}",
        package="transformers",
        source="generation/utils.py",
        function=HSD_FUNCTION,
        **BLOCK_DEFAULTS,
        loader=partial(load_hsd, options),
        repository="https://github.com/ZhouYuxuanYX/Hierarchical-Speculative-Decoding",
        commit="b8575e2",
    )


ENGINES = tuple(_make_hsd_engine(name, options) for name, options in HSD_RULE_OPTIONS.items())
