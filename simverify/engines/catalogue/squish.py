"""squish: ``SpeculativeGenerator._stateless_spec_stream``, a stream in numpy.

It is asked for gamma + 1 tokens, and takes as many rounds as that needs. The two functions that
run mlx are rows here.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import LOOP_DEFAULTS, Engine
from simverify.engines.extract import load_function
from simverify.engines.fake_models import BOS_TOKEN, RowFunction, RowsModel

SQUISH_METHOD = "_stateless_spec_stream"


def load_squish(path: Path) -> Callable[..., Any]:
    """Return the method as a ``step`` callable."""
    given: dict[str, Any] = {
        "logger": SimpleNamespace(debug=lambda *_: None),
        "_get_logits": lambda model, ids: model.logits(ids)[0, -1].numpy(),
        "_get_all_logits": lambda model, ids, n: model.logits(ids)[0, -n:].numpy(),
    }
    rule = load_function(path, f"SpeculativeGenerator.{SQUISH_METHOD}", **given)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        generator = SimpleNamespace(
            _draft=RowsModel(draft, prefix),
            _target=RowsModel(target, prefix),
            _k=gamma,
            accepted_total=0,
            proposed_total=0,
            steps=0,
            acceptance_rate=0.0,
            _tok_text=int,
            _update_fsm=lambda *_: None,
        )
        stream = rule(generator, [BOS_TOKEN, *prefix], gamma + 1, 1.0, 1.0, [], -1)
        return [token for token, _ in stream]

    return step


ENGINES = (
    Engine(
        name="squish",
        package="squish",
        source="speculative/speculative.py",
        function=f"SpeculativeGenerator.{SQUISH_METHOD}",
        **LOOP_DEFAULTS,
        loader=load_squish,
        repository="https://github.com/konjoai/squish",
        commit="4dd6f62",
        parameters=("ids", "max_tokens", "temperature", "top_p", "stop_ids", "eos_id"),
    ),
)
