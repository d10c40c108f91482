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

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function, load_names
from simverify.engines.fake_models import RowFunction, RowsModel, make_prompt, shift_rows

FEIFEIBEAR_HELPERS = ("norm_logits", "sample", "max_fn")
FEIFEIBEAR_CACHE_CLASS = "KVCacheModel"
FEIFEIBEAR_NOTE = (
    "the adapter makes ids one higher, as its code raises on token 0: see feifeibear-as-is"
)


def load_feifeibear(function: str, shift: int, path: Path) -> Callable[..., Any]:
    """Return a loop as a ``step`` callable on ids that are ``shift`` higher."""
    given = load_names(path.parent / "utils.py", FEIFEIBEAR_HELPERS)
    given |= {"BloomForCausalLM": SimpleNamespace}
    cache = load_names(path.parent / "kvcache_model.py", [FEIFEIBEAR_CACHE_CLASS], **given)
    bar = nullcontext(SimpleNamespace(n=0, update=lambda _: None))
    rule = load_function(path, function, **given, **cache, tqdm=lambda **_: bar, Decoder=None)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        context = tuple(token + shift for token in prefix)
        models = (RowsModel(shift_rows(rows, shift), context) for rows in (draft, target))
        ids = make_prompt(context)
        tokens = rule(ids, *models, 1, gamma=gamma)[0, ids.shape[1] :]
        return [token - shift for token in tokens.tolist()]

    return step


def _make_feifeibear_engine(name: str, function: str, shift: int) -> Engine:
    return Engine(
        name=f"feifeibear-{name}",
        package="sampling",
        source="speculative_sampling.py",
        function=function,
        **LOOP_DEFAULTS,
        loader=partial(load_feifeibear, function, shift),
        note=FEIFEIBEAR_NOTE if shift else "",
        repository="https://github.com/feifeibear/LLMSpeculativeSampling",
        commit="59a209d",
        parameters=("prefix", "approx_model", "target_model", "max_len", "gamma"),
    )


ENGINES = (
    _make_feifeibear_engine("google", "speculative_sampling", 1),
    _make_feifeibear_engine("deepmind", "speculative_sampling_v2", 1),
    _make_feifeibear_engine("as-is", "speculative_sampling", 0),
)
