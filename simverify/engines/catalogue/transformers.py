"""Transformers: ``_speculative_sampling``, Gemma 4 drafts, ``generate`` as a whole, lossy variants.

``generation.utils._speculative_sampling`` takes logits and draws from torch's global generator;
batch 1; since 4.37. Older releases (5.17 is one) also ask whether the draft ends the text, and the
oldest how many drafts may be kept.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, LOOP_DEFAULTS, Engine
from simverify.engines.extract import import_package, load_function, torch
from simverify.engines.fake_models import (
    IdTokenizer,
    RowsModel,
    loop_as_step,
    model_maker,
    without_weight_draws,
)

FUNCTION = "_speculative_sampling"
DRAFT_END_ARGUMENTS = ("is_done_candidate", "last_assistant_token_is_eos")
PARAMETERS = (
    "candidate_input_ids",
    "candidate_logits",
    "candidate_length",
    "new_logits",
)


def wrap_speculative_sampling(
    function: Any, *, dtype: str = "float64", **options: Any
) -> VerifyFunction:
    """Return Transformers' function itself, called with these options, as a ``verify`` callable.

    ``dtype``: of the logits, by torch's name.
    """
    parameters = inspect.signature(function).parameters
    options = {
        **options,
        **{name: False for name in DRAFT_END_ARGUMENTS if name in parameters},
    }

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        gamma = draft_tokens.shape[1]
        room = {"max_matches": gamma} if "max_matches" in parameters else {}
        return function(draft_tokens, draft, gamma, target, **options, **room)[0]

    return as_verify(sample, Signature(arrays="torch", dtype=dtype, logits=True))


def load_transformers(path: Path) -> VerifyFunction:
    """Return Transformers' function as a ``verify`` callable, in float64."""
    return wrap_speculative_sampling(load_transformers_function(path))


def load_transformers_function(path: Path) -> Any:
    """Return Transformers' function from the file where it lies."""
    return load_function(path, FUNCTION)


def make_engine(name: str, loader: Callable[[Path], Callable[..., Any]], **options: Any) -> Engine:
    """Return an engine of the function; ``options``: what its fields are besides."""
    given = {
        **BLOCK_DEFAULTS,
        "versions": ">=4.37,<6",
        "parameters": PARAMETERS,
        **options,
    }
    return Engine(
        name=name,
        package="transformers",
        source="generation/utils.py",
        function=FUNCTION,
        loader=loader,
        tolerance=1e-9,
        **given,
    )


ENGINES: tuple[Engine, ...] = (make_engine("transformers", load_transformers),)


# Drafts for Gemma 4: greedy, and reported as if they were sampled.
#
# Its own candidate generator drafts, its own rule judges. The assistant is a stand-in.


TESTED_FILES = ("generation/utils.py", "generation/candidate_generator.py")
GEMMA_CANDIDATE_GENERATOR = "SinglePositionMultiTokenCandidateGenerator"
GEMMA_NOTE = (
    "the assistant is a stand-in; in 5.22.2 to 5.24.0 the mistake is in get_candidates, "
    "whose drafts are greedy and reported as sampled: "
    "docs/reference/findings-servers.md"
)


class Gemma4AssistantStandIn:
    """An assistant that answers with the draft's rows; a token's embedding is 1 in its place."""

    def __init__(self, rows: RowsModel, ids: Sequence[int], settings: Any) -> None:
        self.rows, self.ids, self.generation_config = rows, list(ids[:-1]), settings
        self.device = torch.device("cpu")

    def __call__(self, inputs_embeds: Any, **_: Any) -> Any:
        """Return the row after one more token; the first that comes is the prompt's last."""
        self.ids.append(int(inputs_embeds[0, 0, : self.rows.vocab].argmax()))
        logits = self.rows.logits(self.ids, len(self.ids) - 1)
        return SimpleNamespace(logits=logits, last_hidden_state=torch.zeros(1, 1, 1))


