"""Hierarchical Speculative Decoding: ``_speculative_sampling`` of its Transformers.

Three of its rules: backward and clever, which the paper calls lossless; block; token. Its file
mixes tabs and spaces, so that Python does not read it: tabs are taken for four columns here.
"""

from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.pieces import function_parameters, load_function
from simverify.errors import SimverifyError

FUNCTION, TAB = "_speculative_sampling", 4
RULES = {
    "clever": {"backward": True, "clever": True},
    "blockwise": {"blockwise": True},
    "tokenwise": {},
}


def load(options: dict[str, bool], path: Path) -> Verify:
    """Return the function with these options as a ``verify`` callable."""
    known = function_parameters(path, FUNCTION, tab=TAB)
    if missing := sorted({*options, "is_done_candidate", "stop"}.difference(known)):
        raise SimverifyError(f"{FUNCTION} of {path} takes no {', '.join(missing)}")
    rule = load_function(path, FUNCTION, tab=TAB)

    def verify(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        gamma, done = draft_tokens.shape[1], draft_len < 0
        never = lambda *_, **__: False  # noqa: E731
        return rule(draft_tokens, draft, gamma, target, done, stop=never, **options)[0]

    return as_verify(verify, Signature(arrays="torch", logits=True))


def _engine(name: str, options: dict[str, bool]) -> Engine:
    return Engine(
        name=f"hsd-{name}",
        package="transformers",
        source="generation/utils.py",
        function=FUNCTION,
        **BLOCK,
        loader=partial(load, options),
        repository="https://github.com/ZhouYuxuanYX/Hierarchical-Speculative-Decoding",
        commit="b8575e2",
    )


ENGINES = tuple(_engine(name, options) for name, options in RULES.items())
