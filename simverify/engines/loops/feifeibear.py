"""LLMSpeculativeSampling: ``speculative_sampling`` (Google's) and ``_v2`` (DeepMind's), loops.

Its ``sample`` raises ``RuntimeError`` where token 0 is drawn. ``feifeibear-google`` and
``feifeibear-deepmind`` never draw it: ids are one higher; ``feifeibear-as-is`` does.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.pieces import load_function, load_names
from simverify.engines.loading.rows_model import Rows, RowsModel, prompt, shifted

HELPERS = ("norm_logits", "sample", "max_fn")
CACHE = "KVCacheModel"
NOTE = "the adapter makes ids one higher, as its code raises on token 0: see feifeibear-as-is"


def load(function: str, shift: int, path: Path) -> Callable[..., Any]:
    """Return a loop as a ``step`` callable on ids that are ``shift`` higher."""
    given = load_names(path.parent / "utils.py", HELPERS)
    given |= {"BloomForCausalLM": SimpleNamespace}
    cache = load_names(path.parent / "kvcache_model.py", [CACHE], **given)
    bar = nullcontext(SimpleNamespace(n=0, update=lambda _: None))
    rule = load_function(path, function, **given, **cache, tqdm=lambda **_: bar, Decoder=None)

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        moved = tuple(token + shift for token in prefix)
        models = (RowsModel(shifted(rows, shift), moved) for rows in (draft, target))
        ids = prompt(moved)
        tokens = rule(ids, *models, 1, gamma=gamma)[0, ids.shape[1] :]
        return [token - shift for token in tokens.tolist()]

    return step


def _engine(name: str, function: str, shift: int) -> Engine:
    return Engine(
        name=f"feifeibear-{name}",
        package="sampling",
        source="speculative_sampling.py",
        function=function,
        **LOOP,
        loader=partial(load, function, shift),
        note=NOTE if shift else "",
        repository="https://github.com/feifeibear/LLMSpeculativeSampling",
        commit="59a209d",
        parameters=("prefix", "approx_model", "target_model", "max_len", "gamma"),
    )


ENGINES = (
    _engine("google", "speculative_sampling", 1),
    _engine("deepmind", "speculative_sampling_v2", 1),
    _engine("as-is", "speculative_sampling", 0),
)
