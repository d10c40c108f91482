"""Transformers' whole ``generate``, sampled, with what it drafts from: three of its ways.

With an assistant model; with n-grams of the prompt, in which every token stands once; and with an
assistant that has one word more than the target, and lists its words in another order. It is asked
for gamma + 1 tokens, in as many rounds as that takes, at temperature 2 of doubled logits.
"""

import functools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from simverify.engines.base import LOOP, Engine
from simverify.engines.loading.causal_lm import Words, model_maker, undrawn
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.packages import import_package
from simverify.engines.loading.rows_model import RowsModel
from simverify.engines.loading.stubs import torch

ON_TRIAL = ("generation/utils.py", "generation/candidate_generator.py")
GENERATORS = {"generate": "AssistedCandidateGenerator", "lookup": "PromptLookupCandidateGenerator",
              "universal": "UniversalSpeculativeDecodingGenerator"}  # fmt: skip


def load(way: str, path: Path) -> Callable[..., Any]:
    """Return ``generate`` in one of its ways as a ``step`` callable."""
    library = import_package(path.parents[1], ON_TRIAL)
    made, drafters = model_maker(library), library.generation.candidate_generator

    @functools.cache
    def pair(size: int) -> Any:
        lead = torch.arange(size if way == "lookup" else 0)[None]
        more, words = way == "universal", (Words(range(size)), Words(range(size, -1, -1)))
        with undrawn():
            model, assistant = made(size, lead.shape[1]), made(size + more)
            if more:
                drafters.AssistantVocabTranslatorCache.get_translator(*words, size, assistant, True)
        named = dict(zip(("tokenizer", "assistant_tokenizer"), words, strict=True)) if more else {}
        return model, assistant, lead, {"assistant_model": assistant, **named}

    def loop(target: RowsModel, draft: RowsModel, ids: Any, gamma: int) -> Any:
        model, assistant, lead, options = pair(target.vocab)
        model.table, assistant.table = target, draft
        assistant.generation_config.num_assistant_tokens = gamma
        options = {"prompt_lookup_num_tokens": gamma} if way == "lookup" else options
        options |= {"do_sample": True, "top_k": 0, "temperature": 2.0, "max_new_tokens": gamma + 1}
        return model.generate(torch.cat([lead, ids], dim=1), **options)[:, lead.shape[1] :]

    counted = library.GenerationMixin._assisted_decoding, getattr(drafters, GENERATORS[way])
    return as_step(loop, partial(RowsModel, temperature=2.0), counted)


_NOTE = ("in 5.22.2 to 5.24.0 the mistake is in get_target_logits of candidate_generator.py, far "
         "before the line named here: docs/reference/findings-servers.md")  # fmt: skip
ENGINES = tuple(
    Engine(name=f"transformers-{way}", package="transformers", source="generation/utils.py",
           function="GenerationMixin.generate", loader=partial(load, way), versions=">=5.22,<6",
           parameters=("inputs", "assistant_model", "kwargs"), whole=True, **{**LOOP, "vocab": 2},
           note=_NOTE if way == "universal" else "")
    for way in GENERATORS
)  # fmt: skip