def load_gemma(path: Path) -> Callable[..., Any]:
    """Return the generator, and the rule behind it, as a ``step`` callable."""
    library = import_package(path.parents[1], TESTED_FILES)
    drafters, rule = library.generation.candidate_generator, library.generation.utils
    made = getattr(drafters, GEMMA_CANDIDATE_GENERATOR)

    def loop(target: RowsModel, draft: RowsModel, ids: Any, gamma: int) -> Any:
        settings = library.GenerationConfig(max_length=1_000, num_assistant_tokens=gamma)
        assistant = Gemma4AssistantStandIn(draft, ids[0].tolist(), settings)
        ones = torch.nn.Embedding.from_pretrained(torch.eye(target.vocab))
        generator = made(assistant, ones, settings)
        before = SimpleNamespace(hidden_states=[torch.zeros(1, 1, 1)], shared_kv_states={})
        ids_drafted, q = generator.get_candidates(ids, {}, before, False, 0)
        p = target.logits(ids_drafted[0].tolist(), ids.shape[1] - 1)
        return rule._speculative_sampling(ids_drafted, q, gamma, p)[0][0]

    return loop_as_step(loop, counted=(rule._speculative_sampling, made))


ENGINES += (
    Engine(
        name="hf-argmax-raw-q",
        package="transformers",
        loader=load_gemma,
        note=GEMMA_NOTE,
        whole=True,
        source="generation/candidate_generator.py",
        function=f"{GEMMA_CANDIDATE_GENERATOR}.get_candidates",
        contract="step",
        tier="exact",
        tolerance=1e-9,
        versions=">=5.22,<6",
        needs=("torch",),
        parameters=("input_ids", "model_kwargs", "model_outputs", "is_first_iteration"),
    ),
)


# The whole ``generate``, sampled, with three ways to draft.
#
# With an assistant model; with n-grams of the prompt, in which every token stands once; and with an
# assistant that has one word more than the target, and lists its words in another order. It is
# asked for gamma + 1 tokens, in as many rounds as that takes, at temperature 2 of doubled logits.


CANDIDATE_GENERATORS = {
    "generate": "AssistedCandidateGenerator",
    "lookup": "PromptLookupCandidateGenerator",
    "universal": "UniversalSpeculativeDecodingGenerator",
}


def load_generate(way: str, path: Path) -> Callable[..., Any]:
    """Return ``generate`` in one of its ways as a ``step`` callable."""
    library = import_package(path.parents[1], TESTED_FILES)
    made, drafters = model_maker(library), library.generation.candidate_generator

    @functools.cache
    def pair(size: int) -> Any:
        lead = torch.arange(size if way == "lookup" else 0)[None]
        more, words = (
            way == "universal",
            (IdTokenizer(range(size)), IdTokenizer(range(size, -1, -1))),
        )
        with without_weight_draws():
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

    counted = (
        library.GenerationMixin._assisted_decoding,
        getattr(drafters, CANDIDATE_GENERATORS[way]),
    )
    return loop_as_step(loop, partial(RowsModel, temperature=2.0), counted)


GENERATE_NOTE = (
    "in 5.22.2 to 5.24.0 the mistake is in get_target_logits of candidate_generator.py, far "
    "before the line named here: docs/reference/findings-servers.md"
)
ENGINES += tuple(
    Engine(
        name=f"transformers-{way}",
        package="transformers",
        source="generation/utils.py",
        function="GenerationMixin.generate",
        loader=partial(load_generate, way),
        versions=">=5.22,<6",
        parameters=("inputs", "assistant_model", "kwargs"),
        whole=True,
        **{**LOOP_DEFAULTS, "vocab": 2},
        note=GENERATE_NOTE if way == "universal" else "",
    )
    for way in CANDIDATE_GENERATORS
)


# The function with its own option, as an ensemble of target and draft: lossy by design.
#
# ``hf-ensemble-0.9`` and ``hf-ensemble-0.99`` are so by a known amount. With v = w p + (1-w) q its
# acceptance is min(1, v/q), and the residual (v - q)+ normalises to (p - q)+: speculative sampling
# of v, and TV(v, p) = (1 - w) TV(p, q), a dose of known size.


def load_ensemble(weight: float, path: Path) -> VerifyFunction:
    """Return its function with an ensemble weight."""
    return wrap_speculative_sampling(
        load_transformers_function(path), assistant_ensemble_weight=weight
    )


def _make_ensemble_engine(weight: float) -> Engine:
    known = {
        "versions": ">=5.23,<6",
        "parameters": (*PARAMETERS, "assistant_ensemble_weight"),
    }
    note = "called with the option assistant_ensemble_weight, which is lossy by design"
    return make_engine(
        f"hf-ensemble-{weight:g}", partial(load_ensemble, weight), note=note, **known
    )


ENGINES += (
    _make_ensemble_engine(0.9),
    _make_ensemble_engine(0.99),
)
